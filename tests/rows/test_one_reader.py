"""A lake, cut anywhere, reads a file as `open_table` does: the same rows, the same faults."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("pyarrow")

from roberta_hub.errors import InputError
from roberta_hub.rows.formats import RowTexts
from roberta_hub.rows.tables import open_table
from roberta_hub.rows.values import Fault
from roberta_hub.scale.reading import read_unit
from roberta_hub.scale.source_schema import find_schema
from roberta_hub.scale.sources import find_source
from roberta_hub.scale.units import plan_units

Found = list[tuple[int, str]]
CELLS = st.sampled_from(
    ["a", "é", " ", '"', '""', ",", ";", "\t", "\n", "\r\n", "\r", "\0", "\xff"]
)
HEADS = st.sampled_from(
    ["text,n\n", "\n text ,\n", "sep=;\ntext;n\n", '"text",n\r\n', "\ufefftext\n"]
)
OBJECTS = st.sampled_from(
    ['{"text": "é"}', '{"text": null}', '{"text": NaN}', "{}", "[1]", '{"text"', " ", "", "\xff"]
)
FEW = settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])


def written(path: Path, text: str) -> Path:
    """The text as UTF-8, but for ÿ, which becomes a byte that is not."""
    path.write_bytes(text.encode().replace("\xff".encode(), b"\xff"))
    return path


def as_table(path: Path) -> Found:
    table = open_table(path)
    return [
        (n, row.why if isinstance(row, Fault) else said(table.format.texts_of(row, ["text"])))
        for n, row in table.read()
    ]


def said(text: RowTexts) -> str:
    return text.why if isinstance(text, Fault) else f"the text {text}"


def as_lake(path: Path, unit_rows: int) -> Found:
    source = find_source(path)
    layout = find_schema(source, ("text",), [])
    batches = [
        batch
        for unit in plan_units(source, layout, unit_rows)
        for batch in read_unit(source, layout, unit)
    ]
    return [
        (n, said(text))
        for batch in batches
        for n, text in zip(batch.numbers, batch.texts, strict=True)
    ]


@pytest.mark.system
@FEW
@given(HEADS, st.lists(CELLS, max_size=40).map("".join), st.integers(1, 4))
def test_csv(tmp_path: Path, head: str, body: str, unit_rows: int) -> None:
    path = written(tmp_path / "in.csv", head + body)
    wanted = as_table(path)
    if any("never closed" in str(row) for _, row in wanted):  # a lake cannot cut behind it
        with pytest.raises(InputError, match="never closed"):
            as_lake(path, unit_rows)
    else:
        assert as_lake(path, unit_rows) == wanted


@pytest.mark.system
@FEW
@given(st.lists(OBJECTS, max_size=12).map("\n".join), st.integers(1, 4))
def test_jsonl(tmp_path: Path, body: str, unit_rows: int) -> None:
    path = written(tmp_path / "in.jsonl", '{"text": "first"}\n' + body)
    wanted = as_table(path)
    assert as_lake(path, unit_rows) == wanted

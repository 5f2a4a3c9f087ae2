"""What is missing is missing to all that read a table: each such value, in every place."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from small_models import small_roberta

from roberta_hub import RobertaHubInterface
from roberta_hub.errors import Advice, InputError, InputTypeError
from roberta_hub.rows.formats import FRAME, Missing
from roberta_hub.rows.tables import table_of
from roberta_hub.rows.values import is_blank, is_missing
from roberta_hub.train.data.pairs import read_pairs
from roberta_hub.train.data.sentences import read_sentences
from roberta_hub.train.data.streams import read_documents
from roberta_hub.train.fitting.examples import read_examples

np, pa, pd = (pytest.importorskip(name) for name in ("numpy", "pyarrow", "pandas"))
pq = pytest.importorskip("pyarrow.parquet")

MISSING: dict[str, Any] = {
    "None": None,
    "NaN": float("nan"),
    "float16": np.float16("nan"),
    "float32": np.float32("nan"),
    "float64": np.float64("nan"),
    "longdouble": np.longdouble("nan"),
    "Decimal": Decimal("nan"),
    "a signalling Decimal": Decimal("sNaN"),
    "pandas' NA": pd.NA,
    "pandas' NaT": pd.NaT,
    "numpy's NaT": np.datetime64("NaT"),
    "Arrow's null": pa.scalar(None, pa.string()),
}
THERE: list[Any] = ["", " ", "nan", "NA", "null", 0, 0.0, float("inf"), Decimal(1), False, [], {}]
THERE += [np.float32(1), np.datetime64("2020"), np.array([np.nan]), pa.scalar("a"), b"", object()]
KINDS = pytest.mark.parametrize("value", MISSING.values(), ids=MISSING)


@pytest.fixture(scope="module")
def roberta() -> RobertaHubInterface:
    return small_roberta(heads={"mood": 2})


@pytest.fixture(scope="module")
def model(roberta: RobertaHubInterface, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    roberta.save(folder)
    return folder


@KINDS
def test_a_cell_is_missing(value: Any) -> None:
    assert is_missing(value) is True and is_blank(value) is True
    assert FRAME.text(value, "text") == Missing("nothing in the column 'text'")


@pytest.mark.parametrize("value", THERE, ids=[repr(value).partition(" at ")[0] for value in THERE])
def test_a_cell_is_there(value: Any) -> None:
    assert is_missing(value) is False
    assert is_blank(value) is (isinstance(value, str) and not value.strip())


@KINDS
def test_verbs_say_that_a_text_is_missing(roberta: RobertaHubInterface, value: Any) -> None:
    column = pd.Series(["A dog ran.", value], dtype=object)
    for texts in (["A dog ran.", value], column):
        with pytest.raises(InputTypeError, match=r"texts\[1\]: missing"):
            roberta.classify(texts)
    several = ["A dog ran.", value, *["a"] * 3, *[value] * 6]
    said = r"texts\[1\]: missing \(a .*\), and so are texts\[5\], texts\[6\], texts\[7\], "
    for verb in (roberta.classify, roberta.tag, roberta.score, roberta.embed):
        with pytest.raises(InputTypeError, match=said + r"texts\[8\] and 2 more; drop such rows"):
            verb(several)
    with pytest.raises(InputTypeError, match=r"texts\[0\]: its sentence 1 is missing"):
        roberta.embed([("A dog ran.", value)])


@KINDS
def test_a_verb_on_a_table_answers_null(model: Path, value: Any) -> None:
    from roberta_hub.scale import Verb

    verb = Verb("classify", model)
    texts = ["A dog ran.", value]
    frame = pd.DataFrame({"text": pd.Series(texts, dtype=object)})
    for table in ({"text": texts}, frame):
        with pytest.warns(Advice, match="1 row of the table without a text: 1; their answers"):
            found = list(verb(table)["label"])
        assert isinstance(found[0], str) and is_missing(found[1])
    pairs = {"a": texts, "b": ["It ran."] * 2}
    embed = Verb("embed", model, text=["a", "b"], errors="column")
    assert embed(pairs)["vector"][1] is None
    assert embed(pairs)["error"] == [None, "nothing in the column 'a'"]


@KINDS
def test_fit_leaves_the_row_out(value: Any) -> None:
    rows = [{"text": f"some words {i}", "label": "ab"[i % 2]} for i in range(12)]
    for column in ("text", "label"):
        holes = [dict(row) for row in rows]
        holes[3][column] = value
        frame = pd.DataFrame(
            {name: pd.Series([r[name] for r in holes], dtype=object) for name in ("text", "label")}
        )
        for table in (holes, frame):
            notes = [note for note in read_examples(table, valid=0.25).notes if "left out" in note]
            assert notes == [f"1 row without a {column} left out, first table:4"]
    several = [{"text": f"some words {i}", "label": ["a", "b"][: i % 3]} for i in range(12)]
    several[3]["label"] = value
    for task in (None, "multi_label"):  # of lists an empty one says that there is none
        notes = [n for n in read_examples(several, task=task).notes if "left out" in n]
        assert notes == ["1 row without a label left out, first table:4"]
    joined = [{**row, "label": ", ".join(row["label"] or ())} for row in several[:3] * 4]
    joined[5]["label"] = value
    notes = read_examples(joined, separator=",").notes
    plain = value.tolist() if hasattr(value, "tolist") else value
    if plain is None:
        assert "1 row without a label left out, first table:6" in notes
    else:  # what pandas makes of an empty cell, in which text is no label
        assert any(note.startswith("5 rows with an empty cell are learnt as") for note in notes)


@KINDS
def test_a_row_has_nothing_there(value: Any) -> None:
    (row,) = table_of([{"text": value, "n": 1}]).rows()
    for read in (row.value, row.text):
        with pytest.raises(InputError, match="table:1: nothing in the column 'text'; drop"):
            read("text")


def test_a_lake_reads_null(tmp_path: Path) -> None:
    """Arrow's null in each kind of column of texts, and NaN, which Python's JSON writes."""
    from roberta_hub.scale.reading import read_unit
    from roberta_hub.scale.source_schema import find_schema
    from roberta_hub.scale.sources import find_source
    from roberta_hub.scale.units import plan_units

    text = pa.array(["A dog ran.", None])
    kinds = [text, text.cast(pa.large_string()), text.dictionary_encode(), pa.nulls(2)]
    for k, column in enumerate(kinds):
        pq.write_table(pa.table({"text": column}), tmp_path / f"{k}.parquet")
    (tmp_path / "in.jsonl").write_text('{"text": "A dog ran."}\n{"text": NaN}\n{"text": null}\n')
    for name, holes in (("*.parquet", 5), ("in.jsonl", 2)):
        source = find_source(tmp_path / name)
        layout = find_schema(source, (), None)
        batches = [
            b for unit in plan_units(source, layout, 9) for b in read_unit(source, layout, unit)
        ]
        texts = [text for batch in batches for text in batch.texts]
        missing = Missing("nothing in the column 'text'")
        assert set(texts) == {"A dog ran.", missing} and texts.count(missing) == holes
        kept = [t for batch in batches for t in batch.kept.column("text").to_pylist()]
        assert [None if text == missing else text for text in texts] == kept


ROWS = [("a", "b"), (None, "b"), ("c", "d"), ("NaN", "b")]
"""Sentence and label; the second sentence is missing, and the last is a word."""


def write_holes(path: Path) -> Path:
    """Write `ROWS` in the format that a name says."""
    if path.suffix == ".parquet":
        pq.write_table(
            pa.table({"sentence": [a for a, _ in ROWS], "label": [b for _, b in ROWS]}), path
        )
    elif path.suffix == ".jsonl":
        lines = [json.dumps({"sentence": a, "label": b}) for a, b in ROWS]
        path.write_text("\n".join([*lines[:1], lines[1].replace("null", "NaN"), *lines[2:]]))
    else:
        tab = "," if path.suffix == ".csv" else "\t"
        path.write_text(
            "\n".join(tab.join((a or "", b)) for a, b in [("sentence", "label"), *ROWS])
        )
    return path


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet"])
def test_a_missing_text_is_missing_in_every_format(ending: str, tmp_path: Path) -> None:
    """To training, `fit`, corpora, pairs and the shell: an empty cell is null, NaN is a word."""
    path = write_holes(tmp_path / f"x.{ending}")
    header = ending in ("csv", "tsv")
    where = f"{path}:{2 + header}"
    counted = rf"1 row without a text left out, first .*x\.{ending}:{2 + header}"
    looks = r"1 text looks missing \(NaN, null, blank\) and is taken as written, first "
    with pytest.warns(UserWarning, match=counted), pytest.warns(UserWarning, match=looks):
        found = read_sentences(path)
    assert [example.text for example in found] == ["a", "c", "NaN"]
    with pytest.warns(UserWarning, match=counted), pytest.warns(UserWarning, match=looks):
        assert [pair.texts for pair in read_pairs(path)] == [("a",), ("c",), ("NaN",)]
    with pytest.warns(UserWarning, match=counted), pytest.warns(UserWarning, match=looks):
        assert list(read_documents(path, "sentence")) == [["a"], ["c"], ["NaN"]]
    notes = read_examples(path).notes
    assert f"1 row without a text left out, first x.{ending}:{2 + header}" in notes
    assert sum("1 text looks missing" in note for note in notes) == 1
    from roberta_hub.shell.reading import Parts, open_source

    items = list(open_source(str(path), ["sentence"], Parts()).items)
    assert [item.texts for item in items if item] == [("a",), (), ("c",), ("NaN",)]
    assert items[1] is not None and items[1].where == where
    assert items[1].fault == Missing("nothing in the column 'sentence'")

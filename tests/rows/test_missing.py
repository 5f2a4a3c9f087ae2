"""What is missing is missing to all that read a table: each such value, in every place."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from small_models import small_roberta

from roberta_hub import RobertaHubInterface
from roberta_hub.errors import InputError, InputTypeError
from roberta_hub.rows.tables import table_of
from roberta_hub.rows.values import is_blank, is_missing, text_in
from roberta_hub.train.data.sentences import read_sentences
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
    assert is_missing(value) is True and is_blank(value) is True and text_in(value, "text") is None


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
    with pytest.raises(InputTypeError, match=r"texts\[0\]: its sentence 1 is missing"):
        roberta.embed([("A dog ran.", value)])


@KINDS
def test_a_verb_on_a_table_answers_null(model: Path, value: Any) -> None:
    from roberta_hub.scale import Verb

    verb = Verb("classify", model)
    texts = ["A dog ran.", value]
    frame = pd.DataFrame({"text": pd.Series(texts, dtype=object)})
    for table in ({"text": texts}, frame):
        found = list(verb(table)["label"])
        assert isinstance(found[0], str) and is_missing(found[1])
    pairs = {"a": texts, "b": ["It ran."] * 2}
    assert Verb("embed", model, text=["a", "b"])(pairs)["vector"][1] is None


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
        assert set(texts) == {"A dog ran.", None} and texts.count(None) == holes
        assert texts == [t for batch in batches for t in batch.kept.column("text").to_pylist()]


def test_training_and_the_shell_name_the_row(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"sentence": "a", "label": "b"}\n{"sentence": NaN, "label": "b"}\n')
    with pytest.raises(InputError, match=r"x\.jsonl:2: nothing in the column 'sentence'"):
        read_sentences(path)
    from roberta_hub.shell.reading import Parts, from_file

    with pytest.raises(InputError, match=r"x\.jsonl:2: nothing in the column 'sentence'"):
        list(from_file(str(path), ["sentence"], Parts()))

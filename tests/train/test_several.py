"""Several labels are read however a table writes them, and what looks like several is said."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from learning import parquet

from roberta_hub.errors import InputError, InputTypeError, UnknownNameError
from roberta_hub.rows.columns import flag_columns, shell_list
from roberta_hub.rows.tables import table_of
from roberta_hub.shell.options import parse_list as shell_listed
from roberta_hub.train.fitting.examples import Examples, read_examples
from roberta_hub.train.fitting.learning_options import LearningOptions
from roberta_hub.train.fitting.model_card import fit_command
from roberta_hub.train.settings import Config

pytestmark = pytest.mark.filterwarnings("ignore:.*rows are few to learn from")
LISTS = [["art", "new york, ny"], [], ["sport"], ["art", "sport"], ["new york, ny"]] * 4
WANTED = [tuple(sorted(labels)) for labels in LISTS]


def rows(cells: list[Any]) -> list[dict[str, Any]]:
    return [{"text": f"some words {i}", "label": cell} for i, cell in enumerate(cells)]


def by_row(found: Examples) -> list[tuple[str, ...]]:
    """Labels of all rows in the order of the table."""
    every = sorted((*found.train, *found.valid), key=lambda e: int(str(e.text).split()[-1]))
    return [example.labels for example in every]


def frame(cells: list[Any]) -> Any:
    pandas = pytest.importorskip("pandas")
    texts = [row["text"] for row in rows(cells)]
    return pandas.DataFrame({"text": texts, "label": pandas.Series(cells, dtype=object)})


def read(cells: list[Any], **options: Any) -> Examples:
    return read_examples(rows(cells), **options)


def noted(found: Examples, words: str) -> bool:
    return any(words in note for note in found.notes)


# ---- lists ----


@pytest.mark.parametrize("kind", ["list", "tuple", "set", "frozenset", "array", "objects"])
def test_lists_of_every_kind_in_memory(kind: str) -> None:
    make: dict[str, Any] = {
        "list": list,
        "tuple": tuple,
        "set": set,
        "frozenset": frozenset,
        "array": np.array,
        "objects": lambda labels: np.array(labels, dtype=object),
    }
    cells = [make[kind](labels) for labels in LISTS]
    for table in (rows(cells), frame(cells), {"text": frame(cells)["text"], "label": cells}):
        found = read_examples(table)
        assert found.task == "multi_label" and by_row(found) == WANTED


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "polars", "pyarrow"])
def test_lists_in_files_and_frames(tmp_path: Path, kind: str) -> None:
    if kind == "jsonl":
        path = tmp_path / "x.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows(LISTS)))
        table: Any = path
    elif kind == "parquet":
        table = parquet(tmp_path / "x.parquet", rows(LISTS))
    else:
        columns = {"text": [row["text"] for row in rows(LISTS)], "label": LISTS}
        package = pytest.importorskip(kind)
        table = package.table(columns) if kind == "pyarrow" else package.DataFrame(columns)
    assert by_row(read_examples(table)) == WANTED


@pytest.mark.parametrize("kind", ["list", "tuple", "set", "array", "str_", "json"])
@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_what_pandas_writes_into_a_csv(tmp_path: Path, kind: str, suffix: str) -> None:
    make: dict[str, Any] = {
        "list": list,
        "tuple": tuple,
        "set": set,
        "array": lambda labels: np.array(labels, dtype=object),
        "str_": lambda labels: [np.str_(label) for label in labels],
        "json": json.dumps,
    }
    path = tmp_path / f"x.{suffix}"
    cells = [make[kind](labels) for labels in LISTS]
    separator = "," if suffix == "csv" else "\t"
    frame(cells).to_csv(path, index=False, sep=separator)
    found = read_examples(path)
    assert found.task == "multi_label" and by_row(found) == WANTED
    assert [n for n in found.notes if "few" not in n] == []
    assert (
        by_row(read_examples(pytest.importorskip("pandas").read_csv(path, sep=separator))) == WANTED
    )


def test_whole_numbers_and_truth_values_in_lists() -> None:
    found = read([[1.0, 2], np.array([2, 3]), [np.int64(1)], [True]] * 5)
    assert by_row(found)[:4] == [("1", "2"), ("2", "3"), ("1",), ("true",)]


def test_a_null_is_not_learnt_and_an_empty_list_is() -> None:
    for cells in (LISTS, [str(labels) for labels in LISTS]):
        found = read([None, *cells, "", float("nan")])
        assert noted(found, "3 rows without a label left out, first table:1")
        assert len(found.train) + len(found.valid) == len(LISTS)
        assert by_row(found).count(()) == 4


def test_a_column_that_is_half_of_lists() -> None:
    cells: list[Any] = ["['a']", "['b', 'a']", "[]", "['b']"] * 5
    few = [*cells, "new york"]
    found = read(few)
    assert found.task == "multi_label" and by_row(found)[-1] == ("new york",)
    assert noted(found, "1 row with another text are one label each, first table:21 ('new york')")
    half = [*cells, *["plain", "other"] * 6]
    with pytest.raises(InputError, match="table:21: label is 'plain', and most other cells are"):
        read(half)
    assert read(half, task="classification").classes[-1] == "plain"
    with pytest.raises(InputError, match="table:21: label is 'plain'"):
        read(half, task="multi_label")
    rare = [*["plain", "other"] * 20, "['a']", "['a']"]
    found = read(rare)
    assert found.task == "classification" and "['a']" in found.classes
    assert noted(found, "2 rows with the text of a list are one label each")


def test_brackets_alone_make_no_list() -> None:
    found = read(["[music]", "[noise]"] * 10)
    assert (found.task, found.classes) == ("classification", ("[music]", "[noise]"))


def test_a_list_among_texts_is_read_as_such_and_the_texts_as_one_label_each() -> None:
    found = read([["a", "b"], "c, d", ["a"], "c, d"] * 5)
    assert found.classes == ("a", "b", "c, d")


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        (["a", None], "table:21: the label is missing"),
        (["a", ""], "table:21: the label is empty"),
        ([["a"], ["b"]], "table:21: the label is a list, not text or a number"),
        (["a\nb"], "table:21: label 'a\\nb' holds U+000A"),
        ({"a": "often"}, "table:21: label has 'a': 'often'; a dict of labels says true or false"),
        ({"a": float("inf")}, "table:21: label has 'a': inf; a dict"),
        ({"a": [1]}, "table:21: label has 'a': [1]; a dict"),
    ],
)
def test_what_is_no_label(cell: Any, words: str) -> None:
    with pytest.raises(InputError) as caught:
        read([*LISTS, cell])
    assert str(caught.value).startswith(words)


def test_lists_of_zeros_and_ones_have_no_names() -> None:
    with pytest.raises(InputError, match=r"table:1: label is \[0, 1, 0\], a list of 3 zeros and"):
        read([[0, 1, 0], [1, 1, 0]] * 10)
    assert read([[0, 1], [1, 0]] * 10).classes == ("0", "1")  # which may be names


# ---- dicts ----


@pytest.mark.parametrize("kind", ["memory", "jsonl", "parquet", "csv"])
def test_dicts_of_spacy_and_prodigy(tmp_path: Path, kind: str) -> None:
    names = sorted({label for labels in LISTS for label in labels})
    yes, no = (True, False) if kind != "csv" else (1.0, 0.0)
    cells = [{name: yes if name in labels else no for name in names} for labels in LISTS]
    made: list[dict[str, Any]] = [
        {"text": row["text"], "cats": row["label"]} for row in rows(cells)
    ]
    table: Any = made
    if kind == "jsonl":
        table = tmp_path / "x.jsonl"
        table.write_text("".join(json.dumps(row) + "\n" for row in made))
    elif kind == "parquet":
        table = parquet(tmp_path / "x.parquet", made)
    elif kind == "csv":
        table = tmp_path / "x.csv"
        frame(cells).rename(columns={"label": "cats"}).to_csv(table, index=False)
    found = read_examples(table)
    assert (found.task, found.label) == ("multi_label", "cats") and by_row(found) == WANTED


def test_a_dict_of_numbers_is_decided_at_a_half() -> None:
    cells = [{"a": 0.7, "b": 0.2, "c": 0}, {"a": 0.5, "b": 3}, {}, {"a": None, "b": None}]
    found = read(cells * 5)
    assert by_row(found)[:3] == [("a",), ("a", "b"), ()]
    assert noted(found, "5 rows without a label left out, first table:4")  # Parquet's null
    assert noted(found, "other than 0 and 1 in 10 rows, first table:1; 0.5 and more is a yes")
    assert noted(found, "1 of the labels in no row, not learnt: c")


# ---- a column for each label ----

FLAGS = [
    {"comment": f"some words {i}", "toxic": toxic, "threat": threat, "id": i}
    for i, (toxic, threat) in enumerate([("1", "0"), ("0", "no"), (True, 1.0), ("Yes", "true")] * 5)
]


def test_columns_of_zeros_and_ones() -> None:
    found = read_examples(FLAGS, label=["toxic", "threat"])
    assert (found.task, found.label) == ("multi_label", "toxic, threat")
    assert found.labels_from == ("toxic", "threat")
    assert by_row(found)[:4] == [("toxic",), (), ("threat", "toxic"), ("threat", "toxic")]
    assert found.summary().splitlines()[0] == "table: 20 texts (comment), labels: toxic, threat"
    one = read_examples(FLAGS, label=["toxic"])
    assert one.task == "classification" and one.label == "toxic"


def test_an_empty_cell_among_them_and_what_is_neither() -> None:
    holes = [dict(row) for row in FLAGS]
    holes[3]["threat"], holes[5]["toxic"] = "", None
    found = read_examples(holes, label=("toxic", "threat"))
    assert noted(found, "2 rows without a label left out, first table:4")
    assert len(found.train) + len(found.valid) == 18
    holes[7]["threat"] = "maybe"
    with pytest.raises(InputError, match="table:8: threat is 'maybe'; a column that is a label"):
        read_examples(holes, label=["toxic", "threat"])


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"label": ["toxic", "thread"]}, UnknownNameError, "no column 'thread'; did you mean thr"),
        ({"label": ["toxic", "toxic"]}, InputError, "each label is another column"),
        ({"label": ["toxic", "comment"], "text": "comment"}, InputError, "cannot be both text"),
        ({"label": []}, InputTypeError, "label is []; give the name of a column, or a list"),
        ({"label": {"toxic"}}, InputTypeError, "label is {'toxic'}; give the name"),
        ({"label": ["toxic", "threat"], "task": "classification"}, InputError, "several columns"),
        ({"label": ["toxic", "threat"], "separator": ","}, InputError, "label names 2"),
        ({"label": "toxic", "separator": ""}, InputTypeError, "separator is ''; give the text"),
        ({"label": "toxic", "separator": ",", "task": "regression"}, InputError, "a separator par"),
    ],
)
def test_what_does_not_go_together(options: dict[str, Any], error: type, words: str) -> None:
    with pytest.raises(error) as caught:
        read_examples(FLAGS, **options)
    assert words in str(caught.value)


def test_likely_columns_of_labels_are_named() -> None:
    said = "label=['toxic', 'threat']"
    with pytest.raises(InputError) as caught:
        read_examples(FLAGS)
    assert "say which with label=..., or learn several with label=['toxic', 'threat']" in str(
        caught.value
    )
    assert "--label toxic,threat" in caught.value.in_shell()
    named = [{**row, "label": "xy"[i % 2]} for i, row in enumerate(FLAGS)]
    assert noted(read_examples(named), f"toxic, threat hold 0 and 1; {said}")
    assert not noted(read_examples(named, label="label"), "hold 0 and 1")  # it was said
    single = [{"text": row["comment"], "label": i % 2} for i, row in enumerate(FLAGS)]
    assert not noted(read_examples(single), "hold 0 and 1")


def test_likely_columns_of_shares_are_named() -> None:
    rows = [{"text": f"text {i}", "neg": i / 10, "pos": 1 - i / 10} for i in range(11)]
    with pytest.raises(
        InputError, match=r"or learn their shares with label=\['neg', 'pos'\]"
    ) as caught:
        read_examples(rows)
    assert "or learn their shares with --label neg,pos" in caught.value.in_shell()
    assert read_examples(rows, label=["neg", "pos"]).task == "classification"
    rows[3]["pos"] = 0.5
    with pytest.raises(InputError) as caught:
        read_examples(rows)
    assert "shares" not in str(caught.value)


def test_a_column_of_one_value_or_of_others_is_no_likely_label() -> None:
    table = table_of([{"a": 1, "b": i % 2, "c": i % 3, "d": "", "e": i == 2} for i in range(6)])
    assert flag_columns(table, table.columns) == ["b", "e"]


# ---- text with separators ----


@pytest.mark.parametrize("separator", [",", ";", "|", " / "])
def test_a_cell_of_text_is_split_by_its_separator_alone(separator: str) -> None:
    cells = [separator.join(f" {label} " for label in labels) for labels in LISTS]
    place = "New York" + separator + "NY" if separator == "," else "new york, ny"
    found = read(cells, separator=separator)
    assert found.task == "multi_label" and found.separator == separator
    if separator != ",":
        assert by_row(found) == WANTED and place in found.classes
    assert noted(found, "4 rows with an empty cell are learnt as texts without a label")
    assert by_row(read(["a|b|", "b||a", "a"] * 6, separator="|"))[0] == ("a", "b")


def test_new_york_is_one_label() -> None:
    cells = ["New York, NY", "Austin, TX", "Dallas, TX"] * 7
    found = read(cells)
    assert found.task == "classification" and len(found.classes) == 3
    assert not noted(found, "separator")
    assert read(cells, task="multi_label").classes == found.classes


def test_a_likely_separator_is_named() -> None:
    cells = ["art; sport", "sport", "sport; war", "art; war", "art"] * 5
    for task in (None, "classification", "multi_label"):
        found = read(cells, task=task)
        assert len(found.classes) == 5
        assert noted(found, "separator=';' (in a shell --separator \";\") takes them apart")
    assert not noted(read(cells, separator=";"), "takes them apart")
    many = [f"{a}; {b}" for a in "abcdefgh" for b in "ijklmnop"]
    with pytest.raises(InputError, match=r"too many for classes; .* separator=';' .in a shell"):
        read(many)
    assert not noted(read(["1,5", "2,5", "1", "2"] * 5), "separator")  # decimals


def test_a_separator_that_no_cell_has_is_said() -> None:
    assert noted(read(["a, b", "a"] * 9, separator=";"), "no cell of label has the separator ';'")


# ---- a table held out, and the command that makes it again ----


def test_a_table_held_out_is_read_alike() -> None:
    texts = [str(labels) for labels in LISTS]
    found = read(texts, valid=[{"text": "new words 99", "label": "['art']"}])
    assert found.valid[0].labels == ("art",)
    found = read(["a|b", "b", "a"] * 6, separator="|", valid=[{"text": "new 99", "label": "b|a"}])
    assert found.valid[0].labels == ("a", "b")
    valid = [{**FLAGS[0], "comment": "new words 99"}]
    found = read_examples(FLAGS, label=["toxic", "threat"], valid=valid)
    assert found.valid[0].labels == ("toxic",)


def test_the_command_names_what_was_said(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(
        "text,b,'c, \"d\"'\n".replace("'c, \"d\"'", '"c, ""d"""')
        + "".join(f"some words {i},{i % 2},{(i + 1) % 2}\n" for i in range(20))
    )
    names = ("b", 'c, "d"')
    found = read_examples(path, label=names)
    words = shlex.split(fit_command(found, Config(), LearningOptions(), Path("mine")))
    said = words[words.index("--label") + 1]
    option = click.Option(["--label"])
    assert shell_listed(click.Context(click.Command("fit")), option, said) == names
    assert shell_list(names) == said and "--no-header" not in words
    path.write_text("".join(f"some words {i},a|b\nother words {i},b\n" for i in range(20)))
    found = read_examples(path, separator="|", header=False)
    words = shlex.split(fit_command(found, Config(), LearningOptions(), Path("mine")))
    assert words[words.index("--separator") + 1] == "|" and words[-1] == "--no-header"
    python = fit_command(
        read_examples(FLAGS, label=["toxic", "threat"]), Config(), LearningOptions(), Path("mine")
    )
    assert "label=['toxic', 'threat'], " in python and "separator" not in python


# ---- a first row that is no header ----

DATA = "A fine film.,good\nSo dull it was.,bad\n" + "".join(
    f"Number {i} was great.,good\nNumber {i} was awful.,bad\n" for i in range(12)
)


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
@pytest.mark.parametrize("first", ["", "sep=,\n", "\ufeff"])
def test_a_first_row_of_data_is_named_and_read(tmp_path: Path, suffix: str, first: str) -> None:
    if suffix == "tsv" and "sep" in first:
        pytest.skip("of CSV only")
    path = tmp_path / f"x.{suffix}"
    path.write_text(first + (DATA if suffix == "csv" else DATA.replace(",", "\t")))
    found = read_examples(path)
    assert noted(found, "The first row looks like data and not like names of columns; header=False")
    assert len(found.train) + len(found.valid) == 25
    found = read_examples(path, header=False)
    assert (found.columns, found.label) == (("1",), "2") and not noted(found, "header")
    assert len(found.train) + len(found.valid) == 26
    every = {example.where: example.text for example in (*found.train, *found.valid)}
    assert every[f"{path}:{2 if 'sep' in first else 1}"] == "A fine film."
    named = read_examples(path, text="1", label="2", header=False)
    assert named.train == found.train


def test_headers_are_not_taken_for_data(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    for header in ("what was said,kind", "text,label", "0,1", "2 words,good or bad"):
        path.write_text(DATA.replace("A fine film.,good", header))
        text, label = header.split(",")
        assert not noted(read_examples(path, text=text, label=label), "looks like data")
    for table in (rows(["a", "b"] * 9), frame(["a", "b"] * 9)):
        assert not noted(read_examples(table), "looks like data")


def test_columns_that_are_not_found_for_want_of_a_header(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("".join(f"Film {i} it was.,good,u{i}\nDull {i}.,bad,u{i}\n" for i in range(9)))
    with pytest.raises(InputError) as caught:
        read_examples(path)
    assert "each hold the labels. The first row looks like data and not like names" in str(
        caught.value
    )
    assert "pass header=False, or say which with label=..." in str(caught.value)
    assert "say --no-header, or say which with --label" in caught.value.in_shell()
    assert read_examples(path, header=False, label="2").classes == ("bad", "good")


def test_tables_that_have_no_header(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows(["a", "b"] * 9)))
    with pytest.raises(InputError, match="only CSV and TSV have a header, and jsonl names its"):
        read_examples(path, header=False)
    with pytest.raises(InputTypeError, match="header is 'no'; pass True or False"):
        read(["a", "b"] * 9, header="no")
    assert read(["a", "b"] * 9, header=False).classes == ("a", "b")  # a frame has names

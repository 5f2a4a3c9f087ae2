"""What `fit`, `train` and `evaluate` make of a cell that holds a label: the same, or it is refused.

`fit` looks at all cells of a column. `train` takes a cell as it stands, and is strict. `evaluate`
knows the labels of the model that it asks: each model must know its own labels again.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from roberta_hub.errors import InputError
from roberta_hub.rows.labels import KnownLabels
from roberta_hub.rows.left_out import LeftOut
from roberta_hub.rows.tables import table_of
from roberta_hub.train.data.sentences import read_sentences
from roberta_hub.train.fitting.examples import read_examples

LEFT = "left out"
NUMBERS, WORDS, LISTS, DICTS = ("0", "1"), ('"a"', '"b"'), ('["b"]', '["c"]'), ('{"b": 1}',)
DICT_TEXTS, SHARES_TEXT = ("\"{'b': 1}\"",), "\"{'a': 0.75, 'b': 0.25}\""
MISSING = r"x.jsonl:1: nothing in the column 'label'; drop the row or fill it"
LIST = r"x.jsonl:1: a list of labels; the task multi_label learns those"
DICT = r"x.jsonl:1: the label is a dict, not text or a number"


@dataclass
class Cell:
    """A cell of JSON among others; what each reader makes of it."""

    json: str
    others: tuple[str, ...]
    fit: Any
    """Its labels, or its shares; `LEFT`; a str of what it is refused with."""
    train: Any
    task: str | None = None
    """What `fit` is asked to learn."""
    several: bool = False
    """Whether `fit` learns several labels, and `train` and `evaluate` are asked for them."""
    separator: str | None = None
    evaluate: Any = None
    """What `evaluate` makes of it where it is something else."""


CELLS = [
    # Numbers: `train` names a class as JSON writes it, `fit` a whole number without a point.
    Cell("1", NUMBERS, {"1"}, {"1"}),
    Cell("1.0", NUMBERS, {"1"}, {"1.0"}),
    Cell("-0.0", NUMBERS, {"0"}, {"-0.0"}),
    Cell('"1.0"', NUMBERS, {"1.0"}, {"1.0"}),
    Cell('" 1 "', NUMBERS, {"1"}, {"1"}),
    Cell("123456789012345678901", NUMBERS, {"123456789012345678901"}, {"123456789012345678901"}),
    Cell("[1.0]", LISTS, {"1"}, {"1.0"}, several=True),
    # Truth values, and words.
    Cell("true", ("false",), {"true"}, {"true"}),
    Cell('"True"', WORDS, {"True"}, {"True"}),
    Cell('" good "', WORDS, {"good"}, {"good"}),
    Cell('"None"', WORDS, {"None"}, {"None"}),
    Cell('"x y, z"', WORDS, {"x y, z"}, {"x y, z"}),
    # Words that mean a missing number: a class to `train`, and to `fit` where classes are said.
    Cell('"nan"', NUMBERS, LEFT, {"nan"}),
    Cell('" NaN "', NUMBERS, {"NaN"}, {"NaN"}, task="classification"),
    Cell('"nan"', WORDS, {"nan"}, {"nan"}),
    Cell('"nan"', WORDS, {"nan"}, {"nan"}, task="multi_label", several=True, separator=";"),
    Cell('"inf"', NUMBERS, r"x.jsonl:1: label is 'inf', no number", {"inf"}, evaluate={"inf"}),
    Cell('"inf"', NUMBERS, {"inf"}, {"inf"}, task="classification"),
    Cell("Infinity", NUMBERS, r"x.jsonl:1: .*label is inf", r"x.jsonl:1: the label is inf, which"),
    Cell("1e400", WORDS, r"x.jsonl:1: the label is inf", r"x.jsonl:1: the label is inf, which is"),
    # What is missing is left out, and refused by `train`, which leaves no label out.
    Cell("null", WORDS, LEFT, MISSING),
    Cell("NaN", NUMBERS, LEFT, MISSING),
    Cell('""', WORDS, LEFT, r"x.jsonl:1: the label is empty"),
    Cell('"  "', WORDS, LEFT, r"x.jsonl:1: the label is empty"),
    Cell("null", LISTS, LEFT, MISSING, several=True),
    Cell('""', ('"a; b"', '"b"'), set(), set(), several=True, separator=";", evaluate=LEFT),
    # Several labels: lists, their texts, and text with separators.
    Cell('["a"]', LISTS, {"a"}, {"a"}, several=True),
    Cell('["a"]', LISTS, {"a"}, LIST, evaluate=r"x.jsonl:1: the label is a list, not text or a nu"),
    Cell('["a", " a ", "b"]', LISTS, {"a", "b"}, {"a", "b"}, several=True),
    Cell("[]", LISTS, set(), set(), several=True),
    Cell("[null]", LISTS, r"x.jsonl:1: the label is missing", r"missing", several=True),
    Cell('[["a"]]', LISTS, r"x.jsonl:1: the label is a list, not t", r"is a list", several=True),
    Cell("\"['a', 'b']\"", ("\"['b']\"",), {"a", "b"}, {"a", "b"}, several=True),
    Cell("\"['a', 'b']\"", WORDS, {"['a', 'b']"}, {"['a', 'b']"}),
    # `fit` notes that this is one label, as other cells are no lists; a known label is a label.
    Cell("\"['a']\"", WORDS, {"['a']"}, {"a"}, task="multi_label", several=True),
    Cell('"a; b"', WORDS, {"a", "b"}, {"a", "b"}, several=True, separator=";"),
    Cell('"a; b"', WORDS, {"a; b"}, {"a; b"}),
    Cell('"a; b"', WORDS, {"a; b"}, {"a", "b"}, task="multi_label", several=True),
    # Dicts: labels to a head of several, shares to a head of one class.
    Cell('{"a": 1, "b": 0}', DICTS, {"a"}, DICT, several=True),
    Cell('{"a": true, "b": 0.9}', DICTS, {"a", "b"}, DICT, several=True),
    Cell('{"a": 1}', DICTS, {"a"}, DICT, task="classification"),
    Cell('{"a": 0.75, "b": 0.25}', DICTS, {"a": 0.75, "b": 0.25}, DICT),
    Cell('{"a": 0.75, "b": 0.25}', DICTS, {"a"}, DICT, task="multi_label", several=True),
    # `train` is told its task: a text is a class, as it is to `fit` where classes are said.
    Cell(SHARES_TEXT, DICT_TEXTS, {"a": 0.75, "b": 0.25}, {SHARES_TEXT.strip('"')}),
    Cell(SHARES_TEXT, DICT_TEXTS, *2 * [{SHARES_TEXT.strip('"')}], task="classification"),
    Cell('{"a": null}', DICTS, LEFT, DICT, several=True),
    Cell('{"a": 80, "b": 20}', ('{"b": 100}',), "x.jsonl:1: .*divide percent by 100", DICT),
    Cell('{"a": "much"}', DICTS, r"x.jsonl:1: label has 'a': 'much'", DICT, several=True),
    # What cannot be written.
    Cell('"a\\u0000"', WORDS, r"x.jsonl:1: label 'a\\x00' holds U\+0000", r"x.jsonl:1: .* U\+0000"),
    Cell('"a\\ud800"', WORDS, r"x.jsonl:1: .*U\+D800", r"x.jsonl:1: .*U\+D800"),
]


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: f"{cell.json}-{cell.others[0]}")
def test_a_cell_means_the_same_to_all(cell: Cell, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    cells = [cell.json, *(cell.others[i % len(cell.others)] for i in range(8))]
    lines = [f'{{"text": "row {i}", "label": {own}}}' for i, own in enumerate(cells)]
    path.write_text("\n".join(lines) + "\n")
    known = {"a", "b", "c", "0", "1", "true", "false"}
    learnt = by_fit(path, cell, known)
    assert_is(learnt, cell.fit)
    taught = by_train(path, cell)
    assert_is(taught, cell.train)
    again = LEFT if cell.evaluate is LEFT else cell.evaluate or cell.fit
    assert_is(by_evaluate(path, cell.several, known), again)
    if isinstance(taught, set) and cell.evaluate is not LEFT:
        names = {*taught, "b", "c"} if cell.several else taught
        assert by_evaluate(path, cell.several, names) == taught


def assert_is(found: Any, wanted: Any) -> None:
    """An error says what is wanted; anything else is it."""
    if isinstance(wanted, str) and wanted != LEFT:
        assert isinstance(found, InputError), found
        with pytest.raises(InputError, match=wanted):
            raise found
    else:
        assert found == wanted


def by_fit(path: Path, cell: Cell, known: set[str]) -> Any:
    """The labels or shares of the first row; the names of all classes become known."""
    try:
        found = read_examples(path, task=cell.task, separator=cell.separator)
    except InputError as error:
        return error
    known |= {*found.classes}
    assert (found.task == "multi_label") is cell.several or cell.train == LIST
    own = [row for row in (*found.train, *found.valid) if row.where.endswith(":1")]
    return (dict(own[0].shares) or {*own[0].labels}) if own else LEFT


def by_train(path: Path, cell: Cell) -> Any:
    separator = cell.separator or (";" if cell.several else None)
    try:
        found = read_sentences(path, columns={"sentence": "text"}, separator=separator)
    except InputError as error:
        return error
    return {*found[0].labels}


def by_evaluate(path: Path, several: bool, names: set[str]) -> Any:
    left = LeftOut()
    try:
        table = table_of(path).kept()
        found = KnownLabels(names, several).rows(table, ["text"], ["label"], left).rows
    except InputError as error:
        return error
    own = [(labels, shares) for row, _, labels, shares in found if row.where.endswith(":1")]
    return (dict(own[0][1]) or {*own[0][0]}) if own else LEFT

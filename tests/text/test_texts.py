"""What `texts` may be: any container of texts, one str, and nothing that only looks like them."""

from __future__ import annotations

import io
import subprocess
import sys
from collections import namedtuple
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

import numpy as np
import pytest

from roberta_hub.errors import InputError, InputTypeError, RobertaHubError
from roberta_hub.text.texts import as_single_texts, as_strings, as_texts

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")

WANTED = ["one", "two", "three"]
Pair = namedtuple("Pair", ["premise", "hypothesis"])


class Colour(str, Enum):  # noqa: UP042  # as many write it
    RED = "one"


class Numbered:
    """A sequence by the old protocol: numbers and IndexError."""

    def __getitem__(self, i: int) -> str:
        return WANTED[i]


class Arrowish:
    """What offers an array and no iteration."""

    def __array__(self) -> Any:
        return np.array(WANTED)


def lines() -> Iterator[str]:
    yield from WANTED


MANY: dict[str, Callable[[], Any]] = {
    "list": lambda: WANTED,
    "generator": lines,
    "iterator": lambda: iter(WANTED),
    "map": lambda: map(str, WANTED),
    "values of a dict": lambda: dict(enumerate(WANTED)).values(),
    "keys of a dict": lambda: dict.fromkeys(WANTED).keys(),
    "sequence by __getitem__": Numbered,
    "__array__": Arrowish,
    "pandas Series": lambda: pd.Series(WANTED, index=[5, 3, 9]),
    "pandas category": lambda: pd.Series(WANTED, dtype="category"),
    "pandas Index": lambda: pd.Index(WANTED),
    "pandas string array": lambda: pd.array(WANTED, dtype="string"),
    "numpy str": lambda: np.array(WANTED),
    "numpy object": lambda: np.array(WANTED, dtype=object),
    "numpy.str_ items": lambda: list(np.array(WANTED)),
    "Arrow array": lambda: pa.array(WANTED),
    "Arrow chunked": lambda: pa.chunked_array([WANTED[:1], WANTED[1:]]),
    "Arrow dictionary": lambda: pa.array(WANTED).dictionary_encode(),
    "a str of an enum": lambda: [Colour.RED, "two", "three"],
}


@pytest.mark.parametrize("make", MANY.values(), ids=MANY)
def test_any_container_of_texts(make: Callable[[], Any]) -> None:
    texts, one = as_texts(make())
    assert texts == WANTED and one is False
    assert set(map(type, texts)) == {str}


def test_a_list_stays_the_callers() -> None:
    texts, _ = as_texts(WANTED)
    assert texts is not WANTED


def test_one_str_is_one_text() -> None:
    assert as_texts("one") == (["one"], True)
    assert as_texts("") == ([""], True)
    texts, one = as_texts(np.str_("one"))
    assert (texts, type(texts[0]), one) == (["one"], str, True)


@pytest.mark.parametrize(
    "empty", [[], (), iter([]), {}.values(), np.array([], dtype=str), pa.array([], pa.string())]
)
def test_none_at_all(empty: Any) -> None:
    assert as_texts(empty) == ([], False)


def test_polars_columns() -> None:
    pl = pytest.importorskip("polars")
    assert as_texts(pl.Series(WANTED)) == (WANTED, False)
    frame = pl.DataFrame({"text": ["a"], "pair": [["b", "c"]]})
    assert as_texts(frame["pair"]) == ([("b", "c")], False)
    for table in (frame, frame.select("text"), frame.lazy()):
        with pytest.raises(InputTypeError, match=r"Frame with the columns 'text'.*texts\[\.\.\.\]"):
            as_texts(table)
    with pytest.raises(InputTypeError, match=r"texts\[1\]: missing .*NoneType"):
        as_texts(pl.Series(["a", None]))


def test_columns_of_datasets() -> None:
    datasets = pytest.importorskip("datasets")
    data = datasets.Dataset.from_dict({"text": WANTED})
    assert as_texts(data["text"]) == (WANTED, False)
    for table in (data, data.to_iterable_dataset()):
        with pytest.raises(InputTypeError, match="with the columns 'text'"):
            as_texts(table)
    with pytest.raises(InputTypeError, match="with the keys 'train'"):
        as_texts(datasets.DatasetDict({"train": data}))


# ---- pairs ----

PAIRS: dict[str, Callable[[], Any]] = {
    "tuples": lambda: [("a", "b"), ("c", "d")],
    "lists": lambda: [["a", "b"], ["c", "d"]],
    "zip": lambda: zip(["a", "c"], ["b", "d"], strict=True),
    "a tuple of tuples": lambda: (("a", "b"), ("c", "d")),
    "named tuples": lambda: [Pair("a", "b"), Pair("c", "d")],
    "rows of a frame": lambda: pd.DataFrame({"p": ["a", "c"], "h": ["b", "d"]}).itertuples(
        index=False
    ),
    "Arrow lists": lambda: pa.array([["a", "b"], ["c", "d"]]),
    "pandas lists": lambda: pd.Series([["a", "b"], ["c", "d"]]),
    "rows of an array": lambda: [tuple(row) for row in np.array([["a", "b"], ["c", "d"]])],
}


@pytest.mark.parametrize("make", PAIRS.values(), ids=PAIRS)
def test_pairs(make: Callable[[], Any]) -> None:
    texts, one = as_texts(make())
    assert texts == [("a", "b"), ("c", "d")] and one is False
    assert {type(part) for text in texts for part in (text, *text)} == {tuple, str}


def test_single_texts_and_pairs_and_more_in_one_list() -> None:
    assert as_texts(["a", ["b", "c"], ("d", "e", "f")])[0] == ["a", ("b", "c"), ("d", "e", "f")]
    assert as_texts(("a", ("b", "c")))[0] == ["a", ("b", "c")]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (("a", "b"), r"tuple of 2 str.*pass \[\('a', 'b'\)\] .*pair.* or \['a', 'b'\] for single"),
        (("a",), r"tuple of 1 str.*\[\('a',\)\].*\['a'\]"),
        (("a", "b", "c", "d"), r"tuple of 4 str"),
        (Pair("a", "b"), r"tuple of 2 str"),
    ],
)
def test_a_tuple_of_str_on_its_own_could_be_either(value: Any, message: str) -> None:
    with pytest.raises(InputTypeError, match=message):
        as_texts(value)


# ---- what is no list of texts ----


def frame() -> Any:
    return pd.DataFrame({"text": ["a", "b"], "label": [0, 1]})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (frame, r"a DataFrame with the columns 'text', 'label'; pass one of them: texts\["),
        (lambda: frame()[["text"]], "a DataFrame with the columns 'text'"),
        (lambda: pd.DataFrame(), "a DataFrame with the columns of none"),
        (lambda: pa.table(frame()), "a Table with the columns 'text', 'label'"),
        (lambda: pa.RecordBatch.from_pandas(frame()), "a RecordBatch with the columns 'text', '"),
        (lambda: {"text": ["a"]}, r"a dict with the keys 'text'; pass the values of one: texts\["),
        (lambda: {"a", "b"}, "a set, which has no order"),
        (lambda: frozenset("ab"), "a frozenset, which has no order"),
        (lambda: np.array([["a", "b"]]), r"of shape \(1, 2\), .*texts\[:, 0\]"),
        (lambda: np.array("a"), r"of shape \(\)"),
        (lambda: np.array([("a", "b")], dtype=[("p", "U1"), ("h", "U1")]), "columns 'p', 'h'"),
        (lambda: b"a", r"a bytes, not text; decode it: texts\.decode\(\)"),
        (lambda: bytearray(b"a"), "a bytearray"),
        (lambda: io.StringIO("a\nb\n"), r"newline; pass its read\(\)\.splitlines\(\)"),
        (lambda: None, "a NoneType; pass one str, or a list"),
        (lambda: 5, "a int; pass one str"),
        (lambda: str, "a type; pass one str"),
    ],
)
def test_what_only_looks_like_texts(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputTypeError, match=message):
        as_texts(make())


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (None, r"texts\[2\]: missing \(a NoneType\); drop such rows"),
        (float("nan"), r"texts\[2\]: missing \(a float\)"),
        (np.float32("nan"), r"texts\[2\]: missing \(a float32\)"),
        (pd.NA, r"texts\[2\]: missing \(a NAType\)"),
        (pd.NaT, r"texts\[2\]: missing \(a NaTType\)"),
        (("a", None), r"texts\[2\]: its sentence 1 is missing"),
        (["a", float("nan")], r"texts\[2\]: its sentence 1 is missing"),
        (["a"], r"texts\[2\]: a list of 1; a pair is a list of two"),
        (["a", "b", "c"], r"texts\[2\]: a list of 3; a pair is a list of two"),
        ([], r"texts\[2\]: an empty list"),
        ((), r"texts\[2\]: an empty tuple"),
        ({"text": "a"}, r"texts\[2\]: a dict with the keys 'text'"),
        (b"a", r"texts\[2\]: bytes, not text"),
        (5, r"texts\[2\]: a int"),
        (0.5, r"texts\[2\]: a float; a text is a str"),
        (("a", 5), r"texts\[2\]: its sentence 1 is a int"),
        (("a", ("b",)), r"texts\[2\]: its sentence 1 is a tuple"),
    ],
)
def test_an_item_that_is_no_text_is_named_by_its_row(item: Any, message: str) -> None:
    for texts in (["a", "b", item], iter([("a", "b"), "b", item])):
        with pytest.raises(InputTypeError, match=message):
            as_texts(texts)


def test_missing_values_of_a_column_are_named() -> None:
    for dtype in (object, "str", "string", "category"):
        with pytest.raises(InputTypeError, match=r"texts\[1\]: missing"):
            as_texts(pd.Series(["a", None, "b"], dtype=dtype))
    with pytest.raises(InputTypeError, match=r"texts\[1\]: missing"):
        as_texts(pa.array(["a", None]))


def test_an_error_of_the_callers_own_generator_comes_through() -> None:
    def broken() -> Iterator[str]:
        yield "a"
        raise OSError("the disk")

    with pytest.raises(OSError, match="the disk") as caught:
        as_texts(broken())
    assert not isinstance(caught.value, RobertaHubError)


# ---- verbs without pairs, and lists of labels ----


def test_single_texts() -> None:
    how = {"needs": "tag takes single texts"}
    for make in MANY.values():
        assert as_single_texts(make(), "texts", **how) == (WANTED, False)
    assert as_single_texts("one", "texts", **how) == (["one"], True)
    with pytest.raises(InputTypeError, match=r"texts\[1\]: a tuple; tag takes single texts"):
        as_single_texts(["a", ("a", "b")], "texts", **how)
    with pytest.raises(InputTypeError, match=r"texts\[1\]: missing \(a float\)"):
        as_single_texts(pd.Series(["a", float("nan")], dtype=object), "texts", **how)


def test_labels_and_words() -> None:
    for make in MANY.values():
        assert as_strings(make(), "labels", "labels") == WANTED
    assert sorted(as_strings({"a", "b"}, "labels", "labels")) == ["a", "b"]
    assert as_strings(("a", "b"), "labels", "labels") == ["a", "b"]
    with pytest.raises(InputError, match="labels is 'food'; pass a list of labels"):
        as_strings("food", "labels", "labels")
    with pytest.raises(InputTypeError, match=r"labels\[1\] is a int"):
        as_strings(["a", 1], "labels", "labels")
    with pytest.raises(InputTypeError, match="labels is a NoneType"):
        as_strings(None, "labels", "labels")


@pytest.mark.system
def test_no_package_of_containers_is_imported() -> None:
    code = (
        "import sys; from roberta_hub.text.texts import as_texts; as_texts(['a', ('b', "
        "'c')]);print([m for m in ('pandas', 'polars', 'pyarrow', 'datasets') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"

"""Twenty kinds of text container: the same answers from each, or a sentence that says why not."""

from __future__ import annotations

import array
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from small_models import small_roberta

from roberta_hub import RobertaHubInterface
from roberta_hub.errors import InputTypeError

TEXTS = ["A dog ran.", "", "Goal!"]


def package(name: str) -> Any:
    return pytest.importorskip(name)


def column() -> Any:
    """As `datasets` has it."""
    return package("datasets").Dataset.from_dict({"text": TEXTS})["text"]


TAKEN: dict[str, Callable[[], Any]] = {
    "list": lambda: list(TEXTS),
    "generator": lambda: (text for text in TEXTS),
    "iterator": lambda: iter(TEXTS),
    "map": lambda: map(str, TEXTS),
    "dict values": lambda: dict(enumerate(TEXTS)).values(),
    "dict keys": lambda: dict.fromkeys(TEXTS).keys(),
    "deque": lambda: deque(TEXTS),
    "pandas Series": lambda: package("pandas").Series(TEXTS, index=[7, 7, 7]),
    "pandas Index": lambda: package("pandas").Index(TEXTS),
    "pandas category": lambda: package("pandas").Series(TEXTS, dtype="category"),
    "column of a pandas DataFrame": lambda: package("pandas").DataFrame({"t": TEXTS})["t"],
    "polars Series": lambda: package("polars").Series(TEXTS),
    "Arrow Array": lambda: package("pyarrow").array(TEXTS),
    "Arrow ChunkedArray": lambda: package("pyarrow").chunked_array([TEXTS[:1], TEXTS[1:]]),
    "Arrow dictionary": lambda: package("pyarrow").array(TEXTS).dictionary_encode(),
    "numpy str array": lambda: package("numpy").array(TEXTS),
    "numpy object array": lambda: package("numpy").array(TEXTS, dtype=object),
    "column of a data set": column,
}
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "tuple of str": (lambda: tuple(TEXTS), r"tuple of 3 str, .*\['A dog ran\.', '', 'Goal!'\] for"),
    "set": (lambda: set(TEXTS), r"a set, which has no order; pass a list: sorted\(texts\)"),
    "dict": (lambda: {"t": TEXTS}, r"a dict with the keys 't'; pass the values of one"),
    "path": (lambda: Path("texts.txt"), r"Path, 'texts.txt', not text; .*\.read_text\(\)"),
    "bytes": (lambda: b"A dog ran.", r"a bytes, not text; decode it"),
    "range": (lambda: range(3), r"texts\[0\]: a int; a text is a str"),
    "array of numbers": (lambda: array.array("i", [1]), r"texts\[0\]: a int; a text is a str"),
    "tensor": (lambda: torch.tensor([1]), r"a Tensor, not text; ids go to extract_features"),
    "pandas DataFrame": (
        lambda: package("pandas").DataFrame({"t": TEXTS}),
        r"a DataFrame with the columns 't'; pass one of them: texts\[",
    ),
    "polars DataFrame": (
        lambda: package("polars").DataFrame({"t": TEXTS}),
        r"a DataFrame with the columns 't'; pass one of them: texts\[",
    ),
    "polars LazyFrame": (
        lambda: package("polars").LazyFrame({"t": TEXTS}),
        r"a LazyFrame with the columns 't'; pass one of them: texts\[",
    ),
    "Arrow Table": (
        lambda: package("pyarrow").table({"t": TEXTS}),
        r"a Table with the columns 't'; pass one of them: texts\[",
    ),
    "data set": (
        lambda: package("datasets").Dataset.from_dict({"t": TEXTS}),
        r"a Dataset with the columns 't'; pass one of them: texts\[",
    ),
}


@pytest.fixture(scope="module")
def roberta() -> RobertaHubInterface:
    return small_roberta(heads={"mood": 2})


@pytest.mark.parametrize("kind", TAKEN)
def test_taken(kind: str, roberta: RobertaHubInterface) -> None:
    assert torch.equal(roberta.embed(TAKEN[kind]()), roberta.embed(TEXTS))
    assert roberta.classify(TAKEN[kind]()) == roberta.classify(TEXTS)


@pytest.mark.parametrize("kind", REFUSED)
@pytest.mark.filterwarnings("error")
def test_refused(kind: str, roberta: RobertaHubInterface) -> None:
    make, words = REFUSED[kind]
    for verb in (roberta.embed, roberta.classify, roberta.features):
        with pytest.raises(InputTypeError, match=words):
            verb(make())


def test_an_open_file_is_refused(tmp_path: Path, roberta: RobertaHubInterface) -> None:
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS))
    with open(tmp_path / "texts.txt") as file:
        with pytest.raises(InputTypeError, match=r"newline; pass its read\(\)\.splitlines\(\)"):
            roberta.embed(file)
        assert len(roberta.embed(file.read().splitlines())) == 3

"""Defines Question: the record of a verb, shared by Python, shell, lakes and notebooks.

Nothing here imports torch, so that the shell shows help at once.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from roberta_hub.errors import Place, placed

if TYPE_CHECKING:
    from roberta_hub.inference.verb_model import VerbModel
    from roberta_hub.settings import VectorDtype

SLOW_ROWS_AT_ONCE = 8
"""Rows per batch of the shell for verbs that run the model many times per row."""

AnswerT = TypeVar("AnswerT")
"""Answer to one text."""
AnswersT = TypeVar("AnswersT")
"""Answers to many texts: a list, or a Tensor (n, C)."""
Record = Mapping[str, Any]
"""The answer to one row, by name: str, int, float, a vector as `array("f")`, lists and dicts of
these."""
Columns = dict[str, Any]
"""The answers to many rows, by name: a list with a value for each row, or a Tensor (n, C)."""
Settings = Mapping[str, Any]
"""A verb's options, by their Python names."""


class Share(float):
    """A number between 0 and 1, drawn as a bar."""


Cell = str | int | float
Cells = Sequence[Cell]


@dataclass(frozen=True)
class Parts:
    """Number and names of the texts in a row."""

    least: int = 1
    most: int = 2
    one: str = "text"
    """Name of a single text, in tables and answers."""
    two: tuple[str, ...] = ("first", "second")
    """Names of the texts of a pair."""
    hint: str = ""
    """Error message for too few or too many texts; "": their number."""

    def called(self, count: int) -> tuple[str, ...]:
        """Names of the texts of a row with `count` texts."""
        return (self.one,) if count == 1 else self.two

    def refusal(self, count: int) -> str:
        """Error message for a row with too few or too many texts."""
        needs = f"{self.least}" if self.least == self.most else f"{self.least} to {self.most}"
        names = f" ({' and '.join(self.two)})" if self.least > 1 else ""
        return self.hint or f"{count} {'text' if count == 1 else 'texts'}; it takes {needs}{names}"


@dataclass(frozen=True)
class AnswerFormat:
    """Layout of a verb's records in tables and files."""

    parts: Parts
    """Number and names of the texts of a row."""
    sample: Record
    """Example record; defines the columns if there are no answers."""
    titles: tuple[str, ...] = ()
    """Titles of the cells of `line`."""
    line: Callable[[Record], Cells] | None = None
    """From a record to cells on its text's line; None: always a block."""
    block: Callable[[Record], Sequence[Cells]] | None = None
    """From a record to rows below its text; None: always a line."""
    vectors: VectorDtype = "float32"
    """Dtype of the column `vector`."""
    ranges: Any = None
    """Ranges of int8 vectors, which are stored beside them."""

    def row(self, texts: Sequence[str], record: Record) -> dict[str, Any]:
        """Row of the texts and their record."""
        names = self.parts.called(len(texts))
        return {**dict(zip(names, texts, strict=False)), **record}

    def empty_row(self) -> dict[str, Any]:
        """Example row with all columns."""
        return {**dict.fromkeys(self.parts.called(self.parts.least), ""), **self.sample}


def later(find: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
    """Return a function that is found when it is called: what asks a model imports torch."""
    return lambda *given, **settings: find()(*given, **settings)


def _unchanged(rows: Any, found: AnswersT) -> AnswersT:
    return found


@dataclass(frozen=True, kw_only=True)
class Question(Generic[AnswerT, AnswersT]):
    """A verb that answers each row separately.

    The method of `RobertaHubInterface` has the signature and docstring for Python; the shell's
    command, the lake's columns and the notebook's view are made from this record.
    """

    name: str
    """Name of the method."""
    help: str
    """Help of the shell's command."""
    examples: tuple[str, ...]
    """Command lines, run by a test; none: the shell has no such command."""
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Keywords of the method that the shell and lakes take too, each with what the shell adds to
    its signature and docstring: `flags`, `metavar`, the `ends` of a number, whether it is
    `needed`."""
    answers: Callable[..., AnswersT]
    """Ask a model: (Model, rows, the verb's options as keywords) -> an answer for each row, in a
    list or a Tensor (n, C). A row is one str, or a tuple of them."""
    columns: Callable[[VerbModel, Any, AnswersT], Columns]
    """Write answers as records: (Model, rows, answers) -> their columns."""
    answer_format: Callable[[Settings], AnswerFormat]
    """Format of the records under these options."""
    argument: str = "texts"
    """Name of the argument with the texts in Python."""
    no_pairs: str = ""
    """Error message for pairs; "": pairs are allowed."""
    of_empty: str = ""
    """What of an empty text's answer says nothing: "its vector"; "": such an answer says what it
    should."""
    view: Callable[[Any, AnswersT], AnswersT] = _unchanged
    """(rows, answers) -> the same list with a notebook view."""
    rows_at_once: int | None = None
    """Most rows per batch of the shell; None: its default."""
    parts_of_tiny: Parts | None = None
    """Texts of a row without a named model, if `roberta.tiny` takes fewer than other models."""
    asked_columns: tuple[str, ...] = ()
    """Columns that a lake has only on request, by an option of that name; they come last."""
    any_count: bool = False
    """Whether a row of a lake may have any number of texts above the least."""
    what_columns: str = ""
    """Description of a lake's text columns, for errors about their number."""

    @property
    def keywords(self) -> set[str]:
        """Names of the verb's options in a lake."""
        return {*self.options, *self.asked_columns}


def answer_texts(
    question: Question[AnswerT, AnswersT], model: VerbModel, texts: Any, settings: Settings
) -> AnswerT | AnswersT:
    """Answer a caller's texts, as the methods of `RobertaHubInterface` do."""
    from roberta_hub.text.texts import advise_of_empty, empty_places

    name = question.argument
    rows, one = rows_of(question, texts, name)
    if question.of_empty:
        advise_of_empty(empty_places(rows), name, question.of_empty)
    with placed(lambda at: Place(name, at.index) if at.argument == "texts" else at):
        found = question.view(rows, question.answers(model, rows, **settings))
    if not one:
        return found
    first: AnswerT = found[0]  # type: ignore[index]  # a list or a Tensor
    return first


def rows_of(question: Question[Any, Any], texts: Any, name: str) -> tuple[Sequence[Any], bool]:
    """Return the rows that a caller means, and whether it was one text, for one answer."""
    from roberta_hub.text.texts import as_single_texts, as_texts

    if question.no_pairs:
        return as_single_texts(texts, name, needs=question.no_pairs)
    return as_texts(texts, name)


def answer_as_columns(
    question: Question[Any, Any],
    model: VerbModel,
    rows: Sequence[Any],
    settings: Settings,
) -> Columns:
    """Answer rows as columns."""
    return question.columns(model, rows, question.answers(model, rows, **settings))


def records(columns: Columns) -> list[Record]:
    """Transpose columns into records, with vectors as arrays of float32.

    Example:
        >>> records({"label": ["art", "sport"], "score": [0.5, 0.75]})
        [{'label': 'art', 'score': 0.5}, {'label': 'sport', 'score': 0.75}]
    """
    names = list(columns)
    return [
        {name: _plain_vectors(value) for name, value in zip(names, values, strict=True)}
        for values in zip(*columns.values(), strict=True)
    ]


_TYPES = {"torch.int8": "b", "torch.uint8": "B"}
"""Types of arrays for vectors that are no floats."""


def _plain_vectors(value: Any) -> Any:
    """A Tensor (C,) as an array, (T, C) as a list of arrays, other values unchanged."""
    if not hasattr(value, "detach"):
        return value
    if value.dim() > 1:
        return [*map(_plain_vectors, value)]
    kind = _TYPES.get(str(value.dtype), "f")
    return array(kind, (value.float() if kind == "f" else value).cpu().tolist())

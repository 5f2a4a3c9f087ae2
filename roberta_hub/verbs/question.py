"""Defines Question: a verb as one record, from which Python, shell, lakes and notebooks take it.

Nothing here imports torch, so the shell shows a verb's help at once.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from roberta_hub.errors import Place, RobertaHubError, placed

if TYPE_CHECKING:
    from roberta_hub.inference.batching import Runner
    from roberta_hub.inference.heads import Heads
    from roberta_hub.settings import SentenceSettings, ZeroShotSettings

FEW = 8
"""Rows that a shell answers together where each of them takes many runs."""

Answer = TypeVar("Answer")
One = TypeVar("One")
"""What a verb answers one text with."""
Many = TypeVar("Many")
"""What it answers many with: a list of these, or a Tensor (n, C)."""
Record = Mapping[str, Any]
"""The answer to one row, by name: str, int, float, a vector as `array("f")`, lists and dicts of
these."""
Columns = dict[str, Any]
"""The answers to many rows by name: a list with a value for each row, or a Tensor (n, C)."""
Settings = Mapping[str, Any]
"""A verb's own options by the library's names."""
Kind = Literal["text", "texts", "number", "choice", "flag"]


class Share(float):
    """A number between 0 and 1, which is drawn with a bar."""


Cell = str | int | float
Cells = Sequence[Cell]


@dataclass(frozen=True)
class Model:
    """What of a model the verbs ask."""

    runner: Runner
    """Of the model, with the caller's options."""
    heads: Heads
    """The model's heads."""
    sentence: SentenceSettings | None
    """How it makes sentence vectors; None: it was not trained to."""
    zero_shot: ZeroShotSettings | None
    """By which way it labels without training; None: nothing is recorded."""
    task: str
    """fairseq's name of the task that it was trained for; "": none."""


@dataclass(frozen=True)
class Parts:
    """How many texts a row of a verb has."""

    least: int = 1
    most: int = 2
    one: str = "text"
    """What a single text is called, in tables and answers."""
    two: tuple[str, ...] = ("first", "second")
    """What the texts of a pair are called."""
    hint: str = ""
    """What an error says of too few or too many, instead of counting them."""

    def called(self, count: int) -> tuple[str, ...]:
        """Return the names of the texts of a row that has so many."""
        return (self.one,) if count == 1 else self.two

    def refusal(self, count: int) -> str:
        """Say that a row has too few or too many texts."""
        needs = f"{self.least}" if self.least == self.most else f"{self.least} to {self.most}"
        names = f" ({' and '.join(self.two)})" if self.least > 1 else ""
        return self.hint or f"{count} {'text' if count == 1 else 'texts'}; it takes {needs}{names}"


@dataclass(frozen=True)
class Form:
    """How the records of a verb look."""

    parts: Parts
    """What the texts of a row are called."""
    sample: Record
    """A record with one of everything: it tells the columns where there is no answer."""
    titles: tuple[str, ...] = ()
    """Above the cells of `line`."""
    line: Callable[[Record], Cells] | None = None
    """A record on the line of its text; None: it is always a block."""
    block: Callable[[Record], Sequence[Cells]] | None = None
    """A record as rows below its text; None: it is always a line."""

    def row(self, texts: Sequence[str], record: Record) -> dict[str, Any]:
        """Put the texts of a row and its record together."""
        names = self.parts.called(len(texts))
        return {**dict(zip(names, texts, strict=False)), **record}

    def empty_row(self) -> dict[str, Any]:
        """Return a row with all columns."""
        return {**dict.fromkeys(self.parts.called(self.parts.least), ""), **self.sample}


@dataclass(frozen=True)
class Option:
    """One of a verb's own options, as a shell declares it."""

    name: str
    """The keyword of Python and of lakes."""
    kind: Kind
    """"text" and "texts", which is a list; "number" is whole; "flag" is on or off."""
    help: str
    flags: str = ""
    """As a command line writes it, several with blanks between them; "": `--name`."""
    default: Any = None
    """None: not given."""
    least: int | None = None
    """Of a number."""
    choices: tuple[str, ...] = ()
    """Of a choice."""
    metavar: str | None = None
    """What stands for the value in the help."""
    sets: bool = True
    """What a flag says: `--always` says False of `no_answer`."""
    required: bool = False


HEAD = Option("head", "text", "The head to ask, where there are several.", metavar="NAME")


def _as_they_are(rows: Any, found: Many) -> Many:
    return found


@dataclass(frozen=True, kw_only=True)
class Question(Generic[One, Many]):
    """A verb that answers each row by itself.

    Its method of `RobertaHubInterface` has the signature and the words for Python; the command of
    the shell, the column of a lake and the view of a notebook are made from what stands here.
    """

    name: str
    """Of the method."""
    help: str
    """Of the shell's command."""
    examples: tuple[str, ...]
    """Command lines, which a test runs; none: the shell has no such command."""
    options: tuple[Option, ...] = ()
    """The verb's own options, in the order of the help."""
    answers: Callable[..., Many]
    """Ask a model: (Model, rows, the verb's options as keywords) -> an answer for each row, in a
    list or a Tensor (n, C). A row is one str, or a tuple of them."""
    columns: Callable[[Model, Any, Many], Columns]
    """Write answers as records: (Model, rows, answers) -> their columns."""
    form: Callable[[Settings], Form]
    """How the records look with these options."""
    argument: str = "texts"
    """What Python calls the texts."""
    no_pairs: str = ""
    """What an error says that the verb takes, where it takes no pairs."""
    view: Callable[[Any, Many], Many] = _as_they_are
    """Draw answers in a notebook: (rows, answers) -> the same list, which draws itself."""
    rows_at_once: int | None = None
    """Rows that a shell answers together; None: as many as it likes."""
    parts_of_tiny: Parts | None = None
    """What a row has where no model is named, if `roberta.tiny` takes less than other models."""
    asked_columns: tuple[str, ...] = ()
    """Columns that a lake has only where an option of that name asks for them; they come last."""
    any_count: bool = False
    """Whether a row of a lake has any number of texts from the least on."""
    what_columns: str = ""
    """How an error about the number of a lake's columns calls them, where there is no doubt."""

    @property
    def keywords(self) -> set[str]:
        """Names of the options that are the verb's own, in a lake."""
        return {option.name for option in self.options} | {*self.asked_columns}


def answer_texts(
    question: Question[One, Many], model: Model, texts: Any, settings: Settings
) -> One | Many:
    """Answer a caller's texts, as the methods of `RobertaHubInterface` do.

    Args:
        question: the verb.
        model: that is asked.
        texts: one str, or what holds several; see `as_texts`.
        settings: the verb's own options.

    Returns:
        What `view` makes of the answers; for one str the answer itself.
    """
    from roberta_hub.text.texts import as_single_texts, as_texts

    name = question.argument
    rows: Sequence[Any]
    if question.no_pairs:
        rows, one = as_single_texts(texts, name, needs=question.no_pairs)
    else:
        rows, one = as_texts(texts, name)
    with placed(lambda at: Place(name, at.index) if at.argument == "texts" else at):
        found = question.view(rows, question.answers(model, rows, **settings))
    if not one:
        return found
    first: One = found[0]  # type: ignore[index]  # a list or a Tensor
    return first


def answer_as_columns(
    question: Question[Any, Any],
    model: Model,
    rows: Sequence[Any],
    settings: Settings,
) -> Columns:
    """Answer rows, and write the answers as columns."""
    return question.columns(model, rows, question.answers(model, rows, **settings))


def records(columns: Columns) -> list[Record]:
    """Return columns row by row, with vectors as arrays of float32.

    Example:
        >>> records({"label": ["art", "sport"], "score": [0.5, 0.75]})
        [{'label': 'art', 'score': 0.5}, {'label': 'sport', 'score': 0.75}]
    """
    names = list(columns)
    return [
        {name: _numbers(value) for name, value in zip(names, values, strict=True)}
        for values in zip(*columns.values(), strict=True)
    ]


def _numbers(value: Any) -> Any:
    """Return a Tensor (C,) as an array, (T, C) as a list of arrays, and all else as it is."""
    if not hasattr(value, "detach"):
        return value
    return array("f", value.float().cpu().tolist()) if value.dim() == 1 else [*map(_numbers, value)]


def one_by_one(rows: Sequence[Any], answer: Callable[[Any], Answer]) -> list[Answer]:
    """Ask about each row by itself; an error about a part of one says which it was.

    Args:
        rows: str, or tuples of them.
        answer: asks about one.
    """
    answers = []
    for i, row in enumerate(rows):
        try:
            answers.append(answer(row))
        except RobertaHubError as error:
            if error.place is not None:  # not about a head, say
                error.within(Place("texts", i))
            raise
    return answers

"""Lays out the rows of a verb's output: the columns of the input, and those of its answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from roberta_hub.errors import RobertaHubError, sentence
from roberta_hub.shell.kept import KeptColumns
from roberta_hub.shell.reading import Item
from roberta_hub.verbs.question import AnswerFormat, Record


@dataclass(frozen=True)
class AnsweredRow:
    """An input with its answer."""

    item: Item
    record: Record | None
    """None: it has no answer."""
    error: RobertaHubError | None = None
    """Why it has none."""

    @property
    def why(self) -> str | None:
        """Why it has none, in words that do not name the row."""
        if self.error is None:
            return None
        return sentence(
            self.error.what, None, self.error.remedy.in_shell if self.error.remedy else ""
        )


@dataclass
class Layout:
    """Columns of the rows that a sink writes."""

    answer_format: AnswerFormat
    blocks: bool = False
    """Whether texts are arguments, so that a terminal shows a block below each."""
    kept: KeptColumns | None = None
    """None: the texts are of no table, and are written under the verb's names for them."""
    has_error_column: bool = False
    names: tuple[str, ...] = ()
    """The verb's names of the texts; (): not known before the first input."""
    ask_example: Callable[[], Record] = dict
    """Asks the model for a record, where the first inputs have none."""
    _example: Record | None = field(default=None, repr=False)

    def set_names(self, items: Sequence[Item]) -> None:
        """Name the texts as the verb does for the number of them that the first input has."""
        parts = self.answer_format.parts
        count = next((len(item.texts) for item in items if item.texts), parts.least)
        self.names = parts.called(count)

    def beside(self, item: Item) -> dict[str, Any]:
        """Columns before the answer: those of its table that are kept, or its texts."""
        if self.kept is not None:
            return dict(item.values)
        texts = item.texts or (None,) * len(self.names)
        return dict(zip(self.names, texts, strict=False))

    def empty_beside(self) -> dict[str, Any]:
        """Columns before the answer where there is no input."""
        if self.kept is not None:
            return dict.fromkeys(self.kept.names)
        return dict.fromkeys(
            self.names or self.answer_format.parts.called(self.answer_format.parts.least)
        )

    def example(self, rows: Sequence[AnsweredRow]) -> Record:
        """Return a record with all columns of an answer; the same for all rows."""
        if self._example is None:
            first = next((row.record for row in rows if row.record is not None), None)
            self._example = self.ask_example() if first is None else first
        return self._example

    def answer(self, row: AnsweredRow) -> dict[str, Any]:
        """Columns of an answer; all null where there is none, once `example` is known."""
        found = dict(row.record) if row.record is not None else dict.fromkeys(self.example([row]))
        if self.has_error_column:
            found["error"] = row.why
        return found

    def check(self, answers: Sequence[str]) -> None:
        """Refuse columns of an answer that a kept column is called too."""
        if self.kept is not None:
            self.kept.check([*answers, *(["error"] if self.has_error_column else [])])

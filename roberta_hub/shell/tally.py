"""Counts the inputs without an answer, and says at the end which they are."""

from __future__ import annotations

from collections.abc import Iterable

import click

from roberta_hub.errors import InputError, RobertaHubError
from roberta_hub.rows.formats import row_count
from roberta_hub.rows.left_out import LeftOut
from roberta_hub.shell.layout import AnsweredRow
from roberta_hub.shell.reading import Item
from roberta_hub.terminal import clean
from roberta_hub.verbs.unanswered import ERRORS_SHOWN, Errors, unanswered


class Tally:
    """Counts the inputs of a run."""

    def __init__(self) -> None:
        """Begin with none."""
        self._unanswered = 0
        self._errors: list[RobertaHubError] = []
        self._texts = LeftOut()

    def add(self, rows: Iterable[AnsweredRow]) -> None:
        """Count answered inputs."""
        for row in rows:
            item = row.item
            self._texts.has(item.fault if item.fault is not None else item.texts, item.where)
            if row.error is not None:
                self._unanswered += 1
                self._errors += [row.error] if len(self._errors) < ERRORS_SHOWN else []

    def finish(self, errors: Errors) -> None:
        """Say once what was missing, or looks so."""
        notes = self._texts.looking_missing()
        if self._unanswered and errors == "column":
            missing = self._texts.missing
            notes.append(
                f"{row_count(self._unanswered)} of {self._texts.rows:,} without an answer"
                + (f", {missing:,} of them without a text" if missing else "")
            )
        for note in notes:
            click.echo(f"roberta-hub: note: {clean(note)}", err=True)
        if self._unanswered and errors == "raise":
            what, remedy = unanswered(
                self._errors, self._unanswered, self._texts.missing, self._texts.rows
            )
            raise InputError(what, remedy=remedy)


def fault_error(item: Item) -> InputError:
    """Error for an input at fault."""
    assert item.fault is not None
    return InputError(item.fault.why, place=item.where)

"""Answers all rows but those that cannot be, and names these at the end: verbs and lakes alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, TypeVar

from roberta_hub.errors import Remedy, RobertaHubError, sentence
from roberta_hub.rows.formats import row_count

Errors = Literal["raise", "column"]
"""What becomes of rows that cannot be answered, whose answers are null: an error at the end names
them, or a column `error` says why."""
ERRORS_SHOWN = 5
"""Rows without an answer that an error names."""
Answers = TypeVar("Answers")


def answer_in_parts(
    ask: Callable[[list[Any]], Answers],
    rows: list[Any],
    is_of_a_row: Callable[[RobertaHubError], bool],
    start: int = 0,
) -> Iterator[tuple[int, Answers | RobertaHubError]]:
    """Answer rows together; where one is at fault, in halves, down to that row."""
    if not rows:
        return
    try:
        found = ask(rows)
    except RobertaHubError as error:
        if not is_of_a_row(error):
            raise
        if len(rows) == 1:
            yield start, error
            return
        half = len(rows) // 2
        yield from answer_in_parts(ask, rows[:half], is_of_a_row, start)
        yield from answer_in_parts(ask, rows[half:], is_of_a_row, start + half)
    else:
        yield start, found


def unanswered(
    errors: Sequence[RobertaHubError], count: int, missing: int, rows: int
) -> tuple[str, Remedy]:
    """Say which rows have no answer."""
    shown = errors[:ERRORS_SHOWN]
    whys = "; ".join(sentence(error.what, error.place) for error in shown)
    rest = f"; and {count - len(shown):,} more" if count > len(shown) else ""
    texts = f" ({missing:,} without a text)" if missing else ""
    what = f"{row_count(count)} of {rows:,} without an answer{texts}, all others have one: "
    fill = "drop rows without a text, or fill them; " if missing else ""
    column = "says why in a column instead of an error"
    last = Remedy(f'{fill}errors="column" {column}', f"{fill}--errors column {column}")
    return f"{what}{whys}{rest}", joined_remedies(shown, last)


def joined_remedies(errors: Iterable[RobertaHubError], last: Remedy) -> Remedy:
    """Join the remedies of errors, and say those that are equal once."""
    own = (error.remedy for error in errors if error.remedy is not None)
    remedies = [*dict.fromkeys(own), last]
    return Remedy(
        "; ".join(remedy.python for remedy in remedies),
        "; ".join(remedy.in_shell for remedy in remedies if remedy.in_shell),
    )

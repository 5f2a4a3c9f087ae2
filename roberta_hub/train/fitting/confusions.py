"""Shows which class was taken for which, in a table or as a list of the most frequent."""

from __future__ import annotations

from collections.abc import Mapping

from roberta_hub.measures.counts import count_text, f1
from roberta_hub.settings import REJECTED
from roberta_hub.show.bars import Bar, Bars
from roberta_hub.show.colours import BLUE, ORANGE
from roberta_hub.show.display import Part
from roberta_hub.show.facts import Note
from roberta_hub.show.shaded_table import Cell, ShadedTable

CLASSES_IN_TABLE = 8
"""Classes of a confusion table; with more the most frequent confusions are listed."""
LABELS_SHOWN = 20
"""Labels that have a line where a text may have several, or spans."""


def confusion_display(task: str, confusion: Mapping[tuple[str, str], float]) -> list[Part]:
    r"""Show which class was taken for which; of several labels, or spans, how each was found.

    Example:
        >>> (table,) = confusion_display("classification", {("bad", "bad"): 3, ("good", "bad"): 1})
        >>> print("\n".join(table.lines()))
          right  answered
                    bad    good
          bad         3       0
          good        1       0
    """
    if not confusion:
        return []
    if task in ("multi_label", "tagging"):
        return _of_labels(confusion)
    answered = {name for _, name in confusion} - {REJECTED}
    names = sorted(answered | {right for right, _ in confusion})
    if len(names) <= CLASSES_IN_TABLE:
        return [_square(names, confusion)]
    wrong = [(pair, n) for pair, n in confusion.items() if pair[0] != pair[1]]
    most = sorted(wrong, key=lambda item: -item[1])[:10]
    rows = [Bar(_taken(*pair, names), count_text(n)) for pair, n in most]
    return [Note("most often confused:"), Bars(rows)] if rows else []


def _square(names: list[str], confusion: Mapping[tuple[str, str], float]) -> ShadedTable:
    """Make a row for each right class and a column for each answer, refusals last."""
    refused = any(answered == REJECTED for _, answered in confusion)
    answers = [*names, REJECTED] if refused and REJECTED not in names else names
    rows = []
    for right in names:
        total = sum(confusion.get((right, name), 0) for name in answers) or 1
        rows.append((right, [_count(confusion, right, name, total) for name in answers]))
    return ShadedTable(answers, rows, left="right", above="answered")


def _taken(right: str, answered: str, names: list[str]) -> str:
    return f"{right} taken for {answered}" if answered in names else f"{right} {REJECTED}"


def _count(
    confusion: Mapping[tuple[str, str], float], right: str, answered: str, total: float
) -> Cell:
    count = confusion.get((right, answered), 0)
    return Cell(count_text(count), count / total, BLUE if right == answered else ORANGE)


def _of_labels(confusion: Mapping[tuple[str, str], float]) -> list[Part]:
    names = sorted({name for name, _ in confusion})
    rows = []
    for name in names[:LABELS_SHOWN]:
        right, missed, wrong = (confusion.get((name, k), 0) for k in ("right", "missed", "wrong"))
        shares = [_share(right, right + wrong), _share(right, right + missed)]
        counts = [Cell(count_text(count)) for count in (right, missed, wrong)]
        rows.append((name, [*counts, *shares, Cell(f"{f1(right, missed, wrong):.2f}")]))
    columns = ("right", "missed", "wrong", "precision", "recall", "F1")
    found: list[Part] = [ShadedTable(columns, rows)]
    if len(names) > LABELS_SHOWN:
        found.append(Note(f"and {len(names) - LABELS_SHOWN} more labels"))
    return found


def _share(count: float, total: float) -> Cell:
    return Cell(f"{count / total:.2f}", count / total) if total else Cell("-")

"""Reads texts with spans for a tagger, says what is unusual, and holds some of them out."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, ClassVar

from roberta_hub.errors import InputError, Remedy
from roberta_hub.inference.tag import OUTSIDE, split_words
from roberta_hub.rows.left_out import LeftOut
from roberta_hub.rows.tables import Table
from roberta_hub.settings import WordRule
from roberta_hub.terminal import clean
from roberta_hub.train.data.labels import group_alike, mistyped_notes
from roberta_hub.train.fitting.examples import (
    FEW_TRAINING_ROWS,
    count_bars,
    held_out_share,
    share_words,
    wrap_note,
)
from roberta_hub.train.fitting.span_layouts import TAKES, SpanTable, lone, open_source, span_table
from roberta_hub.train.fitting.spans import Annotated, checked
from roberta_hub.train.fitting.split import drop_held_out, group_duplicates, split

TAGGING = "tagging"
"""The task of `fit` that learns spans."""
RULE: WordRule = "clusters"
"""How a tagger of `fit` cuts texts: spans of people begin and end inside of words of treebanks too.
On 600 rows of restaurants-8k F1 is 79.0, with words of treebanks 78.8, with the model's pieces 77.6
(roberta.tiny, one seed)."""


@dataclass(frozen=True)
class TagExamples:
    """What a table holds to learn spans from, and to measure a tagger on."""

    source: str
    """What errors and reports call the table."""
    layout: str
    """What it was found to be, in words."""
    train: list[Annotated]
    valid: list[Annotated]
    held_out: str
    """How `valid` was chosen, in words."""
    given: dict[str, Any]
    """What chooses the same rows: `text`, `label`, `valid`."""
    in_memory: bool = False
    """Whether the table has no path, so that no command names it."""
    notes: list[str] = field(default_factory=list)
    """What is unusual about the rows, and what was done with them; a sentence each."""

    task: ClassVar[str] = TAGGING

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the spans' labels, sorted."""
        return tuple(sorted({label for row in self.train for _, _, label in row.spans}))

    @property
    def tags(self) -> tuple[str, ...]:
        """Names of the head's classes: outside of spans, the first part of one, the others."""
        return (OUTSIDE, *(f"{mark}-{label}" for label in self.labels for mark in "BI"))

    def counts(self) -> Counter[str]:
        """Count the spans of all rows by their labels."""
        return Counter(label for row in (*self.train, *self.valid) for _, _, label in row.spans)

    def summary(self) -> str:
        """Describe the data for a terminal: rows, spans by label, what is unusual."""
        rows = len(self.train) + len(self.valid)
        counts = self.counts()
        lines = [
            f"{clean(self.source)}: {rows:,} {'text' if rows == 1 else 'texts'}, "
            f"{clean(self.layout)}",
            f"task: {TAGGING}, {len(counts)} label{'' if len(counts) == 1 else 's'}, "
            f"{counts.total():,} spans",
            *count_bars(counts),
        ]
        lines += [wrap_note(note) for note in self.notes]
        lines.append(f"{len(self.train):,} to learn from, {len(self.valid):,} {self.held_out}")
        return "\n".join(lines)


def read_tag_examples(
    table: Any,
    *,
    text: Any = None,
    label: Any = None,
    valid: Any = 0.1,
    task: str | None = None,
    seed: int = 1,
    separator: str | None = None,
    header: bool = True,
    source: SpanTable | Table | None = None,
) -> TagExamples | None:
    """Read a table of texts with spans, and hold some rows out; None: it is no such table.

    Rows whose spans cannot be used are left out, and `notes` says which. Texts that occur more
    than once stay on one side.

    Example:
        >>> rows = [{"text": f"Ada came {i} times.", "spans": [[0, 3, "PER"]]} for i in range(10)]
        >>> found = read_tag_examples(rows)
        >>> len(found.train), len(found.valid), found.tags
        (9, 1, ('O', 'B-PER', 'I-PER'))
    """
    opened = source or find_spans(table, text, label, task, separator, header=header)
    if not isinstance(opened, SpanTable):
        return None
    text, label = lone(text), lone(label)
    left = LeftOut()
    found = _usable(opened, left)
    notes = left.notes()
    share = held_out_share(valid)
    groups = group_duplicates(found, notes)
    if share is not None:
        train, held_out = split(found, groups, share, seed, TAGGING)
        words = share_words(share, seed, TAGGING)
    else:
        other = span_table(valid, text, label, header=header)
        if other is None:
            raise InputError(f"valid holds no spans; {TAKES}")
        more = LeftOut()
        held_out = _usable(other, more)
        notes += more.notes()
        train = drop_held_out(found, held_out, other.name, notes)
        words = f"held out ({other.name})"
    examples = TagExamples(
        source=opened.name,
        layout=opened.layout,
        train=train,
        valid=held_out,
        held_out=words,
        given={"text": text, "label": label, "valid": valid},
        in_memory=not isinstance(table, (str, os.PathLike)),
        notes=notes,
    )
    _check(examples)
    return examples


def find_spans(
    table: Any, text: Any, label: Any, task: Any, separator: Any, *, header: bool = True
) -> SpanTable | Table | None:
    """Look for spans in a table to learn from; a `Table` has none, and its first rows are kept."""
    text, label = lone(text), lone(label)
    spans_may_be = task is None or (isinstance(task, str) and task == TAGGING)
    if not spans_may_be or not isinstance(label, (str, type(None))):
        return None  # what is no task at all is refused where labels are read
    opened = open_source(table, text, label, header=header)
    found = span_table(opened, text, label) if isinstance(opened, Table) else opened
    if found is not None and separator is not None:
        raise InputError(
            "separator means nothing to a tagger",
            remedy=Remedy("leave out separator=...", "leave out --separator"),
        )
    if found is None and task == TAGGING:
        what = table if isinstance(table, (str, os.PathLike)) else "the table"
        raise InputError(
            f"{what}: no spans were found{f' in {label!r}' if label else ''}; {TAKES}",
            remedy=Remedy("label=... names their column", "--label names their column"),
        )
    return found or opened


def _usable(source: SpanTable, left: LeftOut) -> list[Annotated]:
    """Keep the rows whose spans begin and end between parts of the text."""
    found = []
    for row in checked(source.read(), left):
        starts, ends = zip(*split_words(row.text, RULE), strict=True)
        cut = next((s for s in row.spans if s[0] not in starts or s[1] not in ends), None)
        if cut is None:
            found.append(row)
            continue
        start, end, label = cut
        whole = next(
            row.text[a:b] for a, b in zip(starts, ends, strict=True) if a < start < b or a < end < b
        )
        left.add("a span that cuts a word", row.where, f"[{start}, {end}, {label!r}] in {whole!r}")
    return found


def _check(examples: TagExamples) -> None:
    """Refuse tables without a span, or without rows on both sides; note what is unusual."""
    notes = examples.notes
    why = f"; {notes[0]}" if notes else ""
    if not examples.train or not examples.valid:
        rows = len(examples.train) + len(examples.valid)
        raise InputError(
            f"{examples.source}: {rows} rows can be used, which is too few: some are learnt, and "
            f"others are held out{why}"
        )
    if not examples.labels:
        raise InputError(
            f"{examples.source}: no row to learn from has a span, so there is nothing to learn{why}"
        )
    for group in group_alike(examples.counts()):
        notes.append(f"labels that look alike: {', '.join(map(repr, group))}")
    notes += mistyped_notes(examples.counts())
    unseen = sorted(set(examples.counts()) - set(examples.labels))
    if unseen:
        notes.append(f"only in rows that are held out, and so not learnt: {', '.join(unseen)}")
    if len(examples.train) < FEW_TRAINING_ROWS:
        notes.append(
            f"{len(examples.train)} rows are few to learn from; some hundreds make a better model"
        )

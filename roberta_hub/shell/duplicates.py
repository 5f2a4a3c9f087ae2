"""Declares `roberta-hub duplicates`: texts that are there twice, or nearly so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from roberta_hub.indexing import is_index
from roberta_hub.shell.layout import AnsweredRow
from roberta_hub.shell.options import Request, examples, takes_texts
from roberta_hub.shell.reading import Item, group_in_windows, read_source
from roberta_hub.shell.run_verb import open_rows
from roberta_hub.shell.signature import takes_arguments
from roberta_hub.shell.tally import Tally, fault_error
from roberta_hub.shell.writing import format_of, open_sink
from roberta_hub.verbs.question import AnswerFormat, Parts, Record

if TYPE_CHECKING:
    from roberta_hub.indexing.duplicates import Duplicates

_GROUPS = AnswerFormat(
    Parts(most=1),
    sample={"group": 0, "kept": True, "similarity": 1.0},
    titles=("group", "kept", "similarity"),
    line=lambda answer: (answer["group"], str(answer["kept"]).lower(), answer["similarity"]),
)


@click.command(
    epilog=examples(
        "roberta-hub duplicates -i reviews.csv --text text -o groups.csv",
        "roberta-hub duplicates -i reviews.lance --by vectors -o groups.parquet",
    )
)
@takes_arguments("indexing/duplicates.py", "duplicates")
@takes_texts
def duplicates(request: Request, by: Any, threshold: float | None) -> int:
    """Find the texts of a file that are there twice, or nearly so; the first of each is kept.

    Every row gets `group`, the number of the row that is kept of its group, counted from 0, which
    is its own if it is kept; `kept`; and its `similarity` to the kept one. Rows with `kept` are
    the file without duplicates.

    FILE may be an index of `roberta-hub index`, whose vectors --by vectors compares.
    """
    from roberta_hub.indexing.duplicates import find_duplicates
    from roberta_hub.indexing.store import Store

    if request.source in (None, "-") or request.texts or request.pairs:
        raise click.UsageError("duplicates are looked for in a file, which is read twice: -i FILE")
    if request.model is not None:
        raise click.UsageError("no model is asked here, so -m is for `index`, which makes vectors")
    source = str(request.source)
    format_of(request, _GROUPS)  # raises before anything is read
    items = read_source(request, _GROUPS.parts).items
    texts = (next(iter(item.texts), None) for item in items if item is not None)
    found = find_duplicates(texts, by, threshold, Store(source) if is_index(source) else None)
    _write(request, found)
    click.echo(f"roberta-hub: {found}", err=True)
    return 0


def _write(request: Request, found: Duplicates) -> None:
    """Write the rows of the file, each with its group."""
    _, layout, items = open_rows(request, _GROUPS)
    layout.set_names([])
    layout.ask_example = lambda: _GROUPS.sample
    tally, records = Tally(), _records(found)
    with open_sink(request, layout) as sink:
        for window in group_in_windows(items):
            rows = [_answered(item, record) for item, record in zip(window, records, strict=False)]
            sink.write(rows)
            tally.add(rows)
    tally.finish(request.errors)


def _records(found: Duplicates) -> Iterator[Record]:
    for row, (group, similarity) in enumerate(zip(found.group, found.similarity, strict=True)):
        yield {"group": group, "kept": row == group, "similarity": similarity}


def _answered(item: Item, record: Record) -> AnsweredRow:
    if item.fault is None:
        return AnsweredRow(item, record)
    return AnsweredRow(item, None, fault_error(item))

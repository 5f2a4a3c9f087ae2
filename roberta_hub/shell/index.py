"""Declares `roberta-hub index`: the vectors of texts, kept on disk to be searched."""

from __future__ import annotations

from typing import Any

import click

from roberta_hub.shell.given import option
from roberta_hub.shell.options import examples
from roberta_hub.shell.reports import FORMAT, write_report
from roberta_hub.shell.signature import takes_arguments


@click.command(
    epilog=examples(
        "roberta-hub index reviews.csv --text text -o reviews.lance",
        "roberta-hub index reviews.csv --key text --dtype float16 -o half.lance",
    )
)
@click.argument("sources", nargs=-1, metavar="FILE...", required=True)
@takes_arguments(
    "indexing/build.py",
    "index",
    truncate_dim={"ends": (1, None)},
    workers={"ends": (1, None)},
    unit_rows={"ends": (1, None)},
    prompt={"metavar": "TEXT"},
    query_prompt={"metavar": "TEXT"},
)
@option("-o", "--output", metavar="INDEX", required=True, help="The index; it ends in .lance.")
@FORMAT
def index(sources: tuple[str, ...], output: str, form: str, **given: Any) -> int:
    """Embed the texts of each FILE into an index on disk, which `similar` searches.

    FILE is Parquet, JSONL or CSV: a file, a folder, a pattern ('in/*.parquet') or an address of an
    object store. The same command resumes an index that was killed. Another FILE is added; with
    --key, rows whose key is there are replaced.

    The exit status is 1 where rows have no vector, since they have no text or one that is too
    long; all others are in the index.
    """
    from roberta_hub.indexing.build import index as indexed

    return write_report(indexed(list(sources), output, **given), form)

"""Writes the report of a result; the options of commands that judge a table."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from roberta_hub.shell.given import option
from roberta_hub.shell.options import text_option
from roberta_hub.terminal import clean

if TYPE_CHECKING:
    from roberta_hub.show.report import Reported

JUDGED_TEXT = text_option(
    "text",
    "Column of the texts; A,B of pairs. Without it: found by its name, or the only one of prose.",
    "COLUMN",
)
HEADER = option(
    "--header/--no-header",
    default=True,
    help="Whether the first row of a CSV or TSV names the columns; else they are 1, 2, ....",
)
TRUNCATE = option("--truncate", is_flag=True, help="Cut texts that are too long.")
FORMAT = option(
    "-f",
    "--format",
    "form",
    type=click.Choice(("text", "json", "markdown")),
    default="text",
    show_default=True,
)


def write_report(found: Reported, form: str = "text") -> int:
    """Write a report on standard output, and return its exit status.

    Args:
        found: the result.
        form: "text", "json" or "markdown".
    """
    report = found.report()
    if form == "json":
        click.echo(json.dumps(found.to_dict(), ensure_ascii=False, indent=2))
    elif form == "markdown":
        click.echo(report.markdown())
    else:
        say(str(report))
    return report.exit


def say(text: str) -> None:
    """Write lines on standard output, harmless for a terminal."""
    for line in text.splitlines():
        click.echo(clean(line))

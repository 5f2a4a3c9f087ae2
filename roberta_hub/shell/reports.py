"""Writes the report of a result."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from roberta_hub.shell.given import option
from roberta_hub.terminal import clean

if TYPE_CHECKING:
    from roberta_hub.show.report import Reported

FORMAT = option(
    "-f",
    "--format",
    "form",
    type=click.Choice(("text", "json", "markdown")),
    default="text",
    show_default=True,
)


def write_report(found: Reported, form: str = "text") -> int:
    """Write a report on standard output, and return its exit status."""
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

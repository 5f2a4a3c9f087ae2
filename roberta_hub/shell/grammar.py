"""Defines what every verb on texts takes: texts, files and columns; a model; where answers go."""

from __future__ import annotations

import csv
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click
from click.shell_completion import CompletionItem

FORMATS = ("table", "jsonl", "csv", "tsv", "parquet", "npy")
DEFAULT_MODEL = "roberta.tiny"


@dataclass(frozen=True)
class Asked:
    """What the options that all verbs on texts share were given."""

    verb: str
    texts: tuple[str, ...]
    """The arguments."""
    pairs: tuple[tuple[str, str], ...]
    source: str | None
    """Of `-i`: a path, or "-" for standard input."""
    columns: tuple[str, ...]
    """Names of the columns with the texts; none: they were not given."""
    model: str | None
    """None: it was not given."""
    device: str | None
    format: str | None
    target: str | None
    """Of `-o`: a path, or "-" for standard output."""
    truncate: bool
    stride: int | None

    @property
    def options(self) -> dict[str, Any]:
        """The keywords that every verb of the interface takes; the shell has its own bar."""
        return {"truncate": self.truncate, "stride": self.stride, "progress": False}


def examples(*lines: str) -> str:
    """Lay out examples as the end of a verb's help; a test runs them."""
    return "\b\nexamples:\n" + "\n".join(f"  {line}" for line in lines)


def listed(context: click.Context, option: click.Parameter, value: str | None) -> tuple[str, ...]:
    """Read a list as a line of a CSV: `a,b`, and `"a, b",c` for names with a comma."""
    if value is None:
        return ()
    try:
        (names,) = csv.reader([value], skipinitialspace=True, strict=True)
    except (csv.Error, ValueError) as error:
        raise click.BadParameter(f"{value!r} is no list like a,b,c: {error}") from None
    if not names or not all(names) or len(set(names)) != len(names):
        raise click.BadParameter(f"{value!r} has an empty name, or one twice")
    return tuple(names)


def complete_model(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offer the models' names, and files where none begins so."""
    from roberta_hub.checkpoint.fetch.records import available_models

    names = [name for name in available_models() if name.startswith(incomplete)]
    return [CompletionItem(name) for name in names] or [CompletionItem(incomplete, type="file")]


_SHARED = (
    click.argument("texts", nargs=-1, metavar="[TEXT]..."),
    click.option(
        "--pair",
        "pairs",
        nargs=2,
        multiple=True,
        metavar="A B",
        help="A pair of texts; may come again.",
    ),
    click.option(
        "-i",
        "--input",
        "source",
        metavar="FILE",
        type=click.Path(),
        help="Read CSV, TSV, JSONL, Parquet, or one text a line; - is standard input.",
    ),
    click.option(
        "-c",
        "--column",
        "columns",
        metavar="NAME[,NAME]",
        callback=listed,
        help="The column with the texts, or two for pairs. Standard input then holds JSONL.",
    ),
    click.option(
        "-m",
        "--model",
        metavar="MODEL",
        shell_complete=complete_model,
        help=f"A name of `roberta-hub models`, a folder or a file.  [default: {DEFAULT_MODEL}]",
    ),
    click.option("--device", metavar="NAME", help="cuda, mps, cpu, or auto."),
    click.option(
        "-f",
        "--format",
        metavar="FORMAT",
        type=click.Choice(FORMATS),
        help="table, jsonl, csv, tsv, parquet or npy.  [default: what FILE's name says; else table "
        "in a terminal, jsonl elsewhere]",
    ),
    click.option(
        "-o",
        "--output",
        "target",
        metavar="FILE",
        type=click.Path(),
        help="Write there, once all is done; an older file stays until then.",
    ),
    click.option("--truncate", is_flag=True, help="Cut texts that are too long for the model."),
    click.option(
        "--stride",
        metavar="N",
        type=click.IntRange(min=0),
        help="Or read them in windows that overlap by N tokens.",
    ),
)


def takes_texts(function: Callable[..., int]) -> Callable[..., int]:
    """Give a verb the arguments and options that all verbs on texts share.

    Args:
        function: gets them as `Asked`, and its own options behind it.
    """
    names = [name for name in Asked.__dataclass_fields__ if name != "verb"]

    @functools.wraps(function)
    def with_asked(**given: Any) -> int:
        shared = {name: given.pop(name) for name in names}
        verb = click.get_current_context().info_name or ""
        return function(Asked(verb=verb, **shared), **given)

    for option in reversed(_SHARED):
        with_asked = option(with_asked)
    return with_asked

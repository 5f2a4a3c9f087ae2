"""Runs a verb over a lake: a folder of answers, or more than one file of texts."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from roberta_hub.shell.grammar import DEFAULT_MODEL, Asked, Lake
from roberta_hub.shell.writing import terminable
from roberta_hub.verbs.question import Parts

if TYPE_CHECKING:
    from roberta_hub.scale import Report

_WILD = "*?["


def is_lake(asked: Asked) -> bool:
    """Tell whether a command line means a lake.

    Args:
        asked: what was given.

    Example:
        >>> from types import SimpleNamespace
        >>> is_lake(SimpleNamespace(lake=Lake(), source="a.parquet", target="out/"))
        True
        >>> is_lake(SimpleNamespace(lake=Lake(), source="a.parquet", target="out.parquet"))
        False
    """
    return asked.lake is not None and (
        asked.lake != Lake() or _is_folder(asked.target) or _is_several(asked.source)
    )


def _is_folder(target: str | None) -> bool:
    return target is not None and (target.endswith("/") or "://" in target or os.path.isdir(target))


def _is_several(source: str | None) -> bool:
    if source is None or os.path.isfile(source):
        return False
    return "://" in source or os.path.isdir(source) or any(c in source for c in _WILD)


def run(asked: Asked, parts: Parts, settings: Mapping[str, Any]) -> int:
    """Answer a lake, or tell how far it is.

    Args:
        asked: what was given.
        parts: how many texts an input has.
        settings: the verb's own options, by the library's names; None stands for one not given.

    Returns:
        The exit status.
    """
    from roberta_hub.scale import status

    if asked.target in (None, "-"):
        raise click.UsageError("a lake is written to a folder, or to one file: give -o OUT/")
    assert asked.lake is not None
    if asked.lake.status:
        print(status(asked.target))
        return 0
    _check(asked)
    report = _run(asked, asked.lake, _columns(asked, parts), settings)
    print(f"roberta-hub: {report}", file=sys.stderr)
    return 0


def _check(asked: Asked) -> None:
    if asked.texts or asked.pairs or asked.source in (None, "-"):
        raise click.UsageError(
            "a lake is read from files: give -i FILE, a folder or 'in/*.parquet'"
        )
    if asked.format not in (None, "parquet"):
        raise click.UsageError(f"a lake is written as parquet, not as {asked.format}")
    if asked.truncate and asked.stride is not None:
        raise click.UsageError("--truncate and --stride exclude each other; choose one")


def _columns(asked: Asked, parts: Parts) -> tuple[str, ...]:
    """Name the columns with the texts; none: the library finds the only one."""
    if not asked.columns:
        return parts.two if parts.least > 1 else ()
    if not parts.least <= len(asked.columns) <= parts.most:
        raise click.UsageError(parts.refusal(len(asked.columns)))
    return asked.columns


def _run(
    asked: Asked, given: Lake, columns: tuple[str, ...], settings: Mapping[str, Any]
) -> Report:
    from roberta_hub.scale import Verb, lake

    options = {**settings, "truncate": asked.truncate or None, "stride": asked.stride}
    own: Any = {name: value for name, value in options.items() if value is not None}
    ways: Any = {
        "engine": given.engine,
        "workers": given.workers,
        "keep": given.keep or None,
        "errors": given.errors,
        "unit_rows": given.unit_rows,
        "part": given.part,
        "address": given.address,
    }
    model = asked.model or DEFAULT_MODEL
    verb = Verb(asked.verb, model, text=columns or None, device=asked.device, **own)
    ways = {name: value for name, value in ways.items() if value is not None}
    with terminable():
        return lake(str(asked.source), str(asked.target), verb, **ways)

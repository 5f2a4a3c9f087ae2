"""Runs a verb over a lake: a folder of answers, or more than one file of texts."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from roberta_hub.errors import LakeError
from roberta_hub.shell.given import option
from roberta_hub.shell.options import DEFAULT_MODEL, LakeOptions, Request, takes_texts
from roberta_hub.shell.signature import takes_arguments
from roberta_hub.verbs.question import Parts

if TYPE_CHECKING:
    from roberta_hub.scale import Report

_WILDCARDS = "*?["


def parse_part(
    context: click.Context, option: click.Parameter, value: str | None
) -> tuple[int, int] | None:
    """Parse a part: `3/16` is the third of sixteen."""
    if value is None:
        return None
    k, slash, n = value.partition("/")
    if slash and k.isdecimal() and n.isdecimal() and 1 <= int(k) <= int(n):
        return int(k), int(n)
    raise click.BadParameter(f"{value!r} is no part like 3/16, the third of sixteen")


def takes_rows(function: Callable[..., int]) -> Callable[..., int]:
    """Decorate a verb with the options for lakes too."""

    @functools.wraps(function)
    def with_lake(request: Request, **given: Any) -> int:
        lake = LakeOptions(**{name: given.pop(name) for name in LakeOptions.__dataclass_fields__})
        return function(replace(request, lake=lake), **given)

    lake = takes_arguments(
        "scale/run.py",
        "lake",
        ("engine", "workers", "unit_rows", "address"),
        engine={"left": True},
        workers={"ends": (1, None)},
        unit_rows={"ends": (1, None), "left": True},
        address={"metavar": "HOST"},
    )
    return takes_texts(lake(_PART(_STATUS(with_lake))))


_PART = option(
    "--part", metavar="K/N", callback=parse_part, help="Do the K-th of N parts of a lake."
)
_STATUS = option(
    "--status",
    is_flag=True,
    help="Of a lake (a folder or 'in/*.parquet' as FILE, or -o OUT/): tell how far it is. The same "
    "command resumes what was begun.",
)


def is_lake(request: Request) -> bool:
    """Whether a command line asks for a lake.

    Example:
        >>> from types import SimpleNamespace
        >>> is_lake(SimpleNamespace(lake=LakeOptions(), source="a.parquet", target="out/"))
        True
        >>> is_lake(SimpleNamespace(lake=LakeOptions(), source="a.parquet", target="out.parquet"))
        False
    """
    return request.lake is not None and (
        request.lake != LakeOptions() or _is_folder(request.target) or _is_several(request.source)
    )


def _is_folder(target: str | None) -> bool:
    return target is not None and (target.endswith("/") or "://" in target or os.path.isdir(target))


def _is_several(source: str | None) -> bool:
    if source is None or os.path.isfile(source):
        return False
    return "://" in source or os.path.isdir(source) or any(c in source for c in _WILDCARDS)


def run_lake(request: Request, parts: Parts, settings: Mapping[str, Any]) -> int:
    """Run a lake, or print its status."""
    from roberta_hub.scale import status

    if request.target in (None, "-"):
        raise click.UsageError("a lake is written to a folder, or to one file: give -o OUT/")
    assert request.lake is not None
    if request.lake.status:
        print(status(request.target))
        return 0
    _check(request)
    try:
        report = _call_lake(request, request.lake, _columns(request, parts), settings)
    except LakeError as error:
        print(f"roberta-hub: {error.report}", file=sys.stderr)
        raise
    print(f"roberta-hub: {report}", file=sys.stderr)
    return 0


def _check(request: Request) -> None:
    if request.texts or request.pairs or request.source in (None, "-"):
        raise click.UsageError(
            "a lake is read from files: give -i FILE, a folder or 'in/*.parquet'"
        )
    if request.input_format:
        raise click.UsageError("--input-format is for one table; a lake knows files by their names")
    if request.format not in (None, "parquet"):
        raise click.UsageError(f"a lake is written as parquet, not as {request.format}")
    if request.truncate and request.stride is not None:
        raise click.UsageError("--truncate and --stride exclude each other; choose one")


def _columns(request: Request, parts: Parts) -> tuple[str, ...]:
    """Names of the text columns; (): the library finds the only one."""
    if not request.columns:
        return parts.two if parts.least > 1 else ()
    if not parts.least <= len(request.columns) <= parts.most:
        raise click.UsageError(parts.refusal(len(request.columns)))
    return request.columns


def _call_lake(
    request: Request, given: LakeOptions, columns: tuple[str, ...], settings: Mapping[str, Any]
) -> Report:
    from roberta_hub.scale import Verb, lake

    options = {**settings, "truncate": request.truncate or None, "stride": request.stride}
    if "dtype" in options:  # which a Verb has of the weights
        options["vectors"] = options.pop("dtype")
    own: Any = {name: value for name, value in options.items() if value is not None}
    ways: Any = {
        "engine": given.engine,
        "workers": given.workers,
        "keep": request.keep,
        "errors": request.errors,
        "unit_rows": given.unit_rows,
        "part": given.part,
        "address": given.address,
    }
    model = request.model or DEFAULT_MODEL
    verb = Verb(request.verb, model, text=columns or None, device=request.device, **own)
    ways = {name: value for name, value in ways.items() if value is not None}
    return lake(str(request.source), str(request.target), verb, **ways)

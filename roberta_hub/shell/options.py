"""Shared options of verbs on texts: input, model and output."""

from __future__ import annotations

import csv
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import click
from click.shell_completion import CompletionItem

from roberta_hub.arguments import short_repr
from roberta_hub.shell.given import Decorator, Option, option
from roberta_hub.verbs.unanswered import Errors

ANSWER_FORMATS = ("table", "jsonl", "csv", "tsv", "parquet", "npy")
DISPLAY_FORMATS = ("text", "json", "html", "png")
INPUT_FORMATS = ("lines", "csv", "tsv", "jsonl", "parquet")
DEFAULT_MODEL = "roberta.tiny"


@dataclass(frozen=True)
class LakeOptions:
    """Values of the options for lakes; all None: not given."""

    engine: str | None = None
    address: str | None = None
    workers: int | None = None
    unit_rows: int | None = None
    part: tuple[int, int] | None = None
    status: bool = False


@dataclass(frozen=True)
class Request:
    """Values of the options that all verbs on texts share."""

    verb: str
    texts: tuple[str, ...]
    """Positional arguments."""
    pairs: tuple[tuple[str, str], ...]
    source: str | None
    """Value of `-i`: a path, or "-" for standard input."""
    columns: tuple[str, ...]
    """Names of the text columns; (): not given."""
    model: str | None
    """Name or path; None: not given."""
    device: str | None
    format: str | None
    target: str | None
    """Value of `-o`: a path, or "-" for standard output."""
    truncate: bool
    stride: int | None
    input_format: str | None = None
    """One of `INPUT_FORMATS`; None: by the file's name."""
    keep: tuple[str, ...] | None = None
    """Names of the columns to keep beside the answers; None: all."""
    errors: Errors = "raise"
    lake: LakeOptions | None = None
    """None: the verb has no such options."""

    @property
    def options(self) -> dict[str, Any]:
        """Keywords of every verb of the interface; the shell has its own progress bar."""
        return {"truncate": self.truncate, "stride": self.stride, "progress": False}


def examples(*lines: str) -> str:
    """Format examples for the end of a verb's help; a test runs them."""
    return "\b\nexamples:\n" + "\n".join(f"  {line}" for line in lines)


def names_option(*names: str, **about: Any) -> Decorator:
    """Declare an option of a list: `--labels a,b`, `--labels a --labels b`, or both."""
    return option(*names, multiple=True, **{"callback": collect, **about})


def parse_list(
    context: click.Context, option: click.Parameter, value: str | None
) -> tuple[str, ...]:
    """Parse a list as a line of a CSV: `a,b`, and `"a, b",c` for names with a comma."""
    if value is None:
        return ()
    try:
        (names,) = csv.reader([value], skipinitialspace=True, strict=True)
    except (csv.Error, ValueError) as error:
        raise click.BadParameter(f"{value!r} is no list like a,b,c: {error}") from None
    if not names or not all(names) or len(set(names)) != len(names):
        raise click.BadParameter(f"{value!r} has an empty name, or one twice")
    return tuple(names)


def collect(
    context: click.Context, option: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    """Join the lists of an option that is given several times."""
    found = [name for value in values for name in parse_list(context, option, value)]
    if twice := [name for name in found if found.count(name) > 1]:
        raise click.BadParameter(f"{short_repr(twice[0])} is in two of its lists; once is enough")
    return tuple(found)


def collect_given(
    context: click.Context, option: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...] | None:
    """Join the lists of an option; None: it is not given."""
    return collect(context, option, values) or None


def parse_keep(
    context: click.Context, option: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...] | None:
    """Join the columns to keep: names, `all`, which is None, or `none`."""
    if len({*values}) > 1 and (alone := [value for value in values if value in ("all", "none")]):
        raise click.BadParameter(f"{alone[0]} and names exclude each other; choose one")
    if not values or values[0] == "all":
        return None
    return () if values[0] == "none" else collect(context, option, values)


def complete_model(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete names of models, else files."""
    from roberta_hub.checkpoint.fetch.records import available_models

    names = [name for name in available_models() if name.startswith(incomplete)]
    return [CompletionItem(name) for name in names] or [CompletionItem(incomplete, type="file")]


MODEL = option(
    "-m",
    "--model",
    metavar="MODEL",
    shell_complete=complete_model,
    help="A name of `roberta-hub models`, OWNER/NAME at Hugging Face, a folder or a file.  "
    f"[default: {DEFAULT_MODEL}]",
)
"""The option of every verb that asks a model."""


def text_option(name: str, help: str, metavar: str = "NAME[,NAME]") -> Decorator:
    """Make the option --text, the column with the texts, under its older names too."""
    return names_option("-c", "--text", "--column", name, metavar=metavar, help=help)


_BEFORE = "words before the first -m"


class _ModelOption(Option):
    """Remembers how many words came before it: of two models, old and new are in that order."""

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        """Let the parser note the place."""
        super().add_to_parser(parser, ctx)
        self.watch(parser, lambda _, state: ctx.meta.setdefault(_BEFORE, len(state.largs)))


def takes_models(*names: str, then: str = "") -> Decorator:
    """Decorate a verb whose first arguments are models, which -m may name instead."""
    titles = [*map(str.upper, names), *filter(None, [then])]
    what = " and ".join(title.strip("[].") for title in titles[: max(1, len(names))])

    def decorate(function: Callable[..., int]) -> Callable[..., int]:
        @functools.wraps(function)
        def with_models(words: tuple[str, ...], named: Any, **given: Any) -> int:
            own = (named,) if isinstance(named, str) else named or ()
            place = click.get_current_context().meta.get(_BEFORE, 0)
            before = min(place, max(0, len(names) - len(own)))
            found = (*words[:before], *own, *words[before:])
            _check_count(found, titles)
            given |= {"others": found[len(names) :]} if then else {}
            return function(**dict(zip(names, found, strict=False)), **given)

        model = option(
            "-m",
            "--model",
            "named",
            cls=_ModelOption,
            multiple=len(names) != 1,
            metavar="MODEL",
            shell_complete=complete_model,
            help=f"Another way to give {what}, as in verbs on texts.",
        )
        words = click.argument(
            "words", nargs=-1, metavar=" ".join(titles), shell_complete=complete_model
        )
        return words(model(with_models))

    return decorate


def _check_count(given: Sequence[str], titles: Sequence[str]) -> None:
    """Refuse too few arguments and too many, in click's words."""
    if len(given) < len(titles) and not titles[-1].startswith("["):
        hint = f"'{titles[len(given)]}'"
        raise click.MissingParameter(param_type="argument", param_hint=hint)
    if (extra := given[len(titles) :]) and not titles[-1].endswith("..."):
        raise click.UsageError(f"Got unexpected extra argument ({' '.join(extra)})")


_INPUT_OPTIONS = (
    click.argument("texts", nargs=-1, metavar="[TEXT]..."),
    option(
        "--pair",
        "pairs",
        nargs=2,
        multiple=True,
        metavar="A B",
        help="A pair of texts; may come again.",
    ),
    option(
        "-i",
        "--input",
        "source",
        metavar="FILE",
        type=click.Path(),
        help="Read CSV, TSV, JSONL, Parquet, or one text a line; - is standard input.",
    ),
    text_option(
        "columns",
        "The column with the texts, or two for pairs. Without it: found by its name, or the only "
        "one of prose. Standard input is then JSONL, unless --input-format says otherwise.",
    ),
    MODEL,
    option("--device", metavar="NAME", help="cuda, mps, cpu, or auto."),
)
_TARGET = option(
    "-o",
    "--output",
    "target",
    metavar="FILE",
    type=click.Path(),
    help="Write there, once all is done; an older file stays until then.",
)
_INPUT_FORMAT = option(
    "--input-format",
    metavar="FORMAT",
    type=click.Choice(INPUT_FORMATS),
    help="What FILE or standard input is, compressed or not: lines, csv, tsv, jsonl or parquet.  "
    "[default: what FILE's name says; of standard input lines, or jsonl with --text]",
)
_TRUNCATE = option("--truncate", is_flag=True, help="Cut texts that are too long for the model.")
_STRIDE = option(
    "--stride",
    metavar="N",
    type=click.IntRange(min=0),
    help="Or read them in windows that overlap by N tokens.",
)
_ANSWER_OPTIONS = (
    option(
        "-f",
        "--format",
        metavar="FORMAT",
        type=click.Choice(ANSWER_FORMATS),
        help="table, jsonl, csv, tsv, parquet or npy.  [default: what FILE's name says; else table "
        "in a terminal, jsonl elsewhere]",
    ),
    _TARGET,
    _INPUT_FORMAT,
    option(
        "--keep",
        metavar="NAME[,NAME]",
        multiple=True,
        callback=parse_keep,
        help="Columns of a table that are written beside the answers: names, all or none.  "
        "[default: all]",
    ),
    option(
        "--errors",
        metavar="WAY",
        type=click.Choice(("raise", "column")),
        default="raise",
        show_default=True,
        help="Rows that cannot be answered have null answers: raise names them at the end, with "
        "exit status 1; column says why in a column `error`.",
    ),
    _TRUNCATE,
    _STRIDE,
)
_DISPLAY_OPTIONS = (
    option(
        "-f",
        "--format",
        metavar="FORMAT",
        type=click.Choice(DISPLAY_FORMATS),
        help="text, json (an object a line), html (a page) or png (a picture of one text).  "
        "[default: what FILE's name says; else text]",
    ),
    _TARGET,
    _INPUT_FORMAT,
    _TRUNCATE,
    _STRIDE,
)


def takes_texts(function: Callable[..., int]) -> Callable[..., int]:
    """Decorate a verb with the options that all verbs on texts share."""
    return _takes((*_INPUT_OPTIONS, *_ANSWER_OPTIONS), function)


def takes_shown_texts(function: Callable[..., int]) -> Callable[..., int]:
    """Decorate a verb that shows its answers, instead of writing a row for each."""
    return _takes((*_INPUT_OPTIONS, *_DISPLAY_OPTIONS), function)


def _takes(options: Sequence[Decorator], function: Callable[..., int]) -> Callable[..., int]:
    @functools.wraps(function)
    def with_request(**given: Any) -> int:
        names = [name for name in Request.__dataclass_fields__ if name in given]
        shared = {name: given.pop(name) for name in names}
        verb = click.get_current_context().info_name or ""
        return function(Request(verb=verb, **shared), **given)

    declared: Callable[..., int] = with_request
    for add in reversed(options):
        declared = add(declared)
    return declared

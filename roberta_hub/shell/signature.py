"""Makes the options of a verb from the signature and docstring of the function that it calls.

Both are read in the source: importing it would import torch, which a help does not need.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import click

from roberta_hub import settings
from roberta_hub.shell.given import Decorator, option
from roberta_hub.shell.options import collect, collect_given, complete_model

NOT_IN_SHELL = ("batch_tokens", "progress")
"""Arguments that the shell does not offer; it has its own progress bar."""
EVERYWHERE: Mapping[str, Mapping[str, Any]] = {
    "text": {"flags": ("-c", "--text", "--column")},
    "model": {
        "flags": ("-m", "--model"),
        "metavar": "MODEL",
        "shell_complete": complete_model,
    },
    "topk": {"flags": ("-k", "--topk"), "ends": (1, None)},
    "stride": {"ends": (0, None)},
}
"""What the shell adds to arguments of these names, whichever verb has them."""
_PACKAGE = Path(__file__).parents[1]
_SECTION = re.compile(r"^Args:\n((?: .*\n|\n)*)", re.MULTILINE)
_ARGUMENT = re.compile(r"^    (\w+): ", re.MULTILINE)


@dataclass(frozen=True)
class Argument:
    """An argument of a function."""

    name: str
    kind: str
    """Its annotation, without None."""
    default: Any
    """None: it has none, or it is None."""
    required: bool
    says: str
    """Its description in the docstring."""


def takes_arguments(
    file: str,
    function: str,
    /,
    names: Collection[str] | None = None,
    **own: Mapping[str, Any] | None,
) -> Decorator:
    """Decorate a verb with an option for each argument of the function that it calls."""
    options = [
        _option(argument, **{**EVERYWHERE.get(argument.name, {}), **about})
        for argument in arguments_of(file, function)
        if (about := own.get(argument.name, {})) is not None
        if (not argument.required if names is None else argument.name in names)
    ]

    def decorate(verb: Callable[..., int]) -> Callable[..., int]:
        for declare in reversed(options):
            verb = declare(verb)
        return verb

    return decorate


def arguments_of(file: str, name: str) -> Iterator[Argument]:
    """Read the arguments of a function.

    Example:
        >>> argument = next(arguments_of("settings.py", "check_pooling"))
        >>> argument.name, argument.kind, argument.required
        ('head', 'object', True)
    """
    lines = (_PACKAGE / file).read_text(encoding="utf-8").splitlines(keepends=True)
    start = max(i for i, line in enumerate(lines) if line.lstrip().startswith(f"def {name}("))
    source = textwrap.dedent("".join(inspect.getblock(lines[start:])))
    function = ast.parse(source).body[0]
    assert isinstance(function, ast.FunctionDef)
    section = _SECTION.search((ast.get_docstring(function) or "") + "\n")
    parts = _ARGUMENT.split(section[1] if section else "")[1:]
    says = dict(zip(parts[::2], parts[1::2], strict=True))
    own = function.args
    placed = [None] * (len(own.args) - len(own.defaults)) + own.defaults
    for argument, default in zip(
        [*own.args, *own.kwonlyargs], [*placed, *own.kw_defaults], strict=True
    ):
        if argument.arg not in ("self", *NOT_IN_SHELL):
            yield Argument(
                argument.arg,
                ast.unparse(argument.annotation or ast.Constant(None)).removesuffix(" | None"),
                None if default is None else _value(default, lines),
                default is None,
                " ".join(says.get(argument.arg, "").split()),
            )


def _value(default: ast.expr, lines: Sequence[str]) -> Any:
    """Evaluate a default: a literal, or a constant of `settings` or of the file itself."""
    if not isinstance(default, ast.Name):
        return ast.literal_eval(default)
    own = next((line for line in lines if line.startswith(f"{default.id} = ")), "= None")
    return getattr(settings, default.id, ast.literal_eval(own.split("= ")[1].strip()))


def _option(
    argument: Argument,
    *,
    flags: tuple[str, ...] = (),
    ends: tuple[int, int | None] | None = None,
    needed: bool = False,
    left: bool = False,
    **own: Any,
) -> Decorator:
    """Declare the option of an argument."""
    flag = f"--{argument.name.replace('_', '-')}"
    if argument.kind == "bool" and argument.default is True:
        flag = f"{flag}/{flag[:2]}no{flag[1:]}"
    flags = flags or (flag,)
    on, _, off = flags[-1].partition("/")
    words = {None: "Without it", True: on, False: off}
    about = _takes(argument)
    if argument.kind == "bool":
        about |= {"default": argument.default, "show_default": bool(off)}
        if not off:
            about |= {"is_flag": True, "flag_value": not argument.default}
            words |= {not argument.default: on, argument.default: "Without it"}
    elif argument.default not in (None, ()) and not left:
        about |= {"default": argument.default, "show_default": True}
    if ends is not None:
        about["type"] = click.IntRange(*ends)
    remark = "  [required]" if needed else f"  [default: {argument.default}]" if left else ""
    about["help"] = _in_shell(argument.says, words) + remark
    return option(*flags, argument.name, **{**about, **own})


def _takes(argument: Argument) -> dict[str, Any]:
    """Say in click's words what an annotation allows."""
    kind = argument.kind
    if kind.startswith("Literal"):
        return {"type": click.Choice(ast.literal_eval(kind.removeprefix("Literal")))}
    if values := get_args(getattr(settings, kind, None)):
        return {"type": click.Choice(values)}
    if "Sequence[str]" in kind:
        metavar = "NAME[,NAME]" if kind.startswith("str") else "A,B,C"
        join = collect if argument.default == () else collect_given
        return {"multiple": True, "callback": join, "metavar": metavar}
    number = {"int": int, "float": float}.get(kind)
    return {"metavar": "NAME"} if number is None else {"type": number, "metavar": "N"}


def _in_shell(says: str, words: Mapping[bool | None, str]) -> str:
    """Write a description with the words of a command line in place of Python's values.

    Example:
        >>> _in_shell("what is read. None: all; False: none.", {None: "Without it", False: "--no"})
        'What is read. Without it: all; --no: none.'
    """
    for value, said in words.items():
        says = re.sub(rf"(^|[.] ){value}: ", rf"\1{said}: ", says)
        says = says.replace(f"; {value}: ", f"; {said.lower()}: ")
    return says[:1].upper() + says[1:]

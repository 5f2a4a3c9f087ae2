"""Makes the command of a verb from its Question."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from roberta_hub.shell.options import Request, examples, parse_list, takes_rows
from roberta_hub.shell.run_verb import answer_rows
from roberta_hub.verbs.question import Option, Question


def command_of(question: Question[Any, Any]) -> click.Command:
    """Make the command of a verb.

    Args:
        question: the verb.
    """

    def answer(request: Request, **given: Any) -> int:
        for option in question.options:
            if option.kind == "texts":
                given[option.name] = given[option.name] or None
            if option.required and given[option.name] is None and not _tells_status(request):
                flag = f"'--{option.name}'"
                raise click.MissingParameter(param_type="option", param_hint=flag)
        return answer_rows(request, question, given)

    answer = takes_rows(answer)
    for option in reversed(question.options):
        answer = _declared(option)(answer)
    name = question.name.replace("_", "-")
    return click.command(name, help=question.help, epilog=examples(*question.examples))(answer)


def _tells_status(request: Request) -> bool:
    return request.lake is not None and request.lake.status


def _declared(option: Option) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Convert an option to click's."""
    flags = (option.flags or f"--{option.name.replace('_', '-')}",)
    if option.kind == "flag":
        way: Any = {"default": option.default}
        if "/" not in option.flags:
            way |= {"is_flag": True, "flag_value": option.sets}
        return click.option(*flags, option.name, help=option.help, **way)
    way = {"metavar": option.metavar, "help": option.help}
    if option.kind == "texts":
        way["callback"] = parse_list
    if option.kind == "choice":
        way["type"] = click.Choice(option.choices)
    if option.kind == "number":
        way["type"] = int if option.least is None else click.IntRange(min=option.least)
        way["metavar"] = option.metavar or "N"
    if option.default is not None:
        way |= {"default": option.default, "show_default": True}
    return click.option(*option.flags.split() or flags, option.name, **way)

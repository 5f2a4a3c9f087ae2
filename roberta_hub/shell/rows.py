"""Makes the command of a verb from its Question."""

from __future__ import annotations

from typing import Any

import click

from roberta_hub.shell.given import Decorator, option
from roberta_hub.shell.options import Request, collect, examples, takes_rows
from roberta_hub.shell.run_verb import answer_rows
from roberta_hub.verbs.question import Option, Question


def command_of(question: Question[Any, Any]) -> click.Command:
    """Make the command of a verb.

    Args:
        question: the verb.
    """

    def answer(request: Request, **given: Any) -> int:
        for own in question.options:
            if own.kind == "texts":
                given[own.name] = given[own.name] or None
            if own.required and given[own.name] is None and not _tells_status(request):
                flag = f"'--{own.name}'"
                raise click.MissingParameter(param_type="option", param_hint=flag)
        return answer_rows(request, question, given)

    answer = takes_rows(answer)
    for own in reversed(question.options):
        answer = _declared(own)(answer)
    name = question.name.replace("_", "-")
    return click.command(name, help=question.help, epilog=examples(*question.examples))(answer)


def _tells_status(request: Request) -> bool:
    return request.lake is not None and request.lake.status


def _declared(own: Option) -> Decorator:
    """Convert an option to click's."""
    flags = (own.flags or f"--{own.name.replace('_', '-')}",)
    if own.kind == "flag":
        way: Any = {"default": own.default}
        if "/" not in own.flags:
            way |= {"is_flag": True, "flag_value": own.sets}
        return option(*flags, own.name, help=own.help, **way)
    way = {"metavar": own.metavar, "help": own.help}
    if own.kind == "texts":
        way |= {"multiple": True, "callback": collect}
    if own.kind == "choice":
        way["type"] = click.Choice(own.choices)
    if own.kind == "number":
        way["type"] = int if own.least is None else click.IntRange(min=own.least)
        way["metavar"] = own.metavar or "N"
    if own.default is not None:
        way |= {"default": own.default, "show_default": True}
    return option(*own.flags.split() or flags, own.name, **way)

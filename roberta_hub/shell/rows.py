"""Makes the command of a verb from its Question."""

from __future__ import annotations

from typing import Any

import click

from roberta_hub.shell.lakes import takes_rows
from roberta_hub.shell.options import Request, examples
from roberta_hub.shell.run_verb import answer_rows
from roberta_hub.shell.signature import takes_arguments
from roberta_hub.verbs.question import Question


def command_of(question: Question[Any, Any]) -> click.Command:
    """Make the command of a verb."""

    def answer(request: Request, **given: Any) -> int:
        for name, own in question.options.items():
            if own.get("needed") and given[name] is None and not _tells_status(request):
                raise click.MissingParameter(param_type="option", param_hint=f"'--{name}'")
        return answer_rows(request, question, given)

    own = takes_arguments("interface.py", question.name, question.options, **question.options)
    answer = own(takes_rows(answer))
    name = question.name.replace("_", "-")
    return click.command(name, help=question.help, epilog=examples(*question.examples))(answer)


def _tells_status(request: Request) -> bool:
    return request.lake is not None and request.lake.status

"""The verbs at addresses of their names, made from their records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roberta_hub.server.endpoint import Body, Endpoint
from roberta_hub.server.refusals import TEI
from roberta_hub.server.service import OPTIONS, Service, rows_in
from roberta_hub.verbs.question import Question
from roberta_hub.verbs.table import QUESTIONS


def endpoint_of(question: Question[Any, Any]) -> Endpoint:
    """Make the endpoint of a verb: texts and the options of its method in, its records out."""

    async def answer(service: Service, body: Body) -> Any:
        options = {name: value for name, value in body.items() if name != question.argument}
        rows, one = rows_in(question, body[question.argument], question.argument)
        answers = await service.ask(question.name, rows, options, name=question.argument)
        found = [_plain(record) for record, _ in answers]
        return found[0] if one else found

    needed = [name for name, own in question.options.items() if own.get("needed")]
    return Endpoint(
        path="/" + question.name.replace("_", "-"),
        protocol=TEI,
        answer=answer,
        summary=question.help.partition("\n")[0] or "Compare the two texts of each pair.",
        takes=dict.fromkeys((question.argument, *question.options, *OPTIONS), ""),
        required=(question.argument, *needed),
    )


def _plain(value: Any) -> Any:
    """Write a record in JSON's types: vectors, which are arrays, as lists."""
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, (str, int, float)) or value is None:
        return value
    return [_plain(inner) for inner in value]


ENDPOINTS = tuple(endpoint_of(q) for q in QUESTIONS.values() if q.name != "embed")
"""Of `embed`, text-embeddings-inference's protocol has that address."""

"""Defines Endpoint, and reads the fields of a request's body."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from roberta_hub.errors import InputError, InputTypeError
from roberta_hub.keywords import unknown_keyword
from roberta_hub.server.refusals import Protocol
from roberta_hub.server.service import Service

Body = dict[str, Any]


@dataclass(frozen=True)
class WithHeaders:
    """The JSON of an answer, and headers that say what its protocol has no field for."""

    json: Any
    headers: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """An address and what answers there."""

    path: str
    protocol: Protocol
    answer: Callable[[Service, Body], Awaitable[Any]]
    """From the body of a request to the JSON of its answer, or to one `WithHeaders`."""
    summary: str
    takes: Mapping[str, str] = field(default_factory=dict)
    """What the body may have: each field's name with its type in JSON's words; none: a GET."""
    required: tuple[str, ...] = ()

    @property
    def schema(self) -> Any:
        """The body in OpenAPI's words."""
        fields = {name: {"type": kind} if kind else {} for name, kind in self.takes.items()}
        return {"type": "object", "properties": fields, "required": list(self.required)}


_KINDS: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "array": (list,),
    "object": (dict,),
}
_A = {
    "string": "a string",
    "boolean": "a boolean",
    "integer": "a whole number",
    "array": "an array",
    "object": "an object",
}


def checked(endpoint: Endpoint, body: Any) -> Body:
    """Check a body against what an endpoint takes; fields that are null are left out."""
    if not isinstance(body, dict):
        raise InputTypeError(f"the body is {_json_kind(body)}, and must be an object of JSON")
    for name in body:
        if name not in endpoint.takes:
            raise unknown_keyword(endpoint.path, name, set(endpoint.takes))
    given = {name: value for name, value in body.items() if value is not None}
    for name in endpoint.required:
        if name not in given:
            raise InputError(f"{endpoint.path} needs the field {name!r}")
    for name, value in given.items():
        kind = endpoint.takes[name]
        wrong = kind and not isinstance(value, _KINDS[kind])
        if wrong or (kind == "integer" and isinstance(value, bool)):
            raise InputTypeError(f"{name} is {_json_kind(value)}, and must be {_A[kind]}")
    return given


def only(name: str, value: Any, choices: Collection[Any], why: str) -> None:
    """Refuse a value of another protocol that is not offered here."""
    if value not in choices:
        raise InputError(f"{name}={value!r} is not offered: {why}"[:300])


def _json_kind(value: Any) -> str:
    """Name a value's type in JSON's words."""
    if isinstance(value, bool):
        return _A["boolean"]
    return next(
        (_A[name] for name, kinds in _KINDS.items() if isinstance(value, kinds)), "a number"
    )

"""Defines RefusalError, and how each protocol writes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from roberta_hub.errors import RobertaHubError

STOPS = "the server stops; ask again"


class RefusalError(Exception):
    """A request that gets no answer, with the status of HTTP that says so."""

    def __init__(
        self,
        status: int,
        sentence: str,
        *,
        code: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Note what is sent: the status, a sentence, OpenAI's code, more headers."""
        super().__init__(sentence)
        self.status, self.sentence, self.code = status, sentence, code
        self.headers = dict(headers or {})


@dataclass(frozen=True)
class Protocol:
    """How a protocol says what is wrong."""

    invalid: int
    """Status of a body that does not fit."""
    body: Callable[[RefusalError], Any]
    """JSON of a refusal."""

    def refusal_of(self, error: RobertaHubError) -> RefusalError:
        """Refuse what the package refuses, in its own sentence."""
        return RefusalError(self.invalid, str(error))


_OPENAI_TYPES = {401: "authentication_error", 429: "rate_limit_error"}
_OPENAI_CODES = {401: "invalid_api_key", 413: "request_too_large", 429: "rate_limit_exceeded"}
_TEI_TYPES = {401: "Unauthorized", 404: "NotFound", 429: "Overloaded", 503: "Unhealthy"}


def _openai_body(refusal: RefusalError) -> Any:
    kind = "server_error" if refusal.status >= 500 else "invalid_request_error"
    return {
        "error": {
            "message": refusal.sentence,
            "type": _OPENAI_TYPES.get(refusal.status, kind),
            "param": None,
            "code": refusal.code or _OPENAI_CODES.get(refusal.status),
        }
    }


def _tei_body(refusal: RefusalError) -> Any:
    kind = "Backend" if refusal.status >= 500 else "Validation"
    return {"error": refusal.sentence, "error_type": _TEI_TYPES.get(refusal.status, kind)}


OPENAI = Protocol(400, _openai_body)
"""OpenAI's: a body that does not fit is a 400."""
TEI = Protocol(422, _tei_body)
"""text-embeddings-inference's, and that of the verbs: a body that does not fit is a 422."""

"""Asks a server for vectors, in the protocol that it speaks."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import torch
from torch import Tensor

from roberta_hub.errors import InputError
from roberta_hub.terminal import without_secrets

TIMEOUT_SECONDS = (10, 300)
"""Seconds to connect, and seconds without a byte."""
MAX_BYTES = 64 << 20
"""Largest answer: thousands of vectors."""
TEI, OPENAI = "text-embeddings-inference's protocol", "OpenAI's protocol"
MAX_DIMENSIONS = 65_536
"""Most numbers of a vector."""


Vectors = Callable[[Sequence[str]], "list[Tensor]"]
"""From the texts of a batch to a vector of each."""


class RefusedTextError(InputError):
    """The server answers a text with an error of its own, as it may if the text is too long."""


def server(url: str, *, normalize: bool) -> tuple[str, Vectors]:
    """Find the protocol of a server, and ask it for vectors.

    An address that ends with /embed is asked as text-embeddings-inference, one that ends with
    /embeddings as OpenAI's, which vLLM, infinity, llama.cpp's server and others speak. Another one
    is the root of a server: of these places the first that is there.

    Args:
        url: http or https.
        normalize: what a request asks for, where the protocol has it: as the model's settings.

    Returns:
        The name of the protocol, and what asks.

    Raises:
        InputError: nothing answers there, or not in one of these protocols.
    """
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    whole = urlunsplit(parts._replace(path=path, fragment=""))
    if path.endswith("/embed"):
        return TEI, _tei(whole, normalize)
    if path.endswith("/embeddings"):
        return OPENAI, _openai(whole)
    tried = []
    for end in ("/embed", "/v1/embeddings", "/embeddings"):
        address = urlunsplit(parts._replace(path=path + end, fragment=""))
        vectors = _tei(address, normalize) if end == "/embed" else _openai(address)
        try:
            vectors(["Hello"])
        except RefusedTextError as error:
            tried.append(f"{end}: {error.what}")
            continue
        return TEI if end == "/embed" else OPENAI, vectors
    raise InputError(
        f"{without_secrets(url)} speaks no protocol that is known here ({'; '.join(tried)}); give "
        "the whole address, which ends with /embed or /embeddings"
    )


def _tei(url: str, normalize: bool) -> Vectors:
    def vectors(texts: Sequence[str]) -> list[Tensor]:
        asked = {"inputs": list(texts), "normalize": normalize, "truncate": True}
        return _checked(_post(url, asked), len(texts), url)

    return vectors


def _openai(url: str) -> Vectors:
    served: list[str] = []

    def vectors(texts: Sequence[str]) -> list[Tensor]:
        if not served:
            served.append(_served(url))
        found = _post(url, {"input": list(texts), "model": served[0], "encoding_format": "float"})
        data = found.get("data") if isinstance(found, dict) else None
        if not isinstance(data, list) or not all(isinstance(row, dict) for row in data):
            raise InputError(f"{without_secrets(url)} answers without a list `data` of objects")
        ordered = sorted(data, key=lambda row: row.get("index", 0))
        return _checked([row.get("embedding") for row in ordered], len(texts), url)

    return vectors


def _served(url: str) -> str:
    """Name of the model that a server says it has; some take any."""
    try:
        found = _ask("get", url.rpartition("/")[0] + "/models")
        return str(found["data"][0]["id"])
    except (RefusedTextError, LookupError, TypeError):
        return "model"


def _checked(found: Any, count: int, url: str) -> list[Tensor]:
    """Vectors of an answer, in float64."""
    where = without_secrets(url)
    if not isinstance(found, list) or len(found) != count:
        raise InputError(f"{where} answers {count} texts with no list of {count} vectors")
    rows = [_decoded(row) for row in found]
    widths = {len(row) for row in rows}
    if len(widths) != 1 or not 1 <= min(widths) <= MAX_DIMENSIONS:
        raise InputError(f"{where} answers with vectors of {sorted(widths)[:5]} numbers")
    try:
        return [torch.tensor(row, dtype=torch.float64) for row in rows]
    except (TypeError, ValueError) as error:
        raise InputError(f"{where} answers with vectors that are no numbers: {error}") from None


def _decoded(row: Any) -> list[float]:
    if isinstance(row, str):  # float32 in base64
        return torch.frombuffer(bytearray(base64.b64decode(row)), dtype=torch.float32).tolist()
    return row if isinstance(row, list) else []


def _post(url: str, asked: dict[str, Any]) -> Any:
    return _ask("post", url, json=asked)


def _ask(method: str, url: str, **options: Any) -> Any:
    import requests

    call: Callable[..., Any] = getattr(requests, method)
    where = without_secrets(url)
    try:
        with call(url, timeout=TIMEOUT_SECONDS, stream=True, **options) as answer:
            body = _body(answer)
            if answer.status_code >= 400:
                said = body[:200].decode(errors="replace")
                raise RefusedTextError(f"{where} answers {answer.status_code}: {said}")
    except requests.RequestException as error:
        raise InputError(f"{where} cannot be asked: {type(error).__name__}") from None
    if len(body) > MAX_BYTES:
        raise InputError(f"{where} answers with over {MAX_BYTES >> 20} MiB")
    try:
        return json.loads(body)
    except ValueError:
        raise InputError(f"{where} answers with no JSON: {body[:60]!r}") from None


def _body(answer: Any) -> bytes:
    """Bytes of an answer, and no more than the limit and a chunk."""
    body = bytearray()
    for chunk in answer.iter_content(1 << 16):
        body += chunk
        if len(body) > MAX_BYTES:
            break
    return bytes(body)

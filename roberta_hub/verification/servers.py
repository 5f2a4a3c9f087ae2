"""Asks a server for vectors, in the protocol that it speaks."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urljoin, urlsplit, urlunsplit

import torch
from torch import Tensor

from roberta_hub.arguments import kind_of, short_repr
from roberta_hub.errors import InputError
from roberta_hub.terminal import without_secrets

TIMEOUT_SECONDS = (10, 300)
"""Seconds to connect, and seconds without a byte."""
MAX_BYTES = 64 << 20
"""Largest answer: thousands of vectors."""
TEI, OPENAI = "text-embeddings-inference's protocol", "OpenAI's protocol"
MAX_DIMENSIONS = 65_536
"""Most numbers of a vector."""
MAX_REDIRECTS = 5
"""Most redirects within a server."""
ASKS_FOR = {
    401: "It wants a key or password: give an address that asks for none, or user:password@ in it",
    403: "It lets nobody in who asks as this does: give an address that is open to you",
    429: "It takes fewer requests: ask again later, or a server without such a limit",
}
"""Statuses that say nothing of a text, and what helps."""

Vectors = Callable[[Sequence[str]], "list[Tensor]"]
"""From the texts of a batch to a vector of each."""


class RefusedTextError(InputError):
    """The server answers a text with an error, as it may if the text is too long."""

    def __init__(self, what: str, status: int) -> None:
        super().__init__(what)
        self.status = status


def server(url: str, *, normalize: bool) -> tuple[str, Vectors]:
    """Find the protocol of a server, and ask it for vectors.

    An address that ends with /embed is asked as text-embeddings-inference, one that ends with
    /embeddings as OpenAI's, which vLLM, infinity, llama.cpp's server and others speak. Another one
    is the root of a server: of these places the first that is there.
    """
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise InputError(f"{without_secrets(url)} is no address: {error}") from None
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
        return rows_of(_post(url, asked), len(texts), without_secrets(url))

    return vectors


def _openai(url: str) -> Vectors:
    served: list[str] = []

    def vectors(texts: Sequence[str]) -> list[Tensor]:
        if not served:
            served.append(_served(url))
        found = _post(url, {"input": list(texts), "model": served[0], "encoding_format": "float"})
        where = without_secrets(url)
        data = found.get("data") if isinstance(found, dict) else None
        if not isinstance(data, list) or not all(isinstance(row, dict) for row in data):
            raise InputError(f"{where} answers without a list `data` of objects")
        ordered = _in_order(data, where)
        return rows_of(
            [_decoded(row.get("embedding"), where) for row in ordered], len(texts), where
        )

    return vectors


def _in_order(data: list[dict[str, Any]], where: str) -> list[dict[str, Any]]:
    """Order the objects of an answer by their `index`; as they come where none has one."""
    places = [row.get("index") for row in data]
    if all(place is None for place in places):
        return data
    if not all(type(place) is int for place in places) or {*places} != {*range(len(data))}:
        raise InputError(
            f"{where} answers with the `index` of each vector as {short_repr(places, 100)}; 0 to "
            f"{len(data) - 1}, each once, say which text it is of"
        )
    return sorted(data, key=lambda row: int(row["index"]))


def _served(url: str) -> str:
    """Name of the model that a server says it has; some take any."""
    try:
        found = _ask("get", url.rpartition("/")[0] + "/models")
        return str(found["data"][0]["id"])
    except (InputError, LookupError, TypeError):  # the texts' own address says what is wrong
        return "model"


def rows_of(found: Any, count: int, who: str) -> list[Tensor]:
    """Read the vectors of an answer, in float64.

    Example:
        >>> rows_of([[1, 2], [3, 4]], 2, "the peer")[1].tolist()
        [3.0, 4.0]
    """
    found = found.to_numpy() if hasattr(found, "to_numpy") else found  # of pandas and polars
    shape = getattr(found, "shape", None)
    if isinstance(found, (str, bytes, dict)) or not hasattr(found, "__len__"):
        raise InputError(
            f"{who} answers {count} texts with {short_repr(found)}, a {kind_of(found)}; one vector "
            "for each is needed, as a list"
        )
    if len(found) != count or (shape is not None and len(shape) != 2):
        first: Any = found[0] if shape is None and len(found) else ()
        seen = shape or (len(found), *([len(first)] if hasattr(first, "__len__") else []))
        raise InputError(
            f"{who} answers {count} texts with numbers of shape {tuple(seen)}; one vector for each "
            "is needed"
        )
    rows = [_row(row, who) for row in found]
    widths = {len(row) for row in rows}
    if len(widths) != 1 or not 1 <= min(widths) <= MAX_DIMENSIONS:
        listed = ", ".join(map(str, sorted(widths)[:5]))
        raise InputError(
            f"{who} answers with vectors of {listed} numbers; all have one width, from 1 to "
            f"{MAX_DIMENSIONS:,}"
        )
    return rows


def _row(row: Any, who: str) -> Tensor:
    """Read one vector: (C,)."""
    try:
        if hasattr(row, "dtype"):
            numbers = torch.as_tensor(row).detach().cpu()
            if numbers.dtype is not torch.bool and not numbers.is_complex() and numbers.dim() == 1:
                return numbers.double()
        elif isinstance(row, (list, tuple)) and not any(isinstance(one, bool) for one in row):
            numbers = torch.tensor(row, dtype=torch.float64)
            if numbers.dim() == 1:
                return numbers
    except (TypeError, ValueError, OverflowError, RuntimeError):
        pass
    raise InputError(
        f"{who} answers a text with {short_repr(row, 60)}; a vector is a list of numbers"
    )


def _decoded(row: Any, where: str) -> Any:
    """Read a vector that is written as float32 in base64; any other is as it is."""
    if not isinstance(row, str):
        return row
    try:
        written = base64.b64decode(row, validate=True)
        return torch.frombuffer(bytearray(written), dtype=torch.float32)
    except (ValueError, RuntimeError):  # no base64, or no whole numbers
        raise InputError(
            f"{where} answers a text with {short_repr(row, 60)}, which is not float32 in base64"
        ) from None


def _post(url: str, asked: dict[str, Any]) -> Any:
    return _ask("post", url, json=asked)


def _ask(method: str, url: str, **options: Any) -> Any:
    """Ask a server, and read its JSON."""
    import requests

    where, leads = without_secrets(url), url
    try:
        for _ in range(MAX_REDIRECTS + 1):
            call = requests.request(
                method,
                leads,
                timeout=TIMEOUT_SECONDS,
                stream=True,
                allow_redirects=False,
                **options,
            )
            with call as answer:
                status, body = answer.status_code, _body(answer)
            if not 300 <= status < 400:
                break
            leads = _led(str(answer.request.url), status, answer.headers.get("location"), where)
    except (requests.RequestException, ValueError) as error:  # an InputError is one
        if isinstance(error, InputError):
            raise
        raise InputError(f"{where} cannot be asked: {type(error).__name__}") from None
    said = body[:200].decode(errors="replace")
    if status in ASKS_FOR:
        raise InputError(f"{where} answers {status}: {said}. {ASKS_FOR[status]}")
    if status >= 300:
        raise RefusedTextError(f"{where} answers {status}: {said}", status)
    if len(body) > MAX_BYTES:
        raise InputError(f"{where} answers with over {MAX_BYTES >> 20} MiB")
    try:
        return json.loads(body)
    except ValueError:
        raise InputError(f"{where} answers with no JSON: {body[:60]!r}") from None
    except RecursionError:
        raise InputError(f"{where} answers with JSON of too many levels: {body[:60]!r}") from None


def _led(url: str, status: int, location: str | None, where: str) -> str:
    """Return where a redirect leads, which must be the same server; texts go nowhere else."""
    import requests

    to = requests.Request("GET", urljoin(url, location or "")).prepare().url or ""
    kept = status in (307, 308)  # the others ask for a page, without the texts
    if location is None or not kept or _server_of(to) != _server_of(url):
        raise InputError(
            f"{where} answers {status} and leads to {without_secrets(to)}; texts are not sent on "
            "to another address. Give that one if you trust it"
        )
    return to


def _server_of(url: str) -> tuple[str | int | None, ...]:
    """Scheme, host and port of an address, as both of requests' parsers read them."""
    from urllib3.util import parse_url

    parts, again = urlsplit(url), parse_url(url)
    return (parts.scheme, parts.hostname, parts.port, again.scheme, again.host, again.port)


def _body(answer: Any) -> bytes:
    """Bytes of an answer, and no more than the limit and a chunk."""
    body = bytearray()
    for chunk in answer.iter_content(1 << 16):
        body += chunk
        if len(body) > MAX_BYTES:
            break
    return bytes(body)

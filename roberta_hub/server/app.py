"""Makes the application of FastAPI: addresses, keys, refusals, counts."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import sys
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any

from roberta_hub.errors import RobertaHubError
from roberta_hub.server import openai, tei, verbs
from roberta_hub.server.bodies import Bodies
from roberta_hub.server.endpoint import Body, Endpoint, WithHeaders, checked
from roberta_hub.server.metrics import Metrics
from roberta_hub.server.refusals import OPENAI, STOPS, TEI, Protocol, RefusalError
from roberta_hub.server.service import Service

if TYPE_CHECKING:
    from fastapi import FastAPI, Request, Response

ENDPOINTS = (*openai.ENDPOINTS, *tei.ENDPOINTS, *verbs.ENDPOINTS)
CLOSED_BY_CLIENT = 499
"""nginx's status for a client that went before its answer; only counted, since nobody gets it."""


def application(service: Service, bodies: Bodies, key: str | None) -> FastAPI:
    """Make the application; its lifespan runs the queue."""
    from fastapi import FastAPI, Request, Response
    from fastapi.responses import JSONResponse

    metrics = Metrics(service.batcher)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        queue = asyncio.create_task(service.batcher.run())
        yield
        queue.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await queue

    app = FastAPI(title="roberta-hub", lifespan=lifespan, docs_url=None, redoc_url=None)
    for endpoint in ENDPOINTS:
        handle = _handler(endpoint, service, bodies, metrics, key)
        # FastAPI reads the types of a handler; here they are known only now.
        handle.__annotations__ = {"request": Request, "return": Response}
        app.add_api_route(
            endpoint.path,
            handle,
            methods=["POST" if endpoint.takes else "GET"],
            summary=endpoint.summary,
            response_class=JSONResponse,
            response_model=None,
            openapi_extra=_openapi(endpoint),
        )

    async def health() -> Any:
        return Response(status_code=200)

    async def counts(request: Request) -> Any:
        try:
            _check_key(request, key)
        except RefusalError as refusal:
            return _json(TEI.body(refusal), refusal)
        return Response(metrics.text(), media_type="text/plain; version=0.0.4")

    counts.__annotations__ = {"request": Request}
    app.add_api_route("/health", health, methods=["GET"], response_model=None)
    app.add_api_route("/metrics", counts, methods=["GET"], response_model=None)
    app.add_exception_handler(404, _no_such_address)
    app.add_exception_handler(405, _no_such_address)
    return app


def _openapi(endpoint: Endpoint) -> dict[str, Any]:
    if not endpoint.takes:
        return {}
    return {
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": endpoint.schema}},
        }
    }


def _handler(
    endpoint: Endpoint, service: Service, bodies: Bodies, metrics: Metrics, key: str | None
) -> Callable[[Request], Awaitable[Response]]:
    """Make what answers the requests of an endpoint; nothing but its answers gets out."""

    async def handle(request: Request) -> Response:
        from starlette.requests import ClientDisconnect
        from starlette.responses import Response

        began = time.monotonic()
        try:
            _check_key(request, key)
            body: Body = dict(request.path_params)
            if endpoint.takes:
                body = checked(endpoint, await bodies.read(request))
            response = _json(await endpoint.answer(service, body))
        except ClientDisconnect:
            response = Response(status_code=CLOSED_BY_CLIENT)
        except (Exception, asyncio.CancelledError) as error:
            refusal = refusal_of(error, endpoint.protocol)
            response = _json(endpoint.protocol.body(refusal), refusal)
        metrics.request(endpoint.path, response.status_code, time.monotonic() - began)
        return response

    return handle


def refusal_of(error: BaseException, protocol: Protocol) -> RefusalError:
    """Say what a client may know of an error; of one of ours the log gets the place, no text."""
    if isinstance(error, RefusalError):
        return error
    if isinstance(error, RobertaHubError):
        return protocol.refusal_of(error)
    if isinstance(error, asyncio.CancelledError):  # uvicorn waits no longer
        return RefusalError(503, STOPS)
    last = traceback.extract_tb(error.__traceback__)[-1:]
    where = "".join(f" at {frame.filename}:{frame.lineno}" for frame in last)
    print(f"roberta-hub: {type(error).__name__}{where}", file=sys.stderr, flush=True)
    return RefusalError(500, "a fault in the server; its log has the place")


def _check_key(request: Request, key: str | None) -> None:
    if key is None:
        return
    given = request.headers.get("authorization", "")
    kind, _, own = given.partition(" ")
    same = hmac.compare_digest(own.strip().encode("latin-1"), key.encode())
    if kind.lower() != "bearer" or not same:
        raise RefusalError(
            401,
            "this server wants its key: the header Authorization: Bearer KEY",
            headers={"WWW-Authenticate": "Bearer"},
        )


def _json(answer: Any, refusal: RefusalError | None = None) -> Response:
    import orjson
    from starlette.responses import Response

    headers = refusal.headers if refusal else {}
    if isinstance(answer, WithHeaders):
        answer, headers = answer.json, {**headers, **answer.headers}
    return Response(
        orjson.dumps(answer),
        status_code=refusal.status if refusal else 200,
        headers=headers,
        media_type="application/json",
    )


async def _no_such_address(request: Request, error: Any) -> Response:
    protocol = OPENAI if request.url.path.startswith("/v1/") else TEI
    known = ", ".join(endpoint.path for endpoint in ENDPOINTS)
    if error.status_code == 405:
        said = f"{request.url.path} takes {error.headers['Allow']}, not {request.method}"
    else:
        said = f"nothing is at {request.url.path[:100]}; there are {known}, /health and /metrics"
    refusal = RefusalError(error.status_code, said, code="unknown_url", headers=error.headers)
    return _json(protocol.body(refusal), refusal)

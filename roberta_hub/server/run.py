"""Serves a model over HTTP until a signal ends it."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import warnings
from collections.abc import Callable, Coroutine
from os import PathLike
from typing import TYPE_CHECKING, Any

from roberta_hub.arguments import path_text, text_of, whole_number
from roberta_hub.errors import Advice, MissingExtraError, Remedy
from roberta_hub.extras import install
from roberta_hub.scale.models import Optimize, load_once
from roberta_hub.signals import ENDING
from roberta_hub.terminal import clean

if TYPE_CHECKING:
    from socket import socket

    from roberta_hub.server.bodies import Bodies
    from roberta_hub.server.service import Service

API_KEY = "ROBERTA_HUB_API_KEY"
"""Variable of the environment with the key that clients must send."""
LOOPBACK = "127.0.0.1"
IDLE_SECONDS = 30.0
"""Seconds that a connection may send nothing, and that a body may take."""
SECONDS_TO_END = 25
"""Seconds in which requests under way are answered after SIGTERM; Kubernetes kills after 30."""
MAX_CONNECTIONS = 1000
"""More get a 503: files that a process may open are often 1,024."""
_TAKE_ANOTHER = Remedy(
    "pass another port, or 0, which takes a free one", "give --port another number; 0: a free one"
)


def serve(
    model: str | PathLike[str] = "roberta.tiny",
    *,
    host: str = LOOPBACK,
    port: int = 8000,
    name: str | None = None,
    device: str | None = None,
    optimize: Optimize = "float32",
    batch_size: int = 16384,
    wait_ms: int = 2,
    max_waiting: int = 1_000_000,
    max_texts: int = 2048,
    max_body: int = 2_000_000,
) -> None:
    """Serve a model over HTTP until SIGTERM or Ctrl-C.

    Standard output gets the address. Texts are in no log. If the variable ROBERTA_HUB_API_KEY is
    set, requests must send this key.

    Args:
        model: a name or a path, as `load_model` takes it.
        host: the address to listen to. 127.0.0.1 is for this machine alone, 0.0.0.0 for every
            machine that reaches this one.
        port: to listen to; 0: a free one.
        name: by which OpenAI's clients ask for the model. None: the last part of its own.
        device: cuda, mps, cpu, or auto. None: the CPU.
        optimize: what the weights are prepared for: "float32" gives the same numbers, "bfloat16"
            and "int8" are faster and less exact, "auto" chooses by the processor.
        batch_size: tokens of waiting requests that are answered together; a longer request is
            answered in such parts.
        wait_ms: milliseconds that a batch waits for as many requests as the last one had. A lone
            client never waits.
        max_waiting: tokens that may wait, about; a request beyond is answered by 429.
        max_texts: of one request.
        max_body: bytes of one request.

    Raises:
        InputError: the port is in use, or another argument cannot be.
        MissingExtraError: fastapi, uvicorn, orjson or prometheus-client is not installed.
        KeyboardInterrupt: after Ctrl-C.
    """
    _require_extra()
    from roberta_hub.server.bodies import Bodies
    from roberta_hub.server.listening import bound
    from roberta_hub.server.service import Limits, Service

    path = path_text("model", model)
    number = whole_number("port", port, 0, 65535)
    limits = Limits(
        body=whole_number("max_body", max_body, 1),
        texts=whole_number("max_texts", max_texts, 1),
        seconds=IDLE_SECONDS,
    )
    key = os.environ.get(API_KEY) or None
    listening = bound(text_of("host", host), number, _TAKE_ANOTHER)
    with listening, warnings.catch_warnings():
        warnings.simplefilter("ignore", Advice)  # of single texts, which no log is to hold
        service = Service(
            load_once(path, None, device, None, optimize).roberta,
            name or os.path.basename(path.rstrip("/")) or path,
            limits,
            batch_tokens=whole_number("batch_size", batch_size, 1),
            wait=whole_number("wait_ms", wait_ms, 0) / 1000,
            max_waiting=whole_number("max_waiting", max_waiting, 1),
        )
        run = _server(service, Bodies(limits.body, limits.seconds), key, listening)
        listening.listen()  # now that a request would be answered
        address = listening.getsockname()
        shown = f"[{address[0]}]" if ":" in address[0] else address[0]
        print(f"http://{shown}:{address[1]}/", flush=True)
        said = f"{service.name} answers there; {_who(address[0], key)}; Ctrl-C ends it"
        print(f"roberta-hub: {clean(said)}", file=sys.stderr, flush=True)
        asyncio.run(run())


def _who(host: str, key: str | None) -> str:
    """Say who may ask."""
    who = "this machine alone" if host in (LOOPBACK, "::1") else "every machine that reaches it"
    return f"to {who}, {'with the key' if key else 'without a key'}"


def _require_extra() -> None:
    try:
        import fastapi  # noqa: F401
        import orjson  # noqa: F401
        import prometheus_client  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(f"serve needs {error.name}: {install('serve')}") from None


def _server(
    service: Service, bodies: Bodies, key: str | None, listening: socket
) -> Callable[[], Coroutine[Any, Any, None]]:
    """Make what runs uvicorn on a socket."""
    import uvicorn

    from roberta_hub.server.app import application
    from roberta_hub.server.idle import IdleConnections

    idle = IdleConnections(IDLE_SECONDS)

    async def look_after() -> None:
        idle.close(server.server_state.connections)

    def stop() -> None:
        bodies.stop()
        server.should_exit = True

    async def serve_until_stopped() -> None:
        if threading.current_thread() is threading.main_thread():
            for number in ENDING:  # uvicorn would end the process by the signal, not by 0
                asyncio.get_running_loop().add_signal_handler(number, stop)
        await server.serve(sockets=[listening])

    server = uvicorn.Server(
        uvicorn.Config(
            application(service, bodies, key),
            http="h11",
            loop="asyncio",
            ws="none",
            log_level="critical",
            access_log=False,
            server_header=False,
            timeout_keep_alive=int(IDLE_SECONDS),
            timeout_graceful_shutdown=SECONDS_TO_END,
            limit_concurrency=MAX_CONNECTIONS,
            callback_notify=look_after,
            timeout_notify=1,
        )
    )
    return serve_until_stopped

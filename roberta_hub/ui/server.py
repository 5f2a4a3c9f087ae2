"""Serves the page to this machine alone, and lets it ask nothing of any other."""

from __future__ import annotations

import os
import re
import sys
import threading
import webbrowser
from collections.abc import Awaitable, Callable, MutableMapping
from os import PathLike, fspath
from typing import Any

from roberta_hub.errors import Remedy
from roberta_hub.server.listening import bound
from roberta_hub.terminal import clean
from roberta_hub.ui.blocks import gradio_here, look, page

Message = MutableMapping[str, Any]
"""A message of ASGI; the next two are of ASGI too."""
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Callable[[], Awaitable[Message]], Send], Awaitable[None]]

HOST = "127.0.0.1"
"""The only address that is listened to."""
SECONDS_TO_END = 1
"""Seconds between a Ctrl-C and the end, for answers that are under way."""
_USED = re.compile(
    r"/|/(config|theme\.css|favicon\.ico|manifest\.json|(assets|static)/.*)"
    r"|/gradio_api/(info|startup-events|theme\.css|app_id|cancel|reset|(queue|heartbeat|call|run)/.*)"
)
"""Paths that the page uses. gradio has others: uploads, files, a proxy, records of runs."""
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""The browser asks no other machine, whatever the page holds, and no other page frames it."""
_TAKE_ANOTHER = Remedy(
    "pass another port, or 0, which takes a free one",
    "give --port another number, or leave it out, and a free one is taken",
)


def serve(
    model: str | PathLike[str] = "roberta.tiny", *, port: int = 0, browser: bool = True
) -> None:
    """Serve the page of a model on 127.0.0.1, until Ctrl-C.

    Standard output gets the address.

    Args:
        model: a name or a path, as `load_model` takes it.
        port: to listen to; 0: a free one.
        browser: open the page in a browser, where there is a display.

    Raises:
        InputError: the port is in use, or not available.
        MissingExtraError: gradio is not installed.
        KeyboardInterrupt: after Ctrl-C.
    """
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"  # also of what asks no Blocks
    with bound(HOST, port, _TAKE_ANOTHER) as listening:  # before all that takes time
        listening.listen()
        gr = gradio_here()
        import fastapi  # gradio's own, as is the next
        import uvicorn

        blocks = page(model)
        here = f"{HOST}:{listening.getsockname()[1]}"
        app = gr.mount_gradio_app(
            fastapi.FastAPI(openapi_url=None),
            blocks,
            "/",
            server_name=HOST,
            footer_links=[],
            run_history=False,
            root_path="",
            show_error=False,
            ssr_mode=False,
            mcp_server=False,
            **look(),
        )
        config = uvicorn.Config(
            only_here(app, here),
            log_level="critical",
            timeout_graceful_shutdown=SECONDS_TO_END,
        )
        address = f"http://{here}/"
        print(address, flush=True)
        said = f"{fspath(model)} answers there, to this machine alone; Ctrl-C ends it"
        print(f"roberta-hub: {clean(said)}", file=sys.stderr)
        if browser and has_display():
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
        uvicorn.Server(config).run(sockets=[listening])


def has_display() -> bool:
    """Whether a browser would have a window to open."""
    if sys.platform in ("win32", "darwin"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def only_here(app: App, here: str) -> App:
    """Answer the page's own requests alone.

    Another site that is open in the same browser can send requests to this machine, also under a
    name of its own (DNS rebinding): these have another Host or another Origin.
    """
    hosts = {here, here.replace(HOST, "localhost")}
    origins = {f"http://{host}" for host in hosts}

    async def guarded(scope: Message, receive: Any, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await app(scope, receive, send)
        if scope["type"] != "http":
            return None

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
                message["headers"] = [*message.get("headers", ()), *own]
            await send(message)

        sent = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        ours = sent.get("host") in hosts and sent.get("origin", here) in {here, *origins}
        if ours and _USED.fullmatch(scope["path"]):
            return await app(scope, receive, with_headers)
        await with_headers({"type": "http.response.start", "status": 404 if ours else 403})
        await with_headers({"type": "http.response.body", "body": b""})

    return guarded

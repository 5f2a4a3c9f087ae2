"""Declares `roberta-hub serve`: a model over HTTP."""

from __future__ import annotations

from typing import Any

import click

from roberta_hub.shell.options import MODEL, examples
from roberta_hub.shell.signature import takes_arguments


@click.command(
    epilog=examples(
        "roberta-hub serve",
        "roberta-hub serve -m mine --port 8080",
        "ROBERTA_HUB_API_KEY=... roberta-hub serve -m mine --host 0.0.0.0",
    )
)
@MODEL
@takes_arguments(
    "server/run.py",
    "serve",
    model=None,
    host={"metavar": "ADDRESS"},
    port={"ends": (0, 65535)},
    batch_size={"ends": (1, None)},
    wait_ms={"ends": (0, None)},
    max_waiting={"ends": (1, None)},
    max_texts={"ends": (1, None)},
    max_body={"ends": (1, None)},
)
def serve(model: str | None, **given: Any) -> int:
    """Serve a model over HTTP, to this machine alone unless --host says otherwise.

    It speaks OpenAI's /v1/embeddings, text-embeddings-inference's /embed, /rerank and /predict, and
    has an address for each verb: /classify, /zero-shot, /tag, /fill-mask. Requests that wait share
    a batch. /health and /metrics are for those who look after it.

    The address goes to standard output. SIGTERM lets requests under way finish, and Ctrl-C too. If
    ROBERTA_HUB_API_KEY is set, requests must send this key. It needs the extra `serve`.
    """
    from roberta_hub.server.run import serve
    from roberta_hub.shell.options import DEFAULT_MODEL

    serve(model or DEFAULT_MODEL, **given)
    return 0

"""Servers of all-MiniLM-L6-v2 that benchmarks/serve.py compares, each in a process.

    python benchmarks/lib/served_engines.py ENGINE FOLDER PORT

`plain` is FastAPI around sentence-transformers as its users write it; `executor` gives the model a
thread of its own, and `batching` also joins the requests that wait: that is at its best.
"""

from __future__ import annotations

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

MOST = 64
"""Texts of a batch, where an engine joins requests."""


def answer(vectors: Any) -> Any:
    """Write vectors as OpenAI's protocol does."""
    return {"data": [{"index": i, "embedding": v.tolist()} for i, v in enumerate(vectors)]}


def texts_of(body: dict[str, Any]) -> list[str]:
    """Read the texts of a request."""
    given = body["input"]
    return [given] if isinstance(given, str) else given


def plain(folder: str) -> Any:
    """As users write it."""
    from fastapi import FastAPI
    from sentence_transformers import SentenceTransformer

    app, model = FastAPI(), SentenceTransformer(folder, device="cpu")

    @app.post("/v1/embeddings")
    def embed(body: dict[str, Any]) -> Any:
        return answer(model.encode(texts_of(body)))

    return app


def at_its_best(folder: str, batching: bool) -> Any:
    """One thread for the model, orjson for the answer, and waiting requests joined or not."""
    import orjson
    from fastapi import FastAPI, Request, Response
    from sentence_transformers import SentenceTransformer

    app, model = FastAPI(), SentenceTransformer(folder, device="cpu")
    thread = ThreadPoolExecutor(1)
    waiting: list[tuple[list[str], asyncio.Future[Any]]] = []
    arrived = asyncio.Event()

    def encode(texts: list[str]) -> Any:
        return model.encode(texts, batch_size=MOST, show_progress_bar=False)

    async def work() -> None:
        while True:
            await arrived.wait()
            some = waiting[: MOST if batching else 1]
            del waiting[: len(some)]
            if not waiting:
                arrived.clear()
            rows = [text for texts, _ in some for text in texts]
            found = await asyncio.get_running_loop().run_in_executor(thread, encode, rows)
            start = 0
            for texts, future in some:
                future.set_result(found[start : start + len(texts)])
                start += len(texts)

    running: list[asyncio.Task[None]] = []

    async def embed(request: Request) -> Response:
        if not running:
            running.append(asyncio.create_task(work()))
        texts = texts_of(orjson.loads(await request.body()))
        future = asyncio.get_running_loop().create_future()
        waiting.append((texts, future))
        arrived.set()
        vectors = await future
        body = {"data": [{"index": i, "embedding": v} for i, v in enumerate(vectors)]}
        written = orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY)
        return Response(written, media_type="application/json")

    embed.__annotations__ = {"request": Request}
    app.add_api_route("/v1/embeddings", embed, methods=["POST"], response_model=None)
    return app


if __name__ == "__main__":
    name, model_folder, at = sys.argv[1], sys.argv[2], int(sys.argv[3])
    import uvicorn

    ways = {
        "plain": lambda: plain(model_folder),
        "executor": lambda: at_its_best(model_folder, False),
        "batching": lambda: at_its_best(model_folder, True),
    }
    uvicorn.run(ways[name](), port=at, log_level="warning", access_log=False)

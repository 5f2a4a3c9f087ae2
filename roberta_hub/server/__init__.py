"""Answers over HTTP: `roberta-hub serve`, by FastAPI and uvicorn (the extra `serve`).

Requests wait in `batcher`, which one thread answers; `openai`, `tei` and `verbs` are the protocols.
"""

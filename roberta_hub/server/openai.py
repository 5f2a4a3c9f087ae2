"""OpenAI's protocol: `/v1/embeddings` and `/v1/models`."""

from __future__ import annotations

import base64
from typing import Any

from roberta_hub.errors import InputTypeError, Place
from roberta_hub.server.endpoint import Body, Endpoint, only
from roberta_hub.server.refusals import OPENAI, RefusalError
from roberta_hub.server.service import Service, rows_in
from roberta_hub.verbs.embed import EMBED


async def _embeddings(service: Service, body: Body) -> Any:
    if body["model"] != service.name:
        raise _no_model(service, body["model"])
    form = body.get("encoding_format", "float")
    only("encoding_format", form, ("float", "base64"), "it is float or base64")
    options = {
        "truncate_dim": body.get("dimensions"),
        "prompt_name": body.get("prompt_name"),
        "truncate": body.get("truncate"),
    }
    rows = await _rows(service, body["input"])
    found = await service.ask("embed", rows, options, name="input")
    used = sum(tokens for _, tokens in found)
    return {
        "object": "list",
        "data": [
            {"object": "embedding", "index": i, "embedding": _written(record["vector"], form)}
            for i, (record, _) in enumerate(found)
        ],
        "model": service.name,
        "usage": {"prompt_tokens": used, "total_tokens": used},
    }


async def _rows(service: Service, value: Any) -> list[Any]:
    """Read the input: a text, texts, a list of ids, or lists of ids."""
    if _are_ids(value):
        value = [value]
    if not (isinstance(value, list) and any(map(_are_ids, value))):
        rows, _ = rows_in(EMBED, value, "input")
        for i, row in enumerate(rows):
            if not isinstance(row, str):
                raise InputTypeError("not a text or a list of ids", place=Place("input", i))
        return rows
    if len(value) > service.limits.texts:
        return value  # which `ask` refuses
    for i, item in enumerate(value):
        if not _are_ids(item):
            raise InputTypeError(
                "not a list of ids, as others of the input are", place=Place("input", i)
            )
    return [await service.text_of_ids(ids, Place("input", i)) for i, ids in enumerate(value)]


def _are_ids(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(type(i) is int for i in value)


def _written(vector: Any, form: str) -> Any:
    """Write an array of float32: as numbers, or its bytes, the lowest first, in base64."""
    if form == "float":
        return vector.tolist()
    return base64.b64encode(vector.tobytes()).decode("ascii")


def _no_model(service: Service, name: str) -> RefusalError:
    return RefusalError(
        404,
        f"no model {name[:100]!r} is served here; model={service.name!r} is",
        code="model_not_found",
    )


def _model(service: Service) -> Any:
    return {"id": service.name, "object": "model", "created": 0, "owned_by": "roberta_hub"}


async def _models(service: Service, body: Body) -> Any:
    return {"object": "list", "data": [_model(service)]}


async def _one_model(service: Service, body: Body) -> Any:
    if body["model"] != service.name:
        raise _no_model(service, body["model"])
    return _model(service)


ENDPOINTS = (
    Endpoint(
        path="/v1/embeddings",
        protocol=OPENAI,
        answer=_embeddings,
        summary="Vectors of texts, as OpenAI's.",
        takes={
            "input": "",
            "model": "string",
            "encoding_format": "string",
            "dimensions": "integer",
            "user": "string",
            "prompt_name": "string",
            "truncate": "boolean",
        },
        required=("input", "model"),
    ),
    Endpoint(
        path="/v1/models", protocol=OPENAI, answer=_models, summary="The model that is served."
    ),
    Endpoint(
        path="/v1/models/{model:path}",
        protocol=OPENAI,
        answer=_one_model,
        summary="A model by its name.",
    ),
)

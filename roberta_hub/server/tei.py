"""text-embeddings-inference's protocol: `/embed`, `/rerank`, `/predict`, `/info`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roberta_hub.errors import InputTypeError, Place
from roberta_hub.server.endpoint import Body, Endpoint, WithHeaders, only
from roberta_hub.server.refusals import TEI
from roberta_hub.server.service import Service, rows_in
from roberta_hub.verbs.classify import CLASSIFY
from roberta_hub.verbs.embed import EMBED

_SIDE = "a text that is too long is cut at its end, as the model's tokenizer cuts it"
_CUT = {"truncate": "boolean", "truncation_direction": "string"}


def _cut(body: Body) -> dict[str, Any]:
    only("truncation_direction", body.get("truncation_direction", "Right"), _RIGHT, _SIDE)
    return {"truncate": body.get("truncate")}


_RIGHT = ("Right", "right")


async def _vectors(service: Service, rows: list[Any], body: Body, name: str) -> list[Any]:
    options = {
        **_cut(body),
        "prompt_name": body.get("prompt_name"),
        "truncate_dim": body.get("dimensions"),
    }
    normalize = body.get("normalize", True)
    found = await service.ask("embed", rows, options, normalize=normalize, name=name)
    return [record["vector"].tolist() for record, _ in found]


async def _embed(service: Service, body: Body) -> Any:
    only("encoding_format", body.get("encoding_format", "float"), ("float",), "it is float")
    rows, _ = rows_in(EMBED, body["inputs"], "inputs")
    return await _vectors(service, rows, body, "inputs")


async def _rerank(service: Service, body: Body) -> Any:
    only("raw_scores", body.get("raw_scores", False), (False,), _FROM_0_TO_1)
    texts = [_text(text, Place("texts", i)) for i, text in enumerate(body["texts"])]
    options = {**_cut(body), "head": body.get("head"), "label": body.get("label")}
    found = await service.ask("rank", [(body["query"], text) for text in texts], options)
    scores = [record["score"] for record, _ in found]
    order = sorted(range(len(scores)), key=lambda i: -scores[i])
    found_texts = texts if body.get("return_text") else None
    return [
        {"index": i, "score": scores[i], **({"text": found_texts[i]} if found_texts else {})}
        for i in order
    ]


_FROM_0_TO_1 = "scores are from 0 to 1"


def _text(value: Any, place: Place) -> str:
    if not isinstance(value, str):
        raise InputTypeError("not a text", place=place)
    return value


async def _predict(service: Service, body: Body) -> Any:
    only("raw_scores", body.get("raw_scores", False), (False,), "scores are probabilities")
    rows, one = _predicted(body["inputs"])
    options = {**_cut(body), "head": body.get("head")}
    records = [record for record, _ in await service.ask("classify", rows, options, name="inputs")]
    found = [_labels(record) for record in records]
    refused = [str(i) for i, record in enumerate(records) if record.get("rejected")]
    return WithHeaders(
        found[0] if one else found, {REJECTED_HEADER: ",".join(refused)} if refused else {}
    )


REJECTED_HEADER = "X-Rejected"
"""Has the places of the inputs that the head refuses; the protocol's body has no field for it."""


def _predicted(value: Any) -> tuple[list[Any], bool]:
    """Read inputs as text-embeddings-inference does: two texts are a pair; more are lists of lists.

    Example:
        >>> _predicted("a"), _predicted(["a", "b"])
        ((['a'], True), ([('a', 'b')], True))
        >>> _predicted([["a"], ["b"]]), _predicted([["a", "b"]])
        ((['a', 'b'], False), ([('a', 'b')], False))
    """
    if isinstance(value, list) and len(value) == 2 and all(isinstance(x, str) for x in value):
        return [(value[0], value[1])], True
    if isinstance(value, list):
        value = [x[0] if isinstance(x, list) and len(x) == 1 else x for x in value]
    return rows_in(CLASSIFY, value, "inputs")


def _labels(record: Mapping[str, Any]) -> list[Any]:
    return [{"score": score, "label": label} for label, score in record["scores"].items()]


async def _info(service: Service, body: Body) -> Any:
    return {
        "model_id": service.name,
        "max_input_length": service.roberta.max_positions,
        "max_client_batch_size": service.limits.texts,
        "max_batch_tokens": service.batcher.batch_tokens,
    }


ENDPOINTS = (
    Endpoint(
        path="/embed",
        protocol=TEI,
        answer=_embed,
        summary="Vectors of texts.",
        takes={
            "inputs": "",
            "normalize": "boolean",
            **_CUT,
            "prompt_name": "string",
            "dimensions": "integer",
            "encoding_format": "string",
        },
        required=("inputs",),
    ),
    Endpoint(
        path="/rerank",
        protocol=TEI,
        answer=_rerank,
        summary="Texts in the order in which they answer a query.",
        takes={
            "query": "string",
            "texts": "array",
            "raw_scores": "boolean",
            "return_text": "boolean",
            **_CUT,
            "head": "string",
            "label": "string",
        },
        required=("query", "texts"),
    ),
    Endpoint(
        path="/predict",
        protocol=TEI,
        answer=_predict,
        summary="The probabilities of a head's labels.",
        takes={"inputs": "", "raw_scores": "boolean", **_CUT, "head": "string"},
        required=("inputs",),
    ),
    Endpoint(path="/info", protocol=TEI, answer=_info, summary="The model and the limits."),
)

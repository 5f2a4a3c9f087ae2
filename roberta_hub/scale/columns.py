"""Asks a model a verb about many texts, and writes the answers as Arrow columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roberta_hub.errors import InputError, MissingExtraError, Remedy
from roberta_hub.extras import install

if TYPE_CHECKING:
    from torch import Tensor

    from roberta_hub.interface import RobertaHubInterface

Columns = dict[str, Any]
"""Answers by the name of their column: a list with a value for each text, or a Tensor (n, C)."""
BLOCK = 64
"""Pairs whose vectors are compared at once: a block costs BLOCK x BLOCK cosines for BLOCK."""
VECTORS = ("float32", "float16")
SHARED = frozenset({"batch_tokens", "truncate", "stride"})
"""Options that every verb takes."""


def arrow() -> Any:
    """Import pyarrow with its Parquet.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        import pyarrow
        import pyarrow.fs
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtraError(f"a lake needs pyarrow ({error}): {install('scale')}") from None
    return pyarrow


@dataclass(frozen=True)
class Question:
    """What a verb takes of a row, and what it answers."""

    ask: Callable[[RobertaHubInterface, list[Any], Mapping[str, Any]], Columns]
    """From a model, texts and options to columns."""
    options: frozenset[str] = frozenset()
    """Names of the options that are the verb's own."""
    least: int = 1
    most: int | None = 2
    """How many columns of text a row has; None: any number."""
    columns: str = ""
    """How an error calls them, where there is no doubt."""


def _predictions(found: Sequence[Any], *, scores: bool) -> Columns:
    columns: Columns = {"label": [p.label for p in found], "score": [p.score for p in found]}
    if found and found[0].labels is not None:  # of one head, so of all or none
        columns["labels"] = [list(p.labels) for p in found]
    if scores:
        columns["scores"] = [dict(p.scores) for p in found]
    return columns


def _labelled(verb: Callable[..., Any], texts: list[Any], options: Mapping[str, Any]) -> Columns:
    own = {name: value for name, value in options.items() if name != "scores"}
    return _predictions(verb(texts, **own), scores=bool(options.get("scores")))


def _classify(
    roberta: RobertaHubInterface, texts: list[Any], options: Mapping[str, Any]
) -> Columns:
    return _labelled(roberta.classify, texts, options)


def _zero_shot(
    roberta: RobertaHubInterface, texts: list[Any], options: Mapping[str, Any]
) -> Columns:
    return _labelled(roberta.zero_shot, texts, options)


def _embed(roberta: RobertaHubInterface, texts: list[Any], options: Mapping[str, Any]) -> Columns:
    return {"vector": roberta.embed(texts, **options)}


def _features(
    roberta: RobertaHubInterface, texts: list[Any], options: Mapping[str, Any]
) -> Columns:
    if options.get("pooling") is None:
        raise InputError(
            "features in a lake are one vector a row; embed pools as the model was trained to",
            remedy=Remedy(
                'pass pooling="mean", "cls", "max" or "pooler"',
                "give --pooling mean, cls, max or pooler",
            ),
        )
    return {"vector": roberta.features(texts, **options)}


def _score(roberta: RobertaHubInterface, texts: list[Any], options: Mapping[str, Any]) -> Columns:
    found = roberta.score(texts, **options)
    layout = roberta.tokenizer.layout
    counts = [
        sum(end - start for start, end in layout.sentences(ids))
        for ids in roberta.encode_batch(texts)
    ]
    each = [value / max(count, 1) for value, count in zip(found, counts, strict=True)]
    return {"score": found, "tokens": counts, "per_token": each}


def _fill_mask(
    roberta: RobertaHubInterface, texts: list[Any], options: Mapping[str, Any]
) -> Columns:
    answers = []
    results: list[Any] = roberta.fill_mask(texts, **options)
    for found in results:
        masks = found if isinstance(found[0], list) else [found]
        answers.append(
            [
                {"mask": number, "word": word.strip(), "score": score, "filled": filled}
                for number, mask in enumerate(masks, 1)
                for filled, score, word in mask
            ]
        )
    return {"words": answers}


def _tag(roberta: RobertaHubInterface, texts: list[Any], options: Mapping[str, Any]) -> Columns:
    found = roberta.tag(texts, **options)
    return {"spans": [[span.to_dict() for span in spans] for spans in found]}


def _answer(roberta: RobertaHubInterface, texts: list[Any], options: Mapping[str, Any]) -> Columns:
    found = [roberta.answer(question, context, **options) for question, context in texts]
    return {
        "answer": [a.text for a in found],
        "start": [a.start for a in found],
        "end": [a.end for a in found],
        "score": [a.score for a in found],
    }


def _choose(roberta: RobertaHubInterface, texts: list[Any], options: Mapping[str, Any]) -> Columns:
    settings = dict(options)
    fixed = settings.pop("options", None)
    found = []
    for text in texts:
        row = (text,) if isinstance(text, str) else text
        context, own = (row[0], list(row[1:])) if fixed is None else (row[0], list(fixed))
        found.append(roberta.choose(context, own, **settings))
    ranked = [[{"option": o, "score": s} for o, s in p.scores.items()] for p in found]
    return {**_predictions(found, scores=False), "options": ranked}


def _similarity(
    roberta: RobertaHubInterface, texts: list[Any], options: Mapping[str, Any]
) -> Columns:
    first = roberta.embed([a for a, _ in texts], **options)  # (n, C)
    second = roberta.embed([b for _, b in texts], **options)  # (n, C)
    found: list[float] = []
    for start in range(0, len(texts), BLOCK):
        block = slice(start, start + BLOCK)
        found += roberta.similarity(first[block], second[block]).diagonal().tolist()
    return {"similarity": found}


_HEAD = frozenset({"head"})
_SCORES = frozenset({"head", "multi_label", "scores"})
QUESTIONS = {
    "classify": Question(_classify, _SCORES, most=None),
    "zero_shot": Question(_zero_shot, _SCORES | {"labels", "hypothesis", "by"}),
    "embed": Question(_embed, frozenset({"prompt", "prompt_name"})),
    "features": Question(_features, frozenset({"layer", "pooling", "normalize"})),
    "similarity": Question(_similarity, least=2, columns='text=("first", "second")'),
    "score": Question(_score),
    "fill_mask": Question(_fill_mask, frozenset({"topk", "targets"}), most=1),
    "tag": Question(_tag, _HEAD, most=1),
    "answer": Question(
        _answer,
        _HEAD | {"max_answer_tokens", "no_answer"},
        least=2,
        columns='text=("question", "context")',
    ),
    "choose": Question(
        _choose,
        _HEAD | {"options"},
        most=None,
        columns="a text and its options, or the text alone with options=[...]",
    ),
}
"""The verbs that answer a row by itself, by the interface's names."""


def schema(columns: Columns, vectors: str = "float32") -> Any:
    """Tell the Arrow schema of answers, which is the same for all rows of a verb.

    Args:
        columns: answers to an example.
        vectors: "float32" or "float16".

    Example:
        >>> schema({"label": ["art"], "score": [0.5], "scores": [{"sport": 0.1, "art": 0.5}]})
        label: string
        score: float
        scores: struct<art: float, sport: float>
          child 0, art: float
          child 1, sport: float
    """
    pa = arrow()
    real, whole, text = pa.float32(), pa.int32(), pa.string()
    structs = {
        "spans": {"label": text, "start": whole, "end": whole, "text": text, "score": real},
        "words": {"mask": whole, "word": text, "score": real, "filled": text},
        "options": {"option": text, "score": real},
    }
    exact = "per_token" in columns  # sums over a text's tokens

    def kind(name: str, value: Any) -> Any:
        if name == "vector":
            return pa.list_(getattr(pa, vectors)(), value.size(1))
        if name in structs:
            return pa.list_(pa.struct(list(structs[name].items())))
        if name == "labels":
            return pa.list_(text)
        if name == "scores":
            return pa.struct([(str(label), real) for label in sorted(value[0])])
        if isinstance(value[0], str):
            return text
        return whole if isinstance(value[0], int) else pa.float64() if exact else real

    return pa.schema([(name, kind(name, value)) for name, value in columns.items()])


def as_table(columns: Columns, kinds: Any) -> Any:
    """Write answers as an Arrow table.

    Args:
        columns: of a verb.
        kinds: the schema that `schema` gave.

    Returns:
        A pyarrow Table with a row for each text.
    """
    pa = arrow()
    arrays = [
        _vectors(columns[field.name], field.type)
        if field.name == "vector"
        else pa.array(columns[field.name], field.type)
        for field in kinds
    ]
    return pa.Table.from_arrays(arrays, schema=kinds)


def _vectors(vectors: Tensor, kind: Any) -> Any:
    """Write (n, C) as lists of a fixed size, without a Python object for each number."""
    import torch

    pa = arrow()
    dtype = torch.float16 if pa.types.is_float16(kind.value_type) else torch.float32
    numbers = vectors.detach().to("cpu", dtype).contiguous()
    values = pa.Array.from_buffers(
        kind.value_type, numbers.numel(), [None, pa.py_buffer(numbers.numpy().tobytes())]
    )
    return pa.FixedSizeListArray.from_arrays(values, type=kind)

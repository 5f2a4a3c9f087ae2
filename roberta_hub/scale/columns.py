"""Runs a verb on many texts, and writes the answers as Arrow columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from roberta_hub.errors import InputError, MissingExtraError, Remedy
from roberta_hub.extras import install
from roberta_hub.rows.arrow import vector_note
from roberta_hub.verbs.question import Columns, Question, Record, answer_as_columns

if TYPE_CHECKING:
    from torch import Tensor

    from roberta_hub.interface import RobertaHubInterface

_NUMBERS = {"binary": "int8", "ubinary": "uint8"}
"""Arrow's types of vectors whose dtype has another name."""
SHARED_OPTIONS = frozenset({"batch_tokens", "truncate", "stride"})
"""Options of every verb."""


def arrow() -> Any:
    """Import pyarrow with its Parquet."""
    try:
        import pyarrow
        import pyarrow.fs
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtraError(f"a lake needs pyarrow ({error}): {install('scale')}") from None
    return pyarrow


def answer_rows(
    question: Question[Any, Any],
    roberta: RobertaHubInterface,
    texts: list[Any],
    options: Mapping[str, Any],
) -> Columns:
    """Answer rows as the columns of a lake."""
    from roberta_hub.interface import verb_model

    own = {name: value for name, value in options.items() if name in question.keywords}
    wanted = {name: bool(own.pop(name, False)) for name in question.asked_columns}
    if "vectors" in question.answer_format(own).sample:
        raise InputError(
            "features in a lake are one vector a row; embed pools as the model was trained to",
            remedy=Remedy(
                'pass pooling="mean", "cls", "max" or "pooler"',
                "give --pooling mean, cls, max or pooler",
            ),
        )
    shared: Any = {name: value for name, value in options.items() if name in SHARED_OPTIONS}
    model = verb_model(roberta, progress=False, **shared)
    columns = answer_as_columns(question, model, texts, own)
    for name, is_wanted in wanted.items():
        value = columns.pop(name)
        if is_wanted:
            columns[name] = value
    return columns


def schema(columns: Columns, sample: Record, vectors: str = "float32", ranges: Any = None) -> Any:
    """Arrow schema of answers, the same for all rows of a verb.

    Example:
        >>> schema({"label": ["art"], "scores": [{"sport": 0.1, "art": 0.5}]}, {"label": ""})
        label: string
        scores: struct<art: float, sport: float>
          child 0, art: float
          child 1, sport: float
    """
    pa = arrow()
    plain = {str: pa.string(), int: pa.int32(), float: pa.float32(), bool: pa.bool_()}
    exact = "per_token" in columns  # sums over a text's tokens

    def kind(name: str, value: Any) -> Any:
        if name == "vector":
            return pa.list_(getattr(pa, _NUMBERS.get(vectors, vectors))(), value.size(1))
        if isinstance(sample.get(name), list):
            fields = [(inner, plain[type(cell)]) for inner, cell in sample[name][0].items()]
            return pa.list_(pa.struct(fields))
        if isinstance(value[0], list):
            return pa.list_(pa.string())
        if isinstance(value[0], dict):
            return pa.struct([(str(label), pa.float32()) for label in sorted(value[0])])
        first = sample[name] if value[0] is None else value[0]  # a label that is refused
        return pa.float64() if exact and isinstance(first, float) else plain[type(first)]

    def note(name: str) -> Any:
        return vector_note(vectors, ranges) if name == "vector" else None

    return pa.schema(
        [pa.field(name, kind(name, value), metadata=note(name)) for name, value in columns.items()]
    )


def as_table(columns: Columns, kinds: Any) -> Any:
    """Write answers as an Arrow table."""
    pa = arrow()
    arrays = [
        _vectors(columns[field.name], field.type)
        if field.name == "vector"
        else pa.array(columns[field.name], field.type)
        for field in kinds
    ]
    return pa.Table.from_arrays(arrays, schema=kinds)


def _vectors(vectors: Tensor, kind: Any) -> Any:
    """Write (n, C) as fixed-size lists, without a Python object per number."""
    import torch

    pa = arrow()
    name = str(kind.value_type)
    dtype = getattr(torch, {"halffloat": "float16", "float": "float32"}.get(name, name))
    numbers = vectors.detach().to("cpu", dtype).contiguous()
    values = pa.Array.from_buffers(
        kind.value_type, numbers.numel(), [None, pa.py_buffer(numbers.numpy().tobytes())]
    )
    return pa.FixedSizeListArray.from_arrays(values, type=kind)

"""Sentence vectors by a model's settings, and their similarity."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from roberta_hub.arguments import whole_number
from roberta_hub.errors import InputError, InputTypeError, Place, placed
from roberta_hub.inference.batching import Runner
from roberta_hub.inference.mode import evaluating
from roberta_hub.inference.pooling import pooled
from roberta_hub.inference.precision import in_dtype, in_floats, ranges_for, ranges_of
from roberta_hub.inference.verb_model import VerbModel
from roberta_hub.inference.windows import Windows, keep_as_tokenizers
from roberta_hub.model.sentence_layers import layers_of, through_layers, width_after
from roberta_hub.settings import SentenceSettings, VectorDtype
from roberta_hub.text.texts import as_texts
from roberta_hub.text.tokenizer import Text

_SIMILARITIES: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    # Rounding makes one of 1.0000002 of two equal vectors.
    "cosine": lambda a, b: (F.normalize(a, dim=-1) @ F.normalize(b, dim=-1).T).clamp(-1.0, 1.0),
    "dot": lambda a, b: a @ b.T,
    # Not by products, which lose half of the digits of near vectors.
    "euclidean": lambda a, b: -torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist"),
    "manhattan": lambda a, b: -torch.cdist(a, b, p=1.0),
}
"""Two sets of vectors, (m, C) and (n, C) -> (m, n); larger is nearer."""


def within_limit(runner: Runner, settings: SentenceSettings) -> Runner:
    """Set the limit of sentence vectors, and sentence-transformers' truncation of pairs."""
    return dataclasses.replace(runner, longest=settings.max_length, keep=keep_as_tokenizers)


def embed(
    model: VerbModel,
    texts: Sequence[Text],
    *,
    prompt: str | None = None,
    prompt_name: str | None = None,
    truncate_dim: int | None = None,
    dtype: VectorDtype | None = None,
    ranges: Any = None,
) -> Tensor:
    """Compute one vector of each text, (len(texts), C). See `RobertaHubInterface.embed`."""
    within = ranges_for(dtype, ranges)
    settings = model.sentence or SentenceSettings()
    before = settings.find_prompt(prompt, prompt_name)
    runner = within_limit(model.runner, settings)
    vectors = text_vectors(runner, texts, settings, before, truncate_dim)
    return in_dtype(vectors, dtype, within)


def text_vectors(
    runner: Runner,
    texts: Sequence[Text],
    settings: SentenceSettings,
    prompt: str = "",
    truncate_dim: int | None = None,
) -> Tensor:
    """Compute one vector of each text."""
    width = vector_width(runner, settings)
    if truncate_dim is not None:
        width = kept_of(width, truncate_dim)
    if settings.lower_case:
        runner = dataclasses.replace(runner, tokenizer=runner.tokenizer.in_lowercase)
    if prompt:
        texts = [_with_prompt(text, prompt) for text in texts]
    windows, firsts, which = runner.encode(texts)
    skip = _unpooled(runner, settings, prompt, windows, firsts)
    vectors = embed_windows(runner, windows, settings, skip=skip, width=width)
    kept = settings.truncate_dim if truncate_dim is None else None  # the caller's counts
    return vectors[:, :kept][which]


def kept_of(width: int, truncate_dim: object) -> int:
    """Return how many numbers of vectors of a width are kept."""
    hint = f"this model's vectors have {width} numbers; keep 1 to {width}"
    return whole_number("truncate_dim", truncate_dim, 1, width, hint=hint)


def vector_width(runner: Runner, settings: SentenceSettings) -> int:
    """Return how many numbers a model's whole vectors have."""
    layers = layers_of(runner.model, settings.layers)
    return width_after(layers, runner.width * len(settings.pooling))


def embed_windows(
    runner: Runner,
    windows: Sequence[Windows],
    settings: SentenceSettings,
    *,
    skip: int = 0,
    width: int | None = None,
) -> Tensor:
    """Compute one vector of each text whose ids are known."""
    vectors = pooled(runner, windows, settings.pooling, skip=skip)
    if settings.layers:
        with evaluating(runner.model):
            vectors = through_layers(runner.model, settings.layers, vectors)
    vectors = vectors[:, :width]
    return F.normalize(vectors, dim=-1) if settings.normalize else vectors


def _unpooled(
    runner: Runner,
    settings: SentenceSettings,
    prompt: str,
    windows: Sequence[Windows],
    firsts: Sequence[int],
) -> int:
    """Count the tokens at the start of each text that are not pooled: `<s>` and the prompt's.

    They are those of the prompt alone, as sentence-transformers counts them.
    """
    if settings.include_prompt or not prompt:
        return 0
    skip = len(runner.tokenizer.encode(prompt)) - 1  # without </s>
    for number, text in zip(firsts, windows, strict=True):
        if len(text.best) <= skip:
            raise InputError(
                f"the prompt has {skip} tokens with <s>, which include_prompt=False leaves out, "
                f"and a text has {runner.limit} at most: nothing of it is left",
                place=Place("texts", number),
            )
    return skip


def _with_prompt(text: Text, prompt: str) -> Text:
    if isinstance(text, str):
        return prompt + text
    first, *rest = text
    return (prompt + first, *rest)


def compare(runner: Runner, settings: SentenceSettings, a: Any, b: Any) -> Tensor:
    """Compare each of some texts with each of others. See `RobertaHubInterface.similarity`."""
    prompt = settings.find_prompt(None, None)

    def vectors(texts: Sequence[Text]) -> Tensor:
        return text_vectors(runner, texts, settings, prompt)

    width = compared_width(runner, settings, None, a, b)
    left, right = (vectors_of(value, name, vectors, width) for value, name in ((a, "a"), (b, "b")))
    if left.size(1) != right.size(1):
        raise InputError(
            f"a has vectors of width {left.size(1)} and b of width {right.size(1)}; did "
            "another model make one of them?"
        )
    return similarities(left, right.to(left.device), settings.similarity)


def compared_width(
    runner: Runner, settings: SentenceSettings, truncate_dim: int | None, *given: Any
) -> int:
    """Return the width of the vectors of floats among some, else of those the model makes."""
    width = vector_width(runner, settings)
    kept = settings.truncate_dim if truncate_dim is None else kept_of(width, truncate_dim)
    for value in given:
        if are_vectors(value) and "float" in str(value.dtype) and len(value.shape):
            return int(value.shape[-1])
    return width if kept is None else min(width, kept)


def similarities(a: Tensor, b: Tensor, similarity: str) -> Tensor:
    """Compare each vector of one set with each of another.

    Example:
        >>> similarities(torch.tensor([[3.0, 4.0]]), torch.tensor([[6.0, 8.0]]), "cosine")
        tensor([[1.]])
    """
    dtype = torch.float64 if a.dtype == b.dtype == torch.float64 else torch.float32
    return _SIMILARITIES[similarity](a.to(dtype), b.to(dtype))


def check_vectors(vectors: Tensor, name: str, width: int | None = None) -> Tensor:
    """Return vectors as a matrix, on their device; one vector becomes one row.

    Raises:
        InputTypeError: no floating-point numbers.
        InputError: another shape or width, or values that are not finite.
    """
    if not vectors.is_floating_point():
        raise InputTypeError(
            f"{name} holds {vectors.dtype}, and vectors are floating-point numbers; embed makes "
            "them of texts"
        )
    if vectors.dim() not in (1, 2):
        raise InputError(f"{name} has shape {tuple(vectors.shape)}; vectors are (n, C) or (C,)")
    matrix = vectors[None] if vectors.dim() == 1 else vectors
    if width is not None and matrix.size(1) != width:
        raise InputError(
            f"{name} has vectors of width {matrix.size(1)}, and the others have {width}; did "
            "another model make them? Shortened ones need the same truncate_dim on both sides"
        )
    if not bool(matrix.isfinite().all()):
        row = int((~matrix.isfinite().all(dim=1)).nonzero()[0])
        raise InputError(f"{name}[{row}] holds NaN or infinity, which compares with nothing")
    return matrix


def are_vectors(value: object) -> bool:
    """Whether a value is vectors (a Tensor or numeric numpy array) rather than texts.

    Example:
        >>> are_vectors(torch.ones(2, 3)), are_vectors(["a text"])
        (True, False)
    """
    if isinstance(value, Tensor):
        return True
    numbers = getattr(getattr(value, "dtype", None), "kind", "") in (*"fiub",)
    return numbers and hasattr(type(value), "__array_interface__")


def as_tensor(value: Any) -> Tensor:
    """Return vectors as a tensor without gradients; numpy's are copied."""
    return value.detach() if isinstance(value, Tensor) else torch.tensor(value)


def vectors_of(
    value: Any,
    name: str,
    embed: Callable[[Sequence[Text]], Tensor],
    width: int | None = None,
    ranges: Tensor | None = None,
) -> Tensor:
    """Return the vectors of texts; vectors are passed through, as floats: (n, C).

    Args:
        value: one str, texts, or vectors of shape (n, C) or (C,).
        name: of the argument, for errors.
        embed: from texts to vectors.
        width: numbers of a vector that they are compared with.
        ranges: of int8 vectors that have none of their own.
    """
    if are_vectors(value):
        own = ranges_of(value)
        given = in_floats(as_tensor(value), name, width, ranges if own is None else own)
        return check_vectors(given, name)
    texts = as_texts(value, name)[0]
    with placed(lambda at: Place(name, at.index)):
        return embed(texts)

"""embed(dtype=) beside sentence-transformers' quantize_embeddings and its search by FAISS."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from small_models import small_roberta

from roberta_hub.inference.precision import in_dtype

pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings("ignore:the ranges of int8 vectors:roberta_hub.errors.Advice"),
]
quantization = pytest.importorskip("sentence_transformers.util.quantization")
TEXTS = [f"{n} {what}" for n in range(40) for what in ("dogs ran", "cats sat", "Goals!")]


def as_theirs(ours: torch.Tensor, theirs: Any) -> None:
    assert ours.numpy().dtype == theirs.dtype and np.array_equal(ours.numpy(), theirs)


@pytest.mark.parametrize("width", [32, 21, 8, 1])
@pytest.mark.parametrize("dtype", ["float32", "int8", "binary", "ubinary"])
def test_the_same_bytes(dtype: Any, width: int) -> None:
    roberta = small_roberta()
    floats = roberta.embed(TEXTS, truncate_dim=width).numpy()
    theirs = quantization.quantize_embeddings(floats, dtype)
    as_theirs(roberta.embed(TEXTS, dtype=dtype, truncate_dim=width), theirs)
    if dtype == "int8":  # numbers outside the ranges, and one that never changes
        ranges = np.stack([floats[:9].min(0), floats[:9].max(0)])
        ranges[:, 0] = floats[0, 0]
        theirs = quantization.quantize_embeddings(floats, dtype, ranges=ranges)
        as_theirs(roberta.embed(TEXTS, dtype=dtype, truncate_dim=width, ranges=ranges), theirs)


@pytest.mark.parametrize("seed", range(5))
def test_random_vectors(seed: int) -> None:
    vectors = torch.randn(200, 37, generator=torch.Generator().manual_seed(seed)) * 10.0**seed
    vectors[::7, ::5] = 0
    for dtype in ("int8", "binary", "ubinary"):
        as_theirs(in_dtype(vectors, dtype), quantization.quantize_embeddings(vectors, dtype))


def test_bits_are_found_as_faiss_finds_them() -> None:
    """With as many candidates as texts their rescored order is ours, which looks at all."""
    pytest.importorskip("faiss")
    generator = torch.Generator().manual_seed(0)
    corpus = torch.randn(90, 32, generator=generator)
    queries = torch.randn(5, 32, generator=generator)
    codes = in_dtype(corpus, "ubinary")
    found, _ = quantization.semantic_search_faiss(
        queries.numpy(), codes.numpy(), corpus_precision="ubinary", top_k=10, rescore_multiplier=9
    )
    ours = small_roberta().search(queries, codes, 10)
    assert [[hit.index for hit in hits] for hits in ours] == [
        [hit["corpus_id"] for hit in hits] for hits in found
    ]

"""Vectors in fewer bytes: what embed writes, what search reads of it, and what does not fit."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import assert_close

from roberta_hub import RobertaHubInterface
from roberta_hub.errors import Advice, InputError, InputTypeError
from roberta_hub.inference.precision import find_ranges, in_dtype, in_floats

pytestmark = pytest.mark.filterwarnings(
    "ignore:the ranges of int8 vectors:roberta_hub.errors.Advice"
)
CORPUS = [f"{who} {did}" for who in ("A dog", "A cat", "Mary") for did in ("ran", "sat", "ate.")]


def test_what_embed_writes(roberta: RobertaHubInterface) -> None:
    floats = roberta.embed(CORPUS, truncate_dim=21)
    half = roberta.embed(CORPUS, dtype="float16", truncate_dim=21)
    assert half.dtype == torch.float16 and torch.equal(half, floats.half())
    assert torch.equal(roberta.embed(CORPUS, dtype="float32", truncate_dim=21), floats)
    bits = roberta.embed(CORPUS, dtype="ubinary", truncate_dim=21)
    assert bits.tolist() == np.packbits(floats.numpy() > 0, axis=1).tolist()
    signed = roberta.embed(CORPUS, dtype="binary", truncate_dim=21)
    assert signed.dtype == torch.int8 and torch.equal(signed.int() + 128, bits.int())
    with pytest.warns(Advice, match="ranges of int8 vectors are those of 9 texts"):
        small = roberta.embed(CORPUS, dtype="int8", truncate_dim=21)
    ranges: Any = small.ranges  # type: ignore[attr-defined]
    assert small.dtype == torch.int8 and torch.equal(ranges[0], floats.amin(0))
    one = roberta.embed(CORPUS[3], dtype="int8", truncate_dim=21, ranges=ranges.numpy())
    assert one.shape == (21,) and torch.equal(one, small[3])
    assert torch.equal(one.ranges, ranges)  # type: ignore[attr-defined]
    assert roberta.embed([], dtype="int8").shape == (0, 32)
    assert roberta.embed([], dtype="binary").shape == (0, 4)


def test_ranges_are_saved_with_the_vectors(roberta: RobertaHubInterface) -> None:
    small = roberta.embed(CORPUS, dtype="int8")
    file = io.BytesIO()
    torch.save(small, file)
    file.seek(0)
    assert torch.equal(torch.load(file).ranges, small.ranges)  # type: ignore[attr-defined]


@given(st.integers(1, 30), st.integers(1, 40), st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_read_back(rows: int, width: int, seed: int) -> None:
    """int8 is within half a step, and bits have the signs."""
    vectors = torch.randn(rows, width, generator=torch.Generator().manual_seed(seed))
    vectors[:, 0] = 0.25  # a number that never changes
    ranges = find_ranges(torch.cat([vectors, vectors]))
    small = in_dtype(vectors, "int8", ranges)
    read = in_floats(small, "a", width, ranges)
    steps = (ranges[1] - ranges[0]) / 255
    assert bool(((read - vectors).abs() <= steps * 0.51 + 1e-6).all())
    for dtype in ("binary", "ubinary"):
        bits = in_floats(in_dtype(vectors, dtype), "a", width, None)
        assert torch.equal(bits > 0, vectors > 0) and set(bits.unique().tolist()) <= {-1, 1}


@pytest.mark.parametrize("dtype", ["float16", "int8", "binary", "ubinary"])
def test_search_reads_every_dtype(roberta: RobertaHubInterface, dtype: Any) -> None:
    floats, small = roberta.embed(CORPUS), roberta.embed(CORPUS, dtype=dtype)
    as_floats = in_floats(small, "corpus", 32, None)
    wanted = roberta.search(CORPUS[:3], as_floats, 4)
    for queries in (CORPUS[:3], floats[:3]):
        found = roberta.search(queries, small, 4)
        assert [[hit.index for hit in hits] for hits in found] == [
            [hit.index for hit in hits] for hits in wanted
        ]
    assert_close(roberta.similarity(CORPUS[:3], small), roberta.similarity(CORPUS[:3], as_floats))
    if dtype == "int8":
        again = roberta.search(CORPUS[:1], small.numpy(), 4, ranges=small.ranges)  # type: ignore[attr-defined]
        assert [hit.index for hit in again[0]] == [hit.index for hit in wanted[0]]
    else:
        itself = roberta.search(small, small, 1)
        assert [hit.score for [hit] in itself] == pytest.approx([1] * 9)
    cut = roberta.embed(CORPUS, dtype=dtype, truncate_dim=8)
    assert len(roberta.search("A dog", cut, 2, truncate_dim=8)) == 2


def test_what_does_not_fit(roberta: RobertaHubInterface, tmp_path: Path) -> None:
    small: Any = roberta.embed(CORPUS, dtype="int8")
    (tmp_path / "no.parquet").write_text("id\n1\n")
    tries: list[tuple[Callable[[], object], type[Exception], str]] = [
        (
            lambda: roberta.embed("A dog", dtype="int8"),
            InputError,
            "one text has none; pass ranges",
        ),
        (lambda: roberta.embed(["A dog"], dtype="int8"), InputError, "one text has none"),
        (lambda: roberta.embed("a", dtype="int4"), InputError, "dtype is 'int4'"),  # type: ignore[arg-type]
        (lambda: roberta.embed("a", ranges=small.ranges), InputError, "dtype is None; leave"),
        (
            lambda: roberta.embed("a", dtype="int8", ranges=small.ranges, truncate_dim=5),
            InputError,
            "of 32 numbers, and these have 5",
        ),
        (lambda: roberta.embed("a", dtype="int8", ranges=[[1.0]]), InputError, r"shape \(1, 1\)"),
        (lambda: roberta.embed("a", dtype="int8", ranges=[[2.0], [1.0]]), InputError, "above its"),
        (lambda: roberta.embed("a", dtype="int8", ranges=[[2], ["b"]]), InputTypeError, "a list"),  # type: ignore[list-item]
        (
            lambda: roberta.embed("a", dtype="int8", ranges=tmp_path / "no.parquet"),
            InputError,
            "no Parquet file",
        ),
        (
            lambda: roberta.search("a", small.numpy()),
            InputError,
            "int8 vectors of width 32 without",
        ),
        (lambda: roberta.search("a", small[:, :7]), InputError, "width 7 without ranges"),
        (
            lambda: roberta.search("a", small.numpy(), ranges=small.ranges[:, :9]),
            InputError,
            "of 9 numbers, and these have 32",
        ),
        (
            lambda: roberta.search("a", roberta.embed(CORPUS, dtype="ubinary", truncate_dim=8)),
            InputError,
            "width 8, and the others have 32",
        ),
    ]
    for call, error, says in tries:
        with pytest.raises(error, match=says):
            call()

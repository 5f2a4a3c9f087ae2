"""safetensors headers that lie, and weights that claim to be a model: rows 25 to 31."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import torch
from fuzz import seeds
from safetensors.torch import load, save
from torch import Tensor

from roberta_hub.checkpoint.checkpoint import EMBEDDING

from .bench import Attack
from .material import DICTIONARY, directory, huggingface_files, model_pt, ours_files

DAMAGED = "not a readable safetensors file"
BIG = 10**18


def with_header(header: bytes, data: bytes = bytes(64), length: int | None = None) -> bytes:
    return (len(header) if length is None else length).to_bytes(8, "little") + header + data


def claims(*entries: tuple[str, Any, Any, Any]) -> bytes:
    """A file whose header has these (name, dtype, shape, offsets) in this order, repeats too."""
    parts = (
        f"{json.dumps(name)}: " + json.dumps({"dtype": dtype, "shape": shape, "data_offsets": at})
        for name, dtype, shape, at in entries
    )
    return with_header(("{" + ", ".join(parts) + "}").encode())


def header(
    name: str, content: bytes, reason: str = DAMAGED, naive: str = "", harm: str = ""
) -> Attack:
    make = directory(ours_files(), model__safetensors=content)
    return Attack(f"safetensors: {name}", 31, make, reason, naive, harm)


SOUND = ("a", "F32", [4], [0, 16])
NAIVE = "safetensors_header"
HEADERS = [
    header(
        "overlap",
        claims(("a", "F32", [8], [0, 32]), ("b", "F32", [12], [16, 64])),
        DAMAGED,
        NAIVE,
        "accepts",
    ),
    header("a hole", claims(SOUND, ("b", "F32", [4], [48, 64])), DAMAGED, NAIVE, "accepts"),
    header("a tail", claims(SOUND), DAMAGED, NAIVE, "accepts"),
    header(
        "beyond the end", claims(("a", "F32", [BIG], [0, 4 * BIG])), DAMAGED, NAIVE, "fills memory"
    ),
    header(
        "a shape of exabytes", claims(("a", "F32", [BIG], [0, 64])), DAMAGED, NAIVE, "fills memory"
    ),
    header("a negative offset", claims(("a", "F32", [16], [-64, 0]))),
    header("offsets the wrong way", claims(("a", "F32", [16], [64, 0]))),
    header("an offset beyond 64 bits", claims(("a", "F32", [16], [0, 2**64 + 64]))),
    header("a shape that wraps around", claims(("a", "F32", [2**32, 2**32, 16], [0, 64]))),
    header(
        "a shape that wraps around to nothing",
        claims(("a", "F32", [2**63, 2], [0, 0]), ("b", "F32", [16], [0, 64])),
    ),
    header(
        "no elements in exabytes of rows",
        claims(("a", "F32", [2**63, 0], [0, 0]), ("b", "F32", [16], [0, 64])),
        f"{DAMAGED}|no place|are missing",
    ),
    header("a negative shape", claims(("a", "F32", [-4, -4], [0, 64]))),
    header(
        "a million dimensions",
        claims(("a", "F32", [1] * 1_000_000, [0, 4]), ("b", "F32", [15], [4, 64])),
        f"{DAMAGED}|no place|are missing",
    ),
    header("no such dtype", claims(("a", "X99", [16], [0, 64])), DAMAGED, NAIVE, "accepts"),
    header("a dtype of eight bits", claims(("a", "F8_E4M3", [64], [0, 64])), "only plain"),
    header("complex numbers", claims(("a", "C64", [8], [0, 64])), f"{DAMAGED}|only plain"),
    header("a dtype that is a list", claims(("a", ["F32"], [16], [0, 64]))),
    header(
        "a name twice",
        claims(("a", "F32", [16], [0, 64]), ("a", "F32", [16], [0, 64])),
        "stands twice",
        NAIVE,
        "accepts",
    ),
    header(
        "deep JSON",
        with_header(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
        DAMAGED,
        NAIVE,
        "crashes",
    ),
    header(
        "a number of a million digits",
        with_header(b'{"a":' + b"9" * 1_000_000 + b"}"),
        DAMAGED,
        NAIVE,
        "crashes",
    ),
    header("not JSON", with_header(b"{" * 64)),
    header("not an object", with_header(b"[]")),
    header("not UTF-8", with_header(b'{"\xff\xfe":1}')),
    header(
        "a header of 2**63 bytes",
        with_header(b"{}", length=2**63 - 1),
        "the limit is 10,000,000",
        NAIVE,
        "crashes",
    ),
    header("a header of 99 MB", with_header(b"{}", length=99_000_000), "the limit is 10,000,000"),
    header("a header of nine bytes, two there", with_header(b"{}", b"", 9)),
    header("empty", b""),
    header("half a length", b"\1\0\0"),
    header("metadata that is a number", with_header(b'{"__metadata__": 5}', b"")),
    header(
        "thirty thousand tensors of nothing",
        claims(*((f"{i}", "F32", [0], [0, 0]) for i in range(30_000)), ("a", "F32", [16], [0, 64])),
        f"{DAMAGED}|no place|are missing",
    ),
]


def ours(name: str, row: int, reason: str, **changed: Tensor) -> Attack:
    """A directory of our own format whose weights are changed."""
    weights = {
        **load(ours_files()["model.safetensors"]),
        **{k.replace("__", "."): v for k, v in changed.items()},
    }
    make = directory(ours_files(), model__safetensors=save(weights))
    return Attack(f"weights: {name}", row, make, reason)


def theirs(name: str, reason: str, changed: Mapping[str, Tensor]) -> Attack:
    weights = {**load(huggingface_files()["model.safetensors"]), **changed}
    make = directory(huggingface_files(), model__safetensors=save(weights))
    return Attack(f"weights, Hugging Face: {name}", 28, make, reason)


def fairseq(name: str, row: int, reason: str, changed: Mapping[Any, Any]) -> Attack:
    sound: Any = seeds.states()[1]
    state = {**sound, "model": {**sound["model"], **changed}}
    make = model_pt(seeds.saved(state), DICTIONARY)
    return Attack(f"weights, fairseq: {name}", row, make, reason)


HEAD = "classification_heads."
ONE = torch.ones(4, 4)
SHAPES = {
    "a billion classes without width": (torch.zeros(10**9, 0), torch.zeros(0, 4)),
    "a width of a billion without rows": (torch.zeros(3, 0), torch.zeros(0, 10**9)),
}
NAMES = ("a.b", "__init__", "", "../x", "x" * 101, "a\n", "-a", "__class__.__base__", "a\u202eb")
ODD_NAMES = ("a b", "ü")
"""fairseq takes these, and so do we; what is under them is no head."""
NAN = torch.full((8,), float("nan"))

WEIGHTS = [
    *(
        fairseq(
            f"a head called {name!r}",
            28,
            "cannot name a classification head",
            {f"{HEAD}{name}.dense.weight": ONE},
        )
        for name in NAMES
    ),
    *(
        fairseq(
            f"a head called {name!r}",
            28,
            "lacks its dense or out_proj",
            {f"{HEAD}{name}.dense.weight": ONE},
        )
        for name in ODD_NAMES
    ),
    *(
        theirs(
            name,
            "lacks its dense or out_proj",
            {"classifier.out_proj.weight": out, "classifier.dense.weight": dense},
        )
        for name, (out, dense) in SHAPES.items()
    ),
    fairseq(
        "2000 heads",
        28,
        "2000 heads|2001 heads",
        {f"{HEAD}h{i}.{part}.weight": ONE for i in range(2000) for part in ("dense", "out_proj")},
    ),
    fairseq("half a head", 28, "lacks its dense or out_proj", {f"{HEAD}half.dense.weight": ONE}),
    fairseq(
        "layer 9999",
        25,
        "num_layers is 10000",
        {"encoder.sentence_encoder.layers.9999.fc1.weight": ONE},
    ),
    fairseq(
        "layer 10**20",
        26,
        "no place in a RoBERTa",
        {f"encoder.sentence_encoder.layers.{10**20}.fc1.weight": ONE},
    ),
    fairseq(
        "layer minus one",
        26,
        "no place in a RoBERTa",
        {"encoder.sentence_encoder.layers.-1.fc1.weight": ONE},
    ),
    fairseq(
        "two names for one tensor",
        26,
        "both upgrade to",
        {f"decoder{EMBEDDING.removeprefix('encoder')}": ONE},
    ),
    fairseq(
        "a query matrix that is in two forms",
        26,
        "holds both|multiple of 3",
        {"encoder.sentence_encoder.layers.0.self_attn.in_proj_weight": torch.ones(12, 4)},
    ),
    fairseq(
        "a scalar to be split in three",
        27,
        "multiple of 3",
        {"encoder.sentence_encoder.layers.0.self_attn.in_proj_weight": torch.ones(())},
    ),
    fairseq("numbers for names", 23, "no named tensor", {7: ONE}),
    fairseq("text for a tensor", 23, "no named tensor", {"w": "ones"}),
    fairseq("a sparse tensor", 30, "only plain|asks for", {"w": ONE.to_sparse()}),
    fairseq("complex numbers", 30, "only plain|asks for|damaged", {"w": ONE.to(torch.complex64)}),
    fairseq("a name of a megabyte", 26, "no place in a RoBERTa", {"w" * (1 << 20): ONE}),
    fairseq("no number in a bias", 29, "NaN or infinity", {"encoder.lm_head.bias": NAN}),
    fairseq("an embedding of one dimension", 27, "no RoBERTa encoder", {EMBEDDING: torch.ones(8)}),
    fairseq("an embedding of no width", 27, "embed_dim is 0", {EMBEDDING: torch.zeros(8, 0)}),
    fairseq(
        "a billion positions of no width",
        27,
        "embed_positions.weight has shape",
        {"encoder.sentence_encoder.embed_positions.weight": torch.zeros(10**9, 0)},
    ),
    fairseq(
        "two positions",
        27,
        "fewer than 3",
        {"encoder.sentence_encoder.embed_positions.weight": torch.ones(2, 4)},
    ),
    theirs(
        "token types of another width",
        "token-type embeddings",
        {"roberta.embeddings.token_type_embeddings.weight": torch.ones(1, 5)},
    ),
    theirs(
        "no token types",
        "token-type embeddings",
        {"roberta.embeddings.token_type_embeddings.weight": torch.ones(0, 4)},
    ),
    theirs("another head", "has no place", {"decision.weight": ONE}),
    ours(
        "whole numbers",
        30,
        "not floating-point",
        encoder__lm_head__bias=torch.ones(8, dtype=torch.int64),
    ),
    ours("infinity", 29, "NaN or infinity", encoder__lm_head__bias=torch.full((8,), float("inf"))),
]

ATTACKS = HEADERS + WEIGHTS

"""Refuses a table of speed that does not say what it is.

Every peer stands in it both as it comes and at each precision that ours has; numbers are medians of
three rounds or more, by turns, of texts that all differ; the CPU's instruction sets are named, and
no peer that belongs there is missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lib.report import write
from lib.rounds import same

LEAST_ROUNDS = 3
AS_IT_COMES = "as it comes"
PRECISIONS = ("int8", "bfloat16")
"""Other than float32, which a name without one of these means."""
PEERS: dict[str, tuple[str, ...]] = {
    "transformers": ("float32", "bfloat16"),
    "fairseq": ("float32",),
    "nn.TransformerEncoder": ("float32",),
    "ONNX Runtime": ("float32", "int8"),
    "OpenVINO": ("float32", "bfloat16", "int8"),
    "CTranslate2": ("float32", "int8"),
    "sentence-transformers torch": ("float32", "bfloat16"),
    "sentence-transformers ONNX": ("float32", "int8"),
    "sentence-transformers OpenVINO": ("float32", "bfloat16", "int8"),
    "fastembed": ("float32", "int8"),
    "llama.cpp": ("int8",),
}
"""Each peer, and what it computes encoders in on a CPU."""


def engine_of(name: str) -> str:
    """Whose a way is: the first part of its name."""
    return name.partition(",")[0]


def precision(name: str) -> str:
    """What a way computes in, by its name: a dtype, "auto", or as it comes."""
    parts = name.split(", ")[1:]
    known = (AS_IT_COMES, "auto", *PRECISIONS)
    return next((word for word in known if word in parts), "float32")


def faults(numbers: Mapping[str, Any], parts: Sequence[Sequence[Any]]) -> list[str]:
    """What a table lacks to be one.

    Args:
        numbers: of the table: about, rounds, seconds (way -> of each round), missing (peer -> what
            it said when it did not start).
        parts: each round's texts, or their ids.
    """
    seconds: Mapping[str, Sequence[float]] = numbers["seconds"]
    found = [f"{name} did not run: {why}" for name, why in numbers["missing"].items()]
    if not numbers["about"].get("instruction_sets"):
        found.append("the CPU's instruction sets are not named")
    if numbers["rounds"] < LEAST_ROUNDS or len(parts) != numbers["rounds"]:
        found.append(f"medians are of {LEAST_ROUNDS} rounds or more, and these of {len(parts)}")
    found += [
        f"{name} has {len(own)} samples of {numbers['rounds']} rounds"
        for name, own in seconds.items()
        if len(own) != numbers["rounds"]
    ]
    texts = [same(text) for part in parts for text in part]
    if len(set(texts)) < len(texts):
        found.append(f"{len(texts) - len(set(texts))} of {len(texts)} texts come twice")
    ours = {precision(name) for name in seconds if engine_of(name) == "roberta_hub"}
    for peer in sorted({engine_of(name) for name in seconds} - {"roberta_hub"}):
        there = {precision(name) for name in seconds if engine_of(name) == peer}
        wanted = [AS_IT_COMES, *(p for p in PEERS[peer] if p in ours)]
        found += [f"{peer} is not there in {word}" for word in wanted if word not in there]
    return found


def write_table(
    name: str, page: str, numbers: dict[str, Any], parts: Sequence[Sequence[Any]]
) -> None:
    """Write a table of speed, if it is one.

    Raises:
        ValueError: it is none; nothing is written.
    """
    if lacking := faults(numbers, parts):
        raise ValueError(f"{name} is not written: {'; '.join(lacking)}")
    write(name, page, numbers)

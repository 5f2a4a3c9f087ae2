"""Sound checkpoints, spoiled in one place: rows 24 to 30."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from .case import HF, LOADERS, Case, Place, Verdict, works, wrong
from .network import plan
from .web import good

TITLES = {
    24: "bit flip in tensor data",
    25: "missing keys",
    26: "unexpected keys",
    27: "wrong shapes",
    29: "NaN and infinity in weights",
    30: "fp16, bf16 weights",
}
NOT_APPLICABLE: dict[tuple[int, str], str] = {}
Weights = dict[str, Tensor]
Spoil = Callable[[Weights], None]


def dense(weights: Weights) -> str:
    """A matrix in the second layer, under any of the names it has."""
    ends = ("layers.1.fc1.weight", "layer.1.intermediate.dense.weight")
    return next(name for name in weights if name.endswith(ends))


def table(weights: Weights) -> str:
    return next(n for n in weights if n.endswith(("embed_tokens.weight", "word_embeddings.weight")))


def spoil(change: Spoil, place: Place) -> None:
    """Write both models with their weights changed."""
    for name in ("fairseq", "huggingface"):
        shutil.copytree(place.kit / name, place.files / name)
    path = place.files / "fairseq" / "model.pt"
    state = torch.load(path, weights_only=False)  # our own file, from the kit
    change(state["model"])
    torch.save(state, path)
    path = place.files / "huggingface" / "model.safetensors"
    weights = load_file(path)
    change(weights)
    save_file(weights, path, metadata={"format": "pt"})


def load(engine: Any, place: Place) -> Any:
    engine.kit = place.kit
    return engine.load(place.files / ("huggingface" if engine.name == HF else "fairseq"))


def accepted(engine: Any, place: Place) -> Verdict:
    load(engine, place)
    return wrong("accepted")


def random_start(engine: Any, place: Place) -> Verdict:
    """Without a weight: two loads that differ in it have it from the dice."""
    first, second = (engine.network(load(engine, place)).state_dict() for _ in range(2))
    differ = [name for name in first if not torch.equal(first[name], second[name])]
    return wrong("random weights in its place" if differ else "accepted")


def spoiled(row: int, name: str, change: Spoil, run: Any = accepted) -> Case:
    make = functools.partial(spoil, change)
    return Case(row, name, run, make=make, engines=LOADERS)


def remove(weights: Weights, *, layer: bool) -> None:
    gone = [n for n in weights if ".1." in n and "layer" in n] if layer else [dense(weights)]
    for name in gone:
        del weights[name]


def extra(weights: Weights, name: str) -> None:
    stem = dense(weights).rpartition(".")[0]
    weights[f"{stem}.{name}"] = torch.ones(3)


def halve_matrix(weights: Weights) -> None:
    weights[dense(weights)] = weights[dense(weights)][:8].clone()


def halve_vocabulary(weights: Weights) -> None:
    """Everything that has a row for each symbol, as of another vocabulary."""
    symbols = len(weights[table(weights)])
    for name, tensor in weights.items():
        if tensor.ndim and len(tensor) == symbols:
            weights[name] = tensor[: symbols // 2].clone()


def put(weights: Weights, value: float) -> None:
    weights[dense(weights)].view(-1)[0] = value


def add_heads(weights: Weights, *names: str, half: bool = False) -> None:
    """Heads of four classes; Hugging Face has none by name, and does not take part."""
    for name in names:
        stem, width = f"classification_heads.{name}", weights[table(weights)].size(1)
        weights[f"{stem}.dense.weight"] = torch.ones(width, width)
        if not half:
            weights[f"{stem}.dense.bias"] = torch.ones(width)
            weights[f"{stem}.out_proj.weight"] = torch.ones(4, width)
            weights[f"{stem}.out_proj.bias"] = torch.ones(4)


def with_heads(title: str, *names: str, **more: Any) -> Case:
    make = functools.partial(spoil, lambda weights: add_heads(weights, *names, **more))
    engines = LOADERS - {HF}
    return Case(28, f"heads: {title}", accepted, make=make, engines=engines)


# ---- row 24: the file itself ----


def flip(place: Place, byte: int) -> None:
    """Change one bit inside the embedding table, whose place in the file its own bytes tell."""
    for name in ("fairseq", "huggingface"):
        shutil.copytree(place.kit / name, place.files / name)
    tensor = load_file(place.kit / "huggingface" / "model.safetensors")
    needle = tensor[dense(tensor)].numpy().tobytes()
    for path in (
        place.files / "fairseq" / "model.pt",
        place.files / "huggingface" / "model.safetensors",
    ):
        content = bytearray(path.read_bytes())
        content[content.index(needle) + byte] ^= 0x40
        path.write_bytes(content)


def flipped_in_cache(engine: Any, place: Place) -> Verdict:
    """A bit of the downloaded file changes on the disk, its size does not.

    Then it is asked for again.
    """
    found = engine.download(place)
    path = found if found.is_file() else found / "model.pt"
    content = bytearray(path.resolve().read_bytes())
    content[len(content) // 2] ^= 1
    path.resolve().write_bytes(content)
    engine.download(place)
    return wrong("accepted")


# ---- row 30 ----


def halve(weights: Weights, dtype: torch.dtype) -> None:
    for name, tensor in weights.items():
        if tensor.is_floating_point():
            weights[name] = tensor.to(dtype)


def widened(engine: Any, place: Place) -> Verdict:
    """Loaded with the values of the file, in the precision that the engine chooses."""
    network = engine.network(load(engine, place))
    found = {str(value.dtype).removeprefix("torch.") for value in network.parameters()}
    stored = load_file(place.files / "huggingface" / "model.safetensors")
    state = network.state_dict()
    same = torch.equal(state[dense(state)].float(), stored[dense(stored)].float())
    return works(f"loads as {', '.join(found)}") if same else wrong("other values")


CASES = [
    Case(24, "an exponent bit", accepted, make=functools.partial(flip, byte=3), engines=LOADERS),
    Case(24, "in the cache, after the download", flipped_in_cache, serve=plan(good())),
    Case(
        24, "a bit of the fraction", accepted, make=functools.partial(flip, byte=1), engines=LOADERS
    ),
    spoiled(25, "one matrix", functools.partial(remove, layer=False), random_start),
    spoiled(25, "a layer", functools.partial(remove, layer=True), random_start),
    spoiled(26, "a tensor more in a layer", functools.partial(extra, name="adapter")),
    spoiled(27, "half the vocabulary", halve_vocabulary),
    spoiled(27, "half of a layer's matrix", halve_matrix),
    *(
        with_heads(repr(name), name)
        for name in ("a.b", "__init__", "", "../x", "a b", "__class__.__base__")
    ),
    with_heads("half a head", "half", half=True),
    with_heads("2000 heads", *(f"h{i}" for i in range(2000))),
    spoiled(29, "one NaN", functools.partial(put, value=float("nan"))),
    spoiled(29, "one infinity", functools.partial(put, value=float("inf"))),
    spoiled(30, "fp16", functools.partial(halve, dtype=torch.float16), widened),
    spoiled(30, "bf16", functools.partial(halve, dtype=torch.bfloat16), widened),
]

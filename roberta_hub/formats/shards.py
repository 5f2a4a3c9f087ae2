"""Reads all tensors of a Hugging Face directory, from one file or from the shards of an index."""

from __future__ import annotations

import os
from pathlib import Path

from torch import Tensor

from roberta_hub.checkpoint.converted import Neutral, through_copy
from roberta_hub.checkpoint.fetch.cache import cache_root
from roberta_hub.checkpoint.foreign import instead
from roberta_hub.checkpoint.safetensors import read_safetensors
from roberta_hub.checkpoint.tensors import Origin
from roberta_hub.checkpoint.untrusted.unpickle import is_mapped, load_pickle, tensors
from roberta_hub.errors import CheckpointError
from roberta_hub.files import listing, read_json

WHOLE = ("model.safetensors", "pytorch_model.bin")
"""Names of transformers' files of weights; the one without pickles comes first."""
CONFIGS = ("config.json", "bert_config.json")
"""Names of the file that says what the weights are; Google's and SpanBERT's archives have the
second."""
INDEXES = tuple(f"{name}.index.json" for name in WHOLE)
"""Names of the files that say in which shard each tensor lies."""


def config_file(directory: Path) -> Path:
    """Return the file that says what a directory's weights are; the first name where none is."""
    there = [name for name in CONFIGS if os.path.exists(directory / name)]
    return directory / (there or CONFIGS)[0]


def read_weights(directory: Path, file: Path | None = None, *, converted: bool) -> Neutral:
    """Read all tensors, under Hugging Face's names.

    Args:
        directory: where they lie.
        file: the one file that holds them; None: what lies there.
        converted: of a pickle, keep a safetensors copy in our cache and read that the next time.

    Raises:
        CheckpointError: there are none, or they cannot be read.
    """
    if file is not None:
        return _read_file(file, converted=converted)
    for whole, index in zip(WHOLE, INDEXES, strict=True):
        if os.path.exists(directory / whole):
            return _read_file(directory / whole, converted=converted)
        if os.path.exists(directory / index):
            return _read_shards(directory / index, converted=converted)
    raise CheckpointError(lacking(directory))


def lacking(directory: Path) -> str:
    """Say that a directory has no weights that are read, and what to fetch."""
    expected = ", ".join((*WHOLE, *INDEXES))
    found = f"{directory} has {config_file(directory).name} but no weights: none of {expected}, but"
    return f"{found} {instead(directory, os.listdir(directory)) or listing(directory)}"


def _read_file(path: Path, *, converted: bool) -> Neutral:
    if path.suffix != ".bin":
        # What lies in our cache is replaced and never rewritten, so it may stay mapped.
        origin: Origin = "our file" if cache_root() in path.parents else "file"
        return Neutral(read_safetensors(path), origin=origin)
    return through_copy(path, "bin", _read_bin) if converted else _read_bin(path)


def _read_shards(index: Path, *, converted: bool) -> Neutral:
    shards = read_json(index).get("weight_map")
    if not isinstance(shards, dict):
        raise CheckpointError(f"{index}: has no 'weight_map'")
    pickled = index.name == INDEXES[1]
    weights: dict[str, Tensor] = {}
    read: list[Neutral] = []
    for shard in sorted({str(name) for name in shards.values()}):
        if Path(shard).name != shard or len(shard) > 255:
            raise CheckpointError(f"{index}: shard {shard[:80]!r} is not a plain file name")
        if pickled != shard.endswith(".bin"):
            raise CheckpointError(
                f"{index}: shard {shard[:80]!r} is not a plain file name of the kind that "
                f"{index.name} names"
            )
        read.append(_read_file(index.parent / shard, converted=converted))
        weights |= read[-1].weights
    origins = {shard.origin for shard in read}
    # Where only some shards have a copy, none of them is treated as mapped.
    origin = origins.pop() if len(origins) == 1 else "memory"
    return Neutral(weights, origin=origin, finite=bool(read) and all(s.finite for s in read))


def _read_bin(path: Path) -> Neutral:
    loaded = tensors(load_pickle(path), str(path), path.stat().st_size)
    return Neutral(loaded, origin="file" if is_mapped(path) else "memory")

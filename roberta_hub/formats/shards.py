"""Reads all tensors of a Hugging Face directory, from one file or from the shards of an index."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from roberta_hub.checkpoint.converted import RawCheckpoint, through_copy
from roberta_hub.checkpoint.fetch.cache import cache_root
from roberta_hub.checkpoint.foreign import instead
from roberta_hub.checkpoint.safetensors import read_safetensors
from roberta_hub.checkpoint.tensors import TensorOrigin
from roberta_hub.checkpoint.untrusted.unpickle import is_mapped, load_pickle, tensors
from roberta_hub.errors import CheckpointError
from roberta_hub.folder import Folder

WHOLE = ("model.safetensors", "pytorch_model.bin")
"""Names of transformers' files of weights; the one without pickles comes first."""
ADAPTER_WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin")
"""Names of peft's file of an adapter's weights."""
CONFIGS = ("config.json", "bert_config.json")
"""Names of the file that says what the weights are; Google's and SpanBERT's archives have the
second."""
INDEXES = tuple(f"{name}.index.json" for name in WHOLE)
"""Index files, which map tensors to shards."""


def config_name(folder: Folder) -> str:
    """Return the name of what says what a folder's weights are; the first one where none is."""
    return next(filter(folder.has, CONFIGS), CONFIGS[0])


def weights_in(folder: Folder) -> str:
    """Return the name of the file of weights in a folder, or of the index of its shards."""
    for name in (name for pair in zip(WHOLE, INDEXES, strict=True) for name in pair):
        if folder.has(name):
            return name
    raise CheckpointError(
        f"{folder} has {config_name(folder)} but no weights: none of "
        f"{', '.join((*WHOLE, *INDEXES))}, but {instead(folder) or folder.listing()}"
    )


def read_weights(folder: Folder, file: Path, *, converted: bool) -> RawCheckpoint:
    """Read all tensors, under Hugging Face's names."""
    if file.name in INDEXES:
        return _read_shards(folder, file.name, converted=converted)
    return _read_file(file, converted=converted)


def _read_file(path: Path, *, converted: bool) -> RawCheckpoint:
    if path.suffix != ".bin":
        # Files of our cache are replaced and never rewritten, so they may stay mapped.
        origin: TensorOrigin = "our file" if cache_root() in path.parents else "file"
        return RawCheckpoint(read_safetensors(path), origin=origin)
    return through_copy(path, "bin", _read_bin) if converted else _read_bin(path)


def _read_shards(folder: Folder, name: str, *, converted: bool) -> RawCheckpoint:
    weights: dict[str, Tensor] = {}
    read: list[RawCheckpoint] = []
    for shard in shards_of(folder, name):
        read.append(_read_file(folder / shard, converted=converted))
        weights |= read[-1].weights
    origins = {shard.origin for shard in read}
    # Where only some shards have a copy, none of them is treated as mapped.
    origin = origins.pop() if len(origins) == 1 else "memory"
    return RawCheckpoint(weights, origin=origin, finite=bool(read) and all(s.finite for s in read))


def shards_of(folder: Folder, name: str) -> list[str]:
    """Return the names of the shards that an index lists."""
    index, shards = folder / name, folder.json(name).get("weight_map")
    if not isinstance(shards, dict):
        raise CheckpointError(f"{index}: has no 'weight_map'")
    names = sorted({str(name) for name in shards.values()})
    for shard in names:
        if Path(shard).name != shard or len(shard) > 255:
            raise CheckpointError(f"{index}: shard {shard[:80]!r} is not a plain file name")
        if (name == INDEXES[1]) != shard.endswith(".bin"):
            raise CheckpointError(
                f"{index}: shard {shard[:80]!r} is not a plain file name of the kind that "
                f"{index.name} names"
            )
    return names


def _read_bin(path: Path) -> RawCheckpoint:
    loaded = tensors(load_pickle(path), str(path), path.stat().st_size)
    return RawCheckpoint(loaded, origin="file" if is_mapped(path) else "memory")

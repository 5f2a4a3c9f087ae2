"""Makes each reader a function of bytes.

Whatever one of them raises that is no RobertaHubError is a bug.
"""

from __future__ import annotations

import functools
import gzip
import shutil
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from roberta_hub.checkpoint.converted import read_copy
from roberta_hub.checkpoint.fetch import archive as unpacking
from roberta_hub.checkpoint.fetch.cache import CHECKPOINT_FILE, DICTIONARY_FILES
from roberta_hub.checkpoint.safetensors import read_safetensors
from roberta_hub.errors import RobertaHubError
from roberta_hub.folder import Folder
from roberta_hub.formats.fairseq import interpret, read_fairseq
from roberta_hub.formats.huggingface import read_huggingface
from roberta_hub.formats.ours import is_ours, read_store, write_store
from roberta_hub.hub import build_model
from roberta_hub.text.dictionary import Dictionary

from . import seeds


@dataclass(frozen=True)
class Target:
    """One reader: how to feed it bytes with a folder to write in, and valid bytes to start from."""

    read: Callable[[bytes, Path], None]
    seeds: Callable[[], list[bytes]]
    tokens: tuple[str, ...]
    """Words of the format, for a fuzzer that would take long to spell them."""


def dictionary(data: bytes, folder: Path) -> None:
    Dictionary.parse(data, "dict.txt", add_mask=True).dumps()


def safetensors(data: bytes, folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(data)
    for tensor in read_safetensors(path).values():
        tensor.sum()  # touches every byte that the tensor claims


def archive(data: bytes, folder: Path) -> None:
    outside, inside = folder / "outside", folder / "outside" / "inside"
    shutil.rmtree(outside, ignore_errors=True)
    inside.mkdir(parents=True)
    path = folder / "a.tar.gz"
    path.write_bytes(data[1:] if data[:1] == b"z" else gzip.compress(data[1:], 0))
    limit = unpacking.MAX_ARCHIVE_BYTES
    try:
        # Time goes with the size that a header claims; tests/attacks has the true limit.
        unpacking.MAX_ARCHIVE_BYTES = 1 << 26
        unpacking.unpack(path, inside, "a.tar.gz")
    finally:
        unpacking.MAX_ARCHIVE_BYTES = limit
        for found in outside.rglob("*"):
            name = found.relative_to(inside).as_posix()  # ValueError: it lies outside
            if name not in (CHECKPOINT_FILE, *DICTIONARY_FILES) and found.is_file():
                raise ValueError(f"a file that nobody asked for: {name}")


def checkpoint(data: bytes, folder: Path) -> None:
    path = folder / "model.pt"
    path.write_bytes(data[1:] if data[:1] == b"f" else seeds.around_pickle(data[1:]))
    build_model(read_fairseq(path))


@functools.cache
def _weights() -> tuple[bytes, bytes]:
    from roberta_hub.formats.huggingface import write_huggingface

    theirs = seeds.written(write_huggingface, {})
    return seeds.written(write_store)["model.safetensors"], theirs["model.safetensors"]


def config(data: bytes, folder: Path) -> None:
    (folder / "config.json").write_bytes(data)
    ours = is_ours(Folder(folder))
    (folder / "model.safetensors").write_bytes(_weights()[0 if ours else 1])
    build_model(read_store(Folder(folder)) if ours else read_huggingface(Folder(folder)))


def twin(data: bytes, folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(data)
    build_model(interpret(read_copy(path), str(path), {}))


TARGETS = {
    "dictionary": Target(
        dictionary, seeds.dictionaries, ("#fairseq:overwrite", "<mask>", "<s>", "\r\n", "\u2028")
    ),
    "safetensors": Target(
        safetensors,
        seeds.safetensors,
        ("F32", "I64", "F8_E4M3", "F4", "C64", "BOOL", "__metadata__", "data_offsets", "shape"),
    ),
    "archive": Target(
        archive, seeds.archives, ("ustar", "GNU.sparse.map", "path=", "size=", "../", "model.pt")
    ),
    "checkpoint": Target(
        checkpoint,
        seeds.checkpoints,
        (
            "cargparse\nNamespace\n",
            "ccollections\nOrderedDict\n",
            "ctorch\nFloatStorage\n",
            "ctorch._utils\n_rebuild_tensor_v2\n",
            "c_codecs\nencode\n",
            "ctorch\nSize\n",
            "comegaconf.dictconfig\nDictConfig\n",
            "ctorch._utils\n_rebuild_parameter\n",
            "args",
            "cfg",
            "model",
            "storage",
            "_content",
            "roberta_hub_labels",
            "arch",
        ),
    ),
    "twin": Target(
        twin,
        seeds.twins,
        ("F16", "F32", "__metadata__", "about", "shared", "data_offsets", "encoder_layers_to_keep"),
    ),
    "config": Target(
        config,
        seeds.configs,
        ("NaN", "Infinity", "1e308", "null", "true", "-1", "id2label", "num_unique_layers"),
    ),
}


def survive(target: Target, data: bytes, folder: Path) -> bool:
    """Read once; whether the reader accepted. Anything but a RobertaHubError goes up."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            target.read(data, folder)
    except RobertaHubError:
        return False
    return True

"""Lists readers by name: ours, and naive ones as they are found in the wild.

They run in forks of `helper.py` only, under limits.
"""

from __future__ import annotations

import argparse
import json
import pickle
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from roberta_hub import load_model


def ours(path: Path) -> None:
    load_model(path)


def torch_load(path: Path) -> None:
    torch.load(path, weights_only=False, map_location="cpu")


def torch_load_weights_only(path: Path) -> None:
    """What is thought to be safe; `repr` is what any notebook does next."""

    with torch.serialization.safe_globals([argparse.Namespace]):
        mapped = zipfile.is_zipfile(path)
        repr(torch.load(path, weights_only=True, map_location="cpu", mmap=mapped))


def pickle_load(path: Path) -> None:
    with open(path, "rb") as file:
        pickle.load(file)


def extractall(path: Path) -> None:
    (path.parent / "unpacked").mkdir()
    with tarfile.open(path) as tar:
        tar.extractall(path.parent / "unpacked", filter="fully_trusted")


def extractall_data(path: Path) -> None:
    """With the filter that Python's documentation recommends."""
    with tarfile.open(path) as tar:
        tar.extractall(path.parent / "unpacked", filter="data")


def list_stream(path: Path) -> None:
    """Reads front to back, as whatever unpacks while it downloads."""
    with tarfile.open(path, "r|gz") as tar:
        for _ in tar:
            pass


def unzip(path: Path) -> None:
    """Reads every record into memory, as a converter would."""
    with zipfile.ZipFile(path) as archive:
        {name: archive.read(name) for name in archive.namelist()}


def safetensors_header(path: Path) -> None:
    """The twenty-line reader of many a blog: believes the header, copies what it says."""
    path = path / "model.safetensors" if path.is_dir() else path
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
        for name, entry in header.items():
            if name != "__metadata__":
                torch.empty(entry["shape"]).fill_(0)
                first, last = entry["data_offsets"]
                file.seek(8 + length + first)
                torch.frombuffer(bytearray(file.read(last - first)), dtype=torch.float32)


def split_lines(path: Path) -> None:
    """A dictionary in three lines."""
    data = (path / "dict.txt").read_text(encoding="utf-8")
    symbols = [line.rsplit(" ", 1)[0] for line in data.splitlines()]
    {symbol: number for number, symbol in enumerate(symbols)}


def build_from_json(path: Path) -> None:
    """Builds what a config.json says, under Hugging Face's names or ours."""
    config = json.loads((path / "config.json").read_text(encoding="utf-8"))
    sizes: dict[str, Any] = config.get("model", config)
    width = sizes.get("hidden_size", sizes.get("embed_dim"))
    rows = sizes.get("max_position_embeddings", sizes.get("max_positions"))
    torch.zeros(sizes["vocab_size"], width)
    torch.zeros(rows, width)
    layers = range(sizes.get("num_hidden_layers", sizes.get("num_layers")))
    torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in layers)


def read_index(path: Path) -> None:
    """Opens every shard that the index names."""
    index = json.loads((path / "model.safetensors.index.json").read_text(encoding="utf-8"))
    for name in set(index["weight_map"].values()):
        (path / name).read_bytes()


def merge_all(path: Path) -> None:
    """Applies each merge of merges.txt to its own token, as every BPE trainer's check does."""
    lines = (path / "merges.txt").read_text(encoding="utf-8").splitlines()[1:]
    ranks = {line.replace(" ", ""): rank for rank, line in enumerate(lines)}
    for token in ranks:
        parts = list(token)
        while len(parts) > 1:
            pairs = [ranks.get(a + b, len(ranks)) for a, b in zip(parts, parts[1:], strict=False)]
            at = pairs.index(min(pairs))
            parts[at : at + 2] = [parts[at] + parts[at + 1]]


READERS: dict[str, Callable[[Path], None]] = {
    reader.__name__: reader
    for reader in (
        ours,
        torch_load,
        torch_load_weights_only,
        pickle_load,
        extractall,
        extractall_data,
        list_stream,
        unzip,
        safetensors_header,
        split_lines,
        build_from_json,
        read_index,
        merge_all,
    )
}

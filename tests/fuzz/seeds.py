"""Makes small valid files of every kind that we read, for mutation to begin with."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import tempfile
import zipfile
from argparse import Namespace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from roberta_hub import RobertaConfig, RobertaModel
from roberta_hub.checkpoint.checkpoint import LM_WEIGHT, Checkpoint
from roberta_hub.checkpoint.converted import write_copy
from roberta_hub.formats.fairseq import fairseq_state, raw_checkpoint
from roberta_hub.formats.huggingface import write_huggingface
from roberta_hub.formats.ours import write_store
from roberta_hub.text.dictionary import Dictionary

SMALL = RobertaConfig(
    vocab_size=8, embed_dim=4, ffn_dim=4, num_layers=1, num_heads=2, max_positions=4
)
"""The smallest model with every kind of parameter: a file of it is a few kilobytes."""


def checkpoint() -> Checkpoint:
    torch.manual_seed(0)
    model = RobertaModel(SMALL)
    model.register_classification_head("mnli", 3)
    weights: dict[str, Tensor] = dict(model.state_dict())
    weights.pop(LM_WEIGHT, None)
    return Checkpoint(
        config=SMALL, weights=weights, source="seed", labels={"mnli": ("no", "perhaps", "yes")}
    )


def written(write: Any, *arguments: Any) -> dict[str, bytes]:
    """The files that a writer leaves in a directory."""
    with tempfile.TemporaryDirectory() as folder:
        write(checkpoint(), Path(folder), *arguments)
        return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def saved(value: object, *, legacy: bool = False) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer, _use_new_zipfile_serialization=not legacy)
    return buffer.getvalue()


def states() -> list[object]:
    """What fairseq's files hold: a Namespace of 2019, a plain configuration, older names.

    The older names are of an older era.
    """
    state = fairseq_state(checkpoint())
    arguments = Namespace(
        arch="roberta_base", encoder_attention_heads=2, dropout=0.1, activation_fn="gelu"
    )
    old = {name.replace("encoder.", "decoder.", 1): t for name, t in state["model"].items()}
    return [
        state,
        {"args": arguments, "model": state["model"], "extra_state": {"epoch": 3}},
        {"args": arguments, "model": old},
    ]


def pickle_in(file: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(file)) as archive:
        return next(archive.read(n) for n in archive.namelist() if n.endswith("data.pkl"))


def around_pickle(data: bytes) -> bytes:
    """A zip checkpoint of sound records whose pickle is `data`.

    zip has checksums, and would hide `data` otherwise.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a/data.pkl", data)
        archive.writestr("a/byteorder", b"little")
        for key in range(40):
            archive.writestr(f"a/data/{key}", bytes(256))
        archive.writestr("a/version", b"3\n")
    return buffer.getvalue()


def tar(*, kind: int = tarfile.PAX_FORMAT, top: str = "toy/") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=kind) as archive:
        for name, content in (
            ("dict.txt", b"the 10\n"),
            ("x" * 60 + "/" + "y" * 90, b""),
            ("model.pt", b"PK weights"),
        ):
            member = tarfile.TarInfo(top + name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def dictionaries() -> list[bytes]:
    flagged = b"a 3\nb 2\na 1 #fairseq:overwrite\n"
    plain = Dictionary.roberta().dumps()[:300].rsplit(b"\n", 1)[0] + b"\n"
    return [plain, flagged, "é 1\r\n\u2028x -4\r\n".encode(), b"<mask> 1_0\nmadeupword0000 0"]


def safetensors() -> list[bytes]:
    from safetensors.torch import save

    small = {"a": torch.ones(2, 3), "b": torch.zeros(0, 4), "c": torch.arange(3)}
    return [
        save(small, {"format": "pt"}),
        save({"x": torch.ones(1, dtype=torch.float16)}),
        save({}),
    ]


def archives() -> list[bytes]:
    """The first byte tells the harness what follows: "z" gzip, "t" a tar, which it packs."""
    kinds = (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT)
    return [b"z" + gzip.compress(tar(), mtime=0)] + [
        b"t" + tar(kind=kind, top=top) for kind in kinds for top in ("toy/", "")
    ]


def checkpoints() -> list[bytes]:
    """Files of torch.save, and pickles that the harness puts into a sound zip.

    The first byte tells them apart: "f" a file, "p" a pickle.
    """
    zips = [saved(state) for state in states()]
    files = [zips[1], *(saved(state, legacy=True) for state in states()[1:])]
    return [b"f" + file for file in files] + [b"p" + pickle_in(file) for file in zips]


def twins() -> list[bytes]:
    """What the cache keeps of two of the pickles."""
    found = []
    for state in states()[:2]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "twin.safetensors"
            write_copy(path, raw_checkpoint(state, "seed"), Path("seed"))
            found.append(path.read_bytes())
    return found


def configs() -> list[bytes]:
    ours = written(write_store)["config.json"]
    theirs = written(write_huggingface, {})["config.json"]
    compact = [json.dumps(json.loads(text)).encode() for text in (ours, theirs)]
    return [ours, theirs, *compact]

"""Makes sound files to spoil, and the pieces of hostile ones."""

from __future__ import annotations

import functools
import io
import struct
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

from fuzz import seeds

from roberta_hub.formats.huggingface import write_huggingface
from roberta_hub.formats.ours import write_store

Make = Callable[[Path], Path]
DICTIONARY = b"a 3\nb 2\nc 1\n"
"""Fits the model of `seeds`: 8 symbols with the specials and `<mask>`."""


def model_pt(content: bytes, dictionary: bytes = DICTIONARY) -> Make:
    """A fairseq directory with this model.pt."""

    def make(folder: Path) -> Path:
        (folder / "dict.txt").write_bytes(dictionary)
        (folder / "model.pt").write_bytes(content)
        return folder / "model.pt"

    return make


@functools.cache
def sound_state() -> bytes:
    """The pickle of a sound checkpoint, which ends with SETITEMS on the outer dict and STOP."""
    return seeds.pickle_in(seeds.saved({"model": seeds.states()[0]["model"]}))  # type: ignore[index]


@functools.cache
def ours_files() -> dict[str, bytes]:
    return {**seeds.written(write_store), "dict.txt": DICTIONARY}


@functools.cache
def huggingface_files() -> dict[str, bytes]:
    return seeds.written(write_huggingface, {})


def directory(files: dict[str, bytes], **changed: bytes) -> Make:
    """A directory of these files, some replaced; `config__json` stands for config.json."""

    def make(folder: Path) -> Path:
        home = folder / "model"
        home.mkdir()
        for name, content in {
            **files,
            **{k.replace("__", "."): v for k, v in changed.items()},
        }.items():
            (home / name).write_bytes(content)
        return home

    return make


# ---- pickles, by hand ----

PROTO = b"\x80\x02"


def text(value: str) -> bytes:
    data = value.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def put(index: int) -> bytes:
    return b"r" + struct.pack("<I", index)


def get(index: int) -> bytes:
    return b"j" + struct.pack("<I", index)


def laughs(levels: int, pair: bytes = b"\x86") -> bytes:
    """A tuple of twice the tuple before, `levels` times: 2^levels values in a few hundred bytes."""
    steps = (get(i) + get(i) + pair + put(i + 1) for i in range(levels))
    return b"N" + put(0) + b"".join(steps)


def list_laughs(levels: int) -> bytes:
    steps = (b"]" + get(i) + b"a" + get(i) + b"a" + put(i + 1) for i in range(levels))
    return b"]" + put(0) + b"".join(steps)


def in_zip(pickled: bytes) -> bytes:
    return seeds.around_pickle(pickled)


def legacy(*pickles: bytes) -> bytes:
    """A file of before 2020: magic number, then protocol, system, object and keys."""
    magic = 0x1950A86A20F9469CFC6C.to_bytes(10, "little")
    return PROTO + b"\x8a\x0a" + magic + b"." + b"".join(pickles)


PROTOCOL, SYSTEM = PROTO + b"M\xe9\x03.", PROTO + b"}."


def with_entry(key: str, value: bytes, before: bytes = b"") -> bytes:
    """A sound checkpoint with one more entry beside the model."""
    body = sound_state()
    more = (text("junk") + before + b"s" if before else b"") + text(key) + value + b"s"
    return in_zip(body[:-1] + more + b".")


def records(*entries: tuple[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w", method) as archive:
        warnings.simplefilter("ignore")  # the same name twice
        for name, content in entries:
            archive.writestr(name, content)
    return buffer.getvalue()

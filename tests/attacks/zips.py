"""The container of a checkpoint: zip files that two readers understand differently, and bombs.

Rows 19 to 24.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import torch
from fuzz import seeds

from .bench import Attack
from .material import PROTO, Make, in_zip, model_pt, records, sound_state, text

DAMAGED = "damaged|refused"
BENIGN = PROTO + b"}" + text("model") + b"}s."
DEEP = PROTO + b"N" + b"\x85" * 250_000 + b"r\0\0\0\0}j\0\0\0\0Ns."
"""Ends the process that hashes it, weights_only or not."""
REST = (("a/byteorder", b"little"), ("a/data/0", bytes(64)), ("a/version", b"3\n"))

Records = tuple[tuple[str, bytes], ...]


def _part(entries: Records, start: int) -> tuple[bytes, bytes]:
    """Records as they lie in a zip file from `start` on, and their directory."""
    body = directory = b""
    for name, content in entries:
        about = struct.pack("<IIIHH", zlib.crc32(content), *[len(content)] * 2, len(name), 0)
        local = struct.pack("<IHHHHH", 0x04034B50, 20, 0, 0, 0, 0) + about
        directory += struct.pack("<IHHHHHH", 0x02014B50, 20, 20, 0, 0, 0, 0) + about
        directory += struct.pack("<HHHII", 0, 0, 0, 0, start + len(body)) + name.encode()
        body += local + name.encode() + content
    return body, directory


def _end64(count: int, directory: bytes, at: int) -> bytes:
    return struct.pack(
        "<IQHHIIQQQQ", 0x06064B50, 44, 45, 45, 0, 0, count, count, len(directory), at
    )


def two_directories(shown: Records, run: Records) -> bytes:
    """A zip file with two directories.

    zipfile looks for the directory right before the end, torch where the zip64 locator points.
    """
    body, directory = _part(run, 0)
    hidden = body + directory + _end64(len(run), directory, len(body))
    visible, listed = _part(shown, len(hidden))
    out = hidden + visible + listed + _end64(len(shown), listed, len(hidden) + len(visible))
    out += struct.pack("<IIQI", 0x07064B50, 0, len(body) + len(directory), 1)
    return out + struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 65535, 65535, *[2**32 - 1] * 2, 0)


def shifted_directory(shown: Records, run: Records) -> bytes:
    """The same without zip64: torch goes where the end points, zipfile to what lies before the end.

    zipfile takes the distance between both for something put before the archive, and adds it to
    every offset.
    """
    body, directory = _part(run, 0)
    visible, _ = _part(shown, 0)
    _, listed = _part(shown, len(body) - len(visible))
    assert len(listed) == len(directory), "the same names, or the end would fit one of them only"
    counts = (len(shown), len(shown), len(listed), len(body), 0)
    end = b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, *counts)
    return body + directory + visible + listed + end


def hostile(
    name: str, content: bytes, reason: str, naive: str = "", harm: str = "", row: int = 23
) -> Attack:
    return Attack(name, row, model_pt(content), reason, naive, harm)


def repeated_matrix(folder: Path) -> Path:
    """A tensor of one value that claims more bytes than its storage has left.

    From the last byte of its storage on, it claims as many bytes as the storage has. Who gives back
    the pages "of the tensor" gives back those of its neighbours in memory.
    """
    count = 1 << 20
    value = torch.ones(count).as_strided((count,), (0,), count - 1)
    sound: Any = seeds.states()[1]
    state = {**sound, "model": {**sound["model"], "hostile": value}}
    return model_pt(seeds.saved(state))(folder)


def bomb(folder: Path) -> Path:
    """A gigabyte of zeros behind a pickle, written a megabyte at a time."""
    path = model_pt(b"")(folder)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        with archive.open("a/data.pkl", "w", force_zip64=True) as record:
            record.write(BENIGN)
            for _ in range(1100):
                record.write(bytes(1 << 20))
        archive.writestr("a/version", b"3\n")
    return path


def spoiled(change: bytes, into: bytes) -> Make:
    """A file of torch.save with bytes replaced."""
    return lambda folder: model_pt(seeds.saved(seeds.states()[0]).replace(change, into))(folder)


SHOWN: Records = (("a/data.pkl", BENIGN), *REST)
RUN: Records = (("a/data.pkl", DEEP), *REST)

ATTACKS = [
    hostile(
        "two directories, zip64",
        two_directories(SHOWN, RUN),
        DAMAGED,
        "torch_load_weights_only",
        "dies",
        22,
    ),
    hostile(
        "two directories, shifted",
        shifted_directory(SHOWN, RUN),
        DAMAGED,
        "torch_load_weights_only",
        "dies",
        22,
    ),
    hostile(
        "the pickle's name in capitals",
        records(("a/DATA.PKL", DEEP), ("a/data.pkl.", b"."), *REST),
        DAMAGED,
        "torch_load_weights_only",
        "dies",
        22,
    ),
    hostile(
        "the pickle's name in capitals, and a benign one elsewhere",
        records(("a/DATA.PKL", DEEP), ("a/b/data.pkl", BENIGN), *REST),
        DAMAGED,
        "torch_load_weights_only",
        "dies",
        22,
    ),
    hostile(
        "the pickle's name twice, benign first",
        records(*SHOWN, ("a/data.pkl", DEEP)),
        "nests tuples",
        row=20,
    ),
    hostile(
        "the pickle's name twice, benign last",
        records(("a/data.pkl", DEEP), *SHOWN),
        "nests tuples",
        "torch_load_weights_only",
        "dies",
        20,
    ),
    hostile(
        "a second pickle elsewhere", records(*SHOWN, ("a/b/data.pkl", DEEP)), "nests tuples", row=20
    ),
    hostile(
        "records outside",
        records(("../data.pkl", BENIGN), ("../version", b"3\n"), ("../../../tmp/x", b"")),
        DAMAGED + "|no RoBERTa",
        row=17,
    ),
    hostile(
        "absolute records",
        records(("/data.pkl", BENIGN), ("/version", b"3\n")),
        DAMAGED + "|no RoBERTa",
        row=17,
    ),
    hostile("a record without a folder", records(("data.pkl", BENIGN)), DAMAGED),
    Attack(
        "a bomb of 1 GB as pickle",
        19,
        bomb,
        "it is a compressed zip",
        "unzip",
        "fills memory or hangs",
    ),
    hostile("a TorchScript program", records(*SHOWN, ("a/constants.pkl", BENIGN)), "TorchScript"),
    hostile("no pickle", records(*REST), "without a checkpoint"),
    hostile(
        "a directory only", b"PK\5\6" + bytes(18), "without a checkpoint|damaged|not at its end"
    ),
    hostile("a directory beyond the file", in_zip(BENIGN)[:-6] + b"\xff\xff\xff\x7f\0\0", DAMAGED),
    hostile("a comment of 64 kB, unfinished", in_zip(BENIGN)[:-2] + b"\xff\xff", DAMAGED),
    Attack(
        "a repeated matrix at the end of its storage",
        24,
        repeated_matrix,
        "no place in a RoBERTa|claims more",
    ),
    Attack("a checkpoint of another byte order", 24, spoiled(b"little", b"middle"), DAMAGED),
    Attack("version 999 of the format", 23, spoiled(b"PK\x05\x06", b"PK\x05\x07"), DAMAGED),
    hostile("cut in half", seeds.saved(seeds.states()[0])[:5000], DAMAGED, row=23),
    hostile(
        "a sound pickle, no storages",
        records(("a/data.pkl", sound_state()), ("a/version", b"3\n")),
        DAMAGED,
        row=25,
    ),
    hostile("zeros", bytes(10_000), "all zeros"),
    hostile(
        "a git-lfs pointer",
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
        "git-lfs",
    ),
    hostile("a web page", b"<!DOCTYPE html><html>", "a web page"),
    hostile("one byte", b"\x80", "damaged"),
]

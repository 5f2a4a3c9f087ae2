"""Archives that escape, bomb or lie: rows 17 to 20."""

from __future__ import annotations

import gzip
import io
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

from .bench import MARKER, Attack
from .material import DICTIONARY

Members = list[tuple[tarfile.TarInfo, bytes]]
BLOCK = 512


def regular(name: str, content: bytes = b"x") -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    return member, content


def special(name: str, kind: bytes, link: str = "") -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, link
    return member, b""


def model() -> Members:
    return [regular("toy/dict.txt", DICTIONARY), regular("toy/model.pt", b"weights")]


def tar(members: Members, kind: int = tarfile.PAX_FORMAT) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=kind) as archive:
        for member, content in members:
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def header(name: str, size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    member = tarfile.TarInfo(name)
    member.size, member.type = size, kind
    return member.tobuf(tarfile.GNU_FORMAT)


def zeros(count: int) -> bytes:
    """This many megabytes of zeros as gzip: a thousandth of that, made at once."""
    return gzip.compress(bytes(1 << 20), mtime=0) * count


Content = Callable[[Path], bytes]


def attack(
    name: str, row: int, content: Content, reason: str, naive: str = "", harm: str = ""
) -> Attack:
    """`content` is given the path of the marker and returns the whole .tar.gz."""

    def make(folder: Path) -> Path:
        path = folder / "model.tar.gz"
        path.write_bytes(content(folder.parent / MARKER))
        return path

    return Attack(
        name, row, make, rf"is refused, nothing of it was kept: .*({reason})", naive, harm
    )


def packed(members: Callable[[Path], Members]) -> Content:
    return lambda marker: gzip.compress(tar([*members(marker), *model()]), mtime=0)


def raw(*parts: bytes) -> Content:
    """Parts that are gzip already, end to end: gzip allows that."""
    return lambda marker: b"".join(parts)


def symlink_chain(marker: Path) -> Members:
    """In the manner of CVE-2025-4517: realpath gives up beyond PATH_MAX.

    The filter's check passes.
    """
    deep, members, path = "d" * 247, Members(), ""
    for step in "abcdefghijklmnop":
        members.append(special(f"{path}{deep}", tarfile.DIRTYPE))
        members.append(special(f"{path}{step}", tarfile.SYMTYPE, deep))
        path += f"{deep}/"
    link = "/".join("abcdefghijklmnop") + "/" + "l" * 254
    members.append(special(link, tarfile.SYMTYPE, "../" * 16))
    # Out of the folder that is unpacked to, and out of the one that holds the archive.
    members.append(special("escape", tarfile.SYMTYPE, f"{link}/../.."))
    return [*members, regular(f"escape/{MARKER}", b"gotcha")]


FIXED = {11: (3, 11, 13), 12: (3, 12, 11), 13: (3, 13, 4)}
CHAIN_WORKS = sys.version_info[:3] < FIXED.get(sys.version_info[1], (0,))
"""Whether this Python's `filter="data"` falls for the chain."""


def extended(text: bytes) -> bytes:
    """A pax header of this text, and a member that it is about."""
    body = text.ljust(-(-len(text) // BLOCK) * BLOCK, b"\0")
    return gzip.compress(header("x", len(text), tarfile.XHDTYPE) + body + tar(model()), mtime=0)


def two_sizes() -> bytes:
    """A global pax header whose size is no number.

    tarfile says 0 of the member, and seeks by the other size, 2**87.
    """
    pax = b"20 size=99999Y 9999\n"
    body = header("x", len(pax), tarfile.XGLTYPE) + pax.ljust(BLOCK, b"\0")
    return gzip.compress(body + header("toy/x", 2**87), mtime=0)


def gnu_sparse(size: int) -> bytes:
    """An old GNU sparse header whose extension block is missing or short."""
    block = bytearray(header("toy/model.pt", 7, tarfile.GNUTYPE_SPARSE))
    block[482] = 1
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % tarfile.calc_chksums(bytes(block))[0]
    return gzip.compress(bytes(block) + bytes(size), mtime=0)


def sparse() -> Members:
    member, content = regular("toy/big", b"1\n0\n1\n".ljust(512, b"\0") + b"z")
    member.pax_headers = {
        "GNU.sparse.major": "1",
        "GNU.sparse.minor": "0",
        "GNU.sparse.name": "toy/big",
        "GNU.sparse.realsize": "9" * 12,
    }
    return [(member, content)]


SOUND = gzip.compress(tar(model()), mtime=0)
CROWD = gzip.compress(header("toy/x", 0) * 1000, mtime=0) * 1000
PAX = header("x", 2 << 30, tarfile.XHDTYPE)
LONG = header("x", 2 << 30, tarfile.GNUTYPE_LONGNAME)
CHAINED = (header("x", 1, tarfile.GNUTYPE_LONGNAME) + b"y".ljust(BLOCK, b"\0")) * 1000
HALF = SOUND[: len(SOUND) // 2]
FLIPPED = SOUND[:40] + bytes([SOUND[40] ^ 16]) + SOUND[41:]
SHOWS_NO_FILE = "belong to no file"

ATTACKS = [
    attack(
        "a chain of symlinks, CVE-2025-4517",
        18,
        packed(symlink_chain),
        "is a link",
        "extractall_data" if CHAIN_WORKS else "",
        "escapes",
    ),
    attack(
        "a symlink out, and a file through it",
        17,
        packed(lambda m: [special("up", tarfile.SYMTYPE, "../.."), regular(f"up/{MARKER}")]),
        "is a link",
        "extractall",
        "escapes",
    ),
    attack(
        "an absolute symlink",
        17,
        packed(lambda m: [special("up", tarfile.SYMTYPE, str(m.parent)), regular(f"up/{MARKER}")]),
        "is a link",
        "extractall",
        "escapes",
    ),
    attack(
        "model.pt as a symlink",
        17,
        lambda m: gzip.compress(
            tar([*model()[:1], special("toy/model.pt", tarfile.SYMTYPE, "/etc/passwd")])
        ),
        "is a link",
    ),
    attack(
        "a hard link",
        17,
        packed(lambda m: [special("toy/x", tarfile.LNKTYPE, "/etc/passwd")]),
        "is a link",
    ),
    attack(
        "a character device", 17, packed(lambda m: [special("toy/x", tarfile.CHRTYPE)]), "a device"
    ),
    attack("a block device", 17, packed(lambda m: [special("toy/x", tarfile.BLKTYPE)]), "a device"),
    attack(
        "model.pt as a fifo",
        17,
        lambda m: gzip.compress(tar([*model()[:1], special("toy/model.pt", tarfile.FIFOTYPE)])),
        "special",
        "extractall",
        "accepts",
    ),
    attack("a type of no meaning", 17, packed(lambda m: [special("toy/x", b"Z")]), "special"),
    attack(
        "..",
        17,
        packed(lambda m: [regular(f"../../{MARKER}")]),
        "points outside",
        "extractall",
        "escapes",
    ),
    attack(
        ".. within",
        17,
        packed(lambda m: [special("toy", tarfile.DIRTYPE), regular(f"toy/../../../{MARKER}")]),
        "points outside",
        "extractall",
        "escapes",
    ),
    attack(
        "an absolute path",
        17,
        packed(lambda m: [regular(str(m))]),
        "points outside",
        "extractall",
        "escapes",
    ),
    attack(
        "a path from a pax header",
        17,
        lambda m: extended(b"24 path=../../../marker\n"),
        "points outside",
    ),
    attack("sparse by pax", 19, packed(lambda m: sparse()), "special"),
    attack("sparse by GNU, its map cut short", 19, raw(gnu_sparse(0)), "", "extractall", "crashes"),
    attack("sparse by GNU, its map in part", 19, raw(gnu_sparse(89)), "", "extractall", "crashes"),
    attack(
        "a second model.pt",
        20,
        packed(lambda m: [regular("toy/model.pt", b"other")]),
        "second model.pt",
        "extractall",
        "accepts",
    ),
    attack(
        "a second model.pt, spelled otherwise",
        20,
        packed(lambda m: [regular("./toy//model.pt", b"other")]),
        "second model.pt",
        "extractall",
        "accepts",
    ),
    attack("a million members", 19, raw(CROWD), "more than 1,000 members", "extractall", "hangs"),
    attack(
        "a pax header of 2 GB",
        19,
        raw(gzip.compress(PAX), zeros(2100)),
        SHOWS_NO_FILE,
        "extractall",
        "fills memory or hangs",
    ),
    attack(
        "a long name of 2 GB",
        19,
        raw(gzip.compress(LONG), zeros(2100)),
        SHOWS_NO_FILE,
        "extractall",
        "fills memory or hangs",
    ),
    attack(
        "2 GB after the last file",
        19,
        raw(SOUND, zeros(2100)),
        SHOWS_NO_FILE,
        "extractall",
        "accepts",
    ),
    attack(
        "a file of 25 GB",
        19,
        raw(gzip.compress(header("toy/x", 25 << 30)), zeros(100)),
        "unpacks to more",
    ),
    attack(
        "a file of 16 GB, claimed in 200 bytes",
        19,
        raw(gzip.compress(header("toy/x", 15 << 30))),
        "ends",
    ),
    attack(
        "model.pt of 1 GB, claimed in 200 bytes",
        19,
        raw(gzip.compress(header("toy/model.pt", 1 << 30))),
        "ends|end of data",
    ),
    attack("a size of 2**87", 19, raw(gzip.compress(header("toy/x", 2**87))), "unpacks to more|"),
    attack(
        "a negative size, as CVE-2025-8194",
        19,
        raw(gzip.compress(header("toy/x", -1024) + tar(model()))),
        "",
    ),
    attack("a pax size below zero", 19, raw(extended(b"12 size=-99\n")), ""),
    attack(
        "two sizes, 0 and 2**87", 19, raw(two_sizes()), "ends in the middle", "list_stream", "hangs"
    ),
    attack(
        "a pax record of 10**500 bytes",
        19,
        raw(extended(b"9" * 500 + b" path=x\n")),
        "",
        "extractall",
        "crashes",
    ),
    attack("a pax record of no bytes", 19, raw(extended(b"0 path=x\n")), ""),
    attack(
        "a thousand headers about headers",
        19,
        raw(gzip.compress(CHAINED + tar(model()))),
        "recursion",
        "extractall",
        "crashes",
    ),
    attack("cut in half", 17, raw(HALF), ""),
    attack("8 bytes too few", 17, raw(SOUND[:-8]), "", "extractall", "accepts"),
    attack("a bit flipped", 17, raw(FLIPPED), ""),
    attack("the checksum wrong", 17, raw(SOUND[:-8] + bytes(8)), "CRC", "extractall", "accepts"),
    attack("junk behind it", 17, raw(SOUND + b"junk"), "", "extractall", "accepts"),
    attack("nothing in it", 17, raw(gzip.compress(tar([]))), "no model.pt"),
    attack("no dictionary", 17, lambda m: gzip.compress(tar(model()[1:])), "no dict.txt"),
]

"""Changes a valid file, and keeps enough of its structure to get past the first check.

Flipped bytes alone end at a checksum, a length or a bracket; these mutators know where the values
are.
"""

from __future__ import annotations

import copy
import json
import pickletools
import random
import tarfile
from collections.abc import Callable, Sequence
from typing import Any

VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    1,
    -1,
    2,
    1000,
    2**31,
    2**63,
    2**64,
    -(2**63),
    10**400,
    0.5,
    1e308,
    float("nan"),
    float("inf"),
    -0.0,
    "",
    "a",
    "\0",
    "\ud800",
    "..",
    "x" * 1000,
    [],
    {},
    [[]],
    [0],
    [1, 2],
    [10**9, 0],
    {"0": "a"},
    [None],
    "F32",
    "BOOL",
    "F8_E4M3",
    "gelu",
    "1e9",
)
"""What a field may hold against all expectation."""
SNIPPETS: tuple[bytes, ...] = (
    b"N",
    b"}",
    b"]",
    b")",
    b"(",
    b"t",
    b"0",
    b"\x85",
    b"\x86",
    b"\x87",
    b"R",
    b"b",
    b"\x81",
    b"K\x01",
    b"M\xff\xff",
    b"J\xff\xff\xff\xff",
    b"\x8a\x08" + b"\xff" * 7 + b"\x7f",
    b"Q",
    b"\x8a\xff" + b"\x7f" * 255,
    b"G\x7f\xf0" + bytes(6),
    b"X\x01\x00\x00\x00a",
    b"h\x00",
    b"s",
    b"u",
    b"a",
    b"e",
    b"\x88",
    b"\x8f",
    b"cargparse\nNamespace\n",
    b"ctorch\nSize\n",
    b"c_codecs\nencode\n",
    b"ctorch\nFloatStorage\n",
    b"comegaconf.dictconfig\nDictConfig\n",
)
"""Pickle operations, each complete."""


def flip(data: bytes, rng: random.Random) -> bytes:
    """Bytes changed, cut out, doubled, at a few places."""
    out = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(out) + 1)
        length = rng.choice((1, 1, 2, 8, 64))
        kind = rng.randrange(4)
        if kind == 0 and at < len(out):
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del out[at : at + length]
        elif kind == 2:
            out[at:at] = out[at : at + length]
        else:
            out[at : at + length] = rng.randbytes(min(length, len(out) - at))
    return bytes(out)


def _spots(value: Any) -> list[tuple[Any, Any]]:
    """(container, key) of every value in a JSON tree."""
    found: list[tuple[Any, Any]] = []
    todo = [value]
    while todo:
        box = todo.pop()
        if not isinstance(box, (dict, list)):
            continue
        for key in list(box) if isinstance(box, dict) else range(len(box)):
            found.append((box, key))
            todo.append(box[key])
    return found


def change_json(data: bytes, rng: random.Random) -> bytes:
    """A value replaced, nested, removed or moved to another name."""
    tree = json.loads(data)
    for _ in range(rng.randint(1, 3)):
        spots = _spots(tree)
        if not spots:
            break
        box, key = rng.choice(spots)
        kind = rng.randrange(6)
        if kind == 0:
            del box[key]
        elif kind == 1:
            other, name = rng.choice(spots)
            box[key] = copy.deepcopy(other[name]) if name in other else 0
        elif kind == 2 and isinstance(box, dict):
            box[rng.choice(("", "a", "\ud800", "__metadata__", "x" * 200, str(key) * 2))] = (
                copy.deepcopy(box[key])
            )
        elif kind == 3:
            box[key] = rng.choice(([box[key]], {"a": box[key]}, str(box[key])))
        else:
            box[key] = copy.deepcopy(rng.choice(VALUES))
    return json.dumps(tree, ensure_ascii=rng.random() < 0.9).encode(errors="surrogatepass")


def change_header(data: bytes, rng: random.Random) -> bytes:
    """The header of a safetensors file changed as JSON, its length kept true."""
    length = int.from_bytes(data[:8], "little")
    return _with_header(change_json(data[8 : 8 + length], rng), data[8 + length :])


def change_about(data: bytes, rng: random.Random) -> bytes:
    """The JSON that a twin keeps as strings inside its header's JSON changed in the same way."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    words = header["__metadata__"]
    name = rng.choice(("about", "about", "about", "shared"))
    words[name] = change_json(words[name].encode(), rng).decode(errors="replace")
    return _with_header(json.dumps(header).encode(), data[8 + length :])


def _with_header(header: bytes, data: bytes) -> bytes:
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + data


def change_pickle(data: bytes, rng: random.Random) -> bytes:
    """Whole operations removed, doubled, swapped or put in; the names and strings stay whole."""
    if data[:1] != b"p":
        return flip(data, rng)
    body = data[1:]
    ends = [position for _, _, position in pickletools.genops(body)] + [len(body)]
    ops = [body[a:b] for a, b in zip(ends, ends[1:], strict=False)]
    for _ in range(rng.randint(1, 4)):
        at, other = rng.randrange(len(ops)), rng.randrange(len(ops))
        kind = rng.randrange(5)
        if kind == 0:
            del ops[at : at + rng.choice((1, 1, 4))]
        elif kind == 1:
            ops[at:at] = ops[other : other + rng.choice((1, 3, 12))]
        elif kind == 2:
            ops[at], ops[other] = ops[other], ops[at]
        elif kind == 3:
            ops[at] = rng.choice(SNIPPETS)
        else:
            ops.insert(at, rng.choice(SNIPPETS))
        if not ops:
            return b"p"
    return b"p" + b"".join(ops)


def change_tar(data: bytes, rng: random.Random) -> bytes:
    """A field of a header changed, and the header's checksum made right again."""
    if data[:1] != b"t":
        return flip(data, rng)
    out = bytearray(data[1:])
    headers = [at for at in range(0, len(out) - 511, 512) if out[at + 257 : at + 262] == b"ustar"]
    if not headers:
        return flip(data, rng)
    at = rng.choice(headers)
    start, size = rng.choice(
        (
            (0, 100),
            (100, 8),
            (124, 12),
            (124, 12),
            (136, 12),
            (156, 1),
            (156, 1),
            (157, 100),
            (345, 155),
        )
    )
    words = (
        b"../model.pt",
        b"/etc/x",
        b"model.pt",
        b"00000000001\0",
        b"77777777777\0",
        b"\x80" + b"\xff" * 11,
        b"\xff" * 12,
        b"0",
        b"1",
        b"2",
        b"3",
        b"5",
        b"6",
        b"7",
        b"L",
        b"K",
        b"S",
        b"x",
        b"g",
        b"-0000000001\0",
        b"",
    )
    out[at + start : at + start + size] = rng.choice(words)[:size].ljust(size, b"\0")
    if rng.random() < 0.3 and at + 1024 <= len(out):  # what an extended header says
        text = rng.choice(
            (
                b"18 path=../model.pt\n",
                b"12 size=-99\n",
                b"22 GNU.sparse.major=1\n",
                b"9" * 500,
                b"20 size=99999999999\n",
            )
        )
        out[at + 512 : at + 512 + len(text)] = text
    out[at + 148 : at + 156] = b" " * 8
    checksum = tarfile.calc_chksums(bytes(out[at : at + 512]))[0]
    out[at + 148 : at + 156] = b"%06o\0 " % checksum
    return b"t" + bytes(out)


MUTATORS: dict[str, Sequence[Callable[[bytes, random.Random], bytes]]] = {
    "dictionary": (flip,),
    "safetensors": (flip, change_header, change_header),
    "archive": (flip, change_tar, change_tar),
    "checkpoint": (flip, change_pickle, change_pickle),
    "config": (flip, change_json, change_json),
    "twin": (flip, change_header, change_about),
}


def mutated(name: str, data: bytes, rng: random.Random) -> bytes:
    """Change an input of a target; what has no structure any more is only flipped."""
    mutator = rng.choice(MUTATORS[name])
    try:
        return mutator(data, rng)
    except (ValueError, RecursionError, AttributeError, TypeError, KeyError, IndexError):
        return flip(data, rng)

"""Checks SentencePiece's character map, which says what characters are read as.

The map is a trie in a double array (Aoe 1989, as Darts-clone lays it out), followed by the strings
that its keys are replaced with. A library walks it without looking: a false trie leads outside it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from roberta_hub.errors import VocabularyError

MAX_MAP = 4 << 20
"""Bytes of a map; SentencePiece's largest has 0.4 million."""
MAX_KEY = 64
"""Bytes of the longest key; the largest real one has 18."""
MAX_NESTED = 32
"""Keys that begin one another: what the library has room for at a place in a text."""
MAX_STRING = 512
"""Bytes that a key may become; U+FDFA becomes 33."""
_LEAF = 1 << 31
"""Marks a unit that holds a value, which no byte can lead through."""


def check_character_map(blob: bytes) -> None:
    """Refuse a `precompiled_charsmap` that a library could not walk safely; empty: no map.

    Its trie must stay within itself and the strings, its keys must end, and its strings be UTF-8.

    Example:
        >>> check_character_map(b"")
    """
    if not blob:
        return
    if len(blob) > MAX_MAP:
        raise _false(f"it has {len(blob):,} bytes, the limit is {MAX_MAP:,}")
    size = int.from_bytes(blob[:4], "little")
    if size == 0 or size % 1024 or 4 + size >= len(blob):
        raise _false(f"it says that its trie has {size:,} bytes, and has {len(blob):,} itself")
    strings = blob[4 + size :]
    _check_strings(strings)
    units = torch.frombuffer(bytearray(blob[4 : 4 + size]), dtype=torch.int32)
    _check_trie(units.long() & 0xFFFFFFFF, torch.frombuffer(bytearray(strings), dtype=torch.uint8))


def _false(reason: str) -> VocabularyError:
    return VocabularyError(
        f"the character map (precompiled_charsmap) is damaged or false: {reason}; get the file "
        "from its source again"
    )


def _check_strings(strings: bytes) -> None:
    try:
        strings.decode()
    except UnicodeDecodeError as error:
        raise _false(f"its strings are not UTF-8 at byte {error.start}") from None
    if not strings.endswith(b"\0"):
        raise _false("its last string has no end")
    longest = max(map(len, strings.split(b"\0")))
    if longest > MAX_STRING:
        raise _false(f"it has a string of {longest:,} bytes, the limit is {MAX_STRING}")


def _check_trie(units: Tensor, strings: Tensor) -> None:
    """Follow every path from the root.

    Args:
        units: 32 bits each, in blocks of 256. Shape: (N,)
        strings: the bytes after the trie. Shape: (M,)
    """
    place = torch.arange(len(units))
    inner = units < _LEAF
    if not inner[0]:
        raise _false("the root of its trie is a leaf")
    # A unit's children and its value are at `base ^ byte`: in one block of 256.
    base = place ^ ((units >> 10) << ((units & 512) >> 6))
    if bool((base[inner] >= len(units)).any()):
        raise _false("its trie leads outside itself")
    ends = inner & (units & 256).bool()
    leaves = units[base[ends]]
    values = leaves & (_LEAF - 1)
    if bool((leaves < _LEAF).any()) or bool((values >= len(strings)).any()):
        raise _false("a key has no string")
    if bool(((strings[values] & 0xC0) == 0x80).any()):
        raise _false("a string begins inside a character")
    children = (inner & (units & 255).bool()).nonzero().squeeze(1)
    _check_depth(children, children ^ (units[children] & 255), base, ends)


def _check_depth(children: Tensor, parents: Tensor, base: Tensor, ends: Tensor) -> None:
    """Refuse keys without end, and more of them inside one another than the library has room for.

    Args:
        children: units that a byte leads to. Shape: (K,)
        parents: the base from which that byte leads there. Shape: (K,)
        base: of each unit. Shape: (N,)
        ends: whether a key ends at each unit. Shape: (N,)
    """
    met = torch.full((len(base),), -1)  # by base: keys that end on the way there; -1: not reached
    met[base[0]] = int(ends[0])
    for _ in range(MAX_KEY):
        reached = met[parents] >= 0
        if not reached.any():
            return
        at = children[reached]
        keys = met[parents[reached]] + ends[at]
        if int(keys.max()) > MAX_NESTED:
            raise _false(f"more than {MAX_NESTED} of its keys begin one another")
        met = torch.full_like(met, -1).scatter_reduce(0, base[at], keys, "amax")
    raise _false(f"it has keys of more than {MAX_KEY} bytes")

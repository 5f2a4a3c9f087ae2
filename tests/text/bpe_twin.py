"""A plain twin of the BPE: `regex` for the cutting, pairs merged one at a time.

Slow, short, and obviously right.

Also the code points on which a comparison is fair: a character that only one of the two Unicode
tables (Python's `regex`, tiktoken's Rust) has a meaning for may be cut differently by each.
"""

import functools
import itertools
import json
from pathlib import Path

import regex
import tiktoken

PATTERN = regex.compile(
    r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
)
EVERY_CHARACTER = "".join(chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000)


class Twin:
    def __init__(self, merges: list[tuple[bytes, bytes]], ids: dict[bytes, int]):
        self.ranks = {pair: rank for rank, pair in enumerate(merges)}
        self.ids = ids
        self.piece = functools.lru_cache(maxsize=1 << 20)(self.encode_piece)

    def encode(self, text: str) -> list[int]:
        return [i for piece in PATTERN.findall(text) for i in self.piece(piece)]

    def encode_piece(self, piece: str) -> list[int]:
        parts = [bytes([byte]) for byte in piece.encode()]
        while True:
            pairs = list(itertools.pairwise(parts))
            known = [pair for pair in pairs if pair in self.ranks]
            if not known:
                return [self.ids[part] for part in parts]
            left, right = min(known, key=self.ranks.__getitem__)
            merged = []
            while parts:
                if parts[:2] == [left, right]:
                    merged.append(left + right)
                    parts = parts[2:]
                else:
                    merged.append(parts[0])
                    parts = parts[1:]
            parts = merged


def read_original(folder: Path) -> Twin:
    """GPT-2's own files, read without any code of the package."""
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in visible]
    byte_of = {chr(byte): byte for byte in visible}
    byte_of |= {chr(256 + i): byte for i, byte in enumerate(hidden)}

    def to_bytes(picture: str) -> bytes:
        return bytes(byte_of[character] for character in picture)

    lines = (folder / "vocab.bpe").read_text("utf-8").split("\n")[1:-1]
    merges = [(to_bytes(a), to_bytes(b)) for a, b in (line.split() for line in lines)]
    ids = json.loads((folder / "encoder.json").read_text("utf-8"))
    return Twin(merges, {to_bytes(token): i for token, i in ids.items()})


def in_rust(char_class: str) -> set[str]:
    """The characters that match a class in tiktoken's regex engine.

    An encoding of single bytes returns what it matched.
    """
    ranks = {bytes([i]): i for i in range(256)}
    probe = tiktoken.Encoding("probe", pat_str=char_class, mergeable_ranks=ranks, special_tokens={})
    return set(bytes(probe.encode_ordinary(EVERY_CHARACTER)).decode())


def in_python(char_class: str) -> set[str]:
    return set(regex.findall(char_class, EVERY_CHARACTER))


@functools.lru_cache(maxsize=1)
def shared_characters() -> list[str]:
    """The characters assigned in both Unicode tables, in order."""
    return sorted(set(EVERY_CHARACTER) - in_rust(r"\p{Cn}") - in_python(r"\p{Cn}"))

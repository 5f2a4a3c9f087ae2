"""Hostile `.model` files and maps; run as a process, reads mutated ones and reports in JSON."""

from __future__ import annotations

import contextlib
import json
import random
import resource
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import sentencepiece_toys

from roberta_hub.errors import RobertaHubError
from roberta_hub.text.sentencepiece_file import parse_model, read_model
from roberta_hub.text.unigram import SentencePiece

TEXTS = ("Hello, world!", "a\0b ﬁx é 你好 ｶﾞ <s> 1,000 " + "x" * 200, "نمस्ते  \u200b😀😀")


def number(value: int) -> bytes:
    """A whole number of a protocol buffer."""
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(place: int, content: bytes) -> bytes:
    return number(place << 3 | 2) + number(len(content)) + content


def piece(text: bytes, score: float = -1.0, kind: int = 1) -> bytes:
    body = field(1, text) + b"\x15" + struct.pack("<f", score)
    return field(1, body + (b"" if kind == 1 else b"\x18" + number(kind)))


START = piece(b"<unk>", 0.0, 2) + piece(b"<s>", 0.0, 3) + piece(b"</s>", 0.0, 3)
ENDING = piece("▁".encode()) + piece(b"a") + field(2, b"\x18\x01")


def character_map(units: list[int], strings: bytes = b"x\0") -> bytes:
    trie = struct.pack(f"<{len(units)}I", *units)
    return struct.pack("<I", len(trie)) + trie + strings


def with_map(blob: bytes) -> bytes:
    return START + ENDING + field(3, field(2, blob))


LEAF = 1 << 31
NESTED = 1 << 10 | 256
FALSE = {
    "nothing": (b"", "has no pieces"),
    "no pieces": (field(2, b"\x18\x01"), "has no pieces"),
    "a web page": (b"<!DOCTYPE html><html>", "wire type|bytes, and|not known"),
    "a piece of 400 kB": (START + piece(b"a" * 400_000) + ENDING, "has 400,000 bytes"),
    "an empty piece": (START + piece(b"") + ENDING, "has 0 bytes"),
    "a piece with U+0000": (START + piece(b"a\0b") + ENDING, "U\\+0000"),
    "a piece that is no UTF-8": (START + piece(b"\xff") + ENDING, "not UTF-8"),
    "half a surrogate pair": (START + piece(b"\xed\xa0\x80") + ENDING, "not UTF-8"),
    "NaN": (START + piece(b"b", float("nan")) + ENDING, "score nan"),
    "infinity": (START + piece(b"b", float("inf")) + ENDING, "score inf"),
    "a score beyond all reason": (START + piece(b"b", -3e38) + ENDING, "score -"),
    "a piece twice": (START + piece(b"a") + ENDING, "stands in it twice"),
    "no unknown piece": (piece(b"<s>", 0.0, 3) + ENDING, "0 of its pieces stand for unknown"),
    "two unknown pieces": (START + piece(b"b", 0.0, 2) + ENDING, "2 of its pieces stand"),
    "a kind that is none": (START + piece(b"b", 0.0, 7) + ENDING, "a kind that is not known"),
    "a kind of ten bytes": (
        START + field(1, field(1, b"b") + b"\x18" + b"\xff" * 9 + b"\x01") + ENDING,
        "a kind that is not known",
    ),
    "a number without end": (START + b"\x10" + b"\xff" * 1000, "more than ten bytes"),
    "a length of 2 GB": (START + b"\x0a\xff\xff\xff\xff\x07aa", "2,147,483,647 bytes, and 2"),
    "a length of 2^63": (START + b"\x0a" + b"\xff" * 9 + b"\x01aa", "bytes, and 2 are left"),
    "a piece's length of 2 GB": (
        START + field(1, b"\x0a\xff\xff\xff\xff\x07aa") + ENDING,
        "2,147,483,647 bytes",
    ),
    "deep nesting of groups": (START + b"\x0b" * 1_000_000, "wire type 3"),
    "deep nesting of messages": (START + field(9, field(9, field(9, b"a"))), "field 9"),
    "an unknown field of a piece": (
        START + field(1, field(1, b"b") + field(4, b"x")) + ENDING,
        "a field 4",
    ),
    "an unknown field of the trainer": (START + ENDING + field(2, field(99, b"x")), "twice"),
    "an unknown setting": (START + piece(b"a") + field(2, field(99, b"x")), "a field 99"),
    "two normalizers": (START + ENDING + field(3, b"\x18\x01") * 2, "field 3 stands in it twice"),
    "words": (START + piece(b"a") + field(2, b"\x18\x03"), "model type is 3"),
    "characters": (START + piece(b"a") + field(2, b"\x18\x04"), "model type is 4"),
    "spaces behind words": (START + piece(b"a") + field(2, b"\xc0\x01\x01"), "as_suffix"),
    "spaces as they are": (START + ENDING + field(3, b"\x28\x00"), "escape_whitespaces"),
    "a fallback without bytes": (START + piece(b"a") + field(2, b"\x98\x02\x01"), "0 pieces for"),
    "bytes without a fallback": (START + piece(b"<0x41>", 0.0, 6) + ENDING, "1 pieces for bytes"),
    "a map of three bytes": (with_map(b"abc"), "says that its trie has"),
    "a map longer than itself": (with_map(struct.pack("<I", 1 << 30) + b"a" * 99), "its trie has"),
    "a map of no trie": (with_map(struct.pack("<I", 0) + b"a\0"), "its trie has 0 bytes"),
    "a map that is too large": (with_map(character_map([0] * (1 << 20))), "the limit is"),
    "a trie that leads outside": (
        with_map(character_map([1 << 30 | 512] + [0] * 255)),
        "leads outside itself",
    ),
    "a trie whose root is a leaf": (with_map(character_map([LEAF] * 256)), "is a leaf"),
    "a key without a string": (
        with_map(character_map([1 << 10 | 256, LEAF | 9] + [LEAF] * 254)),
        "has no string",
    ),
    "a key's value that is a node": (
        with_map(character_map([1 << 10 | 256, 0] + [LEAF] * 254)),
        "has no string",
    ),
    "a string without end": (with_map(character_map([LEAF - 1] * 256, b"x")), "has no end"),
    "a string that is no UTF-8": (with_map(character_map([0] * 256, b"\xff\0")), "not UTF-8"),
    "a string from inside a character": (
        with_map(character_map([1 << 10 | 256, LEAF | 1] + [LEAF] * 254, "é\0".encode())),
        "inside a character",
    ),
    "a string of a megabyte": (
        with_map(character_map([0] * 256, b"x" * (1 << 20) + b"\0")),
        "has a string of",
    ),
    # unit 1 is the root's child by the byte 1 and, its base being 0 again, its own.
    "a trie that goes round": (
        with_map(character_map([0, 1 | 1 << 10] + [LEAF] * 254)),
        "keys of more than",
    ),
}
"""What each file is, and what its refusal says."""


def mutants(count: int, seed: int) -> Iterator[bytes]:
    """Models of every kind, small ones as a rule, with a few places changed."""
    rng = random.Random(seed)
    whole = [sentencepiece_toys.trained(kind) for kind in sentencepiece_toys.KINDS]
    small = [_shortened(data) for data in whole]
    for _ in range(count):
        data = bytearray(rng.choice(small if rng.random() < 0.5 else whole))
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            at = rng.randrange(len(data))
            what = rng.randrange(5)
            if what == 0:
                data[at] ^= 1 << rng.randrange(8)
            elif what == 1:
                data[at] = rng.choice((0, 1, 127, 128, 255))
            elif what == 2:
                del data[at : at + rng.choice((1, 4, 64))]
            elif what == 3:
                data[at:at] = data[at : at + rng.choice((1, 4, 64))]
            else:
                data[at : at + 4] = rng.randbytes(4)
        yield bytes(data)


def _shortened(data: bytes) -> bytes:
    """The same model without its map and with few pieces: changes hit what is read."""
    import dataclasses

    model = parse_model(data, "seed")
    keep = 300 if model.byte_fallback else 60
    return dataclasses.replace(
        model,
        texts=model.texts[:keep],
        scores=model.scores[:keep],
        kinds=model.kinds[:keep],
        character_map=b"",
    ).serialized()


def try_out(data: bytes) -> bool:
    """Read a model and cut texts with it; whether it was accepted."""
    try:
        engine = SentencePiece(parse_model(data, "mutant"))
    except RobertaHubError:
        return False
    for text, numbers in zip(TEXTS, engine.batch_encoder.encode(list(TEXTS)), strict=True):
        spans = engine.spans(text)
        assert len(spans) == len(numbers)
        assert all(0 <= start <= end <= len(text) for start, end in spans)
        engine.join(map(engine.surface, numbers))
    return True


def main() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.argv[1] == "mutants":
        count, seed = map(int, sys.argv[2:4])
        slowest, accepted = 0.0, 0
        for data in mutants(count, seed):
            start = time.process_time()
            Path(sys.argv[4]).write_bytes(data)  # what is left there killed the process
            accepted += try_out(data)
            slowest = max(slowest, time.process_time() - start)
        print(json.dumps({"accepted": accepted, "slowest": slowest, "count": count}))
        return
    for path in sys.argv[2:]:
        start, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        says = "accepted"
        with contextlib.suppress(MemoryError):
            try:
                SentencePiece(read_model(path))
            except RobertaHubError as error:
                says = str(error)
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        seconds = time.process_time() - start
        print(json.dumps({"says": says, "megabytes": grown, "seconds": seconds}))


if __name__ == "__main__":
    main()

"""Text in and out: rows 38 to 44 and 51 to 54.

One model, the same for all, of 50,265 symbols and 512 positions.
"""

from __future__ import annotations

import functools
import random
from typing import Any

import torch

from .case import HF, OURS, STOCK, Case, Place, Verdict, works, wrong

TITLES = {
    38: "encode: empty, spaces",
    39: "encode: lone surrogate",
    40: "encode: NUL, control, CRLF, NBSP, BOM, U+2028",
    41: "`</s> <mask> <s>` in a user's text",
    42: "encode: int, None, bytes, list",
    43: "one word of 10 million letters",
    44: "600 tokens, the limit is 512",
    51: "decode: `<pad>`, madeupword, -1, 60000, no ids",
    52: "fill_mask: 0 or 2 masks; topk 0, 60000",
    53: "predict with a head that is not there",
    54: "align words: U+2019, emoji over several tokens",
}
NOT_APPLICABLE = {(53, HF): "has no heads by name"}


def encoded(text: str, engine: Any, place: Place) -> Verdict:
    """The ids are fairseq's, and decode to the text."""
    ids = engine.encode(text)
    return works("fairseq's ids", ids)


def should_refuse(value: Any, engine: Any, place: Place) -> Verdict:
    ids = engine.encode(value)
    return wrong(f"accepts, {len(ids)} ids")


def list_of_texts(engine: Any, place: Place) -> Verdict:
    """transformers documents a list as a batch."""
    found = engine.encode(["a", "b"])
    return works("a batch") if engine.name == HF and len(found) == 2 else wrong("accepts a list")


def write_word(place: Place) -> None:
    """Ten million letters drawn at random: repeated ones would merge in a few steps."""
    letters = bytes(ord("a") + n % 26 for n in range(256))
    word = random.Random(0).randbytes(10_000_000).translate(letters)
    (place.files / "word").write_bytes(word)


def long_word(engine: Any, place: Place) -> Verdict:
    return works(f"{len(engine.encode((place.files / 'word').read_text())):,} ids")


def too_long(engine: Any, place: Place) -> Verdict:
    engine.features(torch.full((1, 600), 5))
    return wrong("returns features")


ENCODE = [
    *(
        Case(38, name, functools.partial(encoded, text), agrees=True)
        for name, text in (("empty", ""), ("spaces", "   "), ("a newline", "\n"))
    ),
    Case(39, "alone", functools.partial(should_refuse, "a\ud800b")),
    Case(39, "at the end", functools.partial(should_refuse, "a\udfff")),
    *(
        Case(40, name, functools.partial(encoded, f"a{text}b {text} c{text}"), agrees=True)
        for name, text in (
            ("NUL", "\0"),
            ("control", "\x01\x1b\x7f"),
            ("CRLF", "\r\n"),
            ("NBSP", "\u00a0"),
            ("BOM", "\ufeff"),
            ("U+2028", "\u2028"),
        )
    ),
    *(
        Case(41, text, functools.partial(encoded, f"a {text} b"), agrees=True)
        for text in ("</s>", "<mask>", "<s>", "<pad>", "<unk>", "</s> <mask> <s>")
    ),
    *(
        Case(42, type(value).__name__, functools.partial(should_refuse, value))
        for value in (5, None, b"ab")
    ),
    Case(42, "list", list_of_texts),
    Case(43, "random letters", long_word, make=write_word, seconds=60, room=12 << 30),
    Case(44, "ids of 600", too_long),
]

# ---- decode and fill_mask ----

HELLO = [0, 31414, 232, 328, 2]


def decoded(ids: list[int], text: str, engine: Any, place: Place) -> Verdict:
    found = engine.decode(torch.tensor(ids, dtype=torch.long))
    return works() if found == text else wrong(f"returns {found[:20]!r}")


def decoded_outside(ids: list[int], engine: Any, place: Place) -> Verdict:
    found = engine.decode(torch.tensor(ids))
    return wrong(f"returns {found[:20]!r}")


def decoded_placeholder(engine: Any, place: Place) -> Verdict:
    """A symbol without text: anything that keeps the text around it will do."""
    found = engine.decode(torch.tensor([0, 31414, 50261, 232, 2]))
    fine = "Hello" in found and "world" in found
    return works() if fine else wrong(f"returns {found[:20]!r}")


def fill(text: str, topk: int, engine: Any, place: Place) -> Verdict:
    found = engine.fill(text, topk)
    return wrong(f"returns {len(found)} fillings") if found else works("returns none")


def fill_two(engine: Any, place: Place) -> Verdict:
    """Each of two masks filled, three words for each."""
    found = engine.fill("a <mask> b <mask> c", 3)
    return works("fills both") if [len(x) for x in found] == [3, 3] else wrong("returns otherwise")


DECODE = [
    Case(51, "padding at the end", functools.partial(decoded, [*HELLO, 1, 1], "Hello world!")),
    Case(51, "a madeupword", decoded_placeholder),
    Case(51, "-1", functools.partial(decoded_outside, [0, 31414, -1, 2])),
    Case(51, "60000", functools.partial(decoded_outside, [0, 31414, 60000, 2])),
    Case(51, "no ids", functools.partial(decoded, [], "")),
    Case(52, "no mask", functools.partial(fill, "a b c", 5)),
    Case(52, "two masks", fill_two),
    Case(52, "topk 0", functools.partial(fill, "a <mask> c", 0)),
    Case(52, "topk 60000", functools.partial(fill, "a <mask> c", 60000)),
]

# ---- heads and words ----


def unknown_head(engine: Any, place: Place) -> Verdict:
    engine.model.predict("nope", torch.tensor(HELLO))
    return wrong("returns something")


def aligned(text: str, engine: Any, place: Place) -> Verdict:
    """fairseq and ours give a vector for each word, Hugging Face the characters of each piece."""
    if engine.name == HF:
        pieces = engine.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        covered = {i for start, end in pieces["offset_mapping"] for i in range(start, end)}
        missing = [c for i, c in enumerate(text) if i not in covered and not c.isspace()]
        return wrong(f"no piece has {missing}") if missing else works("offsets cover the text")
    doc = engine.model.extract_features_aligned_to_words(text)
    finite = all(torch.isfinite(token.vector).all() for token in doc)
    return works(f"{len(doc)} words") if finite else wrong("vectors not finite")


WORDS = [
    Case(53, "nope", unknown_head, engines=frozenset({STOCK, OURS})),
    *(
        Case(54, name, functools.partial(aligned, text))
        for name, text in (
            ("plain", "It was fine."),
            ("U+2019", "It\u2019s John\u2019s \u2018word\u2019."),
            ("emoji", "a \U0001f469\U0001f3fd\u200d\U0001f680 b \U0001f600"),
        )
    ),
]
CASES = [*ENCODE, *DECODE, *WORDS]

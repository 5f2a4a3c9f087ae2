"""dict.txt, good and odd: rows 32 to 37. Hugging Face has no such file."""

from __future__ import annotations

import functools
import shutil
from typing import Any

from .case import FORCED, HF, OURS, STOCK, Case, Place, Verdict, works, wrong

TITLES = {
    32: "dict.txt: a symbol twice",
    33: "dict.txt: `#fairseq:overwrite`",
    34: "dict.txt: CRLF",
    35: "dict.txt: blank line, no count, bad count, bad UTF-8",
    36: "dict.txt: BOM, NUL, U+00A0, U+2028, negative count, `1_0`, a 30 MB line",
    37: "dict.txt: `<s>` again, empty, not of the model's size",
}
NOT_APPLICABLE = {(row, HF): "has no dict.txt" for row in TITLES}
BOTH = frozenset({STOCK, OURS})


def write(place: Place, content: bytes) -> None:
    (place.files / "dict.txt").write_bytes(content)


def read(engine: Any, place: Place) -> list[str]:
    return engine.dictionary(place.files / "dict.txt")  # type: ignore[no-any-return]


def same_ids(engine: Any, place: Place) -> Verdict:
    """Accepted with fairseq's ids."""
    return works("accepts, fairseq's ids", read(engine, place))


def holds(symbol: str, engine: Any, place: Place) -> Verdict:
    """Refused, or accepted with this symbol as it should be."""
    symbols = read(engine, place)
    return works("accepts") if symbol in symbols else wrong(f"accepts as {symbols[4][:12]!r}")


def refused(engine: Any, place: Place) -> Verdict:
    symbols = read(engine, place)
    return wrong(f"accepted, {len(symbols)} symbols")


def of_other_size(engine: Any, place: Place) -> Verdict:
    """The sound model beside a dict.txt that lacks its last 8 symbols."""
    engine.kit = place.kit
    engine.load(place.files / "model")
    return wrong("accepted")


def cut_dictionary(place: Place, lines: int) -> None:
    shutil.copytree(place.kit / "fairseq", place.files / "model")
    path = place.files / "model" / "dict.txt"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:lines]))


def entry(row: int, name: str, content: bytes, run: Any = refused, **more: Any) -> Case:
    make = functools.partial(write, content=content)
    return Case(row, name, run, make=make, engines=BOTH, **more)


CASES = [
    entry(32, "twice", b"a 3\na 2\n"),
    entry(33, "a second time", b"a 3\nb 2\na 1 #fairseq:overwrite\n", same_ids, agrees=True),
    entry(33, "a special symbol", b"<s> 1 #fairseq:overwrite\na 3\n", same_ids, agrees=True),
    entry(34, "CRLF", b"a 3\r\nb 2\r\n", functools.partial(holds, "a")),
    entry(35, "a blank line", b"a 3\n\nb 2\n"),
    entry(35, "no count", b"a\nb 2\n"),
    entry(35, "a count that is no number", b"a x\n"),
    entry(35, "a count with an exponent", b"a 1e9\n"),
    entry(35, "a count of 60,000 digits", b"a " + b"9" * 60_000 + b"\n"),
    entry(35, "not UTF-8", b"a 3\nb\xff 2\n"),
    entry(35, "UTF-16", "a 3\n".encode("utf-16")),
    entry(36, "BOM", b"\xef\xbb\xbfa 3\nb 2\n", functools.partial(holds, "a")),
    entry(36, "NUL", b"\0 3\n", same_ids, agrees=True),
    entry(36, "U+00A0 in a symbol", "a\u00a0b 3\n".encode(), same_ids, agrees=True),
    entry(36, "U+2028 in a symbol", "a\u2028b 3\n".encode(), same_ids, agrees=True),
    entry(36, "a negative count", b"a -3\n", same_ids, agrees=True),
    entry(36, "the count 1_0", b"a 1_0\n", same_ids, agrees=True),
    entry(36, "a line of 30 MB", b"a" * (30 << 20) + b" 1\n"),
    entry(37, "<s> again", b"<s> 3\na 2\n"),
    entry(37, "empty", b""),
    *(
        Case(
            37,
            name,
            of_other_size,
            make=functools.partial(cut_dictionary, lines=lines),
            engines=frozenset({STOCK, FORCED, OURS}),
        )
        for name, lines in (("100 symbols beside the model", 100), ("empty beside the model", 0))
    ),
]

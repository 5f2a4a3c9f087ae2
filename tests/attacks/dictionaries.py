"""dict.txt against the reader of text: rows 32 to 37."""

from __future__ import annotations

from pathlib import Path

from fuzz import seeds

from roberta_hub.formats.ours import write_store

from .bench import Attack
from .material import Make, model_pt

SIZE = "symbols and the embedding table 8"


def lines(content: bytes) -> Make:
    """A sound checkpoint beside this dict.txt; what is loaded is the directory."""
    return lambda folder: model_pt(seeds.saved(seeds.states()[0]), content)(folder).parent


def of_size(size: int) -> Make:
    """A dict.txt of zeros that takes no room on the disk."""

    def make(folder: Path) -> Path:
        directory = lines(b"")(folder)
        with open(directory / "dict.txt", "wb") as file:
            file.truncate(size)
        return directory

    return make


def beside_ours(name: str, content: bytes, size: int = 0) -> Make:
    """A directory of our own format with this file."""

    def make(folder: Path) -> Path:
        for file, data in seeds.written(write_store).items():
            (folder / file).write_bytes(data)
        (folder / name).write_bytes(content)
        if size:
            with open(folder / name, "r+b") as file_:
                file_.truncate(size)
        return folder

    return make


def bad(
    name: str, row: int, content: bytes, reason: str, naive: str = "", harm: str = ""
) -> Attack:
    return Attack(name, row, lines(content), reason, naive, harm)


N = "split_lines"
ATTACKS = [
    Attack("100 GB", 36, of_size(100 << 30), "the limit for a dictionary", N, "fills memory"),
    Attack("33 MB", 36, of_size(33 << 20), "the limit for a dictionary"),
    Attack(
        "100 GB beside our own format",
        36,
        beside_ours("dict.txt", b"", 100 << 30),
        "the limit for a dictionary",
    ),
    Attack(
        "100 GB of labels",
        36,
        beside_ours("label_dict.txt", b"", 100 << 30),
        "the limit for a dictionary",
    ),
    bad(
        "two million symbols and more",
        36,
        b"".join(b"%x 1\n" % i for i in range(2_000_001)),
        "more than 2000000 symbols",
    ),
    bad("a line of 30 MB", 36, b"a" * (30 << 20) + b" 1\n", "the limit is 65536", N, "accepts"),
    bad(
        "a line of 30 MB in wide letters",
        36,
        "😀".encode() * (7 << 20) + b" 1\n",
        "the limit is 65536",
    ),
    bad("no line break and no end", 36, b"a 1 " * (7 << 20), "the limit is 65536"),
    bad(
        "a count of a million digits",
        35,
        b"a " + b"9" * 60_000 + b"\n",
        "is not `symbol count`",
        N,
        "accepts",
    ),
    bad("a count with an exponent", 35, b"a 1e9\n", "is not `symbol count`", N, "accepts"),
    bad("a count that is not a number", 35, b"a nan\n", "is not `symbol count`"),
    bad("NUL in place of a line", 36, b"\0\n", "is not `symbol count`", N, "accepts"),
    bad("a symbol of NUL", 36, b"\0 1\n\0\0 1\n", SIZE),
    bad("a byte order mark", 36, b"\xef\xbb\xbfa 3\nb 2\nc 1\n", "byte order mark", N, "accepts"),
    bad("UTF-16", 35, "a 3\n".encode("utf-16"), "not UTF-8", N, "crashes"),
    bad("bytes that are no UTF-8", 35, b"a 3\nb\xff 2\nc 1\n", "line 2: not UTF-8", N, "crashes"),
    bad("half a surrogate pair", 35, b"a 3\n\xed\xa0\x80 2\nc 1\n", "line 2: not UTF-8"),
    bad("U+2028 as a line break", 36, "a 3\nb\u2028 2\nc 1\n#x 1\n".encode(), SIZE, N, "accepts"),
    bad("a blank line", 35, b"a 3\n\nc 1\n", "line 2", N, "accepts"),
    bad("empty", 37, b"", "is empty"),
    bad("line breaks alone", 35, b"\n" * 1_000_000, "line 1"),
    bad("a symbol twice", 32, b"a 3\na 2\nc 1\n", "again", N, "accepts"),
    bad("a special symbol again", 37, b"<s> 3\nb 2\nc 1\n", "'<s>' again", N, "accepts"),
    bad(
        "every special overwritten",
        33,
        b"".join(b"%s 1 #fairseq:overwrite\n" % s for s in (b"<s>", b"<pad>", b"</s>", b"<unk>")),
        SIZE,
    ),
    bad("one symbol overwritten many times", 33, b"a 1 #fairseq:overwrite\n" * 1_000_000, SIZE),
    bad("an overwrite flag alone", 33, b"#fairseq:overwrite\n", "is not `symbol count`"),
    bad("an overwrite flag for a count", 33, b"a #fairseq:overwrite\n", "is not `symbol count`"),
    bad(
        "two overwrite flags",
        33,
        b"a 1 #fairseq:overwrite #fairseq:overwrite\n",
        "is not `symbol count`",
    ),
    bad("a flag in capitals", 33, b"a 1 #FAIRSEQ:OVERWRITE\n", "is not `symbol count`"),
    bad("of another model", 37, b"a 3\nb 2\n", SIZE),
    bad("a web page", 35, b"<!DOCTYPE html>\n<html>\n", "is not `symbol count`", N, "accepts"),
    Attack(
        "a label dictionary that is damaged",
        35,
        beside_ours("label_dict.txt", b"yes\n"),
        "label/dict.txt, line 1|symbols and the embedding",
    ),
]

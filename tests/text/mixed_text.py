"""Text of every kind, seeded: English, the world's scripts, emoji, controls, special words."""

from __future__ import annotations

import lzma
import os
import random
from collections.abc import Iterator
from pathlib import Path

SHARED = Path(os.environ.get("ROBERTA_HUB_SHARED", Path(__file__).parents[3] / "shared"))
SAMPLE = """
hello world unaffable it's don't 3.14 1,000 e-mail foo_bar a/b U.S.A. naïve café Köln
ΣΟΦΟΣ Ελλάδα Straße İstanbul ısı Łódź ﬁne ﬀ Ⅷ ² ½ ℃ Å Ω µ ǆ ŉ ẞ
Привет мир Ёлка йод שלום עולם مرحبا بالعالم قَلَم नमस्ते दुनिया বাংলা தமிழ் ไทยไม่มีช่องว่าง
你好世界 漢字かな交じり文 カタカナ ｶﾞ 한국어 조선 𠮷野家 𫝆 丽 ㍿ ㋿ 〇 々
🙂 👩‍👩‍👧 🇩🇪 👍🏽 ✈️ ①②③ →←↑ ∑∫√ ≠ ≤ “quoted” ‘so’ …dots… — – ¿qué? «là»
[CLS] [SEP] [PAD] [MASK] [UNK] [unused1] <s> </s> <mask> ##ing # ## x##y
"""
WORDS = SAMPLE.split()
GLUE = (
    " ",
    " ",
    " ",
    " ",
    "",
    "  ",
    "\t",
    "\n",
    "\r\n",
    "\u00a0",
    "\u3000",
    "\u2028",
    "\u200b",
    "\ufeff",
)
RANGES = (
    (0, 0x250),
    (0x250, 0x600),
    (0x600, 0x900),
    (0x900, 0x1000),
    (0x1000, 0x2000),
    (0x2000, 0x2C00),
    (0x2C00, 0x3400),
    (0x3400, 0xA000),
    (0xA000, 0xD800),
    (0xE000, 0x10000),
    (0x10000, 0x12000),
    (0x16000, 0x17000),
    (0x1D000, 0x20000),
    (0x20000, 0x30000),
    (0xE0000, 0x110000),
)
"""Where characters are drawn from."""
MARKS = (
    "\u0300\u0301\u0316\u0327\u0345\u034f\u0591\u05b0\u064b\u0651\u0901\u093c\u094d\u09fe\u0c3c"
    "\u0eba\u1b44\u1dfa\u1df6\u302a\u302e\u302f\ua953\U00010f46\U0001d165\U0001d16d\U0001e000"
)
"""Combining characters of many places, some of which WordPiece keeps."""


def mixed_lines(count: int, seed: int = 0) -> Iterator[str]:
    """Lines of up to twenty words, and of runs of characters."""
    draw = random.Random(seed)
    for _ in range(count):
        parts = []
        for _ in range(draw.randint(0, 20)):
            kind = draw.random()
            if kind < 0.8:
                parts.append(draw.choice(WORDS))
            elif kind < 0.9:
                first, last = draw.choice(RANGES)
                parts.append(
                    "".join(chr(draw.randrange(first, last)) for _ in range(draw.randint(1, 6)))
                )
            else:
                parts.append(
                    draw.choice("aeऔก가") + "".join(draw.choices(MARKS, k=draw.randint(1, 6)))
                )
            parts.append(draw.choice(GLUE))
        yield "".join(parts)


def english_lines(size: int) -> Iterator[str]:
    """Lines of some `size` characters out of the shared folder; none where it is missing."""
    folder = SHARED / "data"
    for name in (
        "eval/books_dev.txt",
        "pretrain/oanc_slate.txt.xz",
        "pretrain/enwiki_2021_core.txt.xz",
    ):
        path = folder / name
        if not path.is_file():
            continue
        open_as = lzma.open if name.endswith(".xz") else open
        with open_as(path, "rt", encoding="utf-8") as file:
            for line in file:
                yield line
                size -= len(line)
                if size <= 0:
                    return

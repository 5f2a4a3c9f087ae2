"""Random texts of every script, with the words of a tokenizer among them."""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Sequence

from families import SENTENCES

BLANKS = (
    *(" ",) * 12,
    "",
    "  ",
    "\t",
    "\n",
    "\r\n",
    "\x0b",
    "\x0c",
    "\x85",
    "\u00a0",
    "\u1680",
    "\u2003",
    "\u2009",
    "\u2028",
    "\u2029",
    "\u202f",
    "\u3000",
)
"""Every kind of white space; one blank most often."""
ODD = (
    "\0",
    "\x01",
    "\x1b",
    "\x1c",
    "\x1f",
    "\x7f",
    "\x80",
    "\x9f",
    "\u00ad",
    "\u034f",
    "\u061c",
    "\u180e",
    "\u200b",
    "\u200c",
    "\u200d",
    "\u200e",
    "\u202e",
    "\u2060",
    "\u2066",
    "\ud7ff",
    "\ue000",
    "\ufe0f",
    "\ufeff",
    "\ufff9",
    "\ufffc",
    "\ufffd",
    "\ufdd0",
    "\uffff",
    "\U0001fffe",
    "\U000e0041",
    "\U000f0000",
    "\U0010ffff",
)
"""Controls, formats, private characters, non-characters, the neighbours of surrogates."""
WORDS = [
    "hello",
    "world",
    "unaffable",
    "it's",
    "don't",
    "can’t",
    "3.14",
    "1,000",
    "e-mail",
    "foo_bar",
    "a/b",
    "U.S.A.",
    "naïve",
    "café",
    "Köln",
    "ΣΟΦΟΣ",
    "Ελλάδα",
    "Straße",
    "İstanbul",
    "ısı",
    "Łódź",
    "ﬁne",
    "ﬀ",
    "Ⅷ",
    "²",
    "½",
    "℃",
    "Å",
    "Ω",
    "µ",
    "ǆ",
    "ŉ",
    "ẞ",
    "ß",
    "Привет",
    "мир",
    "Ёлка",
    "שָׁלוֹם",
    "مرحبا",
    "قَلَم",
    "नमस्ते",
    "दुनिया",
    "বাংলা",
    "தமிழ்",
    "ไทยไม่มีช่องว่าง",
    "你好世界",
    "漢字かな",
    "カタカナ",
    "ｶﾞ",
    "한국어",
    "한글",
    "𠮷野家",
    "㍿",
    "㋿",
    "〇",
    "々",
    "🙂",
    "👩\u200d👩\u200d👧",
    "🇩🇪",
    "👍🏽",
    "✈️",
    "❤️\u200d🔥",
    "①②",
    "→←",
    "∑",
    "≠",
    "“quoted”",
    "‘so’",
    "…dots…",
    "—",
    "–",
    "¿qué?",
    "«là»",
    "``two''",
    "##ing",
    "▁",
    "▁the",
    "Ġthe",
    "</w>",
    "@@",
    "[unused0]",
    "<0x41>",
    "http://a.b/c?d=e#f",
    "x=1;y={2}",
    "C++",
    "$5",
    "£7",
    "100%",
    "#tag",
    "@me",
    "snake_case",
    "CamelCase",
    "ALLCAPS",
    "ÉLÈVE",
    "ΑΣ",
    "ǅ",
    "ŒUVRE",
    "ﷺ",
    "ﬃ",
    "ＡＢＣ",
    "１２３",
    "ﾊﾝｶｸ",
]
BLOCKS = (
    (0x21, 0x7F),
    (0xA1, 0x250),
    (0x250, 0x600),
    (0x600, 0x900),
    (0x900, 0xE80),
    (0xE80, 0x1200),
    (0x1200, 0x2000),
    (0x2000, 0x2C00),
    (0x2C00, 0x3400),
    (0x3400, 0xA000),
    (0xA000, 0xD800),
    (0xF900, 0x10000),
    (0x10000, 0x12000),
    (0x16000, 0x17000),
    (0x1D000, 0x1FB00),
    (0x20000, 0x30000),
)
"""Where characters are drawn from."""
MARKS = (
    "\u0300\u0301\u0316\u0327\u0345\u0591\u05b0\u064b\u0651\u0901\u093c\u094d\u09fe\u0c3c\u0eba"
    "\u1b44\u1dfa\u302a\u3099\ua953\U00010f46\U0001d165"
)


def character(draw: random.Random) -> str:
    """A character of some block that Unicode has given a meaning."""
    while True:
        found = chr(draw.randrange(*draw.choice(BLOCKS)))
        if unicodedata.category(found) not in ("Cn", "Cs", "Co"):
            return found


def word(draw: random.Random) -> str:
    """A word of some script, now and then an odd one."""
    kind = draw.random()
    if kind < 0.45:
        return draw.choice(draw.choice(SENTENCES).split())
    if kind < 0.75:
        return draw.choice(WORDS)
    if kind < 0.85:
        low, high = draw.choice(BLOCKS)
        found = (chr(draw.randrange(low, high)) for _ in range(draw.randint(1, 6)))
        return "".join(c for c in found if unicodedata.category(c) not in ("Cn", "Cs", "Co"))
    if kind < 0.92:
        return draw.choice("aeऔก가e") + "".join(draw.choices(MARKS, k=draw.randint(1, 4)))
    if kind < 0.96:
        return draw.choice(ODD)
    return "".join(character(draw) for _ in range(draw.randint(1, 3)))


def text(draw: random.Random, own: Sequence[str], most: int = 9) -> str:
    """A text of words and blanks, with some of a tokenizer's own words in it.

    Args:
        draw: what it is drawn with.
        own: the tokenizer's words.
        most: words of a text.
    """
    parts = []
    for _ in range(draw.randint(1, most)):
        if own and draw.random() < 0.25:
            found = draw.choice(own)
            change = draw.random()
            found = found.upper() if change < 0.08 else found.lower() if change < 0.16 else found
        else:
            found = word(draw)
        parts += [found, draw.choice(BLANKS)]
    if draw.random() < 0.7:
        parts.pop()
    return "".join(parts)


def texts(draw: random.Random, own: Sequence[str], count: int) -> list[str]:
    """Sentences, mixtures, and now and then an empty or a long text."""
    found = []
    for _ in range(count):
        kind = draw.random()
        if kind < 0.2:
            found.append(draw.choice(SENTENCES))
        elif kind < 0.23:
            found.append(draw.choice(("", " ", "\n\t", "\u3000", "x", ".", "\0", "\u200d")))
        elif kind < 0.33:
            found.append(" ".join(text(draw, own) for _ in range(draw.randint(3, 8))))
        else:
            found.append(text(draw, own))
    return found


def plain(draw: random.Random, own: Sequence[str] = (), most: int = 6) -> str:
    """A short sentence of letters and blanks, as heads are asked about."""
    row = [w for line in draw.sample(SENTENCES, 4) for w in line.split() if w.isalpha()]
    row = draw.sample(row, min(len(row), draw.randint(1, most)))
    if own and draw.random() < 0.3:
        row.insert(draw.randint(0, len(row)), draw.choice(own))
    return " ".join(row)

"""Two hundred texts that want to be markup, to turn writing around, or to break a layout."""

from __future__ import annotations

import random

TAGS = ("script", "img", "svg", "iframe", "style", "a", "math", "td", "div", "s", "mask", "!--")
ATTACKS = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "' onmouseover='alert(1)",
    '" style="position:fixed" x="',
    "</div></td></table><h1>out</h1>",
    "<!-- <![CDATA[ ]]> -->",
    "&lt;b&gt; &amp; &#60;b&#62; &nosuch;",
    "javascript:alert(1)//",
    "url(https://example.org/x.png)",
    "</style><style>*{display:none}</style>",
    "<s>a</s> <mask> </s></s>",
    "$x^2$ \\frac{1}{0} $",
    "%s {0} {name} ${HOME} `id`",
    "\u202egnp.exe\u202c",
    "\u2066a\u2069\u200f\u200e\u061c",
    "a\u2028b\u2029c\x85d",
    "\x00\x01\x07\x08\x1b[31mred\x1b[0m\x7f\x9b",
    "\r\nSet-Cookie: a=b\r\n\t x",
    "\ud800",
    "a\udc00b",
    "\ufeff\ufffe\uffff\ufdd0",
    "\u200b\u200c\u200d\u2060\u00ad",
    "e" + "\u0301" * 200,
    "👩‍👩‍👧‍👦 🏴\U000e0067\U000e0062\U000e007f 🙂",
    "漢字とかな交じり文。" * 8,
    "שלום עולם, مرحبا بالعالم",
    "ไทยไม่มีช่องว่าง",
    "a" * 3000,
    "\n" * 30,
    " \u00a0\u3000\u2003 ",
    "𝕳𝖊𝖑𝖑𝖔 ﷽ \U0010ffff \ue000",
]
"""Of our own choice."""


def hostile_strings(count: int = 200) -> list[str]:
    """Draw them, the same ones each time: the attacks, and mixtures of their parts."""
    draw = random.Random(19)
    found = list(ATTACKS)
    signs = [
        '"',
        "'",
        "<",
        ">",
        "&",
        "\u202e",
        "\x1b",
        "\u2028",
        " ",
        "=",
        "/",
        "\\",
        "$",
        "é",
        "字",
    ]
    while len(found) < count:
        parts = draw.choices(signs, k=draw.randrange(1, 8)) + draw.choices(TAGS, k=2)
        parts += [draw.choice(ATTACKS)[: draw.randrange(1, 12)]]
        draw.shuffle(parts)
        found.append("".join(parts))
    return found

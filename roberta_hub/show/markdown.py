"""Builds Markdown of text from outside, which stays text: in a line, as code, in a fence."""

from __future__ import annotations

import re

from roberta_hub.show.markup import harmless


def inline(text: object) -> str:
    r"""Write a name in a line: as it is where it is plain, else as code.

    Example:
        >>> inline("reviews 2.csv"), inline("<b>\n")
        ('reviews 2.csv', '`<b>\\n`')
    """
    text = str(text)
    plain = re.fullmatch(r"\w[\w .,()/-]*", text) and not re.search(r"__|_\b|\b_|  ", text)
    return text if plain and text.isprintable() else code(text)


def code(text: object) -> str:
    """Write a text as code in a line, between more backticks than it has.

    Example:
        >>> code("label"), code("a`b")
        ('`label`', '``a`b``')
    """
    shown = harmless(text)
    ticks = "`" * (_longest_run(shown) + 1)
    blank = " " if shown.startswith("`") or shown.endswith("`") or not shown.strip() else ""
    return f"{ticks}{blank}{shown}{blank}{ticks}"


def fenced(text: object, language: str = "") -> str:
    r"""Write lines as code, in a fence that none of them closes.

    Example:
        >>> print(fenced("a\n```\nb"))
        ````
        a
        ```
        b
        ````
    """
    shown = harmless(text, keep="\n\t")
    fence = "`" * max(3, _longest_run(shown) + 1)
    return f"{fence}{language}\n{shown}\n{fence}"


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)

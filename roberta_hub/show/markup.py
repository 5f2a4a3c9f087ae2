"""Makes text from outside harmless, and builds HTML of it; no other module writes markup."""

from __future__ import annotations

import html
import unicodedata
from dataclasses import dataclass

TAGS = frozenset({"div", "span", "table", "tr", "td", "img"})
"""All tags that a display has."""
ATTRIBUTES = frozenset({"style", "title", "dir", "src", "alt", "width", "height"})
"""All attributes that a display has; `src` holds a picture itself, as a data: address."""
_JOINERS = "\u200c\u200d"
"""Persian words and emoji of several parts need them, and they reorder nothing."""


@dataclass(frozen=True)
class Html:
    """Markup that `element` has built; all else is text, and is escaped."""

    markup: str

    def __str__(self) -> str:
        return self.markup


def harmless(text: object, keep: str = "") -> str:
    r"""Write the characters of a text that would be obeyed or hidden as their escapes.

    These are control characters, line separators, marks that turn the direction of writing around,
    and halves of surrogate pairs.

    Example:
        >>> harmless("a\u202eb\x1b naïve")
        'a\\u202eb\\x1b naïve'
    """
    text = str(text)
    if text.isprintable():  # most are
        return text
    return "".join(
        c
        if c.isprintable() or c in keep or c in _JOINERS or unicodedata.category(c) == "Zs"
        # Spaces of other widths count as not printable, and do no harm.
        else ascii(c)[1:-1]
        for c in text
    )


def element(tag: str, *children: Html | str, keep: str = "", **attributes: str) -> Html:
    """Build an element. Children and values of attributes are escaped, unless they are `Html`.

    Example:
        >>> print(element("span", "a < b", title='"'))
        <span title="&quot;">a &lt; b</span>
    """
    assert tag in TAGS and ATTRIBUTES.issuperset(attributes), (tag, attributes)
    given = "".join(
        f' {name}="{html.escape(harmless(value, keep=chr(10)))}"'
        for name, value in attributes.items()
        if value
    )
    if tag == "img":
        return Html(f"<img{given}>")
    inner = "".join(
        child.markup if isinstance(child, Html) else html.escape(harmless(child, keep), quote=False)
        for child in children
    )
    return Html(f"<{tag}{given}>{inner}</{tag}>")

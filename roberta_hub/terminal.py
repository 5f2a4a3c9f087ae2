"""Makes text harmless for a terminal, measures it, and shows a progress bar where tqdm is there."""

from __future__ import annotations

import os
import re
import unicodedata
import warnings
from typing import Any


def clean(text: object) -> str:
    r"""Escape the characters of a text from outside that a terminal would obey or hide.

    Example:
        >>> clean("a\x1b[31m")
        'a\\x1b[31m'
    """
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in str(text))


def width_of(text: str) -> int:
    """Width of a text in terminal columns.

    Example:
        >>> width_of("naïve"), width_of("漢字"), width_of("e\u0301")
        (5, 4, 1)
    """
    if text.isascii():
        return len(text)
    return sum(map(_width, text))


def _width(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def without_secrets(url: object) -> str:
    """Hide user, password and query of a URL; each of them can be a credential.

    Example:
        >>> without_secrets("http://me:word@proxy:3128/?key=1")
        'http://***@proxy:3128/?***'
    """
    hidden = re.sub(r"^([a-z][\w+.-]*://)?.*@", r"\1***@", clean(url), flags=re.IGNORECASE)
    return re.sub(r"\?.*", "?***", hidden)


URL_VARIABLES = (
    "ROBERTA_HUB_MIRROR",
    "HF_ENDPOINT",
    "HTTPS_PROXY",
    "https_proxy",
    "HTTP_PROXY",
    "http_proxy",
    "ALL_PROXY",
    "all_proxy",
)
"""Variables of the environment that hold a URL, perhaps with a password."""
_USER = re.compile(r"([a-z][\w+.-]+:/+)[^\s<>]*@", re.IGNORECASE)
_QUERY = re.compile(
    r"([a-z][\w+.-]+:/+[^\s?'\"<>]*|url: [^\s?]*)\?[^\s'\"<>)\]]*[^\s'\"<>)\]:;,.]", re.IGNORECASE
)
"""The query of a URL, and that of urllib3's "with url: /path?query"."""


def without_secrets_in(text: str) -> str:
    """Hide users, passwords and queries of all URLs in a sentence, and those of the environment.

    Example:
        >>> without_secrets_in("'https://me:word@host/a?key=1' answered 500")
        "'https://***@host/a?***' answered 500"
    """
    if "@" not in text and "?" not in text:
        return text
    for name in URL_VARIABLES:
        value = os.environ.get(name, "")
        if value in text and (hidden := without_secrets(value)) != value:
            text = text.replace(value, hidden)
    return _QUERY.sub(r"\1?***", _USER.sub(r"\1***@", text))


def progress_bar(
    total: int | None, *, unit: str, shown: bool | None, start: int = 0, label: str | None = None
) -> Any:
    """Make a progress bar, which shows nothing where tqdm is not installed.

    Example:
        >>> with progress_bar(3, unit=" files", shown=False) as bar:
        ...     bar.update(1)
    """
    if shown is False:
        return _NoBar()
    try:
        bar = bar_class()
    except ImportError:  # torch.hub's users may lack it: the work is done without
        return _NoBar()
    # tqdm's own None: off unless stderr is a terminal
    hidden = None if shown is None else False
    return bar(total=total, initial=start, desc=label, unit=unit, unit_scale=True, disable=hidden)


def bar_class() -> Any:
    """Return tqdm's bar: of HTML in a notebook that has ipywidgets, else of text.

    tqdm would warn of a notebook without ipywidgets, even where no bar is shown.

    Example:
        >>> bar_class()(total=3, disable=True).total
        3
    """
    from tqdm import TqdmWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TqdmWarning)
        from tqdm.auto import tqdm
    return tqdm


class _NoBar:
    def __enter__(self) -> _NoBar:
        return self

    def __exit__(self, *error: object) -> None: ...

    def update(self, n: int) -> None: ...

    def set_description_str(self, text: str) -> None: ...

"""What people see in a terminal: harmless text, and a progress bar where tqdm is installed."""

from __future__ import annotations

import re
from typing import Any


def clean(text: object) -> str:
    r"""Text from outside, without what a terminal would obey or hide.

    Example:
        >>> clean("a\x1b[31m")
        'a\\x1b[31m'
    """
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in str(text))


def without_secrets(url: object) -> str:
    """A URL without user, password and query, all of which can be credentials.

    Example:
        >>> without_secrets("http://me:word@proxy:3128/?key=1")
        'http://***@proxy:3128/?***'
    """
    hidden = re.sub(r"^([a-z][\w+.-]*://)?.*@", r"\1***@", clean(url), flags=re.IGNORECASE)
    return re.sub(r"\?.*", "?***", hidden)


def progress_bar(
    total: int | None, *, unit: str, shown: bool | None, start: int = 0, label: str | None = None
) -> Any:
    """A bar to use in `with` and to `update(n)`, as tqdm's.

    Args:
        total: where it ends, None: unknown.
        unit: what is counted.
        shown: None: only where somebody is looking at a terminal.
        start: what was done before.
        label: stands in front.
    """
    if shown is False:
        return _NoBar()
    try:
        from tqdm.auto import tqdm
    except ImportError:  # torch.hub's users may lack it: the work is done without
        return _NoBar()
    # tqdm's own None: off where nobody is looking at a terminal
    hidden = None if shown is None else False
    return tqdm(total=total, initial=start, desc=label, unit=unit, unit_scale=True, disable=hidden)


class _NoBar:
    def __enter__(self) -> _NoBar:
        return self

    def __exit__(self, *error: object) -> None: ...

    def update(self, n: int) -> None: ...

"""Tells text and archives from weights before anybody reads them."""

from __future__ import annotations

import codecs
import os
from pathlib import Path

_SAMPLE = 4096
"""Bytes by which text is recognized."""
_SHORTEST = 16
"""Bytes below which nothing is called text: a damaged file may begin with a few letters."""


def text_kind(path: Path) -> str | None:
    """What sort of text a file holds, in words; None: it is not text, or cannot be read."""
    try:
        with open(path, "rb") as file:
            head = file.read(_SAMPLE)
    except OSError:
        return None
    if len(head) < _SHORTEST:
        return None
    utf16 = head.startswith((b"\xff\xfe", b"\xfe\xff"))  # as spreadsheets write it
    decoder = codecs.getincrementaldecoder("utf-16" if utf16 else "utf-8-sig")()
    try:
        text = decoder.decode(head)  # the sample may end within a character
    except UnicodeDecodeError:
        return None
    if any(character < " " and character not in "\t\n\r\f" for character in text):
        return None
    lines = text.splitlines()
    first = lines[0] if lines else ""
    if first.lstrip()[:1] in ("{", "["):
        return "JSON text"
    for separator, name in (("\t", "tab-separated"), (";", "semicolon-separated"), (",", "CSV")):
        columns = {line.count(separator) for line in lines[: max(1, len(lines) - 1)]}
        if columns != {0} and len(columns) == 1:
            return f"a table ({name} text)"
    return "plain text"


def is_archive(path: str | os.PathLike[str]) -> bool:
    """Whether a name is that of an archive we unpack.

    Example:
        >>> is_archive("roberta.base.tar.gz"), is_archive("model.pt")
        (True, False)
    """
    return os.fspath(path).endswith((".tar.gz", ".tgz"))

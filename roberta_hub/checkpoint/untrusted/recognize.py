"""Recognizes by its first bytes what kind of file a path holds."""

from __future__ import annotations

import codecs
from pathlib import Path

from roberta_hub.checkpoint.foreign import reader_of
from roberta_hub.errors import CheckpointError
from roberta_hub.files import check_regular

_SAMPLE = 4096
"""Bytes that are looked at to recognize text."""
_SHORTEST = 16
"""Fewest bytes that are called text: a damaged file may begin with a few letters."""


def recognize(path: Path) -> str:
    """Tell torch's zip files from its legacy format of before 2020."""
    if not path.is_file():
        if not path.is_dir():
            check_regular(path)
        what = "is a directory" if path.is_dir() else "does not exist"
        raise CheckpointError(f"Model file not found: {path} {what}")
    try:
        with open(path, "rb") as file:
            head = file.read(512)
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror}") from None
    start = head.lstrip().lower()
    if head.startswith(b"version https://git-lfs"):
        found = "a git-lfs pointer, not the file itself; run `git lfs pull`"
    elif start.startswith((b"<!doctype", b"<html", b"<?xml")):
        found = "a web page; the download was answered by a login or error page"
    elif head.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ")):
        found = "a compressed archive; give its path to load_model, or unpack it first"
    elif head[257:262] == b"ustar":
        found = "a tar archive that is not compressed; unpack it and give its folder"
    elif reader := reader_of(path.name):
        found = f"a file that only {reader} reads; fetch model.safetensors of the same model"
    elif not head.strip(b"\0"):
        found = f"empty: {path.stat().st_size} bytes, all zeros; the write was interrupted"
    else:
        return "zip" if head.startswith(b"PK") else "legacy"
    raise CheckpointError(f"{path} is {found}")


def text_kind(path: Path) -> str | None:
    """Say in words what sort of text a file holds; None: it is no text, or cannot be read."""
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

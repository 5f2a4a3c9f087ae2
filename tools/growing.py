"""Reads and writes tab-separated files that grow line by line, so that a stopped step goes on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TextIO


def lines(file: Path) -> list[list[str]]:
    """Read the whole lines of a tab-separated file; none where it is not there."""
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    return [line.split("\t") for line in text.split("\n")[:-1]]


def growing(file: Path) -> TextIO:
    """Open a file to write more lines; the last one goes where it was cut."""
    if file.is_file():
        whole = file.read_bytes().rfind(b"\n") + 1
        os.truncate(file, whole)
    return file.open("a", encoding="utf-8", newline="")

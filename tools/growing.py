"""Reads and writes tab-separated files that grow line by line, so that a stopped step resumes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TextIO


def lines(file: Path) -> list[list[str]]:
    """Read the whole lines of a tab-separated file; none where it is not there."""
    found = file.read_bytes() if file.is_file() else b""
    whole = found[: found.rfind(b"\n") + 1].decode()  # the last line may end within a letter
    return [line.split("\t") for line in whole.split("\n")[:-1]]


def growing(file: Path) -> TextIO:
    """Open a file to write more lines; the last one goes where it was cut."""
    if file.is_file():
        whole = file.read_bytes().rfind(b"\n") + 1
        os.truncate(file, whole)
    return file.open("a", encoding="utf-8", newline="")

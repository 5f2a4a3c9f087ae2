"""Finds the files of a source, on a disk or in an object store."""

from __future__ import annotations

import contextlib
import gzip
import lzma
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import takewhile
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from roberta_hub.arguments import path_text, short_repr
from roberta_hub.errors import InputError
from roberta_hub.rows.lines import UNPACKING_ERRORS
from roberta_hub.rows.tables import format_of
from roberta_hub.rows.values import is_utf8
from roberta_hub.scale.columns import arrow
from roberta_hub.terminal import without_secrets

FORMATS = ("parquet", "jsonl", "csv")
NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""How Hive, Spark and Arrow name the folder of rows without a value."""
_WILD = "*?["


@dataclass(frozen=True)
class SourceFile:
    """State of a file when the source was listed."""

    path: str
    """Path on the source's file system."""
    size: int
    changed: int
    """Modification time in nanoseconds; 0 if unknown."""


@dataclass(frozen=True)
class LakeSource:
    """Input files of a lake, of one format."""

    system: Any
    """pyarrow's FileSystem."""
    format: str
    files: tuple[SourceFile, ...]
    folders: tuple[str, ...] = ()
    """Folders that were listed recursively."""
    patterns: tuple[str, ...] = ()


def find_filesystem(where: object, name: str) -> tuple[Any, str]:
    """Find the file system of a path or an address."""
    fs, text = arrow().fs, path_text(name, where)
    if not text or "\0" in text or not is_utf8(text):
        raise InputError(f"{name} is {short_repr(text)}, which is no path")
    if "://" not in text:
        return fs.LocalFileSystem(), os.path.abspath(os.path.expanduser(text))
    try:
        system, path = fs.FileSystem.from_uri(text)
    except Exception as error:  # Arrow's, of a store that is not reached, or not known
        raise InputError(f"{without_secrets(text)} cannot be opened: {str(error)[:300]}") from None
    return system, path.rstrip("/")


def find_source(source: object) -> LakeSource:
    """List the files of a source."""
    several = [source] if isinstance(source, (str, os.PathLike)) else source
    if not isinstance(several, (list, tuple)) or not several:
        raise InputError(
            f"source is {short_repr(source)}; pass a path, an address, or a list of them"
        )
    places = [find_filesystem(place, "source") for place in several]
    system = places[0][0]
    if any(other != system for other, _ in places):
        raise InputError("the files of a source are in one store; make a lake of each")
    files = _without_links(
        {info.path: info for _, path in places for info in _matching_files(system, path)}, system
    )
    formats: dict[str, str] = {}
    for path in sorted(files):
        formats.setdefault(_format(path), path)
    if len(formats) > 1:
        raise InputError(
            "the files of a source have one format, and there are "
            + " and ".join(formats.values())
            + "; name them with a pattern: 'folder/*.parquet'"
        )
    found = (SourceFile(path, info.size, changed(info)) for path, info in sorted(files.items()))
    kind = arrow().fs.FileType
    kinds = {path: system.get_file_info(path).type for _, path in places}
    folders = tuple(path for path, what in kinds.items() if what == kind.Directory)
    patterns = tuple(path for path, what in kinds.items() if what == kind.NotFound)
    return LakeSource(system, next(iter(formats)), tuple(found), folders, patterns)


def would_read(source: LakeSource, path: str) -> bool:
    """Whether a source would list a file that does not exist yet."""
    return any(path.startswith(f"{folder}/") for folder in source.folders) or any(
        _matches(path.split("/"), pattern.split("/")) for pattern in source.patterns
    )


def partition_values(source: LakeSource, path: str) -> dict[str, str | None]:
    """Read the values that the folders of a file name, as `year=2020/` does; None is a null.

    Only folders below those that were listed count, or below a pattern's first folders.

    Example:
        >>> source = LakeSource(None, "csv", (), folders=("/a=1/in",), patterns=("/x/b=*/*.csv",))
        >>> partition_values(source, "/a=1/in/year=2020/to%20do=a%2Fb/part.csv")
        {'year': '2020', 'to%20do': 'a/b'}
        >>> partition_values(source, f"/x/b={NULL_PARTITION}/1.csv")
        {'b': None}
    """
    roots = [*source.folders, *("/".join(_fixed_parts(text)) for text in source.patterns)]
    root = min((root for root in roots if path.startswith(f"{root}/")), key=len, default=None)
    if root is None:
        return {}
    pairs = (part.partition("=") for part in path[len(root) + 1 :].split("/")[:-1])
    return {
        name: None if value == NULL_PARTITION else unquote(value)
        for name, equals, value in pairs
        if name and equals
    }


def _fixed_parts(pattern: str) -> list[str]:
    """Return the folders of a pattern that come before its first wildcard."""
    return list(takewhile(lambda part: not any(c in part for c in _WILD), pattern.split("/")))


def _without_links(files: dict[str, Any], system: Any) -> dict[str, Any]:
    """Drop duplicates by symbolic links: a link to a parent folder repeats its files 40 times."""
    if system.type_name != "local":
        return files
    real = {os.path.realpath(path): path for path in sorted(files, reverse=True)}
    return {path: files[path] for path in real.values()}


def changed(info: Any) -> int:
    """Modification time of a file, in nanoseconds; 0 if unknown."""
    return int(info.mtime_ns or 0) if info.mtime is not None else 0


def _matching_files(system: Any, path: str) -> list[Any]:
    """Return the files of a path, a folder or a pattern."""
    kind = arrow().fs.FileType
    info = system.get_file_info(path)
    if info.type == kind.File:
        return [info]
    if info.type == kind.Directory:
        found = [i for i in _files_below(system, path, True) if _is_visible(i.path[len(path) :])]
        if not found:
            raise InputError(f"{path}: a folder with no files to read")
        return found
    parts = path.split("/")
    wild = len(_fixed_parts(path))
    if wild == len(parts):
        raise InputError(f"{path}: no such file or folder")
    base = "/".join(parts[:wild])
    deep = len(parts) > wild + 1 or parts[wild] == "**"
    found = [
        i
        for i in _files_below(system, base or "/", deep)
        if _matches(i.path.split("/")[wild:], parts[wild:])
    ]
    if not found:
        raise InputError(f"{path}: no file matches this pattern")
    return found


def _files_below(system: Any, folder: str, deep: bool) -> list[Any]:
    fs = arrow().fs
    selector = fs.FileSelector(folder, recursive=deep, allow_not_found=True)
    try:
        found = [info for info in system.get_file_info(selector) if info.type == fs.FileType.File]
        return [info for info in found if info.path]
    except UnicodeDecodeError:
        raise InputError(f"{folder}: a file's name is not UTF-8; give it another") from None


def _is_visible(path: str) -> bool:
    """Whether a file of a folder is read: names that begin with _ or . are other programs'."""
    return not any(part.startswith(("_", ".")) for part in path.split("/"))


def _matches(parts: Sequence[str], patterns: Sequence[str]) -> bool:
    """Whether the parts of a path match a pattern; `**` is any number of parts.

    Example:
        >>> _matches(["a", "b", "c.csv"], ["**", "*.csv"]), _matches(["a", "c.csv"], ["*.csv"])
        (True, False)
    """
    if not patterns:
        return not parts
    if patterns[0] == "**":
        return any(_matches(parts[k:], patterns[1:]) for k in range(len(parts) + 1))
    return bool(parts) and fnmatchcase(parts[0], patterns[0]) and _matches(parts[1:], patterns[1:])


def _format(path: str) -> str:
    """Format of a file by its name."""
    format = format_of(Path(path))
    if format not in FORMATS:
        raise InputError(
            f"{path}: a lake is read from .parquet, .jsonl and .csv; convert it, or name the files "
            "with a pattern: 'folder/*.parquet'"
        )
    return format


def is_packed(path: str) -> bool:
    """Whether a file is compressed text, which is read from its begin to its end."""
    return path.lower().endswith((".gz", ".xz"))


@contextlib.contextmanager
def opened_file(source: LakeSource, path: str) -> Iterator[Any]:
    """Open a file of a source for reading from any place; `.gz` and `.xz` are unpacked."""
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(source.system.open_input_file(path))
        if is_packed(path):
            unpack = lzma.open if path.lower().endswith(".xz") else gzip.open
            file = stack.enter_context(unpack(file))
        yield file


def is_empty(source: LakeSource, file: SourceFile) -> bool:
    """Whether a file holds no byte; engines write such files, without a header."""
    if not file.size or not is_packed(file.path):
        return not file.size
    try:
        with opened_file(source, file.path) as handle:
            return not handle.read(1)
    except UNPACKING_ERRORS as error:
        raise unreadable(file.path, error) from None


def unreadable(path: str, error: Exception) -> InputError:
    """Make the error for a file that cannot be read."""
    why = " ".join(str(error).split())[:200]
    return InputError(f"{path}: cannot be read: {why}")

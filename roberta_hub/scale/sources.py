"""Finds the files of a source, on a disk or in an object store, and what columns they have."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from roberta_hub.arguments import path_text, shown
from roberta_hub.errors import InputError
from roberta_hub.scale.columns import arrow
from roberta_hub.scale.frames import chosen, is_utf8
from roberta_hub.tables import MAX_FIELD, csv_trouble, format_of
from roberta_hub.terminal import without_secrets

FORMATS = ("parquet", "jsonl", "csv")
LOOK = 1000
"""Objects of a JSONL file that say which columns there are, and of which type."""
_WILD = "*?["


@dataclass(frozen=True)
class SourceFile:
    """A file as it was when the source was listed."""

    path: str
    """On the source's file system."""
    size: int
    changed: int
    """In nanoseconds; 0 where the system does not tell."""


@dataclass(frozen=True)
class Source:
    """Files of one format."""

    system: Any
    """pyarrow's FileSystem."""
    format: str
    files: tuple[SourceFile, ...]
    folders: tuple[str, ...] = ()
    """That were listed, with all in them."""


@dataclass(frozen=True)
class Layout:
    """What is read of each file: the same for all."""

    text: tuple[str, ...]
    """Columns with the texts."""
    keep: Any
    """Schema of the columns that are written beside the answers."""
    header: tuple[str, ...] = ()
    """All columns of a CSV, in their order; of JSONL those that may come where all are kept."""
    separator: str = ","


def located(where: object, name: str) -> tuple[Any, str]:
    """Find the file system of a path or an address.

    Args:
        where: a path on this machine, or an address that pyarrow.fs knows: s3://, gs://, hdfs://,
            file://.
        name: of the argument, for errors.

    Returns:
        (pyarrow's FileSystem, the path on it).

    Raises:
        InputError: no such kind of address, or it cannot be reached.
    """
    fs, text = arrow().fs, path_text(name, where)
    if not text or "\0" in text or not is_utf8(text):
        raise InputError(f"{name} is {shown(text)}, which is no path")
    if "://" not in text:
        return fs.LocalFileSystem(), os.path.abspath(os.path.expanduser(text))
    try:
        system, path = fs.FileSystem.from_uri(text)
    except Exception as error:  # Arrow's, of a store that is not reached, or not known
        raise InputError(f"{without_secrets(text)} cannot be opened: {str(error)[:300]}") from None
    return system, path.rstrip("/")


def find(source: object) -> Source:
    """List the files of a source.

    Args:
        source: a file, a folder, a pattern (`in/*.parquet`, `**` for any depth), an address; or a
            list of these.

    Raises:
        InputError: nothing is there, files of several formats, or a file that is no table.
    """
    several = [source] if isinstance(source, (str, os.PathLike)) else source
    if not isinstance(several, (list, tuple)) or not several:
        raise InputError(f"source is {shown(source)}; pass a path, an address, or a list of them")
    places = [located(place, "source") for place in several]
    system = places[0][0]
    if any(other != system for other, _ in places):
        raise InputError("the files of a source lie in one store; make a lake of each")
    files = {info.path: info for _, path in places for info in _listed(system, path)}
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
    kind = arrow().fs.FileType.Directory
    folders = tuple(path for _, path in places if system.get_file_info(path).type == kind)
    return Source(system, next(iter(formats)), tuple(found), folders)


def changed(info: Any) -> int:
    """Tell when a file was changed last, in nanoseconds; 0 where the system does not tell."""
    return int(info.mtime_ns or 0) if info.mtime is not None else 0


def _listed(system: Any, path: str) -> list[Any]:
    """Return the files that a path, a folder or a pattern means."""
    kind = arrow().fs.FileType
    info = system.get_file_info(path)
    if info.type == kind.File:
        return [info]
    if info.type == kind.Directory:
        found = [i for i in _below(system, path, True) if _is_seen(i.path[len(path) :])]
        if not found:
            raise InputError(f"{path}: a folder with no files to read")
        return found
    parts = path.split("/")
    wild = next((k for k, part in enumerate(parts) if any(c in part for c in _WILD)), None)
    if wild is None:
        raise InputError(f"{path}: no such file or folder")
    base = "/".join(parts[:wild])
    deep = len(parts) > wild + 1 or parts[wild] == "**"
    found = [
        i
        for i in _below(system, base or "/", deep)
        if _matches(i.path.split("/")[wild:], parts[wild:])
    ]
    if not found:
        raise InputError(f"{path}: no file matches this pattern")
    return found


def _below(system: Any, folder: str, deep: bool) -> list[Any]:
    fs = arrow().fs
    selector = fs.FileSelector(folder, recursive=deep, allow_not_found=True)
    return [info for info in system.get_file_info(selector) if info.type == fs.FileType.File]


def _is_seen(path: str) -> bool:
    """Tell whether a file of a folder counts: names with _ or . in front are other programs'."""
    return not any(part.startswith(("_", ".")) for part in path.split("/"))


def _matches(parts: Sequence[str], patterns: Sequence[str]) -> bool:
    """Tell whether the parts of a path match those of a pattern; `**` is any number of parts.

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
    """Tell the format of a file by its name."""
    format = format_of(Path(path))
    if format not in FORMATS:
        raise InputError(
            f"{path}: a lake is read from .parquet, .jsonl and .csv; convert it, or name the files "
            "with a pattern: 'folder/*.parquet'"
        )
    if format != "parquet" and path.lower().endswith((".gz", ".xz")):
        raise InputError(
            f"{path}: a compressed text cannot be read from its middle; unpack it, or convert it "
            "to Parquet"
        )
    return format


# ---- columns ----


def layout_of(source: Source, text: tuple[str, ...], keep: Sequence[str] | None) -> Layout:
    """Tell what is read of the files, by the first of them.

    Args:
        source: the files.
        text: columns with the texts; none: `text`, or the only one.
        keep: columns to write beside the answers; None: all.

    Raises:
        UnknownNameError: no such column.
        InputError: a column is no text, or a file cannot be read.
    """
    path = next((file.path for file in source.files if file.size), source.files[0].path)
    header: tuple[str, ...] = ()
    separator = ","
    if source.format == "parquet":
        fields = plain_schema(parquet_schema(source, path))
    elif source.format == "csv":
        header, separator = csv_header(source, path)
        fields = arrow().schema([(name, arrow().string()) for name in header])
    else:
        rows = _first_objects(source, path)
        empty = dict.fromkeys((*text, *(keep or ())))  # of no rows the caller alone knows columns
        fields = _json_fields(rows or [empty])
        header = tuple(fields.names) if keep is None else ()
    named = chosen(fields.names, text, path)
    kept = fields.names if keep is None else chosen(fields.names, tuple(keep), path) if keep else ()
    if source.format == "parquet":
        check_text(fields, named, path)
    layout = arrow().schema([fields.field(name) for name in kept])
    return Layout(named, layout, header, separator)


def opened_file(source: Source, path: str) -> Any:
    """Open a file of a source for reading from any place; closed by `with`."""
    return source.system.open_input_file(path)


def unreadable(path: str, error: Exception) -> InputError:
    """Make the error for a file that cannot be read."""
    why = " ".join(str(error).split())[:200]
    return InputError(f"{path}: cannot be read: {why}")


def parquet_schema(source: Source, path: str) -> Any:
    """Read the Arrow schema of a Parquet file."""
    try:
        with opened_file(source, path) as handle:
            return arrow().parquet.ParquetFile(handle).schema_arrow
    except Exception as error:  # Arrow's errors have no common class but OSError and ValueError
        raise unreadable(path, error) from None


def plain_schema(schema: Any) -> Any:
    """Return a schema with one type for each kind of text, and without notes.

    pandas, polars and Daft write the same text as string, large_string, string_view or dictionary.
    """
    pa = arrow()

    def plain(kind: Any) -> Any:
        if pa.types.is_dictionary(kind):
            return plain(kind.value_type)
        if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
            return pa.string()
        if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
            return pa.binary()
        return kind

    return pa.schema([(field.name, plain(field.type)) for field in schema])


def check_text(fields: Any, names: Sequence[str], path: str) -> None:
    """Refuse columns that hold something else than text.

    Args:
        fields: what `plain_schema` gave.
        names: of the columns with the texts.
        path: of the file, for the message.
    """
    pa = arrow()
    for name in names:
        kind = fields.field(name).type
        if not (pa.types.is_string(kind) or pa.types.is_null(kind)):
            raise InputError(f"{path}: the column {shown(name)} holds {kind}, not texts")


def check_file(fields: Any, layout: Layout, path: str) -> None:
    """Refuse a Parquet file whose columns differ from those of the first.

    Args:
        fields: what `plain_schema` gave of it.
        layout: what is read of each file.
        path: of the file, for the message.
    """
    chosen(fields.names, (*layout.text, *layout.keep.names), path)
    check_text(fields, layout.text, path)
    for field in layout.keep:
        if (kind := fields.field(field.name).type) != field.type:
            raise InputError(
                f"{path}: the column {shown(field.name)} holds {kind}, and {field.type} in the "
                "first file; the files of a source have the same columns"
            )


def _head(source: Source, path: str) -> bytes:
    """Read the begin of a text file, which is refused where it is UTF-16."""
    try:
        with opened_file(source, path) as handle:
            head = bytes(handle.read(MAX_FIELD))
    except OSError as error:
        raise unreadable(path, error) from None
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError(f"{path}: not UTF-8 but UTF-16; convert it: iconv -f UTF-16 -t UTF-8")
    return head


def csv_header(source: Source, path: str) -> tuple[tuple[str, ...], str]:
    """Read a CSV's header: its columns, and what separates them.

    Raises:
        InputError: no header, or a name comes twice.
    """
    head = _head(source, path)
    try:
        text = head.decode("utf-8-sig", errors="surrogateescape")
        bare = re.sub(r'"[^"]*"', "", text.partition("\n")[0])
        separator = next((sign for sign in ",;\t" if sign in bare), ",")
        lines = io.StringIO(text, newline="\n")  # nothing else ends a line
        names = next(csv.reader(lines, delimiter=separator, strict=True), [])
    except csv.Error as error:
        raise InputError(f"{path}:1: {csv_trouble(error)}") from None
    if not names or len(set(names)) < len(names):
        what = "no header" if not names else "two columns of the same name in the header"
        raise InputError(f"{path}:1: {what}")
    if not all(map(is_utf8, names)):
        raise InputError(f"{path}:1: not UTF-8; convert the file")
    return tuple(names), separator


def _first_objects(source: Source, path: str) -> list[dict[str, Any]]:
    """Read the first objects of a JSONL file; lines that are none are said when they are read."""
    lines = _head(source, path).removeprefix(b"\xef\xbb\xbf").split(b"\n")
    rows = []
    for line in lines[:LOOK]:
        with contextlib.suppress(ValueError, RecursionError):
            rows.append(json.loads(line))
    return [row for row in rows if isinstance(row, dict)]


def _json_fields(rows: Sequence[dict[str, Any]]) -> Any:
    """Tell a type for each key: of Arrow where all values have one, else JSON as a string."""
    pa = arrow()
    names = dict.fromkeys(name for row in rows for name in row)

    def kind(name: str) -> Any:
        found = {type(row.get(name)) for row in rows} - {type(None)}
        if found == {int}:
            return pa.int64()
        if found and found <= {int, float}:
            return pa.float64()
        return pa.bool_() if found == {bool} else pa.string()

    return pa.schema([(name, kind(name)) for name in names])


def json_text(value: object) -> str:
    """Write a value of a column of texts: a str as it is, all else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

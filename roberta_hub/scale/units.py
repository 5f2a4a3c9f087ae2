"""Cuts a source into units of work: Parquet by rows, JSONL and CSV by bytes that end with a row."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate, chain, islice
from typing import Any

from roberta_hub.errors import InputError, RobertaHubError
from roberta_hub.rows.delimited import row_ends
from roberta_hub.rows.lines import MARK, MAX_ROW
from roberta_hub.scale.columns import arrow
from roberta_hub.scale.layouts import Layout, check_fields, check_objects, header_of
from roberta_hub.scale.sources import Source, SourceFile, opened_file, unreadable

BLOCK = 1 << 23
"""Bytes of a text file that are looked at together."""
READERS = 16
"""Parquet files whose footers are read at once; an object store answers each after a while."""


@dataclass(frozen=True)
class Unit:
    """Names a part of one file: what is done together, and makes one file of answers."""

    number: int
    file: str
    """Path on the source's file system."""
    size: int
    """Bytes of the whole file when it was planned."""
    changed: int
    """When it was changed last, in nanoseconds."""
    start: int
    """First row of Parquet, from 0; of text the first byte."""
    stop: int
    """One past the last."""
    first: int
    """Number of its first row, or line, for messages; from 1."""
    rows: int
    """Rows; of text, what ends like one: blank lines too."""


def units_of(source: Source, layout: Layout, unit_rows: int) -> list[Unit]:
    """Plan the units of a source.

    Every file is cut by itself, so that a unit has one file. Parquet says in its footer how many
    rows it has. Text is read once from end to end, since a row's end is found in no other way.

    Args:
        source: files of one format.
        layout: what is read of them; each file is held against it.
        unit_rows: about so many rows make a unit.

    Raises:
        InputError: a file that cannot be read.
    """
    cut = _parquet_cuts if source.format == "parquet" else _text_cuts
    with ThreadPoolExecutor(READERS if source.format == "parquet" else 1) as pool:
        found = pool.map(lambda file: cut(source, layout, file, unit_rows), source.files)
        parts = list(chain.from_iterable(found))
    parts = parts or [(source.files[0], (0, 0, 1, 0))]  # of no rows: a file with the columns
    return [
        Unit(number, file.path, file.size, file.changed, *part)
        for number, (file, part) in enumerate(parts)
    ]


Part = tuple[SourceFile, tuple[int, int, int, int]]
"""A file, and start, stop, first and rows of a unit."""


def _parquet_cuts(source: Source, layout: Layout, file: SourceFile, unit_rows: int) -> list[Part]:
    try:
        with opened_file(source, file.path) as handle:
            opened = arrow().parquet.ParquetFile(handle)
            footer, schema = opened.metadata, opened.schema_arrow
    except Exception as error:  # Arrow's errors have no common class but OSError and ValueError
        raise unreadable(file.path, error) from None
    check_fields(schema, layout, file.path)
    groups = [footer.row_group(k).num_rows for k in range(footer.num_row_groups)]
    ends = row_cuts(groups, unit_rows)
    return [
        (file, (start, stop, start + 1, stop - start))
        for start, stop in zip([0, *ends], ends, strict=False)
    ]


def row_cuts(groups: Sequence[int], unit_rows: int) -> list[int]:
    """Tell where the units of a Parquet file end: at a row group's end, where one is near.

    A group is read faster as a whole; one that is larger than a unit is cut.

    Args:
        groups: rows of each row group.
        unit_rows: about so many rows make a unit.

    Example:
        >>> row_cuts([40, 40, 40, 40], 80), row_cuts([250], 100), row_cuts([], 100)
        ([80, 160], [83, 166, 250], [])
    """
    rows = sum(groups)
    bounds = list(accumulate(groups))
    count = -(-rows // unit_rows)
    ends = []
    for k in range(1, count + 1):
        ideal = rows * k // count
        after = bisect_left(bounds, ideal)
        near = min(bounds[max(0, after - 1) : after + 1], key=lambda bound: abs(bound - ideal))
        ends.append(near if abs(near - ideal) <= unit_rows // 4 else ideal)
    return sorted({*ends} - {0})


def _text_cuts(source: Source, layout: Layout, file: SourceFile, unit_rows: int) -> list[Part]:
    """Cut a file behind each `unit_rows`-th row; a newline in a CSV's quotes ends none."""
    if not file.size:
        return []  # as engines leave them, without a header
    parts: list[Part] = []
    separator = layout.separator if source.format == "csv" else None
    before = 0
    if separator:
        header = header_of(source, file.path)
        before = header.lines
        if (header.columns, header.separator) != (layout.header, separator):
            raise InputError(
                f"{file.path}:1: another header than that of the first file; the files of a source "
                "have the same columns"
            )
    else:
        check_objects(source, layout, file.path)
    try:
        with opened_file(source, file.path) as handle:
            start, line = _text_start(handle, before)
            handle.seek(start)
            offset = start  # of `data`, which begins with a row where quotes count
            rows = lines = 0
            data = last = b""
            opens = False
            while block := handle.read(BLOCK):
                data, last = data + block, block[-1:]
                ends, opens = row_ends(data, separator)
                seen = 0
                for end in ends[unit_rows - rows - 1 :: unit_rows]:
                    lines += data.count(b"\n", seen, end)
                    parts.append((file, (start, offset + end, line, unit_rows)))
                    start, line, lines, seen = offset + end, line + lines, 0, end
                rows = (rows + len(ends)) % unit_rows
                done = (ends[-1] if ends else 0) if separator else len(data)
                lines += data.count(b"\n", seen, done)
                offset, data = offset + done, data[done:]
                if len(data) > MAX_ROW:
                    break
    except RobertaHubError:
        raise
    except Exception as error:
        raise unreadable(file.path, error) from None
    if opens or len(data) > MAX_ROW:
        what = f"a row of more than {MAX_ROW:,} bytes"
        raise InputError(
            f"{file.path}:{line + lines}: "
            + ("a quote opens in this row that is never closed" if opens else what)
            + "; a quote inside a quoted field is doubled"
        )
    if offset + len(data) > start:
        parts.append((file, (start, offset + len(data), line, rows + (last != b"\n"))))
    return parts


def _text_start(handle: Any, lines: int) -> tuple[int, int]:
    """Tell at which byte and line a file's rows begin: behind a byte order mark, and a header.

    Args:
        handle: the open file.
        lines: of the header.
    """
    handle.seek(0)
    head = handle.read(BLOCK)
    if not lines:
        return len(MARK) if head.startswith(MARK) else 0, 1
    while head.count(b"\n") < lines and (block := handle.read(BLOCK)):
        head += block
    ends = [end.end() for end in islice(re.finditer(b"\n", head), lines)]
    return (ends[-1] if len(ends) == lines else len(head)), lines + 1

"""Cuts a source into units of work: Parquet by rows, JSONL and CSV by bytes that end with a row."""

from __future__ import annotations

import re
import sys
from bisect import bisect_left
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate, chain, islice
from typing import Any

from roberta_hub.errors import InputError, RobertaHubError
from roberta_hub.rows.delimited import row_ends
from roberta_hub.rows.lines import MAX_ROW_BYTES, UTF8_BOM
from roberta_hub.scale.columns import arrow
from roberta_hub.scale.source_schema import (
    FOOTER_READERS,
    SourceSchema,
    check_fields,
    check_objects,
    header_of,
)
from roberta_hub.scale.sources import (
    LakeSource,
    SourceFile,
    is_empty,
    is_packed,
    opened_file,
    unreadable,
)

SCAN_BYTES = 1 << 23
"""Bytes of a text file that are scanned at once."""


@dataclass(frozen=True)
class WorkUnit:
    """Range of rows of one file, whose answers make one file."""

    number: int
    file: str
    """Path on the source's file system."""
    size: int
    """Bytes of the whole file when it was planned."""
    changed: int
    """Modification time when it was planned, in nanoseconds."""
    start: int
    """First row (Parquet, from 0) or first byte (text)."""
    stop: int
    """One past the last row or byte."""
    first: int
    """Number of its first row or line, from 1, for messages."""
    rows: int
    """Number of rows; blank lines of a text file count."""


def plan_units(source: LakeSource, source_schema: SourceSchema, unit_rows: int) -> list[WorkUnit]:
    """Plan the units of a source.

    Every file is cut separately. The number of rows of a Parquet file is in its footer; a text file
    is scanned once for the ends of its rows.
    """
    parts: list[UnitRange] = []
    if source.format == "parquet":
        pool = ThreadPoolExecutor(FOOTER_READERS)
        try:
            found = pool.map(
                lambda file: _parquet_cuts(source, source_schema, file, unit_rows), source.files
            )
            parts += chain.from_iterable(found)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    else:  # here, where Ctrl-C ends it: a thread would continue to the end of its file
        for file in source.files:
            parts += _text_cuts(source, source_schema, file, unit_rows)
    parts = parts or [(source.files[0], (0, 0, 1, 0))]  # no rows: still a file with the columns
    return [
        WorkUnit(number, file.path, file.size, file.changed, *part)
        for number, (file, part) in enumerate(parts)
    ]


UnitRange = tuple[SourceFile, tuple[int, int, int, int]]
"""A file, and (start, stop, first, rows) of a unit."""


def _parquet_cuts(
    source: LakeSource, source_schema: SourceSchema, file: SourceFile, unit_rows: int
) -> list[UnitRange]:
    try:
        with opened_file(source, file.path) as handle:
            opened = arrow().parquet.ParquetFile(handle)
            footer, schema = opened.metadata, opened.schema_arrow
    except Exception as error:  # Arrow's errors have no common class but OSError and ValueError
        raise unreadable(file.path, error) from None
    check_fields(schema, source_schema, file.path)
    groups = [footer.row_group(k).num_rows for k in range(footer.num_row_groups)]
    ends = row_cuts(groups, unit_rows)
    return [
        (file, (start, stop, start + 1, stop - start))
        for start, stop in zip([0, *ends], ends, strict=False)
    ]


def row_cuts(groups: Sequence[int], unit_rows: int) -> list[int]:
    """Ends of the units of a Parquet file, at the end of a row group if one is near.

    Whole groups are read faster; a group that is larger than a unit is cut.

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


def _text_cuts(
    source: LakeSource, source_schema: SourceSchema, file: SourceFile, unit_rows: int
) -> list[UnitRange]:
    """Cut a file after each `unit_rows`-th row; a quoted newline of a CSV ends no row.

    A compressed file is one unit, since it is read from its begin.
    """
    if is_empty(source, file):
        return []
    unit_rows = sys.maxsize if is_packed(file.path) else unit_rows
    parts: list[UnitRange] = []
    separator = source_schema.separator if source.format == "csv" else None
    before = 0
    if separator:
        header = header_of(source, file.path)
        before = header.lines
        if (header.columns, header.separator) != (source_schema.header, separator):
            raise InputError(
                f"{file.path}:1: another header than that of the first file; the files of a source "
                "have the same columns"
            )
    else:
        check_objects(source, source_schema, file.path)
    try:
        with opened_file(source, file.path) as handle:
            start, line = _text_start(handle, before)
            handle.seek(start)
            offset = start  # of `data`, which begins with a row where quotes count
            rows = lines = 0
            data = last = b""
            opens = False
            while block := handle.read(SCAN_BYTES):
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
                if len(data) > MAX_ROW_BYTES:
                    break
    except RobertaHubError:
        raise
    except Exception as error:
        raise unreadable(file.path, error) from None
    if opens or len(data) > MAX_ROW_BYTES:
        what = f"a row of more than {MAX_ROW_BYTES:,} bytes"
        raise InputError(
            f"{file.path}:{line + lines}: "
            + ("a quote opens in this row that is never closed" if opens else what)
            + "; a quote inside a quoted field is doubled"
        )
    if offset + len(data) > start:
        parts.append((file, (start, offset + len(data), line, rows + (last != b"\n"))))
    return parts


def _text_start(handle: Any, lines: int) -> tuple[int, int]:
    """First byte and line of a file's rows, after a byte order mark and the header."""
    handle.seek(0)
    head = handle.read(SCAN_BYTES)
    if not lines:
        return len(UTF8_BOM) if head.startswith(UTF8_BOM) else 0, 1
    while head.count(b"\n") < lines and (block := handle.read(SCAN_BYTES)):
        head += block
    ends = [end.end() for end in islice(re.finditer(b"\n", head), lines)]
    return (ends[-1] if len(ends) == lines else len(head)), lines + 1

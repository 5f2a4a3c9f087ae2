"""Sinks for Parquet, and for vectors as numpy's .npy."""

from __future__ import annotations

import math
import struct
import sys
from array import array
from collections.abc import Sequence
from typing import Any, TextIO

from roberta_hub.errors import InputError, MissingExtraError
from roberta_hub.extras import install
from roberta_hub.rows.arrow import vector_note
from roberta_hub.shell.layout import AnsweredRow, Layout
from roberta_hub.verbs.question import Record

ROW_GROUP_ROWS = 8192
"""Rows per row group of a Parquet file."""
_KINDS = {"float32": "f4", "float16": "f2", "int8": "i1", "binary": "i1", "ubinary": "u1"}
"""numpy's names of the dtypes of vectors."""
NPY_HEADER_BYTES = 128
"""Bytes of the header of a .npy file."""


class ParquetSink:
    """Answers as Parquet, with vectors as fixed-size lists of their dtype."""

    def __init__(self, stream: TextIO, layout: Layout) -> None:
        """Write to the bytes of a stream."""
        try:
            import pyarrow.parquet
        except ImportError as error:
            raise MissingExtraError(
                f"Parquet needs pyarrow ({error}): {install('tables')}"
            ) from None
        self._arrow, self._file, self._layout = pyarrow, stream.buffer, layout
        self._rows: list[dict[str, Any]] = []
        self._writer: Any = None

    def write(self, rows: Sequence[AnsweredRow]) -> None:
        """Collect a row for each input, and write full row groups."""
        if self._writer is None:
            self._open(self._layout.example(rows))
        self._rows += [
            {**self._layout.beside(row.item), **as_lists(self._layout.answer(row))} for row in rows
        ]
        if len(self._rows) >= ROW_GROUP_ROWS:
            self._put()

    def close(self) -> None:
        """Write the last rows and the footer."""
        if self._writer is None:
            self._open(self._layout.answer_format.sample)
        if self._rows:
            self._put()
        self._writer.close()

    def _open(self, example: Record) -> None:
        """Begin the file, with the columns of a row."""
        arrow, layout = self._arrow, self._layout
        layout.check(list(example))
        sample = layout.answer_format.sample
        fields = [(name, arrow.string()) for name in layout.empty_beside()]
        if layout.kept is not None:
            fields = [(field.name, field.type) for field in layout.kept.schema]
        fields += [(name, self._type(example[name], sample.get(name))) for name in example]
        fields += [("error", arrow.string())] if layout.has_error_column else []
        own = layout.answer_format
        note = vector_note(own.vectors, own.ranges)
        fields = [
            arrow.field(name, kind, metadata=note if name == "vector" else None)
            for name, kind in fields
        ]
        self._writer = arrow.parquet.ParquetWriter(self._file, arrow.schema(fields))

    def _put(self) -> None:
        schema = self._writer.schema
        self._writer.write_table(self._arrow.Table.from_pylist(self._rows, schema=schema))
        self._rows = []

    def _type(self, value: Any, sample: Any) -> Any:
        """Arrow type of a column, from a value, or from the sample if it is empty or null."""
        arrow = self._arrow
        value = sample if value is None else value  # a label that is refused
        if isinstance(value, array):
            half = self._layout.answer_format.vectors == "float16"
            floats = arrow.float16() if half else arrow.float32()
            kinds = {"f": floats, "b": arrow.int8(), "B": arrow.uint8()}
            return arrow.list_(kinds[value.typecode], len(value))
        if isinstance(value, list):
            first = value[0] if value else (sample or [""])[0]
            return arrow.list_(self._type(first, sample[0] if sample else None))
        if isinstance(value, dict):
            inner = [(str(name), self._type(value[name], None)) for name in sorted(value)]
            return arrow.struct(inner)
        plain = {str: arrow.string(), int: arrow.int64(), float: arrow.float64()}
        return (plain | {bool: arrow.bool_()})[type(value)]


class NpySink:
    """Vectors as a .npy file of their dtype (numpy.lib.format, version 1.0)."""

    def __init__(self, stream: TextIO, layout: Layout) -> None:
        """Write to the bytes of a file, after room for the header."""
        self._file, self._layout = stream.buffer, layout
        self._shape = (0, 0)
        self._kind = _KINDS[layout.answer_format.vectors]
        self._file.write(b"\0" * NPY_HEADER_BYTES)

    def write(self, rows: Sequence[AnsweredRow]) -> None:
        """Write a vector for each input; NaN where there is no answer."""
        size = len(self._layout.example(rows)["vector"])
        missing = array("f", [math.nan] * size)
        for row in rows:
            if row.record is None and not self._kind.startswith("f"):
                raise InputError(
                    "no vector, and a .npy of bytes has no NaN for it; .parquet has null",
                    place=row.item.where,
                )
            vector = missing if row.record is None else row.record["vector"]
            if self._kind == "f2":
                self._file.write(struct.pack(f"={size}e", *vector))
            else:
                self._file.write(vector.tobytes())
        self._shape = (self._shape[0] + len(rows), size)

    def close(self) -> None:
        """Write the header, which has the shape."""
        order = "<" if sys.byteorder == "little" else ">"
        about = {"descr": f"{order}{self._kind}", "fortran_order": False, "shape": self._shape}
        magic = b"\x93NUMPY\x01\x00" + (NPY_HEADER_BYTES - 10).to_bytes(2, "little")
        self._file.seek(0)
        self._file.write(magic + repr(about).encode().ljust(NPY_HEADER_BYTES - 11) + b"\n")


def as_lists(value: Any) -> Any:
    """Convert vectors to lists.

    Example:
        >>> as_lists({"vector": array("f", [1, 2])})
        {'vector': [1.0, 2.0]}
    """
    if isinstance(value, dict):
        return {name: as_lists(inner) for name, inner in value.items()}
    return list(map(as_lists, value)) if isinstance(value, (list, array)) else value

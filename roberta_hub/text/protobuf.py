"""Reads and writes the fields of protocol buffers, of which a `.model` file is one.

A reader believes no length: a field that goes beyond its message is an error. Wire types that no
`.model` has, groups among them, are refused, so that nothing nests deeper than the caller reads.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TypeAlias

from roberta_hub.errors import VocabularyError

Value: TypeAlias = "int | float | bytes"
"""Value of a field: an integer, a 32-bit number, or the bytes of a text or message."""

_VARINT, _FIXED32, _BYTES = 0, 5, 2


def fields(data: bytes) -> Iterator[tuple[int, Value]]:
    """Yield the number and the value of each field of a message."""
    place = 0
    while place < len(data):
        number, value, place = field_at(data, place)
        yield number, value


def field_at(data: bytes, place: int) -> tuple[int, Value, int]:
    """Number and value of the field at an offset, and the offset after it."""
    key, place = _varint(data, place)
    number, kind = key >> 3, key & 7
    left = len(data) - place
    if kind == _VARINT:
        return number, *_varint(data, place)
    if kind == _FIXED32 and left >= 4:
        return number, *struct.unpack_from("<f", data, place), place + 4
    if kind == _BYTES:
        length, place = _varint(data, place)
        left = len(data) - place
        if length <= left:
            return number, data[place : place + length], place + length
        raise VocabularyError(f"field {number} has {length:,} bytes, and {left:,} are left")
    raise VocabularyError(f"field {number} has the wire type {kind}, or ends inside a number")


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """Integer at an offset, and the offset after it."""
    value = 0
    for shift in range(0, 70, 7):
        if place == len(data):
            raise VocabularyError("it ends inside a number")
        byte = data[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
    raise VocabularyError("it has a number of more than ten bytes")


def field(number: int, value: int | bytes) -> bytes:
    r"""Write a field: a whole number, or a row of bytes.

    Example:
        >>> field(1, b"ab"), field(3, 300)
        (b'\n\x02ab', b'\x18\xac\x02')
    """
    if isinstance(value, int):
        return _varint_of(number << 3 | _VARINT) + _varint_of(value)
    return _varint_of(number << 3 | _BYTES) + _varint_of(len(value)) + value


def _varint_of(value: int) -> bytes:
    if value < 128:
        return bytes((value,))
    low = bytes((value & 127 | 128,))
    return low + _varint_of(value >> 7)

"""Writes a matrix of shades as a PNG of a few hundred bytes, one pixel a cell."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence

from roberta_hub.show.colours import Colour

SHADES = 16
"""Of one colour, from nothing to all of it; what is behind the picture shines through."""


def shades_png(levels: Sequence[Sequence[float]], colour: Colour) -> bytes:
    r"""Write the PNG (ISO 15948: 4 bits a pixel, a palette with opacities).

    Args:
        levels: 0 to 1. Shape: (rows, columns)
        colour: of all cells.

    Example:
        >>> shades_png([[0.0, 1.0]], (0, 114, 178))[:8]
        b'\x89PNG\r\n\x1a\n'
    """
    width = len(levels[0])
    lines = []
    for row in levels:
        shades = [round(min(max(level, 0.0), 1.0) * (SHADES - 1)) for level in row]
        shades += [0] * (width % 2)
        pairs = zip(shades[::2], shades[1::2], strict=True)
        lines.append(b"\0" + bytes(16 * left + right for left, right in pairs))
    opacities = bytes(round(255 * shade / (SHADES - 1)) for shade in range(SHADES))
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", width, len(levels), 4, 3, 0, 0, 0)),
        (b"PLTE", bytes(colour) * SHADES),
        (b"tRNS", opacities),
        (b"IDAT", zlib.compress(b"".join(lines), 9)),
        (b"IEND", b""),
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )


def data_address(png: bytes) -> str:
    """Write a picture as an address that holds it, so that a page needs no other file."""
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")

"""Writes a matrix of shades as a PNG of a few hundred bytes, one pixel a cell."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence

from roberta_hub.show.colours import Colour


def shades_png(levels: Sequence[Sequence[float]], colour: Colour, bits: int = 4) -> bytes:
    r"""Write the PNG (ISO 15948: a palette of one colour, with opacities).

    Args:
        levels: 0 to 1: opacity of the colour. Shape: (rows, columns)
        colour: of all cells.
        bits: of a pixel, 1, 2 or 4; there are 2**bits shades.

    Example:
        >>> shades_png([[0.0, 1.0]], (0, 114, 178))[:8]
        b'\x89PNG\r\n\x1a\n'
    """
    width, last, step = len(levels[0]), 2**bits - 1, 8 // bits
    lines = []
    for row in levels:
        shades = [round(min(max(level, 0.0), 1.0) * last) for level in row]
        shades += [0] * (-width % step)
        line = bytearray(b"\0")  # no filter
        for i in range(0, len(shades), step):
            byte = 0
            for shade in shades[i : i + step]:
                byte = byte << bits | shade
            line.append(byte)
        lines.append(line)
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", width, len(levels), bits, 3, 0, 0, 0)),
        (b"PLTE", bytes(colour) * (last + 1)),
        (b"tRNS", bytes(round(255 * shade / last) for shade in range(last + 1))),
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

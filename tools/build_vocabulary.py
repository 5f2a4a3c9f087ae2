"""Rebuild `roberta_hub/text/vocabulary/roberta.vocab` from the blingfire 0.1.8 wheel.

    python -m tools.build_vocabulary [FOLDER or WHEEL]

Without an argument the installed blingfire is used. The same input always gives the same bytes; the
digest printed at the end belongs in `roberta_hub/text/vocabulary/__init__.py`. That module
describes the file that is written.

blingfire keeps each vocabulary as id → bytes in an `.i2w` file of little-endian `u32` words:

    3, 16, arr, end     a version, where the configuration starts, where the array starts and ends
    …                   the configuration, not needed here
    at `arr`            N, N + 1 offsets into the bytes that follow, all tokens' bytes end to end
    at `end`            0, end - 16, a checksum
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import struct
import zipfile
from pathlib import Path

from roberta_hub.text.gpt2_tables import BYTE_ORDER, merge_within
from roberta_hub.text.vocabulary import FILE_NAME, NUM_MERGES, NUM_TOKENS

TARGET = Path(__file__).parents[1] / "roberta_hub" / "text" / "vocabulary" / FILE_NAME
NUM_SPECIALS = 4
END_OF_TEXT = NUM_TOKENS - 1


def installed_blingfire() -> Path:
    """Folder of the installed blingfire, found without importing it.

    Its import loads a native library.
    """
    spec = importlib.util.find_spec("blingfire")
    if spec is None or spec.origin is None:
        raise SystemExit(
            "blingfire is not installed: pip install blingfire==0.1.8, or name a folder or wheel"
        )
    return Path(spec.origin).parent


def read_source(source: Path, name: str) -> bytes:
    """One file of blingfire, from its folder or from inside its wheel."""
    if source.is_dir():
        return (source / name).read_bytes()
    with zipfile.ZipFile(source) as wheel:
        return wheel.read(f"blingfire/{name}")


def read_i2w(data: bytes) -> list[bytes]:
    """The tokens of an `.i2w` file in id order."""
    version, _, start, end = struct.unpack_from("<4I", data)
    zero, size, _ = struct.unpack_from("<3I", data, end)
    if (version, zero, size, len(data)) != (3, 0, end - 16, end + 12):
        raise SystemExit("not an .i2w file of the known kind")
    (count,) = struct.unpack_from("<I", data, start)
    offsets = struct.unpack_from(f"<{count + 1}I", data, start + 4)
    first = start + 4 * (count + 2)
    return [data[first + offsets[i] : first + offsets[i + 1]] for i in range(count)]


def gpt2_tokens(data: bytes) -> list[bytes]:
    """GPT-2's tokens in id order.

    blingfire writes byte 0 as a space; BYTE_ORDER knows where it belongs.
    """
    tokens = read_i2w(data)
    if len(tokens) != NUM_TOKENS:
        raise SystemExit(f"gpt2.i2w holds {len(tokens)} tokens, expected {NUM_TOKENS}")
    single = [bytes([byte]) for byte in BYTE_ORDER]
    if [t for t in tokens[:256] if t != b" "] != [t for t in single if t not in (b"\0", b" ")]:
        raise SystemExit("gpt2.i2w does not begin with the 256 bytes")
    return single + tokens[256:]


def merge_parts(tokens: list[bytes]) -> list[int]:
    """The GPT-2 ids of the two parts of each merge, flat.

    The parts follow from the tokens before it.
    """
    ids = {token: i for i, token in enumerate(tokens)}
    ranks = {token: i for i, token in enumerate(tokens[256:END_OF_TEXT])}
    flat = []
    for token in ranks:
        parts = merge_within(token, ranks)
        if len(parts) != 2:
            raise SystemExit(f"{token!r} does not follow from two earlier tokens")
        flat += [ids[part] for part in parts]
    return flat


def roberta_order(data: bytes, tokens: list[bytes]) -> list[int]:
    """The GPT-2 id behind each RoBERTa id from 4 on.

    Five RoBERTa tokens read as one space. The first is the space; the other four are bytes 0 to 3,
    which blingfire cannot write either. They never occur in clean text, and end up in the order of
    their GPT-2 ids.
    """
    words = read_i2w(data)[NUM_SPECIALS : NUM_SPECIALS + NUM_TOKENS]
    ids = {token: i for i, token in enumerate(tokens)}
    spaces = iter([ids[b" "], *(ids[bytes([byte])] for byte in range(4))])
    order = [next(spaces) if word == b" " else ids[word] for word in words]
    if sorted(order) != list(range(NUM_TOKENS)):
        raise SystemExit("roberta.i2w does not hold each GPT-2 token once")
    return order


def build(source: Path) -> bytes:
    """The bytes of `roberta.vocab`."""
    tokens = gpt2_tokens(read_source(source, "gpt2.i2w"))
    merges = merge_parts(tokens)
    order = roberta_order(read_source(source, "roberta.i2w"), tokens)
    return struct.pack(f"<{2 * NUM_MERGES + NUM_TOKENS}H", *merges, *order)


def main() -> None:
    """Write the file and print its digest."""
    parser = argparse.ArgumentParser(
        description="Rebuild the shipped vocabulary from blingfire 0.1.8."
    )
    parser.add_argument("source", type=Path, nargs="?", help="blingfire's folder or wheel")
    data = build(parser.parse_args().source or installed_blingfire())
    TARGET.write_bytes(data)
    print(f"{TARGET}: {len(data)} bytes, sha256 {hashlib.sha256(data).hexdigest()}")


if __name__ == "__main__":
    main()

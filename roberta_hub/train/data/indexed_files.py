"""Reads and writes fairseq's binarized examples: `train.bin` and `train.idx`.

The `.bin` has the ids of all examples end to end, the `.idx` their type and how many each example
has. The kind `mmap` begins with MMIDIDX; the older ones, `cached` and `lazy`, begin with TNTIDX and
count ids from 1. Nothing in them is code, and no number is used before the sizes of both files
confirm it.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import torch
from torch import Tensor

from roberta_hub.errors import InputError
from roberta_hub.files import check_regular

MMAP_MAGIC, OLD_MAGIC = b"MMIDIDX\x00\x00", b"TNTIDX\x00\x00"
HUFFMAN_MAGIC = b"HUFFIDX"
MMAP_HEADER, OLD_HEADER = 26, 48
"""Bytes before the sizes: magic, version, code of the type, counts."""
DTYPES = {
    1: torch.uint8,
    2: torch.int8,
    3: torch.int16,
    4: torch.int32,
    5: torch.int64,
    6: torch.float64,
    7: torch.float64,
    8: torch.uint16,
    9: torch.uint32,
    10: torch.uint64,
}
"""Types of ids by their code in a header."""
IDS_AT_ONCE = 1 << 22
"""Ids that are read, checked or copied together."""


@dataclass(frozen=True)
class IndexedFile:
    r"""Examples in one pair of files, mapped into memory.

    Example:
        >>> import tempfile
        >>> prefix = Path(tempfile.mkdtemp()) / "train"
        >>> with IndexedWriter(prefix, torch.uint16) as writer:
        ...     writer.add(torch.tensor([31414, 232, 2, 2]), [3, 1])
        >>> found = open_indexed(prefix)
        >>> len(found), found[0].tolist(), found.ends().tolist()
        (2, [31414, 232, 2], [3, 4])
    """

    prefix: Path
    """Path of the two files without their endings."""
    ids: Tensor
    """All ids as they are stored. Shape: (S,)"""
    sizes: Tensor
    """Ids of each example. Shape: (N,)"""
    shift: int
    """What is taken from a stored id to get the real one: 1 in the older files."""

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, number: int) -> Tensor:
        if not -len(self) <= number < len(self):
            raise IndexError(f"example {number} of {len(self)}")
        number %= len(self)
        end = int(self.sizes[: number + 1].sum(dtype=torch.long))
        return self.ids[end - int(self.sizes[number]) : end].long() - self.shift

    def examples(self) -> Iterator[Tensor]:
        """Read the examples one after the other: (T,) each."""
        end = 0
        for size in self.sizes.tolist():
            end += size
            yield self.ids[end - size : end].long() - self.shift

    def ends(self) -> Tensor:
        """Count the ids up to the end of each example: (N,), int64."""
        return self.sizes.cumsum(0, dtype=torch.long)

    def chunks(self) -> Iterator[Tensor]:
        """Read the ids piece by piece, as int64."""
        for at in range(0, len(self.ids), IDS_AT_ONCE):
            stored = self.ids[at : at + IDS_AT_ONCE]
            whole = stored.long()
            if stored.is_floating_point() and not stored.eq(whole).all():
                raise _bad(bin_of(self.prefix), "it holds numbers that are not whole, so no ids")
            yield whole - self.shift


def bin_of(prefix: Path) -> Path:
    """Name the file of ids."""
    return prefix.with_name(f"{prefix.name}.bin")


def idx_of(prefix: Path) -> Path:
    """Name the file of sizes."""
    return prefix.with_name(f"{prefix.name}.idx")


def open_indexed(prefix: Path) -> IndexedFile:
    """Map the two files of a split."""
    index = idx_of(prefix)
    for path in (index, bin_of(prefix)):
        if not path.is_file():
            raise InputError(f"{path}: no such file; a split of fairseq's has a .bin and a .idx")
        check_regular(path, InputError)
    with open(index, "rb") as file:
        head = file.read(OLD_HEADER)
        total = os.fstat(file.fileno()).st_size
        if head.startswith(MMAP_MAGIC):
            return _mapped(prefix, head, total, file)
        if head.startswith(OLD_MAGIC):
            return _older(prefix, head, total, file)
    if head.startswith(HUFFMAN_MAGIC):
        raise _bad(index, "--dataset-impl huffman, which is not read")
    raise _bad(index, f"it begins with {head[:9]!r}, and fairseq's begin with MMIDIDX or TNTIDX")


def _mapped(prefix: Path, head: bytes, total: int, file: IO[bytes]) -> IndexedFile:
    """Read an index of the kind `mmap`: sizes as int32, places in the .bin as int64 bytes."""
    index = idx_of(prefix)
    if len(head) < MMAP_HEADER:
        raise _cut(index, total, MMAP_HEADER)
    version, code, count = struct.unpack_from("<QBQ", head, len(MMAP_MAGIC))
    dtype = _dtype(index, version, code)
    if total != (wanted := MMAP_HEADER + 12 * count):
        raise _cut(index, total, wanted, count)
    if not count:
        raise _bad(index, "it has no examples")
    view = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)  # torch wants to be able to write
    sizes = torch.frombuffer(view, dtype=torch.int32, count=count, offset=MMAP_HEADER)
    places = torch.frombuffer(view, dtype=torch.long, count=count, offset=MMAP_HEADER + 4 * count)
    ids = _ids(prefix, dtype, sizes, places, dtype.itemsize)
    return IndexedFile(prefix, ids, sizes, shift=0)


def _older(prefix: Path, head: bytes, total: int, file: IO[bytes]) -> IndexedFile:
    """Read an index of the kinds `cached` and `lazy`: places in dimensions and ids, then sizes."""
    index = idx_of(prefix)
    if len(head) < OLD_HEADER:
        raise _cut(index, total, OLD_HEADER)
    version, code, width, count, sizes_count = struct.unpack_from("<QQQQQ", head, len(OLD_MAGIC))
    dtype = _dtype(index, version, code)
    if total != (wanted := OLD_HEADER + 8 * (2 * (count + 1) + sizes_count)):
        raise _cut(index, total, wanted, count)
    if not count:
        raise _bad(index, "it has no examples")
    if width != dtype.itemsize:
        raise _bad(index, f"ids of {width} bytes, and those of type {code} have {dtype.itemsize}")
    view = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    numbers = torch.frombuffer(view, dtype=torch.long, offset=OLD_HEADER)
    dimensions, places = numbers[: count + 1], numbers[count + 1 : 2 * count + 2]
    sizes = numbers[2 * count + 2 :]
    if sizes_count != count or not dimensions.eq(torch.arange(count + 1)).all():
        raise _bad(index, "examples with more than one dimension, which no text has")
    ids = _ids(prefix, dtype, sizes, places[:-1], 1)
    if int(places[-1]) != len(ids):
        raise _bad(index, f"it ends with id {int(places[-1])}, and the .bin has {len(ids)}")
    return IndexedFile(prefix, ids, sizes, shift=1)


def _dtype(index: Path, version: int, code: int) -> torch.dtype:
    if version != 1:
        raise _bad(index, f"version {version}, and this reads version 1")
    if code not in DTYPES:
        raise _bad(index, f"type {code} of ids, and fairseq's are {min(DTYPES)} to {max(DTYPES)}")
    return DTYPES[code]


def _ids(prefix: Path, dtype: torch.dtype, sizes: Tensor, places: Tensor, unit: int) -> Tensor:
    """Map the ids, once sizes and places agree with each other and with the size of the .bin.

    Args:
        prefix: of both files.
        dtype: of the ids.
        sizes: ids of each example. Shape: (N,)
        places: where each example begins. Shape: (N,)
        unit: what one id counts in `places`.
    """
    path, index, end = bin_of(prefix), idx_of(prefix), 0
    room = path.stat().st_size
    for at in range(0, len(sizes), IDS_AT_ONCE):
        some = sizes[at : at + IDS_AT_ONCE].long()
        low, high = int(some.min()), int(some.max())
        if low < 0 or high * dtype.itemsize > room:
            raise _bad(
                index,
                f"an example of {low if low < 0 else high} ids, and {path.name} has {room} bytes",
            )
        wanted = end + some.cumsum(0) - some
        if not places[at : at + IDS_AT_ONCE].eq(wanted * unit).all():
            raise _bad(
                index, "examples that do not follow each other, as fairseq-preprocess writes"
            )
        end += int(some.sum())
        if end * dtype.itemsize > room:
            break
    if room != end * dtype.itemsize:
        raise _bad(
            path, f"{room} bytes, and its .idx says {end} ids of {dtype.itemsize} bytes each"
        )
    if not end:
        raise _bad(index, "it has no ids")
    return torch.from_file(str(path), shared=False, size=end, dtype=dtype)


def _cut(index: Path, total: int, wanted: int, count: int | None = None) -> InputError:
    says = "" if count is None else f", and its header says {count} examples"
    return _bad(index, f"{total} bytes where {wanted} are due{says}")


def _bad(path: Path, what: str) -> InputError:
    return InputError(
        f"{path}: {what}; write it again with fairseq-preprocess --dataset-impl mmap or "
        "roberta-hub preprocess"
    )


def stored_as(symbols: int) -> torch.dtype:
    """Choose the type of ids as fairseq does; where it takes unsigned 32 bits, its elders' signed.

    Example:
        >>> stored_as(50265), stored_as(250002)
        (torch.uint16, torch.int32)
    """
    return torch.uint16 if symbols < 65_500 else torch.int32


class IndexedWriter:
    """Writes a pair of files of the kind `mmap`, in memory that does not grow with them.

    As a context it completes the index; where the block raises, the files are not complete.
    """

    def __init__(self, prefix: Path, dtype: torch.dtype) -> None:
        self.prefix, self.dtype = prefix, dtype
        self.count = 0
        self._sizes = prefix.with_name(f"{prefix.name}.sizes")

    def __enter__(self) -> IndexedWriter:
        self._bin, self._lengths = open(bin_of(self.prefix), "wb"), open(self._sizes, "w+b")
        return self

    def add(self, ids: Tensor, sizes: Sequence[int]) -> None:
        """Write some examples.

        Args:
            ids: of all of them, end to end. Shape: (S,)
            sizes: ids of each.
        """
        ids.to(self.dtype).numpy().tofile(self._bin)
        torch.tensor(sizes, dtype=torch.int32).numpy().tofile(self._lengths)
        self.count += len(sizes)

    def __exit__(self, *error: object) -> None:
        with self._bin, self._lengths as lengths:
            if error[0] is None:
                with open(idx_of(self.prefix), "wb") as index:
                    self._complete(index, lengths)
        self._sizes.unlink()

    def _complete(self, index: IO[bytes], lengths: IO[bytes]) -> None:
        code = next(code for code, dtype in DTYPES.items() if dtype == self.dtype)
        index.write(MMAP_MAGIC + struct.pack("<QBQ", 1, code, self.count))
        for block in _blocks(lengths):
            index.write(block)
        place = 0
        for block in _blocks(lengths):
            sizes = torch.frombuffer(bytearray(block), dtype=torch.int32).long()
            bytes_before = (sizes.cumsum(0) - sizes) * self.dtype.itemsize + place
            bytes_before.numpy().tofile(index)
            place += int(sizes.sum()) * self.dtype.itemsize


def _blocks(file: IO[bytes]) -> Iterator[bytes]:
    file.flush()
    file.seek(0)
    while block := file.read(4 * IDS_AT_ONCE):
        yield block

"""Reads a checkpoint's pickles without running them: which names they ask for, what they cost.

`scan` refuses a file before torch sees it; `survey` writes the same findings down for people.
torch's own list of allowed names is not enough. It has names that no checkpoint needs and that a
hostile file can fill the memory with (`bytearray(10**11)`), and hashing a deep tuple ends the
process.
"""

from __future__ import annotations

import io
import struct
import tarfile
import tempfile
import zipfile
from collections.abc import Container
from pathlib import Path
from typing import IO, Any

from roberta_hub.checkpoint.fetch import archive as tgz
from roberta_hub.checkpoint.fetch.cache import CHECKPOINT_FILE, DICTIONARY_FILES, is_model
from roberta_hub.checkpoint.untrusted.opcodes import HostileError, Survey, follow

MAX_PICKLE_BYTES = 64 << 20
"""Most bytes of a pickle without its tensors; that of roberta.large has 0.1 MB."""
MAX_READ_BYTES = 8 << 20
"""Most bytes of a zip file's directory, which zipfile reads at once; torch writes 100 a tensor."""
_PICKLES = 5
"""Pickles in a legacy file: magic number, protocol, system, object, storage keys. Raw bytes
follow."""
_MAGIC = 0x1950A86A20F9469CFC6C


def scan(path: Path, kind: str, allowed: Container[str]) -> None:
    """Read every opcode of a checkpoint's pickles without running one."""
    with open(path, "rb") as file:
        found = survey(file, path.stat().st_size, kind, allowed)
    if found.refusals:
        raise HostileError(found.refusals[0])
    if found.damage:
        raise found.damage


def check_sums(path: Path) -> None:
    """Compare every record of a zip file with its checksum.

    torch does not compare them, and a flipped bit makes another weight.
    """
    with zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            if entry.CRC:  # 0: torch.serialization.set_crc32_options(False)
                with archive.open(entry) as record:
                    while record.read(1 << 20):
                        pass


def survey(file: IO[bytes], size: int, kind: str, allowed: Container[str]) -> Survey:
    """Follow every pickle of a checkpoint without running one, and write down all it asks for.

    What is in the file never raises. The limits above bound time and memory.
    """
    found = Survey(allowed)
    _survey(file, size, kind, found)
    return found


def _survey(file: IO[bytes], size: int, kind: str, found: Survey) -> None:
    try:
        if kind == "zip":
            _survey_zip(file, size, found)
        else:
            bounded = _Bounded(file, MAX_PICKLE_BYTES, MAX_PICKLE_BYTES)
            for index in range(_PICKLES):
                start = found.opcodes
                first = follow(bounded, found, f"pickle {index + 1} of {_PICKLES}")
                length = found.opcodes - start
                if index == 0 and first != _MAGIC:
                    found.damage = ValueError("it does not begin with torch.save's magic number")
                elif index < 2 and length > 3:  # torch would show what it finds there
                    raise HostileError("its magic number or protocol is more than a number")
    except HostileError as error:
        found.refuse(str(error))
    except Exception as error:  # whatever zipfile and pickletools meet in damaged bytes
        found.damage = found.damage or error
    if found.strange and not found.damage:  # in damaged bytes they are chance
        found.refuse(
            f"it uses the pickle opcodes {', '.join(sorted(found.strange))}, which torch.save does "
            "not write by default; save it again without pickle_protocol"
        )


def survey_archive(path: Path, allowed: Container[str]) -> tuple[dict[str, int], Survey]:
    """Look into a .tar.gz without unpacking it: sizes by name, and what its model.pt asks for.

    Only both ends of model.pt are kept. What `archive.unpack` refuses is refused here too, in its
    words.
    """
    found, members, seen = Survey(allowed), dict[str, int](), set[str]()
    try:
        with tgz.BoundedGzip(path) as plain:
            with tarfile.open(fileobj=plain, mode="r|") as tar:
                for count, member in enumerate(tar, start=1):
                    members[member.name] = member.size
                    name = tgz.accept(member, count, (CHECKPOINT_FILE, *DICTIONARY_FILES))
                    plain.limit = member.offset_data + member.size + tgz.HEADER_BYTES
                    if name in seen:
                        raise tarfile.TarError(f"there is a second {name}, {member.name!r}")
                    content = tar.extractfile(member) if name else None
                    seen |= {name} if name else set()
                    if content and name == CHECKPOINT_FILE:
                        _survey_stream(content, member.size, found)
            plain.limit = plain.tell() + tgz.HEADER_BYTES
            while plain.read(tgz.CHUNK_BYTES):
                pass
        if not is_model(seen):
            raise tarfile.TarError(
                f"it has no {'dict.txt' if CHECKPOINT_FILE in seen else CHECKPOINT_FILE}"
            )
    except tgz.UNREADABLE as error:
        found.refuse(f"as an archive, {str(error)[:300]}")
    return members, found


def _survey_stream(stream: IO[bytes], size: int, found: Survey) -> None:
    """Survey a file that can be read only once.

    Only its ends are kept: torch's pickles come first, a zip file's directory comes last.
    """
    with tempfile.TemporaryFile() as ends:
        kept, tail = 0, b""
        while chunk := stream.read(tgz.CHUNK_BYTES):
            if kept < MAX_PICKLE_BYTES:
                kept += ends.write(chunk)
            else:
                tail = (tail + chunk)[-MAX_READ_BYTES:]
        ends.seek(max(kept, size - len(tail)))  # the hole before it reads as zeros
        ends.write(tail)
        ends.seek(0)
        kind = "zip" if ends.read(2) == b"PK" else "legacy"
        ends.seek(0)
        _survey(ends, size, kind, found)


def _survey_zip(file: IO[bytes], size: int, found: Survey) -> None:
    bounded: Any = _Bounded(file, MAX_READ_BYTES)
    with zipfile.ZipFile(bounded) as archive:
        _check_end(bounded, size)
        entries = archive.infolist()
        if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
            found.refuse("it is a compressed zip file, torch.save writes uncompressed ones")
        if sum(entry.file_size for entry in entries) > size:
            found.refuse("it is a zip file whose entries overlap")
        if any(entry.filename.lower().rsplit("/", 1)[-1] == "constants.pkl" for entry in entries):
            found.refuse("it is a TorchScript program, not weights")
        # torch does not tell capitals from lower case.
        pickles = [entry for entry in entries if entry.filename.lower().endswith("data.pkl")]
        if not pickles:
            found.refuse(
                "it is a zip file without a checkpoint in it; unpack it, and give its folder"
            )
        for entry in pickles:
            if entry.file_size > MAX_PICKLE_BYTES:
                raise HostileError(
                    f"{entry.filename[:100]!r} has more than {MAX_PICKLE_BYTES:,} bytes"
                )
            if (
                not entry.CRC
            ):  # torch.serialization.set_crc32_options(False); zipfile then compares nothing
                del entry.CRC
            if entry.compress_type == zipfile.ZIP_STORED:
                with archive.open(entry) as record:
                    follow(io.BytesIO(_read_all(record)), found, entry.filename[:100])


def _check_end(file: Any, size: int) -> None:
    """Refuse a zip file whose directory is not where its end says.

    torch would find another one than zipfile.
    """
    file.seek(max(0, size - 98))
    tail = file.read(98).rjust(98, b"\0")
    directory, end = int.from_bytes(tail[-6:-2], "little"), size - 22
    length = int.from_bytes(tail[-10:-6], "little")
    if tail[-42:-38] == b"PK\6\7":  # zip64
        end = size - 98
        length, directory = struct.unpack("<QQ", tail[40:56])
        if struct.unpack("<Q", tail[-34:-26])[0] != end or tail[:4] != b"PK\6\6":
            raise HostileError("it is a zip file with two directories")
    if tail[-22:-18] != b"PK\5\6" or tail[-2:] != b"\0\0" or directory + length != end:
        raise HostileError("it is a zip file whose directory is not at its end")


def _read_all(file: IO[bytes]) -> bytes:
    """Read a whole file in pieces that `_Bounded` accepts."""
    parts = []
    while part := file.read(1 << 16):
        parts.append(part)
    return b"".join(parts)


class _Bounded:
    """Limits each read of a file, and all of them together."""

    def __init__(self, file: IO[bytes], each: int, total: int | None = None) -> None:
        self.file, self.each, self.left = file, each, total
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, size: int = -1) -> bytes:
        if size > self.each:
            raise HostileError(f"it has a part of {size:,} bytes that belongs to no tensor")
        return self._count(self.file.read(size if size >= 0 else self.each))

    def readline(self) -> bytes:
        return self._count(self.file.readline(self.each))

    def _count(self, data: bytes) -> bytes:
        if self.left is not None:
            self.left -= len(data)
            if self.left < 0:
                raise HostileError("its pickles have more bytes than those of any checkpoint")
        return data

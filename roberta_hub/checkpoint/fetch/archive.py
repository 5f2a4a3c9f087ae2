"""Unpacks the files of a model from an untrusted .tar.gz.

    archive on disk ─► our cache? ─► unpack ─► manifest ─► rename

Never `extractall`: its filters have been bypassed (CVE-2025-4517). No path is built from a name in
the archive; one member that is unsafe or only unusual refuses the whole, since no model is packed
that way.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import tarfile
import zlib
from pathlib import Path, PurePosixPath
from typing import IO

from roberta_hub.checkpoint.fetch.cache import (
    CHECKPOINT_FILE,
    DICTIONARY_FILES,
    MANIFEST_FILE,
    TOKENIZER_FILES,
    FileTable,
    cache_root,
    check_room,
    is_complete,
    is_model,
    publish,
    remove_stale,
    staging_folder,
)
from roberta_hub.errors import CheckpointError
from roberta_hub.files import check_regular, flush

CHUNK_BYTES = 1 << 16
"""Bytes moved at a time."""
MAX_MEMBERS = 1000
"""Files and folders in an archive; fairseq's have four."""
MAX_ARCHIVE_BYTES = 24 << 30
"""Bytes of an archive, packed or unpacked; roberta.large unpacks to 1.4 GB, xlmr.xxl to 21."""
HEADER_BYTES = 1 << 20
"""Bytes an archive may spend between two files and after the last: headers, padding."""
MAX_READS_AFTER_END = 10
"""Maximum reads after the end of an archive; tarfile needs three to notice it."""
UNREADABLE = (
    tarfile.TarError,
    gzip.BadGzipFile,
    zlib.error,
    EOFError,
    ValueError,  # tarfile, for some nonsense in headers
    RecursionError,  # tarfile, which recurses once per chained header
    IndexError,  # tarfile, when a sparse header ends early
    OverflowError,  # tarfile, for a length in an extended header beyond 64 bits
)
"""What reading a hostile or damaged archive raises; `OSError` at large is the disk's, not the
archive's."""


def extract_archive(path: str | os.PathLike[str], checkpoint_file: str = CHECKPOINT_FILE) -> Path:
    """Return the folder in our cache that holds the model of a `.tar.gz` on this machine.

    The folder is named after the archive's sha256, so an edited archive is unpacked again. The
    archive is only read.
    """
    archive, name = Path(path), checkpoint_file.split(os.pathsep)[0]
    kept = (MANIFEST_FILE, *DICTIONARY_FILES, *TOKENIZER_FILES)
    if name != os.path.basename(name) or name in ("", ".", "..", *kept):
        raise CheckpointError(
            f"{archive}: checkpoint_file is {checkpoint_file!r}; in an archive it is a plain file "
            "name. For other layouts unpack the archive and load the folder"
        )
    if not archive.is_dir():
        check_regular(archive)
    try:
        digest = sha256_of(archive)
    except OSError as error:
        raise CheckpointError(f"cannot read the archive {archive}: {error.strerror}") from error
    # Only one checkpoint of an archive is unpacked, so each has a folder of its own.
    key = (
        digest
        if name == CHECKPOINT_FILE
        else hashlib.sha256(f"{digest}/{name}".encode()).hexdigest()
    )
    target = cache_root() / f"local-{key[:16]}"
    remove_stale(target)
    if is_complete(target, name):
        return target
    if (problem := not_gzip(archive)) is not None:
        raise CheckpointError(
            f"{archive}: {problem}. A .tar.gz with {name} and dict.txt is expected"
        )
    with staging_folder(target, CheckpointError) as work:
        if not is_complete(target, name):
            files = unpack(archive, work, str(archive), name)
            publish(
                work,
                target,
                source=str(archive),
                archive_sha256=digest,
                archive_size=archive.stat().st_size,
                files=files,
                replace=False,
            )
    return target


def sha256_of(path: Path) -> str:
    """Return the sha256 of a file, in hexadecimal."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def is_web_page(path: Path) -> bool:
    """Whether a file begins like a web page."""
    with open(path, "rb") as file:
        return file.read(256).lstrip().startswith(b"<")


def not_gzip(path: Path) -> str | None:
    """Return what a file seems to be when it does not start like gzip, None when it does."""
    with open(path, "rb") as file:
        head = file.read(256)
    if head.startswith(b"\x1f\x8b"):
        return None
    if is_web_page(path):
        return "this is not an archive, it looks like a web page (a login page or a proxy's error?)"
    if head.startswith(b"PK"):
        return "this is not a gzip archive but a zip file; unpack it, and give its folder"
    return f"this is not a gzip archive, it starts with {head[:16]!r}"


class BoundedGzip(gzip.GzipFile):
    """Decompresses no further than `limit`, which moves on with each accepted member.

    A stream without an end is refused too. tarfile reads a whole extended header into memory, and
    skips padding without end: both would be room for a bomb.
    """

    limit = HEADER_BYTES
    vain = 0
    """How many reads gave nothing."""

    def read(self, size: int | None = -1) -> bytes:
        """Read up to `size` bytes, as from any file, within the limit."""
        chunk = super().read(size)
        self.vain += not chunk
        if not chunk and (
            self.tell() < self.limit - HEADER_BYTES or self.vain > MAX_READS_AFTER_END
        ):
            # tarfile would keep asking for the rest, which a header of 200 bytes may put at 10**26
            # bytes.
            raise EOFError("it ends in the middle of a file")
        if self.tell() > self.limit:
            raise tarfile.TarError(f"more than {HEADER_BYTES:,} bytes that belong to no file")
        return chunk


def unpack(
    archive: Path, folder: Path, source: str, checkpoint_file: str = CHECKPOINT_FILE
) -> FileTable:
    """Stream the files of a model into `folder`."""
    files: FileTable = {}
    try:
        with BoundedGzip(archive) as plain:
            with tarfile.open(fileobj=plain, mode="r|") as tar:
                for count, member in enumerate(tar, start=1):
                    name = accept(
                        member, count, (checkpoint_file, *DICTIONARY_FILES, *TOKENIZER_FILES)
                    )
                    plain.limit = member.offset_data + member.size + HEADER_BYTES
                    content = tar.extractfile(member) if name else None
                    if name and content:
                        if name in files:
                            raise tarfile.TarError(f"there is a second {name}, {member.name!r}")
                        with check_room(folder, member.size):
                            files[name] = _copy(content, folder / name)
            # Only the end of a gzip file tells whether the rest was right.
            plain.limit = plain.tell() + HEADER_BYTES
            while plain.read(CHUNK_BYTES):
                pass
        if not is_model(files, checkpoint_file):
            lacking = "dict.txt" if checkpoint_file in files else checkpoint_file
            raise tarfile.TarError(f"it has no {lacking} at its top or in its top folder")
    except UNREADABLE as error:
        raise CheckpointError(
            f"{source} is refused, nothing of it was kept: {error}. Get the archive again from a "
            "source you trust; if it is meant to be like this, unpack it yourself and load the "
            "folder"
        ) from error
    return files


def accept(member: tarfile.TarInfo, count: int, wanted: tuple[str, ...]) -> str | None:
    """Refuse an unsafe member; return which wanted file it is, or None for anything else."""
    path = PurePosixPath(member.name)
    if count > MAX_MEMBERS:
        raise tarfile.TarError(f"more than {MAX_MEMBERS:,} members")
    if path.is_absolute() or ".." in path.parts:
        raise tarfile.TarError(f"member {member.name!r} points outside the archive")
    if member.isdir():
        return None
    if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or member.issparse():
        raise tarfile.TarError(
            f"member {member.name!r} is a link, a device or another special file"
        )
    if member.size < 0 or member.offset_data + member.size > MAX_ARCHIVE_BYTES:
        raise tarfile.TarError(
            f"it unpacks to more than {MAX_ARCHIVE_BYTES:,} bytes at {member.name!r}"
        )
    below = "/".join(path.parts[1:])  # without the top folder, if that is what comes first
    return next((name for name in (str(path), below) if name in wanted), None)


def _copy(content: IO[bytes], path: Path) -> dict[str, int | str]:
    digest = hashlib.sha256()
    path.parent.mkdir(exist_ok=True)
    with open(path, "xb") as file:
        while chunk := content.read(CHUNK_BYTES):
            file.write(chunk)
            digest.update(chunk)
        flush(file)
        return {"size": file.tell(), "sha256": digest.hexdigest()}

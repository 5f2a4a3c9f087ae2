"""Tokenizes text into a token stream on disk, and opens it memory-mapped.

A stream is a folder with `tokens.bin`, ids end to end in 16 bits (32 for vocabularies over 65,536),
and `index.json`. It is fairseq's: every line ends in `</s>`, and a document in one `</s>` more. So
the stream alone says where lines and documents end.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from roberta_hub.checkpoint.fetch.cache import lock
from roberta_hub.errors import InputError
from roberta_hub.files import flush, read_note, write_json
from roberta_hub.rows.left_out import LeftOut
from roberta_hub.rows.lines import lines
from roberta_hub.rows.tables import format_of
from roberta_hub.terminal import progress_bar
from roberta_hub.text.tokenizer import Tokenizer
from roberta_hub.train.data.digests import DIGEST_BYTES
from roberta_hub.train.data.roles import read_rows, text_in, warn_of

STREAM_VERSION = 1
JOIN_BYTES = 1 << 20
"""Bytes of ids that are moved and digested at once."""
CHUNK_CHARACTERS = 4_000_000
"""Characters that are tokenized at once, and done again after a crash."""


def open_stream(folder: Path, tokenizer: Tokenizer) -> Tensor:
    """Map the ids of a folder that `build_stream` wrote into memory: (S,), of 16 or 32 bits."""
    about = _index(folder)
    if about is None:
        raise InputError(f"{folder} holds no token blocks; data.train may also name the text files")
    if about.get("vocabulary") != _fingerprint(tokenizer):
        raise InputError(
            f"{folder} holds ids of another vocabulary than the model's; name the text files in "
            "its place, and they are tokenized again"
        )
    path = folder / "tokens.bin"
    width = 2 if about["dtype"] == "uint16" else 4
    if path.stat().st_size != width * about["tokens"]:
        raise InputError(
            f"{path} has {path.stat().st_size} bytes, its index.json says "
            f"{width * about['tokens']}; delete the folder, and it is built again"
        )
    dtype = torch.uint16 if width == 2 else torch.int32
    return torch.from_file(str(path), shared=False, size=about["tokens"], dtype=dtype)


def build_stream(
    source: str | Path,
    folder: str | Path,
    tokenizer: Tokenizer,
    *,
    column: str = "text",
    threads: int | None = None,
    progress: bool | None = None,
) -> Tensor:
    r"""Tokenize text into `folder`, unless that is done already.

    After a crash the same call resumes where it stopped.

    Returns:
        The stream, memory-mapped. Shape: (S,)

    Example:
        >>> import tempfile
        >>> work = Path(tempfile.mkdtemp())
        >>> _ = (work / "text.txt").write_text("Hello world!\nHello.\n\nHello again.\n")
        >>> build_stream(work / "text.txt", work / "tokens", Tokenizer.shipped()).tolist()
        [31414, 232, 328, 2, 31414, 4, 2, 2, 31414, 456, 4, 2, 2]
    """
    paths, folder = source_files(source), Path(folder)
    about: dict[str, Any] = {
        "format": "roberta_hub token stream",
        "version": STREAM_VERSION,
        "sources": _states(paths),
        "vocabulary": _fingerprint(tokenizer),
        "column": column,
        "dtype": "uint16" if len(tokenizer) <= 1 << 16 else "int32",
    }
    folder.mkdir(parents=True, exist_ok=True)
    with lock(folder / ".lock"):  # one process of several builds, the others wait
        known = _index(folder)
        if known is None or {k: known.get(k) for k in about} != about:
            parts = tokenize_chunks(
                chunks(
                    [*document, ""] for path in paths for document in read_documents(path, column)
                ),
                folder / "parts",
                tokenizer,
                threads=threads,
                progress=progress,
                total=plain_bytes(paths),
            )
            for before, now in zip(about["sources"], _states(paths), strict=True):
                if before != now:
                    raise InputError(
                        f"{before[0]}: it changed while it was read; start again once nothing "
                        "writes to it"
                    )
            size, digest = _join(parts, folder / "tokens.bin")
            if not size:
                raise InputError(f"{source}: there is no text in it")
            own = {"digest": digest, "changed": (folder / "tokens.bin").stat().st_mtime_ns}
            size //= 2 if about["dtype"] == "uint16" else 4
            write_json(folder / "index.json", {**about, "tokens": size, **own})
            shutil.rmtree(folder / "parts")
    return open_stream(folder, tokenizer)


def _states(paths: Sequence[Path]) -> list[list[Any]]:
    """Path, size and time of the last change of each file."""
    found = [(path, path.stat()) for path in paths]
    return [[str(path.resolve()), about.st_size, about.st_mtime_ns] for path, about in found]


def stream_digest(folder: Path) -> str:
    """Digest the ids of a folder that `build_stream` wrote.

    It was computed when they were written. Where they were copied since, or an older version
    wrote them, the file is read again.
    """
    path, about = folder / "tokens.bin", _index(folder) or {}
    if about.get("changed") == path.stat().st_mtime_ns and isinstance(about.get("digest"), str):
        return str(about["digest"])
    found = _digest()
    with path.open("rb") as file:
        while block := file.read(JOIN_BYTES):
            found.update(block)
    return str(found.hexdigest())


def _digest() -> Any:
    return hashlib.blake2b(digest_size=DIGEST_BYTES)


def source_files(source: str | Path) -> list[Path]:
    """List the files of a path, a folder or a pattern, sorted."""
    path, found = Path(source), []
    if os.path.isdir(path):
        found = sorted(p for p in path.iterdir() if p.is_file() and not p.name.startswith("."))
    elif os.path.isfile(path):
        found = [path]
    else:
        root = Path(path.anchor) if path.is_absolute() else Path()
        pattern = str(path.relative_to(root)) if path.is_absolute() else str(path)
        with suppress(OSError, ValueError):  # no pattern, nor a name that a file can have
            found = sorted(p for p in root.glob(pattern) if p.is_file()) if pattern != "." else []
    if not found:
        raise InputError(f"{source}: no such file, folder or pattern")
    return found


def read_documents(path: Path, column: str = "text") -> Iterator[list[str]]:
    """Read the lines of each document of a file, without the blank ones.

    Of a table each row is a document, and rows without a text are left out with a warning; every
    other file is text, a blank line between documents.
    """
    if format_of(path) is not None:
        left = LeftOut()
        for k, row in enumerate(read_rows(path)):
            if not k and column not in row.values:
                raise row.error(
                    f"no text in column {column!r}; it has {', '.join(row.values)}; name the "
                    "column with data.columns={text: ...}"
                )
            if text_in(row, [column], left) is not None:
                yield [part for part in row.text(column).splitlines() if part.strip()]
        warn_of(left)
        return
    document: list[str] = []
    for _, text in lines(path):
        if text.strip():
            document.append(text)
        elif document:
            yield document
            document = []
    if document:
        yield document


def chunks(groups: Iterable[list[str]]) -> Iterator[list[str]]:
    """Gather lines to about `CHUNK_CHARACTERS` characters."""
    chunk: list[str] = []
    size = 0
    for group in groups:
        for text in group:
            chunk.append(text)
            size += len(text) + 1
            if size >= CHUNK_CHARACTERS:
                yield chunk
                chunk, size = [], 0
    if chunk:
        yield chunk


def plain_bytes(paths: Sequence[Path]) -> int | None:
    """Count the bytes of files of plain text; None if others are among them."""
    if any(path.suffix.lower() in (".xz", ".gz", ".parquet", ".jsonl") for path in paths):
        return None
    return sum(path.stat().st_size for path in paths)


def tokenize_chunks(
    texts: Iterable[list[str]],
    folder: Path,
    tokenizer: Tokenizer,
    *,
    threads: int | None = None,
    progress: bool | None = None,
    total: int | None = None,
) -> list[Path]:
    """Write a file of ids for each chunk of lines, named by a hash of its text.

    A line ends in `</s>`, and has no `<s>`. Files of an earlier attempt are kept.
    """
    folder.mkdir(exist_ok=True)
    dtype = torch.uint16 if len(tokenizer) <= 1 << 16 else torch.int32
    vocabulary = _fingerprint(tokenizer).encode()

    def work(number: int, chunk: list[str]) -> tuple[Path, int]:
        text = "\n".join(chunk).encode("utf-8", "surrogatepass")
        digest = hashlib.blake2b(vocabulary + text, digest_size=16).hexdigest()
        part = folder / f"{number:06d}-{digest}.bin"
        if not part.exists():
            ids = torch.cat(tokenizer.encode_batch(chunk))
            ids = ids[ids.ne(tokenizer.bos)].to(dtype)
            staged = part.with_suffix(".partial")
            ids.numpy().tofile(staged)
            staged.replace(part)
        return part, len(text) + 1

    threads = threads or os.cpu_count() or 1
    parts: list[Path] = []
    with (
        ThreadPoolExecutor(threads) as pool,  # the BPE lets go of the interpreter's lock
        progress_bar(total, unit="B", shown=progress, label="tokenizing") as bar,
    ):
        waiting: deque[Future[tuple[Path, int]]] = deque()

        def collect() -> None:
            part, size = waiting.popleft().result()
            parts.append(part)
            bar.update(size)

        for number, chunk in enumerate(texts):
            waiting.append(pool.submit(work, number, chunk))
            if len(waiting) > 2 * threads:  # never the whole corpus in memory
                collect()
        while waiting:
            collect()
    return parts


def _join(parts: Sequence[Path], target: Path) -> tuple[int, str]:
    """Join the parts into one file, atomically; return its size in bytes, and its digest."""
    staged, found = target.with_suffix(".partial"), _digest()
    with staged.open("wb") as out:
        for part in parts:
            with part.open("rb") as file:
                while block := file.read(JOIN_BYTES):
                    out.write(block)
                    found.update(block)
        flush(out)
        size = out.tell()
    staged.replace(target)
    return size, str(found.hexdigest())


def _index(folder: Path) -> dict[str, Any] | None:
    found = read_note(folder / "index.json")
    whole = isinstance(found.get("tokens"), int)
    return found if whole and (folder / "tokens.bin").is_file() else None


def _fingerprint(tokenizer: Tokenizer) -> str:
    """Hash everything that the ids depend on: symbols, added tokens, prefix space."""
    symbols = "\n".join(tokenizer.dictionary[i] for i in range(len(tokenizer)))
    if tokenizer.engine.fingerprint:
        symbols += f"\n{tokenizer.engine.fingerprint}"
    return hashlib.blake2b(symbols.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()

"""Text -> token blocks: a memory-mapped stream of ids, and the sequences cut from it.

On disk a folder with `tokens.bin`, ids end to end in 16 bits (32 for vocabularies over 65,536), and
`index.json`. The stream is fairseq's: every line ends in `</s>`, and a document in one `</s>` more.
So the stream alone says where lines and documents end.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from roberta_hub.checkpoint.fetch.cache import turn
from roberta_hub.checkpoint.store import write_json
from roberta_hub.errors import InputError, UnknownNameError
from roberta_hub.terminal import progress_bar
from roberta_hub.text.tokenizer import Tokenizer
from roberta_hub.train.config import near
from roberta_hub.train.data.examples import lines, rows

VERSION = 1
MODES = ("full", "doc")
"""FULL-SENTENCES and DOC-SENTENCES (Liu et al. 2019, section 4.2)."""
CHUNK = 4_000_000
"""Characters that are tokenized at once, and done again after a crash."""
SCAN = 16_000_000
"""Tokens that are looked through at once."""


@dataclass(frozen=True)
class Blocks:
    r"""Sequences cut from a token stream: `<s>`, then as many whole lines as fit.

    Example:
        >>> stream = torch.tensor([10, 11, 2, 12, 2, 2, 13, 14, 15, 2])  # two documents
        >>> [ids.tolist() for ids in cut(stream, 7, bos=0, eos=2).sequences([0, 1])]
        [[0, 10, 11, 2, 12, 2], [0, 13, 14, 15, 2]]
        >>> [ids.tolist() for ids in cut(stream, 11, bos=0, eos=2).sequences([0])]
        [[0, 10, 11, 2, 12, 2, 2, 13, 14, 15, 2]]
    """

    stream: Tensor
    """All ids, memory-mapped. Shape: (S,)"""
    starts: Tensor
    """Where each block begins in the stream. Shape: (B,)"""
    ends: Tensor
    """And ends, exclusive. Shape: (B,)"""
    bos: int

    def __len__(self) -> int:
        return len(self.starts)

    def lengths(self) -> list[int]:
        """Tokens of each block, `<s>` included."""
        found: list[int] = (self.ends - self.starts + 1).tolist()
        return found

    def sequences(self, indices: Sequence[int]) -> list[Tensor]:
        """Some blocks as ids (T_i,)."""
        first = torch.tensor([self.bos])
        return [
            torch.cat([first, self.stream[int(self.starts[i]) : int(self.ends[i])].long()])
            for i in indices
        ]


def cut(stream: Tensor, size: int, *, mode: str = "full", bos: int, eos: int) -> Blocks:
    """Cut a stream into blocks of at most `size` tokens, `<s>` included.

    A block ends where a line does. A line that is longer than a block is cut, so that nothing is
    lost (fairseq's `TokenBlockDataset` leaves it whole, and its trainer then fails or skips it).

    Args:
        stream: ids as `build` writes them. Shape: (S,)
        size: of a block in tokens.
        mode: "full": over the ends of documents, with a separator (fairseq's `complete`); "doc":
            within them.
        bos: the id that begins a block.
        eos: the id that ends a line.

    Raises:
        InputError: a size below 3.
        UnknownNameError: no such mode.
    """
    if mode not in MODES:
        raise UnknownNameError(f"blocks are cut {mode!r}{near(mode, MODES)}")
    if size < 3:
        raise InputError(f"block size {size} holds no text between <s> and </s>; give at least 3")
    ends = _line_ends(stream, eos)
    starts, stops = array("q"), array("q")
    document = 0  # in "doc" mode, the line after the last separator
    start = line = 0
    while line < len(ends):
        if ends[line] == start + 1:  # a separator: no block begins or ends with one
            start, line = ends[line], line + 1
            continue
        last = bisect_right(ends, start + size - 1, lo=line)  # lines before it fit
        if mode == "doc":
            document = max(document, line)
            while document < len(ends) and ends[document] - ends[document - 1] != 1:
                document += 1
            last = min(last, document)
        starts.append(start)
        start = ends[last - 1] if last > line else start + size - 1
        closing = last > line + 1 and ends[last - 1] - ends[last - 2] == 1
        stops.append(start - closing)
        line = max(last, line)
    places = [torch.tensor(a, dtype=torch.long) for a in (starts, stops)]
    return Blocks(stream, places[0], places[1], bos)


def _line_ends(stream: Tensor, eos: int) -> array[int]:
    """Positions after each `</s>`."""
    ends = array("q")
    for at in range(0, len(stream), SCAN):
        # torch compares no unsigned 16-bit numbers
        found = stream[at : at + SCAN].to(torch.int32).eq(eos).nonzero().squeeze(1)
        ends.extend((found + at + 1).tolist())
    return ends


def open_stream(folder: Path, tokenizer: Tokenizer) -> Tensor:
    """The ids of a folder that `build` wrote, memory-mapped: (S,), unsigned, of 16 or 32 bits.

    Raises:
        InputError: no such folder, a damaged one, or ids of another tokenizer.
    """
    about = _index(folder)
    if about is None:
        raise InputError(f"{folder} holds no token blocks; data.train may also name the text files")
    if about.get("vocabulary") != _fingerprint(tokenizer):
        raise InputError(
            f"{folder} holds ids of another vocabulary than the model's; name the text files in "
            "its place, and they are tokenized anew"
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


def build(
    source: str | Path,
    folder: str | Path,
    tokenizer: Tokenizer,
    *,
    column: str = "text",
    threads: int | None = None,
    progress: bool | None = None,
) -> Tensor:
    r"""Tokenize text into `folder`, unless that is done.

    Started again after a crash it goes on where it was.

    Args:
        source: a file, a folder of files, or a pattern such as "corpus/*.txt.xz". Text has a
            paragraph or sentence a line and a blank line between documents; `.gz` and `.xz` are
            unpacked on the fly. In Parquet and JSONL files a row is a document.
        folder: where to write.
        tokenizer: makes the ids.
        column: the text's, in Parquet and JSONL.
        threads: that tokenize; None: one a core.
        progress: a bar; None: where somebody is looking.

    Returns:
        The stream, memory-mapped. Shape: (S,)

    Raises:
        InputError: no such file, no text, not UTF-8.

    Example:
        >>> import tempfile
        >>> work = Path(tempfile.mkdtemp())
        >>> _ = (work / "text.txt").write_text("Hello world!\nHello.\n\nHello again.\n")
        >>> build(work / "text.txt", work / "tokens", Tokenizer.shipped()).tolist()
        [31414, 232, 328, 2, 31414, 4, 2, 2, 31414, 456, 4, 2, 2]
    """
    paths, folder = sources(source), Path(folder)
    about: dict[str, Any] = {
        "format": "roberta_hub token stream",
        "version": VERSION,
        "sources": [[str(p.resolve()), p.stat().st_size, p.stat().st_mtime_ns] for p in paths],
        "vocabulary": _fingerprint(tokenizer),
        "column": column,
        "dtype": "uint16" if len(tokenizer) <= 1 << 16 else "int32",
    }
    folder.mkdir(parents=True, exist_ok=True)
    with turn(folder / ".lock"):  # one process of several builds, the others wait
        known = _index(folder)
        if known is None or {k: known.get(k) for k in about} != about:
            parts = _tokenize(paths, folder / "parts", tokenizer, about, threads, progress)
            size = _join(parts, folder / "tokens.bin") // (2 if about["dtype"] == "uint16" else 4)
            if not size:
                raise InputError(f"{source}: there is no text in it")
            write_json(folder / "index.json", {**about, "tokens": size})
            shutil.rmtree(folder / "parts")
    return open_stream(folder, tokenizer)


def sources(source: str | Path) -> list[Path]:
    """The files that a name, a folder or a pattern stands for, sorted.

    Raises:
        InputError: there are none.
    """
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


def documents(path: Path, column: str = "text") -> Iterator[list[str]]:
    """The lines of each document of a file, blank ones left out."""
    if any(kind in path.suffixes for kind in (".parquet", ".jsonl")):
        for line, row in rows(path):
            if not isinstance(row.get(column), str):
                raise InputError(
                    f"{path}:{line}: no text in column {column!r}; it has {', '.join(row)}; name "
                    "the column with data.columns={text: ...}"
                )
            yield [part for part in row[column].splitlines() if part.strip()]
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


def _chunks(paths: Sequence[Path], column: str) -> Iterator[list[str]]:
    """Lines of about CHUNK characters, an empty one after each document that ends."""
    chunk: list[str] = []
    size = 0
    for path in paths:
        for document in documents(path, column):
            for text in [*document, ""]:
                chunk.append(text)
                size += len(text) + 1
                if size >= CHUNK:
                    yield chunk
                    chunk, size = [], 0
    if chunk:
        yield chunk


def _tokenize(
    paths: Sequence[Path],
    folder: Path,
    tokenizer: Tokenizer,
    about: dict[str, Any],
    threads: int | None,
    progress: bool | None,
) -> list[Path]:
    """Write a part for each chunk, named by what is in it.

    Parts of an earlier attempt are taken over.
    """
    folder.mkdir(exist_ok=True)
    dtype = torch.uint16 if about["dtype"] == "uint16" else torch.int32

    def work(number: int, chunk: list[str]) -> tuple[Path, int]:
        text = "\n".join(chunk).encode("utf-8", "surrogatepass")
        digest = hashlib.blake2b(about["vocabulary"].encode() + text, digest_size=16).hexdigest()
        part = folder / f"{number:06d}-{digest}.bin"
        if not part.exists():
            ids = torch.cat(tokenizer.encode_batch(chunk))
            ids = ids[ids.ne(tokenizer.bos)].to(dtype)
            staged = part.with_suffix(".partial")
            ids.numpy().tofile(staged)
            staged.replace(part)
        return part, len(text) + 1

    plain = all(p.suffix not in (".xz", ".gz", ".parquet", ".jsonl") for p in paths)
    total = sum(p.stat().st_size for p in paths) if plain else None
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

        for number, chunk in enumerate(_chunks(paths, about["column"])):
            waiting.append(pool.submit(work, number, chunk))
            if len(waiting) > 2 * threads:  # never the whole corpus in memory
                collect()
        while waiting:
            collect()
    return parts


def _join(parts: Sequence[Path], target: Path) -> int:
    """One file of them all, atomically; its size in bytes."""
    staged = target.with_suffix(".partial")
    with staged.open("wb") as out:
        for part in parts:
            with part.open("rb") as file:
                shutil.copyfileobj(file, out, 1 << 20)
        out.flush()
        os.fsync(out.fileno())
        size = out.tell()
    staged.replace(target)
    return size


def _index(folder: Path) -> dict[str, Any] | None:
    try:
        found = json.loads((folder / "index.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    whole = isinstance(found, dict) and isinstance(found.get("tokens"), int)
    return found if whole and (folder / "tokens.bin").is_file() else None


def _fingerprint(tokenizer: Tokenizer) -> str:
    """What the ids depend on."""
    symbols = "\n".join(tokenizer.dictionary[i] for i in range(len(tokenizer)))
    if tokenizer.engine.fingerprint:
        symbols += f"\n{tokenizer.engine.fingerprint}"
    return hashlib.blake2b(symbols.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()

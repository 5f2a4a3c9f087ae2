"""Cuts a token stream into blocks, the sequences that pre-training sees.

Their boundaries are written once, next to the stream, and mapped by every process from then
on: `blocks-<size>-<mode>-<stream>.bin` has a magic number, the number of blocks, all starts and all
ends, as int64.
"""

from __future__ import annotations

import hashlib
from array import array
from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from roberta_hub.checkpoint.fetch.cache import lock
from roberta_hub.errors import InputError, UnknownNameError
from roberta_hub.files import publishing
from roberta_hub.train.limits import suggestion

FAIRSEQ_MODES = ("none", "complete", "complete_doc", "eos")
"""The break modes of fairseq's `TokenBlockDataset`, block for block as there."""
BLOCK_MODES = ("full", "doc", *FAIRSEQ_MODES)
"""FULL-SENTENCES and DOC-SENTENCES (Liu et al. 2019, section 4.2), and fairseq's own."""
TOKENS_PER_SCAN = 16_000_000
"""Tokens that are searched for line ends at once."""


@dataclass(frozen=True)
class Blocks:
    r"""Sequences cut from a token stream: `<s>`, then as many whole lines as fit.

    Example:
        >>> stream = torch.tensor([10, 11, 2, 12, 2, 2, 13, 14, 15, 2])  # two documents
        >>> [ids.tolist() for ids in cut_blocks(stream, 7, bos=0, eos=2).sequences([0, 1])]
        [[0, 10, 11, 2, 12, 2], [0, 13, 14, 15, 2]]
        >>> [ids.tolist() for ids in cut_blocks(stream, 11, bos=0, eos=2).sequences([0])]
        [[0, 10, 11, 2, 12, 2, 2, 13, 14, 15, 2]]
    """

    stream: Tensor
    """All ids, memory-mapped. Shape: (S,)"""
    starts: Tensor
    """Where each block begins in the stream. Shape: (B,)"""
    ends: Tensor
    """Where each block ends in the stream, exclusive. Shape: (B,)"""
    bos: int
    """Id of `<s>`, which begins every block."""

    def __len__(self) -> int:
        return len(self.starts)

    def lengths(self) -> list[int]:
        """Count the tokens of each block, `<s>` included."""
        return self.sizes().tolist()

    def sizes(self) -> array[int]:
        """Count them as 32-bit numbers in one piece; a list takes nine times as much."""
        found = array("i")
        for at in range(0, len(self), TOKENS_PER_SCAN):
            part = self.ends[at : at + TOKENS_PER_SCAN] - self.starts[at : at + TOKENS_PER_SCAN] + 1
            found.frombytes(part.to(torch.int32).numpy().tobytes())
        return found

    def sequences(self, indices: Sequence[int]) -> list[Tensor]:
        """Read some blocks as ids: (T_i,) each."""
        first = torch.tensor([self.bos])
        return [
            torch.cat([first, self.stream[int(self.starts[i]) : int(self.ends[i])].long()])
            for i in indices
        ]


def cut_blocks(
    stream: Tensor,
    size: int,
    *,
    mode: str = "full",
    bos: int,
    eos: int,
    lines: Callable[[], Tensor] | None = None,
) -> Blocks:
    """Cut a stream into blocks of at most `size` tokens, `<s>` included.

    A block ends where a line ends. In the modes "full" and "doc" a line that is longer than a block
    is cut, so that nothing is lost (fairseq's `TokenBlockDataset` leaves it whole, and its trainer
    then fails or skips it). The other modes are fairseq's, and give its blocks: an empty line is a
    token like any other, but for "complete_doc", and blocks may be longer than `size`.

    Args:
        stream: ids as `streams.build_stream` writes them. Shape: (S,)
        size: most tokens of a block.
        mode: "full": blocks run over the ends of documents, with a separator (fairseq's
            `complete`); "doc": they end with their document; "none": they end anywhere, all of one
            size; "complete": with a line, and documents run on; "complete_doc": with a line, and
            with their document; "eos": a block is a line.
        bos: the id that begins a block.
        eos: the id that ends a line.
        lines: counts the ids up to the end of each line, (N,); None: a line ends with `eos`.
    """
    _check(size, mode)
    if mode == "none":
        return _of_one_size(stream, size, bos)
    ends = _line_ends(stream, eos) if lines is None else array("q", lines().tolist())
    if mode in FAIRSEQ_MODES:
        return _as_fairseq(stream, ends, size, mode, bos)
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


def _of_one_size(stream: Tensor, size: int, bos: int) -> Blocks:
    starts = torch.arange(0, len(stream), size - 1)
    return Blocks(stream, starts, (starts + size - 1).clamp(max=len(stream)), bos)


def _as_fairseq(stream: Tensor, ends: array[int], size: int, mode: str, bos: int) -> Blocks:
    """Cut at the ends of lines as `_get_slice_indices_fast` of fairseq 0.12.2 does."""
    starts, stops = array("q"), array("q")
    start = line = 0
    if mode == "eos":
        starts, stops = array("q", [0, *ends[:-1]]), ends
    while line < len(ends) and mode != "eos":
        last = max(line + 1, bisect_right(ends, start + size - 1, lo=line))
        if mode == "complete":
            starts.append(start)
            stops.append(ends[last - 1])
            start, line = ends[last - 1], last
            continue
        while line < last and ends[line] - (ends[line - 1] if line else 0) != 1:
            line += 1
        stop = ends[line - 1] if line else 0
        if stop - start > 1:  # fairseq drops documents of one token
            starts.append(start)
            stops.append(stop)
        start = stop
        if line < last:  # an empty line, which belongs to no block
            start, line = ends[line], line + 1
    places = [torch.tensor(a, dtype=torch.long) for a in (starts, stops)]
    return Blocks(stream, places[0], places[1], bos)


def cached_blocks(
    stream: Tensor,
    folder: Path,
    size: int,
    *,
    mode: str = "full",
    bos: int,
    eos: int,
    lines: Callable[[], Tensor] | None = None,
    name: str | None = None,
) -> Blocks:
    r"""Cut a stream as `cut_blocks` does, or map the blocks that an earlier call has cut.

    One process of several cuts, the others wait. A stream that was rebuilt, copied or changed
    has other blocks: they are cut again, and those of the old one are deleted. Where the folder
    cannot be written, every process cuts for itself.

    Example:
        >>> import tempfile
        >>> from roberta_hub.text.tokenizer import Tokenizer
        >>> from roberta_hub.train.data.streams import build_stream
        >>> work = Path(tempfile.mkdtemp())
        >>> _ = (work / "text.txt").write_text("Hello world!\nHello.\n")
        >>> stream = build_stream(work / "text.txt", work / "tokens", Tokenizer.shipped())
        >>> for _ in range(2):  # the second time it is mapped
        ...     found = cached_blocks(stream, work / "tokens", 8, bos=0, eos=2)
        >>> found.lengths(), len(list((work / "tokens").glob("blocks-8-full-*.bin")))
        ([8], 1)
    """
    _check(size, mode)
    kind = f"blocks-{size}-{mode}-"
    longest = len(stream) + 1 if mode in FAIRSEQ_MODES else size
    path = folder / f"{kind}{_stream_name(folder, eos) if name is None else name}.bin"
    found = _load_index(path, stream, longest, bos)
    if found is not None:
        return found
    with lock(folder / ".lock"):
        found = _load_index(path, stream, longest, bos)  # another process was faster
        if found is None:
            found = cut_blocks(stream, size, mode=mode, bos=bos, eos=eos, lines=lines)
            head = torch.tensor([INDEX_MAGIC, len(found)])
            with suppress(OSError):  # a corpus that may only be read
                with publishing(path) as new, open(new, "wb") as file:
                    for numbers in (head, found.starts, found.ends):
                        numbers.numpy().tofile(file)
                found = _load_index(path, stream, longest, bos) or found
                for old in folder.glob(f"{kind}*.bin"):
                    if old != path:
                        old.unlink(missing_ok=True)
    return found


INDEX_MAGIC = 0x6B636F6C62_6872
"""Begins the file of an index: "rhblock" as a little-endian number."""


def _stream_name(folder: Path, eos: int) -> str:
    """Hash what tells a stream from others: what it was built of, its size and its last change."""
    about = (folder / "tokens.bin").stat()
    known = (folder / "index.json").read_bytes() + f"{about.st_size} {about.st_mtime_ns}".encode()
    return hashlib.blake2b(known + f" {eos}".encode(), digest_size=8).hexdigest()


def _load_index(path: Path, stream: Tensor, longest: int, bos: int) -> Blocks | None:
    """Map the index in a file; None where there is none that fits the stream."""
    try:
        count, rest = divmod(path.stat().st_size - 16, 16)
    except OSError:
        return None
    if rest or count < 1:
        return None
    found = torch.from_file(str(path), shared=False, size=2 * count + 2, dtype=torch.long)
    starts, ends = found[2 : count + 2], found[count + 2 :]
    if found[:2].tolist() != [INDEX_MAGIC, count]:
        return None
    for at in range(0, count, TOKENS_PER_SCAN):
        some, until = starts[at : at + TOKENS_PER_SCAN], ends[at : at + TOKENS_PER_SCAN]
        whole = some.lt(until) & (until - some).lt(longest)
        if not whole.all() or not some[1:].ge(until[:-1]).all():
            return None
    if int(starts[0]) < 0 or int(ends[-1]) > len(stream):
        return None
    return Blocks(stream, starts, ends, bos)


def _check(size: int, mode: str) -> None:
    if mode not in BLOCK_MODES:
        raise UnknownNameError(f"blocks are cut {mode!r}{suggestion(mode, BLOCK_MODES)}")
    if size < 3:
        raise InputError(f"block size {size} holds no text between <s> and </s>; give at least 3")


def _line_ends(stream: Tensor, eos: int) -> array[int]:
    """Find the positions after each `</s>`."""
    ends = array("q")
    for at in range(0, len(stream), TOKENS_PER_SCAN):
        # torch compares no unsigned 16-bit numbers
        found = stream[at : at + TOKENS_PER_SCAN].to(torch.int32).eq(eos).nonzero().squeeze(1)
        ends.extend((found + at + 1).tolist())
    return ends

"""Writes texts and labelled tables as fairseq-preprocess does, for fairseq and for `train`.

The ids of text are those of fairseq's own recipe, `multiprocessing_bpe_encoder --keep-empty`, then
`fairseq-preprocess --only-source`: a line without the blanks around it, then `</s>`, and an empty
line is one `</s>`. A CR alone ends a line too, as in Python's text files. A folder is there whole
or not at all.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from roberta_hub.errors import CheckpointError, InputError
from roberta_hub.files import new_folder, write_files
from roberta_hub.formats.tokenizer_files import fairseq_dictionary
from roberta_hub.rows.lines import Line, decoded, raw_lines
from roberta_hub.rows.tables import format_of
from roberta_hub.rows.values import value_or_raise
from roberta_hub.text.bpe import GPT2BPE
from roberta_hub.text.dictionary import Dictionary
from roberta_hub.text.tokenizer import Tokenizer
from roberta_hub.text.with_added import without_added
from roberta_hub.train.data.data_bins import FIRST_INPUT, LABELS, SECOND_INPUT
from roberta_hub.train.data.indexed_files import IDS_AT_ONCE, IndexedWriter, stored_as
from roberta_hub.train.data.sentences import (
    GLUE_LAYOUTS,
    LabelledText,
    is_unlabelled,
    read_sentences,
    read_unlabelled,
)
from roberta_hub.train.data.streams import (
    chunks,
    plain_bytes,
    read_documents,
    source_files,
    tokenize_chunks,
)

_LINE_END = re.compile(rb"\r\n?|\n")


def preprocess_text(
    sources: Mapping[str, Sequence[str]],
    target: Path,
    tokenizer: Tokenizer,
    *,
    column: str = "text",
    threads: int | None = None,
    progress: bool | None = None,
) -> dict[str, tuple[int, int]]:
    r"""Write a folder of text: dict.txt, and a `.bin` and a `.idx` for each split.

    Memory does not grow with the text.

    Example:
        >>> import tempfile
        >>> from roberta_hub.train.data.indexed_files import open_indexed
        >>> work = Path(tempfile.mkdtemp())
        >>> _ = (work / "a.txt").write_text("Hello world!\n\nHello.\n")
        >>> sources = {"train": [str(work / "a.txt")]}
        >>> preprocess_text(sources, work / "data-bin", Tokenizer.shipped())
        {'train': (3, 8)}
        >>> [ids.tolist() for ids in open_indexed(work / "data-bin" / "train").examples()]
        [[31414, 232, 328, 2], [2], [31414, 4, 2]]
    """
    files = {
        split: [path for source in own for path in source_files(source)]
        for split, own in sources.items()
    }
    with new_folder(target) as work:
        _write_dictionary(work, tokenizer)
        counts = {}
        for split, paths in files.items():
            parts = tokenize_chunks(
                chunks(lines_as_they_are(paths, column)),
                work / "parts",
                tokenizer,
                threads=threads,
                progress=progress,
                total=plain_bytes(paths),
            )
            counts[split] = _join(parts, work / split, tokenizer)
            if counts[split][0] == counts[split][1]:  # nothing but empty lines
                raise InputError(f"{', '.join(sources[split])}: there is no text in it")
            shutil.rmtree(work / "parts")
    return counts


def _write_dictionary(folder: Path, tokenizer: Tokenizer) -> None:
    """Write dict.txt, and the files of the pieces where they are not GPT-2's."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {"dict.txt": fairseq_dictionary(tokenizer, len(tokenizer) - 1)}
    if without_added(tokenizer.engine) is not GPT2BPE.shipped():
        with suppress(CheckpointError):  # fairseq has no such pieces; the model has them
            files |= tokenizer.piece_table.fairseq_files()
    write_files(folder, files)


def lines_as_they_are(paths: Sequence[Path], column: str) -> Iterator[list[str]]:
    """Read lines without the blanks around them; an empty one is between files and rows."""
    blank = True
    for path in paths:
        if not blank:
            yield [""]
        if format_of(path) is not None:
            for number, document in enumerate(read_documents(path, column)):
                stripped = [text.strip() for text in document]
                yield ["", *stripped] if number else stripped
            blank = False
            continue
        for text in _lines_of_text(path):
            blank = not text.strip()
            yield [text.strip()]


def _lines_of_text(path: Path) -> Iterator[str]:
    """Read lines as fairseq's recipe does by Python's `open`: CR, LF or both end one."""
    for number, line in enumerate(raw_lines(path), 1):
        parts: list[Line] = [line]
        if isinstance(line, bytes):
            parts = [*_LINE_END.split(line)]
            if len(parts) > 1 and not parts[-1]:  # behind the last end
                parts.pop()
        for place, part in enumerate(parts):
            begin = number if not place else 0  # a byte order mark is at the file's begin alone
            yield value_or_raise(decoded(part, begin), f"{path}:{number}")


def _join(parts: Sequence[Path], prefix: Path, tokenizer: Tokenizer) -> tuple[int, int]:
    """Write the two files of a split, and delete the parts on the way."""
    stored = torch.uint16 if len(tokenizer) <= 1 << 16 else torch.int32
    total = 0
    with IndexedWriter(prefix, stored_as(len(tokenizer) - 1)) as writer:
        for part in parts:
            count = part.stat().st_size // stored.itemsize
            ids = torch.from_file(str(part), shared=False, size=count, dtype=stored)
            ends = (ids.to(torch.int32) == tokenizer.eos).nonzero().squeeze(1) + 1
            writer.add(ids, ends.diff(prepend=torch.zeros(1, dtype=torch.long)).tolist())
            total += count
            part.unlink()
    return writer.count, total


def preprocess_labelled(
    sources: Mapping[str, str],
    target: Path,
    tokenizer: Tokenizer,
    *,
    format: str | None = None,
    columns: Mapping[str, Any] | None = None,
    numbers: bool = False,
) -> dict[str, int]:
    r"""Write a labelled set as preprocess_GLUE_tasks.sh does: `input0`, `input1` and `label`.

    Classes are numbered by how often the training set has them, as fairseq does. A test set of
    GLUE's has no labels, and no file of them.
    """
    layout = GLUE_LAYOUTS.get(format or "")
    read = {
        split: read_unlabelled(Path(path), layout)
        if layout and split == "test" and is_unlabelled(Path(path))
        else read_sentences(path, format, columns)
        for split, path in sources.items()
    }
    with new_folder(target) as work:
        pairs = {split: isinstance(rows[0].text, tuple) for split, rows in read.items()}
        if len(set(pairs.values())) > 1:
            one = next(split for split, pair in pairs.items() if not pair)
            raise InputError(f"{sources[one]}: single texts, and the other splits have pairs")
        for split, rows in read.items():
            texts = [row.text if isinstance(row.text, tuple) else (row.text,) for row in rows]
            parts = (FIRST_INPUT, SECOND_INPUT)[: len(texts[0])]
            for name, own in zip(parts, zip(*texts, strict=True), strict=True):
                _write_dictionary(work / name, tokenizer)
                _write_texts(own, work / name / split, tokenizer)
        (work / LABELS).mkdir()
        labelled = {split: rows for split, rows in read.items() if rows[0].labels}
        if numbers:
            scale = layout.scale if layout else 1.0
            for split, rows in labelled.items():
                found = "".join(f"{_number(row) / scale!r}\n" for row in rows)
                (work / LABELS / f"{split}.label").write_text(found, encoding="utf-8")
        else:
            _write_classes(labelled, work / LABELS)
    return {split: len(rows) for split, rows in read.items()}


def _write_texts(texts: Sequence[str], prefix: Path, tokenizer: Tokenizer) -> None:
    step = max(1, IDS_AT_ONCE // 512)
    with IndexedWriter(prefix, stored_as(len(tokenizer) - 1)) as writer:
        for at in range(0, len(texts), step):
            found = tokenizer.encode_batch([text.strip() for text in texts[at : at + step]])
            ids = torch.cat([own[1:] for own in found])  # without <s>, which fairseq's task adds
            writer.add(ids, [len(own) - 1 for own in found])


def _number(row: LabelledText) -> float:
    try:
        return float(row.labels[0])
    except ValueError:
        raise InputError(f"{row.where}: label {row.labels[0][:40]!r} is no number") from None


def _write_classes(read: Mapping[str, Sequence[LabelledText]], folder: Path) -> None:
    counts = Counter(row.labels[0] for row in read["train"])
    dictionary = Dictionary()
    for label, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        dictionary.add_symbol(label, n=count)
    dictionary.pad_to_multiple_(8)
    dictionary.save(folder / "dict.txt")
    for split, rows in read.items():
        for row in rows:
            if row.labels[0] not in counts:
                raise InputError(
                    f"{row.where}: label {row.labels[0][:40]!r}, which the training set does not "
                    f"have; it has {', '.join(sorted(counts)[:20])}"
                )
        ids = [i for row in rows for i in (dictionary.index(row.labels[0]), dictionary.eos())]
        with IndexedWriter(folder / split, stored_as(len(dictionary))) as writer:
            writer.add(torch.tensor(ids), [2] * len(rows))

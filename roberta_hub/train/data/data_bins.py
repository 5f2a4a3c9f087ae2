"""Finds what fairseq-preprocess wrote, and reads it in the ids of a model.

A folder of text has `dict.txt`, and a `.bin` and a `.idx` for each split. One of labelled examples
has such folders inside, `input0`, `input1` for pairs, and `label`, where a regression has a file of
numbers in place of the two. Ids are checked against the dictionary before they are used.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from roberta_hub.checkpoint.fetch.cache import lock
from roberta_hub.errors import InputError
from roberta_hub.files import publishing, read_note, write_json
from roberta_hub.folder import Folder
from roberta_hub.terminal import progress_bar
from roberta_hub.text.bpe import GPT2BPE
from roberta_hub.text.dictionary import Dictionary
from roberta_hub.text.fairseq_files import Keywords, engine_in
from roberta_hub.text.tokenizer import Tokenizer
from roberta_hub.text.with_added import without_added
from roberta_hub.train.data.digests import DIGEST_BYTES
from roberta_hub.train.data.indexed_files import IndexedFile, bin_of, idx_of, open_indexed
from roberta_hub.train.reports import first_process, logger

FIRST_INPUT, SECOND_INPUT, LABELS = "input0", "input1", "label"
"""The folders of a labelled set, as fairseq's task sentence_prediction reads them."""
_MAPPED = {torch.uint16: torch.uint16, torch.int32: torch.int32, torch.uint32: torch.int32}
"""Types of ids that a stream may have as they are; those of 32 bits without sign are below 2^31."""


@dataclass(frozen=True)
class Split:
    """One split of a folder that fairseq-preprocess wrote."""

    folder: Path
    name: str
    """"train", "valid", "test", or another that the folder has."""
    labelled: bool
    """Whether it has labels."""

    @property
    def dictionary(self) -> Path:
        """The folder of the dictionary of its text."""
        return self.folder / FIRST_INPUT if self.labelled else self.folder

    def prefix(self, part: str = "") -> Path:
        """Name its files without their endings, of a labelled set those of one part."""
        return self.folder / part / self.name


def find_splits(source: str, name: str) -> list[Split]:
    r"""Find the splits that a path names; none where it is no such folder.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> for part in ("dict.txt", "train.bin", "train.idx", "test1.bin", "test1.idx"):
        ...     (folder / part).touch()
        >>> [split.name for split in find_splits(str(folder), "train")]
        ['train']
        >>> [split.name for split in find_splits(str(folder / "test1"), "train")]
        ['test1']
        >>> find_splits(str(folder / "dict.txt"), "train")
        []
    """
    parts = [source] if os.path.exists(source) else source.split(os.pathsep)
    found = [_find(Path(part), name) for part in parts]
    splits = [split for split in found if split is not None]
    if splits and len(splits) < len(found):
        other = parts[found.index(None)]
        raise InputError(
            f"{other}: no folder of fairseq-preprocess, as the others of {source[:200]} are; name "
            "folders with dict.txt"
        )
    return splits


def _find(path: Path, name: str) -> Split | None:
    inner = path / FIRST_INPUT
    if not os.path.isdir(path):  # which also answers for names that no file can have
        folder, name = path.parent, path.name
        if _is_there(folder / FIRST_INPUT / name):
            return Split(folder, name, labelled=True)
        return Split(folder, name, labelled=False) if _is_there(path) else None
    folder = inner if os.path.isdir(inner) else path
    splits = sorted(found.stem for found in folder.glob("*.idx"))
    if not splits or not (folder / "dict.txt").is_file():
        return None
    if name not in splits:
        raise InputError(
            f"{path}: no split {name!r} in it; there is {', '.join(splits[:20])}, and a path such "
            f"as {path / splits[0]} names one"
        )
    return Split(path, name, labelled=folder is inner)


def _is_there(prefix: Path) -> bool:
    return os.path.isfile(idx_of(prefix)) and (prefix.parent / "dict.txt").is_file()


# ---- ids of the model ----


def renumbering(folder: Path, tokenizer: Tokenizer) -> tuple[Dictionary, Tensor | None]:
    """Read the dictionary of a folder, and tell which ids of a model its ids are.

    Returns:
        The dictionary, and the model's id of each of its ids, -1 for fillers that the model does
        not have; None: all ids are the same. Shape: (V,)
    """
    found, own = Dictionary.load(folder / "dict.txt", add_mask=True), tokenizer.dictionary
    _check_pieces(folder, tokenizer)
    if found.symbols == own.symbols:
        return found, None
    words, known = _words(found), _words(own)
    once = len(set(found.symbols)) == len(found.symbols) and len(set(own.symbols)) == len(own)
    if words != known or not once:
        lacks = sorted(words - known)[:3] or sorted(known - words)[:3] or ["a symbol that is twice"]
        raise InputError(
            f"{folder / 'dict.txt'} is another vocabulary than the model's: {len(found)} symbols "
            f"there, {len(own)} here, and only one has {', '.join(map(repr, lacks))}; name the "
            "model that the data was made for, or make the data again: roberta-hub preprocess "
            "TEXT --vocabulary MODEL --output FOLDER"
        )
    ids = torch.tensor([own.indices.get(symbol, -1) for symbol in found.symbols])
    if torch.equal(ids[ids >= 0], torch.arange(len(ids))[ids >= 0]):
        return found, None
    if first_process():
        logger.info(
            "%s has the model's symbols in another order: its ids are renumbered, symbol by symbol",
            folder / "dict.txt",
        )
    return found, ids


def _check_pieces(folder: Path, tokenizer: Tokenizer) -> None:
    """Refuse the files of other pieces: any byte-level BPE calls its pieces 0, 1, 2 and so on."""
    theirs, own = engine_in(Folder(folder), Keywords()), without_added(tokenizer.engine)
    if theirs is None or not isinstance(own, GPT2BPE) or not isinstance(theirs, GPT2BPE):
        return
    if theirs.merges() != own.merges():
        raise InputError(
            f"{folder} holds ids of other pieces than the model's, under the same names; name the "
            "model that the data was made for, or make the data again: roberta-hub preprocess "
            "TEXT --vocabulary MODEL --output FOLDER"
        )


def _words(dictionary: Dictionary) -> set[str]:
    return {symbol for symbol in dictionary.symbols if not symbol.startswith("madeupword")}


def model_ids(file: IndexedFile, dictionary: Dictionary, ids: Tensor | None) -> Iterator[Tensor]:
    """Read the ids of a file piece by piece, as the model's."""
    for chunk in file.chunks():
        low, high = int(chunk.min()), int(chunk.max())
        if low < 0 or high >= len(dictionary):
            raise InputError(
                f"{bin_of(file.prefix)}: id {low if low < 0 else high}, and its dict.txt has "
                f"{len(dictionary)} symbols, <mask> among them; this .bin was made with another "
                "dictionary"
            )
        if ids is None:
            yield chunk
            continue
        own = ids[chunk]
        if own.min() < 0:
            symbol = dictionary[int(chunk[own.argmin()])]
            raise InputError(f"{bin_of(file.prefix)}: {symbol!r}, which the model does not have")
        yield own


# ---- text ----


@dataclass(frozen=True)
class TextSplit:
    """The text of a split, in the ids of a model."""

    ids: Tensor
    """All of them, memory-mapped. Shape: (S,)"""
    digest: str
    """Digest of the ids."""
    files: Sequence[IndexedFile]
    """What it was read from."""

    def ends(self) -> Tensor:
        """Count the ids up to the end of each line: (N,)."""
        return torch.cat([file.sizes for file in self.files]).cumsum(0, dtype=torch.long)


def open_text(
    split: Split, tokenizer: Tokenizer, folder: Path, *, progress: bool | None = None
) -> TextSplit:
    """Map the text of a split, once all its ids are looked at.

    The ids are mapped where they are. Only where they are stored in another way or are in several
    files (`train`, `train1`, `train2`) they are copied into `folder`.
    """
    if split.labelled:
        raise InputError(
            f"{split.folder} holds labelled examples, and this task learns from text: name "
            f"{split.folder / FIRST_INPUT / split.name}, or another task"
        )
    files = [open_indexed(split.prefix())]
    for number in count(1) if split.name == "train" else ():  # as fairseq's --combine
        more = split.folder / f"{split.name}{number}"
        if not idx_of(more).is_file():
            break
        files.append(open_indexed(more))
    dictionary, ids = renumbering(split.folder, tokenizer)
    stored = [(file.ids.dtype, file.shift) for file in files]
    mapped = _MAPPED.get(files[0].ids.dtype) if len(files) == 1 and ids is None else None
    mapped = mapped if stored[0][1] == 0 else None
    about: dict[str, Any] = {
        "format": "roberta_hub copy of fairseq's ids" if mapped is None else "fairseq's ids",
        "sources": [_state(file) for file in files],
        "symbols": hashlib.blake2b(
            "\n".join([*dictionary.symbols, "", *tokenizer.dictionary.symbols]).encode(),
            digest_size=DIGEST_BYTES,
        ).hexdigest(),
    }
    folder.mkdir(parents=True, exist_ok=True)
    copy = folder / "tokens.bin"
    dtype = mapped or (torch.uint16 if len(tokenizer) <= 1 << 16 else torch.int32)
    with lock(folder / ".lock"):  # one process of several looks, the others wait
        known = read_note(folder / "index.json")
        seen = {key: known.get(key) for key in about} == about and (
            mapped is not None or _size(copy) == dtype.itemsize * sum(len(f.ids) for f in files)
        )
        if not seen:
            digest = _look(files, dictionary, ids, None if mapped else copy, dtype, progress)
            known = {**about, "digest": digest}
            write_json(folder / "index.json", known)
    if mapped is not None:
        return TextSplit(files[0].ids.view(mapped), str(known["digest"]), files)
    size = sum(len(file.ids) for file in files)
    found = torch.from_file(str(copy), shared=False, size=size, dtype=dtype)
    return TextSplit(found, str(known["digest"]), files)


def _look(
    files: Sequence[IndexedFile],
    dictionary: Dictionary,
    ids: Tensor | None,
    copy: Path | None,
    dtype: torch.dtype,
    progress: bool | None,
) -> str:
    """Check every id, and copy them where `copy` is a file; return their digest."""
    digest, total = hashlib.blake2b(digest_size=DIGEST_BYTES), sum(len(f.ids) for f in files)

    def pieces() -> Iterator[Any]:
        with progress_bar(total, unit="token", shown=progress, label="checking ids") as bar:
            for file in files:
                for chunk in model_ids(file, dictionary, ids):
                    stored = chunk.to(dtype).numpy()
                    digest.update(stored.tobytes())
                    bar.update(len(chunk))
                    yield stored

    if copy is None:
        for _ in pieces():
            pass
    else:
        with publishing(copy) as new, open(new, "wb") as out:
            for stored in pieces():
                stored.tofile(out)
    return digest.hexdigest()


def _state(file: IndexedFile) -> list[Any]:
    about = [path.stat() for path in (bin_of(file.prefix), idx_of(file.prefix))]
    changed = [number for each in about for number in (each.st_size, each.st_mtime_ns)]
    return [str(file.prefix.resolve()), *changed]


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else -1


# ---- labelled examples ----


@dataclass(frozen=True)
class LabelledIds:
    """A text or a pair as ids, with its label."""

    ids: tuple[tuple[int, ...], ...]
    """Ids of each text, `</s>` at the end, without `<s>`."""
    labels: tuple[str, ...]
    """One class, or one number."""
    where: str
    """File and number of the example from 1, for messages."""
    probabilities: None = None
    """How likely each class is: fairseq's files do not say."""


def read_labelled(split: Split, tokenizer: Tokenizer, *, numbers: bool) -> list[LabelledIds]:
    """Read the examples of a labelled set."""
    if not split.labelled:
        raise InputError(
            f"{split.folder} holds text without labels: no folder {FIRST_INPUT} in it; this task "
            f"reads {FIRST_INPUT}, {SECOND_INPUT} and {LABELS} of fairseq's sentence_prediction"
        )
    parts = [FIRST_INPUT]
    if idx_of(split.prefix(SECOND_INPUT)).is_file():
        parts.append(SECOND_INPUT)
    inputs = [list(_texts(split, part, tokenizer)) for part in parts]
    path = split.prefix(LABELS)
    labels = _numbers(path) if numbers else _classes(path)
    counts = {len(labels), *map(len, inputs)}
    if len(counts) > 1:
        texts = ", ".join(f"{part} {len(own)}" for part, own in zip(parts, inputs, strict=True))
        raise InputError(
            f"{split.folder}: {split.name} has {texts} and {LABELS} {len(labels)} examples; they "
            "must be as many"
        )
    return [
        LabelledIds(tuple(texts), (label,), f"{split.prefix(FIRST_INPUT)}:{number}")
        for number, (*texts, label) in enumerate(zip(*inputs, labels, strict=True), 1)
    ]


def class_names(folder: Path) -> tuple[str, ...]:
    """Name the classes in the order of fairseq's logits: the symbols of `label/dict.txt`."""
    path = folder / LABELS / "dict.txt"
    if not path.is_file():
        raise InputError(
            f"{path}: no such file; a set of numbers has {LABELS}/train.label in its place, which "
            "task.name=regression reads"
        )
    dictionary = Dictionary.load(path)
    return tuple(s for s in dictionary.symbols[dictionary.nspecial :] if s in _words(dictionary))


def _texts(split: Split, part: str, tokenizer: Tokenizer) -> Iterator[tuple[int, ...]]:
    file = open_indexed(split.prefix(part))
    dictionary, ids = renumbering(split.folder / part, tokenizer)
    own = torch.cat(list(model_ids(file, dictionary, ids)))
    for number, text in enumerate(torch.split(own, file.sizes.tolist()), 1):
        if not len(text) or int(text[-1]) != tokenizer.eos:
            raise InputError(f"{file.prefix}:{number}: the text does not end in </s>")
        yield tuple(text.tolist())


def _classes(path: Path) -> list[str]:
    dictionary = Dictionary.load(path.parent / "dict.txt", add_mask=True)
    file, names = open_indexed(path), class_names(path.parent.parent)
    found = []
    for number, label in enumerate(file.examples(), 1):
        own = [int(i) for i in label if i != dictionary.eos()]  # as fairseq, which strips it
        if len(own) != 1 or not 0 <= own[0] < len(dictionary) or dictionary[own[0]] not in names:
            raise InputError(
                f"{path}:{number}: ids {own[:8]} are no label; each example has one symbol of "
                f"{path.parent / 'dict.txt'}"
            )
        found.append(dictionary[own[0]])
    return found


def _numbers(path: Path) -> list[str]:
    from roberta_hub.rows.lines import lines

    file = path.with_name(f"{path.name}.label")
    if not file.is_file():
        raise InputError(
            f"{file}: no such file; a regression's numbers are lines there. A set of classes has "
            f"{path}.bin in its place, which task.name=classification reads"
        )
    return [text.strip() for _, text in lines(file)]

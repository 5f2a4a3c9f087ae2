"""Dictionaries and BPE files for the peers, small or of the real size."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from roberta_hub.text.vocabulary import shipped_vocabulary


def dictionary(
    directory: Path, symbols: int | Sequence[str] | None = None, labels: Sequence[str] = ()
) -> Path:
    """Write `dict.txt` as fairseq's preprocessing writes it, `<mask>` left to the task.

    Args:
        directory: Made if missing.
        symbols: The symbols in order; or a number N for '0'..str(N-1); or None for the 50,257 ids
            of GPT-2 in RoBERTa's order. Padded with madeupwords so that the table with its 4
            specials is a multiple of 8 long, as fairseq pads it.
        labels: Also write `label/dict.txt` with these names and `input0/dict.txt`, the layout of
            a sentence_prediction task.

    Returns:
        `directory`, ready to be a fairseq task's `data`.
    """
    if symbols is None:
        symbols = [str(number) for number in shipped_vocabulary().order]
    names = [str(i) for i in range(symbols)] if isinstance(symbols, int) else list(symbols)
    _write_dictionary(directory / "dict.txt", names)
    if labels:
        _write_dictionary(directory / "input0" / "dict.txt", names)
        _write_dictionary(directory / "label" / "dict.txt", list(labels))
    return directory


def _write_dictionary(path: Path, names: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    fillers = [f"madeupword{i:04d}" for i in range(-(len(names) + 4) % 8)]
    lines = [f"{name} {len(names) - i}" for i, name in enumerate(names)]
    lines += [f"{name} 0" for name in fillers]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def toy_tokens() -> list[bytes]:
    """A small byte-level BPE table in GPT-2's id order: the 256 bytes, then merges."""
    pieces = (
        b" t|he| a| the|in|re|on| w|or|er| s|nd| an| and| o|ll|el|ell|ello|Hello|ld| wor| world"
    )
    tokens = [bytes([b]) for b in _byte_order()]
    return tokens + pieces.split(b"|")


def shipped_tokens() -> list[bytes]:
    """GPT-2's 50,256 tokens in id order, from the vocabulary that roberta_hub ships."""
    tokens = [bytes([byte]) for byte in _byte_order()]
    tables = shipped_vocabulary()
    for left, right in zip(tables.left, tables.right, strict=True):
        tokens.append(tokens[left] + tokens[right])
    return tokens


def write_bpe(tokens: Sequence[bytes], directory: Path) -> tuple[Path, Path]:
    """Write `encoder.json` and `vocab.bpe`, the two files of GPT-2's BPE.

    Args:
        tokens: The bytes of each token in GPT-2's id order without `<|endoftext|>`: first the 256
            single bytes, and token 256 + k is what merge k makes.
        directory: Made if missing.

    Returns:
        The paths of the two files.
    """
    rank = {token: i for i, token in enumerate(tokens)}
    letters = _byte_letters()

    def readable(token: bytes) -> str:
        return "".join(letters[byte] for byte in token)

    def halves(token: bytes) -> tuple[bytes, bytes]:
        # Merging with every earlier merge must leave two parts, the pair of this token's merge.
        parts = [token[i : i + 1] for i in range(len(token))]
        while len(parts) > 2:
            ranks = [rank.get(a + b, len(rank)) for a, b in pairwise(parts)]
            i = ranks.index(min(ranks))
            if ranks[i] >= rank[token]:
                raise ValueError(f"{token!r} is no merge of two earlier tokens")
            parts[i : i + 2] = [parts[i] + parts[i + 1]]
        return parts[0], parts[1]

    directory.mkdir(parents=True, exist_ok=True)
    encoder, merges = directory / "encoder.json", directory / "vocab.bpe"
    ids = {readable(token): i for i, token in enumerate(tokens)} | {"<|endoftext|>": len(tokens)}
    encoder.write_text(json.dumps(ids), encoding="utf-8")
    pairs = (" ".join(map(readable, halves(token))) for token in tokens[256:])
    merges.write_text("\n".join(["#version: 0.2", *pairs]) + "\n", encoding="utf-8")
    return encoder, merges


def _byte_order() -> list[int]:
    """Bytes in GPT-2's id order: those that print, then the others."""
    prints = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    return prints + sorted(set(range(256)) - set(prints))


def _byte_letters() -> dict[int, str]:
    """GPT-2's letter for each byte: itself where it prints, else the next one from U+0100 on."""
    order = _byte_order()
    return {byte: chr(byte) if i < 188 else chr(0x100 + i - 188) for i, byte in enumerate(order)}


def original_bpe() -> tuple[Path, Path] | None:
    """Where GPT-2's own `encoder.json` and `vocab.bpe` lie: `$ROBERTA_HUB_SHARED`, `../shared`."""
    beside = Path(__file__).resolve().parents[2].parent / "shared"
    folder = Path(os.environ.get("ROBERTA_HUB_SHARED", beside)) / "vocab"
    files = folder / "encoder.json", folder / "vocab.bpe"
    return files if all(file.is_file() for file in files) else None

"""Writes the tables of a byte-level BPE as the files that transformers and fairseq read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from roberta_hub.errors import CheckpointError


def huggingface_files(
    names: Sequence[str], added: Sequence[str], merges: Sequence[str]
) -> dict[str, bytes]:
    """vocab.json and merges.txt, and added_tokens.json where words were added.

    Args:
        names: the printable piece or symbol of each of the model's ids.
        added: words that are one piece wherever they stand.
        merges: in print, earliest first.

    Raises:
        CheckpointError: a piece with two ids, which vocab.json cannot express.

    Example:
        >>> sorted(huggingface_files(["<s>", "a", "b", "ab"], [], ["a b"]))
        ['merges.txt', 'vocab.json']
    """
    ids = {name: i for i, name in enumerate(names)}
    if len(ids) < len(names):
        twice = next(name for i, name in enumerate(names) if ids[name] != i)
        raise CheckpointError(
            f"the dictionary gives {twice!r} two ids, which vocab.json cannot express; save as "
            "'fairseq'"
        )
    words = {word: ids[word] for word in added if word in ids}
    files = {"added_tokens.json": _json(words)} if words else {}
    return files | {"vocab.json": _json(ids), "merges.txt": _lines(merges)}


def fairseq_files(ids: Mapping[str, int], merges: Sequence[str]) -> dict[str, bytes]:
    """encoder.json and vocab.bpe, what fairseq calls gpt2_encoder_json and gpt2_vocab_bpe.

    Args:
        ids: the engine's own number of each printable token.
        merges: in print, earliest first.

    Example:
        >>> fairseq_files({"a": 0, "b": 1, "ab": 2}, ["a b"])["encoder.json"]
        b'{"a": 0, "b": 1, "ab": 2}'
    """
    return {"encoder.json": _json(ids), "vocab.bpe": _lines(merges)}


def _json(ids: Mapping[str, int]) -> bytes:
    return json.dumps(ids, ensure_ascii=False).encode()


def _lines(merges: Sequence[str]) -> bytes:
    return "\n".join(["#version: 0.2", *merges, ""]).encode()

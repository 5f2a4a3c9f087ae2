"""Writes the tables of a byte-level BPE as the files that transformers and fairseq read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from roberta_hub.errors import CheckpointError
from roberta_hub.text.dictionary import MASK, SPECIALS

_BEGIN, _PAD, _END, _UNKNOWN = SPECIALS


def huggingface_files(
    names: Sequence[str],
    added: Sequence[str],
    merges: Sequence[str],
    *,
    add_prefix_space: bool = False,
) -> dict[str, bytes]:
    """vocab.json, merges.txt, added_tokens.json where words were added, and tokenizer.json.

    The last says it all again, for `tokenizers` and the servers that stand on it. It is left out
    where a merge makes a piece without an id, which `tokenizers` refuses.

    Args:
        names: the printable piece or symbol of each of the model's ids.
        added: words that are one piece wherever they stand.
        merges: in print, earliest first.
        add_prefix_space: whether a text is read with a space before it.

    Raises:
        CheckpointError: a piece with two ids, which vocab.json cannot express.

    Example:
        >>> names = ["<s>", "<pad>", "</s>", "<unk>", "a", "b", "ab", "<mask>"]
        >>> sorted(huggingface_files(names, [], ["a b"]))
        ['merges.txt', 'tokenizer.json', 'vocab.json']
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
    files |= {"vocab.json": _json(ids), "merges.txt": _lines(merges)}
    pairs = [merge.split(" ") for merge in merges]
    pieces = {piece for left, right in pairs for piece in (left, right, left + right)}
    if pieces | {_BEGIN, _END} <= ids.keys():
        table = _tokenizer_json(ids, words, pairs, add_prefix_space=add_prefix_space)
        files["tokenizer.json"] = json.dumps(table, ensure_ascii=False).encode()
    return files


def _tokenizer_json(
    ids: Mapping[str, int],
    words: Mapping[str, int],
    merges: Sequence[Sequence[str]],
    *,
    add_prefix_space: bool,
) -> dict[str, object]:
    """What `tokenizers` reads, as transformers writes it of a RobertaTokenizer."""
    plain = {"single_word": False, "lstrip": False, "rstrip": False}
    specials = {name: ids[name] for name in (*SPECIALS, MASK) if name in ids}
    bytes_to_text = {
        "type": "ByteLevel",
        "add_prefix_space": add_prefix_space,
        "trim_offsets": True,
        "use_regex": True,
    }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            # White space before <mask> belongs to it, as in fairseq's `fill_mask`.
            {"id": number, "content": word, **plain, "lstrip": word == MASK}
            | {"normalized": word not in specials, "special": word in specials}
            for word, number in sorted({**words, **specials}.items(), key=lambda item: item[1])
        ],
        "normalizer": None,
        "pre_tokenizer": bytes_to_text,
        "post_processor": {
            "type": "RobertaProcessing",
            "sep": [_END, ids[_END]],
            "cls": [_BEGIN, ids[_BEGIN]],
            "trim_offsets": True,
            "add_prefix_space": add_prefix_space,
        },
        "decoder": bytes_to_text,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": _UNKNOWN if _UNKNOWN in ids else None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": ids,
            "merges": merges,
        },
    }


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

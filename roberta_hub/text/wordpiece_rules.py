"""Holds the rules of a WordPiece tokenizer, and writes the files that say them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from roberta_hub.errors import CheckpointError

PREFIX = "##"
"""Before a piece that goes on with a word."""
LONGEST_WORD = 100
"""Characters of a word that is cut, in transformers; in Google's code 200."""


@dataclass(frozen=True)
class Rules:
    """How a text becomes words, and words a text.

    Example:
        >>> Rules(lower=False).strip, Rules().strip, Rules(strip_accents=False).strip
        (False, True, False)
    """

    lower: bool = True
    """In small letters: the vocabulary is uncased."""
    strip_accents: bool | None = None
    """Accents go; None: where letters become small."""
    chinese: bool = True
    """Each ideograph is a word."""
    longest_word: int = LONGEST_WORD
    """Characters of a word; a longer one is unknown."""
    clean_up: bool = True
    """Decoding leaves out the blank before `.`, `,`, `!` and `?`."""

    @property
    def strip(self) -> bool:
        """Whether accents go."""
        return self.lower if self.strip_accents is None else self.strip_accents


@dataclass(frozen=True)
class Specials:
    """Special words by their names."""

    bos: str = "[CLS]"
    eos: str = "[SEP]"
    pad: str = "[PAD]"
    unk: str = "[UNK]"
    mask: str | None = "[MASK]"
    others: tuple[str, ...] = ()
    """Control tokens that the sequences of this package do not use."""

    @property
    def names(self) -> tuple[str, ...]:
        """All of them."""
        mask = () if self.mask is None else (self.mask,)
        return (self.pad, self.unk, self.bos, self.eos, *mask, *self.others)


def settings(rules: Rules, specials: Specials, tokenizer_class: str) -> dict[str, object]:
    """Return what tokenizer_config.json says.

    Example:
        >>> settings(Rules(), Specials(), "BertTokenizer")["do_lower_case"]
        True
    """
    plain = rules.longest_word == LONGEST_WORD  # of which the classes for BERT know no other
    about: dict[str, object] = {
        "tokenizer_class": tokenizer_class if plain else "PreTrainedTokenizerFast",
        "do_lower_case": rules.lower,
        "strip_accents": rules.strip_accents,
        "tokenize_chinese_chars": rules.chinese,
        "cls_token": specials.bos,
        "sep_token": specials.eos,
        "pad_token": specials.pad,
        "unk_token": specials.unk,
        "mask_token": specials.mask,
    }
    return about | ({"extra_special_tokens": list(specials.others)} if specials.others else {})


def huggingface_files(names: Sequence[str], rules: Rules, specials: Specials) -> dict[str, bytes]:
    """vocab.txt and tokenizer.json, which say the same.

    Args:
        names: the piece or symbol of each of the model's ids.
        rules: how texts are cut.
        specials: all among the names.

    Raises:
        CheckpointError: a piece with two ids, or with a line break.

    Example:
        >>> sorted(huggingface_files(Specials().names, Rules(), Specials()))
        ['tokenizer.json', 'vocab.txt']
    """
    ids = {name: i for i, name in enumerate(names)}
    twice = next((name for i, name in enumerate(names) if ids[name] != i), None)
    broken = next((name for name in names if "\n" in name or not name), None)
    if twice is not None or broken is not None:
        reason = "is empty or holds a line break" if twice is None else "has two ids"
        raise CheckpointError(
            f"the piece {broken if twice is None else twice!r} {reason}, which vocab.txt cannot "
            "express"
        )
    table = _tokenizer_json(ids, rules, specials)
    return {
        "vocab.txt": "".join(f"{name}\n" for name in names).encode(),
        "tokenizer.json": json.dumps(table, ensure_ascii=False, indent=1).encode(),
    }


def _tokenizer_json(ids: dict[str, int], rules: Rules, specials: Specials) -> dict[str, Any]:
    def special(name: str, segment: int) -> dict[str, Any]:
        return {"SpecialToken": {"id": name, "type_id": segment}}

    def sentence(which: str, segment: int) -> dict[str, Any]:
        return {"Sequence": {"id": which, "type_id": segment}}

    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    one = [special(specials.bos, 0), sentence("A", 0), special(specials.eos, 0)]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": ids[name], "content": name, **flags, "special": True}
            for name in sorted(specials.names, key=ids.__getitem__)
        ],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": rules.chinese,
            "strip_accents": rules.strip_accents,
            "lowercase": rules.lower,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": one,
            "pair": [*one, sentence("B", 1), special(specials.eos, 1)],
            "special_tokens": {
                name: {"id": name, "ids": [ids[name]], "tokens": [name]}
                for name in (specials.bos, specials.eos)
            },
        },
        "decoder": {"type": "WordPiece", "prefix": PREFIX, "cleanup": rules.clean_up},
        "model": {
            "type": "WordPiece",
            "unk_token": specials.unk,
            "continuing_subword_prefix": PREFIX,
            "max_input_chars_per_word": rules.longest_word,
            "vocab": ids,
        },
    }

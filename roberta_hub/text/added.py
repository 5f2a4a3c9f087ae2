"""Reads what was added to a Hugging Face tokenizer: words, and a space before every text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roberta_hub.errors import VocabularyError
from roberta_hub.text.dictionary import MASK, SPECIALS
from roberta_hub.text.tables import read_json

_SPECIAL_KEYS = (
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
    "additional_special_tokens",
    "extra_special_tokens",
)
GENERIC = ("PreTrainedTokenizerFast", "TokenizersBackend")
"""Classes that do as tokenizer.json says; RobertaTokenizer does as its own arguments say."""


@dataclass(frozen=True)
class Added:
    """One added word."""

    id: int
    special: bool
    """A control token, which no text may write here."""
    kind: tuple[bool, ...]
    """How it is found: normalized, lstrip, rstrip, single_word."""


@dataclass(frozen=True)
class Settings:
    """What a tokenizer's files say beside the vocabulary and the merges."""

    ids: dict[str, int]
    """Of every added word, special or not."""
    words: tuple[str, ...]
    """Those that a text can write."""
    add_prefix_space: bool


def read_settings(directory: Path) -> Settings:
    """Read added_tokens.json, special_tokens_map.json, tokenizer_config.json and tokenizer.json.

    Raises:
        VocabularyError: a file is damaged, or asks for what this package does not do: the message
            says what.
    """
    config = _optional(directory / "tokenizer_config.json")
    table = _optional(directory / "tokenizer.json")
    _check_pipeline(table, directory / "tokenizer.json")
    found = read_added(directory, config, table)
    try:
        prefix = _add_prefix_space(config, table)
    except (TypeError, ValueError, AttributeError) as error:
        raise VocabularyError(
            f"{directory}: tokenizer.json or tokenizer_config.json says add_prefix_space as "
            f"transformers does not ({type(error).__name__}: {error})"
        ) from None
    words = {word: added for word, added in found.items() if not added.special}
    _check_words(words, directory)
    return Settings({word: added.id for word, added in found.items()}, tuple(words), prefix)


def read_added(
    directory: Path, config: Mapping[str, Any], table: Mapping[str, Any]
) -> dict[str, Added]:
    """Read the words that were added to a vocabulary, special ones too.

    Args:
        directory: may hold added_tokens.json and special_tokens_map.json.
        config: what tokenizer_config.json holds.
        table: what tokenizer.json holds.

    Raises:
        VocabularyError: a file is damaged.
    """
    specials = {*SPECIALS, MASK}
    specials |= special_names(_optional(directory / "special_tokens_map.json"), config)
    found: dict[str, Added] = {}
    try:
        for word, number in _optional(directory / "added_tokens.json").items():
            found[word] = Added(number, word in specials, (True, False, False, False))
        for number, entry in (config.get("added_tokens_decoder") or {}).items():
            found[entry["content"]] = _added(int(number), entry, specials)
        for entry in table.get("added_tokens") or ():
            found[entry["content"]] = _added(entry["id"], entry, specials)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise VocabularyError(
            f"{directory}: tokenizer.json, tokenizer_config.json or added_tokens.json lists no "
            f"added tokens as transformers does ({type(error).__name__}: {error})"
        ) from None
    return found


def _optional(path: Path) -> dict[str, Any]:
    return read_json(path) if path.is_file() else {}


def special_names(*tables: Mapping[str, Any]) -> set[str]:
    """Return every special word that files of settings name."""
    names: set[str] = set()
    for table in tables:
        for key in _SPECIAL_KEYS:
            value = table.get(key)
            if isinstance(value, Mapping) and "content" not in value:  # a name for each
                value = list(value.values())
            for token in value if isinstance(value, list) else [value]:
                name = token.get("content") if isinstance(token, Mapping) else token
                names |= {name} if isinstance(name, str) else set()
    return names


def _added(number: object, entry: Mapping[str, Any], specials: set[str]) -> Added:
    word = entry["content"]
    if type(number) is not int or not isinstance(word, str) or not word:
        raise ValueError(f"added token {str(word)[:40]!r} has id {str(number)[:40]}")
    special = bool(entry.get("special")) or word in specials
    flags = ("normalized", "lstrip", "rstrip", "single_word")
    defaults = (not special, False, False, False)
    kind = tuple(
        bool(entry.get(flag, default)) for flag, default in zip(flags, defaults, strict=True)
    )
    return Added(number, special, kind)


def _check_words(words: Mapping[str, Added], directory: Path) -> None:
    """Refuse words that are found in another way than by their letters alone."""
    odd = [word for word, added in words.items() if any(added.kind[1:]) or not word.strip()]
    if len({added.kind[0] for added in words.values()}) > 1:  # those not normalized go first
        odd = odd or list(words)
    if odd:
        raise VocabularyError(
            f"{directory}: the added tokens {_some(odd)} strip their neighbours, match single "
            "words only, or are normalized unlike each other, which this package does not do, so "
            "their texts would get other ids; add them without lstrip, rstrip, single_word and "
            "normalized=False, or as special tokens, and save the tokenizer again"
        )


def _check_pipeline(table: Mapping[str, Any], path: Path) -> None:
    """Refuse a tokenizer.json that changes or cuts texts in another way than GPT-2's BPE."""
    normalizer, cutter = table.get("normalizer"), table.get("pre_tokenizer")
    problem = ""
    if normalizer is not None:
        problem = f"its normalizer {_kind(normalizer)} changes texts"
    elif cutter is not None and _kind(cutter) != "ByteLevel":
        problem = f"its pre_tokenizer is {_kind(cutter)}, not ByteLevel,"
    elif cutter is not None and cutter.get("use_regex") is False:
        problem = "its pre_tokenizer cuts texts without GPT-2's pattern"
    if problem:
        raise VocabularyError(
            f"{path}: {problem} before the BPE sees them, which this package does not do, so texts "
            "would get other ids than in training"
        )


def _kind(part: object) -> str:
    return str(part.get("type"))[:40] if isinstance(part, Mapping) else str(part)[:40]


def _add_prefix_space(config: Mapping[str, Any], table: Mapping[str, Any]) -> bool:
    """As transformers: the class's argument, or for a generic class what tokenizer.json says."""
    value = config.get("add_prefix_space")
    if table and config.get("tokenizer_class") in GENERIC:
        value = (table.get("pre_tokenizer") or {}).get("add_prefix_space", True)
    if not isinstance(value, (bool, type(None))):
        raise ValueError(f"add_prefix_space is {str(value)[:40]!r}")
    return bool(value)


def _some(words: Sequence[str]) -> str:
    shown = ", ".join(repr(word[:40]) for word in words[:5])
    return shown + (f" and {len(words) - 5} more" if len(words) > 5 else "")

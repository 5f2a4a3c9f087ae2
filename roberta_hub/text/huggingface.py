"""Reads the tokenizer of a Hugging Face directory: decides which engine its files mean.

Each engine has a reader of its own, which knows its files: `byte_level.py`, `wordpiece_files.py`,
`unigram_files.py`. What any engine may have in tokenizer.json is read by `tokenizer_json.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from roberta_hub.arguments import brief
from roberta_hub.errors import VocabularyError
from roberta_hub.folder import Folder
from roberta_hub.settings import MAX_LENGTH
from roberta_hub.text import byte_level, unigram_files, wordpiece_files
from roberta_hub.text.added import (
    ROLES,
    SPECIAL_TOKENS_FILE,
    TOKENIZER_CONFIG_FILE,
    base_class,
    is_generic,
)
from roberta_hub.text.dictionary import Dictionary
from roberta_hub.text.layout import LEAST_LENGTH, SequenceLayout
from roberta_hub.text.pieces import SubwordTokenizer
from roberta_hub.text.tokenizer_json import (
    MODELS,
    TOKENIZER_FILE,
    kind_of_model,
    read_direction,
    reading,
)

FoundTokenizer: TypeAlias = tuple[SubwordTokenizer, Dictionary, SequenceLayout]
"""What a tokenizer is made of."""

LAYOUT = "layout"
"""The setting that says how sentences are joined, where the vocabulary does not."""
BYTE_LEVEL, WORDPIECE, UNIGRAM = "byte-level BPE", "WordPiece", "SentencePiece"
CLASSES = {
    **dict.fromkeys(byte_level.CLASSES, BYTE_LEVEL),
    **dict.fromkeys(wordpiece_files.CLASSES, WORDPIECE),
    **dict.fromkeys(unigram_files.CLASSES, UNIGRAM),
}
"""Tokenizer kinds by transformers' class, without the suffix `Fast`."""
_FILES: dict[str, list[tuple[str, ...]]] = {
    BYTE_LEVEL: [byte_level.BYTE_LEVEL_FILES],
    UNIGRAM: [(name,) for name in unigram_files.UNIGRAM_FILES],
    WORDPIECE: [(wordpiece_files.VOCABULARY_FILE,)],
}
"""Files of each kind's own, the kind to prefer first; tokenizer.json may hold any."""
_MODELS = dict(zip(MODELS, (BYTE_LEVEL, WORDPIECE, UNIGRAM), strict=True))


def read_tokenizer(folder: Folder, model_type: str | None = None) -> FoundTokenizer | None:
    """Read engine, dictionary and layout of a Hugging Face directory; None: it has no vocabulary.

    `tokenizer_class` decides which files are read, in tokenizer_config.json or else config.json;
    without one the files themselves decide. `model_type` tells whose rows a SentencePiece file has,
    where the directory does not. A kind that is not read here is refused, for its texts would get
    other ids.
    """
    kind = _kind(folder)
    if kind is None:
        return None
    found: FoundTokenizer
    if kind == BYTE_LEVEL:
        found = byte_level.read(folder)
    elif kind == WORDPIECE:
        found = wordpiece_files.read(folder)
    else:
        found = unigram_files.read(folder, model_type)
    engine, dictionary, layout = found
    settings = folder.optional(TOKENIZER_CONFIG_FILE, VocabularyError)
    if LAYOUT in settings:
        with reading(folder / TOKENIZER_CONFIG_FILE):
            layout = layout.changed(settings[LAYOUT], len(dictionary))
    else:
        _check_names(folder, dictionary, layout, ends_count=kind == UNIGRAM)
    return engine, dictionary, _limited(layout, settings, folder)


def _check_names(
    folder: Folder, dictionary: Dictionary, layout: SequenceLayout, *, ends_count: bool
) -> None:
    """Refuse a special word that is not what the vocabulary has in its place.

    `ends_count`: transformers puts `bos_token` and `eos_token` around a text; else it puts
    `cls_token` and `sep_token` there and those two have no effect.
    """
    given = {
        **folder.optional(SPECIAL_TOKENS_FILE, VocabularyError),
        **folder.optional(TOKENIZER_CONFIG_FILE, VocabularyError),
    }
    for name, role in ROLES.items():
        value, number = given.get(f"{name}_token"), getattr(layout, role)
        word = value.get("content") if isinstance(value, Mapping) else value
        counts = ends_count or name not in ("bos", "eos")
        if word is None or number is None or not counts:
            continue
        own = dictionary.symbols[number]
        if word != own:
            raise VocabularyError(
                f"{folder}: {name}_token is {brief(word)}, and this version reads {brief(own)} in "
                "its place; texts would get other ids"
            )


def _limited(layout: SequenceLayout, settings: Mapping[str, Any], folder: Folder) -> SequenceLayout:
    """Return the layout with the longest sequence, and the side where a longer text is cut."""
    path = folder / TOKENIZER_CONFIG_FILE
    length = settings.get("model_max_length", settings.get("max_len"))  # as in 2019
    side = settings.get("truncation_side", read_direction(folder))  # as in transformers
    if side not in ("left", "right"):
        raise VocabularyError(
            f"truncation_side is {brief(side)}, not 'left' or 'right'", place=str(path)
        )
    layout = replace(layout, truncation_side=side)
    if length is None:
        return layout
    is_number = isinstance(length, (int, float)) and not isinstance(length, bool)
    if not is_number or not length >= LEAST_LENGTH:
        raise VocabularyError(
            f"model_max_length is {brief(length)}; it is a number of tokens, {LEAST_LENGTH} or "
            "more",
            place=str(path),
        )
    # transformers writes 1e30 for no limit.
    return layout if length > MAX_LENGTH else replace(layout, max_length=int(length))


def _kind(folder: Folder) -> str | None:
    """Tell which reader a directory wants; None: it has no file of a vocabulary."""
    config, source = folder.optional("config.json", VocabularyError), TOKENIZER_CONFIG_FILE
    named = folder.optional(TOKENIZER_CONFIG_FILE, VocabularyError).get("tokenizer_class")
    if named is None:
        named, source = config.get("tokenizer_class"), "config.json"
    if named is None or is_generic(named):
        return _kind_of_files(folder)
    base = base_class(named)
    kind = CLASSES.get(base) if isinstance(base, str) else None
    if kind is None:
        raise VocabularyError(
            f"{folder / source}: tokenizer_class is {brief(named)}, which this version does not "
            "read: another vocabulary in its place would give other ids; it reads "
            f"{', '.join(CLASSES)}"
        )
    if kind in _own_kinds(folder) or folder.is_file(TOKENIZER_FILE):
        return kind
    # Without files a model gets RoBERTa's vocabulary, or none if it is one of the relatives.
    relative = (config.get("family") or config.get("model_type") or "roberta") != "roberta"
    if base not in byte_level.CLASSES and not relative:
        raise VocabularyError(
            f"{folder / source}: tokenizer_class is {brief(named)}, and {folder} has no {kind} "
            "files: RoBERTa's vocabulary in their place would give other ids; put the tokenizer's "
            "files there"
        )
    return None


def _own_kinds(folder: Folder) -> list[str]:
    """Kinds whose files are in a directory, the preferred one first."""
    return [
        kind
        for kind, groups in _FILES.items()
        if any(all(map(folder.is_file, group)) for group in groups)
    ]


def _kind_of_files(folder: Folder) -> str | None:
    if folder.is_file("bpe.codes"):
        raise VocabularyError(
            f"{folder} holds bpe.codes, the tables of BertweetTokenizer or PhobertTokenizer, "
            "which this version does not read"
        )
    if folder.is_file(TOKENIZER_FILE):  # before older files, as in transformers
        return _MODELS[kind_of_model(folder)]
    return next(iter(_own_kinds(folder)), None)

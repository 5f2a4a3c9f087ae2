"""Reads the tokens that were added to a Hugging Face tokenizer, which four files list."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from roberta_hub.errors import VocabularyError
from roberta_hub.folder import Folder
from roberta_hub.text.dictionary import MASK, SPECIALS
from roberta_hub.text.tokenizer_json import Added, added_tokens, reading

TOKENIZER_CONFIG_FILE = "tokenizer_config.json"
"""The file of a tokenizer's settings; it repeats the added tokens under their ids."""
ADDED_TOKENS_FILE = "added_tokens.json"
"""The older file: ids by word, and no word on how each is found."""
SPECIAL_TOKENS_FILE = "special_tokens_map.json"
"""The older file of special words."""
_GENERIC_CLASSES = ("PreTrainedTokenizer", "TokenizersBackend")
_OF_MODELS = {
    "roberta": "RobertaTokenizer",
    **dict.fromkeys(("bert", "electra", "distilbert"), "BertTokenizer"),
    "xlm-roberta": "XLMRobertaTokenizer",
    "camembert": "CamembertTokenizer",
    "albert": "AlbertTokenizer",
}
"""The class for each `model_type`, where no file names one."""
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


def is_generic(tokenizer_class: object) -> bool:
    """Whether a class of transformers does as tokenizer.json says, whichever engine that is.

    Other classes know their engine, and do as their own arguments say, which are in
    tokenizer_config.json.

    Example:
        >>> is_generic("PreTrainedTokenizerFast"), is_generic("RobertaTokenizerFast")
        (True, False)
    """
    return base_class(tokenizer_class) in _GENERIC_CLASSES


def base_class(tokenizer_class: object) -> object:
    """Return a class's name without `Fast`, which changes no ids; what is no str as it is."""
    if isinstance(tokenizer_class, str):
        return tokenizer_class.removesuffix("Fast")
    return tokenizer_class


def class_of(folder: Folder, kinds: Collection[str]) -> str | None:
    """Name the class of these that transformers takes for a folder; None: it takes none of them.

    A class of a family has its rules in its code, and reads the vocabulary alone.

    Raises:
        VocabularyError: a file is damaged.
    """
    config = folder.optional("config.json", VocabularyError)
    named = folder.optional(TOKENIZER_CONFIG_FILE, VocabularyError).get("tokenizer_class")
    named = named or config.get("tokenizer_class") or _OF_MODELS.get(str(config.get("model_type")))
    base = base_class(named)
    return base if isinstance(base, str) and base in kinds else None


def read_listed(folder: Folder) -> list[Added]:
    """Return what added_tokens.json and tokenizer_config.json list, in this order.

    Raises:
        VocabularyError: a file is damaged.
    """
    words = folder.optional(ADDED_TOKENS_FILE, VocabularyError)
    listed = (
        folder.optional(TOKENIZER_CONFIG_FILE, VocabularyError).get("added_tokens_decoder") or {}
    )
    fault = "it lists no added tokens as transformers does"
    with reading(folder / ADDED_TOKENS_FILE, fault):
        found = [replace(Added.of(i, {"content": w}), special=None) for w, i in words.items()]
    with reading(folder / TOKENIZER_CONFIG_FILE, fault):
        found += [Added.of(int(number), entry) for number, entry in listed.items()]
    return found


def read_added(folder: Folder) -> dict[str, Added]:
    """Return the tokens that were added to a vocabulary, special ones too, by their words.

    The newest file counts: tokenizer.json before tokenizer_config.json before added_tokens.json. A
    token is special where a file says so, or names it as a special word.

    Raises:
        VocabularyError: a file is damaged.
    """
    specials = {*SPECIALS, MASK, *special_names(folder)}
    return {
        added.word: replace(added, special=bool(added.special) or added.word in specials)
        for added in (*read_listed(folder), *added_tokens(folder))
    }


def special_names(folder: Folder) -> set[str]:
    """Return every special word that special_tokens_map.json and tokenizer_config.json name."""
    names: set[str] = set()
    for file in (SPECIAL_TOKENS_FILE, TOKENIZER_CONFIG_FILE):
        table = folder.optional(file, VocabularyError)
        for key in _SPECIAL_KEYS:
            value = table.get(key)
            if isinstance(value, Mapping) and "content" not in value:  # a name for each
                value = list(value.values())
            for token in value if isinstance(value, list) else [value]:
                name = token.get("content") if isinstance(token, Mapping) else token
                names |= {name} if isinstance(name, str) else set()
    return names

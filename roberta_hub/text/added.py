"""Reads the tokens that were added to a Hugging Face tokenizer, which four files list.

A word with a role (what begins and ends a sequence, fills it, means unknown or is to be guessed) is
a special token: no text writes it. Every other listed word is the user's own, and always one token
in a text.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from roberta_hub.arguments import brief
from roberta_hub.errors import VocabularyError
from roberta_hub.folder import Folder
from roberta_hub.text.added_token import AddedToken
from roberta_hub.text.dictionary import MASK, SPECIALS, without_unused
from roberta_hub.text.tokenizer_json import TOKENIZER_FILE, read_table, reading

TOKENIZER_CONFIG_FILE = "tokenizer_config.json"
"""The file of a tokenizer's settings; it may list the added tokens under their ids."""
LISTED = "added_tokens_decoder"
"""Its key for them."""
ADDED_TOKENS_FILE = "added_tokens.json"
"""The older file: ids by word, and no word on how each is found."""
SPECIAL_TOKENS_FILE = "special_tokens_map.json"
"""The older file of special words."""
CONTROL_NAMES = frozenset({*SPECIALS, MASK, "[CLS]", "[SEP]", "[PAD]", "[UNK]", "[MASK]"})
"""Words that no text writes, whatever a file says of them."""
_GENERIC_CLASSES = ("PreTrainedTokenizer", "TokenizersBackend")
_OF_MODELS = {
    **dict.fromkeys(("roberta", "data2vec-text", "roberta-prelayernorm"), "RobertaTokenizer"),
    **dict.fromkeys(("bert", "electra", "distilbert"), "BertTokenizer"),
    "xlm-roberta": "XLMRobertaTokenizer",
    "camembert": "CamembertTokenizer",
    "albert": "AlbertTokenizer",
}
"""The class for each `model_type`, where no file names one."""
ROLES = {
    "bos": "bos",
    "cls": "bos",
    "eos": "eos",
    "sep": "eos",
    "pad": "pad",
    "unk": "unk",
    "mask": "mask",
}
"""Parts that special words have in a sequence: transformers' names, before `_token` -> ours."""
_OTHERS = ("additional_special_tokens", "extra_special_tokens")
"""The older key of special words without a role, and the newer one."""


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
    """
    config = folder.optional("config.json", VocabularyError)
    named = folder.optional(TOKENIZER_CONFIG_FILE, VocabularyError).get("tokenizer_class")
    named = named or config.get("tokenizer_class") or _OF_MODELS.get(str(config.get("model_type")))
    base = base_class(named)
    return base if isinstance(base, str) and base in kinds else None


@dataclass(frozen=True)
class AddedTokens:
    """What a folder says of added tokens."""

    listed: Mapping[int, AddedToken]
    """By their ids."""
    others: tuple[AddedToken, ...]
    """Special words without a role; those that are not listed have the next ids."""
    controls: frozenset[str]
    """Words that no text writes."""

    def placed(
        self, vocabulary: Mapping[str, int], rows: int | None = None
    ) -> tuple[list[str], dict[str, AddedToken]]:
        """Return each id's word of a vocabulary with added tokens, and the user's tokens by word.

        A word that no file gives an id gets the next one, as long as the embedding table has
        `rows`. An id with two words, a word with two ids and a gap are refused.
        """
        words = {number: word for word, number in vocabulary.items() if type(number) is int}
        if sorted(words) != list(range(len(vocabulary))) and not self._fill(words, vocabulary):
            raise VocabularyError("the ids are not 0, 1, 2, … each once")
        for number, token in sorted(self.listed.items()):
            word, there = token.word, vocabulary.get(token.word, number)
            if there != number:
                problem = f"where the vocabulary has it as id {there}"
            elif words.setdefault(number, word) != word:
                problem = f"where the vocabulary has {brief(words[number])}"
            elif number >= len(words):
                hole = next(i for i in range(number) if i not in words)
                problem = f"and the ids leave an id out, {hole}: that is a gap"
            else:
                continue
            raise VocabularyError(f"{brief(word)} was added as id {number}, {problem}")
        names = [words[number] for number in range(len(words))]
        tokens = {token.word: token for _, token in sorted(self.listed.items())}
        present = set(names)
        for token in self.others:
            if token.word not in present and rows is not None and len(names) >= rows:
                warnings.warn(
                    f"the special word {brief(token.word)} has no id: the model has {rows} rows, "
                    "and all have other words; in a text it is cut into pieces",
                    stacklevel=2,
                )
                continue
            if token.word not in present:
                names.append(token.word)
                present.add(token.word)
            tokens.setdefault(token.word, token)
        return names, {word: token for word, token in tokens.items() if not self.is_control(word)}

    def _fill(self, words: Mapping[int, str], vocabulary: Mapping[str, int]) -> bool:
        """Whether the gaps of a vocabulary are ids of added tokens, each with one word."""
        ids, last = {*words, *self.listed}, max(words, default=-1)
        one_each = len(words) == len(vocabulary) and min(words, default=0) >= 0
        # An id may be any number: a range is made up to those alone that can have no gap.
        return one_each and last < len(ids) and ids >= set(range(last + 1))

    @property
    def special_words(self) -> set[str]:
        """Every word that has a role, or is named as a special one."""
        return {*self.controls, *(token.word for token in self.others)}

    def is_control(self, word: str) -> bool:
        """Whether no text writes a word: it has a role, or its row is out of use."""
        return word in self.controls or without_unused(word) != word


def read_added(folder: Folder, *, from_model: bool = False) -> AddedTokens:
    """Read the added tokens from the files that count for transformers.

    `added_tokens_decoder` of tokenizer_config.json counts alone, except for a generic class, which
    takes tokenizer.json's first. Without it tokenizer.json counts before added_tokens.json. A
    vocabulary from a SentencePiece file (`from_model`) has its `additional_special_tokens` there,
    not in special_tokens_map.json.
    """
    settings = folder.optional(TOKENIZER_CONFIG_FILE, VocabularyError)
    names = dict(settings)
    if LISTED not in settings:
        names |= folder.optional(SPECIAL_TOKENS_FILE, VocabularyError)
        if from_model:
            names[_OTHERS[0]] = settings.get(_OTHERS[0])
    with reading(folder / TOKENIZER_CONFIG_FILE):
        others = [AddedToken.of(entry, special=True) for entry in _others(names)]
        given = (names.get(f"{role}_token") for role in ROLES)
        controls = CONTROL_NAMES | {AddedToken.of(entry).word for entry in given if entry}
    special = {token.word for token in others} | controls
    fault = "it lists no added tokens as transformers does"
    with reading(folder / TOKENIZER_FILE, fault):
        entries = read_table(folder).get("added_tokens") or ()
        table = _by_id((entry["id"], entry) for entry in entries)
    if LISTED in settings:
        with reading(folder / TOKENIZER_CONFIG_FILE, fault):
            own = _by_id((settings[LISTED] or {}).items())
        listed = {**own, **table} if is_generic(settings.get("tokenizer_class")) else own
    else:
        with reading(folder / ADDED_TOKENS_FILE, fault):
            words = folder.optional(ADDED_TOKENS_FILE, VocabularyError)
            older = _by_id((i, {"content": w, "special": w in special}) for w, i in words.items())
        listed = {**older, **table}
    return AddedTokens(listed, tuple(others), frozenset(controls))


def embedding_rows(folder: Folder) -> int | None:
    """Return how many rows the model's embedding table has; None: config.json does not say it."""
    config = folder.optional("config.json", VocabularyError)
    model = config.get("model", config)  # our own format has a table of the model's
    rows = model.get("vocab_size") if isinstance(model, Mapping) else None
    return rows if type(rows) is int else None


def _others(names: Mapping[str, Any]) -> list[Any]:
    """Return the special words without a role; a table of them has a name for each."""
    older, newer = (names.get(key) or [] for key in _OTHERS)
    found = newer or older
    values = found.values() if isinstance(found, Mapping) else found
    return [values] if isinstance(values, str) else list(values)


def _by_id(entries: Iterable[tuple[Any, Any]]) -> dict[int, AddedToken]:
    """Read entries by their ids, which may be texts of digits."""
    found: dict[int, AddedToken] = {}
    for number, entry in entries:
        token = AddedToken.of(entry)
        if isinstance(number, str) and number.isdecimal() and number.isascii():
            number = int(number)
        if type(number) is not int or number < 0:
            raise VocabularyError(
                f"added token {brief(token.word)} has id {brief(number)}; a token is a text and "
                "its id a whole number"
            )
        found[number] = token
    return found

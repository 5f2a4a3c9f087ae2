"""Zero-shot answers by the labels' names: the baseline that learning has to beat."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import regex
import torch
from torch import Tensor

from roberta_hub.inference.heads import entails
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.model.known_head import heads_of
from roberta_hub.settings import Way
from roberta_hub.text.tokenizer import Text

_COUNTED = "一二三四五六七八九十甲乙丙丁戊己庚辛壬癸가나다라마바사아자차카타파하"
"""Characters that number things, as A, B, C do; every other Han or Hangul one can be a word."""
_WORD = regex.compile(rf"(?V1)\p{{L}}[\p{{L}}\p{{M}}]+|[\p{{Han}}\p{{Hangul}}--[{_COUNTED}]]")
_NEGATIONS = frozenset(("no", "non", "not"))
_WITH_VOWELS = regex.compile(r"[\p{Latin}\p{Cyrillic}\p{Greek}]")
_VOWELS = frozenset("aeiouyæœøıəαεηιουωаеиоуыэюяєіәөүұ")
"""Without accents, in lower case."""


def labels_are_words(labels: Sequence[str]) -> bool:
    """Tell labels that say what they mean from numbers, letters and codes.

    Each needs a word of any script, and none may hold a digit.

    Example:
        >>> labels_are_words(["card_arrival", "lost or stolen"]), labels_are_words(["no", "yes"])
        (True, True)
        >>> labels_are_words(["политика", "спорт"]), labels_are_words(["好", "坏"])
        (True, True)
        >>> labels_are_words(["0", "1"]), labels_are_words(["LABEL_0", "LABEL_1"])
        (False, False)
        >>> labels_are_words(["A", "B"]), labels_are_words(["甲", "乙"])
        (False, False)
        >>> labels_are_words(["NN", "VBD"]), labels_are_words(["cs.CL", "cs.LG"])
        (False, False)
    """
    return all(
        not regex.search(r"\d", label)
        and any(map(_is_word, _WORD.findall(unicodedata.normalize("NFC", label))))
        for label in labels
    )


def one_label_negates_another(labels: Sequence[str]) -> bool:
    """Tell labels such as "hate" and "not hate", whose vectors differ by what no text says.

    Example:
        >>> one_label_negates_another(["hate", "not-hate"])
        True
        >>> one_label_negates_another(["no", "yes"])
        False
    """
    words = [tuple(_WORD.findall(label.casefold())) for label in labels]
    return any((*own[1:],) in words for own in words if own and own[0] in _NEGATIONS)


def _is_word(letters: str) -> bool:
    """Tell a word from a code: in scripts that write vowels, a code often has none.

    Some Slavic words have none either ("čtvrť", "смрт"); they are no capitals.
    """
    if not _WITH_VOWELS.search(letters):
        return True
    if _VOWELS.intersection(unicodedata.normalize("NFD", letters).casefold()):
        return True
    return len(letters) > 2 and not letters.isascii() and not letters.isupper()


def zero_shot_probabilities(
    roberta: RobertaHubInterface, texts: Sequence[Text], labels: Sequence[str]
) -> Tensor | None:
    """Compute the probabilities of labels by their names alone, as `zero_shot` judges them.

    It asks by the way that is recorded with the model, else by all that the model has: sentence
    vectors, a head for entailment, or both. Texts that are too long are cut; underscores in labels
    are read as blanks.

    Example:
        >>> import roberta_hub
        >>> roberta = roberta_hub.load_model("roberta.tiny")
        >>> labels = ["politics", "sports"]
        >>> found = zero_shot_probabilities(roberta, ["The team scored twice."], labels)
        >>> found.argmax(-1).tolist()
        [1]
        >>> zero_shot_probabilities(roberta, ["The team scored twice."], ["0", "1"]) is None
        True
    """
    way = _zero_shot_method(roberta)
    if way is None or len(labels) < 2 or not labels_are_words(labels):
        return None
    names = [label.replace("_", " ") for label in labels]
    if len(set(names)) < len(names):
        return None
    found = roberta.zero_shot(texts, names, by=way, truncate=True, progress=False)
    scores = [[prediction.scores[name] for name in names] for prediction in found]
    return torch.tensor(scores).view(len(scores), len(names))


def _zero_shot_method(roberta: RobertaHubInterface) -> Way | None:
    """Find how the model judges labels by name: as recorded, else by all that it has."""
    if roberta.zero_shot_settings is not None:
        return roberta.zero_shot_settings.by
    judges = [
        name
        for name in heads_of(roberta.model, "classification")
        if entails(roberta.head_labels(name))
    ]
    if roberta.sentence is None:
        return "entailment" if len(judges) == 1 else None
    return "both" if len(judges) == 1 else "meaning"

"""Zero-shot answers by the labels' names: the baseline that learning has to beat."""

from __future__ import annotations

import re
from collections.abc import Sequence

import torch
from torch import Tensor

from roberta_hub.inference.heads import entails
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.model.known_head import heads_of
from roberta_hub.settings import Way
from roberta_hub.text.tokenizer import Text

_WORD = re.compile(r"[^\W\d_]{2,}")


def labels_are_words(labels: Sequence[str]) -> bool:
    """Tell labels that say what they mean from numbers, letters and codes.

    Each needs a word with a vowel, and none may hold a digit.

    Example:
        >>> labels_are_words(["card_arrival", "lost or stolen"]), labels_are_words(["no", "yes"])
        (True, True)
        >>> labels_are_words(["0", "1"]), labels_are_words(["LABEL_0", "LABEL_1"])
        (False, False)
        >>> labels_are_words(["A", "B"])
        False
        >>> labels_are_words(["NN", "VBD"])
        False
    """
    return all(
        any(re.search("[aeiouyà-öø-ÿ]", word, re.I) for word in _WORD.findall(label))
        and not re.search(r"\d", label)
        for label in labels
    )


def zero_shot_probabilities(
    roberta: RobertaHubInterface, texts: Sequence[Text], labels: Sequence[str]
) -> Tensor | None:
    """Compute the probabilities of labels by their names alone, as `zero_shot` judges them.

    It asks by the way that is recorded with the model, else by all that the model has: sentence
    vectors, a head for entailment, or both. Texts that are too long are cut; underscores in labels
    are read as blanks.

    Args:
        roberta: the model, before it learns.
        texts: one row each, in order.
        labels: two or more.

    Returns:
        (len(texts), len(labels)) float32; None where labels are no words, or the model can judge
        none, or two of them differ by underscores alone.

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

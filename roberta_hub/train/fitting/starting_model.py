"""Loads the model to train on a table, and leaves it with the head that was trained."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Literal

from roberta_hub.arguments import path_text
from roberta_hub.errors import InputError, MissingExtraError
from roberta_hub.extras import install
from roberta_hub.hub import load_model
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.text.learnt import new_texts
from roberta_hub.text.tokenizer import Text
from roberta_hub.train.fitting.scores import EvaluationKind
from roberta_hub.train.tasks.encoding import encode
from roberta_hub.train.tasks.options import FinetuningOptions


def load_to_train(model: str | os.PathLike[str]) -> tuple[str, RobertaHubInterface]:
    """Load a model that will be trained; return its name or path with it."""
    try:
        import accelerate  # noqa: F401  # said before a model is fetched
    except ImportError as error:
        raise MissingExtraError(
            f"training needs accelerate ({error}): {install('train')}"
        ) from None
    name = path_text("model", model)
    return name, load_model(name)


def memory_note(
    roberta: RobertaHubInterface, name: str, texts: Sequence[Text], *, knows: bool
) -> list[str]:
    """Note how many texts of a table the model knows, or that it does not say so."""
    too_good = "its scores are too good and its probabilities too sure"
    if not roberta.learnt:
        if not knows:
            return []
        return [
            f"{name} does not say which texts it has learnt: where those of this table are among "
            f"them, {too_good}"
        ]
    count = len(texts) - len(new_texts(texts, roberta.learnt))
    if not count:
        return []
    said = f"{name} has learnt {count:,} of these {len(texts):,} texts before"
    if count == len(texts):
        return [f"{said}: {too_good}"]
    return [f"{said}; the others choose and judge, or where there are none of them, {too_good}"]


def judged_kind(
    texts: Sequence[Text], learnt: frozenset[str], how: EvaluationKind, *, unsure: bool
) -> tuple[list[int], EvaluationKind]:
    """Choose the rows that judge: those that the model did not know, and all if it knew all."""
    new = new_texts(texts, learnt)
    if unsure or not new:
        return list(range(len(texts))), "may be known"
    return new, how


def count_tokens(
    roberta: RobertaHubInterface, texts: Sequence[Text], places: Sequence[str]
) -> list[int]:
    """Count the tokens of each text."""
    try:
        return [len(ids) for ids in roberta.tokenizer.encode_batch(texts)]
    except InputError:
        encode(roberta, texts, places, FinetuningOptions())  # says which it was
        raise


def keep_head(
    roberta: RobertaHubInterface, kind: Literal["classification", "token"], head: str
) -> None:
    """Drop the model's other heads: what they knew belongs to the weights of before."""
    for own_kind in ("classification", "token", "span"):
        heads: Any = getattr(roberta.model, f"{own_kind}_heads", {})
        for name in [name for name in heads if (name, own_kind) != (head, kind)]:
            del heads[name]
            roberta._heads.known.pop(name, None)
    roberta.zero_shot_settings = None  # they speak of weights and of a head that were

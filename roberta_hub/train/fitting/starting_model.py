"""Loads the model that a table teaches, and leaves it with the head that has learnt."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Literal

from roberta_hub.arguments import path_text
from roberta_hub.errors import InputError, MissingExtraError
from roberta_hub.extras import install
from roberta_hub.hub import load_model
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.text.tokenizer import Text
from roberta_hub.train.tasks.encoding import encode
from roberta_hub.train.tasks.options import FinetuningOptions


def load_to_train(model: str | os.PathLike[str]) -> tuple[str, RobertaHubInterface]:
    """Load a model that will be trained; return its name or path with it.

    Args:
        model: name or path.

    Raises:
        MissingExtraError: what training needs is not installed.
        RobertaHubError: no such model.
    """
    try:
        import accelerate  # noqa: F401  # said before a model is fetched
    except ImportError as error:
        raise MissingExtraError(
            f"training needs accelerate ({error}): {install('train')}"
        ) from None
    name = path_text("model", model)
    return name, load_model(name)


def count_tokens(
    roberta: RobertaHubInterface, texts: Sequence[Text], places: Sequence[str]
) -> list[int]:
    """Count the tokens of each text.

    Args:
        roberta: whose tokenizer cuts them.
        texts: of a table.
        places: where each text comes from, for errors.

    Raises:
        InputError: a text that cannot be read; the error names its place.
    """
    try:
        return [len(ids) for ids in roberta.tokenizer.encode_batch(texts)]
    except InputError:
        encode(roberta, texts, places, FinetuningOptions())  # says which it was
        raise


def keep_head(
    roberta: RobertaHubInterface, kind: Literal["classification", "token"], head: str
) -> None:
    """Drop the model's other heads: what they knew belongs to the weights of before.

    Args:
        roberta: the model.
        kind: of the head that stays.
        head: its name.
    """
    about: tuple[dict[str, Any], ...] = (
        roberta.labels,
        roberta.inputs,
        roberta.kinds,
        roberta.thresholds,
        roberta.word_rules,
    )
    for own_kind in ("classification", "token", "span"):
        heads: Any = getattr(roberta.model, f"{own_kind}_heads", {})
        for name in [name for name in heads if (name, own_kind) != (head, kind)]:
            del heads[name]
            for known in about:
                known.pop(name, None)
    roberta.zero_shot_settings = None  # they speak of weights and of a head that were

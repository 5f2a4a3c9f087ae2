"""Chooses the best of several options (multiple choice: Lai et al. 2017; Talmor et al. 2019)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from roberta_hub.arguments import short_repr
from roberta_hub.errors import InputError, InputTypeError, Remedy, placed
from roberta_hub.inference.classify import Prediction, window_values
from roberta_hub.inference.heads import Heads
from roberta_hub.inference.verb_model import VerbModel, one_by_one
from roberta_hub.model.known_head import known_head, outputs_of
from roberta_hub.rows.frames import list_of
from roberta_hub.text.tokenizer import Tokenizer

_NO_HEAD = Remedy(
    "load a model of multiple choice (RACE, SWAG), or train one "
    "(`roberta-hub train finetune=race`)",
    "-m takes a model of multiple choice (RACE, SWAG); `roberta-hub train finetune=race` trains "
    "one",
)
OPTION_FIRST = "sentence_ranking"
ONE_SEPARATOR = "commonsense_qa"
"""fairseq's tasks whose inputs have another layout."""


def choose(
    model: VerbModel,
    rows: Sequence[Any],
    *,
    options: Sequence[str] | None = None,
    head: str | None = None,
) -> list[Prediction]:
    """Choose for each row: of the same options, or of those that follow its text."""

    def one(row: Any) -> Prediction:
        context, *own = (row,) if isinstance(row, str) else row
        return choose_one(model, context, own if options is None else list(options), head)

    return one_by_one(rows, one)


def choose_one(
    model: VerbModel, context: str, options: Sequence[str], head: str | None = None
) -> Prediction:
    """Return the best option. See `RobertaHubInterface.choose`."""
    runner, head = model.runner, option_head(model.heads, head)
    check_outputs(known_head(runner.model, head), head)
    if isinstance(options, (str, bytes)):
        raise InputError(f"options is {short_repr(options)}; pass a list of texts, at least one")
    options = list_of(options, "options")
    if not options:
        raise InputError("options is empty; pass a list of texts, at least one")
    ids = [encode_option(runner.tokenizer, context, option, model.task) for option in options]
    if len(set(options)) != len(options):
        raise InputError(f"options is {short_repr(options)}; an option is there twice")
    with placed(lambda at: f"options[{at.index}]"):
        windows = runner.fit_windows(ids, [f"{context[:20]}... {option}" for option in options])
    values = window_values(runner, windows, head)[:, 0]  # (options,)
    return Prediction.of(list(options), values.softmax(0).tolist())


def encode_option(tokenizer: Tokenizer, context: str, option: str, task: str = "") -> Tensor:
    """Ids of one option in its context, laid out as the head was trained.

    `<s> context </s> </s> option </s>`; fairseq's task "sentence_ranking" (RACE) puts the option
    first, "commonsense_qa" has a single `</s>` in the middle.

    Example:
        >>> encode_option(Tokenizer.shipped(), "Hello", "world").tolist()
        [0, 31414, 2, 2, 8331, 2]
    """
    for what, text in (("context", context), ("an option", option)):
        if not isinstance(text, str):
            raise InputTypeError(f"{what} is a {type(text).__name__}, not a str")
    if task == OPTION_FIRST:
        return tokenizer.encode(option, context)
    return tokenizer.encode(context, option, no_separator=task == ONE_SEPARATOR)


def option_head(heads: Heads, head: str | None) -> str:
    """Return the head for `choose`: the named one, else one with a single output."""
    return heads.find(
        head,
        "classification",
        "choose",
        fits=lambda name: outputs_of(known_head(heads.model, name)) == 1,
        need="classification head with one output, the score of an option",
        remedy=_NO_HEAD,
    )


def check_outputs(module: torch.nn.Module, head: str) -> None:
    """Refuse a head with several outputs: an option has a single score."""
    outputs = outputs_of(module)
    if outputs != 1:
        raise InputError(
            f"head {head!r} has {outputs} outputs; choose needs a head with one, the score of an "
            "option",
            remedy=Remedy(
                "register_classification_head(name, num_classes=1) makes one",
                "`roberta-hub train finetune=race` trains one",
            ),
        )

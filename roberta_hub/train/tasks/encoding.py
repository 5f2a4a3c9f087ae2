"""Encodes the examples of fine-tuning: ids of at most so many tokens, errors with file and line."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torch import Tensor

from roberta_hub.errors import InputError, InputTypeError, placed
from roberta_hub.inference.windows import fit_windows
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.text.task import Task
from roberta_hub.train.tasks.options import FinetuningOptions


@contextmanager
def located(where: str) -> Iterator[None]:
    """Let errors about an example name its file and line inside the block."""
    try:
        yield
    except (InputError, InputTypeError) as error:
        error.within(where)
        raise InputError(error.what, place=error.place, remedy=error.remedy) from None


def encode(
    interface: RobertaHubInterface,
    texts: Sequence[Any],
    where: Sequence[str],
    options: FinetuningOptions,
) -> list[Tensor]:
    """Encode texts; those that are too long are cut if the options say so, else an error."""
    with placed(lambda at: where[at.index]):
        sequences = interface.tokenizer.encode_batch(list(texts))
    return shorten(interface, sequences, where, options)


def shorten(
    interface: RobertaHubInterface,
    sequences: Sequence[Tensor],
    where: Sequence[str],
    options: FinetuningOptions,
) -> list[Tensor]:
    """Cut sequences to `max_length` tokens if the options say so, else refuse long ones."""
    limit = options.max_length or interface.max_positions
    if limit > interface.max_positions:
        raise InputError(
            f"task.options.max_length is {limit}, the model takes {interface.max_positions} tokens"
        )
    for ids, place in zip(sequences, where, strict=True):
        if len(ids) > limit and not options.truncate:
            raise InputError(
                f"{len(ids)} tokens > {limit}; task.options.truncate=true cuts the longest "
                "sentence",
                place=place,
            )
    layout = interface.tokenizer.layout
    with placed(lambda at: where[at.index]):
        fitted = fit_windows(sequences, where, limit, layout, truncate=options.truncate)
    return [window.ids[0] for window in fitted]


OWN_LAYOUT_TASKS = ("sentence_ranking", "commonsense_qa", "wsc")
"""fairseq's tasks that lay out their inputs in another way than all others."""


def name_task(interface: RobertaHubInterface, name: str, init_token: int | None = None) -> None:
    """Store fairseq's name for the layout of the inputs in the model, which remembers one.

    `choose` and `disambiguate_pronoun` read it.
    """
    task = interface.task
    if not isinstance(task, Task):
        return
    if task.name in OWN_LAYOUT_TASKS and task.name != name:
        warnings.warn(
            f"this model's inputs were laid out as fairseq's task {task.name!r} has them, and from "
            f"now on as {name!r}: what it learned before will be asked in the new layout, and "
            "answer worse; train it on a copy of the model",
            stacklevel=2,
        )
    interface.task = dataclasses.replace(task, name=name, init_token=init_token)

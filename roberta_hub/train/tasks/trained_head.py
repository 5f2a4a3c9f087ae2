"""Makes the head that a fine-tuning task trains, or keeps one that can learn on."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import torch

from roberta_hub.interface import RobertaHubInterface
from roberta_hub.model.known_head import heads_of
from roberta_hub.settings import HeadKind, Inputs
from roberta_hub.text.dictionary import Dictionary
from roberta_hub.text.task import Task
from roberta_hub.train.settings import Config
from roberta_hub.train.tasks.features import roberta_of


def make_head(
    interface: RobertaHubInterface,
    config: Config,
    count: int,
    names: tuple[str, ...] | None,
    kind: Literal["classification", "token"] = "classification",
    inputs: Inputs | None = None,
    learns: HeadKind | None = None,
) -> tuple[str, ...]:
    """Make the head that the configuration names, or keep one of this size and these labels.

    It becomes the model's own head, which verbs ask by default.
    """
    names = _make_head(interface, config, count, names, kind)
    head = config.task.head
    interface.default_head = head
    if inputs is not None:
        interface.inputs[head] = inputs
    # Thresholds were chosen for the weights of before; a task that cuts texts otherwise says so.
    stale = dict.fromkeys(("thresholds", "reject_below", "known_pieces", "words"))
    interface._heads.note(head, kind=learns, **stale)
    return names


def _make_head(
    interface: RobertaHubInterface,
    config: Config,
    count: int,
    names: tuple[str, ...] | None,
    kind: Literal["classification", "token"],
) -> tuple[str, ...]:
    head, heads = config.task.head, heads_of(roberta_of(interface), kind)
    if head in heads and heads[head].out_proj.out_features == count:  # type: ignore[union-attr]
        known = interface.head_labels(head)
        unnamed = known == tuple(map(str, range(count)))
        if names is None or set(known) == set(names) or unnamed:
            if names is not None:
                interface.labels[head] = known if set(known) == set(names) else names
            return interface.labels.get(head, ())
        warnings.warn(
            f"head {head!r} knows {', '.join(known)}, the data {', '.join(names)}: "
            "it starts from scratch",
            stacklevel=2,
        )
    with seeded(config.seed):
        getattr(interface, f"register_{kind}_head")(head, count, labels=names)
    return names or ()


def take_classes(
    interface: RobertaHubInterface, head: str, names: tuple[str, ...], path: Path
) -> None:
    """Give the model the classes of fairseq's data, by whose order scripts name its outputs.

    A head that knows these classes in another order keeps what it knows.
    """
    known, heads = interface.labels.get(head, ()), heads_of(roberta_of(interface))
    if head in heads and known != names and sorted(known) == sorted(names):
        rows = [known.index(name) for name in names]
        output: Any = heads[head].out_proj
        for parameter in output.parameters():
            parameter.data = parameter.data[rows]
        interface.labels[head] = names
    if isinstance(interface.task, Task):
        labels = Dictionary.load(path, add_mask=True)
        interface.task = dataclasses.replace(interface.task, label_dictionary=labels)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Start torch's CPU generator at a seed inside the block, and restore it afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield

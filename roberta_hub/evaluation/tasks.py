"""Options of a task; answers that cannot be measured, and places of errors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from roberta_hub.errors import InputError, Place, Remedy, placed
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.settings import HeadType, Inputs
from roberta_hub.text.learnt import new_texts
from roberta_hub.text.tokenizer import Text

_NO_HEAD = Remedy(
    "load a model that has one, or register and train one",
    "name a model that has one; `roberta-hub fit` and `roberta-hub train` make them",
)


@dataclass(frozen=True)
class Asked:
    """A model, and how a task is asked of it."""

    roberta: RobertaHubInterface
    name: str
    """What reports call the model."""
    text: Any = None
    """The column of the texts, or two."""
    label: Any = None
    """The column of the right answers, or several."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """From a label of the task to the head's."""
    head: str | None = None
    weight: Any = None
    """The column of the rows' weights; None: each row counts the same."""
    split: str | None = None
    """Split, for a folder with judgements of several splits."""
    header: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)
    """Keywords of the verbs: truncate, stride, batch_tokens, progress."""

    alone: bool = True
    """Whether it is the only task; of several each takes the options that mean something to it."""

    def takes(self, kind: str, *names: str) -> None:
        """Refuse options that mean nothing to the only task."""
        given = {
            "text": self.text,
            "label": self.label,
            "labels": self.labels or None,
            "head": self.head,
            "split": self.split,
            "weight": self.weight,
        }
        unused = [name for name, own in given.items() if own is not None and name not in names]
        if unused and self.alone:
            raise InputError(
                f"{unused[0]} means nothing to a task of the kind {kind!r}",
                remedy=Remedy(f"leave {unused[0]}=... out", f"leave --{unused[0]} out"),
            )

    def head_of(self, kind: HeadType, inputs: Inputs | None = None) -> str:
        """Find the head that is asked."""
        return self.roberta._heads.find(self.head, kind, "evaluate", inputs=inputs, remedy=_NO_HEAD)

    def about_weight(self) -> tuple[str, ...]:
        """Say that rows have weights."""
        return () if self.weight is None else (f"each row counts by its weight ({self.weight})",)

    def known(self, texts: Sequence[Text]) -> tuple[str, ...]:
        """Say how many of some texts `fit` has taught the model."""
        return known_note("the model", texts, self.roberta.learnt)


def known_note(name: str, texts: Sequence[Text], learnt: frozenset[str]) -> tuple[str, ...]:
    """Note how many of some texts `fit` trained a model on; nothing if it is none."""
    count = len(texts) - len(new_texts(texts, learnt))
    if not count:
        return ()
    which = f"all {count:,}" if count == len(texts) else f"{count:,} of the {len(texts):,}"
    return (f"{name} has learnt {which} texts: what it remembers is no measure of new ones",)


def check_finite(answers: Sequence[float], where: Sequence[str]) -> None:
    """Refuse answers that are no numbers, as a model gives that overflows."""
    for answer, place in zip(answers, where, strict=True):
        if not math.isfinite(answer):
            raise InputError(
                f"the model answers with {answer}, which cannot be measured; float32 has room for "
                "larger numbers than float16",
                place=place,
            )


@contextmanager
def at_rows(where: Sequence[str]) -> Iterator[None]:
    """Tell the place of a verb's error as the row of the task."""

    def row(at: Place) -> Place | str:
        return where[at.index] if at.index < len(where) else at

    with placed(row):
        yield

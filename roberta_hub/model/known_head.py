"""Decides which head of a model a name means, or says which heads there are."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from torch import nn

from roberta_hub.arguments import kind_of, short_repr
from roberta_hub.errors import InputTypeError, Remedy, UnknownNameError, close_names
from roberta_hub.model.heads import normalizes, pooling_of
from roberta_hub.other_names import task_advice
from roberta_hub.settings import FACTS, Head, HeadType, check_head

VERBS: dict[HeadType, Remedy] = {
    "classification": Remedy("classify, choose and predict", "classify and choose"),
    "token": Remedy("tag"),
    "span": Remedy("answer"),
}
"""Which verbs a head of each kind answers."""


def heads_of(model: nn.Module, kind: HeadType = "classification") -> nn.ModuleDict:
    """Return a model's heads of one kind; fairseq's model has classification heads only."""
    heads: nn.ModuleDict = getattr(model, f"{kind}_heads", None) or nn.ModuleDict()
    return heads


def kind_of_head(model: nn.Module, head: str) -> HeadType | None:
    """Return the kind of the head that has a name; None: no head has it."""
    return next((kind for kind in VERBS if head in heads_of(model, kind)), None)


def list_heads(model: nn.Module, kind: HeadType = "classification") -> str:
    """List all heads for a message: "mnli, ner (token), squad (span)", or "none"."""
    others = [f"{name} ({k})" for k in VERBS if k != kind for name in heads_of(model, k)]
    return ", ".join([*heads_of(model, kind), *others]) or "none"


def known_head(model: nn.Module, head: object, kind: HeadType = "classification") -> nn.Module:
    """Return the head of one kind that has a name."""
    heads = heads_of(model, kind)
    if not isinstance(head, str) or head not in heads:
        raise unknown_head(model, head, kind)
    return heads[head]


def outputs_of(head: nn.Module) -> int:
    """Number of outputs of a classification or token head."""
    return int(head.out_proj.out_features)  # type: ignore[union-attr, arg-type]


def whole_heads(model: nn.Module, known: Mapping[str, Head]) -> dict[str, Head]:
    """Return the record of each head that a model has: what its module says, and what is known.

    Facts that heads of its type do not have are left out.
    """
    types = {name: kind for kind in VERBS for name in heads_of(model, kind)}
    return {
        name: _whole(heads_of(model, types[name])[name], known.get(name, Head()), name, types[name])
        for name in {**known, **types}
        if name in types
    }


def _whole(module: nn.Module, known: Head, name: str, kind: HeadType) -> Head:
    said: dict[str, Any] = {"pooling": pooling_of(module), "normalize": normalizes(module)}
    said |= {fact.name: fact.default for fact in FACTS.values() if fact.metadata["of"] != kind}
    said["labels"] = None if kind == "span" else known.labels
    head = dataclasses.replace(known, name=name, type=kind, **said)
    return check_head(name, head, outputs_of(module))


def unknown_head(
    model: nn.Module, head: object, kind: HeadType | None, more: tuple[str, ...] = ()
) -> InputTypeError | UnknownNameError:
    """Make the error for a head that there is not."""
    able = [n for k in VERBS if kind in (None, k) for n in heads_of(model, k)] + [*more]
    if not isinstance(head, str):
        labels = "; labels in words are zero_shot's: zero_shot(texts, labels)"
        return InputTypeError(
            f"head is a {kind_of(head)}; pass a name, of {', '.join(able) or 'none'}"
            + (labels if isinstance(head, (list, tuple)) else "")
        )
    listed = list_heads(model, kind or "classification")
    listed = ", ".join([*([] if listed == "none" else [listed]), *more]) or "none"
    what = f"no {f'{kind} head' if kind else 'head'} {short_repr(head)}; this model has {listed}"
    if near := close_names(head, able):
        what += f"; did you mean {near}?"
    if " " in head:
        what += "; a pair of texts is a tuple: (first, second)"
    return UnknownNameError(what, remedy=_remedy(model, head, kind))


def _remedy(model: nn.Module, head: str, kind: HeadType | None) -> Remedy | None:
    """Say what the name is for, or how a head of it is made."""
    if kind is None:
        return task_advice(head)
    if (other := kind_of_head(model, head)) is not None:
        verbs = VERBS[other]
        return Remedy(
            f"{short_repr(head)} is for {verbs.python}",
            f"{short_repr(head)} is for {verbs.in_shell}",
        )
    how = "name" if kind == "span" else "name, num_classes=..."
    return task_advice(head) or Remedy(
        f"register_{kind}_head({how}) makes a new one",
        "`roberta-hub fit` and `roberta-hub train` make models with heads of your own",
    )

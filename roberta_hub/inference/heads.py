"""Finds the head that a verb asks, and checks that it was trained on such texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import nn

from roberta_hub.arguments import kind_of, shown
from roberta_hub.config import Inputs, check_head_name
from roberta_hub.errors import (
    InputError,
    InputTypeError,
    RobertaHubError,
    UnknownNameError,
    near_names,
)
from roberta_hub.other_names import task_advice
from roberta_hub.text.dictionary import MASK
from roberta_hub.text.texts import many
from roberta_hub.text.tokenizer import Text

Kind = Literal["classification", "token", "span"]
VERBS: dict[Kind, str] = {
    "classification": "classify, choose and predict",
    "token": "tag",
    "span": "answer",
}
"""Which verbs a head of each kind answers."""
ENTAILMENT = "entailment"
"""The label by which a head for natural-language inference is known."""


def heads_of(model: nn.Module, kind: Kind = "classification") -> nn.ModuleDict:
    """Return a model's heads of one kind; fairseq's model has classification heads only."""
    heads: nn.ModuleDict = getattr(model, f"{kind}_heads", None) or nn.ModuleDict()
    return heads


def known_head(model: nn.Module, head: str, kind: Kind = "classification") -> nn.Module:
    """Return the head's module, or an error that lists the heads there are."""
    if not isinstance(head, str):
        names = ", ".join(heads_of(model, kind)) or "none"
        raise InputTypeError(f"head is a {kind_of(head)}; pass a name, of {names}")
    heads = heads_of(model, kind)
    if head not in heads:
        others = [f"{name} ({k})" for k in VERBS if k != kind for name in heads_of(model, k)]
        verbs = [VERBS[k] for k in VERBS if k != kind and head in heads_of(model, k)]
        how = "name" if kind == "span" else "name, num_classes=..."
        near = near_names(head, [name for name in heads if name not in verbs])
        remedy = f"did you mean {near}? " if near else ""
        remedy += task_advice(head) or f"register_{kind}_head({how}) makes a new one"
        raise UnknownNameError(
            f"no {kind} head {shown(head)}; this model has "
            f"{', '.join([*heads, *others]) or 'none'}; "
            + (f"{shown(head)} is for {verbs[0]}" if verbs else remedy)
        )
    return heads[head]


def find_head(
    model: nn.Module,
    head: str | None,
    kind: Kind,
    verb: str,
    *,
    own: str | None,
    labels: Callable[[str], Sequence[str]],
    fits: Callable[[str], bool] | None = None,
    need: str = "",
) -> str:
    """Find the head that a verb asks: the named one, else the model's own, else the only one.

    Args:
        model: ours or fairseq's.
        head: what the caller said; None: nothing.
        kind: of the heads that the verb asks.
        verb: for the error.
        own: the head that the model was trained for, if known; taken where it is of this kind.
        labels: names of a head's classes, for the error.
        fits: which heads of the kind the verb can ask; None: all.
        need: what these are called, for the error.

    Raises:
        UnknownNameError: no such head, or none that the verb could ask.
        InputError: several, and no reason to take one.
    """
    if head is not None:
        known_head(model, head, kind)
        return head
    able = [name for name in heads_of(model, kind) if fits is None or fits(name)]
    if own in able:
        return own
    if len(able) == 1:
        return able[0]
    if able:
        raise InputError(
            f"{verb} is not told which head to ask, and this model has {len(able)}: "
            f"{_listed(able, kind, labels)}; pass head=NAME, or set roberta.own_head once"
        )
    there = [_listed(heads_of(model, k), k, labels) for k in VERBS if len(heads_of(model, k))]
    raise UnknownNameError(
        f"{verb} needs a {need or f'{kind} head'}, and this model has "
        f"{'; '.join(there) or 'no head'}; load a model that has one, or register and train one"
    )


def _listed(
    names: Sequence[str] | nn.ModuleDict, kind: Kind, labels: Callable[[str], Sequence[str]]
) -> str:
    """Heads with their labels: "mnli (contradiction, neutral, entailment), topic (art, sport)"."""
    if kind == "span":
        return ", ".join(f"{name} (start, end)" for name in names)
    shown = []
    for name in names:
        known = [label[:30] for label in labels(name)]
        more = ", ..." if len(known) > 6 else ""
        shown.append(f"{name} ({', '.join(known[:6])}{more})")
    return ", ".join(shown)


def check_labels(head: str, labels: Sequence[str], count: int | None = None) -> tuple[str, ...]:
    """Return the labels of a head's classes, each different, or an error that says what is wrong.

    Args:
        head: for the error.
        labels: in the order of the outputs.
        count: how many there must be; None: as many as there are.

    Raises:
        InputError: too few or too many, or one that stands there twice.
        InputTypeError: not strings.
    """
    if isinstance(labels, str):
        raise InputTypeError(f"head {head!r}: labels is {shown(labels)}; pass a list of str")
    try:
        names = tuple(many(labels, "labels"))
    except RobertaHubError as error:
        raise InputTypeError(f"head {head!r}: {error}; pass a list of str") from None
    if odd := [name for name in names if not isinstance(name, str)]:
        raise InputTypeError(f"head {head!r}: label {shown(odd[0])} is no str; pass a list of str")
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise InputError(
            f"head {head!r}: label {shown(twice[0])} stands twice in {shown(list(names), 200)}; "
            "give each class a name of its own"
        )
    if count is not None and len(names) != count:
        raise InputError(
            f"head {head!r}: {len(names)} labels {shown(list(names), 200)} for {count} classes"
        )
    return names


def check_classes(
    head: str, labels: Sequence[str] | None, count: int | None
) -> tuple[tuple[str, ...] | None, int | None]:
    """Return the labels of a new head, checked, and its number of classes.

    Args:
        head: its name, checked too.
        labels: names of the classes; None: it has none.
        count: of the classes; None: as many as labels.

    Raises:
        InputError: a name that cannot be, or labels that are not all different.

    Example:
        >>> check_classes("topic", ["art", "sport"], None)
        (('art', 'sport'), 2)
    """
    check_head_name(head)
    if labels is None:
        return None, count
    names = check_labels(head, labels, count)
    return names, len(names) if count is None else count


def entails(labels: Sequence[str]) -> bool:
    """Tell whether a head with these labels judges entailment."""
    return ENTAILMENT in map(str.lower, labels)


def trained_on(head: str, marks: Mapping[str, Inputs], labels: Sequence[str]) -> Inputs | None:
    """Tell what a head was trained on: its mark, else pairs if it judges entailment, else unknown.

    Example:
        >>> trained_on("mnli", {}, ["Contradiction", "Neutral", "Entailment"])
        'pair'
        >>> trained_on("topic", {}, ["art", "sport"]) is None
        True
    """
    return marks.get(head, "pair" if entails(labels) else None)


def check_inputs(texts: Sequence[Text], head: str, inputs: Inputs | None) -> None:
    """Refuse single texts for a head of pairs, and pairs for one of single texts.

    The head would answer, and the answer would mean nothing. What is no text at all passes, for
    the encoder to name.

    Raises:
        InputError: it names the first such text and the remedy.
    """
    if inputs is None:
        return
    for place, text in enumerate(texts):
        count = len(text) if isinstance(text, tuple) else isinstance(text, str)  # 0: no text
        if inputs == "pair" and count == 1:
            raise InputError(
                f"texts[{place}] is a single text ({_start(text)}), and head {head!r} judges "
                "pairs: pass (text, other text) for each, or ask zero_shot(texts, labels), which "
                "takes single texts and labels in words"
            )
        if inputs == "one" and count > 1:
            raise InputError(
                f"texts[{place}] is a tuple of {count} texts ({_start(text)}), and head {head!r} "
                "was trained on single texts: join each pair to one text, or ask a head that was "
                "trained on pairs"
            )


def _start(text: Text) -> str:
    return repr(text if isinstance(text, str) else text[0])[:40]


@dataclass(frozen=True)
class Heads:
    """A model's heads, with what is known of each; a verb finds here the head that it asks."""

    model: nn.Module
    """Ours or fairseq's."""
    given: Mapping[str, Sequence[str]]
    """Class names of heads, where they were given."""
    marks: Mapping[str, Inputs]
    """What heads were trained on, where known."""
    own: str | None
    """The head that the model was trained for, where known."""
    dictionary: Any = None
    """fairseq's label dictionary, ours or its own, of a task that has one."""

    def labels(self, head: str) -> tuple[str, ...]:
        """Name a head's classes: the given names, else the label dictionary's, else numbers."""
        is_token = isinstance(head, str) and head in [*heads_of(self.model, "token")]
        kind: Kind = "token" if is_token else "classification"
        module = known_head(self.model, head, kind)
        count = int(module.out_proj.out_features)  # type: ignore[union-attr, arg-type]
        known = self.given.get(head)
        if known is None and self.dictionary is not None and kind == "classification":
            names = self.dictionary.symbols[self.dictionary.nspecial :]
            # fairseq fills dictionaries up to a multiple of eight, and adds <mask> to those of
            # labels too.
            known = tuple(n for n in names if not n.startswith("madeupword") and n != MASK)
        if known is None or len(set(known)) != count or len(known) != count:
            return tuple(str(i) for i in range(count))  # also where two classes share a name
        return tuple(known)

    def inputs(self, head: str) -> Inputs | None:
        """Tell what a head was trained on, where that is known."""
        return trained_on(head, self.marks, self.labels(head))

    def find(
        self,
        head: str | None,
        kind: Kind,
        verb: str,
        *,
        fits: Callable[[str], bool] | None = None,
        need: str = "",
    ) -> str:
        """Return the head that a verb asks; see `find_head`."""
        return find_head(
            self.model,
            head,
            kind,
            verb,
            own=self.own,
            labels=self.labels,
            fits=fits,
            need=need,
        )

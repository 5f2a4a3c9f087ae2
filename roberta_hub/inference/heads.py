"""Finds the head for a verb, and checks its inputs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, TypeVar, get_args

from torch import nn

from roberta_hub.arguments import kind_of, one_of, short_repr
from roberta_hub.config import check_head_name
from roberta_hub.errors import (
    InputError,
    InputTypeError,
    Place,
    Remedy,
    RobertaHubError,
    UnknownNameError,
)
from roberta_hub.model.known_head import (
    VERBS,
    heads_of,
    kind_of_head,
    known_head,
    list_heads,
    outputs_of,
    unknown_head,
)
from roberta_hub.model.nli_labels import entailment_index
from roberta_hub.rows.frames import list_of
from roberta_hub.settings import (
    FACTS,
    Head,
    HeadKind,
    HeadType,
    Inputs,
    WordRule,
    check_kind,
    check_reject_below,
    check_thresholds,
    check_words,
    column,
)
from roberta_hub.text.dictionary import MASK
from roberta_hub.text.tokenizer import Text

Value = TypeVar("Value")
_GIVE_PAIRS = Remedy(
    "pass (text, other text) for each, or ask zero_shot(texts, labels), which takes single texts "
    "and labels in words",
    "give pairs (--pair A B, or two columns), or take zero-shot, for labels in words",
)
_NAME_A_HEAD = Remedy("pass head=NAME, or set roberta.default_head once", "say --head NAME")
_ASK_APART = Remedy(
    "ask single texts and pairs in two calls", "give single texts and pairs to two commands"
)
_NO_HEAD = Remedy(
    "load a model that has one, or register and train one",
    "-m takes a model that has one; `roberta-hub fit` and `roberta-hub train` make them",
)
_NO_SPAN_HEAD = Remedy(
    "load a model that has one, such as deepset/roberta-base-squad2, or train one "
    "(`roberta-hub train finetune=squad`)",
    "-m takes a model that has one, such as deepset/roberta-base-squad2; "
    "`roberta-hub train finetune=squad` makes one",
)


def _listed(
    names: Sequence[str] | nn.ModuleDict, kind: HeadType, labels: Callable[[str], Sequence[str]]
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
    """Return the labels of a head's classes, checked."""
    if isinstance(labels, str):
        raise InputTypeError(f"head {head!r}: labels is {short_repr(labels)}; pass a list of str")
    try:
        names = tuple(list_of(labels, "labels"))
    except RobertaHubError as error:
        raise InputTypeError(f"head {head!r}: {error}; pass a list of str") from None
    if others := [name for name in names if not isinstance(name, str)]:
        raise InputTypeError(
            f"head {head!r}: label {short_repr(others[0])} is no str; pass a list of str"
        )
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise InputError(
            f"head {head!r}: label {short_repr(twice[0])} is twice in "
            f"{short_repr(list(names), 200)}; give each class a name of its own"
        )
    if count is not None and len(names) != count:
        raise InputError(
            f"head {head!r}: {len(names)} labels {short_repr(list(names), 200)} for {count} classes"
        )
    return names


def check_classes(
    head: str, labels: Sequence[str] | None, count: int | None
) -> tuple[tuple[str, ...] | None, int | None]:
    """Return the labels and the number of classes of a new head, checked.

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
    """Whether a head with these labels judges entailment."""
    return entailment_index(labels) is not None


def is_numbered(labels: Sequence[str]) -> bool:
    """Whether labels are numbers alone, as of a head whose classes nobody named.

    Example:
        >>> is_numbered(["LABEL_0", "LABEL_1"]), is_numbered(["0", "1"]), is_numbered(["art"])
        (True, True, False)
    """
    return all(re.fullmatch(r"(?:LABEL_)?\d+", label) for label in labels)


def check_inputs(texts: Sequence[Text], head: str, inputs: Inputs | None) -> None:
    """Refuse all but pairs for a head of pairs, and tuples for one of single texts.

    The head would answer, meaninglessly. Values that are no texts pass; the tokenizer refuses them.
    """
    if inputs is None:
        return
    for i, text in enumerate(texts):
        count = len(text) if isinstance(text, tuple) else isinstance(text, str)  # 0: no text
        if inputs == "pair" and count == 1:
            raise InputError(
                f"a single text ({_beginning(text)}), and head {head!r} judges pairs",
                place=Place("texts", i),
                remedy=_GIVE_PAIRS,
            )
        if inputs == "pair" and count > 2:
            raise InputError(
                f"a tuple of {count} texts ({_beginning(text)}), and head {head!r} judges pairs; "
                "join what belongs together, so that two are left",
                place=Place("texts", i),
            )
        if inputs == "one" and count > 1:
            raise InputError(
                f"a tuple of {count} texts ({_beginning(text)}), and head {head!r} was trained on "
                "single texts; join each pair to one text, or ask a head that was trained on pairs",
                place=Place("texts", i),
            )


def _beginning(text: Text) -> str:
    return repr(text if isinstance(text, str) else text[0])[:40]


# ---- what is known of each head: attributes of a model ----


def _labels(model: nn.Module, head: str, value: Any) -> Any:
    kind: HeadType = "token" if head in heads_of(model, "token") else "classification"
    return check_labels(head, value, outputs_of(known_head(model, head, kind)))


def _inputs(model: nn.Module, head: str, value: Any) -> Any:
    one_of(f"inputs of head {head!r}", value, get_args(Inputs))
    return value


def _of_classifier(model: nn.Module, head: str, value: Any) -> Any:
    known_head(model, head)
    return value  # checked when it is used, with the labels of then


def _of_any(model: nn.Module, head: str, value: Any) -> Any:
    if kind_of_head(model, head) is None:
        raise unknown_head(model, head, None)
    return value  # as above


_CHECKS: dict[str, Callable[[nn.Module, str, Any], Any]] = {
    "labels": _labels,
    "inputs": _inputs,
    **{
        name: _of_classifier
        for name, fact in FACTS.items()
        if fact.metadata["of"] == "classification" and fact.default is None
    },
}
"""Checks of facts when they are set; others are `_of_any`."""


class ByHead(dict[str, Any], MutableMapping[str, Any]):
    """One fact of the heads that have it, by name, when it was asked for.

    An entry that is set is checked, and set in the head's record.
    """

    def __init__(self, heads: Heads, fact: str) -> None:
        super().__init__(column(heads.known, fact))
        self.heads, self.fact = heads, fact

    def __setitem__(self, head: str, value: Any) -> None:
        value = _CHECKS.get(self.fact, _of_any)(self.heads.model, head, value)
        self.heads.note(head, **{self.fact: value})
        super().__setitem__(head, value)

    def __delitem__(self, head: str) -> None:
        super().__delitem__(head)
        self.heads.note(head, **{self.fact: None})

    # dict's own would not call the methods above.
    clear, pop, popitem = MutableMapping.clear, MutableMapping.pop, MutableMapping.popitem
    update, setdefault = MutableMapping.update, MutableMapping.setdefault

    def __ior__(self, more: Any) -> ByHead:  # type: ignore[override, misc]
        self.update(more)
        return self

    def __reduce__(self) -> Any:
        return dict, (dict(self),)


class HeadFact(Generic[Value]):
    """An attribute of an interface: one fact of its heads, by name."""

    def __init__(self, fact: str) -> None:
        self.fact = fact

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, roberta: Any, owner: type) -> dict[str, Value]:
        return {} if roberta is None else ByHead(roberta._heads, self.fact)

    def __set__(self, roberta: Any, given: Mapping[str, Value]) -> None:
        """Set the fact of all heads, once each entry is checked."""
        heads = roberta._heads
        if isinstance(given, ByHead) and given == column(heads.known, self.fact):
            return  # as `|=` has set them
        if not isinstance(given, Mapping):
            raise InputTypeError(
                f"{self.name} is a {kind_of(given)}; give a dict with an entry for each head, of "
                f"{list_heads(heads.model)}"
            )
        check = _CHECKS.get(self.fact, _of_any)
        checked = {head: check(heads.model, head, value) for head, value in given.items()}
        own = replace(heads, known=dict(heads.known))  # a copy of the interface keeps what it has
        for head in {**heads.known, **checked}:
            own.note(head, **{self.fact: checked.get(head)})
        roberta._known_heads = own.known


def checked_heads(model: nn.Module, known: Mapping[str, Head]) -> dict[str, Head]:
    """Check what comes with a model; what is known of heads that it lacks is kept as it is."""
    heads = Heads(model, dict(known))
    for head in filter(partial(kind_of_head, model), known):
        given = {fact: getattr(known[head], fact) for fact in _CHECKS}
        found = {f: _CHECKS[f](model, head, v) for f, v in given.items() if v is not None}
        heads.note(head, **found)
    return heads.known


# ---- the heads of a model ----


@dataclass(frozen=True)
class Heads:
    """The heads of a model, with their labels and settings."""

    model: nn.Module
    """Ours or fairseq's."""
    known: dict[str, Head]
    """What is known of heads, by name; those of heads that the model lacks may be among them."""
    default: str | None = None
    """The head that the model was trained for, if known."""
    dictionary: Any = None
    """Label dictionary of the task, ours or fairseq's, if any."""

    def of(self, head: str) -> Head:
        """What is known of a head."""
        return self.known.get(head, Head())

    def note(self, head: str, **facts: Any) -> None:
        """Set facts of a head; None: unknown."""
        self.known[head] = replace(self.of(head), **facts)

    def labels(self, head: str) -> tuple[str, ...]:
        """Labels of a head: given, else from the label dictionary, else numbers."""
        is_token = isinstance(head, str) and head in heads_of(self.model, "token")
        kind: HeadType = "token" if is_token else "classification"
        count = outputs_of(known_head(self.model, head, kind))
        known = self.of(head).labels
        if known is None and self.dictionary is not None and kind == "classification":
            names = self.dictionary.symbols[self.dictionary.nspecial :]
            # fairseq pads dictionaries to a multiple of eight, and adds <mask> to those of labels.
            known = tuple(n for n in names if not n.startswith("madeupword") and n != MASK)
        if known is None or len(set(known)) != count or len(known) != count:
            return tuple(str(i) for i in range(count))  # also where two classes share a name
        return tuple(known)

    def inputs(self, head: str) -> Inputs | None:
        """What a head was trained on: recorded, else pairs for entailment, else None: unknown."""
        labels = self.labels(head)
        return self.of(head).inputs or ("pair" if entails(labels) else None)

    def kind(self, head: str) -> HeadKind | None:
        """Kind of a classification head; None: unknown."""
        return check_kind(head, self.of(head).kind)

    def thresholds(self, head: str) -> tuple[float, ...] | None:
        """Thresholds of a classification head's labels; None: it has none."""
        return check_thresholds(head, self.of(head).thresholds, len(self.labels(head)))

    def reject_below(self, head: str) -> float | None:
        """Certainty below which a classification head refuses to answer; None: it never does."""
        below = check_reject_below(head, self.of(head).reject_below)
        if below is not None and self.kind(head) in ("multi_label", "regression"):
            raise InputError(
                f"head {head!r} has reject_below and is of kind {self.kind(head)!r}; a head that "
                "gives each text one of several labels may refuse it"
            )
        return below

    def words(self, head: str) -> WordRule:
        """How a token head splits texts into words."""
        own = self.of(head).words
        return "words" if own is None else check_words(head, own)

    def own(self, inputs: Inputs) -> str | None:
        """The classification head for single texts, or for pairs; None: none, or several.

        Several heads of one kind of inputs leave the model's default, if it is among them.
        """
        able = [name for name in heads_of(self.model) if self.inputs(name) == inputs]
        return self.default if self.default in able else able[0] if len(able) == 1 else None

    def find_for(self, texts: Sequence[Text], head: str | None, verb: str) -> str:
        """Find the classification head for texts by what they are: single texts, or pairs."""
        kinds: set[Inputs] = {
            "pair" if isinstance(text, tuple) and len(text) > 1 else "one"
            for text in texts
            if isinstance(text, str | tuple)  # the tokenizer refuses others
        }
        found = {self.find(head, "classification", verb, inputs=own) for own in kinds or [None]}
        if len(found) > 1:
            raise InputError(
                f"{verb} has single texts and pairs at once, and this model has a head for each: "
                f"{_listed(sorted(found), 'classification', self.labels)}",
                remedy=_ASK_APART,
            )
        return found.pop()

    def find(
        self,
        head: str | None,
        kind: HeadType,
        verb: str,
        *,
        inputs: Inputs | None = None,
        fits: Callable[[str], bool] | None = None,
        need: str = "",
        remedy: Remedy | None = None,
    ) -> str:
        """Find the head for a verb: the named one, else the model's default, else the only one.

        Heads that were trained on other inputs are left out, if there are others.
        """
        if head is not None:
            known_head(self.model, head, kind)
            return head
        able = [name for name in heads_of(self.model, kind) if fits is None or fits(name)]
        if inputs is not None:
            able = [name for name in able if self.inputs(name) in (None, inputs)] or able
        if self.default in able:
            return self.default
        if len(able) == 1:
            return able[0]
        if able:
            raise InputError(
                f"{verb} is not told which head to ask, and this model has {len(able)}: "
                f"{_listed(able, kind, self.labels)}",
                remedy=_NAME_A_HEAD,
            )
        kinds = [k for k in VERBS if len(heads_of(self.model, k))]
        there = [_listed(heads_of(self.model, k), k, self.labels) for k in kinds]
        raise UnknownNameError(
            f"{verb} needs a {need or f'{kind} head'}, and this model has "
            f"{'; '.join(there) or 'no head'}",
            remedy=remedy or (_NO_SPAN_HEAD if kind == "span" else _NO_HEAD),
        )

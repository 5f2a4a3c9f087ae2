"""Holds rows of a table out once or in folds, of each class alike; no text is on both sides."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

from roberta_hub.errors import InputError
from roberta_hub.rows.formats import row_count
from roberta_hub.rows.left_out import short_place
from roberta_hub.text.learnt import folded, text_key
from roberta_hub.text.tokenizer import Text


class Labelled(Protocol):
    """A row with labels: a text or a pair with its classes, or a text with those of its spans."""

    @property
    def text(self) -> Text:
        """The text, or the two of a pair."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels, or one number."""

    @property
    def amounts(self) -> Mapping[str, float]:
        """What the row counts of each label; more than `labels` where it has shares of classes."""

    @property
    def where(self) -> str:
        """File and line, for messages."""


AnyLabelled = TypeVar("AnyLabelled", bound=Labelled)


def group_duplicates(found: Sequence[Labelled], notes: list[str]) -> list[list[int]]:
    """Group the rows of equal texts, in order; note how many groups have several.

    Texts are equal in any case, spacing and Unicode form, and pairs in both orders. A pair in two
    orders may well have two labels.
    """
    groups: dict[tuple[str, ...], list[int]] = {}
    for i, example in enumerate(found):
        groups.setdefault(text_key(example.text), []).append(i)
    several = [group for group in groups.values() if len(group) > 1]
    if several:
        count, repeated = sum(map(len, several)), min(group[1] for group in several)
        notes.append(
            f"{row_count(count)} with a text that occurs more than once, {len(several):,} texts in "
            f"all; all rows of one text are on one side; first "
            f"{short_place(found[repeated].where)}"
        )
    differing = [pair for group in several if (pair := _differing(group, found))]
    if differing:
        first = " and ".join(short_place(found[i].where) for i in differing[0])
        notes.append(f"{len(differing):,} of these texts with different labels, first {first}")
    return list(groups.values())


def _differing(group: Sequence[int], found: Sequence[Labelled]) -> tuple[int, int] | None:
    """Find the first two rows whose texts are equal in order too, and whose labels are not."""
    firsts: dict[tuple[str, ...], int] = {}
    for i in group:
        text = found[i].text
        parts = (text,) if isinstance(text, str) else text
        first = firsts.setdefault(tuple(map(folded, parts)), i)
        if found[first].labels != found[i].labels:
            return first, i
    return None


def split(
    found: Sequence[AnyLabelled],
    groups: Sequence[list[int]],
    share: float,
    seed: int,
    task: str,
) -> tuple[list[AnyLabelled], list[AnyLabelled]]:
    """Hold out a share of the rows, of each class alike, and no text on both sides.

    The last row of a label stays in the training, whatever the share. A regression has no labels
    to keep, and only a classification has classes.
    """
    classes: dict[tuple[str, ...], list[list[int]]] = {}
    for group in groups:
        own_class = found[group[0]].labels if task == "classification" else ()
        classes.setdefault(own_class, []).append(group)
    draw, held_out = random.Random(seed), set()
    left = Counter(name for example in found for name in example.amounts)

    def names(group: Sequence[int]) -> Counter[str]:
        return Counter(name for i in group for name in found[i].amounts)

    def spare(group: Sequence[int]) -> bool:
        """Tell whether every label of these rows is also in others that stay in the training."""
        return task == "regression" or all(left[name] > n for name, n in names(group).items())

    owed = 0.0  # carried on to the next class, so that small classes add up to their share
    for labels in sorted(classes):
        own = classes[labels]
        draw.shuffle(own)
        owed += share * sum(map(len, own))
        for group in own[1:]:  # one text of each class stays in the training
            if owed < 0.5:
                break
            if not spare(group):
                continue
            if task != "regression":  # whose numbers nobody counts
                left.subtract(names(group))
            held_out.update(group)
            owed -= len(group)
    if not held_out and len(groups) > 1:
        largest = max(classes.values(), key=len)[::-1]
        held_out.update(next((group for group in largest if spare(group)), largest[0]))
    sides: Mapping[bool, list[AnyLabelled]] = {True: [], False: []}
    for i, example in enumerate(found):
        sides[i in held_out].append(example)
    return sides[False], sides[True]


def folds(
    found: Sequence[Labelled],
    groups: Sequence[list[int]],
    count: int,
    seed: int,
    task: str,
) -> list[list[int]]:
    """Divide the rows into folds, each of which is held out once.

    The rows of a group stay together. Labels are spread alike, the rarest first (Sechidis et al.
    2011): a group goes where its label is rarest so far, then where its other labels are, then into
    the smallest fold. Rows without a label are spread as a label of their own, and the numbers of a
    regression by their order.

    Example:
        >>> from roberta_hub.train.data.sentences import LabelledText
        >>> rows = [LabelledText(f"text {i}", ("ab"[i % 2],), f"t:{i}") for i in range(8)]
        >>> parts = folds(rows, [[i] for i in range(8)], 2, seed=1, task="classification")
        >>> [sorted(rows[i].labels[0] for i in part) for part in parts]
        [['a', 'a', 'b', 'b'], ['a', 'a', 'b', 'b']]
    """
    if not 2 <= count <= len(groups):
        raise InputError(f"{count} folds of {len(groups):,} different texts; there are too few")
    draw = random.Random(seed)
    order = draw.sample(list(groups), len(groups))
    if task == "regression":
        parts = _by_value(found, order, count, draw)
    else:
        parts = _by_label(found, order, count)
    return [sorted(part) for part in draw.sample(parts, count)]  # else the first are the largest


def _by_label(
    found: Sequence[Labelled], groups: Sequence[list[int]], count: int
) -> list[list[int]]:
    labels = [Counter(name for i in group for name in found[i].labels or ("",)) for group in groups]
    members: dict[str, list[int]] = {}
    for k, own in enumerate(labels):
        for name in own:
            members.setdefault(name, []).append(k)
    held = {name: [0] * count for name in members}  # rows of each label in each fold
    parts: list[list[int]] = [[] for _ in range(count)]
    placed = set[int]()
    for name in sorted(members, key=lambda name: (len(members[name]), name)):
        waiting = [k for k in members[name] if k not in placed]
        for k in sorted(waiting, key=lambda k: -len(groups[k])):  # the largest has most choice
            need = [
                (held[name][f], sum(held[other][f] for other in labels[k]), len(parts[f]))
                for f in range(count)
            ]
            best = need.index(min(need))
            for own_name, rows in labels[k].items():
                held[own_name][best] += rows
            parts[best] += groups[k]
            placed.add(k)
    return parts


def _by_value(
    found: Sequence[Labelled], groups: Sequence[list[int]], count: int, draw: random.Random
) -> list[list[int]]:
    """Give each fold one of every `count` groups that follow each other by their mean number."""
    means = [sum(float(found[i].labels[0]) for i in group) / len(group) for group in groups]
    ordered = [groups[k] for k in sorted(range(len(groups)), key=means.__getitem__)]
    parts: list[list[int]] = [[] for _ in range(count)]
    for start in range(0, len(ordered), count):
        block = ordered[start : start + count]
        draw.shuffle(block)
        block.sort(key=len, reverse=True)
        for part, group in zip(sorted(parts, key=len), block, strict=False):
            part += group
    return parts


def drop_held_out(
    found: Sequence[AnyLabelled], held_out: Sequence[AnyLabelled], name: str, notes: list[str]
) -> list[AnyLabelled]:
    """Leave out of the training what is in the held-out table too."""
    there = {text_key(example.text) for example in held_out}
    train = [example for example in found if text_key(example.text) not in there]
    if len(train) < len(found):
        first = next(
            short_place(example.where) for example in found if text_key(example.text) in there
        )
        notes.append(
            f"{row_count(len(found) - len(train))} with a text that {short_place(name)} has too, "
            f"not learnt; first {first}"
        )
    return train

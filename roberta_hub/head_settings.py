"""Says how a head reads a text, and what its outputs mean."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, get_args

from roberta_hub.arguments import shown
from roberta_hub.errors import InputError

HeadPooling = Literal["cls", "mean"]
"""What a head reads: the vector of `<s>`, or the mean of the vectors of all tokens."""
HeadKind = Literal["single_label", "multi_label", "regression"]
"""What a head learnt: one label of several, any number of labels, or numbers."""
WordRule = Literal["words", "parts"]
"""What a token head labels: words as treebanks cut them, or runs of letters and digits."""
MIDDLE = 0.5
"""The threshold of a label for which none is stored."""


@dataclass(frozen=True, kw_only=True)
class HeadSettings:
    """How a head reads a text, and what its outputs mean.

    Example:
        >>> HeadSettings(pooling="mean", kind="multi_label", thresholds=(0.5, 0.25)).to_dict()
        {'pooling': 'mean', 'kind': 'multi_label', 'thresholds': [0.5, 0.25]}
        >>> HeadSettings().to_dict()
        {}
    """

    pooling: HeadPooling = "cls"
    """Of a classification head."""
    kind: HeadKind | None = None
    """Of a classification head; None: nobody said it."""
    thresholds: tuple[float, ...] | None = None
    """For each label the least probability that gives it; None: `MIDDLE` for all."""
    words: WordRule = "words"
    """Of a token head."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a JSON file, without those that nobody set; `settings_of` reads them."""
        values: dict[str, Any] = {
            "pooling": None if self.pooling == "cls" else self.pooling,
            "kind": self.kind,
            "thresholds": None if self.thresholds is None else list(self.thresholds),
            "words": None if self.words == "words" else self.words,
        }
        return {name: value for name, value in values.items() if value is not None}


def settings_of(head: str, values: Any) -> HeadSettings:
    """Read the settings of a head from a file's plain values.

    Args:
        head: its name, for errors.
        values: what `HeadSettings.to_dict` gives.

    Raises:
        InputError: another form, or a value that cannot be.

    Example:
        >>> settings_of("topic", {"pooling": "mean"})
        HeadSettings(pooling='mean', kind=None, thresholds=None, words='words')
    """
    known = ("pooling", "kind", "thresholds", "words")
    if not isinstance(values, dict) or not set(values) <= set(known):
        raise InputError(f"head {head!r}: {shown(values)} is no dict of {', '.join(known)}")
    return HeadSettings(
        pooling=check_pooling(head, values.get("pooling", "cls")),
        kind=check_kind(head, values.get("kind")),
        thresholds=check_thresholds(head, values.get("thresholds")),
        words=check_words(head, values.get("words", "words")),
    )


def check_pooling(head: object, pooling: Any) -> HeadPooling:
    """Return what a head reads.

    Args:
        head: its name, for the error.
        pooling: what was said.

    Raises:
        InputError: it is neither of both.
    """
    if not isinstance(pooling, str) or pooling not in get_args(HeadPooling):
        raise InputError(
            f"head {shown(head)}: pooling is {shown(pooling)}; choose 'cls', the vector of <s>, or "
            "'mean', that of all tokens"
        )
    return pooling  # type: ignore[return-value]


def check_kind(head: object, kind: Any) -> HeadKind | None:
    """Return what a head learnt; None: nobody said it.

    Args:
        head: its name, for the error.
        kind: what was said.

    Raises:
        InputError: there is no such kind.
    """
    if kind is not None and (not isinstance(kind, str) or kind not in get_args(HeadKind)):
        raise InputError(
            f"head {shown(head)}: kind is {shown(kind)}; choose 'single_label', 'multi_label' or "
            "'regression', or None where nobody knows it"
        )
    return kind  # type: ignore[return-value]


def check_words(head: object, words: Any) -> WordRule:
    """Return how a text is cut for a token head.

    Args:
        head: its name, for the error.
        words: what was said.

    Raises:
        InputError: there is no such rule.
    """
    if not isinstance(words, str) or words not in get_args(WordRule):
        raise InputError(
            f"head {shown(head)}: words is {shown(words)}; choose 'words', as treebanks cut them, "
            "or 'parts', runs of letters and digits"
        )
    return words  # type: ignore[return-value]


def check_thresholds(
    head: object, thresholds: Any, count: int | None = None
) -> tuple[float, ...] | None:
    """Return the thresholds of a head's labels as floats; None: there are none.

    Args:
        head: its name, for the error.
        thresholds: a number for each label.
        count: of the labels; None: any.

    Raises:
        InputError: no list of numbers from 0 to 1, or not one for each label.

    Example:
        >>> check_thresholds("topic", [0.5, 1], 2)
        (0.5, 1.0)
    """
    if thresholds is None:
        return None
    needs = "one number from 0 to 1 for each label" if count is None else _needs(count)
    if isinstance(thresholds, (str, bytes, dict, set)) or not hasattr(thresholds, "__iter__"):
        raise InputError(f"head {shown(head)}: thresholds is {shown(thresholds)}; give {needs}")
    given = list(thresholds)
    for number in given:
        is_number = isinstance(number, Real) and not isinstance(number, bool)
        if not is_number or not math.isfinite(number) or not 0 <= number <= 1:
            raise InputError(f"head {shown(head)}: threshold {shown(number)}; give {needs}")
    if count is not None and len(given) != count:
        raise InputError(
            f"head {shown(head)}: {len(given)} thresholds {shown(given)} for {count} labels; give "
            f"{needs}"
        )
    return tuple(map(float, given))


def _needs(count: int) -> str:
    return f"a list of {count} numbers from 0 to 1, one for each label in the order of head_labels"

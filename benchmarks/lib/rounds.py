"""Deals texts out to rounds in which no text comes again.

What an engine keeps of a text or of a number of tokens that it has met counts for it only as it
would for its users: who has new texts meets new shapes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar

from lib.timing import Sample, Samples

Text = TypeVar("Text")
"""Ids as a Tensor, or a str."""


def same(text: Any) -> Hashable:
    """What tells a text from others."""
    return text if isinstance(text, str) else tuple(text.tolist())


def dealt(texts: Sequence[Text], rounds: int) -> list[list[Text]]:
    """As many lists as rounds, alike in lengths, in the given order; each text once in all."""
    different: list[Any] = list({same(text): text for text in texts}.values())
    by_length = sorted(range(len(different)), key=lambda i: -len(different[i]))
    return [[different[i] for i in sorted(by_length[turn::rounds])] for turn in range(rounds)]


def tokens(part: Sequence[Any]) -> int:
    """Real tokens of a round; characters of texts that are no ids yet."""
    return sum(map(len, part))


def sampled_in_rounds(
    ways: Mapping[str, Callable[[list[Text]], Sample]],
    parts: Sequence[list[Text]],
    pause: float = 0.0,
) -> dict[str, Samples]:
    """Time every way once a round; seconds are scaled to a round of the mean number of tokens."""
    found = {name: Samples() for name in ways}
    mean = sum(map(tokens, parts)) / len(parts)
    for part in parts:
        for name, way in ways.items():
            time.sleep(pause)
            seconds, is_clean = way(part)
            seconds *= mean / tokens(part)
            found[name].seconds.append(seconds)
            found[name].clean += [seconds] if is_clean else []
    return found

"""Ranks texts without labels by how much their labels would teach.

benchmarks/results/label_next.md has what this rule and eight others gain over texts at random.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from roberta_hub.arguments import whole_number
from roberta_hub.errors import InputError
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.model.known_head import heads_of
from roberta_hub.text.learnt import digest
from roberta_hub.text.texts import Texts, as_texts, empty_places
from roberta_hub.text.tokenizer import Text

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from roberta_hub.inference.batching import Options

CANDIDATES = 10
"""Texts that are compared for each that is asked for: those whose answers are least sure."""


@dataclass(frozen=True)
class NextText:
    """A text whose label would teach much."""

    index: int
    """Its place in the texts that were given."""
    text: Text
    label: str
    """What the model answers now."""
    uncertainty: float
    """1 less the distance of the first probability from the second."""


def next_texts(
    roberta: RobertaHubInterface, texts: Texts, n: int = 20, **options: Unpack[Options]
) -> list[NextText]:
    """Choose texts that are unsure and unlike each other, the best first; see `Fitted.next`."""
    given, count = as_texts(texts)[0], whole_number("n", n, 1)
    head, heads = roberta.default_head or "", heads_of(roberta.model)
    if head not in heads or roberta.kinds.get(head, "single_label") != "single_label":
        raise InputError(
            "next is for classes of which a text has one; of several labels, numbers and spans "
            "nobody has measured which texts teach most"
        )
    every = roberta.classify(given, **options)  # an error names the place of its text
    fresh = _fresh(given, {*roberta.learnt})
    answers = [every[i] for i in fresh]
    firsts = [[*answer.scores.values()][:2] for answer in answers]
    unsure = torch.tensor([1 - (first - second) for first, second in firsts])
    asked = unsure.argsort(descending=True, stable=True)[: CANDIDATES * count]
    if not len(asked):
        return []
    vectors = roberta.embed([given[fresh[i]] for i in asked.tolist()], **options)
    order = asked[facility_location(unsure[asked], vectors.float().cpu(), count)]
    return [
        NextText(fresh[i], given[fresh[i]], answers[i].best, float(unsure[i]))
        for i in order.tolist()
    ]


def _fresh(texts: list[Text], known: set[str]) -> list[int]:
    """Number the texts that are neither empty, nor learnt, nor there before."""
    found, empty = [], {*empty_places(texts)}
    for i, text in enumerate(texts):
        if i not in empty and (key := digest(text)) not in known:
            known.add(key)
            found.append(i)
    return found


def facility_location(weights: Tensor, vectors: Tensor, count: int) -> Tensor:
    """Choose places that together stand for all, the best first.

    A place is stood for as well as the nearest chosen one is near, by the cosine of their vectors.
    One after the other that place is chosen that adds most to the weighted sum of this.

    Example:
        >>> vectors = torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]])
        >>> facility_location(torch.tensor([1.0, 1.0, 1.0]), vectors, 2)
        tensor([1, 2])
    """
    vectors = torch.nn.functional.normalize(vectors, dim=1)
    near = (vectors @ vectors.t()).clamp(min=0)
    best, chosen = torch.zeros(len(near)), list[int]()
    for _ in range(min(count, len(near))):
        gains = weights @ (near - best[:, None]).clamp_(min=0)
        gains[chosen] = -1
        chosen.append(int(gains.argmax()))
        best = torch.maximum(best, near[:, chosen[-1]])
    return torch.tensor(chosen)

"""Labels of texts: with a trained classification head, or with an NLI head and labels in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from roberta_hub.arguments import shown, switch, text_of
from roberta_hub.config import Inputs
from roberta_hub.errors import InputError
from roberta_hub.inference.batching import Rows, Runner, starts
from roberta_hub.inference.heads import ENTAILMENT, check_inputs, known_head
from roberta_hub.inference.windows import Windows
from roberta_hub.text.texts import as_strings
from roberta_hub.text.tokenizer import Text


@dataclass(frozen=True)
class Prediction:
    """A label and how sure the model is of it and of the others."""

    label: str
    """The most probable label."""
    score: float
    """Its probability; of a regression head (one output) the value itself."""
    scores: Mapping[str, float]
    """Every label with its probability, most probable first."""

    @classmethod
    def of(cls, labels: Sequence[str], values: Sequence[float]) -> Prediction:
        """From one value a label, in any order."""
        ranked = dict(sorted(zip(labels, values, strict=True), key=lambda pair: -pair[1]))
        best = next(iter(ranked))
        return cls(label=best, score=ranked[best], scores=ranked)


def classify(
    runner: Runner,
    texts: Sequence[Text],
    head: str,
    labels: Sequence[str],
    *,
    inputs: Inputs | None = None,
    multi_label: bool = False,
) -> list[Prediction]:
    """One prediction a text. See `RobertaHubInterface.classify`."""
    multi_label = switch("multi_label", multi_label)
    check_inputs(texts, head, inputs)
    values = head_values(runner, texts, head, multi_label=multi_label)
    if multi_label:
        values = values.sigmoid()
    elif values.size(1) > 1:
        values = values.softmax(-1)
    return [Prediction.of(labels, row) for row in values.tolist()]


def head_values(
    runner: Runner,
    texts: Sequence[Text],
    head: str,
    numbers: Sequence[int] | None = None,
    *,
    multi_label: bool = False,
) -> Tensor:
    """Logits of every class, or the value of a regression head: (len(texts), K) float32 on the CPU.

    The windows of a long text vote with their probabilities, whose logarithms are logits too; with
    `multi_label` their logits are averaged. `numbers` are what an error calls the texts; None:
    their places.
    """
    known_head(runner.model, head)
    windows, _, which = runner.encode(texts, numbers)
    values = window_values(runner, windows, head, vote=not multi_label)
    return values[which] if len(values) else values


def window_values(
    runner: Runner, windows: Sequence[Windows], head: str, *, vote: bool = True
) -> Tensor:
    """Logits of every class of texts that are cut into windows: (len(windows), K).

    They are float32 on the CPU. The windows of a text vote with their probabilities, or their
    logits are averaged.
    """
    module = known_head(runner.model, head)

    def answer(rows: Rows) -> list[Tensor]:
        first = rows.at(rows.batch.starts)  # (B, C)
        return list(module(first.unsqueeze(1)).float().cpu())

    rows = []
    for parts in runner.run_windows(windows, answer, pick=starts):
        own = torch.stack(parts)  # (windows, K)
        voting = vote and len(own) > 1 and own.size(1) > 1
        rows.append(own.softmax(-1).mean(0).log() if voting else own.mean(0))
    return torch.stack(rows) if rows else torch.empty(0, 1)


def zero_shot(
    runner: Runner,
    texts: Sequence[Text],
    labels: Sequence[str],
    *,
    hypothesis: str,
    head: str,
    head_labels: Sequence[str],
    inputs: Inputs | None = None,
    multi_label: bool,
) -> list[Prediction]:
    """Labels in words, judged by an NLI head (Yin et al. 2019).

    See `RobertaHubInterface.zero_shot`.
    """
    multi_label = switch("multi_label", multi_label)
    labels = as_strings(labels, "labels", "labels")
    if not labels or len(set(labels)) != len(labels):
        raise InputError(
            f"labels is {shown(labels)}; pass a list of different labels, at least one"
        )
    if "{}" not in text_of("hypothesis", hypothesis):
        raise InputError(f"hypothesis {shown(hypothesis)} has no {{}} for the label to stand in")
    names = [name.lower() for name in head_labels]
    if ENTAILMENT not in names:
        raise InputError(
            f"head {head!r} knows {', '.join(head_labels)}; zero_shot needs a head with "
            f"{ENTAILMENT!r}"
        )
    if inputs == "one":
        raise InputError(
            f"head {head!r} was trained on single texts; zero_shot needs a head that judges pairs"
        )
    runner.tokenizer.encode_batch(texts)  # for its errors, which name the text and not a pair
    pairs = [
        (*((text,) if isinstance(text, str) else text), hypothesis.replace("{}", label))
        for text in texts
        for label in labels
    ]
    values = head_values(runner, pairs, head, [i for i in range(len(texts)) for _ in labels])
    if not len(values):
        return []
    table = values.view(len(texts), len(labels), -1)  # (texts, labels, K)
    entailed = table[..., names.index(ENTAILMENT)]
    if multi_label:
        against = names.index("contradiction") if "contradiction" in names else None
        rivals = (
            [against]
            if against is not None
            else [k for k in range(len(names)) if names[k] != ENTAILMENT]
        )
        other = table[..., rivals].logsumexp(-1)
        scores = (entailed - other).sigmoid()
    else:
        scores = entailed.softmax(-1)  # over the labels
    return [Prediction.of(labels, row) for row in scores.tolist()]

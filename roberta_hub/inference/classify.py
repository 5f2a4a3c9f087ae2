"""Text classification with a trained head."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from os import PathLike
from typing import Any, Literal, NoReturn

import torch
from torch import Tensor

from roberta_hub.arguments import no_item, switch
from roberta_hub.errors import InputError
from roberta_hub.inference.batching import BatchStates, Reading, Runner, pick_starts
from roberta_hub.inference.certainty import certainties
from roberta_hub.inference.heads import Heads, check_inputs
from roberta_hub.inference.verb_model import VerbModel
from roberta_hub.inference.windows import Windows
from roberta_hub.keywords import names_others
from roberta_hub.model.heads import pooling_of
from roberta_hub.model.known_head import known_head
from roberta_hub.settings import DEFAULT_THRESHOLD, HeadKind
from roberta_hub.show.bars import Bar, Bars
from roberta_hub.show.colours import GREY
from roberta_hub.show.display import Display, Part
from roberta_hub.show.facts import Note
from roberta_hub.show.sheet import Picture
from roberta_hub.text.tokenizer import Text

LABELS_DRAWN = 10
"""Most labels that are drawn."""
Activation = Literal["softmax", "sigmoid", "none"]
"""Activation of logits: softmax over labels (none for one output), sigmoid per label, or none."""


@names_others
@dataclass(frozen=True)
class Prediction:
    """Label of a text, with the probabilities of all labels; `str` gives label and score."""

    label: str | None
    """The most probable label, even if none reaches its threshold. Where the answer is refused,
    None, or the label that `zero_shot(..., none=)` names for such texts."""
    score: float
    """Probability of the most probable label, also where the answer is refused; the raw output of a
    head with one output (regression, reranking)."""
    scores: Mapping[str, float]
    """Probability of every label, in descending order."""
    labels: tuple[str, ...] | None = None
    """With `multi_label`: labels whose probability reaches their threshold, most probable first,
    possibly none. None: the labels exclude each other."""
    rejected: bool | None = None
    """Whether the answer is refused, as no label fits the text; `scores` still has all labels.
    None: no answer is refused."""
    certainty: float | None = None
    """0 to 1; below `reject_below` of the head the answer is refused. It is the squared share of
    the text's pieces that the training rows have, divided by the perplexity of `scores`, which is
    how many labels the answer wavers between. Of `zero_shot` it is the best label's probability by
    itself. None: no answer is refused."""

    def __post_init__(self) -> None:
        for name in ("rejected", "certainty"):  # of a head that refuses none they are no values
            if getattr(self, name) is None:
                object.__delattr__(self, name)

    @classmethod
    def of(
        cls,
        labels: Sequence[str],
        values: Sequence[float],
        thresholds: Sequence[float] | None = None,
    ) -> Prediction:
        """Rank labels by their values.

        Args:
            labels: different names.
            values: one for each label.
            thresholds: one for each label, with `multi_label`; None: labels exclude each other.

        Example:
            >>> Prediction.of(["art", "sport"], [0.2, 0.8]).label
            'sport'
            >>> Prediction.of(["art", "sport"], [0.2, 0.8], [0.1, 0.9]).labels
            ('art',)
        """
        ranked = dict(sorted(zip(labels, values, strict=True), key=lambda pair: -pair[1]))
        best = next(iter(ranked))
        if thresholds is None:
            return cls(label=best, score=ranked[best], scores=ranked)
        least = dict(zip(labels, thresholds, strict=True))
        given = tuple(label for label, value in ranked.items() if value >= least[label])
        return cls(label=best, score=ranked[best], scores=ranked, labels=given)

    def refuse(self, certainty: float, below: float, none: str | None = None) -> Prediction:
        """Refuse the answer if it is not certain enough.

        Args:
            certainty: how certain the answer is, on the scale of `below`.
            below: answers with a smaller certainty are refused.
            none: the label of a refused answer.

        Example:
            >>> print(Prediction.of(["art", "sport"], [0.45, 0.55]).refuse(0.2, below=0.3))
            rejected (sport 0.55)
        """
        rejected = not certainty >= below  # also NaN
        label = none if rejected else self.label
        return dataclasses.replace(self, label=label, rejected=rejected, certainty=certainty)

    @property
    def best(self) -> str:
        """The most probable label, also where the answer is refused.

        Example:
            >>> Prediction.of(["art", "sport"], [0.45, 0.55]).refuse(0.2, below=0.3).best
            'sport'
        """
        return next(iter(self.scores))

    def __str__(self) -> str:
        if self.rejected:
            return f"{self.label or 'rejected'} ({self.best} {self.score:.2f})"
        if self.labels is None:
            return f"{self.label} {self.score:.2f}"
        given = ", ".join(f"{label} {self.scores[label]:.2f}" for label in self.labels)
        return given or f"no label ({self.label} {self.score:.2f})"

    def __repr__(self) -> str:
        given = {k: v for k, v in vars(self).items() if v is not None or k == "label"}
        return f"Prediction({', '.join(f'{k}={v!r}' for k, v in given.items())})"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a dict of plain values, which `json.dumps` takes.

        `labels` is included with `multi_label` only; `rejected` and `certainty` of a head that may
        refuse.

        Example:
            >>> Prediction.of(["art", "sport"], [0.2, 0.8]).to_dict()
            {'label': 'sport', 'score': 0.8, 'scores': {'sport': 0.8, 'art': 0.2}}
        """
        values = dataclasses.asdict(self)
        if self.labels is not None:
            values["labels"] = list(self.labels)
        unset = [n for n in ("labels", "rejected", "certainty") if values[n] is None]
        return {name: value for name, value in values.items() if name not in unset}

    def png(self, path: str | PathLike[str] | None = None) -> Picture:
        """Draw the bars that a notebook shows; see `Display.png`.

        Args:
            path: the file that the picture is written to; None: to none.

        Example:
            >>> Prediction.of(["art", "sport"], [0.2, 0.8]).png()
            <PNG of 572 x 180 pixels>
        """
        return self._display().png(path)

    def _repr_html_(self) -> str:
        return self._display()._repr_html_()

    def _display(self) -> Display:
        return Display(str(self), prediction_parts(self), self.to_dict())

    def __getitem__(self, key: object) -> NoReturn:
        raise no_item(self, key)


def prediction_parts(prediction: Prediction, most: int = LABELS_DRAWN) -> list[Part]:
    """Draw the scores of a prediction, with bars if they are probabilities.

    With `multi_label`, the predicted labels are marked, and all of them are shown.
    """
    scores, given = prediction.scores, prediction.labels
    are_shares = len(scores) > 1 and all(0 <= score <= 1 for score in scores.values())
    if given is not None:
        are_shares, most = (
            True,
            max([most, *(i + 1 for i, name in enumerate(scores) if name in given)]),
        )
    most += len(scores) == most + 1
    rows = [
        Bar(
            label,
            f"{score:.2f}",
            score if are_shares else None,
            note="yes" if label in (given or ()) else "",
            colour=GREY if given is not None and label not in given else None,
        )
        for label, score in islice(scores.items(), most)
    ]
    more = len(scores) - len(rows)
    return [Bars(rows), *([Note(f"and {more} more labels")] if more else [])]


def classify(
    model: VerbModel,
    texts: Sequence[Text],
    *,
    head: str | None = None,
    multi_label: bool | None = None,
) -> list[Prediction]:
    """Predict a label for each text. See `RobertaHubInterface.classify`."""
    runner, heads = model.runner, model.heads
    head = heads.find_for(texts, head, "classify")
    labels, inputs = heads.labels(head), heads.inputs(head)
    way = activation_of(heads.kind(head), multi_label)
    least = thresholds_of(heads.thresholds(head), len(labels), way)
    check_inputs(texts, head, inputs)
    values = activate(head_values(runner, texts, head, vote=way == "softmax"), way)
    found = [Prediction.of(labels, row, least) for row in values.tolist()]
    below, pieces = heads.reject_below(head), heads.of(head).known_pieces
    if below is None or way != "softmax":
        return found
    sure = certainties(values, [] if pieces is None else runner.ids(texts), pieces).tolist()
    return [one.refuse(own, below) for one, own in zip(found, sure, strict=True)]


def probabilities(runner: Runner, texts: Sequence[Text], heads: Heads, head: str) -> Tensor:
    """Compute the probability of each label. See `RobertaHubInterface.predict_proba`."""
    labels, kind = heads.labels(head), heads.kind(head)
    way = activation_of(kind, None)
    if way == "none" or (len(labels) == 1 and way == "softmax"):
        raise InputError(
            f"head {head!r} gives a number and no probabilities; classify(texts) answers with it"
        )
    check_inputs(texts, head, heads.inputs(head))
    if not texts:
        return torch.empty(0, len(labels))
    return activate(head_values(runner, texts, head, vote=way == "softmax"), way)


def activation_of(kind: HeadKind | None, multi_label: object) -> Activation:
    """Return the activation of a head's logits.

    Example:
        >>> activation_of("multi_label", None), activation_of("multi_label", False)
        ('sigmoid', 'softmax')
    """
    if multi_label is not None:
        return "sigmoid" if switch("multi_label", multi_label) else "softmax"
    if kind == "multi_label":
        return "sigmoid"
    return "none" if kind == "regression" else "softmax"


def activate(logits: Tensor, way: Activation) -> Tensor:
    """Apply an activation to logits: (N, K) -> (N, K)."""
    if way == "sigmoid":
        return logits.sigmoid()
    return logits.softmax(-1) if way == "softmax" and logits.size(1) > 1 else logits


def thresholds_of(
    thresholds: Sequence[float] | None, count: int, way: Activation
) -> Sequence[float] | None:
    """Return the thresholds for `Prediction.of`; None if labels exclude each other."""
    if way != "sigmoid":
        return None
    return [DEFAULT_THRESHOLD] * count if thresholds is None else thresholds


def head_values(
    runner: Runner,
    texts: Sequence[Text],
    head: str,
    *,
    vote: bool = True,
) -> Tensor:
    """Compute a head's logits of each text, or the value of a regression head."""
    known_head(runner.model, head)
    windows, _, which = runner.encode(texts)
    values = window_values(runner, windows, head, vote=vote)
    return values[which] if len(values) else values


def window_values(
    runner: Runner, windows: Sequence[Windows], head: str, *, vote: bool = True
) -> Tensor:
    """Compute a head's logits of texts in windows."""
    module = known_head(runner.model, head)
    over_tokens = pooling_of(module) == "mean"

    def read(rows: BatchStates) -> list[Tensor]:
        batch = rows.batch
        vectors = batch.mean_rows(rows.states) if over_tokens else rows.at(batch.starts)  # (B, C)
        return list(module(vectors.unsqueeze(1)).float().cpu())

    def merge(text: Windows, parts: list[Tensor]) -> Tensor:
        own = torch.stack(parts)  # (windows, K)
        voting = vote and len(own) > 1 and own.size(1) > 1
        return own.softmax(-1).mean(0).log() if voting else own.mean(0)

    pick = None if over_tokens else pick_starts
    found = runner.run_windows(windows, Reading(read=read, merge=merge, pick=pick))
    return torch.stack(found) if found else torch.empty(0, 1)

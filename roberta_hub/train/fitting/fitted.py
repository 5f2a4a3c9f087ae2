"""The result of `fit`: the method, the scores, and each judged row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roberta_hub.errors import InputError
from roberta_hub.inference.classify import Prediction
from roberta_hub.keywords import checked, names_others
from roberta_hub.rows.frames import pandas_frame
from roberta_hub.show.report import Report, Reported, Section
from roberta_hub.terminal import clean
from roberta_hub.text.tokenizer import Text
from roberta_hub.train.data.sentences import LabelledText
from roberta_hub.train.fitting.choice import Choice
from roberta_hub.train.fitting.doubtful import Doubtful, doubtful_section
from roberta_hub.train.fitting.evaluation import labels_of
from roberta_hub.train.fitting.next_texts import NextText, next_texts
from roberta_hub.train.fitting.scores import Mistake, Scores

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from roberta_hub.inference.batching import Options
    from roberta_hub.interface import RobertaHubInterface
    from roberta_hub.text.texts import Texts

Label = str | float | None | tuple[str, ...] | tuple[tuple[int, int, str], ...]
"""A class, a number, the labels of a text that may have several, or spans: start, end, label. None:
the answer is refused."""


@dataclass(frozen=True)
class Judged:
    """A row that was judged, and what the model answered before it was trained on it."""

    text: Text
    where: str
    """File and line, or table and row."""
    wanted: Label
    answered: Label
    probability: float | None
    """Probability of the answer; None for a number and for several labels."""
    weight: float = 1
    """How much the row counts in the scores."""
    shares: dict[str, float] | None = None
    """Of a row with shares of several classes those, of which `wanted` is the largest."""

    @property
    def right(self) -> bool:
        """Whether the answer is what was wanted; of several labels all, of shares the largest."""
        if self.shares is not None:
            return self.shares.get(str(self.answered), 0.0) == max(self.shares.values())
        if isinstance(self.wanted, tuple) and isinstance(self.answered, tuple):
            return set(self.wanted) == set(self.answered)
        return self.wanted == self.answered


@names_others
@dataclass(frozen=True)
class Fitted(Reported):
    """What `fit` learnt of a table, and what the model reaches."""

    source: str
    """What errors and reports call the table."""
    scores: Scores
    rows: tuple[Judged, ...]
    """Each row that was judged: held out, or answered while its part of the table was; none that
    the model knew before, unless it knew all."""
    choice: Choice | None
    """Which way of learning was taken, and what the others would have reached."""
    seconds: float
    """Seconds of selection, training and evaluation."""
    notes: tuple[str, ...] = ()
    """What is unusual about the table, and what was done with it; a sentence each."""
    temperature: float | None = None
    """By which the head's logits were divided, so that probabilities mean what they say; None: they
    stayed as they were."""
    thresholds: dict[str, float] | None = None
    """From which probability on a text has a label, where it may have several."""
    reject_below: float | None = None
    """The certainty below which an answer is refused; None: none is."""
    doubtful: tuple[Doubtful, ...] = ()
    """Rows whose label is likely wrong, the most doubtful first, by out-of-fold predictions."""

    @property
    def confusion(self) -> dict[tuple[str, str], float]:
        """Judged rows by (right class, answer); see `Scores.confusion`."""
        return self.scores.confusion

    @property
    def mistakes(self) -> list[Mistake]:
        """The surest wrong answers, surest first."""
        return self.scores.mistakes

    @checked
    def next(self, texts: Texts, n: int = 20, **options: Unpack[Options]) -> list[NextText]:
        """Choose texts without labels that are worth labelling next.

        They are unsure and unlike each other: of the ten times as many texts whose first two
        probabilities are nearest, those that stand best for all of them by the cosine of their
        vectors (facility location; Wei et al. 2015). After five rounds of 40 texts a classifier was
        0.8 to 3.0 points better with them than with texts at random, on five sets. Texts that are
        empty, learnt, or there twice are left out. A loaded model has no `fitted`; for it,
        `roberta-hub next -m FOLDER -i FILE` chooses.

        Args:
            texts: many texts without labels, or pairs.
            n: how many texts to choose; fewer, if there are fewer.
            options: batch_tokens, progress, truncate, stride; see `roberta.classify`.

        Returns:
            The texts, the most useful first: `index` in `texts`, `text`, the `label` that the model
            answers now, and its `uncertainty`, 0 to 1.

        Raises:
            InputError: the model answers several labels, numbers or spans; a text is too long; or
                this record was stored apart from its model.

        Example:
            >>> import roberta_hub
            >>> rows = [{"text": f"A {word} film, part {i}.", "label": word}
            ...         for i in range(10) for word in ("good", "bad")]
            >>> mine = roberta_hub.fit(rows, minutes=1e-6, progress=False)
            >>> [found.index for found in mine.fitted.next(["A good film.", "A bus came."], n=1)]
            [1]
        """
        roberta = getattr(self, "_model", None)
        if roberta is None:
            raise InputError(
                "this record was stored apart from its model; ask mine.fitted of a model that fit "
                "returned, or the model's folder: `roberta-hub next -m FOLDER -i FILE`"
            )
        return next_texts(roberta, texts, n, **options)

    def of(self, roberta: RobertaHubInterface) -> Fitted:
        """Remember the model that was fitted, which `next` asks.

        Args:
            roberta: that model.
        """
        object.__setattr__(self, "_model", roberta)  # no field: it is not part of the record
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_model"}

    def __repr__(self) -> str:
        return clean(f"<fitted on {self.source}: {self.scores.headline()}>")

    def report(self) -> Report:
        """Build what is shown, on every face."""
        choice, remedy = self.choice, self.scores.remedy
        sections = [
            Section(choice.summary().split("\n") if choice else []),
            *self.scores.claims(remedy.python if remedy else ""),
            Section(parts=choice.parts() if choice else []),
            *self.scores.evidence(),
            doubtful_section(self.doubtful),
        ]
        return Report(f"Fitted on {self.source}", sections)

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain words and numbers, which `json.dumps` takes."""
        found = super().to_dict()
        confusion = [[*pair, count] for pair, count in self.confusion.items()]
        found["scores"] |= {"confusion": confusion}
        return found

    def to_pandas(self) -> Any:
        """Return the judged rows as a data frame of pandas, one a row.

        Its columns are text (of pairs text and text2), wanted, answered, right, probability, where;
        and weight where rows have some.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        found, weighted = [], any(row.weight != 1 for row in self.rows)
        for row in self.rows:
            parts = (row.text,) if isinstance(row.text, str) else row.text
            texts = {f"text{i + 1 if i else ''}": part for i, part in enumerate(parts)}
            right = {"right": row.right} if self.scores.task != "regression" else {}
            found.append(
                {
                    **texts,
                    "wanted": row.wanted,
                    "answered": row.answered,
                    **right,
                    "probability": row.probability,
                    "where": row.where,
                    **({"weight": row.weight} if weighted else {}),
                }
            )
        return pandas_frame(found)


def judged_rows(
    task: str, rows: Sequence[LabelledText], answers: Sequence[Prediction]
) -> tuple[Judged, ...]:
    """Pair each judged row with its answer.

    Example:
        >>> rows = [LabelledText("fine", ("good",), "1")]
        >>> answers = [Prediction.of(["good", "bad"], [0.9, 0.1])]
        >>> judged_rows("classification", rows, answers)[0].probability
        0.9
    """
    found = []
    for row, answer in zip(rows, answers, strict=True):
        wanted: Label = row.labels
        given: Label = tuple(sorted(labels_of(answer)))
        probability = None
        if task == "regression":
            wanted, given = float(row.labels[0]), answer.score
        elif task == "classification":
            wanted, given = row.labels[0], answer.label
            probability = answer.score
        shares = dict(row.shares) or None
        found.append(Judged(row.text, row.where, wanted, given, probability, row.weight, shares))
    return tuple(found)

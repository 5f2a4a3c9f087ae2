"""Makes a classifier of a table: `fit`, and the three steps of it that the command shows."""

from __future__ import annotations

import dataclasses
import os
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from roberta_hub.errors import InputError, Remedy
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.keywords import checked
from roberta_hub.model.roberta import require_roberta
from roberta_hub.rows.left_out import short_place
from roberta_hub.rows.tables import Table
from roberta_hub.settings import HeadPooling
from roberta_hub.terminal import clean
from roberta_hub.text.learnt import digest
from roberta_hub.train.fitting.evaluation import compute_scores
from roberta_hub.train.fitting.examples import Examples, read_examples, wrap_note
from roberta_hub.train.fitting.fitted import Fitted, judged_rows
from roberta_hub.train.fitting.learner import seconds_of
from roberta_hub.train.fitting.learning import Learnt, learn, reusable_head
from roberta_hub.train.fitting.learning_options import LearningOptions
from roberta_hub.train.fitting.method_selection import DEFAULT_MINUTES, METHOD_AS_IS
from roberta_hub.train.fitting.model_card import model_card
from roberta_hub.train.fitting.model_folder import check_output, finished, holds_model
from roberta_hub.train.fitting.recipe import (
    SMALL_TABLE_ROWS,
    choose_recipe,
    large_table_plan,
    length_for,
    notes_of_minutes,
    within_minutes,
)
from roberta_hub.train.fitting.rejection import scores_of_answered
from roberta_hub.train.fitting.starting_model import (
    count_tokens,
    judged_kind,
    keep_head,
    load_to_train,
    memory_note,
)
from roberta_hub.train.fitting.tag_examples import TagExamples, find_spans, read_tag_examples
from roberta_hub.train.fitting.tagger import ReadyTagger, prepare_tagger
from roberta_hub.train.settings import Config


@checked
def fit(
    table: Any,
    *,
    text: str | Sequence[str] | None = None,
    label: str | Sequence[str] | None = None,
    valid: Any = None,
    model: str | os.PathLike[str] = "roberta.tiny",
    output: str | os.PathLike[str] | None = None,
    task: str | None = None,
    epochs: int | None = None,
    learning_rate: float | None = None,
    batch_size: int | None = None,
    max_length: int | None = None,
    minutes: float | None = None,
    balance: bool = False,
    pooling: HeadPooling | None = None,
    trials: int | None = None,
    reject: float | None = None,
    seed: int = 1,
    separator: str | None = None,
    header: bool = True,
    weight: str | None = None,
    progress: bool | None = None,
) -> RobertaHubInterface:
    """Train your own classifier on a table of texts and labels, or a tagger on texts with spans.

    Warnings name what is unusual about the table: labels that look alike, and texts that are
    missing, duplicated or too long.

    Args:
        table: path to a CSV, TSV, JSONL or Parquet file; a data frame of pandas, polars or Arrow; a
            dict of columns; a list of dicts. A tagger also takes Label Studio's JSON, CoNLL's
            columns or spaCy's .spacy; a span is `[start, end, label]` in characters, or a dict.
        text: column of the texts, or two columns for pairs. None: found by its name or its values;
            an error lists the columns if several could be meant.
        label: column of the labels or spans, or several columns: of 0 and 1, one for each label; of
            shares of classes that add up to 1; or of the classes that several raters give. None:
            found as the column of the texts is.
        valid: share of the rows to hold out, or a table of rows to measure on. None: a tagger holds
            out a tenth of the rows. A classifier does so with 200 rows or more, and is measured by
            cross-validation with fewer. Held-out rows have no influence on the choice of the
            method. With at most 2,000 rows, the final classifier is also trained on the held-out
            rows of the table.
        model: name or path of the model to start from. It may be one that `fit` made.
        output: folder to write. It is new, empty, or a folder that `fit` wrote. Its README.md holds
            the scores. None: no files are written.
        task: "classification", "regression", "multi_label" or "tagging". None: by the labels.
            Numbers are regression, but whole numbers with at most 20 different values are classes.
            A text has several labels if they are a list, a list as pandas writes it into a CSV, or
            a dict from labels to truth values. Lists of spans are tagging. A dict, or columns, of
            fractions that add up to 1 in every row are shares of one class;
            task="classification" reads dicts, and columns of 0 and 1 that add up to 1, so too.
        epochs: passes over the rows. None: by the number of rows.
        learning_rate: peak of the learning rate, used as it is. None: by the model's width.
        batch_size: rows of an update. None: by the number of rows.
        max_length: longest text in training, in tokens. None: by the number of rows.
        minutes: limit of the work for choosing and learning, in minutes on two cores. None: two.
            The work is counted in tokens, not measured: a busy or slow machine takes longer. The
            regression on the model's vectors is always tried. With more than 2,000 rows nothing is
            chosen: each row is learnt two or three times, and less often if minutes are given.
        balance: give rare classes the same weight as frequent ones. The model finds more of them.
            Its probabilities are then those for equally frequent classes.
        pooling: what the head reads, "cls" or "mean". None: what the model was trained with.
        trials: number of other combinations of learning rate and epochs to try by
            cross-validation, within the limit of the work. None: 0.
        reject: share of texts with known classes that the model may refuse to answer, such as 0.05.
            It then refuses texts that no class fits: they have no label, and are marked as
            `rejected`. Split conformal prediction (Papadopoulos et al. 2002) chooses the threshold
            on rows outside the training, so that at most this share is refused on average, if new
            texts come as these rows did. That is exact where the rows were held out (over 2,000
            rows); of out-of-fold answers it is the observed share, and twice the share is proved
            (Barber et al. 2021). None: every text gets a label.
        seed: random seed. The same table, model, options and seed give the same model.
        separator: text between the labels in a cell, such as ",". None: a cell is one label.
        header: whether the first row of a CSV or TSV names the columns; False: their names are 1,
            2, ....
        weight: column that says how much each row counts, in training and in scores. A row with a
            weight of 2 counts as two rows, and one with 0 is left out. If all weights are below 1,
            they are scaled to a mean of 1. None: all rows count the same.
        progress: show a progress bar; None: in a terminal.

    Returns:
        The model. Its `classify` or `tag` uses the new head. Its `fitted` holds the chosen method,
        the scores, and each row that was measured.

    Raises:
        RobertaHubError: a table, column, row or folder cannot be used; the message says which.
        KeyboardInterrupt: Ctrl-C was pressed; no files remain.

    Example:
        >>> rows = [{"text": f"{word} film {i}", "label": word}
        ...         for i in range(10) for word in ("good", "bad")]
        >>> mine = fit(rows, epochs=1, progress=False)
        >>> mine.classify("good film").label in ("good", "bad")
        True
        >>> mine.fitted.scores.guess
        "always 'bad'"
    """
    options = LearningOptions(
        epochs=epochs,
        learning_rate=learning_rate,
        batch_size=batch_size,
        max_length=max_length,
        minutes=minutes,
        balance=balance,
        pooling=pooling,
        trials=trials,
        reject=reject,
        seed=seed,
    )
    directory = None if output is None else check_output(output)
    examples = read_labelled(
        table,
        text=text,
        label=label,
        valid=valid,
        task=task,
        seed=options.seed,
        separator=separator,
        header=header,
        weight=weight,
    )
    ready = prepare(examples, model, directory, options)
    for note in (*examples.notes, *ready.notes):
        warnings.warn(clean(f"{examples.source}: {note}"), stacklevel=3)
    return ready.train(progress)


def read_labelled(table: Any, **given: Any) -> Examples | TagExamples:
    """Read a table to learn from: texts with spans where it holds them, else texts with labels."""
    asked = (given[name] for name in ("text", "label", "task", "separator"))
    source = find_spans(table, *asked, header=given["header"])
    weight = given.pop("weight", None)
    if (found := read_tag_examples(table, **given, source=source)) is not None:
        if weight is not None:
            raise InputError(
                f"{found.source} holds spans, and a tagger learns all rows alike",
                remedy=Remedy("leave out weight=...", "leave out --weight"),
            )
        return found
    kept = source if isinstance(source, Table) else None
    return read_examples(table, **given, weight=weight, source=kept)


def prepare(
    examples: Examples | TagExamples,
    model: str | os.PathLike[str],
    output: str | os.PathLike[str] | None,
    options: LearningOptions,
) -> ReadyClassifier | ReadyTagger:
    """Load the model, and choose how it learns the examples; see `prepare_classifier`."""
    if isinstance(examples, TagExamples):
        return prepare_tagger(examples, model=model, output=output, options=options)
    return prepare_classifier(examples, model=model, output=output, options=options)


@dataclass(frozen=True)
class ReadyClassifier:
    """A model and the examples that it will be trained on."""

    examples: Examples
    roberta: RobertaHubInterface
    config: Config
    options: LearningOptions
    output: Path | None
    """None: the model stays in memory."""
    notes: list[str]
    """What is cut, what is known, and what is replaced."""
    cut: Sequence[str] = ()
    """Places of the texts that are cut while it learns."""
    limit: int = 0
    """Tokens to which they are cut."""
    unsure: bool = False
    """Whether the model may have been trained on these rows, and does not say so."""
    seconds: float = 0.0
    """Seconds of two cores that one pass over the rows takes."""

    def summary(self) -> str:
        """Write which model learns, and how its way is found, under what is cut."""
        size = sum(parameter.numel() for parameter in self.roberta.model.parameters())
        about = f"{self.config.model} ({size / 1e6:,.1f} M parameters) learns "
        minutes = self.options.minutes or DEFAULT_MINUTES
        plan = large_table_plan(self.config.loop.max_epochs or 0, self.seconds)
        if self.examples.to_learn <= SMALL_TABLE_ROWS:
            plural = "" if minutes == 1 else "s"
            plan = f"in the best way that fits {minutes:g} minute{plural} of two cores"
            if self.options.says_how:
                plan = "with your settings: on folds, then on all rows"
        return "\n".join([*map(wrap_note, self.notes), about + plan])

    def train(self, progress: bool | None = None) -> RobertaHubInterface:
        """Train, measure and write the folder, if there is one; on Ctrl-C nothing is left."""
        from roberta_hub.train.loop.updates import updates

        began = time.monotonic()
        loop = dataclasses.replace(self.config.loop, progress=progress)
        config = dataclasses.replace(self.config, loop=loop)
        learnt = learn(self.roberta, self.examples, config, self.options, updates)
        fitted = self._fitted(learnt, began)
        if learnt.choice.taken != METHOD_AS_IS:
            keep_head(self.roberta, "classification", self.roberta.default_head or "")
            self.roberta.learnt |= {digest(row.text) for row in self.examples.learnt}

        def card(output: Path) -> str:
            return model_card(self.examples, fitted, self.config, self.options, output)

        return finished(self.roberta, fitted, self.output, card)

    def _fitted(self, learnt: Learnt, began: float) -> Fitted:
        """Judge the answers to rows outside the training, of this fit and of earlier ones."""
        texts = [row.text for row in learnt.rows]
        places, how = judged_kind(texts, self.roberta.learnt, learnt.how, unsure=self.unsure)
        rows = [learnt.rows[i] for i in places]
        answers = [learnt.answers[i] for i in places]
        measure = partial(
            compute_scores,
            self.examples.task,
            learnt=learnt.counts,
            how=how,
            balanced=self.options.balance,
            optimism=learnt.optimism,
        )
        scores = scores_of_answered(rows, answers, measure)
        scores = dataclasses.replace(scores, conclusions=(*scores.conclusions, *learnt.notes))
        return Fitted(
            source=self.examples.source,
            scores=scores,
            rows=judged_rows(self.examples.task, rows, answers),
            choice=learnt.choice,
            temperature=learnt.temperature,
            thresholds=self._thresholds(),
            reject_below=self.roberta.reject_below.get(self.roberta.default_head or ""),
            seconds=time.monotonic() - began,
            notes=(*self.examples.notes, *self.notes, *learnt.notes),
            doubtful=learnt.doubtful,
        )

    def _thresholds(self) -> dict[str, float] | None:
        """Return the thresholds of the head's labels, where it has some."""
        head = self.roberta.default_head or ""
        least = self.roberta.thresholds.get(head)
        names = self.roberta.labels.get(head, ())
        return None if least is None else dict(zip(names, least, strict=True))


def prepare_classifier(
    examples: Examples,
    *,
    model: str | os.PathLike[str] = "roberta.tiny",
    output: str | os.PathLike[str] | None = None,
    options: LearningOptions | None = None,
) -> ReadyClassifier:
    """Load the model, and choose how it learns the examples."""
    options = options or LearningOptions()
    directory = None if output is None else check_output(output)
    model, roberta = load_to_train(model)
    about = require_roberta(roberta.model, "fit trains").config
    if about.spectral_norm_heads:
        raise InputError(
            f"{model} has heads with spectral normalization, which fit does not train",
            remedy=Remedy("`roberta-hub train` trains them, or another model begins"),
        )
    every = [*examples.train, *examples.valid]
    lengths = count_tokens(roberta, [e.text for e in every], [e.where for e in every])
    limit = min(options.max_length or length_for(len(examples.train)), roberta.max_positions)
    cut = [e.where for e, length in zip(every, lengths, strict=True) if length > limit]
    notes = []
    if cut:
        notes.append(
            f"{len(cut):,} of {len(every):,} texts have more than {limit} tokens and are cut "
            f"while it learns, first {short_place(cut[0])}"
        )
    if directory is not None and holds_model(directory):
        notes.append(f"{directory} holds a model that fit made before; the new one replaces it")
    own = reusable_head(roberta, examples, options.pooling) is not None
    knows = own or holds_model(Path(model))
    notes += memory_note(roberta, model, [e.text for e in every], knows=knows)
    train = lengths[: len(examples.train)]
    config = choose_recipe(
        width=about.embed_dim,
        lengths=train,
        limit=limit,
        task=examples.task,
        options=options,
    )
    config = dataclasses.replace(config, model=model)
    seconds = seconds_of(about, (min(length, limit) for length in train))
    if examples.to_learn > SMALL_TABLE_ROWS:
        config = within_minutes(config, options, seconds)
        notes += notes_of_minutes(config, options, seconds)
    unsure = knows and not roberta.learnt
    return ReadyClassifier(
        examples, roberta, config, options, directory, notes, cut, limit, unsure, seconds
    )

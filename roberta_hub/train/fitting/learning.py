"""Learns a table: a small one in the way that cross-validation finds best, a large one once.

Legend: n rows, m rows that are judged, C width of the model, K outputs of the head.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from roberta_hub.errors import InputError, Remedy
from roberta_hub.inference.classify import Prediction
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.model.heads import pooling_of
from roberta_hub.model.known_head import heads_of
from roberta_hub.model.roberta import require_roberta
from roberta_hub.rows.formats import row_count
from roberta_hub.settings import REJECTED, HeadPooling, Inputs
from roberta_hub.text.learnt import new_texts
from roberta_hub.train.data.sentences import LabelledText
from roberta_hub.train.fitting.calibration import (
    choose_thresholds,
    cross_calibrated,
    fit_temperature,
)
from roberta_hub.train.fitting.choice import Choice, Tried
from roberta_hub.train.fitting.doubtful import Doubtful, doubtful_answers, is_light
from roberta_hub.train.fitting.examples import Examples
from roberta_hub.train.fitting.learner import (
    HEAD_KINDS,
    START_SCALE,
    START_STRENGTH,
    EncodedRows,
    Learner,
    RunTask,
    encode_rows,
)
from roberta_hub.train.fitting.learning_options import LearningOptions
from roberta_hub.train.fitting.method_selection import (
    DEFAULT_MINUTES,
    METHOD_AS_IS,
    METHOD_COSINE,
    METHOD_HEAD,
    METHOD_MEASURES,
    METHOD_OWN,
    METHOD_WHOLE,
    METHOD_ZERO_SHOT,
    Method,
    MethodAnswers,
    MethodSelector,
    best_method,
    common_rows,
    folds_for,
    measure_of,
    rows_of_folds,
    selection_optimism,
    untrained_answers,
)
from roberta_hub.train.fitting.pair_cosines import (
    PAIRS_PER_ROW,
    can_compare_pairs,
    new_pairs,
    pair_cosines,
)
from roberta_hub.train.fitting.recipe import SMALL_TABLE_ROWS, learns_embeddings, with_epochs
from roberta_hub.train.fitting.regression import solve
from roberta_hub.train.fitting.rejection import (
    Rejection,
    check_rows,
    fit_rejection,
    held_out_rejection,
)
from roberta_hub.train.fitting.scores import EvaluationKind
from roberta_hub.train.fitting.split import folds, group_duplicates
from roberta_hub.train.fitting.trials import list_trials, trial_name
from roberta_hub.train.fitting.zero_shot_baseline import (
    labels_are_words,
    one_label_negates_another,
    zero_shot_probabilities,
)
from roberta_hub.train.reports import fitting
from roberta_hub.train.settings import Config
from roberta_hub.train.tasks.finetuning import Encoded
from roberta_hub.train.tasks.trained_head import seeded

HEAD_SAMPLE_ROWS = 2000
"""Rows of a large table by which its head begins."""
COSINE_TOKENS = 60_000
"""Tokens of new pairs that teach a model what its vectors say of them."""
COSINE_TOKENS_NEW_TO_PAIRS = 110_000
"""The same, of a model without a head of pairs, where half the amount of work allows as many.
all-MiniLM then orders 700 other pairs of STS-B by .738 after 100 rows and by .808 after 500 (cosine
.829 and .817, one draw each); with 60,000 tokens, four pairs a row and `<s>` it was .57 and .78.
roberta.tiny, which knows pairs, is not better for it."""
MAX_NUMBER = 1e30
"""Numbers of a regression are smaller, in float32."""
MIN_RELATIVE_SPREAD = 1e-5
"""They differ by more than this share of their mean, else float32 would not tell them apart."""
MIN_EPOCHS = 2
"""So often at least each row is seen where the whole model learns."""
MORE_MINUTES = "minutes=... in Python and --minutes in a shell allow it"
NO_MISTAKE = "not tried, as the regression makes no mistake"
METHOD_ONCE = "training the whole model once"
JUDGING_ROWS = 4
"""So many heavier rows a class, on the mean, judge the light ones; fewer were not measured."""
ZERO_SHOT_ROWS = 100
"""Rows at most that are answered by the labels' names: only a few thousand tokens."""


@dataclass(frozen=True)
class Learnt:
    """What is known of a model that was trained on a table."""

    choice: Choice
    how: EvaluationKind
    rows: list[LabelledText]
    """The judged rows."""
    answers: list[Prediction]
    """One to each, by weights, temperature and thresholds that it had no part in."""
    optimism: float
    """What the best of several ways gains by luck."""
    temperature: float | None
    """By which the head's logits were divided; None: by nothing."""
    counts: Counter[str]
    """How many rows of the training before the judging have each label."""
    notes: list[str]
    """What a caller should know; a sentence each."""
    doubtful: tuple[Doubtful, ...]
    """Rows whose label is likely wrong, by out-of-fold predictions."""


def learn(
    roberta: RobertaHubInterface,
    examples: Examples,
    config: Config,
    options: LearningOptions,
    run: RunTask,
) -> Learnt:
    """Teach a model the rows of a table, in place."""
    if options.balance and examples.task != "classification":
        raise InputError(
            "balance is for classes of which a text has one; labels that occur together "
            "have thresholds, and numbers have no classes"
        )
    if options.reject is not None:
        _check_reject(examples, options.reject)
    table = _Table(roberta, examples, config, options, run)
    return table.choose() if examples.to_learn <= SMALL_TABLE_ROWS else table.train_once()


def _check_reject(examples: Examples, share: float) -> None:
    """Refuse a table of which a head cannot learn when to refuse."""
    if examples.task != "classification":
        raise InputError(
            "reject is for classes of which a text has one; a text may have none of several "
            "labels anyway, and a number is no class"
        )
    if REJECTED in examples.classes:
        rename = "give the class another name, or leave out"
        raise InputError(
            f"{examples.source} has a class {REJECTED!r}, as reports call a refused text",
            remedy=Remedy(f"{rename} reject=...", f"{rename} --reject"),
        )
    outside = [row.weight for row in rows_outside(examples)]
    check_rows(len(outside), share, weights=outside)


def rows_outside(examples: Examples) -> list[LabelledText]:
    """Return the rows whose answers, by weights that have not learnt them, find a threshold."""
    small = examples.to_learn <= SMALL_TABLE_ROWS
    return examples.train if small else examples.valid


class _Table:
    """The rows of a table, with the model that learns them."""

    def __init__(
        self,
        roberta: RobertaHubInterface,
        examples: Examples,
        config: Config,
        options: LearningOptions,
        run: RunTask,
    ) -> None:
        self.roberta, self.examples, self.options = roberta, examples, options
        self.task, self.kind = examples.task, HEAD_KINDS[examples.task]
        self.own = reusable_head(roberta, examples, options.pooling)
        self.names = examples.classes
        self.scale = _scale(examples.train) if self.task == "regression" else (0.0, 1.0)
        self.config = self._with_head(config)
        # Rows of a table of the caller's own that judges have no part in anything.
        rows = [*examples.train, *(examples.valid if examples.of_the_table else [])]
        encoded = encode_rows(roberta, self.config, rows, self.names, self.scale)
        embeddings = learns_embeddings(len(examples.train))
        self.learner = Learner(roberta, self.config, self.task, encoded, run, embeddings)
        self.every = list(range(len(rows)))
        self.train = self.every[: len(examples.train)]
        self.spent = 0.0
        """Seconds of two cores that were used before ways are tried."""
        self.untrained: MethodAnswers | None = None
        """What the model says of rows before it learns: `METHOD_COSINE` or `METHOD_ZERO_SHOT`."""
        self.trusted: dict[int, Prediction] = {}
        """What the heavier rows alone say of the light ones."""
        if options.balance:
            weights = encoded.relative_weights(self.train)[:, None]
            self.learner.shares = (weights * encoded.targets[self.train]).mean(0) + 1e-9

    # ---- the head ----

    def _with_head(self, config: Config) -> Config:
        """Take the model's own head, if it has these labels; else register a new one."""
        roberta, name = self.roberta, self.own or config.task.head
        config = dataclasses.replace(config, task=dataclasses.replace(config.task, head=name))
        if self.own is not None:
            known = roberta.head_labels(name)
            if set(known) != set(self.names):  # the table writes some in another case
                by_name = {label.casefold(): label for label in self.names}
                known = tuple(by_name[label.casefold()] for label in known)
            self.names = known
            roberta.labels[name], roberta.default_head = self.names, name
            return config
        sentence, pair = roberta.sentence, isinstance(self.examples.train[0].text, tuple)
        averages = sentence is not None and tuple(sentence.pooling) == ("mean",)
        pair_layer = _knows_pairs(roberta) if pair else None
        # A scored pair is read by the mean too, unless a head of pairs has taught `<s>` to do it.
        mean = averages and (not pair or (self.task == "regression" and pair_layer is None))
        pooling: Any = self.options.pooling or ("mean" if mean else "cls")
        normalize = (
            mean and not pair and pooling == "mean" and bool(sentence and sentence.normalize)
        )
        self.inner = pair_layer if pooling == "cls" else None
        with seeded(config.seed):
            roberta.register_classification_head(
                name,
                len(self.names) or 1,
                labels=self.names or None,
                pooling=pooling,
                normalize=normalize,
                kind=self.kind,
            )
        inputs: Inputs = "pair" if pair else "one"
        roberta.default_head, roberta.inputs[name] = name, inputs
        return config

    def finish(self, divisor: float, least: tuple[float, ...] | None) -> None:
        """Have the head answer in true probabilities, or in the table's own numbers."""
        output, name = self.learner.head.out_proj, self.config.task.head
        with torch.no_grad():
            if self.kind == "regression":
                mean, deviation = self.scale
                output.weight.mul_(deviation)
                output.bias.mul_(deviation).add_(mean)
            else:
                output.weight.div_(divisor)
                output.bias.div_(divisor)
                if self.learner.shares is not None:
                    output.bias.sub_(self.learner.shares.log().to(output.bias))
        if least is not None:
            self.roberta.thresholds[name] = least

    def _words(self) -> Tensor | None:
        """Compute the directions that the labels' own words suggest: (K, C); None: none."""
        head = self.learner.head
        if self.kind == "regression" or len(self.names) < 2 or pooling_of(head) != "mean":
            return None
        if not labels_are_words(self.names) or one_label_negates_another(self.names):
            return None
        plain = [name.replace("_", " ") for name in self.names]
        ids = self.roberta.tokenizer.encode_batch(plain)
        most = self.roberta.max_positions
        examples = Encoded([(own[:most],) for own in ids], lambda rows: ({}, len(rows)))
        found = self.learner.features(examples)
        found = found - found.mean(0)
        length: Tensor = found.norm(dim=1).mean().clamp(min=1e-9)
        return found / length

    # ---- a small table ----

    def choose(self) -> Learnt:
        """Try what the amount of work allows, and learn in the best way."""
        learner, options = self.learner, self.options
        train = self.examples.train
        groups = group_duplicates(train, [])
        count = max(2, min(folds_for(len(train)), len(groups)))
        parts = folds(train, groups, count, options.seed, self.task)
        new = {*new_texts([row.text for row in train], self.roberta.learnt)}
        if all(fresh := [[i for i in part if i in new] for part in parts]):
            parts = fresh  # what the model knew before chooses nothing, if others can
        chooser = MethodSelector(learner, parts)
        found: list[MethodAnswers] = []
        if self.own is not None:
            found.append(chooser.as_it_is())
        else:
            self.untrained = self._by_name(parts)
            learner.reset_head(self.train, self.inner)
            self.spent = self._compare()
            found.append(chooser.by_regression(self._words()))
            self.trusted = self._by_heavier_rows(found[0].way)
            if self._makes_no_mistake(found[0]):
                return self._learnt(found, found[0], [Tried(METHOD_WHOLE, why_not=NO_MISTAKE)])
        begin = found[0].way.learn if self.own is not None else self._begin_at(found[0].way)
        name = METHOD_WHOLE if self.own is None else METHOD_OWN
        usable, why_not = self._affordable(chooser.by_training(name, begin), parts)
        if not usable:
            return self._learnt(found, found[0], [Tried(name, why_not=why_not)])
        training = chooser.by_training(name, begin, learner.config)
        trained, left_out = [chooser.answers(training, usable)], list[Tried]()
        if options.trials:
            more, left_out = self._trials(chooser, training, begin, usable)
            trained += more
        rows = trained[0].rows
        top = max(trained, key=lambda answers: measure_of(answers, rows, learner))
        best = top if self.options.says_how else best_method([*found, top], learner)
        return self._learnt([*found, *trained], best, left_out)

    def _by_heavier_rows(self, regression: Method) -> dict[int, Prediction]:
        """Answer the light rows by a regression on the others, if these are enough to judge.

        They have all classes, and as many rows of a class as were measured, on the mean.
        """
        light = is_light(self.examples.train)
        heavier = [i for i in self.train if not light[i]]
        if len(heavier) == len(self.train) or self.kind != "single_label":
            return {}
        there = self.learner.encoded.targets[heavier].sum(0)
        if not bool(there.all()) or len(heavier) < JUDGING_ROWS * len(there):
            return {}
        rows = [i for i in self.train if light[i]]
        regression.learn(heavier)
        logits = self.learner.logits(self.learner.encoded, rows)
        return dict(zip(rows, self._predictions(logits, None), strict=True))

    def _makes_no_mistake(self, regression: MethodAnswers) -> bool:
        """Whether the regression makes no mistake, so that nothing can answer better."""
        if self.options.says_how or self.options.trials or self.kind != "single_label":
            return False  # the thresholds of several labels were chosen by the same answers
        return measure_of(regression, regression.rows, self.learner) == 1.0

    def _begin_at(self, regression: Method) -> Callable[[Sequence[int]], None]:
        """Begin a training at a regression, with smaller weights where it tells classes apart."""

        def begin(rows: Sequence[int]) -> None:
            regression.learn(rows)
            if self.kind == "single_label":
                self.learner.scale_head(START_SCALE)

        return begin

    def _trials(
        self,
        chooser: MethodSelector,
        training: Method,
        begin: Callable[[Sequence[int]], None],
        folds: list[list[int]],
    ) -> tuple[list[MethodAnswers], list[Tried]]:
        """Try other rates and epochs on the same folds, as long as the amount of work lasts."""

        def last(way: Method) -> float:
            return way.work(self.train) + (way.work(self.every) if self._holds_out else 0.0)

        def crossed(way: Method) -> float:
            return sum(way.work([i for i in self.train if i not in set(part)]) for part in folds)

        minutes = self.options.minutes or DEFAULT_MINUTES
        left = 60 * minutes - self.learner.work_of(self.every) - self.spent - crossed(training)
        found, left_out = [], []
        for config in list_trials(self.learner.config, self.options):
            way = chooser.by_training(f"{training.name}, {trial_name(config)}", begin, config)
            if crossed(way) + max(last(way), last(training)) > left:
                left_out.append(Tried(way.name, why_not=f"{minutes:g} minutes are spent before"))
                continue
            left -= crossed(way)
            found.append(chooser.answers(way, folds))
        return found, left_out

    def _compare(self) -> float:
        """Teach a model of scored pairs what its vectors say; return the seconds of two cores."""
        rows = self.examples.train
        if self.task != "regression" or not can_compare_pairs(self.roberta, rows):
            return 0.0
        cosines = torch.tensor(pair_cosines(self.roberta, rows), dtype=torch.float64)
        self.untrained = untrained_answers(METHOD_COSINE, self.train, cosines[:, None])
        mean = sum(len(self.learner.encoded.ids[i]) for i in self.train) / len(rows)
        each = self.learner.work_of(self.train) / len(rows)
        most = int(60 * (self.options.minutes or DEFAULT_MINUTES) / 2 / each)  # half of the work
        if self.inner is not None:
            per_row = PAIRS_PER_ROW
            count = min(round(COSINE_TOKENS / mean), (1 + per_row) * len(rows))
        else:
            count = min(round(COSINE_TOKENS_NEW_TO_PAIRS / mean), most)
            per_row = -(-count // len(rows))
        if not 0 < count <= most:
            return 0.0
        pairs = new_pairs(self.roberta, rows, count, self.options.seed, per_row)
        work = each * count
        encoded = encode_rows(self.roberta, self.config, pairs, (), (0.0, 1.0))
        adam = dataclasses.replace(self.config.optimizer, lr=2 * self.config.optimizer.lr)
        batch = self.config.batch.batch_size or 1
        adam = dataclasses.replace(adam, warmup_updates=round(0.06 * len(pairs) / batch))
        loop = dataclasses.replace(self.config.loop, max_epochs=1)
        self.learner.train_on(encoded, dataclasses.replace(self.config, optimizer=adam, loop=loop))
        return work

    def _by_name(self, parts: list[list[int]]) -> MethodAnswers | None:
        """Answer rows by the labels' names; None: no names that say what they mean."""
        if self.kind != "single_label" or not isinstance(self.examples.train[0].text, str):
            return None
        rows = [i for part in parts for i in part][:ZERO_SHOT_ROWS]  # training answers these first
        texts = [self.examples.train[i].text for i in rows]
        found = zero_shot_probabilities(self.roberta, texts, self.names)
        if found is None:
            return None
        return untrained_answers(METHOD_ZERO_SHOT, rows, found.double().log())

    def _affordable(self, way: Method, parts: list[list[int]]) -> tuple[list[list[int]], str]:
        """Tell which folds the amount of work allows to answer by training, else why none.

        Where it does not allow one, the rows are seen less often.
        """
        options, config = self.options, self.config
        budget = 60 * (options.minutes or DEFAULT_MINUTES)
        usual = config.loop.max_epochs or 1
        for epochs in range(usual, min(usual, MIN_EPOCHS) - 1, -1):
            self.learner.config = with_epochs(config, epochs)
            spent = self._works(way, parts)
            if usable := parts[: sum(work <= budget for work in spent)]:
                return usable, ""
            if options.epochs is not None:
                return parts[:1], ""  # the caller wants it so
        if options.learning_rate or options.batch_size:
            return parts[:1], ""
        minutes = math.ceil(spent[0] / 60)
        return [], f"not tried, as it takes {minutes:,} min of two cores; {MORE_MINUTES}"

    def _works(self, way: Method, parts: list[list[int]]) -> list[float]:
        """Count all work where the first fold is answered by training, the first two, and so on."""
        learns = way.work(self.train) + (way.work(self.every) if self._holds_out else 0.0)
        others = [[i for i in self.train if i not in part] for part in map(set, parts)]
        first = self.learner.work_of(self.every) + self.spent + learns
        return [*itertools.accumulate(map(way.work, others), initial=first)][1:]

    @property
    def _holds_out(self) -> bool:
        """Whether the held-out rows are learnt too at last: a table of the caller's own is not."""
        return bool(self.examples.valid) and self.examples.of_the_table

    def _learnt(
        self, found: list[MethodAnswers], best: MethodAnswers, left_out: list[Tried]
    ) -> Learnt:
        encoded, divisor, least = self.learner.encoded, best.temperature, None
        if self.kind == "multi_label":
            own = encoded.targets[best.rows], encoded.weights[best.rows]
            least = choose_thresholds(best.logits.sigmoid(), *own)
        kept = best.way.name == METHOD_AS_IS
        if kept:
            least = self.roberta.thresholds.get(self.config.task.head)
        how: EvaluationKind = "cross-validated"
        if self.examples.valid:
            best.way.learn(self.train)
            logits = self.learner.logits(self._judged(), range(len(self.examples.valid)))
            answers = self._predictions(logits / divisor, least, kept)
            answers = self._refused(best, answers)
            rows, how = self.examples.valid, "held out"
        else:
            answers = self._refused(best)
            rows = [self.examples.train[i] for i in best.rows]
        doubted = self._doubtful([best, *found], answers if self.examples.valid else [])
        if self._holds_out or not self.examples.valid:
            fitting.info("%s: learns all %s rows", best.way.name, f"{len(self.every):,}")
            best.way.learn(self.every)
        if not kept:
            self.finish(divisor, least)
        chosen = bool(self.options.trials) or not self.options.says_how
        gain = 0.0
        if how == "cross-validated" and chosen:
            competing = found[1:] if self.options.says_how else found
            gain = selection_optimism(competing, self.learner)
            gain *= len(common_rows(found)) / len(best.rows)  # the others did not choose
        choice = self._choice(found, best, left_out)
        notes = [*self._unscored(best, found[0].rows), *self._no_worse(best, gain)]
        counts = Counter(name for row in self.examples.train for name in row.labels)
        temperature = None if kept or self.kind == "regression" else divisor
        return Learnt(choice, how, rows, answers, gain, temperature, counts, notes, doubted)

    def _refused(
        self, best: MethodAnswers, held_out: list[Prediction] | None = None
    ) -> list[Prediction]:
        """Find when the head refuses, and refuse so the judged answers."""
        unseen, share, ids = self._unseen(best), self.options.reject, self.learner.encoded.ids
        if share is None:
            self._note_rejection(None)
            return unseen if held_out is None else held_out
        weights = [row.weight for row in self.examples.train]
        found, unseen = fit_rejection(unseen, ids, best.folds, self.train, share, weights)
        # Held-out rows are new to the weights that are judged, and so are their pieces.
        judged = unseen if held_out is None else found.marks(held_out, self._judged().ids)
        learnt = self.every if self._holds_out else self.train
        self._note_rejection(found.having_learnt(ids[i] for i in learnt))
        return judged

    def _note_rejection(self, found: Rejection | None) -> None:
        below, pieces = (None, None) if found is None else (found.below, found.pieces)
        head = self.config.task.head
        self.roberta._heads.note(head, reject_below=below, known_pieces=pieces)

    def _doubtful(
        self, found: list[MethodAnswers], held_out: list[Prediction]
    ) -> tuple[Doubtful, ...]:
        """Find likely wrong labels: of a row the first way's answer that has one, and held out.

        Of a light row it is what the heavier rows say, which teach no mistake of its kind
        (benchmarks/results/machine_labels.md).
        """
        unseen: dict[int, Prediction] = {}
        for answers in found:
            for row, answer in zip(answers.rows, self._unseen(answers), strict=True):
                unseen.setdefault(row, answer)
        unseen |= {row: own for row, own in self.trusted.items() if row in unseen}
        rows = [*(self.examples.train[i] for i in unseen), *self.examples.valid]
        every = [*unseen.values(), *held_out]
        by_heavier = [*(i in self.trusted for i in unseen), *(False for _ in held_out)]
        return doubtful_answers(self.task, rows, every, by_heavier)

    def _choice(
        self, found: list[MethodAnswers], best: MethodAnswers, left_out: list[Tried]
    ) -> Choice:
        """Say which way was taken, and what the others reach on the same rows."""
        learner, rows = self.learner, common_rows(found)
        scores = [measure_of(answers, rows, learner) for answers in found]
        ways = [
            Tried(answers.way.name, score, answers.way.work(self.train) * len(answers.folds))
            for answers, score in zip(found, scores, strict=True)
        ]
        ways += left_out
        top = measure_of(best, rows, learner)
        some = f" on {row_count(len(rows))}" if len(rows) < len(best.rows) else ""
        why = (
            f"{_best_of(found)}, by cross-validation{some}"
            if len(found) > 1
            else f"{left_out[0].name} was {left_out[0].why_not}"
        )
        if len(found) > 1 and self.options.says_how:
            why = "only this method takes the epochs, learning_rate or batch_size that you set"
        elif top < max(scores):
            first = found[scores.index(max(scores))].way.name
            why = f"mostly this is better, and the lead of {first} may be luck"
        elif found[0] is not best and top == scores[0]:
            why = (
                f"mostly this is better, and {found[0].way.name} is as good by "
                f"cross-validation{some}"
            )
        if best.way.name == METHOD_AS_IS and len(found) > 1:
            why = f"training is not better than the model as it is ({_score(top, self.task)})"
        if self.untrained is not None:
            asked = common_rows([self.untrained, *found])
            name = self.untrained.way.name
            name += f" (on {len(asked):,} of the {row_count(len(rows))})" * (len(asked) < len(rows))
            ways.append(Tried(name, measure_of(self.untrained, asked, learner)))
        return Choice(best.way.name, why, tuple(ways), METHOD_MEASURES[self.task])

    def _unscored(self, best: MethodAnswers, every: Sequence[int]) -> list[str]:
        """Say how many rows have no score, as the amount of work did not allow it."""
        if self.examples.valid or len(best.rows) == len(every):
            return []
        minutes = self.options.minutes or DEFAULT_MINUTES
        return [
            f"only {len(best.rows):,} of {row_count(len(every))} are scored, as more takes over "
            f"{minutes:g} min of two cores; {MORE_MINUTES}"
        ]

    def _no_worse(self, best: MethodAnswers, gain: float) -> list[str]:
        """Say where the model is as good before it learns, by rows that both answered."""
        if self.untrained is None:
            return []
        rows = common_rows([self.untrained, best])
        before, after = (
            measure_of(answers, rows, self.learner, weighted=False)
            for answers in (self.untrained, best)
        )
        after = max(after - gain, 0.0) if gain else after
        if before < after:
            return []
        if self.task == "regression":
            return [
                f"{self.config.model} orders these pairs better without training: `similarity` "
                f"has a Spearman of {before:.3f}, and this model {after:.3f}"
            ]
        return [
            f"`zero_shot` of {self.config.model} needs no training and is no worse: it is right on "
            f"{_score(before, self.task)} of {row_count(len(rows))} by the names of the labels, "
            f"and this model on {_score(after, self.task)} of them; use it, or add rows"
        ]

    # ---- a large table ----

    def train_once(self) -> Learnt:
        """Learn all rows but those held out, which find the temperature and are never learnt."""
        learner = self.learner
        if not self.config.loop.max_epochs:
            self._regress(self.train)
            choice = self._not_trained()
        else:
            if self.own is None:  # drawn: every second row of a table may be of one class
                draw = random.Random(self.options.seed)
                most = min(HEAD_SAMPLE_ROWS, len(self.train))
                self._regress(sorted(draw.sample(self.train, most)))
            learner.train(self.train)
            why = f"{len(self.train):,} rows teach it enough"
            choice = Choice(METHOD_ONCE, why, (), METHOD_MEASURES[self.task])
        judged = self._judged()
        logits = learner.logits(judged, range(len(self.examples.valid)))
        halves = rows_of_folds([list(range(len(logits)))])
        weights = judged.weights
        even = cross_calibrated(logits, judged.targets, self.kind, halves, weights=weights)
        divisor = fit_temperature(logits, judged.targets, self.kind, weights=weights)
        least = None
        if self.kind == "multi_label":
            least = choose_thresholds((logits / divisor).sigmoid(), judged.targets, weights)
        answers = self._by_parts(even, judged.targets, weights, halves)
        rejection = None
        if self.options.reject is not None:
            learnt = [learner.encoded.ids[i] for i in self.train]
            share, own = self.options.reject, [row.weight for row in self.examples.valid]
            rejection, answers = held_out_rejection(answers, judged.ids, learnt, share, own)
        self._note_rejection(rejection)
        self.finish(divisor, least)
        counts = Counter(name for row in self.examples.train for name in row.labels)
        rows = self.examples.valid
        doubted = doubtful_answers(self.task, rows, answers)
        notes = []
        if self.options.trials:
            notes.append(
                f"trials are made with at most {SMALL_TABLE_ROWS:,} rows; these were learnt once"
            )
        return Learnt(choice, "held out", rows, answers, 0.0, divisor, counts, notes, doubted)

    def _regress(self, rows: list[int]) -> None:
        """Make the head a regression on some rows."""
        learner, encoded = self.learner, self.learner.encoded
        if self.own is None:
            learner.reset_head(rows, self.inner)
        features = learner.features(encoded.examples(self.task, rows))
        relative = encoded.relative_weights(rows)
        scale = float((relative * features.norm(dim=1)).mean().clamp(min=1e-9))
        known = features / scale, encoded.targets[rows], self.kind, START_STRENGTH
        learner.set_head(solve(*known, weights=encoded.weights[rows]), scale)

    def _not_trained(self) -> Choice:
        """Say why a large table teaches a regression alone."""
        minutes = math.ceil(self.learner.work_of(self.train) / 60)
        why = f"one pass over the rows takes {minutes:,} min of two cores; {MORE_MINUTES}"
        return Choice(METHOD_HEAD, f"{METHOD_ONCE} was not tried, as {why}")

    # ---- answers ----

    def _judged(self) -> EncodedRows:
        """Encode the held-out rows, cut as verbs cut them and not as training does."""
        options = {**self.config.task.options, "max_length": self.roberta.max_positions}
        task = dataclasses.replace(self.config.task, options=options)
        config = dataclasses.replace(self.config, task=task)
        return encode_rows(self.roberta, config, self.examples.valid, self.names, self.scale)

    def _unseen(self, answers: MethodAnswers) -> list[Prediction]:
        """Answer the rows that choose, each by what the others say."""
        if answers.way.name == METHOD_AS_IS:
            least = self.roberta.thresholds.get(self.config.task.head)
            return self._predictions(answers.logits, least, kept=True)
        encoded, rows = self.learner.encoded, answers.rows
        parts = rows_of_folds(answers.folds)
        return self._by_parts(answers.logits, encoded.targets[rows], encoded.weights[rows], parts)

    def _by_parts(
        self, logits: Tensor, targets: Tensor, weights: Tensor, parts: list[list[int]]
    ) -> list[Prediction]:
        """Make answers of calibrated logits; thresholds of each part are those of the others."""
        if self.kind != "multi_label":
            return self._predictions(logits, None)
        found: dict[int, Prediction] = {}
        for part in parts:
            others = torch.ones(len(logits), dtype=torch.bool)
            others[part] = False
            own = targets[others], weights[others]
            least = choose_thresholds(logits[others].sigmoid(), *own)
            found |= dict(zip(part, self._predictions(logits[part], least), strict=True))
        return [found[i] for i in range(len(found))]

    def _predictions(
        self, logits: Tensor, least: tuple[float, ...] | None, kept: bool = False
    ) -> list[Prediction]:
        """Make answers of calibrated logits, or of those of a head that stays as it is."""
        if self.kind == "regression":
            mean, deviation = self.scale
            values = (logits * deviation + mean).tolist()
            name = self.roberta.head_labels(self.config.task.head)
            return [Prediction.of(name, row) for row in values]
        if self.kind == "multi_label":
            least = least or (0.5,) * len(self.names)
            return [Prediction.of(self.names, row, least) for row in logits.sigmoid().tolist()]
        if self.learner.shares is not None and not kept:
            logits = logits - self.learner.shares.log()
        return [Prediction.of(self.names, row) for row in logits.softmax(-1).tolist()]


def reusable_head(
    roberta: RobertaHubInterface, examples: Examples, pooling: HeadPooling | None = None
) -> str | None:
    """Find a head of the model's that has the labels of a table, for such texts; None: none has.

    The default head comes first.

    Example:
        >>> from roberta_hub.hub import load_model
        >>> from roberta_hub.train.fitting.examples import read_examples
        >>> rows = [{"a": f"It rains, {label}.", "b": "It is wet.", "label": label}
        ...         for label in ("Entailment", "neutral", "contradiction")]
        >>> reusable_head(load_model("roberta.tiny"), read_examples(rows, text=["a", "b"]))
        'mnli'
    """
    if examples.task == "regression":
        return None
    wanted = examples.classes
    for name, head in _heads_for(roberta, pair=isinstance(examples.train[0].text, tuple)):
        known = roberta.head_labels(name)
        folded = [{label.casefold() for label in labels} for labels in (wanted, known)]
        alike = folded[0] == folded[1] and len(folded[0]) == len(wanted) == len(known)
        same = alike or set(wanted) == set(known)
        kind = roberta.kinds.get(name, "single_label")
        fits = kind == HEAD_KINDS[examples.task] and pooling in (None, pooling_of(head))
        if same and fits:
            return name
    return None


def _heads_for(roberta: RobertaHubInterface, *, pair: bool) -> list[tuple[str, nn.Module]]:
    """List the classification heads that were trained on pairs or on single texts."""
    heads, wanted = heads_of(roberta.model), "pair" if pair else "one"
    found = [(name, head) for name, head in heads.items() if roberta.inputs.get(name) == wanted]
    return sorted(found, key=lambda named: named[0] != roberta.default_head)


def _knows_pairs(roberta: RobertaHubInterface) -> nn.Linear | None:
    """Return the inner layer of a head of pairs; None: the model has none."""
    width = require_roberta(roberta.model, "fit trains").config.embed_dim
    for _, head in _heads_for(roberta, pair=True):
        dense = getattr(head, "dense", None)
        fits = isinstance(dense, nn.Linear) and dense.weight.shape == (width, width)
        if fits and pooling_of(head) == "cls":
            return dense
    return None


def _scale(rows: Sequence[LabelledText]) -> tuple[float, float]:
    """Compute the weighted mean and deviation of a regression's numbers."""
    values, total = [float(row.labels[0]) for row in rows], sum(row.weight for row in rows)
    weights = [row.weight for row in rows]
    mean = sum(w * v for w, v in zip(weights, values, strict=True)) / total
    squares = sum(w * (v - mean) * (v - mean) for w, v in zip(weights, values, strict=True))
    deviation = (squares / total) ** 0.5
    if not max(deviation, abs(mean)) < MAX_NUMBER:
        raise InputError("the numbers of the labels are too far apart; take their logarithms")
    if deviation < max(1 / MAX_NUMBER, MIN_RELATIVE_SPREAD * abs(mean)):
        raise InputError(
            f"the numbers of the labels differ by about {deviation:.3g} around {mean:.10g}, too "
            "little for a model's float32; subtract a number from all of them, or multiply them"
        )
    return mean, deviation


def _best_of(found: Sequence[MethodAnswers]) -> str:
    """Say among how many ways the best was taken; what learns nothing is no way to learn."""
    if len(found) > 2:
        return f"the best of {len(found)} ways"
    if found[0].way.name == METHOD_AS_IS:
        return "better than the model as it is"
    return "the better of two ways to learn"


def _score(value: float, task: str) -> str:
    return f"{100 * value:.1f} %" if task == "classification" else f"{value:.3f}"

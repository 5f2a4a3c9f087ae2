"""A model learns rows again and again from one start: its head, or all of it."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from small_models import assert_close
from table_lessons import learner_of, nothing, plain, sentences
from torch import Tensor

from roberta_hub.train.fitting.learner import FLOPS_PER_SECOND, Learner
from roberta_hub.train.fitting.method_selection import MethodSelector
from roberta_hub.train.fitting.regression import solve
from roberta_hub.train.loop.flops import training_flops
from roberta_hub.train.loop.updates import updates
from roberta_hub.train.settings import Config
from roberta_hub.train.tasks.finetuning import FineTuning

ROWS = list(range(24))


@pytest.fixture
def learner() -> Learner:
    return learner_of(plain(), sentences(24), updates)


def weights(learner: Learner) -> dict[str, Tensor]:
    return {name: value.cpu().clone() for name, value in learner.model.state_dict().items()}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_an_open_head_is_a_regression(learner: Learner) -> None:
    learner.reset_head(ROWS)
    features = learner.features(learner.all())
    assert float(features.abs().max()) < 0.8  # where tanh is nearly straight
    assert float(features.mean(0).abs().max()) < 0.05  # centred
    vectors = learner.vectors(learner.all()).double()
    gain = learner.head.dense.weight[0, 0].item()
    assert_close(features, (gain * (vectors - vectors.mean(0))).tanh(), 1e-4)
    scale = float(features.norm(dim=1).mean())
    layer = solve(features / scale, learner.encoded.targets, "single_label", 10.0)
    learner.set_head(layer, scale)
    wanted = layer(features / scale)
    assert_close(learner.logits(learner.encoded, ROWS), wanted, 1e-4)
    texts = [row["text"] for row in sentences(24)]
    head = learner.config.task.head
    found = learner.roberta.classify(texts, head=head)
    names = learner.roberta.head_labels(head)
    scores = torch.tensor([[one.scores[name] for name in names] for one in found]).double()
    assert_close(scores, wanted.softmax(1), 1e-4)


def test_the_centre_is_that_of_the_rows_that_are_named(learner: Learner) -> None:
    learner.reset_head(ROWS[:6])
    features = learner.features(learner.all())
    assert float(features[:6].mean(0).abs().max()) < 0.05
    bias = learner.head.dense.bias.clone()
    learner.reset_head(ROWS[6:])
    assert not torch.equal(bias, learner.head.dense.bias)


def test_vectors_that_hardly_differ_are_not_blown_up() -> None:
    rows = [{"text": "the same" + "." * (k == 7), "label": "ab"[k % 2]} for k in range(8)]
    learner = learner_of(plain(), rows, nothing)
    learner.reset_head(range(7))
    assert all(bool(p.isfinite().all()) for p in learner.model.parameters())


def test_answers_are_in_the_order_of_the_rows_asked_for(learner: Learner) -> None:
    every = learner.logits(learner.encoded, ROWS)
    some = learner.logits(learner.encoded, [7, 2, 20])
    assert_close(some, every[[7, 2, 20]])


@pytest.mark.system
def test_it_goes_back_bit_for_bit_and_learns_the_same_again(learner: Learner) -> None:
    learner.reset_head(ROWS)
    start = weights(learner)
    drawn = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[index]
    learner.train(ROWS)
    after = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[index]
    assert torch.equal(drawn[0], after[0]) and drawn[1:] == after[1:]
    first = weights(learner)
    changed = {name for name in first if not torch.equal(first[name], start[name])}
    assert any("out_proj" in name for name in changed) and any("fc1" in name for name in changed)
    assert not any("embed_tokens" in name for name in changed)
    assert all(parameter.requires_grad for parameter in learner.model.parameters())
    learner.restore()
    assert same(weights(learner), start)
    torch.rand(5)  # what is drawn meanwhile has no part in it
    learner.train(ROWS)
    assert same(weights(learner), first)


def test_embeddings_are_free_again_where_a_training_fails() -> None:
    def fails(task: FineTuning, config: Config) -> None:
        assert not task.roberta.transformer.embed_tokens.weight.requires_grad
        raise KeyboardInterrupt

    learner = learner_of(plain(), sentences(24), fails)
    with pytest.raises(KeyboardInterrupt):
        learner.train(ROWS)
    assert all(parameter.requires_grad for parameter in learner.model.parameters())


def test_work_is_counted_by_tokens(learner: Learner) -> None:
    lengths = [len(ids) for ids in learner.encoded.ids]
    wanted = training_flops(learner.model.config, lengths) / FLOPS_PER_SECOND
    assert learner.work_of(ROWS) == wanted
    assert learner.work_of(ROWS[:12]) < wanted
    assert learner.work_of_training(ROWS) == learner.config.loop.max_epochs * wanted


def test_a_fold_is_answered_by_what_the_others_teach() -> None:
    """Each training sees all rows but those of the fold, and begins at the start."""
    seen: list[tuple[int, float]] = []
    start: list[dict[str, Tensor]] = []

    def run(task: FineTuning, config: Config) -> None:
        assert same(weights(learner), start[0])
        seen.append((len(task.lengths(0)), float(task.batch([0], 0).targets["labels"][0])))
        with torch.no_grad():
            for parameter in task.roberta.parameters():
                parameter.add_(0.1)

    learner = learner_of(plain(), sentences(24), run)
    start.append(weights(learner))
    folds = [ROWS[:4], ROWS[4:14], ROWS[14:]]
    chooser = MethodSelector(learner, folds)
    way = chooser.by_training("all", lambda rows: learner.restore())
    answers = chooser.answers(way, folds)
    assert [count for count, _ in seen] == [20, 14, 14]
    first = learner.encoded.targets.argmax(1)
    assert [label for _, label in seen] == [float(first[i]) for i in (4, 0, 0)]
    assert answers.rows == ROWS and answers.logits.shape == (24, 3)


def test_the_answers_of_a_regression_are_those_of_its_way(learner: Learner) -> None:
    """To learn the other folds and to ask the model gives the same logits, but for calibration."""
    learner.reset_head(ROWS)
    folds = [ROWS[::2], ROWS[1::2]]
    chooser = MethodSelector(learner, folds)
    found = chooser.by_regression(None)
    asked = chooser.answers(found.way, folds)
    assert_close(asked.logits, found.logits, 1e-3)
    assert asked.temperature == pytest.approx(found.temperature, rel=1e-3)
    assert found.rows == [*folds[0], *folds[1]]

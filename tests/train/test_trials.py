"""`trials` searches rates and epochs by cross-validation, as far as the counted minutes last."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from learning import ANIMALS

import roberta_hub
from roberta_hub.errors import InputError
from roberta_hub.train.fitting.learning_options import LearningOptions
from roberta_hub.train.fitting.trials import list_trials
from roberta_hub.train.settings import Config, LoopConfig, OptimizerConfig

pytestmark = pytest.mark.filterwarnings("ignore:.*rows are few to learn from")
OURS = Config(optimizer=OptimizerConfig(lr=1e-3, warmup_updates=12), loop=LoopConfig(max_epochs=8))


def animals(count: int) -> list[dict[str, Any]]:
    draw = random.Random(1)
    words = [draw.choice(list(ANIMALS)) for _ in range(count)]
    return [{"text": f"The {w} in row {i} makes a noise.", "label": w} for i, w in enumerate(words)]


def both(configs: list[Config]) -> list[tuple[float, int | None]]:
    return [(one.optimizer.lr, one.loop.max_epochs) for one in configs]


def test_rates_and_epochs_lie_around_ours_and_fill_the_range() -> None:
    found = both(list_trials(OURS, LearningOptions(trials=60)))
    assert len(set(found)) == 60 and (1e-3, 8) not in found
    rates, epochs = zip(*found, strict=True)
    assert min(rates) < 3.5e-4 and max(rates) > 3e-3 and all(2.5e-4 <= r <= 4e-3 for r in rates)
    assert set(epochs) >= set(range(5, 16)) and all(4 <= count <= 16 for count in epochs)
    lower = sum(rate < 1e-3 for rate in rates)
    assert 25 <= lower <= 35
    assert both(list_trials(OURS, LearningOptions(trials=5))) == found[:5]
    assert list_trials(OURS, LearningOptions()) == []


def test_what_is_said_stays() -> None:
    assert {
        r for r, _ in both(list_trials(OURS, LearningOptions(trials=5, learning_rate=1e-3)))
    } == {1e-3}
    found = list_trials(OURS, LearningOptions(trials=9, epochs=8))
    assert {epochs for _, epochs in both(found)} == {8} and len(found) == 9
    with pytest.raises(InputError, match="trials vary epochs and learning_rate; leave one"):
        LearningOptions(trials=2, epochs=3, learning_rate=1e-3)


def test_the_warmup_grows_with_the_epochs() -> None:
    for one in list_trials(OURS, LearningOptions(trials=9)):
        epochs = one.loop.max_epochs or 0
        assert one.optimizer.warmup_updates == round(12 * epochs / 8)


@pytest.mark.system
def test_the_best_of_the_trials_is_taken_and_each_is_told(base: Path) -> None:
    rows = animals(40)
    options: dict[str, Any] = {"model": base, "progress": False, "epochs": 2, "trials": 2}
    mine = roberta_hub.fit(rows, **options)
    choice = mine.fitted.choice
    trained = [way for way in choice.ways if "whole model" in way.name and way.score is not None]
    assert len(trained) == 3 and len({way.name for way in trained}) == 3
    best = max(way.score for way in trained)
    (taken,) = [way for way in choice.ways if way.name == choice.taken]
    assert taken.score == best
    assert (
        choice.why == "only this method takes the epochs, learning_rate or batch_size that you set"
    )
    again = roberta_hub.fit(rows, **options)
    assert again.fitted.choice == choice
    assert again.classify("The cat.") == mine.classify("The cat.")


@pytest.mark.system
def test_trials_end_with_the_minutes(base: Path) -> None:
    """Work is counted and not measured, so that the same is tried on any machine."""
    rows = animals(40)
    options: dict[str, Any] = {"model": base, "epochs": 1, "progress": False}
    mine = roberta_hub.fit(rows, trials=9, minutes=1e-4, **options)
    left_out = [way for way in mine.fitted.choice.ways if way.score is None]
    assert left_out and all(way.why_not == "0.0001 minutes are spent before" for way in left_out)
    assert "0.0001 minutes are spent before" in mine.fitted.choice.summary()

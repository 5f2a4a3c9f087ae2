"""A table of more than 2,000 rows: how long it is learnt, what minutes do, what is said before."""

import warnings
from pathlib import Path

import pytest
from table_lessons import plain
from torch.testing import assert_close

import roberta_hub
from roberta_hub.train.fitting.examples import Examples, read_examples
from roberta_hub.train.fitting.fit import prepare_classifier
from roberta_hub.train.fitting.learning import METHOD_ONCE
from roberta_hub.train.fitting.learning_options import LearningOptions
from roberta_hub.train.fitting.method_selection import METHOD_HEAD
from roberta_hub.train.fitting.recipe import notes_of_minutes, run_config, within_minutes
from roberta_hub.train.settings import Config, TaskConfig

ROWS = [
    {"text": f"The {w} number {i} sleeps.", "label": w} for i in range(1200) for w in ("cat", "dog")
]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("model") / "m"
    plain().save(folder)
    return folder


@pytest.fixture(scope="module")
def table() -> Examples:
    return read_examples(ROWS)


def config(epochs: int = 3) -> Config:
    return run_config(TaskConfig(), rows=3200, batch=32, epochs=epochs, rate=1e-4, seed=1)


@pytest.mark.parametrize(("minutes", "epochs"), [(None, 3), (60, 3), (5, 2), (2.5, 1), (1, 0)])
def test_minutes_lower_the_passes(minutes: float | None, epochs: int) -> None:
    found = within_minutes(config(), LearningOptions(minutes=minutes), 150.0)
    assert found.loop.max_epochs == epochs
    assert found.optimizer.warmup_updates == round(0.06 * 100 * epochs)  # 6 % of them, as ever
    found = within_minutes(config(3), LearningOptions(minutes=minutes, epochs=3), 150.0)
    assert found.loop.max_epochs == 3  # the caller says so


def test_a_long_training_is_said_before() -> None:
    assert notes_of_minutes(config(), LearningOptions(), 200.0) == []  # ten minutes
    [note] = notes_of_minutes(config(), LearningOptions(), 700.0)
    assert note.startswith("the model learns each row 3 times, in about 35 min of two cores")
    assert "minutes=12 (--minutes 12) it sees each row once" in note
    assert within_minutes(config(), LearningOptions(minutes=12), 700.0).loop.max_epochs == 1
    assert notes_of_minutes(config(), LearningOptions(minutes=30), 700.0) == []
    [note] = notes_of_minutes(config(), LearningOptions(minutes=30, epochs=3), 700.0)
    assert "epochs says how long" in note


def test_few_minutes_teach_a_regression(base: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mine = roberta_hub.fit(ROWS, model=base, minutes=1e-6, progress=False)
    choice = mine.fitted.choice
    assert choice.taken == METHOD_HEAD
    assert f"{METHOD_ONCE} was not tried, as one pass over the rows takes 1 min" in choice.why
    start = roberta_hub.load_model(base)
    kept = mine.model.transformer.state_dict()
    for name, value in start.model.transformer.state_dict().items():
        assert_close(kept[name], value, rtol=0, atol=0)  # only the head is learnt
    assert mine.classify("The cat number 3 sleeps.").label == "cat"
    assert mine.fitted.scores.how == "held out"


def test_the_plan_says_how_long(base: Path, table: Examples) -> None:
    ready = prepare_classifier(table, model=base)
    assert ready.seconds > 0
    assert "learns each row 3 times, in about 1 min of two cores" in ready.summary()
    ready = prepare_classifier(table, model=base, options=LearningOptions(minutes=1e-6))
    assert "learns by a regression on its vectors" in ready.summary()
    once = LearningOptions(minutes=1.5 * ready.seconds / 60)
    assert "learns each row once" in prepare_classifier(table, model=base, options=once).summary()

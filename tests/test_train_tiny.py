"""The steps that make roberta.tiny: their settings are those that `roberta-hub train` knows."""

from pathlib import Path
from types import ModuleType

import pytest
from scripts import TOOLS, load_script

from roberta_hub import load_model
from roberta_hub.train.config import compose
from roberta_hub.train.tasks.options import options_of

pytest.importorskip("transformers")
STEPS = ("language", "pairs", "again", "further", "moods", "distil", "balanced")


@pytest.fixture(scope="module")
def train_tiny() -> ModuleType:
    for name in (
        "draw_topics",
        "moods",
        "growing",
        "small_lm",
        "pair_teacher",
        "cut_words",
        "tiny_tables",
    ):
        load_script(TOOLS / f"{name}.py")
    return load_script(TOOLS / "train_tiny.py")


def test_every_step_is_here(train_tiny: ModuleType) -> None:
    assert tuple(train_tiny.STEPS) == STEPS
    assert set(train_tiny.PAIRS) == set(train_tiny.SIDES) == set(STEPS) - {"language"}
    assert set(train_tiny.UPDATES) == set(train_tiny.WARM_UP) == set(STEPS)


def test_what_is_shipped_puts_the_same_before_texts(train_tiny: ModuleType) -> None:
    settings = load_model("roberta.tiny").sentence
    assert settings is not None
    assert settings.prompts == train_tiny.PROMPTS
    assert settings.default_prompt == train_tiny.DEFAULT_PROMPT


@pytest.mark.parametrize("step", STEPS)
def test_the_settings_of_a_step(train_tiny: ModuleType, step: str, tmp_path: Path) -> None:
    config = compose(train_tiny.settings(step, tmp_path, 1.0, ()))
    assert config.loop.max_updates == train_tiny.UPDATES[step]
    assert config.output == f"{tmp_path}/{step}"
    if step == "language":
        return
    options = options_of(config)
    assert [Path(side["train"]).name for side in options.beside or []] == [
        text for text, _, _ in train_tiny.SIDES[step].values()
    ]
    soft = config.data.columns.get("probabilities")
    opinions = step in ("distil", "balanced")
    assert soft == ("probabilities" if opinions else None)
    assert config.data.valid.endswith("balanced_valid.tsv") == (step == "balanced")
    assert config.data.labels == ["contradiction", "neutral", "entailment"]

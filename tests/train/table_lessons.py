"""Small tables, and a small model that learns them as `fit` has it learn, without a file."""

from __future__ import annotations

import random
from typing import Any

from small_models import small_roberta

from roberta_hub import RobertaHubInterface
from roberta_hub.train.fitting.examples import Examples, read_examples
from roberta_hub.train.fitting.learner import Learner, RunTask, encode_rows
from roberta_hub.train.fitting.learning import Learnt, learn
from roberta_hub.train.fitting.learning_options import LearningOptions
from roberta_hub.train.fitting.recipe import choose_recipe
from roberta_hub.train.settings import Config
from roberta_hub.train.tasks.finetuning import FineTuning

Rows = list[dict[str, Any]]
WORDS = ("cat", "dog", "cow")


def sentences(count: int, seed: int = 1, noise: float = 0.2) -> Rows:
    """Texts in which one word tells the class, of most rows."""
    draw = random.Random(seed)
    rows = []
    for i in range(count):
        told = WORDS[i % 3]
        label = draw.choice(WORDS) if draw.random() < noise else told
        rows.append({"text": f"A {told} and {draw.randint(0, 99)} of {i}.", "label": label})
    return rows


def pairs(count: int, labels: tuple[str, ...]) -> Rows:
    """Pairs of texts with labels in turn."""
    return [
        {"premise": f"It rains {i}.", "hypothesis": f"Wet {i}.", "label": labels[i % len(labels)]}
        for i in range(count)
    ]


def nothing(task: FineTuning, config: Config) -> None:
    """A training that teaches nothing."""


def with_own_head(seed: int = 0) -> RobertaHubInterface:
    """A model that knows how pairs of texts relate, as one that learnt MNLI."""
    roberta = small_roberta(
        seed,
        heads={"mnli": 3, "other": 2},
        labels={"mnli": ("contradiction", "neutral", "entailment")},
        num_layers=1,
        embedding_dim=16,
    )
    roberta.default_head, roberta.inputs["mnli"] = "mnli", "pair"
    return roberta


def plain(seed: int = 0) -> RobertaHubInterface:
    """A model without a head."""
    return small_roberta(seed, num_layers=1, embedding_dim=16)


def config_of(examples: Examples, roberta: RobertaHubInterface, options: LearningOptions) -> Config:
    texts = [row.text for row in examples.train]
    config = choose_recipe(
        width=32,
        lengths=[len(ids) for ids in roberta.tokenizer.encode_batch(texts)],
        limit=options.max_length or 48,
        task=examples.task,
        options=options,
    )
    config.loop.progress = False
    return config


def taught(
    roberta: RobertaHubInterface,
    examples: Examples,
    run: RunTask = nothing,
    **options: Any,
) -> Learnt:
    """Have a model learn a table."""
    about = LearningOptions(**options)
    config = config_of(examples, roberta, about)
    return learn(roberta, examples, config, about, run)


def learner_of(roberta: RobertaHubInterface, rows: Rows, run: RunTask) -> Learner:
    """A learner whose new head is not open yet."""
    examples = read_examples(rows)
    options = LearningOptions()
    config = config_of(examples, roberta, options)
    names = examples.classes
    roberta.register_classification_head(config.task.head, len(names), labels=names)
    encoded = encode_rows(roberta, config, examples.train, names, (0.0, 1.0))
    return Learner(roberta, config, "classification", encoded, run, False)

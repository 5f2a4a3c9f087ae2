"""Chooses how long and how fast a model learns a table, by its size and the table's.

benchmarks/results/fit.md says what these choices reach on two sets of film reviews.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from roberta_hub.train.fitting.learning_options import LearningOptions
from roberta_hub.train.rates import MAX_RATE, rate_for
from roberta_hub.train.settings import (
    BatchConfig,
    Config,
    LoopConfig,
    OptimizerConfig,
    TaskConfig,
)

SMALL_TABLE_ROWS = 2000
"""Tables with at most so many rows are small: `fit` chooses the method of training."""
MIN_ROWS_SEEN = 1200
"""So many rows are seen in all where the table has fewer."""
MIN_TOKENS_SEEN = 40_000
"""So many tokens, where they are fewer."""
MULTI_LABEL_EPOCHS = 2
"""Times as often a small table of several labels is seen: each of them is in few rows."""
MULTI_LABEL_RATE = 3
"""Times as high is the rate of several labels."""
SMALL_TABLE_RATE = 0.5
"""Share of the rate for training on a small table: its head begins as a regression."""
LONG_MINUTES = 10
"""Minutes of two cores above which a note says how long a large table takes."""


def choose_recipe(
    *, width: int, lengths: Sequence[int], limit: int, task: str, options: LearningOptions
) -> Config:
    """Make the configuration of a run."""
    rows = len(lengths)
    batch = options.batch_size or batch_for(rows)
    tokens = sum(min(length, limit) for length in lengths)
    several = task == "multi_label"
    more = MULTI_LABEL_EPOCHS if several and rows < SMALL_TABLE_ROWS else 1
    epochs = options.epochs or epochs_for(rows, tokens) * more
    gentler = SMALL_TABLE_RATE if rows <= SMALL_TABLE_ROWS else 1.0
    rate = options.learning_rate or min(
        rate_for(width) * gentler * (MULTI_LABEL_RATE if several else 1), MAX_RATE
    )
    return run_config(
        TaskConfig(name=task, options={"truncate": True, "max_length": limit}),
        rows=rows,
        batch=batch,
        epochs=epochs,
        rate=rate,
        seed=options.seed,
    )


def run_config(
    task: TaskConfig, *, rows: int, batch: int, epochs: int, rate: float, seed: int
) -> Config:
    """Make the configuration of a run that learns a table, without looking at rows held out."""
    updates = epochs * -(-rows // batch)
    return Config(
        seed=seed,
        resume=False,
        task=task,
        optimizer=OptimizerConfig(
            lr=rate,
            clip_norm=1.0,
            warmup_updates=round(0.06 * updates),
        ),
        batch=BatchConfig(max_tokens=None, batch_size=batch),
        loop=LoopConfig(
            max_epochs=epochs,
            evaluate_every=0,  # the held-out rows choose nothing: their score stays honest
            save_every=0,
            log_every=min(max(1, updates // 100), 20),
        ),
    )


def with_epochs(config: Config, epochs: int) -> Config:
    """Let a run see its rows more or less often, with as large a share of warm-up."""
    share = epochs / (config.loop.max_epochs or epochs or 1)
    warmup = config.optimizer.warmup_updates
    warmup = None if warmup is None else round(share * warmup)
    return dataclasses.replace(
        config,
        loop=dataclasses.replace(config.loop, max_epochs=epochs),
        optimizer=dataclasses.replace(config.optimizer, warmup_updates=warmup),
    )


def within_minutes(config: Config, options: LearningOptions, seconds: float) -> Config:
    """Lower the passes over a large table to what the minutes allow; to 0 if not even one is.

    `seconds` are those of one pass. A caller who says the epochs gets them.
    """
    if options.minutes is None or options.epochs is not None:
        return config
    usual = config.loop.max_epochs or 0
    return with_epochs(config, min(usual, int(60 * options.minutes / max(seconds, 1e-9))))


def large_table_plan(epochs: int, seconds: float) -> str:
    """Write how a large table is learnt, and for how long.

    Example:
        >>> large_table_plan(3, 100)
        'each row 3 times, in about 5 min of two cores'
        >>> large_table_plan(0, 600)
        'by a regression on its vectors'
    """
    if not epochs:
        return "by a regression on its vectors"
    often = "once" if epochs == 1 else f"{epochs} times"
    return f"each row {often}, in about {math.ceil(epochs * seconds / 60):,} min of two cores"


def notes_of_minutes(config: Config, options: LearningOptions, seconds: float) -> list[str]:
    """Say what fewer minutes would do, before a large table takes many."""
    epochs = config.loop.max_epochs or 0
    if options.minutes and options.epochs:
        return ["epochs says how long these rows are learnt, and minutes do not shorten it"]
    if options.minutes or epochs * seconds <= 60 * LONG_MINUTES:
        return []
    once = math.ceil(seconds / 60)
    return [
        f"the model learns {large_table_plan(epochs, seconds)}; with minutes={once} "
        f"(--minutes {once}) it sees each row once, and with fewer it learns a regression on its "
        "vectors"
    ]


def batch_for(rows: int) -> int:
    """Choose the rows of an update: fewer where that would leave only a handful of updates.

    The embeddings cost the same in every update, however many rows it reads. So large tables take
    fairseq's 32.

    Example:
        >>> [batch_for(rows) for rows in (12, 100, 400, 4_000, 60_000)]
        [4, 8, 16, 16, 32]
    """
    return 4 if rows < 50 else 8 if rows < 200 else 16 if rows < 40_000 else 32


def epochs_for(rows: int, tokens: int) -> int:
    """Choose the epochs: `MIN_ROWS_SEEN` rows or `MIN_TOKENS_SEEN` tokens in all, at least two.

    A table of more than `SMALL_TABLE_ROWS` rows is seen three times, one of 20,000 or more twice.

    Example:
        >>> [epochs_for(rows, 15 * rows) for rows in (12, 100, 360, 4_000, 60_000)]
        [20, 12, 3, 3, 2]
        >>> epochs_for(360, 60 * 360), epochs_for(360, 128 * 360)
        (2, 2)
    """
    if rows > SMALL_TABLE_ROWS:
        return 2 if rows >= 20_000 else 3
    return max(2, min(round(MIN_ROWS_SEEN / rows), round(MIN_TOKENS_SEEN / tokens), 20))


def length_for(rows: int) -> int:
    """Choose the most tokens of a text in training: fewer for few rows, so that it is soon done.

    Example:
        >>> length_for(400), length_for(4_000)
        (128, 256)
    """
    return 128 if rows < SMALL_TABLE_ROWS else 256


def learns_embeddings(rows: int) -> bool:
    """Tell whether the tokens' embeddings are trained too.

    A small table holds few of the tokens. Where they stay, an update of roberta.tiny takes about a
    fifth less time, and as many answers are right (SST-2, 400 rows, three seeds: 77.2 and 77.5 %).

    Example:
        >>> learns_embeddings(400), learns_embeddings(4_000)
        (False, True)
    """
    return rows > SMALL_TABLE_ROWS

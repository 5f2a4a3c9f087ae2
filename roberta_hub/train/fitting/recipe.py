"""Chooses how long and how fast a model learns a table, by its size and the table's."""

from __future__ import annotations

from roberta_hub.config import RobertaConfig
from roberta_hub.train.settings import (
    BatchConfig,
    Config,
    LoopConfig,
    OptimizerConfig,
    TaskConfig,
)


def recipe(
    model: RobertaConfig, longest: int, rows: int, task: str, epochs: int | None, seed: int
) -> Config:
    """Make the configuration of a run.

    Args:
        model: the architecture.
        longest: tokens of the longest input that the model takes.
        rows: examples to learn from.
        task: "classification", "regression" or "multi_label".
        epochs: how often each row is seen; None: by `epochs_for`.
        seed: of new weights, the order of rows and dropout.
    """
    epochs = epochs or epochs_for(rows)
    updates = epochs * -(-rows // BATCH)
    return Config(
        seed=seed,
        resume=False,
        task=TaskConfig(name=task, options={"truncate": True, "max_length": min(LONGEST, longest)}),
        optimizer=OptimizerConfig(
            lr=rate_for(model), clip_norm=1.0, warmup_updates=round(0.06 * updates)
        ),
        batch=BatchConfig(max_tokens=None, batch_size=BATCH),
        loop=LoopConfig(
            max_epochs=epochs,
            evaluate_every=0,  # the held-out rows choose nothing: their score stays honest
            save_every=0,
            log_every=min(max(1, updates // 100), 20),
        ),
    )


BATCH = 16
"""Rows of an update."""
LONGEST = 256
"""Tokens of a text that are learnt; the rest is cut."""


def epochs_for(rows: int) -> int:
    """Choose how often each row is seen: few rows more often.

    Example:
        >>> [epochs_for(rows) for rows in (40, 400, 4_000, 60_000)]
        [10, 10, 3, 2]
    """
    return max(2, min(10, -(-4000 // max(rows, 1)) if rows < 4000 else 3 if rows < 20_000 else 2))


def rate_for(model: RobertaConfig) -> float:
    """Choose the peak of the learning rate by the model's width.

    Example:
        >>> [rate_for(RobertaConfig(embed_dim=width)) for width in (128, 256, 384, 768, 1024)]
        [0.001, 0.00054, 0.00016, 2e-05, 8.4e-06]
    """
    return float(f"{min(1e-3, 2e-5 * (768 / model.embed_dim) ** 3):.2g}")

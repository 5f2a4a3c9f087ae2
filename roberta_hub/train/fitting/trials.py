"""Lists rates and numbers of epochs that are worth a try, the likeliest first."""

from __future__ import annotations

import dataclasses
import math

from roberta_hub.train.fitting.learning_options import LearningOptions
from roberta_hub.train.fitting.recipe import with_epochs
from roberta_hub.train.settings import Config

GOLDEN_RATIO = (math.sqrt(5) - 1) / 2
"""Its multiples fill an interval evenly, however many there are (Weyl's sequence)."""
SQUARE_ROOT_STEP = math.sqrt(2) - 1
"""Another such number, for the second of two dimensions."""
RATE_FACTOR = 4.0
"""A rate is tried from a share of 1 / `RATE_FACTOR` of ours to so many times it."""
EPOCHS_FACTOR = 2.0
"""The same of epochs."""


def list_trials(config: Config, options: LearningOptions) -> list[Config]:
    """Vary the rate and the epochs of a recipe; what the caller says of either stays.

    The list is the same each time, and a longer one begins as a shorter one.

    Example:
        >>> from roberta_hub.train.settings import LoopConfig, OptimizerConfig
        >>> ours = Config(optimizer=OptimizerConfig(lr=1e-3), loop=LoopConfig(max_epochs=8))
        >>> [trial_name(one) for one in list_trials(ours, LearningOptions(trials=2))]
        ['rate 0.0014, 7 epochs', 'rate 0.00048, 13 epochs']
        >>> [trial_name(one) for one in list_trials(ours, LearningOptions(trials=2, epochs=8))]
        ['rate 0.0014, 8 epochs', 'rate 0.00048, 8 epochs']
    """
    found: list[Config] = []
    usual = config.loop.max_epochs or 1
    seen, k = {(config.optimizer.lr, usual)}, 0
    while len(found) < (options.trials or 0) and k < 10 * (options.trials or 0):
        k += 1
        rate, epochs = config.optimizer.lr, usual
        if options.learning_rate is None:
            rate = float(f"{rate * RATE_FACTOR ** _between(k * GOLDEN_RATIO):.2g}")
        if options.epochs is None:
            epochs = max(1, round(usual * EPOCHS_FACTOR ** _between(k * SQUARE_ROOT_STEP)))
        if (rate, epochs) in seen:
            continue
        seen.add((rate, epochs))
        varied = with_epochs(config, epochs)
        adam = dataclasses.replace(varied.optimizer, lr=rate)
        found.append(dataclasses.replace(varied, optimizer=adam))
    return found


def trial_name(config: Config) -> str:
    """Write the rate and the epochs of a configuration."""
    return f"rate {config.optimizer.lr:.2g}, {config.loop.max_epochs} epochs"


def _between(turns: float) -> float:
    """Return where on the way from -1 to 1 so many turns end."""
    return 2 * (turns % 1) - 1

"""One engine, one table, one seed: what it answers, and what that is worth."""

from __future__ import annotations

from .fit_engines import Engine
from .fit_runs import Key, Run
from .fit_scores import Answers, judge
from .fit_sets import Table


def measured(key: Key, table: Table, engine: Engine) -> tuple[Run, Answers] | None:
    """Let an engine learn a table; None: it has no answer for such tables.

    Size 0 is for engines that learn nothing: the table's smallest draw says the labels.
    """
    drawn = table.draw(key.size or table.sizes[0], key.seed)
    answers = engine(drawn, table, key.model, key.seed)
    if answers is None:
        return None
    run = Run(
        key=key,
        rows=len(drawn.learn) if key.size else 0,
        tested=len(drawn.test),
        scores={name: round(value, 4) for name, value in judge(answers, drawn, table).items()},
        cpu_seconds=round(answers.cpu_seconds, 1),
        way=answers.way,
    )
    return run, answers

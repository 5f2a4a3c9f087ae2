"""Writes the README.md of a model that was made of a table."""

from __future__ import annotations

import dataclasses
import os
import platform
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from roberta_hub.measures.classes import CLASS_MEASURES
from roberta_hub.rows.columns import shell_list
from roberta_hub.rows.values import number_in
from roberta_hub.show.markdown import code, fenced, inline
from roberta_hub.train.fitting.doubtful import doubtful_section, doubtful_title
from roberta_hub.train.fitting.examples import Examples
from roberta_hub.train.fitting.fitted import Fitted
from roberta_hub.train.fitting.learning_options import LearningOptions
from roberta_hub.train.fitting.method_selection import METHOD_AS_IS
from roberta_hub.train.reports import duration
from roberta_hub.train.settings import Config

DOUBTFUL_LISTED = 50
"""Likely wrong labels that a card lists."""
MAY_BE_KNOWN = "The model may have learnt these rows before; its scores may then be too good"
"""What a card says of judged rows that may have been in the training."""


def model_card(
    examples: Examples, fitted: Fitted, config: Config, options: LearningOptions, output: Path
) -> str:
    """Write what a model is for, what it was made of, and what it reaches."""
    pair = len(examples.columns) == 2
    asked = '[("a text", "another")]' if pair else '"a text"'
    kind = "number" if examples.task == "regression" else "label"
    means = probability_meaning(fitted, options)
    load = f"mine = roberta_hub.load_model({str(output)!r})"
    usage = f"import roberta_hub\n\n{load}\nprint(mine.classify({asked}))"
    return f"""\
# {inline(output.absolute().name)}

Gives {"a pair of texts" if pair else "a text"} its {kind} {code(examples.label)}.
Made by roberta_hub from {inline(os.path.basename(examples.source))}.

{fenced(usage, "python")}

## Data

{fenced(examples.summary())}

## Scores

{fenced(fitted.scores.summary())}

{_seen(examples, fitted)}.
{"".join(f"{chr(10)}{said}{chr(10)}" for said in (*score_meaning(fitted), *means))}
{_doubtful(fitted)}## How it was made

{fenced(fit_command(examples, config, options, output))}

It began as {inline(config.model)}.

{fenced(fitted.choice.summary() if fitted.choice else "")}

All of it took {duration(fitted.seconds)}, with {versions()}.
"""


def _seen(examples: Examples, fitted: Fitted) -> str:
    """Say whether the judged rows were new, and what became of them."""
    if fitted.scores.how == "may be known":
        return MAY_BE_KNOWN
    said = "The rows were scored by weights that had not seen them"
    if fitted.choice is not None and fitted.choice.taken == METHOD_AS_IS:
        return f"{said}. Nothing was trained on this table"
    if len(examples.learnt) == len(examples.train) and examples.valid:
        return f"{said}, and this model has not seen them either"
    return f"{said}. This model has then been trained on all rows"


def _doubtful(fitted: Fitted) -> str:
    """List the rows whose label is likely wrong; "" where there are none."""
    lines = doubtful_section(fitted.doubtful, DOUBTFUL_LISTED).text[1:]
    if not lines:
        return ""
    title = doubtful_title(fitted.doubtful).capitalize()
    return f"## {title}\n\n{fenced(chr(10).join(lines))}\n\n"


def score_meaning(fitted: Fitted) -> list[str]:
    """Explain the numbers that not every reader knows; a paragraph, or none."""
    known = {
        **{each.title: each.meaning for each in CLASS_MEASURES.values()},
        "micro-F1": "Micro-F1 counts each label of each row.",
        "log loss": "Log loss is the mean of -log(p), where p is the probability of the right label"
        "; lower is\nbetter.",
        "ECE": "ECE (expected calibration error) is how far probabilities are from the shares of "
        "right\nanswers on average; 0 is best.",
    }
    told = [name for name, number in fitted.scores.numbers.items() if number is not None]
    found = [known[name] for name in told if name in known]
    return [" ".join(found)] if found else []


def probability_meaning(fitted: Fitted, options: LearningOptions) -> list[str]:
    """Say what the model's probabilities mean; a paragraph each."""
    found = []
    if fitted.temperature not in (None, 1.0) and fitted.scores.task != "regression":
        found.append(
            f"The probabilities are calibrated: the logits are divided by {fitted.temperature:.3g}"
            ", a temperature found on\nrows that the weights had not seen. It is part of the "
            "head's last layer, so every format keeps it."
        )
    if options.balance:
        found.append(
            "Rare classes count as much as frequent ones (`balance=True`): its probabilities are "
            "those of a balanced world,\nin which all classes are as frequent."
        )
    if fitted.reject_below is not None:
        found.append(
            f"It refuses answers whose certainty is below {fitted.reject_below:.3g}: `label` is "
            "then None, and `rejected` True. These are at most\n"
            f"{100 * (options.reject or 0):g} % of the texts with known classes, on average, if "
            "new texts come as the rows did. Formats of other programs\ndo not refuse."
        )
    if fitted.thresholds is not None:
        least = ", ".join(f"{inline(name)} {p:.3g}" for name, p in fitted.thresholds.items())
        found.append(
            f"A text has the labels, in `.labels`, whose probability is at or over: {least}.\n"
            "Formats of other programs hold no such thresholds; there a label begins at 0.5."
        )
    return found


def fit_command(examples: Examples, config: Config, options: LearningOptions, output: Path) -> str:
    """Write the command that makes a model again; of data in memory the call in Python."""
    labels = examples.labels_from
    said = {name: value for name, value in dataclasses.asdict(options).items() if value}
    given: dict[str, Any] = {"label": labels[0] if len(labels) == 1 else list(labels)}
    if examples.separator is not None:
        given["separator"] = examples.separator
    if examples.weight is not None:
        given["weight"] = examples.weight
    given |= {
        "model": config.model,
        "output": str(output),
        "task": examples.task,
        **said,
        "seed": options.seed,
    }
    share = examples.share
    if examples.in_memory or share is None:
        text = examples.columns[0] if len(examples.columns) == 1 else list(examples.columns)
        given |= {} if examples.header else {"header": False}
        call = ", ".join(f"{name}={value!r}" for name, value in {"text": text, **given}.items())
        table = examples.source if examples.in_memory else repr(examples.source)
        valid = "valid" if share is None else repr(share) if number_in(share) is None else share
        valid = "" if share == "" else f"valid={valid}, "
        return f"roberta_hub.fit({table}, {valid}{call})"
    words = ["roberta-hub", "fit", examples.source]
    columns = {"text": shell_list(examples.columns)} | ({"valid": share} if share else {})
    for name, value in (columns | given | {"label": shell_list(labels)}).items():
        option = "--" + name.replace("_", "-")
        words += [option] if value is True else [option, str(value)]
    return shell_command(words if examples.header else [*words, "--no-header"])


def shell_command(words: Sequence[str]) -> str:
    r"""Join the words of a command; what a terminal would obey is written as its escapes.

    Example:
        >>> shell_command(["roberta-hub", "fit", "a b.csv", "c\n.csv"])
        "roberta-hub fit 'a b.csv' $'c\\n.csv'"
    """
    return " ".join(
        shlex.quote(word) if word.isprintable() else "$'" + _ansi_escapes(word) + "'"
        for word in words
    )


def _ansi_escapes(word: str) -> str:
    """Escape a word for bash's and zsh's quotes with a dollar sign."""
    quoted = word.replace("\\", "\\\\").replace("'", "\\'")
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in quoted)


def duration_of(config: Config, rows: int) -> str:
    """Write how long a model learns so many rows: "for 5 epochs of 23 updates of 16 rows"."""
    batch, epochs = config.batch.batch_size, config.loop.max_epochs
    assert batch is not None and epochs is not None  # `run_config` sets both
    return f"for {epochs} epochs of {-(-rows // batch):,} updates of {batch} rows"


def versions() -> str:
    """List the versions that a model was made with.

    Example:
        >>> versions().startswith("roberta_hub ")
        True
    """
    package = sys.modules[__name__.partition(".")[0]]  # to import it would be a circle
    return (
        f"roberta_hub {package.__version__}, torch {torch.__version__}, "
        f"Python {platform.python_version()}"
    )

"""Declares `roberta-hub fit`: your own classifier, or tagger, of a table of texts."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import click

from roberta_hub.shell.given import option
from roberta_hub.shell.options import examples
from roberta_hub.shell.reports import say
from roberta_hub.shell.signature import takes_arguments
from roberta_hub.train.fitting.learning_options import LIMITS, LearningOptions

if TYPE_CHECKING:
    from roberta_hub.train.fitting.examples import Examples
    from roberta_hub.train.fitting.tag_examples import TagExamples

TASKS = ("classification", "regression", "multi_label", "tagging")
MINE = "mine"
"""Folder of a model whose own is not named."""


@click.command(
    epilog=examples(
        "roberta-hub fit reviews.csv",
        "roberta-hub fit pairs.tsv --text premise,hypothesis --label label --output entails",
        "roberta-hub fit notes.jsonl --output tagger",
    )
)
@click.argument("table", type=click.Path())
@takes_arguments(
    "train/fitting/fit.py",
    "fit",
    output=None,
    valid={"metavar": "SHARE|FILE"},
    task={"type": click.Choice(TASKS), "metavar": None},
    learning_rate={"metavar": "RATE"},
    reject={"metavar": "SHARE"},
    seed={"ends": (0, None)},
    separator={"metavar": "TEXT"},
    **{name: {"ends": ends} for name, ends in LIMITS.items()},
)
@option(
    "-o",
    "--output",
    metavar="FOLDER",
    type=click.Path(),
    help="Where the model goes; a model of fit that is there goes.  [default: mine, unless it is "
    "of another table]",
)
def fit(table: str, output: str | None, **given: Any) -> int:
    """Learn the labels of the texts in TABLE, or the spans in them: CSV, TSV, JSONL or Parquet.

    Spans are [start, end, label] in characters, or dicts, as doccano and Prodigy export them; Label
    Studio's JSON, CoNLL's columns and spaCy's .spacy are read too.

    `fit` first says what it has found in the table. It then trains, and measures the model on rows
    outside the training. The model goes into a folder that `-m` takes.
    """
    from roberta_hub.terminal import clean
    from roberta_hub.train.fitting.doubtful import doubtful_section
    from roberta_hub.train.fitting.fit import prepare, read_labelled
    from roberta_hub.train.fitting.model_folder import check_output, check_same_table
    from roberta_hub.train.reports import duration, fitting, on_stderr, updates

    how = LearningOptions.__dataclass_fields__
    options = LearningOptions(**{name: given.pop(name) for name in how})
    named, output = output is not None, output or MINE
    folder, model = check_output(output), given.pop("model")
    found = read_labelled(table, seed=options.seed, **given)
    say(found.summary())
    if not named:  # another table's model stays
        check_same_table(folder, [row.text for row in (*found.train, *found.valid)])
    ready = prepare(found, model, output, options)
    say(ready.summary())
    try:
        with on_stderr(fitting, updates):
            fitted = ready.train().fitted
    except KeyboardInterrupt:
        click.echo(clean(f"{output} was not written"), err=True)
        raise
    say(f"done in {duration(fitted.seconds)}")
    if fitted.choice:
        say(fitted.choice.summary())
    say(f"\n{fitted.scores.in_shell()}\n")
    if fitted.doubtful:
        say("\n".join(doubtful_section(fitted.doubtful).text[1:]))
    say(f"The model is in {output}, with a README.md. Next:")
    say(f"  {_next(output, found)}")
    return 0


def _next(output: str, examples: Examples | TagExamples) -> str:
    """Write the line to type next."""
    model = f"-m {shlex.quote(output)}"
    if examples.task == "tagging":
        return f"roberta-hub tag {model} 'Your text.'"
    if isinstance(examples.train[0].text, tuple):
        return f"roberta-hub classify {model} --pair 'A text.' 'Another text.'"
    return f"printf 'Your text.\\n' | roberta-hub classify {model}"

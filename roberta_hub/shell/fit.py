"""Declares `roberta-hub fit`: your own classifier, or tagger, of a table of texts."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from roberta_hub.settings import HeadPooling
from roberta_hub.shell.given import option
from roberta_hub.shell.options import complete_model, examples, names_option, text_option

if TYPE_CHECKING:
    from roberta_hub.train.fitting.examples import Examples
    from roberta_hub.train.fitting.tag_examples import TagExamples

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
@text_option(
    "text", "Column of the texts; A,B of pairs. Without it: found by name or by content.", "COLUMN"
)
@names_option(
    "--label",
    metavar="COLUMN",
    help="Column of the labels, or of spans, found likewise; A,B,C of columns of 0 and 1, a label "
    "each.",
)
@option(
    "--separator",
    metavar="TEXT",
    help='What is between the labels in a cell, such as ",". Without it a text is one label.',
)
@option(
    "--header/--no-header",
    default=True,
    help="Whether the first row of a CSV or TSV names its columns; else they are 1, 2, ....",
)
@option(
    "--valid",
    metavar="SHARE|FILE",
    help="Share of the rows to measure on, or a table of such rows. Without it: a tenth of 200 "
    "rows or more; of fewer none, which cross-validation judges.",
)
@option(
    "-m",
    "--model",
    default="roberta.tiny",
    show_default=True,
    shell_complete=complete_model,
    help="Name or path of the model to begin with.",
)
@option(
    "-o",
    "--output",
    metavar="FOLDER",
    type=click.Path(),
    help="Where the model goes; a model of fit that is there goes.  [default: mine, unless it is "
    "of another table]",
)
@option(
    "--task",
    type=click.Choice(("classification", "regression", "multi_label", "tagging")),
    help="Without it: numbers are classes if they are whole and at most 20, else a regression; "
    "lists of spans are tagging.",
)
@option(
    "--balance",
    is_flag=True,
    help="Count rare classes as much as frequent ones: more of them are found.",
)
@option(
    "--minutes",
    type=float,
    metavar="N",
    help="Limit of the work for choosing and learning, in minutes on two cores. Without it: two. "
    "The work is counted in tokens, not measured: a busy or slow machine takes longer. The "
    "regression on the model's vectors is always tried. With more than 2,000 rows there is no "
    "limit.",
)
@option(
    "--trials",
    type=click.IntRange(1, 1_000),
    metavar="N",
    help="Rates and numbers of epochs to try by cross-validation, within the minutes.",
)
@option(
    "--epochs",
    type=click.IntRange(1, 10_000),
    metavar="N",
    help="How often each row is learnt. Without it: by their number.",
)
@option(
    "--learning-rate",
    type=float,
    metavar="RATE",
    help="Its peak, taken as it is. Without it: by the model's width.",
)
@option(
    "--batch-size",
    type=click.IntRange(1, 100_000),
    metavar="N",
    help="Rows of an update. Without it: by their number.",
)
@option(
    "--max-length",
    type=click.IntRange(3, 1_000_000),
    metavar="N",
    help="Tokens that are learnt of a text. Without it: by the number of rows.",
)
@option(
    "--pooling",
    type=click.Choice(("cls", "mean")),
    help="What the head reads. Without it: what the model was trained with.",
)
@option("--seed", type=click.IntRange(0), default=1, show_default=True)
def fit(
    table: str,
    text: tuple[str, ...],
    label: tuple[str, ...],
    separator: str | None,
    header: bool,
    valid: str | None,
    model: str,
    output: str | None,
    task: str | None,
    epochs: int | None,
    learning_rate: float | None,
    batch_size: int | None,
    max_length: int | None,
    minutes: float | None,
    balance: bool,
    pooling: HeadPooling | None,
    trials: int | None,
    seed: int,
) -> int:
    """Learn the labels of the texts in TABLE, or the spans in them: CSV, TSV, JSONL or Parquet.

    Spans are [start, end, label] in characters, or dicts, as doccano and Prodigy export them; Label
    Studio's JSON, CoNLL's columns and spaCy's .spacy are read too.

    `fit` first says what it has found in the table. It then trains, and measures the model on rows
    outside the training. The model goes into a folder that `-m` takes.
    """
    from roberta_hub.terminal import clean
    from roberta_hub.train.fitting.doubtful import doubtful_lines
    from roberta_hub.train.fitting.examples import read_examples
    from roberta_hub.train.fitting.fit import ReadyClassifier, prepare_classifier
    from roberta_hub.train.fitting.learning_options import LearningOptions
    from roberta_hub.train.fitting.model_folder import check_output
    from roberta_hub.train.fitting.tag_examples import read_tag_examples
    from roberta_hub.train.fitting.tagger import ReadyTagger, prepare_tagger
    from roberta_hub.train.reports import duration, fitting, on_stderr, updates

    def say(summary: str) -> None:
        for line in summary.splitlines():
            click.echo(clean(line))

    options = LearningOptions(
        epochs=epochs,
        learning_rate=learning_rate,
        batch_size=batch_size,
        max_length=max_length,
        minutes=minutes,
        balance=balance,
        pooling=pooling,
        trials=trials,
        seed=seed,
    )
    named, output = output is not None, output or MINE
    folder = check_output(output)
    given: dict[str, Any] = {
        "text": text or None,
        "label": label or None,
        "valid": valid,
        "task": task,
        "seed": seed,
        "separator": separator,
        "header": header,
    }
    ready: ReadyClassifier | ReadyTagger
    if (spans := read_tag_examples(table, **given)) is not None:
        say(spans.summary())
        _check_folder(folder, named, spans)
        ready = prepare_tagger(spans, model=model, output=output, options=options)
        following = f"roberta-hub tag -m {shlex.quote(output)} 'Your text.'"
    else:
        found = read_examples(table, **given)
        say(found.summary())
        _check_folder(folder, named, found)
        ready = prepare_classifier(found, model=model, output=output, options=options)
        following = _next(output, pair=len(found.columns) == 2)
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
        say("\n".join([*doubtful_lines(fitted.doubtful), ""]))
    say(f"The model is in {output}, with a README.md. Next:")
    say(f"  {following}")
    return 0


def _check_folder(folder: Path, named: bool, examples: Examples | TagExamples) -> None:
    """Leave another table's model where it is, unless its folder is named."""
    from roberta_hub.train.fitting.model_folder import check_same_table

    if not named:
        check_same_table(folder, [row.text for row in (*examples.train, *examples.valid)])


def _next(output: str, *, pair: bool) -> str:
    """Write the line to type next."""
    model = f"-m {shlex.quote(output)}"
    if pair:
        return f"roberta-hub classify {model} --pair 'A text.' 'Another text.'"
    return f"printf 'Your text.\\n' | roberta-hub classify {model}"

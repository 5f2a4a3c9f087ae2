"""Declares `roberta-hub evaluate`: a model's answers beside the right ones."""

from __future__ import annotations

import json
from typing import Any

import click

from roberta_hub.errors import InputError
from roberta_hub.shell.options import complete_model, examples, parse_list

REPORTS = ("text", "json", "markdown")
KINDS = ("labels", "scores", "search", "minimal-pairs", "answers", "spans")


def parse_labels(
    context: click.Context, option: click.Parameter, value: str | None
) -> dict[str, str] | None:
    """Parse which label of the head each of a task's is: `0=negative,1=positive`."""
    if value is None:
        return None
    pairs = [item.partition("=") for item in parse_list(context, option, value)]
    if not all(its and equals and own for its, equals, own in pairs):
        raise click.BadParameter(f"{value!r} is no list like 0=negative,1=positive")
    return {its: own for its, _, own in pairs}


def parse_least(
    context: click.Context, option: click.Parameter, values: tuple[str, ...]
) -> dict[str, float]:
    """Parse the least numbers that are good enough: `accuracy=0.8`."""
    found = {}
    for value in values:
        name, equals, number = value.partition("=")
        try:
            found[name] = float(number if name and equals else "")
        except ValueError:
            raise click.BadParameter(f"{value!r} is not like accuracy=0.8") from None
    return found


@click.command(
    epilog=examples(
        "roberta-hub evaluate mine moods.csv",
        "roberta-hub evaluate mine moods.csv --least accuracy=0.5 -f json",
    )
)
@click.argument("model", shell_complete=complete_model)
@click.argument("tasks", nargs=-1, required=True, metavar="TASK...", type=click.Path())
@click.option(
    "--kind", type=click.Choice(KINDS), help="What the tasks are. Without it: seen from the files."
)
@click.option(
    "--text",
    callback=parse_list,
    metavar="COLUMN",
    help="Column of the texts; A,B of pairs. Without it: found by its name, or the only one.",
)
@click.option(
    "--label",
    callback=parse_list,
    metavar="COLUMN",
    help="Column of the right answers, or columns of 0 and 1: A,B. Without it: found by its name.",
)
@click.option(
    "--labels",
    callback=parse_labels,
    metavar="ITS=OURS",
    help="The head's label for each that a task writes otherwise: 0=negative,1=positive.",
)
@click.option("--head", metavar="NAME", help="The head that is asked, where there are several.")
@click.option("--device", metavar="NAME", help="cuda, mps, cpu, or auto.")
@click.option("--split", metavar="NAME", help="Of a BEIR folder: qrels/NAME.tsv; else test.")
@click.option(
    "--header/--no-header",
    default=True,
    help="Whether the first row of a CSV or TSV names the columns; else they are 1, 2, ....",
)
@click.option("--truncate", is_flag=True, help="Cut texts that are too long.")
@click.option(
    "--stride",
    type=click.IntRange(min=0),
    metavar="N",
    help="Or read them in windows that overlap by N tokens.",
)
@click.option(
    "--least",
    multiple=True,
    callback=parse_least,
    metavar="MEASURE=NUMBER",
    help="Less is a failure; may come again. Of several tasks each must reach it.",
)
@click.option(
    "-f", "--format", "form", type=click.Choice(REPORTS), default="text", show_default=True
)
def evaluate(
    model: str,
    tasks: tuple[str, ...],
    kind: Any,
    text: tuple[str, ...],
    label: tuple[str, ...],
    labels: dict[str, str] | None,
    head: str | None,
    device: str | None,
    split: str | None,
    header: bool,
    truncate: bool,
    stride: int | None,
    least: dict[str, float],
    form: str,
) -> int:
    """Measure the answers of MODEL on each TASK, whose right answers are known.

    A task is a table of texts with labels, or of pairs with scores (CSV, TSV, JSONL, Parquet); a
    BEIR folder (corpus.jsonl, queries.jsonl, qrels/test.tsv); minimal pairs (JSONL with
    sentence_good and sentence_bad, or a folder of such); SQuAD's JSON; CoNLL's columns, or texts
    with spans.

    The exit status is 1 where a task cannot be measured or a number is less than --least.
    """
    from roberta_hub.evaluation.evaluate import evaluate as evaluated
    from roberta_hub.evaluation.records import Evaluation
    from roberta_hub.hub import load_model
    from roberta_hub.terminal import clean

    found = evaluated(
        model if device is None else load_model(model, device=device),
        tasks[0] if len(tasks) == 1 else tasks,
        kind=kind and kind.replace("-", "_"),
        text=text or None,
        label=label or None,
        labels=labels,
        head=head,
        split=split,
        header=header,
        truncate=truncate,
        stride=stride,
    )
    measured = [found] if isinstance(found, Evaluation) else list(found)
    failures = _failures(measured, least)
    if form == "json":
        click.echo(json.dumps(found.to_dict(), ensure_ascii=False, indent=2, allow_nan=False))
    elif form == "markdown":
        click.echo(found.to_markdown())
    else:
        for line in str(found).splitlines():
            click.echo(clean(line))
    for failure in failures:
        click.echo(f"roberta-hub: {clean(failure)}", err=True)
    return 1 if failures else 0


def _failures(measured: list[Any], least: dict[str, float]) -> list[str]:
    """Say which numbers are less than they must be; a measure that nobody has is an error."""
    said = []
    for name, number in least.items():
        own = [one for one in measured if name in one.numbers]
        if not own:
            known = dict.fromkeys(name for one in measured for name in one.numbers)
            raise InputError(f"--least {name}: it was not measured; there is {', '.join(known)}")
        for one in own:
            value = one.numbers[name]
            if value is None or value < number:
                shown = "none" if value is None else f"{value:.4f}"
                said.append(f"{one.task}: {name} is {shown}, less than {number:g}")
    return said

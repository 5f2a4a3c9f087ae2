"""Declares `roberta-hub evaluate`: a model's answers beside the right ones."""

from __future__ import annotations

from typing import Any

import click

from roberta_hub.errors import InputError
from roberta_hub.shell.given import option
from roberta_hub.shell.options import examples, parse_list, takes_models
from roberta_hub.shell.reports import FORMAT, write_report
from roberta_hub.shell.signature import takes_arguments

KINDS = ("labels", "scores", "search", "minimal-pairs", "answers", "spans")


def parse_labels(
    context: click.Context, option: click.Parameter, values: tuple[str, ...]
) -> dict[str, str] | None:
    """Parse which label of the head each of a task's is: `0=negative,1=positive`."""
    found: dict[str, str] = {}
    for item in (item for value in values for item in parse_list(context, option, value)):
        its, _, own = item.partition("=")
        if not its or not own:
            raise click.BadParameter(f"{','.join(values)!r} is no list like 0=negative,1=positive")
        _set_once(found, its, own)
    return found or None


def parse_least(
    context: click.Context, option: click.Parameter, values: tuple[str, ...]
) -> dict[str, float]:
    """Parse the least numbers that are good enough: `accuracy=0.8`."""
    found: dict[str, float] = {}
    for value in values:
        name, equals, number = value.partition("=")
        try:
            least = float(number if name and equals else "")
        except ValueError:
            raise click.BadParameter(f"{value!r} is not like accuracy=0.8") from None
        _set_once(found, name, least)
    return found


def _set_once(found: dict[str, Any], name: str, value: object) -> None:
    if name in found:
        raise click.BadParameter(
            f"{name} is given twice, with {found[name]} and {value}; leave one out"
        )
    found[name] = value


@click.command(
    epilog=examples(
        "roberta-hub evaluate mine moods.csv",
        "roberta-hub evaluate mine moods.csv --least accuracy=0.5 -f json",
    )
)
@takes_models("model", then="TASK...")
@takes_arguments(
    "evaluation/evaluate.py",
    "evaluate",
    kind={"type": click.Choice(KINDS), "metavar": None},
    labels={
        "multiple": True,
        "callback": parse_labels,
        "metavar": "ITS=OURS",
        "help": "The head's label for each that a task writes otherwise: 0=negative,1=positive.",
    },
)
@option("--device", metavar="NAME", help="cuda, mps, cpu, or auto.")
@option(
    "--least",
    multiple=True,
    callback=parse_least,
    metavar="MEASURE=NUMBER",
    help="Less is a failure; may come again. Of several tasks each must reach it.",
)
@FORMAT
def evaluate(
    model: str,
    others: tuple[str, ...],
    kind: Any,
    device: str | None,
    least: dict[str, float],
    form: str,
    **given: Any,
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
        others[0] if len(others) == 1 else others,
        kind=kind and kind.replace("-", "_"),
        **given,
    )
    measured = [found] if isinstance(found, Evaluation) else list(found)
    failures = _failures(measured, least)
    write_report(found, form)
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

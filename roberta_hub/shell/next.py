"""Declares `roberta-hub next`: texts without labels that are worth labelling next."""

from __future__ import annotations

from typing import Any

import click

from roberta_hub.errors import placed
from roberta_hub.shell.layout import AnsweredRow
from roberta_hub.shell.options import Request, examples, takes_texts
from roberta_hub.shell.reading import Item
from roberta_hub.shell.run_verb import load_requested, open_rows
from roberta_hub.shell.signature import takes_arguments
from roberta_hub.shell.tally import Tally, fault_error
from roberta_hub.shell.writing import open_sink
from roberta_hub.verbs.question import AnswerFormat, Parts

_CHOSEN = AnswerFormat(
    Parts(),
    sample={"index": 0, "label": "", "uncertainty": 1.0},
    titles=("index", "label", "uncertainty"),
    line=lambda answer: (answer["index"], answer["label"], answer["uncertainty"]),
)


@click.command(
    epilog=examples(
        "roberta-hub next -m mine -i reviews.txt -n 2",
        "roberta-hub next -m mine -i moods.csv --keep text -n 20 -o to_label.csv",
    )
)
@takes_arguments("train/fitting/fitted.py", "next", ("n",), n={"flags": ("-n",), "ends": (1, None)})
@takes_texts
def next(request: Request, n: int) -> int:
    """Choose the texts of a file, or of standard input, that are worth labelling next.

    MODEL is one that `fit` made. The texts come with the most useful first: those that it is
    unsure of, and that are unlike each other. Texts that are empty, learnt, or there twice are left
    out. Each has its place `index`, counted from 0, the `label` that the model answers now, and its
    `uncertainty`, from 0 to 1: 1 less the distance of the first probability from the second.
    """
    from roberta_hub.train.fitting.next_texts import next_texts

    if request.texts or request.pairs:
        raise click.UsageError("the texts to choose from are many: give a file with -i")
    if request.model is None:
        raise click.UsageError("give the model that labels the texts: -m FOLDER, as `fit` makes it")
    _, layout, given = open_rows(request, _CHOSEN)  # raises before a model is loaded
    every = [item for item in given if item is not None]
    asked = [item for item in every if item.fault is None]
    layout.set_names(asked)
    layout.ask_example = lambda: _CHOSEN.sample
    tally, places = Tally(), {id(item): place for place, item in enumerate(every)}
    tally.add(
        AnsweredRow(item, None, None if item.fault is None else fault_error(item)) for item in every
    )
    with open_sink(request, layout) as sink:
        roberta = load_requested(request)
        with placed(lambda at: asked[at.index].where if at.argument == "texts" else at):
            found = next_texts(roberta, [_text(item) for item in asked], n, **request.options)
        rows = []
        for chosen in found:
            item = asked[chosen.index]
            record = {
                "index": places[id(item)],
                "label": chosen.label,
                "uncertainty": chosen.uncertainty,
            }
            rows.append(AnsweredRow(item, record))
        sink.write(rows)
    tally.finish(request.errors)
    return 0


def _text(item: Item) -> Any:
    return item.texts[0] if len(item.texts) == 1 else item.texts

"""Declares the verbs that ask a head: classify, zero-shot, tag, answer, choose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from roberta_hub.shell.asking import FEW, ask, one_by_one
from roberta_hub.shell.drawing import Cells, Share
from roberta_hub.shell.formats import Answer, Form
from roberta_hub.shell.grammar import DEFAULT_MODEL, Asked, examples, listed, takes_rows
from roberta_hub.shell.reading import Parts

if TYPE_CHECKING:
    from roberta_hub.inference.classify import Prediction
    from roberta_hub.interface import RobertaHubInterface

_NO_HEAD = (
    f"{DEFAULT_MODEL}, the model in the box, labels pairs only (--pair A B). For labels in words, "
    "without training: roberta-hub zero-shot TEXT --labels good,bad. For a model of your own: "
    "roberta-hub fit reviews.csv, then classify -m with the folder that it writes"
)
_PAIRS = (
    "a question and its context go together: --pair QUESTION CONTEXT, two columns of a table, or a "
    "tab between the two on a line"
)
MOST = 1000
"""Options that `choose` takes."""


def _shares(answer: Answer) -> Sequence[Cells]:
    """Draw every label with its share; what a regression says, its one number, is none.

    Of labels that do not exclude each other, those that the text has are marked.
    """
    scores = answer["scores"].items()
    if "labels" in answer:
        given = answer["labels"]
        return [(label, Share(p), "yes" if label in given else "") for label, p in scores]
    whole = len(scores) > 1 and all(0 <= score <= 1 for _, score in scores)
    return [(label, Share(score) if whole else score) for label, score in scores]


def _best(answer: Answer) -> Cells:
    """Draw the label, or the labels, with the share of the most probable one."""
    label, share, *_ = _shares(answer)[0]
    if "labels" in answer:
        label = ", ".join(answer["labels"]) or "(none)"
    return label, share


def _classes(parts: Parts) -> Form:
    return Form(
        parts,
        sample={"label": "", "score": 0.0},
        titles=("label", "score"),
        line=_best,
        block=_shares,
    )


def _predicted(found: Sequence[Prediction]) -> list[Answer]:
    return [prediction.to_dict() for prediction in found]


_head = click.option("--head", metavar="NAME", help="The head to ask, where there are several.")
_multi_label = click.option(
    "--multi-label", is_flag=True, help="Give each label a probability of its own."
)
_by_the_head = click.option(
    "--multi-label/--single-label",
    default=None,
    help="A probability for each label of its own, or one label a text; else as the head learnt.",
)


@click.command(
    epilog=examples(
        'roberta-hub classify -m mine "I loved every minute of it."',
        "roberta-hub classify -m mine -i reviews.csv --column text -o labels.csv",
        'roberta-hub classify --pair "A dog ran." "An animal moved."',
    )
)
@_head
@_by_the_head
@takes_rows
def classify(asked: Asked, head: str | None, multi_label: bool | None) -> int:
    """Give each text a label, by a head that was trained for it.

    The answer has the label, its probability `score`, and the `scores` of all labels; where a text
    may have several labels, it also has `labels`. Without -m the model in the box judges pairs:
    entailment, neutral or contradiction.
    """

    def question(roberta: RobertaHubInterface, texts: list[Any]) -> Sequence[Answer]:
        return _predicted(roberta.classify(texts, head, multi_label=multi_label, **asked.options))

    parts = Parts(least=2, hint=_NO_HEAD) if asked.model is None else Parts()
    settings = {"head": head, "multi_label": multi_label, "scores": True}
    return ask(asked, _classes(parts), question, settings=settings)


@click.command(
    epilog=examples(
        'roberta-hub zero-shot "I was charged twice." --labels billing,delivery,praise',
        "roberta-hub zero-shot -i reviews.csv --column text --labels good,bad -f csv",
    )
)
@click.option("--labels", callback=listed, metavar="A,B,C", help="In words.  [required]")
@click.option(
    "--hypothesis",
    default="This example is {}.",
    show_default=True,
    metavar="TEXT",
    help="A sentence with {} where the label goes.",
)
@click.option(
    "--by",
    type=click.Choice(["entailment", "meaning", "both"]),
    help="What is asked: a head for entailment, the nearest label by its vector, or both.  "
    "[default: what the model says of itself]",
)
@_head
@_multi_label
@takes_rows
def zero_shot(
    asked: Asked,
    labels: tuple[str, ...],
    hypothesis: str,
    by: str | None,
    head: str | None,
    multi_label: bool,
) -> int:
    """Give each text one of your own labels, which nothing was trained on.

    A head for natural-language inference judges whether the text entails the hypothesis, and
    sentence vectors which label is near. The answer has the label, its probability `score`, and the
    `scores` of all labels.
    """
    if not labels and not (asked.lake and asked.lake.status):
        raise click.MissingParameter(param_type="option", param_hint="'--labels'")

    def question(roberta: RobertaHubInterface, texts: list[Any]) -> Sequence[Answer]:
        return _predicted(roberta.zero_shot(texts, labels, **given, **asked.options))

    given: Any = {"hypothesis": hypothesis, "head": head, "multi_label": multi_label, "by": by}
    settings = {"labels": labels, **given, "scores": True}
    return ask(asked, _classes(Parts()), question, settings=settings)


@click.command(
    epilog=examples(
        'roberta-hub tag -m ner "Ada Lovelace lived in London."',
        "printf 'Ada wrote.\\nIt rained.\\n' | roberta-hub tag -m ner -f csv",
    )
)
@_head
@takes_rows
def tag(asked: Asked, head: str | None) -> int:
    """Find the labelled spans of each text: names, places, parts of speech.

    The answer has `spans`, each with its label, text, start and end in characters, and score. It
    takes a model with a token head: `roberta-hub train finetune=ner` trains one.
    """

    def question(roberta: RobertaHubInterface, texts: list[Any]) -> Sequence[Answer]:
        found = roberta.tag(texts, head, **asked.options)
        return [{"spans": [span.to_dict() for span in spans]} for spans in found]

    def block(answer: Answer) -> Sequence[Cells]:
        spans = answer["spans"]
        return [(s["label"], s["text"], Share(s["score"])) for s in spans] or [("(none)",)]

    span = {"label": "", "start": 0, "end": 0, "text": "", "score": 0.0}
    form = Form(Parts(most=1), sample={"spans": [span]}, block=block)
    return ask(asked, form, question, settings={"head": head})


@click.command(
    epilog=examples(
        'roberta-hub answer -m squad --pair "Who wrote it?" "Ada Lovelace wrote it."',
        "roberta-hub answer -m squad -i questions.csv -c question,context -f csv",
    )
)
@_head
@click.option(
    "--max-answer-tokens",
    default=30,
    show_default=True,
    metavar="N",
    type=click.IntRange(min=1),
    help="Length of the longest answer.",
)
@click.option("--always", is_flag=True, help="Never answer that the text does not say it.")
@takes_rows
def answer(asked: Asked, head: str | None, max_answer_tokens: int, always: bool) -> int:
    """Find the stretch of a text that answers a question; the pairs are question and context.

    The answer is "" where the text does not say it. It takes a model with a span head:
    `roberta-hub train finetune=squad` trains one.
    """

    def question(roberta: RobertaHubInterface, texts: list[Any]) -> Sequence[Answer]:
        settings: Any = {"max_answer_tokens": max_answer_tokens, "no_answer": not always}

        def one(pair: Any) -> Answer:
            wanted, context = pair
            found = roberta.answer(wanted, context, head, **settings, **asked.options)
            span = {"start": found.start, "end": found.end}
            return {"answer": found.text, **span, "score": found.score}

        return one_by_one(texts, one)

    def block(found: Answer) -> Sequence[Cells]:
        return [(found["answer"] or "(the text does not say it)", Share(found["score"]))]

    form = Form(
        Parts(least=2, two=("question", "context"), hint=_PAIRS),
        sample={"answer": "", "start": 0, "end": 0, "score": 0.0},
        titles=("answer", "score"),
        line=lambda found: block(found)[0],
        block=block,
    )
    length = {"max_answer_tokens": max_answer_tokens}
    settings = {"head": head, "no_answer": not always, **length}
    return ask(asked, form, question, FEW, settings)


@click.command(
    epilog=examples(
        'roberta-hub choose -m race "Where do fish live?" --options "in water,in trees"',
        "printf 'Fish live in\\twater\\ttrees\\n' | roberta-hub choose -m race",
    )
)
@click.option("--options", callback=listed, metavar="A,B,C", help="The same for each text.")
@_head
@takes_rows
def choose(asked: Asked, options: tuple[str, ...], head: str | None) -> int:
    """Choose the best of several options for each text, or question.

    Options are --options, or stand behind the text: further columns, or after tabs. It takes a
    model with a head of one output: `roberta-hub train finetune=race` trains one.
    """

    def question(roberta: RobertaHubInterface, texts: list[Any]) -> Sequence[Answer]:
        def one(text: Any) -> Answer:
            context, *own = (text, *options) if options else text
            found = roberta.choose(context, own, head, **asked.options)
            ranked = [{"option": name, "score": score} for name, score in found.scores.items()]
            return {"label": found.label, "score": found.score, "options": ranked}

        return one_by_one(texts, one)

    hint = "give --options A,B, or options behind each text, in columns or after tabs"
    parts = Parts(most=1) if options else Parts(least=3, most=MOST, two=("text",), hint=hint)
    form = Form(
        parts,
        sample={"label": "", "score": 0.0, "options": [{"option": "", "score": 0.0}]},
        titles=("label", "score"),
        line=lambda found: (found["label"], Share(found["score"])),
        block=lambda found: [(o["option"], Share(o["score"])) for o in found["options"]],
    )
    return ask(asked, form, question, FEW, {"head": head, "options": options or None})

"""Declares the verbs that ask the language model or its vocabulary: fill-mask, score, tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from roberta_hub.shell.asking import FEW, ask, ids_of
from roberta_hub.shell.drawing import Cells, Share
from roberta_hub.shell.formats import Answer, Form
from roberta_hub.shell.grammar import (
    Asked,
    examples,
    listed,
    takes_rows,
    takes_texts,
    takes_topk,
)
from roberta_hub.shell.reading import Parts

if TYPE_CHECKING:
    from roberta_hub.interface import RobertaHubInterface


@click.command(
    epilog=examples(
        'roberta-hub fill-mask "The capital of France is <mask>."',
        'roberta-hub fill-mask "It was a <mask> film." --targets good,bad',
    )
)
@takes_topk("How many words.")
@click.option("--targets", callback=listed, metavar="A,B,C", help="Rank these words only.")
@takes_rows
def fill_mask(asked: Asked, topk: int, targets: tuple[str, ...]) -> int:
    """Find the most probable words for each <mask> of a text.

    The answer has `words`, each with the number of its mask, its probability `score`, and the text
    with the word in place, `filled`.
    """

    def question(roberta: RobertaHubInterface, texts: list[Any]) -> Sequence[Answer]:
        settings: Any = {"topk": topk, "targets": targets or None}
        results: list[Any] = roberta.fill_mask(texts, **settings, **asked.options)
        answers = []
        for found in results:
            masks = found if isinstance(found[0], list) else [found]
            words = [
                {"mask": number, "word": word.strip(), "score": score, "filled": filled}
                for number, mask in enumerate(masks, 1)
                for filled, score, word in mask
            ]
            answers.append({"words": words})
        return answers

    def block(answer: Answer) -> Sequence[Cells]:
        words = answer["words"]
        several = words[-1]["mask"] > 1
        return [(*([w["mask"]] if several else []), w["word"], Share(w["score"])) for w in words]

    word = {"mask": 0, "word": "", "score": 0.0, "filled": ""}
    form = Form(Parts(most=1), sample={"words": [word]}, block=block)
    return ask(asked, form, question, settings={"topk": topk, "targets": targets or None})


@click.command(
    epilog=examples(
        'roberta-hub score "A dog ran." "Dog a ran."',
        "printf 'A dog ran.\\nDog a ran.\\n' | roberta-hub score -f csv",
    )
)
@takes_rows
def score(asked: Asked) -> int:
    """Measure how natural each text is, by its pseudo-log-likelihood (Salazar et al. 2020).

    The answer has the `score`, which is the nearer to 0 the more natural, the number of `tokens`,
    and their quotient `per_token`, which compares texts of different lengths. A text of T tokens
    costs T runs.
    """

    def question(roberta: RobertaHubInterface, texts: list[Any]) -> Sequence[Answer]:
        found = roberta.score(texts, **asked.options)
        layout = roberta.tokenizer.layout
        answers: list[Answer] = []
        for value, ids in zip(found, ids_of(roberta, texts, truncate=asked.truncate), strict=True):
            tokens = sum(end - start for start, end in layout.sentences(ids))
            each = value / max(tokens, 1)
            answers.append({"score": value, "tokens": tokens, "per_token": each})
        return answers

    form = Form(
        Parts(),
        sample={"score": 0.0, "tokens": 0, "per_token": 0.0},
        titles=("score", "tokens", "per token"),
        line=lambda answer: (answer["score"], answer["tokens"], answer["per_token"]),
    )
    return ask(asked, form, question, FEW, {})


@click.command(
    epilog=examples(
        'roberta-hub tokens "I had a sudden epipheny"',
        "printf 'one\\ntwo\\n' | roberta-hub tokens -f jsonl",
    )
)
@takes_texts
def tokens(asked: Asked) -> int:
    """Show the pieces and the ids that the model reads of each text.

    The answer has `tokens` and `ids`, marks of begin and end included. A text may be of any length,
    unless --truncate cuts it.
    """
    if asked.stride is not None:
        raise click.UsageError("--stride is for verbs that ask the model")

    def question(roberta: RobertaHubInterface, texts: list[Any]) -> Sequence[Answer]:
        return [
            {"tokens": roberta.tokenizer.pieces(ids), "ids": ids.tolist()}
            for ids in ids_of(roberta, texts, truncate=asked.truncate)
        ]

    def block(answer: Answer) -> Sequence[Cells]:
        return list(zip(map(str, answer["ids"]), answer["tokens"], strict=True))

    form = Form(
        Parts(),
        sample={"tokens": [""], "ids": [0]},
        titles=("tokens",),
        line=lambda answer: (" ".join(answer["tokens"]),),
        block=block,
    )
    return ask(asked, form, question)

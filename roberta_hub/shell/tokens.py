"""Declares `roberta-hub tokens`: pieces and ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from roberta_hub.shell.options import Request, examples, takes_texts
from roberta_hub.shell.run_verb import run_windows
from roberta_hub.verbs.question import AnswerFormat, Cells, Parts, Record

if TYPE_CHECKING:
    from roberta_hub.interface import RobertaHubInterface


@click.command(
    epilog=examples(
        'roberta-hub tokens "I had a sudden epipheny"',
        "printf 'one\\ntwo\\n' | roberta-hub tokens -f jsonl",
    )
)
@takes_texts
def tokens(request: Request) -> int:
    """Show the pieces and the ids that the model reads of each text.

    The answer has `tokens` and `ids`, marks of begin and end included. A text may be of any length,
    unless --truncate cuts it.
    """
    if request.stride is not None:
        raise click.UsageError("--stride is for verbs that ask the model")

    def question(roberta: RobertaHubInterface, texts: list[Any]) -> Sequence[Record]:
        from roberta_hub.interface import verb_model

        runner = verb_model(roberta, truncate=request.truncate).runner
        pieces = runner.tokenizer.pieces
        return [{"tokens": pieces(ids), "ids": ids.tolist()} for ids in runner.ids(texts)]

    def block(answer: Record) -> Sequence[Cells]:
        return list(zip(map(str, answer["ids"]), answer["tokens"], strict=True))

    answer_format = AnswerFormat(
        Parts(),
        sample={"tokens": [""], "ids": [0]},
        titles=("tokens",),
        line=lambda answer: (" ".join(answer["tokens"]),),
        block=block,
    )
    return run_windows(request, answer_format, question)

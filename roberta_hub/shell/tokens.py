"""Declares `roberta-hub tokens`: pieces and ids."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from roberta_hub.shell.options import Request, examples, takes_texts
from roberta_hub.shell.run_verb import load_requested, run_windows
from roberta_hub.verbs.question import AnswerFormat, Cells, Parts, Record

if TYPE_CHECKING:
    from roberta_hub.interface import RobertaHubInterface


@click.command(
    epilog=examples(
        'roberta-hub tokens "I had a sudden epipheny"',
        'roberta-hub tokens -m my-vocabulary "what becomes of a text"',
        "printf 'one\\ntwo\\n' | roberta-hub tokens -f jsonl",
    )
)
@takes_texts
def tokens(request: Request) -> int:
    """Show the pieces and the ids that the model reads of each text.

    The answer has `tokens` and `ids`, marks of begin and end included. A text may be of any length,
    unless --truncate cuts it. The model may be a folder of `roberta-hub vocabulary`.
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
    return run_windows(request, answer_format, question, load=_load)


def _load(request: Request) -> RobertaHubInterface:
    """Load the requested model, or a vocabulary without one, whose model has no weights."""
    from roberta_hub.train.vocabularies import is_vocabulary, vocabulary_interface

    if request.model and is_vocabulary(Path(request.model)):
        return vocabulary_interface(Path(request.model))
    return load_requested(request)

"""Declares `roberta-hub vocabulary`: a byte-level BPE learnt from text."""

from __future__ import annotations

import click

from roberta_hub.shell.given import option
from roberta_hub.shell.options import examples


@click.command(
    epilog=examples(
        "roberta-hub vocabulary corpus/*.txt --size 50000 --output words",
        "roberta-hub vocabulary reviews.csv --text text --output words-of-reviews",
    )
)
@click.argument("texts", nargs=-1, required=True, metavar="TEXT...", type=click.Path())
@option(
    "--size",
    type=int,
    default=50_265,
    show_default=True,
    metavar="N",
    help="Ids: 256 bytes, 5 special symbols, and the merges.",
)
@option("-o", "--output", required=True, metavar="FOLDER", type=click.Path(), help="New or empty.")
@option(
    "-c",
    "--text",
    "--column",
    "column",
    default="text",
    show_default=True,
    metavar="COLUMN",
    help="Column of the texts of a table.",
)
def vocabulary(texts: tuple[str, ...], size: int, output: str, column: str) -> int:
    """Learn the pieces of a language from TEXT, for a model of your own.

    TEXT has a sentence or paragraph a line; it may be a folder or a pattern, `.gz` and `.xz`, and a
    table. The folder is read by `train data.vocabulary=`, `preprocess --vocabulary` and
    `tokens -m`, by fairseq (encoder.json, vocab.bpe, dict.txt) and by transformers (vocab.json,
    merges.txt, tokenizer.json), with the same ids. It needs the library tokenizers.
    """
    from roberta_hub.arguments import path_of
    from roberta_hub.terminal import clean
    from roberta_hub.train.data.learnt_vocabulary import LEAST_COUNT, learn_vocabulary

    found = learn_vocabulary(texts, path_of("--output", output), size, column=column)
    count = len(found.tokenizer)
    said = f"{output}: {count:,} symbols of {found.lines:,} lines, {found.tokens:,} tokens"
    if count < size:
        said += (
            f"; fewer than {size:,}, as no other pair of pieces is there {LEAST_COUNT} times: more "
            "text gives more"
        )
    click.echo(clean(said), err=True)
    return 0

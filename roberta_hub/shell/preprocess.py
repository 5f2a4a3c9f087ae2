"""Declares `roberta-hub preprocess`: texts and labelled tables as fairseq's files."""

from __future__ import annotations

import click

from roberta_hub.shell.given import option
from roberta_hub.shell.options import complete_model, examples, text_option


@click.command(
    epilog=examples(
        "roberta-hub preprocess corpus/*.txt --valid held-out.txt --output data-bin",
        "roberta-hub preprocess pairs.tsv --text a,b --label label --output pairs-bin",
        "roberta-hub preprocess RTE/train.tsv --format rte --output RTE-bin",
    )
)
@click.argument("texts", nargs=-1, required=True, metavar="TEXT...", type=click.Path())
@option("--valid", multiple=True, metavar="TEXT", help="Of the split valid.")
@option("--test", multiple=True, metavar="TEXT", help="Of the split test.")
@option("-o", "--output", required=True, metavar="FOLDER", type=click.Path(), help="New or empty.")
@option(
    "-m",
    "--model",
    "--vocabulary",
    "vocabulary",
    default="roberta.base",
    show_default=True,
    metavar="MODEL",
    shell_complete=complete_model,
    help="Name or path of the model that is to read the ids.",
)
@text_option("columns", "Column of the texts of a table; A,B of labelled pairs.", "COLUMN")
@option("--label", metavar="COLUMN", help="Column of the labels: writes input0, input1 and label.")
@option("--regression", is_flag=True, help="The labels are numbers.")
@option(
    "--format",
    "form",
    metavar="NAME",
    help="csv, tsv, jsonl, parquet, or a set of GLUE, such as rte.",
)
@option("--workers", type=click.IntRange(1), metavar="N", help="Threads; one for each core.")
def preprocess(
    texts: tuple[str, ...],
    valid: tuple[str, ...],
    test: tuple[str, ...],
    output: str,
    vocabulary: str,
    columns: tuple[str, ...],
    label: str | None,
    regression: bool,
    form: str | None,
    workers: int | None,
) -> int:
    """Write what fairseq-preprocess writes of TEXT, for fairseq and for `roberta-hub train`.

    TEXT has a sentence or paragraph a line, and an empty line ends a document; it may be a folder
    or a pattern, `.gz` and `.xz`, and a table, whose rows are documents. With --label or a set of
    GLUE it is a table of labelled texts, one for each split.
    """
    from roberta_hub.arguments import path_of
    from roberta_hub.terminal import clean
    from roberta_hub.train.data.preprocessing import preprocess_labelled, preprocess_text
    from roberta_hub.train.data.sentences import GLUE_LAYOUTS
    from roberta_hub.train.vocabularies import read_vocabulary

    given = {"train": texts, "valid": valid, "test": test}
    sources = {split: own for split, own in given.items() if own}
    target, labelled = path_of("--output", output), label is not None or form in GLUE_LAYOUTS
    if regression and not labelled:
        raise click.UsageError(
            "--regression is for labelled tables: name their column with --label"
        )
    if form is not None and not labelled:
        raise click.UsageError("--format is for labelled tables; text is known by its file's name")
    if len(columns) > (2 if labelled else 1):
        raise click.UsageError(f"--text names {len(columns)} columns; at most a pair has labels")
    tokenizer = read_vocabulary(vocabulary)
    if not labelled:
        counts = preprocess_text(
            sources, target, tokenizer, column=(columns or ("text",))[0], threads=workers
        )
        said = [f"{split} {n:,} lines, {ids:,} tokens" for split, (n, ids) in counts.items()]
    else:
        if several := [split for split, own in sources.items() if len(own) > 1]:
            raise click.UsageError(f"the split {several[0]} has several tables; give one")
        roles = dict(zip(("sentence", "sentence2"), columns, strict=False))
        rows = preprocess_labelled(
            {split: own[0] for split, own in sources.items()},
            target,
            tokenizer,
            format=form,
            columns={**roles, **({"label": label} if label else {})},
            numbers=regression or form == "sts_b",
        )
        said = [f"{split} {count:,} examples" for split, count in rows.items()]
    click.echo(clean(f"{output}: {'; '.join(said)}"), err=True)
    return 0

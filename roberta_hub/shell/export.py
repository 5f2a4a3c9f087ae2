"""Declares `roberta-hub export`: a model as ONNX or for torch.export."""

from __future__ import annotations

from typing import Any

import click

from roberta_hub.shell.given import option
from roberta_hub.shell.options import examples, takes_models
from roberta_hub.shell.reports import say


@click.command(
    epilog=examples(
        "roberta-hub export roberta.tiny mnli-onnx --head mnli",
        "roberta-hub export roberta.tiny mnli-torch --format torch --head mnli",
    )
)
@takes_models("source", then="TARGET")
@option(
    "--format",
    type=click.Choice(("onnx", "torch")),
    default="onnx",
    show_default=True,
    help="onnx: model.onnx. torch: model.pt2, which torch.export.load reads.",
)
@option("--head", metavar="NAME", help="The head whose logits are written; else token vectors are.")
@option(
    "--output",
    type=click.Choice(("features", "logits")),
    help="logits: the language model's.",
)
@option(
    "--pooling",
    type=click.Choice(("cls", "mean", "max", "pooler")),
    help="One vector a text instead.",
)
@option("--opset", type=click.IntRange(18, 23), default=18, show_default=True, help="Of ONNX.")
@option(
    "--check/--no-check",
    default=True,
    show_default=True,
    help="Compare what was written with the model.",
)
def export(source: str, others: tuple[str, ...], **choices: Any) -> int:
    """Write one answer of the model SOURCE, a name or a path, into the folder TARGET.

    The folder also gets labels and tokenizer files, as optimum and sentence-transformers read them.
    """
    from roberta_hub.hub import load_model

    say(str(load_model(source).export(others[0], **choices)).replace("\n", "; "))
    return 0

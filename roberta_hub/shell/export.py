"""Declares `roberta-hub export`: a model as ONNX or for torch.export."""

from __future__ import annotations

from typing import Any

import click

from roberta_hub.shell.options import examples, takes_models
from roberta_hub.shell.reports import say
from roberta_hub.shell.signature import takes_arguments


@click.command(
    epilog=examples(
        "roberta-hub export roberta.tiny mnli-onnx --head mnli",
        "roberta-hub export roberta.tiny mnli-torch --format torch --head mnli",
    )
)
@takes_models("source", then="TARGET")
@takes_arguments("interface.py", "export", opset={"ends": (18, 23)})
def export(source: str, others: tuple[str, ...], **choices: Any) -> int:
    """Write one answer of the model SOURCE, a name or a path, into the folder TARGET.

    The folder also gets labels and tokenizer files, as optimum and sentence-transformers read them.
    """
    from roberta_hub.hub import load_model

    say(str(load_model(source).export(others[0], **choices)).replace("\n", "; "))
    return 0

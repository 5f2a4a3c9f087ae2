"""Declares `roberta-hub run`: a script of fairseq's, as it is."""

from __future__ import annotations

import click

from roberta_hub.shell.given import option
from roberta_hub.shell.options import examples


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    epilog=examples(
        "roberta-hub run script.py",
        "roberta-hub run -m package.evaluate dev.tsv",
    ),
)
@option("-m", "module", is_flag=True, help="SCRIPT is the name of a module.")
@click.argument("script")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run(module: bool, script: str, arguments: tuple[str, ...]) -> int:
    """Run a script that imports fairseq, as it is: fairseq's names mean this package.

    That holds for `import fairseq`, what has an equal here of its modules, and
    torch.hub.load('pytorch/fairseq', ...). Another name is an error that says what to do. All else
    is as `python SCRIPT ARGUMENTS` does it. In a notebook roberta_hub.as_fairseq() asks for the
    same.
    """
    from roberta_hub.fairseq_names.running import run as run_script

    return run_script([*(["-m"] if module else []), script, *arguments])

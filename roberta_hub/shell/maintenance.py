"""Declares the verbs on files and the installation: models, download, convert, scan, doctor.

Imports are inside the verbs, so that help is shown at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from roberta_hub.shell.given import option
from roberta_hub.shell.options import examples, takes_models

MODEL_FORMATS = ("fairseq", "huggingface", "roberta_hub")


@click.command(
    epilog=examples(
        "roberta-hub models",
        "roberta-hub models roberta.base bert-base-uncased",
        "roberta-hub models | grep MIT",
    )
)
@takes_models(then="[NAME]...")
def models(others: Sequence[str]) -> int:
    """List the models that can be loaded by name, with their size and licence.

    These are the catalogue, and the models at Hugging Face that were loaded or downloaded here by
    name. The last column says whether a model is in the cache, at which commit, or in a place that
    is looked in too. With NAMEs, of any models, these alone are listed; of one that is not here the
    settings are fetched, and no weights.
    """
    from roberta_hub.shell import models as work

    return work.models(others)


@click.command(
    epilog=examples(
        "roberta-hub download roberta.tiny",
        "roberta-hub download roberta.base deepset/roberta-base-squad2",
        "roberta-hub download --update deepset/roberta-base-squad2",
    )
)
@takes_models(then="NAME...")
@option("--force", is_flag=True, help="Fetch it again where there is a copy.")
@option(
    "--update",
    is_flag=True,
    help="Of a model at Hugging Face: fetch the newest commit, which the name means from then on.",
)
@option(
    "--revision",
    metavar="NAME",
    help="Of a model at Hugging Face: a branch, a tag or a commit, which the name means from then "
    "on.",
)
def download(others: Sequence[str], force: bool, update: bool, revision: str | None) -> int:
    """Fetch models into the cache, so that they load without a network.

    Each NAME is one that `roberta-hub models` lists, or OWNER/NAME of a model at Hugging Face. What
    is printed is the folder of each model.
    """
    from roberta_hub.shell import models as work

    return work.download(others, force=force, update=update, revision=revision)


@click.command(
    epilog=examples(
        "roberta-hub convert roberta.tiny tiny-for-transformers --to huggingface",
        "roberta-hub convert roberta.tiny tiny-for-fairseq --to fairseq",
    )
)
@takes_models("source", then="TARGET")
@option("--to", "form", required=True, type=click.Choice(MODEL_FORMATS), help="The new format.")
@option("--head", metavar="NAME", help="The head that a Hugging Face model gets, of several.")
@option(
    "--adapter/--no-adapter",
    default=None,
    help="Of a folder with a LoRA adapter: merge it into its base, or write the base alone.",
)
@option(
    "--optimizer",
    is_flag=True,
    help="Of a run's folder to fairseq: its optimizer, updates and place in the data too, in "
    "checkpoint_last.pt, which fairseq-train continues from.",
)
def convert(
    source: str,
    others: tuple[str, ...],
    form: str,
    head: str | None,
    adapter: bool | None,
    optimizer: bool,
) -> int:
    """Read the model SOURCE, a name or a path of any format, and write it into the folder TARGET.

    fairseq gets model.pt and dict.txt, Hugging Face what transformers reads, roberta_hub
    safetensors that load at once. Vocabulary, heads and labels go along. TARGET must be new or
    empty.
    """
    from roberta_hub.arguments import path_of
    from roberta_hub.errors import InputError
    from roberta_hub.folder import Folder
    from roberta_hub.terminal import clean

    target = others[0]
    folder = path_of("TARGET", target)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        there = f"holds {Folder(folder).listing()}" if folder.is_dir() else "is a file"
        raise InputError(f"{target} {there}; give a folder that is new or empty")
    if optimizer:
        if form != "fairseq" or head is not None or adapter is not None:
            raise click.UsageError("--optimizer is for --to fairseq, without --head and --adapter")
        from roberta_hub.train.to_fairseq import write_run

        write_run(path_of("SOURCE", source), folder)
        click.echo(clean(f"{target}: {Folder(folder).listing()}"), err=True)
        return 0
    from roberta_hub.hub import load_model

    load_model(source, adapter=adapter).save(folder, form, head)  # type: ignore[arg-type]
    click.echo(clean(f"{target}: {Folder(folder).listing()}"), err=True)
    return 0


@click.command(
    epilog=examples(
        "roberta-hub scan model.pt",
        "roberta-hub scan --json *.pt *.tar.gz",
    )
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path())
@option("--json", "as_json", is_flag=True, help="A list of objects, one a file.")
def scan(files: Sequence[str], as_json: bool) -> int:
    """Show what each FILE asks for, a checkpoint or an archive, without running it.

    The exit status is 0 if load_model accepts what the files ask for, 1 if anything is refused, 2
    if one is no checkpoint.
    """
    from roberta_hub.shell import scan as work

    return work.scan_files([Path(file) for file in files], as_json=as_json)


@click.command(
    epilog=examples(
        "roberta-hub doctor",
        "roberta-hub doctor --verify",
    )
)
@option("--verify", is_flag=True, help="Hash the cached files again.")
def doctor(verify: bool) -> int:
    """Look at versions, devices, cache and environment, run a self-test, and name the remedies.

    The exit status is 1 if there is a problem.
    """
    from roberta_hub.shell import doctor as work

    return work.doctor(verify=verify)

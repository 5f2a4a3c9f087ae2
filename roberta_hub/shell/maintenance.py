"""Declares the verbs on files and the installation: models, download, convert, scan, doctor, pin.

Imports are inside the verbs, so that help is shown at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from roberta_hub.shell.options import complete_model, examples

MODEL_FORMATS = ("fairseq", "huggingface", "roberta_hub")


@click.command(
    epilog=examples(
        "roberta-hub models",
        "roberta-hub models | grep MIT",
    )
)
def models() -> int:
    """List the models that can be loaded by name, with their size and licence.

    The last column says whether a model is in the cache, or in a place that is looked in too.
    """
    from roberta_hub.shell import models as work

    return work.models()


@click.command(
    epilog=examples(
        "roberta-hub download roberta.tiny",
        "roberta-hub download roberta.base roberta.large",
    )
)
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=complete_model)
@click.option("--force", is_flag=True, help="Fetch it again where there is a copy.")
def download(names: Sequence[str], force: bool) -> int:
    """Fetch models into the cache, so that they load without a network.

    Each NAME is one that `roberta-hub models` lists. What is printed is the folder of each model.
    """
    from roberta_hub.checkpoint.fetch.catalogue import (
        bundled_path,
        find_record,
        is_bundled,
        suggestions,
    )
    from roberta_hub.checkpoint.fetch.download import fetch_model
    from roberta_hub.errors import UnknownNameError
    from roberta_hub.terminal import clean

    records = []
    for name in names:  # all of them before the first download
        if (record := find_record(name)) is None:
            near = suggestions(name)
            hint = f"did you mean {' or '.join(near)}? " if near else ""
            raise UnknownNameError(f"no model {name!r}; {hint}roberta-hub models lists all names")
        records.append(record)
    for record in records:
        folder = bundled_path(record) if is_bundled(record) else fetch_model(record, force=force)
        click.echo(clean(folder))
    return 0


@click.command(
    epilog=examples(
        "roberta-hub convert roberta.tiny tiny-for-transformers --to huggingface",
        "roberta-hub convert roberta.tiny tiny-for-fairseq --to fairseq",
    )
)
@click.argument("source", shell_complete=complete_model)
@click.argument("target", type=click.Path())
@click.option(
    "--to", "form", required=True, type=click.Choice(MODEL_FORMATS), help="The new format."
)
@click.option("--head", metavar="NAME", help="The head that a Hugging Face model gets, of several.")
@click.option(
    "--adapter/--no-adapter",
    default=None,
    help="Of a folder with a LoRA adapter: merge it into its base, or write the base alone.",
)
def convert(source: str, target: str, form: str, head: str | None, adapter: bool | None) -> int:
    """Read the model SOURCE, a name or a path of any format, and write it into the folder TARGET.

    fairseq gets model.pt and dict.txt, Hugging Face what transformers reads, roberta_hub
    safetensors that load at once. Vocabulary, heads and labels go along. TARGET must be new or
    empty.
    """
    from roberta_hub.arguments import path_of
    from roberta_hub.errors import InputError
    from roberta_hub.folder import Folder
    from roberta_hub.terminal import clean

    folder = path_of("TARGET", target)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        there = f"holds {Folder(folder).listing()}" if folder.is_dir() else "is a file"
        raise InputError(f"{target} {there}; give a folder that is new or empty")
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
@click.option("--json", "as_json", is_flag=True, help="A list of objects, one a file.")
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
@click.option("--verify", is_flag=True, help="Hash the cached files again.")
def doctor(verify: bool) -> int:
    """Look at versions, devices, cache and environment, run a self-test, and name the remedies.

    The exit status is 1 if there is a problem.
    """
    from roberta_hub.shell import doctor as work

    return work.doctor(verify=verify)


@click.command(
    epilog=examples(
        "roberta-hub pin",
        "roberta-hub pin > rows.txt",
    )
)
def pin() -> int:
    """For maintainers: write the catalogue's rows with the digests that this cache knows.

    The exit status is 1 if records contradict each other.
    """
    from roberta_hub.shell import pin as work

    return work.pin()

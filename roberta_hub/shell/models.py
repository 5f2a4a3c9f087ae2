"""Runs `roberta-hub models` and `download`: what can be loaded by name, and fetches it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

import click

from roberta_hub.checkpoint.fetch.catalogue import (
    bundled_path,
    config_of,
    find_record,
    is_bundled,
    suggestions,
)
from roberta_hub.checkpoint.fetch.download import (
    fetch_model,
    find_cached,
    find_in_fairseq_cache,
    find_in_torch_hub,
)
from roberta_hub.checkpoint.fetch.records import MODELS, Record
from roberta_hub.checkpoint.fetch.repositories import (
    DEFAULT_REVISION,
    Repository,
    find,
    pinned,
    pinned_repositories,
)
from roberta_hub.errors import MissingExtraError, UnknownNameError
from roberta_hub.folder import Folder
from roberta_hub.formats.adapters import lone_base
from roberta_hub.formats.repository import fetch_named, fetch_update, settings_of
from roberta_hub.formats.source import find_source, meaning
from roberta_hub.hub import RobertaModel
from roberta_hub.model.skeleton import shapes_only
from roberta_hub.terminal import clean

COLUMN_TITLES = ("name", "shape", "parameters", "licence", "cached")
Row = tuple[str, str, str, str, str]


def models(names: Sequence[str] = ()) -> int:
    """Print a table of models."""
    rows = [COLUMN_TITLES]
    if names:
        rows += [_row_of(name) for name in names]
    else:
        rows += map(_row, MODELS)
        try:
            rows += map(_pinned_row, pinned_repositories())
        except MissingExtraError as error:  # huggingface_hub knows where its cache is
            warnings.warn(str(error), stacklevel=1)
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMN_TITLES))]
    for name, shape, count, licence, cached in rows:
        print(
            f"{name:<{widths[0]}}  {shape:<{widths[1]}}  {count:>{widths[2]}}  "
            f"{licence:<{widths[3]}}  {cached}"
        )
    return 0


def _row_of(name: str) -> Row:
    """Describe the model of a name."""
    known = _known(name, None)
    if isinstance(known, Record):
        return _row(known)
    return _repository_row(pinned(known) or find(known))


def _known(name: str, revision: str | None) -> Record | str:
    """Tell which model a name means: one of the catalogue, or the full name of one elsewhere."""
    if (record := find_record(name)) is not None and revision is None:
        return record
    _, full = meaning(name, revision)
    if full is None:
        near = suggestions(name)
        hint = f"did you mean {' or '.join(near)}? " if near else ""
        raise UnknownNameError(f"no model {name!r}; {hint}roberta-hub models lists all names")
    return full


def _row(record: Record) -> Row:
    """Describe a model of the catalogue, and where its files are."""
    with shapes_only():
        model = RobertaModel(config_of(record))
        if record.pooler:
            model.add_pooler()
        if record.replaced_head:
            model.add_replaced_head()
        for head, labels in record.labels.items():
            model.register_classification_head(head, len(labels))
    places = {
        "yes": find_cached,
        "in fairseq's cache": find_in_fairseq_cache,
        "in torch.hub's cache": find_in_torch_hub,
    }
    cached = "in the package"
    if not is_bundled(record):
        cached = next((place for place, look in places.items() if look(record)), "no")
    # Some records add where the licence is stated.
    licence = record.licence.partition(";")[0].partition(" by ")[0]
    return record.name, _shape(model), _count(model), licence, cached


def _pinned_row(repository: Repository) -> Row:
    """Describe a model at Hugging Face that is pinned here, without asking anybody."""
    if all((repository.folder / name).exists() for name in repository.checked):
        return _repository_row(repository)
    cached = f"no, pinned at {repository.commit[:12]}"
    return repository.name, "?", "?", clean(repository.licence or "?"), cached


def _repository_row(repository: Repository) -> Row:
    """Describe a model at Hugging Face by its settings."""
    config, shape, count = settings_of(repository), "?", "?"
    if config is not None:
        with shapes_only():
            model = RobertaModel(config)
        # Without its heads, which its weights alone tell.
        shape, count = _shape(model), f"about {_count(model)}"
    cached = f"yes, at {repository.commit[:12]}" if pinned(repository.name) else "no"
    return repository.name, shape, count, clean(repository.licence or "?"), cached


def _shape(model: RobertaModel) -> str:
    return f"{model.config.num_layers} x {model.config.embed_dim}"


def _count(model: RobertaModel) -> str:
    return f"{sum(parameter.numel() for parameter in model.parameters()):,}"


def download(names: Sequence[str], *, force: bool, update: bool, revision: str | None) -> int:
    """Fetch models, and print their folders."""
    if update and revision is not None:
        raise click.UsageError("--update takes the newest commit, and --revision another: give one")
    wanted = DEFAULT_REVISION if update else revision
    for known in [_known(name, wanted) for name in names]:  # all before the first download
        if isinstance(known, Record):
            folder = bundled_path(known) if is_bundled(known) else fetch_model(known, force=force)
        elif wanted is not None:
            folder = _updated(known, wanted)
        else:
            folder = fetch_named(known, adapter=True, force=force)[1].path
        if (base := lone_base(Folder(folder))) is not None:
            find_source(
                base[0], None, ".", pretrained=True, force=force, progress=True, revision=base[1]
            )
        click.echo(clean(folder))
    return 0


def _updated(name: str, revision: str) -> Path:
    """Let a name mean another commit, and say which it was."""
    before = pinned(name)
    found = fetch_update(name, revision)
    if before is None or before.commit == found.commit:
        said = f"{found.label}"
    else:
        said = f"{found.label}, no longer at {before.commit}"
    click.echo(clean(said), err=True)
    return found.folder

"""Decides once which files a name or a path stands for.

name or path ─► Found(record, source, data)
path, checkpoint_file ─► Source(kind, directory, file) ─► its one reader
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from roberta_hub.checkpoint.fetch.archive import extract_archive
from roberta_hub.checkpoint.fetch.cache import MODEL
from roberta_hub.checkpoint.fetch.catalogue import embedded, find, ships, suggest
from roberta_hub.checkpoint.fetch.download import fetch_model
from roberta_hub.checkpoint.fetch.records import Record, available_models
from roberta_hub.checkpoint.foreign import instead
from roberta_hub.errors import CheckpointError, InputError, UnknownNameError
from roberta_hub.files import check_regular, listing, read_json
from roberta_hub.formats.sentence_transformers import MODULES, find_body
from roberta_hub.formats.shards import CONFIGS, INDEXES, WHOLE, config_file, lacking
from roberta_hub.other_names import task_advice

Kind = Literal["fairseq", "roberta_hub", "huggingface"]
RUNS = ("best", "last")
"""Folders in which a training run leaves models, the preferred one first."""
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
"""What a name at Hugging Face looks like: `owner/model`."""
BESIDE_CONFIG = (".safetensors", ".bin")
"""Endings of weights that need a config.json beside them: they say nothing of their model."""


@dataclass(frozen=True)
class Source:
    """What a path stands for: a reader, and the files that it reads.

    Attributes:
        kind: who wrote it, which decides the reader.
        directory: where configuration and vocabulary lie.
        file: the weights, named or found; None: the shards of a Hugging Face directory.
        sentences: the folder that says how sentence vectors are made; None: none says it.
    """

    kind: Kind
    directory: Path
    file: Path | None
    sentences: Path | None = None


@dataclass(frozen=True)
class Found:
    """What a name or a path stands for."""

    record: Record | None
    """The row of the catalogue; None for a path."""
    source: Source | None
    """The files that are read; None where random weights are wanted."""
    data: Path | None
    """The folder where dict.txt is looked for first; None where random weights are wanted."""


def find_source(
    name: str, file: str | None, data: str, *, pretrained: bool, force: bool, progress: bool
) -> Found:
    """Find the files that a name or a path stands for; fetch them if they are not here.

    Args:
        name: of a model, or a path.
        file: the caller's `checkpoint_file`.
        data: the caller's `data_name_or_path`.
        pretrained: False looks up the name and nothing else.
        force: fetch a named model again.
        progress: show a bar while downloading.
    """
    record = find(name)
    if record is not None and file not in (None, MODEL):
        raise CheckpointError(
            f"{record.name} has one checkpoint, and checkpoint_file={file[:200]!r} names another; "
            "leave it out, or give the directory that holds that file"
        )
    if record is not None and not pretrained:
        return Found(record, source=None, data=None)
    if record is None:
        source = resolve(_path(name, pretrained), file)
    elif ships(record):
        source = resolve(embedded(record))
    else:
        source = resolve(fetch_model(record, force=force, progress=progress))
    if not data.startswith(".") and not os.path.isdir(data):
        raise CheckpointError(
            f"data_name_or_path {data[:500]!r} is no directory; it should hold dict.txt"
        )
    return Found(record, source, data_directory(source.directory, data))


def _path(name: str, pretrained: bool) -> Path:
    path = Path(name)
    # os.path.exists also answers where a folder may not be looked into.
    if not name or not os.path.exists(path):
        near = suggest(name)
        hint = f"did you mean {' or '.join(near)}? " if near else ""
        if "://" in name:
            hint = "a URL is not fetched: download it, and pass the path of the file; "
        if name.startswith("~"):
            hint = "~ is the shell's word for your home: pass os.path.expanduser(...); "
        if advice := task_advice(name):
            hint = f"{advice}; "
        if _REPOSITORY.fullmatch(name):
            raise UnknownNameError(
                f"no path {name!r}, and no model of that name is known here; {hint}any other "
                f"repository of Hugging Face is fetched by its own command and loaded by its "
                f"path: pip install huggingface_hub; hf download {name} --local-dir FOLDER; "
                "load_model('FOLDER')"
            )
        raise UnknownNameError(
            f"no model and no path {name[:500]!r}; {hint}names are "
            f"{', '.join(available_models()[:5])} and more in available_models(); a path must "
            "exist and be readable"
        )
    if not pretrained:
        raise InputError(f"pretrained=False builds a model by name, and {name!r} is a path")
    return path


def data_directory(model_directory: Path, data: str) -> Path:
    """Return where dict.txt is looked for first, as in fairseq.

    A name that begins with "." is taken from the model's directory.
    """
    if data.startswith("."):
        return Path(os.path.normpath(model_directory / data))
    return Path(data)


def resolve(path: Path, checkpoint_file: str | None = None) -> Source:
    """Decide what a path stands for.

    A file stands for itself, whatever lies beside it. In a directory `checkpoint_file` is read.
    Without one it is fairseq's model.pt where that lies, else what config.json says, else the best
    model of a training run.

    Args:
        path: a file or a directory, which exists; an archive is unpacked into our cache.
        checkpoint_file: a file in the directory or archive; of several, joined by os.pathsep, the
            first.

    Raises:
        CheckpointError: there is no such file, or none that can be chosen; the message lists what
            is there.
    """
    if path.is_dir():
        return _in_directory(path, checkpoint_file)
    check_regular(path)
    if is_archive(path):
        folder = extract_archive(path, checkpoint_file or MODEL)
        return Source("fairseq", folder, folder / (checkpoint_file or MODEL).split(os.pathsep)[0])
    if checkpoint_file is not None and checkpoint_file != path.name:
        raise CheckpointError(
            f"{path} is a file, and checkpoint_file={checkpoint_file!r} names another; give the "
            f"directory {path.parent} with checkpoint_file, or the file alone"
        )
    return _of_file(path, path.parent)


def is_archive(path: str | os.PathLike[str]) -> bool:
    """Tell whether a name is that of an archive we unpack.

    Example:
        >>> is_archive("roberta.base.tar.gz"), is_archive("model.pt")
        (True, False)
    """
    return os.fspath(path).endswith((".tar.gz", ".tgz"))


def _in_directory(directory: Path, checkpoint_file: str | None) -> Source:
    modular = os.path.exists(directory / MODULES)
    if checkpoint_file is not None:
        named = _of_file(_named(directory, checkpoint_file), directory)
        whole = modular and named.kind == "huggingface"
        return replace(named, sentences=directory) if whole else named
    for name in (MODEL, *CONFIGS):
        check_regular(directory / name)
    if os.path.exists(directory / MODEL):
        return Source("fairseq", directory, directory / MODEL)
    if modular and not _is_ours(directory):
        return replace(_beside_config(find_body(directory)), sentences=directory)
    if os.path.exists(config_file(directory)):
        return _beside_config(directory)
    for name in RUNS:
        if any(os.path.exists(directory / name / file) for file in (MODEL, "config.json")):
            return _in_directory(directory / name, None)
    holds = f"Model file not found: {directory} holds neither {MODEL} nor config.json but"
    if other := instead(directory, os.listdir(directory)):
        raise CheckpointError(f"{holds} {other}")
    if not os.listdir(directory):
        raise CheckpointError(f"{holds} nothing; give the folder that save or a training wrote")
    raise CheckpointError(f"{holds} {listing(directory)}; name the file with checkpoint_file=")


def _named(directory: Path, checkpoint_file: str) -> Path:
    first = checkpoint_file.split(os.pathsep)[0]  # several, as fairseq writes them: a.pt:b.pt
    for name in (checkpoint_file, first):
        if name and os.path.exists(directory / name):
            return directory / name
    raise CheckpointError(
        f"Model file not found: {directory} holds no {checkpoint_file[:200]} but "
        f"{listing(directory)}; name one of these with checkpoint_file=, or leave it out"
    )


def _beside_config(directory: Path) -> Source:
    """Find the weights that belong to a config.json."""
    kind = _kind(directory)
    if kind == "roberta_hub":
        return Source(kind, directory, directory / WHOLE[0])
    for name in (*WHOLE, *INDEXES):
        check_regular(directory / name)
    for whole, index in zip(WHOLE, INDEXES, strict=True):
        if os.path.exists(directory / whole):
            return Source(kind, directory, directory / whole)
        if os.path.exists(directory / index):
            return Source(kind, directory, None)
    raise CheckpointError(lacking(directory))


def _of_file(file: Path, directory: Path) -> Source:
    """Take a file that was named: that very file is read."""
    check_regular(file)
    if file.suffix == ".json":
        raise CheckpointError(
            f"{file} describes a model and holds no weights; give its directory, {file.parent}"
        )
    if file.suffix not in BESIDE_CONFIG:
        return Source("fairseq", directory, file)
    check_regular(config_file(file.parent))
    if not os.path.exists(config_file(file.parent)):
        raise CheckpointError(
            f"{file} needs a config.json beside it, which says what its tensors are, and "
            f"{file.parent} holds {listing(file.parent)}. If fairseq wrote it, let its name end in "
            ".pt"
        )
    kind = _kind(file.parent)
    if kind == "roberta_hub" and file.suffix != ".safetensors":
        raise CheckpointError(
            f"{file} is no .safetensors file, and the config.json beside it is of roberta_hub's "
            "own format, which has no other; put it beside the config.json that it came with"
        )
    return Source(kind, file.parent, file)


def _is_ours(directory: Path) -> bool:
    path = directory / "config.json"
    return os.path.exists(path) and read_json(path).get("format") == "roberta_hub"


def _kind(directory: Path) -> Literal["roberta_hub", "huggingface"]:
    ours = read_json(config_file(directory)).get("format") == "roberta_hub"
    return "roberta_hub" if ours else "huggingface"

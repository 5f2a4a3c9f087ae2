"""Resolves a name or a path to the files of a checkpoint.

name or path ─► Found(record, source, data)
path, checkpoint_file ─► CheckpointSource(format, folder, file)
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path

from roberta_hub.arguments import brief
from roberta_hub.checkpoint.fetch.archive import extract_archive
from roberta_hub.checkpoint.fetch.cache import CHECKPOINT_FILE
from roberta_hub.checkpoint.fetch.catalogue import (
    bundled_path,
    find_record,
    is_bundled,
    suggestions,
)
from roberta_hub.checkpoint.fetch.download import fetch_model
from roberta_hub.checkpoint.fetch.owners import full_name
from roberta_hub.checkpoint.fetch.records import Record, available_models
from roberta_hub.checkpoint.fetch.repositories import Repository
from roberta_hub.checkpoint.foreign import ADAPTER, instead
from roberta_hub.errors import (
    CheckpointError,
    DownloadError,
    InputError,
    Remedy,
    UnknownNameError,
)
from roberta_hub.files import check_regular
from roberta_hub.folder import Folder
from roberta_hub.formats.adapters import (
    adapter_in,
    adapter_of,
    base_of,
    is_alone,
    no_base,
    undeclared,
)
from roberta_hub.formats.fairseq import FAIRSEQ
from roberta_hub.formats.format import CheckpointSource, folder_of
from roberta_hub.formats.huggingface import HUGGINGFACE
from roberta_hub.formats.ours import OURS, is_ours
from roberta_hub.formats.repository import fetch_named
from roberta_hub.formats.sentence_transformers import MODULES_FILE
from roberta_hub.formats.shards import CONFIGS
from roberta_hub.other_names import task_advice

FORMATS = (FAIRSEQ, OURS, HUGGINGFACE)
"""All formats. A folder with a model.pt is fairseq's, whatever else is there."""
RUN_FILES = ("best", "last")
"""Folders in which a training run leaves models, the preferred one first."""


@dataclass(frozen=True)
class FoundCheckpoint:
    """The result of resolving a name or a path."""

    record: Record | None
    """The row of the catalogue; None for a path."""
    source: CheckpointSource | None
    """The files that are read; None where random weights are wanted."""
    data: Folder | None
    """Where dict.txt is looked for first; None where random weights are wanted."""
    adapter: Folder | None = None
    """The folder of a LoRA adapter that is to be merged; None: none is."""
    repository: Repository | None = None
    """What the name means at Hugging Face; None for a path, and for a name of the catalogue."""
    renames: bool = False
    """Whether the name means this commit from now on, once the model is loaded."""


def find_source(
    name: str,
    file: str | None,
    data: str,
    *,
    pretrained: bool,
    force: bool,
    progress: bool,
    adapter: bool | None = None,
    revision: str | None = None,
) -> FoundCheckpoint:
    """Resolve a name or a path to its files, downloading them if needed."""
    record, full = meaning(name, revision)
    merged, repository = None, None
    if record is not None and file not in (None, CHECKPOINT_FILE):
        raise CheckpointError(
            f"{record.name} has one checkpoint, and checkpoint_file={file[:200]!r} names another; "
            "leave it out, or give the directory that holds that file"
        )
    if record is not None and not pretrained:
        return FoundCheckpoint(record, source=None, data=None)
    if record is None:
        if full is None:
            path: Path | Folder = _path(name, pretrained)
        elif pretrained:
            repository, path = fetch_named(
                full, revision, file, adapter, force=force, progress=progress
            )
        else:
            raise InputError(
                f"pretrained=False builds a model of available_models(), and {name!r} is none: its "
                "shape is known by its files at Hugging Face"
            )
        merged, source = _with_adapter(path, file, adapter)
        if source is None and merged is not None:
            record, source = _base(merged, path, force=force, progress=progress)
        assert source is not None
        if merged is not None:
            source = replace(source, adapter=adapter)
    elif is_bundled(record):
        source = resolve(bundled_path(record))
    else:
        source = resolve(fetch_model(record, force=force, progress=progress))
    if not data.startswith(".") and not os.path.isdir(data):
        raise _no_data(data, data)
    if adapter and merged is None:
        raise CheckpointError(f"{name} holds no {ADAPTER}, so there is no adapter to merge")
    return FoundCheckpoint(
        record,
        source,
        _data_folder(source.folder, data),
        merged if adapter else None,
        repository,
        renames=revision is not None,
    )


def meaning(name: str, revision: str | None = None) -> tuple[Record | None, str | None]:
    """Tell what a name means.

    A path that exists wins over every name but the catalogue's own, which are fairseq's.
    """
    record, exists = find_record(name), bool(name) and os.path.exists(name)
    if record is not None and exists and name in record.elsewhere:
        record = None
    if revision is None:
        return (record, None) if record is not None or exists else (None, full_name(name))
    if record is None:
        if exists:
            raise _no_revision(f"{name!r} is a path", revision)
        return None, full_name(name)
    owned = next((known for known in record.elsewhere if "/" in known), None)
    if name not in record.elsewhere or owned is None:
        has = f"; {owned} has some" if owned else ""
        raise _no_revision(f"{name} is a name of the catalogue{has}", revision)
    return None, owned


def _no_revision(what: str, revision: str) -> InputError:
    return InputError(
        f"revision={revision[:100]!r} is one of a model at Hugging Face, OWNER/NAME, and {what}"
    )


def _with_adapter(
    path: Path | Folder, file: str | None, adapter: bool | None
) -> tuple[Folder | None, CheckpointSource | None]:
    """Resolve a path, and find the adapter in its folder."""
    source: CheckpointSource | None = None
    try:
        source = resolve(path, file)
        found = adapter_of(source)
    except CheckpointError:
        found = adapter_in(path, file)  # alone, its folder holds no model
        if found is None or (adapter is not None and not is_alone(found)):
            raise
    if found is not None and adapter is None:
        raise undeclared(found)
    return found, None if found is not None and is_alone(found) else source


def _base(
    adapter: Folder, path: Path | Folder, *, force: bool, progress: bool
) -> tuple[Record | None, CheckpointSource]:
    """Return the base that an adapter without one names."""
    name, revision = base_of(adapter)
    if find_record(name) is None and not os.path.isdir(name) and full_name(name) is None:
        raise no_base(adapter, f"{brief(name)} is neither a folder here nor the name of a model")
    try:
        found = find_source(
            name, None, ".", pretrained=True, force=force, progress=progress, revision=revision
        )
    except (UnknownNameError, InputError) as error:
        raise no_base(adapter, f"{brief(name)}: {error}") from None
    except DownloadError as error:
        error.within(f"the base of the LoRA adapter in {adapter}")
        raise
    assert found.source is not None
    folder = path if isinstance(path, Folder) else Folder(path if path.is_dir() else path.parent)
    if folder.has(MODULES_FILE) and not is_ours(folder):
        return found.record, replace(found.source, sentences=folder)
    return found.record, found.source


_OTHERS = re.compile(
    "(?:distil)?gpt|(?:flan-|m|by)?t5|m?bart|llama|mistral|qwen|gemma|phi|bloom|opt-|(?:m)?deberta"
    "|modernbert|longformer|big_?bird|xlnet|xlm-(?:mlm|clm)|mpnet|clip|whisper",
    re.IGNORECASE,
)
"""Beginnings of names that are well known and of other architectures."""


def _path(name: str, pretrained: bool) -> Path:
    path = Path(name)
    # os.path.exists also answers where a folder may not be looked into.
    if not name or not os.path.exists(path):
        raise _unknown(name)
    if not pretrained:
        raise InputError(f"pretrained=False builds a model by name, and {name!r} is a path")
    return path


def _unknown(name: str) -> UnknownNameError:
    """Make the error for what is neither a name nor a path."""
    near = suggestions(name)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    what = f"no model and no path {name[:500]!r}"
    if advice := task_advice(name):
        return UnknownNameError(what, remedy=advice)
    if _OTHERS.match(name):
        return UnknownNameError(
            f"{what}; that is another architecture: this reads RoBERTa and its relatives (XLM-R, "
            "CamemBERT, BERT, ALBERT, ELECTRA, DistilBERT)"
        )
    if "://" in name:
        return UnknownNameError(
            f"{what}; a URL is not fetched: download it, and give the path of the file"
        )
    if name.startswith("~"):
        return UnknownNameError(
            f"{what}; ~ is the shell's word for your home",
            remedy=Remedy("pass os.path.expanduser(...)", "it stands outside of quotes"),
        )
    names = ", ".join(available_models()[:5])
    return UnknownNameError(
        f"{what}; {hint}a path must exist and be readable; names are {names}, and OWNER/NAME of a "
        "model at Hugging Face",
        remedy=Remedy("available_models() lists more", "`roberta-hub models` lists more"),
    )


def _data_folder(folder: Folder, data: str) -> Folder:
    """Return where dict.txt is looked for first, as in fairseq.

    A name that begins with "." is taken from the model's folder.
    """
    path = os.path.normpath(folder / data) if data.startswith(".") else str(Path(data))
    if path == os.path.normpath(folder):
        return folder
    if not os.path.isdir(path):
        raise _no_data(data, path)
    return Folder(path)


def _no_data(data: str, path: str) -> CheckpointError:
    there = "" if path == data else f", which is {path[:500]!r} from the model's folder,"
    return CheckpointError(
        f"data_name_or_path {data[:500]!r}{there} is no directory; it should hold dict.txt"
    )


def resolve(path: Path | Folder, checkpoint_file: str | None = None) -> CheckpointSource:
    """Resolve a path.

    A file is read itself, whatever else its folder has. In a directory `checkpoint_file` is read.
    Without one it is fairseq's model.pt if there is one, else what config.json says, else the best
    model of a training run.
    """
    if isinstance(path, Folder) or path.is_dir():
        folder = path if isinstance(path, Folder) else Folder(path)
        folder.check_links()
        if checkpoint_file is None:
            return _in_folder(folder)
        return _of_file(_named(folder, checkpoint_file), folder)
    check_regular(path)
    if is_archive(path):
        folder = Folder(extract_archive(path, checkpoint_file or CHECKPOINT_FILE))
        return _of_file(folder / (checkpoint_file or CHECKPOINT_FILE).split(os.pathsep)[0], folder)
    if checkpoint_file is not None and checkpoint_file != path.name:
        raise CheckpointError(
            f"{path} is a file, and checkpoint_file={checkpoint_file!r} names another; give the "
            f"directory {path.parent} with checkpoint_file, or the file alone"
        )
    # A file alone is the model alone, without sentence-transformers' pooling.
    return replace(_of_file(path, Folder(path.parent)), sentences=None)


def is_archive(path: str | os.PathLike[str]) -> bool:
    """Whether a name is that of an archive we unpack.

    Example:
        >>> is_archive("roberta.base.tar.gz"), is_archive("model.pt")
        (True, False)
    """
    return os.fspath(path).endswith((".tar.gz", ".tgz"))


def _in_folder(folder: Folder) -> CheckpointSource:
    for name in (CHECKPOINT_FILE, *CONFIGS):
        check_regular(folder / name)
    if (source := detect(folder)) is not None:
        return source
    for name in RUN_FILES:
        if any(folder.has(f"{name}/{file}") for file in (CHECKPOINT_FILE, "config.json")):
            return _in_folder(folder.folder(name))
    holds = f"Model file not found: {folder} holds neither {CHECKPOINT_FILE} nor config.json but"
    if folder.is_file("vocabulary.json"):
        raise CheckpointError(
            f"{holds} {folder.listing()}: a vocabulary without a model",
            remedy=Remedy(
                f"train one with it: data.vocabulary={folder}",
                f"`roberta-hub tokens -m {folder}` shows its pieces, and `roberta-hub train` makes "
                "a model for it",
            ),
        )
    if other := instead(folder):
        raise CheckpointError(f"{holds} {other}")
    if folder.listing() == "nothing":
        raise CheckpointError(f"{holds} nothing; give the folder that save or a training wrote")
    raise CheckpointError(
        f"{holds} {folder.listing()}",
        remedy=Remedy("name the file with checkpoint_file=", "give the path of the file itself"),
    )


def _named(folder: Folder, checkpoint_file: str) -> Path:
    first = checkpoint_file.split(os.pathsep)[0]  # several, as fairseq writes them: a.pt:b.pt
    for name in (checkpoint_file, first):
        if name and os.path.exists(folder / name):
            return folder / name
    raise CheckpointError(
        f"Model file not found: {folder} holds no {checkpoint_file[:200]} but "
        f"{folder.listing()}; name one of these with checkpoint_file=, or leave it out"
    )


def _of_file(file: Path, folder: Folder) -> CheckpointSource:
    """Take a file that was named: that very file is read."""
    check_regular(file)
    if file.suffix == ".json":
        raise CheckpointError(
            f"{file} describes a model and holds no weights; give its directory, {file.parent}"
        )
    source = detect(folder, file)
    if source is None:
        raise CheckpointError(
            f"{file} needs a config.json beside it, which says what its tensors are, and "
            f"{file.parent} holds {folder_of(file, folder).listing()}. If fairseq wrote it, let "
            "its name end in .pt"
        )
    return source


def detect(folder: Folder, file: Path | None = None) -> CheckpointSource | None:
    """Detect the format of a folder; None: it has no model."""
    found = (format.detect(folder, file) for format in FORMATS)
    return next((source for source in found if source is not None), None)


def formats_in(folder: Folder) -> set[str]:
    """Return the names of all formats of which a folder holds a model."""
    return {format.name for format in FORMATS if format.detect(folder, None) is not None}

"""Decides which files of a repository at Hugging Face our readers want, and refuses the rest.

config.json comes first, and says whether the model is of a family that we read; then the settings
and the tokenizer; the weights last, once nothing else speaks against them. No other file is
fetched: no code, and no pickle where there is safetensors.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roberta_hub.arguments import brief
from roberta_hub.checkpoint.fetch.cache import CHECKPOINT_FILE, DICTIONARY_FILES
from roberta_hub.checkpoint.fetch.repositories import (
    Repository,
    ask,
    fetch,
    find,
    naming,
    pin,
    pinned,
    refer,
)
from roberta_hub.checkpoint.foreign import ADAPTER, reader_of
from roberta_hub.checkpoint.names.families import FAMILIES, family_of
from roberta_hub.config import RobertaConfig
from roberta_hub.errors import CheckpointError, Remedy
from roberta_hub.folder import Folder
from roberta_hub.formats.adapters import undeclared
from roberta_hub.formats.fairseq import FAIRSEQ
from roberta_hub.formats.format import WEIGHTS_BESIDE_CONFIG
from roberta_hub.formats.huggingface import SETFIT_HEAD, advise_of_setfit
from roberta_hub.formats.huggingface_config import read_config
from roberta_hub.formats.ours import OURS, is_ours
from roberta_hub.formats.sentence_transformers import (
    BODY_FILES,
    MODEL_FILE,
    MODULES_FILE,
    part_folders,
    read_sentence_settings,
)
from roberta_hub.formats.shards import ADAPTER_WEIGHTS, CONFIGS, INDEXES, WHOLE, shards_of
from roberta_hub.formats.tokenizer_files import VOCABULARIES
from roberta_hub.text.added import TOKENIZER_CONFIG_FILE
from roberta_hub.text.unigram_files import UNIGRAM_FILES

SETTINGS = (*CONFIGS, *BODY_FILES, TOKENIZER_CONFIG_FILE, *VOCABULARIES, *UNIGRAM_FILES)
"""Files of a model's own folder, without its weights."""
REFUSED_VOCABULARY = "bpe.codes"
"""The tables of a tokenizer that is not read: without them its vocab.txt looks like BERT's."""
FAIRSEQ_FILES = (CHECKPOINT_FILE, *DICTIONARY_FILES, *FAIRSEQ.passing)
"""Files of a repository with fairseq's checkpoint."""
_LIBRARIES = {
    "model_index.json": "diffusers",
    "open_clip_config.json": "open_clip",
    "params.json": "the program of its publisher",
}
"""Files that tell whose a repository without a config.json is."""


def fetch_named(
    name: str,
    revision: str | None = None,
    file: str | None = None,
    adapter: bool | None = None,
    *,
    force: bool = False,
    progress: bool = True,
) -> tuple[Repository, Folder]:
    """Fetch a model at Hugging Face, at the commit that its name means on this machine.

    The first commit is pinned. Another one that is asked for is not: see `pin`.
    """

    def got_of(found: Repository) -> tuple[Repository, Folder]:
        got = gather(found, file, adapter, force=force, progress=progress)
        refer(found, revision)
        return got

    held = pinned(name)
    if held is None or not held.whole:
        with naming(name):
            held = pinned(name)  # another process may have been first
            if held is None or (not held.whole and revision in (None, held.commit)):
                got, folder = got_of(find(name, revision if held is None else held.commit))
                pin(got)
                return got, folder
    if revision not in (None, held.commit):
        return got_of(find(name, revision))
    got, folder = gather(held, file, adapter, force=force, progress=progress)
    if got.checked != held.checked:
        pin(got)
    return got, folder


def commit_of(name: str, revision: str | None = None) -> str:
    """Return the commit that a name and a revision mean on this machine now."""
    held = pinned(name) if revision is None else None
    return find(name, revision).commit if held is None else held.commit


def fetch_update(name: str, revision: str | None = None, *, progress: bool = True) -> Repository:
    """Fetch a model at Hugging Face as it is now, and let its name mean that commit."""
    with naming(name):
        got, _ = gather(ask(name, revision), adapter=True, progress=progress)
        refer(got, revision)
        pin(got)
    return got


def settings_of(repository: Repository) -> RobertaConfig | None:
    """Read the configuration of a repository, of which no weights are fetched."""
    got = _Gathering(repository, False, False, set())
    top = got.take([*CONFIGS, MODULES_FILE])
    if is_ours(top) or not any(map(top.has, (*CONFIGS, MODULES_FILE))):
        return None
    return _check_family(got, _body(top)[0])


@dataclass
class _Gathering:
    """A repository of which files are fetched step by step."""

    repository: Repository
    force: bool
    progress: bool
    names: set[str]
    """Files that are in the cache."""

    def take(self, wanted: Iterable[str]) -> Folder:
        """Fetch those files that the repository has; return the folder with all that are there."""
        new = [
            n for n in dict.fromkeys(wanted) if n in self.repository.files and n not in self.names
        ]
        if new:
            self.repository = fetch(self.repository, new, force=self.force, progress=self.progress)
            self.names |= {*new}
        return Folder(self.repository.folder, only=frozenset(self.names))


def gather(
    repository: Repository,
    file: str | None = None,
    adapter: bool | None = None,
    *,
    force: bool = False,
    progress: bool = True,
) -> tuple[Repository, Folder]:
    """Fetch what our readers want of a repository."""
    got = _Gathering(repository, force, progress, set())
    there = repository.files.keys()
    top = got.take([*CONFIGS, MODULES_FILE, ADAPTER])
    if is_ours(top):
        top = got.take([WHOLE[0], *OURS.passing])
        return got.repository, top
    if not any(name in there for name in (*CONFIGS, MODULES_FILE)):
        return _without_config(got, file, adapter)
    body, parts = _body(top)
    _check_family(got, body)
    got.take(f"{body}{name}" for name in (*SETTINGS, REFUSED_VOCABULARY, ADAPTER))
    got.take([MODEL_FILE, *BODY_FILES])
    top = got.take(f"{part}/config.json" for part in parts)
    if top.has(MODULES_FILE):
        read_sentence_settings(top)
    _take_adapter(got, body, adapter)
    got.take(_weights(got, body, file))
    for part in parts:
        got.take(_first(there, (f"{part}/{name}" for name in WHOLE)))
    if SETFIT_HEAD in there:
        advise_of_setfit(f"{repository.label}: {SETFIT_HEAD}")
    return got.repository, got.take(())


def _body(top: Folder) -> tuple[str, list[str]]:
    """Return the folder of the model itself, "" or with a slash, and those of its other parts."""
    first, *rest = part_folders(top) if top.has(MODULES_FILE) else [""]
    return (f"{first}/" if first else ""), [part for part in rest if part]


def _check_family(got: _Gathering, body: str) -> RobertaConfig | None:
    """Read config.json; None: it does not say the family, which the tensors' names do."""
    folder = got.take(f"{body}{name}" for name in CONFIGS).folder(body)
    name = next(filter(folder.has, CONFIGS), None)
    if name is None:
        raise _unread(got.repository, f"it has no {body}{CONFIGS[0]}")
    hf = folder.json(name)
    kind = hf.get("model_type")
    if kind is None and _of_no_family(hf.get("architectures")):
        kind = hf["architectures"][0]
    elif kind is None:
        return None  # as in 2019
    if kind not in FAMILIES:
        raise _unread(
            got.repository,
            f"its {name} says {brief(kind)}, and this package reads {', '.join(FAMILIES)}",
            _remedy(got.repository.name, hf),
        )
    return read_config(hf, family_of(hf, got.repository.label), folder)


def _of_no_family(classes: object) -> bool:
    """Whether an old config.json without a model_type names a class that is none of ours."""
    first = classes[0] if isinstance(classes, list) and classes else None
    prefixes = tuple(table.class_prefix for table in FAMILIES.values())
    return isinstance(first, str) and not first.startswith(prefixes)


def _remedy(name: str, hf: dict[str, Any]) -> Remedy:
    """Say what reads a model of another family."""
    if isinstance(hf.get("auto_map"), dict):
        return Remedy(
            f"transformers reads it with trust_remote_code=True, which runs the code that "
            f"{name} brings; nothing here does"
        )
    return Remedy(f"transformers reads it: AutoModel.from_pretrained({name!r})")


def _without_config(
    got: _Gathering, file: str | None, adapter: bool | None
) -> tuple[Repository, Folder]:
    """Fetch a repository that has fairseq's checkpoint, or an adapter alone."""
    there = got.repository.files.keys()
    if CHECKPOINT_FILE in there:
        if file not in (None, CHECKPOINT_FILE):
            raise _no_file(got.repository, str(file))
        got.take(FAIRSEQ_FILES)
    elif any(name in there for name in (ADAPTER, *ADAPTER_WEIGHTS)):
        got.take([TOKENIZER_CONFIG_FILE, *VOCABULARIES])
        _take_adapter(got, "", adapter)
    else:
        raise _unread(got.repository, "it has no config.json")
    return got.repository, got.take(())


def _take_adapter(got: _Gathering, body: str, adapter: bool | None) -> None:
    """Fetch a LoRA adapter where it is wanted; refuse one of which nothing is said."""
    there = got.repository.files.keys()
    for place in dict.fromkeys(("", body)):
        if not any(f"{place}{name}" in there for name in (ADAPTER, *ADAPTER_WEIGHTS)):
            continue
        if adapter is None:
            raise undeclared(got.take([f"{place}{ADAPTER}"]).folder(place))
        if adapter:
            got.take(_first(there, (f"{place}{name}" for name in ADAPTER_WEIGHTS)))


def _weights(got: _Gathering, body: str, file: str | None) -> list[str]:
    """Name the files of weights: those of the caller, safetensors, or else pickles."""
    there = got.repository.files.keys()
    if file is not None:
        if file not in there or Path(file).suffix not in WEIGHTS_BESIDE_CONFIG:
            raise _no_file(got.repository, file)
        return [file]
    for whole, index in zip(WHOLE, INDEXES, strict=True):
        if f"{body}{whole}" in there:
            return [f"{body}{whole}"]
        if f"{body}{index}" in there:
            folder = got.take([f"{body}{index}"]).folder(body)
            shards = [f"{body}{shard}" for shard in shards_of(folder, index)]
            if lost := [shard for shard in shards if shard not in there]:
                raise _unread(got.repository, f"its {index} names {lost[0]}, which is not there")
            return shards
    if any(f"{body}{name}" in there for name in ADAPTER_WEIGHTS):
        return []  # an adapter, with a config.json for its labels
    raise _unread(got.repository, f"it has no weights that are read ({', '.join(WHOLE)})")


def _first(there: Collection[str], names: Iterable[str]) -> list[str]:
    return [name for name in names if name in there][:1]


def _no_file(repository: Repository, file: str) -> CheckpointError:
    weights = [n for n in repository.files if Path(n).suffix in (*WEIGHTS_BESIDE_CONFIG, ".pt")]
    return CheckpointError(
        f"{repository.label} has no weights {brief(file)} that are read; it has "
        f"{', '.join(sorted(weights)[:8]) or 'none'}"
    )


def _unread(repository: Repository, why: str, remedy: Remedy | None = None) -> CheckpointError:
    """Make the error for a repository that is not read, with what reads it."""
    if remedy is None:
        reader = _reader(repository)
        remedy = Remedy(f"{reader} reads it") if reader else None
    return CheckpointError(
        f"{repository.label} is no model that is read here: {why}; none of its weights were "
        "fetched",
        remedy=remedy,
    )


def _reader(repository: Repository) -> str | None:
    """Say what reads a repository, by its files or its page; None: nothing that we know."""
    for name in sorted(repository.files):
        if reader := reader_of(name) or _LIBRARIES.get(name):
            return reader
    return repository.library

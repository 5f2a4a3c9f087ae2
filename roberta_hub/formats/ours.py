"""Our own format: model.safetensors, which is mapped, and config.json.

There is no pickle in it. config.json is written last, so a directory that has it is complete.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch

from roberta_hub.arguments import brief
from roberta_hub.checkpoint.checkpoint import (
    VERSION_KEY,
    Checkpoint,
    check_counts,
    distinct_labels,
    plain_inputs,
    read_dictionary,
)
from roberta_hub.checkpoint.int8_rows import read_int8_rows, store_in_int8
from roberta_hub.checkpoint.safetensors import read_safetensors, write_safetensors
from roberta_hub.checkpoint.tensors import TensorOrigin, copy_to_memory, is_finite, stays_finite
from roberta_hub.config import RobertaConfig
from roberta_hub.errors import CheckpointError
from roberta_hub.files import write_files, write_json
from roberta_hub.folder import Folder
from roberta_hub.formats.format import CheckpointSource, Format, folder_of
from roberta_hub.formats.overrides import override
from roberta_hub.formats.tokenizer_files import (
    VOCABULARIES,
    lays_out_as_roberta,
    tokenizer_files,
)
from roberta_hub.formats.tokenizers import (
    TokenizerParts,
    TokenizerRequest,
    complete,
    fit_segments,
    read_user_tokenizer,
)
from roberta_hub.settings import (
    SentenceSettings,
    ZeroShotSettings,
    column,
    head_of,
)
from roberta_hub.text.added import TOKENIZER_CONFIG_FILE
from roberta_hub.text.bpe import GPT2BPE
from roberta_hub.text.dictionary import Dictionary
from roberta_hub.text.learnt import pack, unpack
from roberta_hub.text.tokenizer import Tokenizer

FORMAT_VERSION = 1
POOLED_VERSION = 2
"""Version of a model with a head that pools over tokens or labels parts of words, or with settings
of sentence vectors that 0.2.0 had not: before 0.3.0 it would answer otherwise."""
INT8_VERSION = 3
"""Version of a model with int8 rows, whose bytes an older package must not read as weights."""
_WEIGHTS, _CONFIG = "model.safetensors", "config.json"


def read_store(
    folder: Folder, dtype: torch.dtype | None = None, *, file: Path | None = None
) -> Checkpoint:
    """Read a directory that `write_store` wrote.

    Weights that are wanted in the file's dtype stay mapped: we replace our files and never rewrite
    them, so what is mapped cannot change. Matrices in int8 rows become floating-point ones.
    """
    path, about = folder / _CONFIG, folder.json(_CONFIG)
    version = about.get("version")
    if version not in (FORMAT_VERSION, POOLED_VERSION, INT8_VERSION):
        raise CheckpointError(
            f"{path}: format version {brief(version)}, this package reads {FORMAT_VERSION} to "
            f"{INT8_VERSION}; was it written by a newer roberta_hub? Install that one"
        )
    ours = file is None or file == folder / _WEIGHTS
    weights = read_safetensors(folder / _WEIGHTS if file is None else file)
    origin: TensorOrigin = "our file" if ours else "file"
    # Before they are widened: half the memory, and of int8 rows the scales alone.
    finite = stays_finite(weights, dtype) and all(map(is_finite, weights.values()))
    rows = (
        read_int8_rows(weights, dtype, str(folder if ours else file), origin)
        if version == INT8_VERSION
        else {}
    )
    weights = copy_to_memory(weights, dtype, origin) | rows
    weights[VERSION_KEY] = torch.tensor([3.0])
    try:
        model = dict(about["model"].items())
        kept = model.pop("layers_to_keep", None)  # 0.1.0 wrote it, always null
        if kept is not None and not isinstance(kept, list):
            raise TypeError(
                f"layers_to_keep is {brief(kept)}: not iterable, must be a list or null"
            )
        labels = {str(head): tuple(map(str, given)) for head, given in about["labels"].items()}
        inputs = {**about.get("inputs", {})}  # which 0.1.0 did not write
        if plain_inputs(inputs) != inputs:
            raise ValueError(f"inputs is {brief(inputs)}, each must be 'one' or 'pair'")
        settings = {
            str(head): head_of(str(head), given)
            for head, given in about.get("heads", {}).items()  # which 0.2.0 did not write
        }
        own_head = about.get("own_head")
        if own_head is not None and not isinstance(own_head, str):
            raise TypeError(f"own_head is {brief(own_head)}, must be a name or null")
        task, init_token = str(about["task"]), about.get("init_token")
        family = about.get("family", "roberta")  # which 0.1.0 did not write
        if not isinstance(family, str):
            raise TypeError(f"family is {brief(family)}, must be a name")
        config = RobertaConfig(**model)
        sentence = about.get("sentence")
        sentence = None if sentence is None else SentenceSettings(**sentence)
        zero_shot = about.get("zero_shot")
        zero_shot = None if zero_shot is None else ZeroShotSettings(**zero_shot)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise CheckpointError(
            f"{path}: not a configuration that `save` wrote ({type(error).__name__}: {error}); "
            "restore the file"
        ) from None
    checkpoint = Checkpoint(
        config=config,
        weights=weights,
        source=str(folder if ours else file),
        dictionary=read_dictionary(folder, "dict.txt"),
        label_dictionary=read_dictionary(folder, "label_dict.txt"),
        labels={head: distinct_labels(given, head, str(folder)) for head, given in labels.items()},
        default_head=own_head,
        inputs=inputs,
        known_heads=settings,
        task=task,
        finite=finite,
        init_token=init_token if isinstance(init_token, int) else None,
        family=family,
        sentence=sentence,
        zero_shot=zero_shot,
        learnt=unpack(about.get("learnt")),
    )
    check_counts(checkpoint, path)
    return checkpoint


def write_store(checkpoint: Checkpoint, directory: Path, *, in_int8: Iterable[str] = ()) -> None:
    """Write model.safetensors, config.json, and dict.txt where the vocabulary is not RoBERTa's."""
    directory.mkdir(parents=True, exist_ok=True)
    weights = {k: v for k, v in checkpoint.weights.items() if k != VERSION_KEY}
    small = [*in_int8]
    weights = store_in_int8(weights, small)
    write_safetensors(directory / _WEIGHTS, weights, {"format": "pt"})
    files = {"dict.txt": checkpoint.dictionary, "label_dict.txt": checkpoint.label_dictionary}
    write_files(directory, {name: data for name, data in files.items() if data is not None})
    known = checkpoint.known_heads
    about = {
        "format": OURS.name,
        "version": FORMAT_VERSION,
        "model": checkpoint.config.to_dict(),
        "labels": {head: list(labels) for head, labels in column(known, "labels").items()},
        "own_head": checkpoint.default_head,
        "inputs": column(known, "inputs"),
        "task": checkpoint.task,
        "init_token": checkpoint.init_token,
        "family": checkpoint.family,
    }
    settings = {head: own.to_dict() for head, own in sorted(known.items())}
    if any(settings.values()):
        about["heads"] = {head: values for head, values in settings.items() if values}
    if any({"pooling", "normalize", "words"} & values.keys() for values in settings.values()):
        about["version"] = POOLED_VERSION
    if checkpoint.sentence is not None:
        about["sentence"] = checkpoint.sentence.to_dict()
        if checkpoint.sentence.is_later:
            about["version"] = POOLED_VERSION
    if small:
        about["version"] = INT8_VERSION
    if checkpoint.zero_shot is not None:
        about["zero_shot"] = checkpoint.zero_shot.to_dict()
    if checkpoint.learnt:
        about["learnt"] = pack(checkpoint.learnt)
    write_json(directory / _CONFIG, about)


def is_ours(folder: Folder) -> bool:
    """Whether a folder holds a model of our own format, which its config.json says."""
    return folder.has(_CONFIG) and folder.json(_CONFIG).get("format") == OURS.name


def _detect(folder: Folder, file: Path | None) -> CheckpointSource | None:
    """See `Format.detect`."""
    beside = folder_of(file, folder)
    if not is_ours(beside):
        return None
    if file is not None and file.suffix != ".safetensors":
        raise CheckpointError(
            f"{file} is no .safetensors file, and the config.json next to it is of roberta_hub's "
            "own format, which has no other; put it next to the config.json that it came with"
        )
    return CheckpointSource(format=OURS, folder=beside, file=file)


def _read(
    source: CheckpointSource,
    overrides: Mapping[str, object],
    dtype: torch.dtype | None,
    *,
    converted: bool,
) -> Checkpoint:
    """See `Format.read`; there is no pickle to convert."""
    checkpoint = read_store(source.folder, dtype, file=source.file)
    if overrides:
        override(checkpoint, overrides)
    return checkpoint


def _read_tokenizer(
    source: CheckpointSource, checkpoint: Checkpoint, wanted: TokenizerRequest
) -> TokenizerParts:
    """See `Format.read_tokenizer`: a folder without vocabulary files has RoBERTa's."""
    brought = read_user_tokenizer(source.folder, checkpoint, wanted, whole=True)
    parts = complete(brought, checkpoint, wanted, wanted.keywords)
    fit_segments(checkpoint, parts.layout, has_segments=True)
    return parts


def _write(checkpoint: Checkpoint, tokenizer: Tokenizer, directory: Path, head: str | None) -> None:
    """See `Format.write`; every head is kept."""
    if tokenizer.dictionary.symbols == Dictionary.roberta().symbols:
        checkpoint = dataclasses.replace(checkpoint, dictionary=None)  # the package has it
    write_store(checkpoint, directory)
    # A dict.txt alone has a symbol for every row, and means RoBERTa's BPE and way of joining.
    enough = (
        tokenizer.engine is GPT2BPE.shipped()
        and checkpoint.config.vocab_size <= len(tokenizer)
        and lays_out_as_roberta(tokenizer)
    )
    if not enough:
        write_files(directory, tokenizer_files(tokenizer, checkpoint.config.max_positions))


OURS = Format(
    name="roberta_hub",
    detect=_detect,
    read=_read,
    read_tokenizer=_read_tokenizer,
    write=_write,
    passing=("dict.txt", "label_dict.txt", TOKENIZER_CONFIG_FILE, *VOCABULARIES),
)
"""What `save` writes unless told otherwise: whatever a model has, it holds."""

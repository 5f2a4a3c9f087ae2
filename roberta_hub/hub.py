"""A name or a path -> a model in the user's hand. This is where all rooms are wired together."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from roberta_hub.arguments import brief, path_text, switch
from roberta_hub.building import build, dictionary_of
from roberta_hub.checkpoint.checkpoint import Checkpoint
from roberta_hub.checkpoint.fetch.cache import MODEL
from roberta_hub.checkpoint.fetch.catalogue import (
    Record,
    available_models,
    check_shape,
    embedded,
    find,
    name_heads,
    suggest,
)
from roberta_hub.checkpoint.fetch.download import fetch_model
from roberta_hub.checkpoint.files import check_regular
from roberta_hub.checkpoint.formats.fairseq import data_directory, read_dictionaries, read_fairseq
from roberta_hub.checkpoint.formats.fairseq_arguments import check_overrides, override_config
from roberta_hub.checkpoint.formats.huggingface import read_huggingface
from roberta_hub.checkpoint.overrides import override
from roberta_hub.checkpoint.source import Source, resolve
from roberta_hub.checkpoint.store import read_store
from roberta_hub.checkpoint.tensors import check_finite
from roberta_hub.errors import (
    CheckpointError,
    InputError,
    UnknownNameError,
)
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.model import roberta
from roberta_hub.model.placement import as_device, as_dtype
from roberta_hub.text.bpe import GPT2BPE
from roberta_hub.text.dictionary import Dictionary
from roberta_hub.text.huggingface import read_tokenizer
from roberta_hub.text.table_fit import check_table
from roberta_hub.text.task import Task

__all__ = ["RobertaModel", "available_models", "load_model"]

_MEASURED = ("sentence_prediction", "sentence_ranking")
"""fairseq's tasks that state how long an input may be."""
Vocabulary = tuple["GPT2BPE | None", "Dictionary | None"]
"""A BPE and a dictionary of a model's own; None: RoBERTa's, or what the checkpoint's dict.txt
says."""


def load_model(
    name_or_path: str | os.PathLike[str] = "roberta.tiny",
    *,
    pretrained: bool = True,
    device: str | torch.device | None = None,
    dtype: torch.dtype | str | None = None,
    checkpoint_file: str | None = None,
    data_name_or_path: str = ".",
    bpe: str = "gpt2",
    strict: bool = True,
    allow_nonfinite: bool = False,
    force_download: bool = False,
    progress: bool = True,
    converted: bool = True,
    **overrides: object,
) -> RobertaHubInterface:
    """Load a model by name, or from a file, directory or archive of any of the formats we read.

    As in fairseq the model comes back in train mode: call `.eval()` before `predict`.

    Args:
        name_or_path: a name of `available_models()`; a fairseq directory, model.pt or .tar.gz; a
            Hugging Face directory; a directory that `save` or a training run wrote; or the file of
            weights in one of these, and then that very file is read.
        pretrained: False builds the named architecture with random weights, without any network.
        device: where the model goes: "cuda", "cuda:1", "mps"; "auto": CUDA where there is some,
            else the CPU; None: the CPU.
        dtype: of the weights; None widens half precision to float32.
        checkpoint_file: the file of weights in a directory; of several, joined by os.pathsep, the
            first is used. None: fairseq's model.pt where it lies, else what is there; of a training
            run its best model, else its last.
        data_name_or_path: where dict.txt lies; beginning with "." from the model's directory. A
            model that brings its own vocabulary takes none.
        bpe: "gpt2", RoBERTa's.
        strict: False ignores tensors that have no place in the model, with a warning.
        allow_nonfinite: True accepts NaN and infinity in the weights.
        force_download: fetch a named model again.
        progress: show a bar while downloading.
        converted: of a pickle, keep a safetensors copy in the cache (`cache_root()/twins`) and map
            that the next time; False reads the file itself and writes nothing.
        overrides: fairseq's arguments, which replace those of the checkpoint. Any checkpoint takes
            `dropout`, `attention_dropout`, `activation_dropout`, `pooler_dropout`,
            `encoder_layerdrop`, `encoder_layers_to_keep`, and `gpt2_encoder_json` with
            `gpt2_vocab_bpe` (your own BPE); fairseq's own take the others too. `user_dir` is
            accepted with a warning.

    Raises:
        UnknownNameError: no such model, or no such argument; the message lists near ones.
        InputError: a device, dtype or argument that cannot be had here.
        CheckpointError: a file that is missing, damaged, unsafe or of another shape.
        DownloadError: a name whose archive cannot be had.

    Example:
        >>> roberta = load_model("roberta.base", pretrained=False)
        >>> roberta.encode("Hello world!").tolist()
        [0, 31414, 232, 328, 2]
    """
    if "twin" in overrides:
        warnings.warn("twin= is converted= now", FutureWarning, stacklevel=2)
        converted = switch("twin", overrides.pop("twin"))
    bpe_tables = _bpe_tables(bpe, overrides)
    pretrained, strict = switch("pretrained", pretrained), switch("strict", strict)
    allow_nonfinite = switch("allow_nonfinite", allow_nonfinite)
    force_download = switch("force_download", force_download)
    progress, converted = switch("progress", progress), switch("converted", converted)
    wanted, place = as_dtype(dtype), as_device(device)
    name = path_text("name_or_path", name_or_path)
    file = None if checkpoint_file is None else path_text("checkpoint_file", checkpoint_file)
    data = path_text("data_name_or_path", overrides.pop("data", data_name_or_path))
    check_overrides(overrides)
    record = find(name)
    if record is not None and file not in (None, MODEL):
        raise CheckpointError(
            f"{record.name} has one checkpoint, and checkpoint_file={file[:200]!r} names another; "
            "leave it out, or give the directory that holds that file"
        )
    if record is not None and not pretrained:
        checkpoint, vocabulary = _random(record, overrides), (bpe_tables, None)
        interface = _assemble(checkpoint, vocabulary, place, strict=strict)
        return interface.to(wanted) if wanted else interface
    if record is None:
        source = resolve(_path(name, pretrained), file)
    elif not record.url:
        source = resolve(embedded(record))
    else:
        source = resolve(fetch_model(record, force=force_download, progress=progress))
    checkpoint, (found_bpe, dictionary) = _read(
        source, data, overrides, wanted, converted=converted
    )
    if record is not None:
        check_shape(record, checkpoint, overrides, source.directory)
        name_heads(record, checkpoint)
        checkpoint.source = f"{record.name} ({checkpoint.source})"
    if not allow_nonfinite and not checkpoint.finite:
        check_finite(checkpoint.weights, checkpoint.source)
    return _assemble(checkpoint, (bpe_tables or found_bpe, dictionary), place, strict=strict)


class RobertaModel(roberta.RobertaModel):
    """RoBERTa, as `roberta.model` holds it; fairseq's class method for loading lives here."""

    @classmethod
    def from_pretrained(
        cls,
        model_name_or_path: str | os.PathLike[str],
        checkpoint_file: str | None = None,
        data_name_or_path: str = ".",
        bpe: str = "gpt2",
        **overrides: Any,
    ) -> RobertaHubInterface:
        """Load a model as fairseq's `RobertaModel.from_pretrained` does; see `load_model`.

        Args:
            model_name_or_path: a catalogue name, a directory, a model.pt or a .tar.gz.
            checkpoint_file: in that directory; None: model.pt where it lies, else what is there.
            data_name_or_path: where dict.txt lies; beginning with "." from the model's directory.
            bpe: "gpt2", RoBERTa's.
            overrides: fairseq's arguments, and the keywords of `load_model`.
        """
        return load_model(
            model_name_or_path,
            checkpoint_file=checkpoint_file,
            data_name_or_path=data_name_or_path,
            bpe=bpe,
            **overrides,
        )


def _path(name: str, pretrained: bool) -> Path:
    path = Path(name)
    # os.path.exists also answers where a folder may not be looked into.
    if not name or not os.path.exists(path):
        near = suggest(name)
        hint = f"did you mean {' or '.join(near)}? " if near else ""
        raise UnknownNameError(
            f"no model and no path {name[:500]!r}; {hint}names are "
            f"{', '.join(available_models())}; a path must exist and be readable"
        )
    if not pretrained:
        raise InputError(f"pretrained=False builds a model by name, and {name!r} is a path")
    return path


def _read(
    source: Source,
    data: str,
    overrides: Mapping[str, object],
    dtype: torch.dtype | None,
    *,
    converted: bool,
) -> tuple[Checkpoint, Vocabulary]:
    """Read what was found, and the vocabulary that it brings along beside the dictionary."""
    directory, file = source.directory, source.file
    if not data.startswith(".") and not os.path.isdir(data):
        raise CheckpointError(
            f"data_name_or_path {data[:500]!r} is no directory; it should hold dict.txt"
        )
    if source.kind == "fairseq":
        assert file is not None
        tables = (directory / "encoder.json", directory / "vocab.bpe")
        own = GPT2BPE.from_files(*tables) if all(table.is_file() for table in tables) else None
        checkpoint = read_fairseq(file, overrides, dtype, converted=converted)
        checkpoint.dictionary, checkpoint.label_dictionary = read_dictionaries(directory, data)
        return checkpoint, (own, None)
    if source.kind == "roberta_hub":
        checkpoint = read_store(directory, dtype, file=file)
    else:
        checkpoint = read_huggingface(directory, dtype, file=file, converted=converted)
    override(checkpoint, overrides)
    vocabulary = read_tokenizer(directory)
    if data_directory(directory, data) != data_directory(directory, "."):
        if source.kind == "roberta_hub" or vocabulary is not None:
            raise InputError(
                f"data_name_or_path={data[:500]!r}: {directory} brings its own vocabulary, and "
                "another one would be wrong; leave data_name_or_path out"
            )
        checkpoint.dictionary, checkpoint.label_dictionary = read_dictionaries(directory, data)
    return checkpoint, vocabulary or (None, None)


def _random(record: Record, overrides: Mapping[str, object]) -> Checkpoint:
    """The named architecture as a checkpoint without weights."""
    config = override_config(record.config, overrides)
    return Checkpoint(
        config=config,
        weights={},
        source=f"{record.name}, random weights",
        labels={head: tuple(names) for head, names in record.heads.items()},
        own_head=record.own_head,
        inputs=dict(record.inputs),
        task=record.task,
    )


def _assemble(
    checkpoint: Checkpoint,
    vocabulary: Vocabulary,
    device: torch.device | None,
    *,
    strict: bool,
) -> RobertaHubInterface:
    """Dictionary, task and model of a checkpoint, in the interface."""
    bpe, dictionary = vocabulary
    dictionary = dictionary or dictionary_of(checkpoint)
    check_table(
        dictionary,
        rows=checkpoint.config.vocab_size,
        padding_idx=checkpoint.config.padding_idx,
        source=checkpoint.source,
    )
    labels = checkpoint.label_dictionary
    task = Task(
        source_dictionary=dictionary,
        label_dictionary=Dictionary.parse(labels, "label/dict.txt", add_mask=True)
        if labels is not None
        else None,
        name=checkpoint.task,
        init_token=checkpoint.init_token,
        longest=checkpoint.config.max_positions if checkpoint.task in _MEASURED else None,
    )
    model = build_model(checkpoint, strict=strict)
    interface = RobertaHubInterface(
        model.config,
        task,
        model,
        bpe=bpe,
        labels=checkpoint.labels,
        own_head=checkpoint.own_head,
        inputs=checkpoint.inputs,
        source=checkpoint.source,
    )
    return interface if device is None else interface.to(device)


def build_model(checkpoint: Checkpoint, *, strict: bool = True) -> RobertaModel:
    """The model of a checkpoint, see `building.build`."""
    return build(checkpoint, RobertaModel, strict=strict)


def _bpe_tables(bpe: str, overrides: dict[str, object]) -> GPT2BPE | None:
    """The caller's own BPE files, taken out of the overrides; None: RoBERTa's."""
    if not isinstance(bpe, str) or bpe != "gpt2":
        raise InputError(
            f"bpe is {brief(bpe)}; RoBERTa's is 'gpt2'. XLM-R, CamemBERT and GottBERT are not "
            "supported yet"
        )
    if overrides.pop("user_dir", None) is not None:
        warnings.warn("user_dir is not needed: the wsc task is built in", stacklevel=4)
    encoder, merges = (
        overrides.pop("gpt2_encoder_json", None),
        overrides.pop("gpt2_vocab_bpe", None),
    )
    if encoder is None and merges is None:
        return None
    if encoder is None or merges is None:
        raise InputError("gpt2_encoder_json and gpt2_vocab_bpe belong together; give both paths")
    paths = path_text("gpt2_encoder_json", encoder), path_text("gpt2_vocab_bpe", merges)
    for path in paths:
        check_regular(Path(path))
    return GPT2BPE.from_files(*paths)

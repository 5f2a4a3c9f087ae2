"""Loads a model in four steps: find the source, read the checkpoint and the tokenizer, assemble."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from roberta_hub.arguments import brief, path_text, switch
from roberta_hub.building import build
from roberta_hub.checkpoint.checkpoint import Checkpoint
from roberta_hub.checkpoint.fetch.catalogue import check_shape, config_of, name_heads
from roberta_hub.checkpoint.fetch.records import Record, available_models
from roberta_hub.checkpoint.formats.fairseq import read_dictionaries, read_fairseq
from roberta_hub.checkpoint.formats.fairseq_arguments import check_overrides, override_config
from roberta_hub.checkpoint.formats.huggingface import read_huggingface
from roberta_hub.checkpoint.formats.sentence_transformers import read_sentence_settings
from roberta_hub.checkpoint.overrides import override
from roberta_hub.checkpoint.source import Found, data_directory, find_source
from roberta_hub.checkpoint.store import read_store
from roberta_hub.checkpoint.tensors import check_finite
from roberta_hub.errors import InputError, VocabularyError
from roberta_hub.files import check_regular
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.model import roberta
from roberta_hub.model.placement import as_device, as_dtype
from roberta_hub.text.bpe import GPT2BPE
from roberta_hub.text.dictionary import MASK, Dictionary
from roberta_hub.text.huggingface import read_tokenizer as read_huggingface_tokenizer
from roberta_hub.text.layout import Layout
from roberta_hub.text.pieces import Engine
from roberta_hub.text.table_fit import check_table
from roberta_hub.text.task import Task

__all__ = ["RobertaModel", "available_models", "load_model"]

_MEASURED = ("sentence_prediction", "sentence_ranking")
"""fairseq's tasks that state how long an input may be."""


@dataclass(frozen=True)
class Tables:
    """What turns text into ids, and ids of classes into names."""

    bpe: Engine | None
    """None: RoBERTa's."""
    dictionary: Dictionary
    layout: Layout | None
    """Which ids are special and how sentences are joined; None: RoBERTa's."""
    label_dictionary: Dictionary | None
    """fairseq's, of a classifier; None where the checkpoint brings none."""


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
    own_bpe = _bpe_tables(bpe, overrides)
    pretrained, strict = switch("pretrained", pretrained), switch("strict", strict)
    allow_nonfinite = switch("allow_nonfinite", allow_nonfinite)
    force_download = switch("force_download", force_download)
    progress, converted = switch("progress", progress), switch("converted", converted)
    wanted, place = as_dtype(dtype), as_device(device)
    name = path_text("name_or_path", name_or_path)
    file = None if checkpoint_file is None else path_text("checkpoint_file", checkpoint_file)
    data = path_text("data_name_or_path", overrides.pop("data", data_name_or_path))
    check_overrides(overrides)

    found = find_source(
        name, file, data, pretrained=pretrained, force=force_download, progress=progress
    )
    checkpoint = read_checkpoint(found, overrides, wanted, converted=converted)
    if not allow_nonfinite and not checkpoint.finite:
        check_finite(checkpoint.weights, checkpoint.source)
    tables = read_tokenizer(found, checkpoint, own_bpe)
    return assemble(checkpoint, tables, place, wanted, strict=strict)


class RobertaModel(roberta.Roberta):
    """The model that `roberta.model` holds, with fairseq's class method for loading."""

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


def read_checkpoint(
    found: Found,
    overrides: Mapping[str, object],
    dtype: torch.dtype | None,
    *,
    converted: bool,
) -> Checkpoint:
    """Read configuration, weights and labels with the reader that fits, and apply the overrides.

    Args:
        found: a checkpoint that has a record must have that record's shape.
        overrides: fairseq's arguments.
        dtype: of the weights; None widens half precision to float32.
        converted: keep a safetensors copy of a pickle.
    """
    record, source = found.record, found.source
    if source is None:
        assert record is not None
        return _random(record, overrides)
    if source.kind == "fairseq":
        assert source.file is not None
        checkpoint = read_fairseq(source.file, overrides, dtype, converted=converted)
    elif source.kind == "roberta_hub":
        checkpoint = read_store(source.directory, dtype, file=source.file)
    else:
        checkpoint = read_huggingface(
            source.directory, dtype, file=source.file, converted=converted
        )
        if source.sentences is not None:
            checkpoint.sentence = read_sentence_settings(source.sentences)
    if overrides and source.kind != "fairseq":
        override(checkpoint, overrides)
    if record is not None:
        check_shape(record, checkpoint, overrides, source.directory)
        name_heads(record, checkpoint)
        checkpoint.source = f"{record.name} ({checkpoint.source})"
    return checkpoint


def _random(record: Record, overrides: Mapping[str, object]) -> Checkpoint:
    """Return the named architecture as a checkpoint without weights."""
    config = override_config(config_of(record), overrides)
    return Checkpoint(
        config=config,
        weights={},
        source=f"{record.name}, random weights",
        labels=dict(record.labels),
        own_head=record.own_head,
        inputs=dict(record.inputs),
        task=record.task,
    )


def read_tokenizer(found: Found, checkpoint: Checkpoint, own_bpe: GPT2BPE | None) -> Tables:
    """Read the tables that turn text into the ids of a checkpoint.

    Args:
        found: Hugging Face's files count before a dict.txt.
        checkpoint: brings the dictionaries of our own format; its embedding table must fit.
        own_bpe: the caller's, which replaces the checkpoint's.

    Raises:
        VocabularyError: a table is damaged, or does not fit the embedding table.
        InputError: the caller names a data directory for a model that brings its own vocabulary.
    """
    source, dictionary, layout = found.source, None, None
    bpe: Engine | None = None
    words, labels = checkpoint.dictionary, checkpoint.label_dictionary
    if source is not None and source.kind == "fairseq":
        files = (source.directory / "encoder.json", source.directory / "vocab.bpe")
        if all(file.is_file() for file in files):
            bpe = GPT2BPE.from_files(*files)
        words, labels = read_dictionaries(source.directory, found.data)
    elif source is not None:
        brought = read_huggingface_tokenizer(source.directory)
        if found.data != data_directory(source.directory, "."):
            if source.kind == "roberta_hub" or brought is not None:
                raise InputError(
                    f"data_name_or_path={str(found.data)[:500]!r}: {source.directory} brings its "
                    "own vocabulary, and another one would be wrong; leave data_name_or_path out"
                )
            words, labels = read_dictionaries(source.directory, found.data)
        if brought is not None:
            bpe, dictionary, layout = brought
    if dictionary is None:
        dictionary = _dictionary(words, checkpoint)
    check_table(
        dictionary,
        rows=checkpoint.config.vocab_size,
        padding_idx=checkpoint.config.padding_idx,
        source=checkpoint.source,
    )
    classes = None
    if labels is not None:
        classes = Dictionary.parse(labels, "label/dict.txt", add_mask=True)
    return Tables(own_bpe or bpe, dictionary, layout, classes)


def _dictionary(words: bytes | None, checkpoint: Checkpoint) -> Dictionary:
    """Parse a dict.txt, whose size must be that of the embedding table; None: RoBERTa's own."""
    rows = checkpoint.config.vocab_size
    if words is None:
        dictionary = Dictionary.roberta()
        origin = "RoBERTa's own dictionary, there being no dict.txt,"
    else:
        dictionary = Dictionary.parse(words, f"dict.txt of {checkpoint.source}")
        dictionary.add_symbol(MASK)
        origin = f"dict.txt with {MASK}"
    if len(dictionary) != rows:
        raise VocabularyError(
            f"{checkpoint.source}: {origin} has {len(dictionary)} symbols and the embedding table "
            f"{rows} rows; put the dict.txt that the model was trained with beside it, or name its "
            "directory with data_name_or_path"
        )
    return dictionary


def assemble(
    checkpoint: Checkpoint,
    tables: Tables,
    device: torch.device | None,
    dtype: torch.dtype | None,
    *,
    strict: bool,
) -> RobertaHubInterface:
    """Build the model of a checkpoint and put it into the interface.

    Args:
        checkpoint: without weights the model gets random ones.
        tables: for the task and the tokenizer.
        device: where the model goes; None: the CPU.
        dtype: of random weights; None: float32. Weights that were read have theirs.
        strict: False ignores tensors that have no place in the model, with a warning.
    """
    task = Task(
        source_dictionary=tables.dictionary,
        label_dictionary=tables.label_dictionary,
        name=checkpoint.task,
        init_token=checkpoint.init_token,
        longest=checkpoint.config.max_positions if checkpoint.task in _MEASURED else None,
        layout=tables.layout,
    )
    model = build_model(checkpoint, strict=strict)
    interface = RobertaHubInterface(
        model.config,
        task,
        model,
        bpe=tables.bpe,
        labels=checkpoint.labels,
        own_head=checkpoint.own_head,
        inputs=checkpoint.inputs,
        source=checkpoint.source,
        family=checkpoint.family,
        sentence=checkpoint.sentence,
    )
    if not checkpoint.weights and dtype is not None:
        interface = interface.to(dtype)
    return interface if device is None else interface.to(device)


def build_model(checkpoint: Checkpoint, *, strict: bool = True) -> RobertaModel:
    """Build the model of a checkpoint, see `building.build`."""
    return build(checkpoint, RobertaModel, strict=strict)


def _bpe_tables(bpe: str, overrides: dict[str, object]) -> GPT2BPE | None:
    """Read the caller's own BPE files, whose names leave the overrides; None: there are none."""
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

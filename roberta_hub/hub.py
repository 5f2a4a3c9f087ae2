"""A name or a path -> a model in the user's hand. This is where all rooms are wired together."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from roberta_hub.checkpoint.archive import extract_archive
from roberta_hub.checkpoint.arguments import override_config
from roberta_hub.checkpoint.catalogue import (
    Record,
    available_models,
    embedded,
    find,
    name_heads,
    suggest,
)
from roberta_hub.checkpoint.contents import (
    EMBEDDING,
    LM_WEIGHT,
    Checkpoint,
    check_finite,
)
from roberta_hub.checkpoint.download import fetch_model
from roberta_hub.checkpoint.fairseq import read_dictionaries, read_fairseq
from roberta_hub.checkpoint.huggingface import read_huggingface
from roberta_hub.checkpoint.store import read_json, read_store
from roberta_hub.errors import CheckpointError, InputError, UnknownNameError, VocabularyError
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.model import roberta
from roberta_hub.model.skeleton import shapes_only
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
    checkpoint_file: str = "model.pt",
    data_name_or_path: str = ".",
    bpe: str = "gpt2",
    strict: bool = True,
    allow_nonfinite: bool = False,
    force_download: bool = False,
    progress: bool = True,
    twin: bool = True,
    **overrides: object,
) -> RobertaHubInterface:
    """Load a model by name, or from a file, directory or archive of any of the formats we read.

    As in fairseq the model comes back in train mode: call `.eval()` before `predict`.

    Args:
        name_or_path: a name of `available_models()`; a fairseq directory, model.pt or .tar.gz; a
            Hugging Face directory; a directory that `save` wrote.
        pretrained: False builds the named architecture with random weights, without any network.
        device: where the model goes, "cuda" for example; None: the CPU.
        dtype: of the weights; None widens half precision to float32.
        checkpoint_file: in a fairseq directory; of several, joined by os.pathsep, the first is
            used.
        data_name_or_path: where dict.txt lies; beginning with "." from the model's directory.
        bpe: "gpt2", RoBERTa's.
        strict: False ignores tensors that have no place in the model, with a warning.
        allow_nonfinite: True accepts NaN and infinity in the weights.
        force_download: fetch a named model again.
        progress: show a bar while downloading.
        twin: of a pickle, keep a safetensors twin in the cache (`cache_root()/twins`) and map that
            the next time; False reads the file itself and writes nothing.
        overrides: fairseq's arguments, which replace those of the checkpoint: `dropout`,
            `attention_dropout`, `pooler_dropout`, `encoder_layerdrop`, `encoder_layers_to_keep`,
            `gpt2_encoder_json` and `gpt2_vocab_bpe` (your own BPE), `data`, ... `user_dir` is
            accepted with a warning.

    Raises:
        UnknownNameError: no such model, or no such argument; the message lists near ones.
        CheckpointError: a file that is missing, damaged, unsafe or of another shape.
        DownloadError: a name whose archive cannot be had.

    Example:
        >>> roberta = load_model("roberta.base", pretrained=False)
        >>> roberta.encode("Hello world!").tolist()
        [0, 31414, 232, 328, 2]
    """
    bpe_tables = _bpe_tables(bpe, overrides)
    wanted = _dtype(dtype)
    record = find(os.fspath(name_or_path))
    if record is not None and not pretrained:
        checkpoint, vocabulary = _random(record, overrides), (bpe_tables, None)
        interface = _assemble(checkpoint, vocabulary, device, strict=strict)
        return interface.to(wanted) if wanted else interface
    if record is not None and not record.url:
        directory = embedded(record)
    elif record is not None:
        directory = fetch_model(record, force=force_download, progress=progress)
    else:
        directory = _path(name_or_path, pretrained)
    checkpoint, (found_bpe, dictionary) = _read(
        directory, checkpoint_file, data_name_or_path, overrides, wanted, twin=twin
    )
    if record is not None:
        name_heads(record, checkpoint)
        checkpoint.source = f"{record.name} ({checkpoint.source})"
    if not allow_nonfinite and not checkpoint.finite:
        check_finite(checkpoint.weights, checkpoint.source)
    return _assemble(checkpoint, (bpe_tables or found_bpe, dictionary), device, strict=strict)


class RobertaModel(roberta.RobertaModel):
    """RoBERTa, as `roberta.model` holds it; fairseq's class method for loading lives here."""

    @classmethod
    def from_pretrained(
        cls,
        model_name_or_path: str | os.PathLike[str],
        checkpoint_file: str = "model.pt",
        data_name_or_path: str = ".",
        bpe: str = "gpt2",
        **overrides: Any,
    ) -> RobertaHubInterface:
        """Load a model as fairseq's `RobertaModel.from_pretrained` does; see `load_model`.

        Args:
            model_name_or_path: a catalogue name, a directory, a model.pt or a .tar.gz.
            checkpoint_file: in that directory.
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


def _path(name: str | os.PathLike[str], pretrained: bool) -> Path:
    path = Path(name)
    if not os.path.exists(path):  # which also answers where a folder may not be looked into
        near = suggest(os.fspath(name))
        hint = f"did you mean {' or '.join(near)}? " if near else ""
        raise UnknownNameError(
            f"no model and no path {os.fspath(name)!r}; {hint}"
            f"names are {', '.join(available_models())}; a path must exist and be readable"
        )
    if not pretrained:
        raise InputError(
            f"pretrained=False builds a model by name, and {os.fspath(name)!r} is a path"
        )
    return path


def _read(
    path: Path,
    checkpoint_file: str,
    data: str,
    overrides: Mapping[str, object],
    dtype: torch.dtype | None,
    *,
    twin: bool,
) -> tuple[Checkpoint, Vocabulary]:
    """Read whatever lies there, and the vocabulary that it brings along beside the dictionary."""
    if path.is_file() and path.name.endswith((".tar.gz", ".tgz")):
        path = extract_archive(path, checkpoint_file)
    if path.is_file() and path.suffix != ".safetensors":
        path, checkpoint_file = path.parent, path.name
    directory = path if path.is_dir() else path.parent
    if not (directory / checkpoint_file).is_file():  # several, as fairseq writes them: a.pt:b.pt
        checkpoint_file = checkpoint_file.split(os.pathsep)[0]
    has_config = (directory / "config.json").is_file()
    if not has_config and not (directory / checkpoint_file).is_file():
        there = ", ".join(sorted(entry.name for entry in directory.iterdir())[:8]) or "nothing"
        raise CheckpointError(
            f"Model file not found: {directory} holds neither {checkpoint_file} nor config.json "
            f"but "
            f"{there}; name the file with checkpoint_file="
        )
    if (directory / checkpoint_file).is_file():
        tables = (directory / "encoder.json", directory / "vocab.bpe")
        own = GPT2BPE.from_files(*tables) if all(table.is_file() for table in tables) else None
        checkpoint = read_fairseq(
            directory / checkpoint_file, _check_data(data, overrides), dtype, twin=twin
        )
        dictionaries = read_dictionaries(directory, str(overrides.get("data", data)))
        checkpoint.dictionary, checkpoint.label_dictionary = dictionaries
        return checkpoint, (own, None)
    if overrides:
        raise InputError(
            f"{', '.join(overrides)}: arguments of fairseq checkpoints, and {directory} is none; "
            "load it without them and change roberta.model"
        )
    ours = read_json(directory / "config.json").get("format") == "roberta_hub"
    checkpoint = (
        read_store(directory, dtype) if ours else read_huggingface(directory, dtype, twin=twin)
    )
    return checkpoint, read_tokenizer(directory) or (None, None)


def _check_data(data: str, overrides: Mapping[str, object]) -> dict[str, object]:
    """The overrides without the data directory, which must exist unless it hangs on the model's."""
    data = str(overrides.get("data", data))
    if not data.startswith(".") and not Path(data).is_dir():
        raise CheckpointError(
            f"data_name_or_path {data!r} is no directory; it should hold dict.txt"
        )
    return {name: value for name, value in overrides.items() if name != "data"}


def _random(record: Record, overrides: Mapping[str, object]) -> Checkpoint:
    """The named architecture as a checkpoint without weights."""
    config = override_config(record.config, overrides)
    return Checkpoint(
        config=config,
        weights={},
        source=f"{record.name}, random weights",
        labels={head: tuple(names) for head, names in record.heads.items()},
        task=record.task,
    )


def _assemble(
    checkpoint: Checkpoint,
    vocabulary: Vocabulary,
    device: str | torch.device | None,
    *,
    strict: bool,
) -> RobertaHubInterface:
    """Dictionary, task and model of a checkpoint, in the interface."""
    bpe, dictionary = vocabulary
    dictionary = dictionary or _dictionary(checkpoint)
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
        source=checkpoint.source,
    )
    return interface if device is None else interface.to(device)


def _dictionary(checkpoint: Checkpoint) -> Dictionary:
    rows = checkpoint.config.vocab_size
    if checkpoint.dictionary is None:
        dictionary, origin = (
            Dictionary.roberta(),
            "RoBERTa's own dictionary, there being no dict.txt,",
        )
    else:
        dictionary, origin = (
            Dictionary.parse(checkpoint.dictionary, f"dict.txt of {checkpoint.source}"),
            "dict.txt with <mask>",
        )
        dictionary.add_symbol("<mask>")
    if len(dictionary) != rows:
        raise VocabularyError(
            f"{checkpoint.source}: {origin} has {len(dictionary)} symbols and the embedding table "
            f"{rows} "
            "rows; put the dict.txt that the model was trained with beside it, or name its "
            "directory "
            "with data_name_or_path"
        )
    return dictionary


def build_model(checkpoint: Checkpoint, *, strict: bool = True) -> RobertaModel:
    """Build as shapes only and assign, so that no second copy of the weights is ever made."""
    if not checkpoint.weights:
        model = RobertaModel(checkpoint.config)
        for head, labels in checkpoint.labels.items():
            model.register_classification_head(head, len(labels))
        return model
    try:
        with shapes_only():
            model = RobertaModel(checkpoint.config)
            for head, (num_classes, inner_dim) in checkpoint.heads().items():
                model.register_classification_head(head, num_classes, inner_dim)
            for head, num_classes in checkpoint.token_heads().items():
                model.register_token_head(head, num_classes)
            for head in checkpoint.span_heads():
                model.register_span_head(head)
    except InputError as error:  # an activation or a head that cannot be
        raise CheckpointError(f"{checkpoint.source}: {error}") from None
    weights = dict(checkpoint.weights)
    config = checkpoint.config
    if config.lm_head and not config.untie_weights and EMBEDDING in weights:
        weights[LM_WEIGHT] = weights[EMBEDDING]
    weights = _check_fit(model.state_dict(), weights, checkpoint.source, strict)
    model.load_state_dict(weights, assign=True)
    model.tie_weights()
    return model


def _check_fit(
    expected: Mapping[str, torch.Tensor],
    weights: dict[str, torch.Tensor],
    source: str,
    strict: bool,
) -> dict[str, torch.Tensor]:
    """Every tensor where it belongs, or an error that says which are not and what the cause may be."""
    missing = [name for name in expected if name not in weights]
    unexpected = [name for name in weights if name not in expected]
    wrong = [
        name for name in expected if name in weights and expected[name].shape != weights[name].shape
    ]
    if missing:
        raise CheckpointError(
            f"{source}: {len(missing)} tensors are missing: {_some(missing)}; the file is "
            f"incomplete, "
            "or of another architecture"
        )
    if wrong:
        name = wrong[0]
        raise CheckpointError(
            f"{source}: {name} has shape {tuple(weights[name].shape)}, the configuration wants "
            f"{tuple(expected[name].shape)} ({len(wrong)} tensors differ): {_cause(name)}"
        )
    counts = [name for name in expected if not weights[name].is_floating_point()]
    if counts:
        raise CheckpointError(
            f"{source}: {counts[0]} holds {weights[counts[0]].dtype}, not floating-point weights "
            f"({len(counts)} tensors); was the model quantized? load the original"
        )
    if unexpected and strict:
        raise CheckpointError(
            f"{source}: {len(unexpected)} tensors have no place in a RoBERTa: {_some(unexpected)}; "
            "strict=False ignores them"
        )
    if unexpected:
        warnings.warn(f"{source}: ignored {_some(unexpected)}", stacklevel=5)
    return {name: weights[name] for name in expected}


def _cause(name: str) -> str:
    if name in (EMBEDDING, LM_WEIGHT, "encoder.lm_head.bias"):
        return "the vocabulary is of another size"
    if "embed_positions" in name:
        return "max_positions is not what the model was trained with"
    return "base and large mixed up, or an argument overridden that fixes a size"


def _some(names: list[str]) -> str:
    return ", ".join(name[:100] for name in names[:5]) + (", ..." if len(names) > 5 else "")


def _dtype(dtype: torch.dtype | str | None) -> torch.dtype | None:
    named = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if named is None and dtype is None:
        return None
    if named not in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        raise InputError(
            f"dtype is {dtype!r}; choose torch.float32, torch.float16 or torch.bfloat16"
        )
    return named


def _bpe_tables(bpe: str, overrides: dict[str, object]) -> GPT2BPE | None:
    """The caller's own BPE files, taken out of the overrides; None: RoBERTa's."""
    if bpe != "gpt2":
        raise InputError(
            f"bpe is {bpe!r}; RoBERTa's is 'gpt2'. XLM-R, CamemBERT and GottBERT are not supported "
            f"yet"
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
    return GPT2BPE.from_files(str(encoder), str(merges))

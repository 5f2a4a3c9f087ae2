"""Loads a model: find the folder, let its format read weights and tokenizer, assemble."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from roberta_hub.arguments import path_text, switch, text_of
from roberta_hub.building import build
from roberta_hub.checkpoint.checkpoint import POOLER, PRUNING, REPLACED_HEAD, Checkpoint
from roberta_hub.checkpoint.fetch.catalogue import apply_head_names, check_shape, config_of
from roberta_hub.checkpoint.fetch.records import Record, available_models
from roberta_hub.checkpoint.fetch.repositories import pin
from roberta_hub.checkpoint.tensors import check_finite
from roberta_hub.errors import LicenceWarning
from roberta_hub.formats.adapters import is_alone, merge_adapter, read_adapter
from roberta_hub.formats.fairseq_arguments import (
    check_overrides,
    config_of_arguments,
    override_config,
)
from roberta_hub.formats.huggingface import HUGGINGFACE, add_sentence
from roberta_hub.formats.overrides import OVERRIDABLE_FIELDS, override
from roberta_hub.formats.sentence_transformers import read_sentence_settings
from roberta_hub.formats.source import FoundCheckpoint, find_source
from roberta_hub.formats.tokenizer_files import VOCABULARIES
from roberta_hub.formats.tokenizers import (
    TokenizerParts,
    TokenizerRequest,
    UserTokenizer,
    complete,
    fit_segments,
    tells_segments,
    tokenizer_request,
)
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.model import roberta
from roberta_hub.model.placement import as_device, as_dtype
from roberta_hub.text.task import Task

__all__ = [
    "CamembertModel",
    "GottbertModel",
    "RobertaModel",
    "XLMRModel",
    "available_models",
    "load_model",
]

_MEASURED = ("sentence_prediction", "sentence_ranking")
"""fairseq's tasks that state how long an input may be."""


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
    adapter: bool | None = None,
    revision: str | None = None,
    **overrides: object,
) -> RobertaHubInterface:
    """Load a model by its name, or from a file, directory or archive of a supported format.

    As in fairseq, the model is in train mode: call `.eval()` before `predict`.

    Args:
        name_or_path: a name of `available_models()`; OWNER/NAME, a model of one of these families
            on the Hugging Face Hub; a fairseq directory, model.pt or .tar.gz; a Hugging Face
            directory; a directory that `save` or a training run wrote; or a file of weights in one
            of these directories. An existing path wins over a name.
        pretrained: False builds the named architecture with random weights, without a network.
            Families other than RoBERTa then take only ids, unless `vocabulary` is given.
        device: "cpu", "cuda", "cuda:1", "mps", or "auto", which is CUDA if available and else the
            CPU. "meta" allocates no memory and has only shapes. None: the CPU.
        dtype: dtype of the weights. None converts half precision to float32. Weights that already
            have this dtype, in a pickle or in our cache, stay memory-mapped, so XLM-R XL (7 GB) in
            float16 takes no additional memory.
        checkpoint_file: file of weights in a directory. If several are joined by os.pathsep, the
            first is used. None takes fairseq's model.pt if it exists, else the file that exists. In
            a training run, None takes the best model, else the last.
        data_name_or_path: folder with dict.txt. A path that begins with "." is relative to the
            model's directory. An error if the model has its own vocabulary.
        bpe: kind of tokenizer. "gpt2" (default) uses the checkpoint's own, or RoBERTa's if it has
            none. fairseq's "sentencepiece" (XLM-R, CamemBERT) and "hf_byte_bpe" (GottBERT) raise an
            error if the model lacks their files.
        strict: False ignores tensors that have no place in the model, with a warning.
        allow_nonfinite: True accepts NaN and infinity in the weights.
        force_download: download a named model again.
        progress: show a bar while downloading.
        converted: True keeps a safetensors copy of a pickle in the cache (`cache_root()/twins`),
            and maps the copy the next time. False reads the pickle itself and writes nothing.
        adapter: what to do with a LoRA adapter of peft in the folder. True merges it into its base
            model, which is in the same folder or is named by adapter_config.json. False loads only
            the base model. None raises an error.
        revision: branch, tag or commit of a model on the Hugging Face Hub. Later loads of the name
            on this machine use the same commit. None: the commit of the earlier load, else the
            newest.
        overrides: fairseq's arguments. They replace those of the checkpoint. Any checkpoint takes
            `dropout`, `attention_dropout`, `activation_dropout`, `pooler_dropout`,
            `encoder_layerdrop`, `encoder_layers_to_keep`, and `gpt2_encoder_json` with
            `gpt2_vocab_bpe` (your own BPE). fairseq's checkpoints also take the others, such as
            `sentencepiece_model`, `bpe_vocab`, `bpe_merges` and `bpe_add_prefix_space`. Weights
            without fairseq's `args` or `cfg` need `encoder_attention_heads`, and `activation_fn` if
            it is not gelu, unless they have the sizes of a published model. `vocabulary` names
            tokenizer files for a model that has none: a directory, or a file such as vocab.txt.
            `user_dir` is accepted with a warning.

    Raises:
        UnknownNameError: no such model, revision or argument; the message lists similar names.
        MissingExtraError: huggingface_hub is not installed, and the model is on the Hub.
        InputError: a device, dtype or argument is not available on this machine.
        CheckpointError: a file is missing, damaged, unsafe or has another shape.
        DownloadError: the files of a named model cannot be downloaded.

    Example:
        >>> roberta = load_model("roberta.base", pretrained=False)
        >>> roberta.encode("Hello world!").tolist()
        [0, 31414, 232, 328, 2]
        >>> xlmr = load_model("xlm-roberta-base", pretrained=False, device="meta")
        >>> sum(parameter.numel() for parameter in xlmr.parameters())
        278294418
    """
    if "twin" in overrides:
        warnings.warn("twin= is converted= now", FutureWarning, stacklevel=2)
        converted = switch("twin", overrides.pop("twin"))
    wanted_bpe = tokenizer_request(bpe, overrides)
    pretrained, strict = switch("pretrained", pretrained), switch("strict", strict)
    allow_nonfinite = switch("allow_nonfinite", allow_nonfinite)
    force_download = switch("force_download", force_download)
    progress, converted = switch("progress", progress), switch("converted", converted)
    adapter = None if adapter is None else switch("adapter", adapter)
    revision = None if revision is None else text_of("revision", revision)
    wanted, place = as_dtype(dtype), as_device(device)
    name = path_text("name_or_path", name_or_path)
    file = None if checkpoint_file is None else path_text("checkpoint_file", checkpoint_file)
    data = path_text("data_name_or_path", overrides.pop("data", data_name_or_path))
    check_overrides(overrides, load_model.__kwdefaults__ or ())

    return load_found(
        find_source(
            name,
            file,
            data,
            pretrained=pretrained,
            force=force_download,
            progress=progress,
            adapter=adapter,
            revision=revision,
        ),
        overrides,
        wanted_bpe,
        place,
        wanted,
        strict=strict,
        allow_nonfinite=allow_nonfinite,
        converted=converted,
    )


def load_commit(
    name: str,
    commit: str,
    *,
    device: str | torch.device | None = None,
    dtype: torch.dtype | str | None = None,
) -> RobertaHubInterface:
    """Load a model at Hugging Face at a commit, and leave what its name means on this machine."""
    found = find_source(
        name, None, ".", pretrained=True, force=False, progress=False, revision=commit
    )
    found, bpe = replace(found, renames=False), tokenizer_request("gpt2", {})
    return load_found(found, {}, bpe, as_device(device), as_dtype(dtype))


def load_found(
    found: FoundCheckpoint,
    overrides: Mapping[str, object],
    bpe: TokenizerRequest,
    device: torch.device | None,
    dtype: torch.dtype | None,
    *,
    strict: bool = True,
    allow_nonfinite: bool = False,
    converted: bool = True,
) -> RobertaHubInterface:
    """Load the files that a name or a path was resolved to."""
    checkpoint = read_checkpoint(found, overrides, dtype, converted=converted)
    if not allow_nonfinite and not checkpoint.finite:
        check_finite(checkpoint.weights, checkpoint.source)
    parts, record = read_tokenizer(found, checkpoint, bpe), found.record
    random, renamed = found.source is None, found.repository if found.renames else None
    del found  # and the JSON that its folder holds: XLM-R's tokenizer.json has 17 MB
    interface = assemble(checkpoint, parts, device, dtype, strict=strict)
    if not random and record is not None and record.notice:
        warnings.warn(f"{record.name}: {record.notice}", LicenceWarning, stacklevel=3)
        interface.source += f"; licence: {record.licence}"
    if renamed is not None:
        pin(renamed)
    return interface


class RobertaModel(roberta.Roberta):
    """The model that `roberta.model` holds, with fairseq's class method for loading."""

    @classmethod
    def hub_models(cls) -> dict[str, str]:
        """Names that `from_pretrained` takes, as fairseq's; each means itself.

        Example:
            >>> RobertaModel.hub_models()["roberta.base"]
            'roberta.base'
        """
        return {name: name for name in available_models()}

    @classmethod
    def build_model(cls, args: Any, task: Any) -> RobertaModel:
        """Build a model with random weights, as fairseq's `RobertaModel.build_model` does.

        Args:
            args: a Namespace with fairseq's arguments.
            task: its `source_dictionary` sets the size of the vocabulary.

        Example:
            >>> from argparse import Namespace
            >>> args = Namespace(arch="roberta_base", encoder_layers=1, encoder_embed_dim=12)
            >>> from roberta_hub.text.dictionary import Dictionary
            >>> task = Task(Dictionary.roberta())
            >>> RobertaModel.build_model(args, task).args.encoder_embed_dim
            12
        """
        return cls(config_of_arguments(vars(args), len(task.source_dictionary)))

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
            checkpoint_file: file of weights in that directory. None: model.pt if it exists, else
                the file that exists.
            data_name_or_path: folder with dict.txt. A path that begins with "." is relative to the
                model's directory.
            bpe: kind of tokenizer. "gpt2" is RoBERTa's.
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
    found: FoundCheckpoint,
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
    first = {n: v for n, v in overrides.items() if found.adapter is None or n != PRUNING}
    checkpoint = source.format.read(source, first, dtype, converted=converted)
    if found.repository is not None:
        checkpoint.source = f"{found.repository.label} ({checkpoint.source})"
    if record is not None:
        check_shape(record, checkpoint, first, source.folder.path)
        apply_head_names(record, checkpoint)
        checkpoint.source = f"{record.name} ({checkpoint.source})"
    if found.adapter is not None:  # before layers go, whose numbers it says
        adapter = read_adapter(found.adapter, converted=converted)
        checkpoint = merge_adapter(checkpoint, adapter, found.adapter, dtype)
        later = {n: v for n, v in overrides.items() if n in (*OVERRIDABLE_FIELDS, PRUNING)}
        override(checkpoint, later)
        if (folder := source.sentences) is not None and checkpoint.sentence is None:
            sentence = read_sentence_settings(folder)  # the base is of another format
            add_sentence(checkpoint, sentence, folder, dtype, converted=converted)
    return checkpoint


def _random(record: Record, overrides: Mapping[str, object]) -> Checkpoint:
    """Return the named architecture as a checkpoint without weights."""
    config = override_config(config_of(record), overrides)
    parts = {POOLER: record.pooler, REPLACED_HEAD: record.replaced_head}
    return Checkpoint(
        config=config,
        weights={},
        source=f"{record.name}, random weights",
        family=record.family,
        parts=tuple(part for part, present in parts.items() if present),
        labels=dict(record.labels),
        default_head=record.default_head,
        inputs=dict(record.inputs),
        task=record.task,
    )


def read_tokenizer(
    found: FoundCheckpoint, checkpoint: Checkpoint, wanted: TokenizerRequest
) -> TokenizerParts:
    """Read the tables that turn text into the ids of a checkpoint."""
    record, source = found.record, found.source
    wanted = replace(wanted, data=found.data, files=record.vocabulary if record else None)
    if source is None:
        parts = complete(UserTokenizer(), checkpoint, wanted, wanted.keywords)
        has_segments = tells_segments(None, parts.layout)
        fit_segments(checkpoint, parts.layout, has_segments=has_segments)
    else:
        if (own := found.adapter) and is_alone(own) and any(map(own.has, VOCABULARIES)):
            # The base's tokens and more: peft's folder holds them if its trainer was given them.
            if wanted.data == source.folder:
                wanted = replace(wanted, data=own)
            source = replace(source, format=HUGGINGFACE, folder=own)
        parts = source.format.read_tokenizer(source, checkpoint, wanted)
    if record is not None:
        checkpoint.family = record.family
    return parts


def assemble(
    checkpoint: Checkpoint,
    parts: TokenizerParts,
    device: torch.device | None,
    dtype: torch.dtype | None,
    *,
    strict: bool,
) -> RobertaHubInterface:
    """Build the model of a checkpoint and put it into the interface."""
    task = Task(
        source_dictionary=parts.dictionary,
        label_dictionary=parts.label_dictionary,
        name=checkpoint.task,
        init_token=checkpoint.init_token,
        longest=checkpoint.config.max_positions if checkpoint.task in _MEASURED else None,
        layout=parts.layout,
    )
    empty = device is not None and device.type == "meta"
    model = build(checkpoint, RobertaModel, strict=strict, empty=empty)
    interface = RobertaHubInterface(
        model.config,
        task,
        model,
        bpe=parts.bpe,
        default_head=checkpoint.default_head,
        source=checkpoint.source,
        family=checkpoint.family,
        sentence=checkpoint.sentence,
        head_settings=checkpoint.known_heads,
        zero_shot_settings=checkpoint.zero_shot,
    )
    interface.learnt = checkpoint.learnt
    if not checkpoint.weights and dtype is not None:
        interface = interface.to(dtype)
    return interface if device is None else interface.to(device)


def _load_sentencepiece(
    model_name_or_path: str | os.PathLike[str],
    checkpoint_file: str | None = None,
    data_name_or_path: str = ".",
    bpe: str = "sentencepiece",
    **overrides: Any,
) -> RobertaHubInterface:
    """Load a model as fairseq's `XLMRModel` and `CamembertModel` do; see `load_model`.

    Args:
        model_name_or_path: "xlmr.large", "camembert", or a directory with model.pt, dict.txt and
            sentencepiece.bpe.model.
        checkpoint_file: file of weights in that directory. None: model.pt if it exists, else the
            file that exists.
        data_name_or_path: folder with dict.txt. A path that begins with "." is relative to the
            model's directory.
        bpe: kind of tokenizer, "sentencepiece".
        overrides: fairseq's arguments, and the keywords of `load_model`.
    """
    return RobertaModel.from_pretrained(
        model_name_or_path, checkpoint_file, data_name_or_path, bpe, **overrides
    )


class XLMRModel(RobertaModel):
    """XLM-R, with fairseq's class method for loading."""

    from_pretrained = staticmethod(_load_sentencepiece)


class CamembertModel(RobertaModel):
    """CamemBERT, with fairseq's class method for loading."""

    from_pretrained = staticmethod(_load_sentencepiece)


class GottbertModel(RobertaModel):
    """GottBERT, with fairseq's class method for loading."""

    @classmethod
    def from_pretrained(
        cls,
        model_name_or_path: str | os.PathLike[str],
        checkpoint_file: str | None = None,
        data_name_or_path: str = ".",
        bpe: str = "hf_byte_bpe",
        bpe_vocab: str = "vocab.json",
        bpe_merges: str = "merges.txt",
        bpe_add_prefix_space: bool = False,
        **overrides: Any,
    ) -> RobertaHubInterface:
        """Load a model as fairseq's `GottbertModel.from_pretrained` does; see `load_model`.

        Args:
            model_name_or_path: "gottbert-base", or a directory with model.pt, dict.txt, vocab.json
                and merges.txt.
            checkpoint_file: file of weights in that directory. None: model.pt if it exists, else
                the file that exists.
            data_name_or_path: folder with dict.txt. A path that begins with "." is relative to the
                model's directory.
            bpe: kind of tokenizer, "hf_byte_bpe".
            bpe_vocab: file of the vocabulary; a name without a folder may be in the model's folder.
            bpe_merges: file of the merges, found in the same way.
            bpe_add_prefix_space: whether to add a space before each text.
            overrides: fairseq's arguments, and the keywords of `load_model`.
        """
        files = {"bpe_vocab": bpe_vocab, "bpe_merges": bpe_merges}
        if files != {"bpe_vocab": "vocab.json", "bpe_merges": "merges.txt"}:
            overrides |= files  # else the model's own, which have these names
        return super().from_pretrained(
            model_name_or_path,
            checkpoint_file,
            data_name_or_path,
            bpe,
            bpe_add_prefix_space=bpe_add_prefix_space,
            **overrides,
        )


def build_model(checkpoint: Checkpoint, *, strict: bool = True) -> RobertaModel:
    """Build the model of a checkpoint, see `building.build`."""
    return build(checkpoint, RobertaModel, strict=strict)

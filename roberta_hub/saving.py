"""Model, vocabulary and labels -> a checkpoint in any of the three formats.

`hub.py` is the way back.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from roberta_hub.arguments import kind_of, path_of, shown
from roberta_hub.checkpoint.contents import LM_WEIGHT, Checkpoint, replacing_all, write_files
from roberta_hub.checkpoint.fairseq import write_fairseq
from roberta_hub.checkpoint.huggingface import write_huggingface
from roberta_hub.checkpoint.store import read_json, write_store
from roberta_hub.config import Inputs
from roberta_hub.errors import CheckpointError, InputError, InputTypeError, RobertaHubError
from roberta_hub.model.roberta import RobertaModel
from roberta_hub.text.bpe import GPT2BPE
from roberta_hub.text.dictionary import Dictionary
from roberta_hub.text.tokenizer import Tokenizer

FORMATS = {
    "roberta_hub": ("dict.txt", "label_dict.txt", "vocab.json", "merges.txt"),
    "fairseq": ("label/dict.txt", "encoder.json", "vocab.bpe"),
    "huggingface": ("added_tokens.json", "tokenizer.json", "special_tokens_map.json"),
}
"""Every format, and the files of it that some models have and others lack."""


def checkpoint_of(
    model: nn.Module,
    tokenizer: Tokenizer,
    task: Any,
    labels: Mapping[str, Sequence[str]],
    own_head: str | None = None,
    inputs: Mapping[str, Inputs] | None = None,
) -> Checkpoint:
    """A model, its vocabulary and its labels as a checkpoint; the weights are not copied."""
    if not isinstance(model, RobertaModel):
        raise InputTypeError(
            f"save writes roberta_hub models, this is a "
            f"{type(model).__module__}.{type(model).__name__}; "
            "turn it into ours with roberta_hub.fairseq_bridge.from_fairseq"
        )
    weights = dict(model.state_dict())
    if not model.config.untie_weights:
        weights.pop(LM_WEIGHT, None)
    label_dictionary = getattr(task, "label_dictionary", None)
    heads = {*model.classification_heads, *model.token_heads, *model.span_heads}
    return Checkpoint(
        config=model.config,
        weights=weights,
        source="the model in memory",
        dictionary=tokenizer.dictionary.dumps(with_mask=False),
        label_dictionary=label_dictionary.dumps()
        if isinstance(label_dictionary, Dictionary)
        else None,
        labels={
            head: tuple(names)
            for head, names in labels.items()
            if head in heads and head not in model.span_heads
        },
        own_head=own_head if own_head in heads else None,
        inputs={head: given for head, given in (inputs or {}).items() if head in heads},
        task=getattr(task, "name", "masked_lm"),
        init_token=getattr(task, "init_token", None),
    )


def write(
    checkpoint: Checkpoint,
    tokenizer: Tokenizer,
    directory: str | os.PathLike[str],
    format: str,
    head: str | None,
) -> None:
    """Write a checkpoint in one of `FORMATS`.

    Raises:
        CheckpointError: the format cannot express the model, or the disk refuses; what was there
            stays, and what was not there is not there.
        InputError: no such format, or a path that cannot be.
        InputTypeError: `directory` is no path.
    """
    # Not at the top: torch.hub's users load models without it (`dependencies` in hubconf.py).
    from safetensors import SafetensorError

    if not isinstance(format, str) or format not in FORMATS:
        raise InputError(f"format is {shown(format)}; choose {', '.join(FORMATS)}")
    if not (head is None or isinstance(head, str)):
        raise InputTypeError(f"head is a {kind_of(head)}; pass a head's name")
    directory = path_of("the directory to save into", directory)
    try:
        _check_vacant(directory, format)
        with replacing_all(directory, FORMATS[format]) as work:
            _write(checkpoint, tokenizer, work, format, head)
    except RobertaHubError:
        raise
    except (
        OSError,
        RuntimeError,
        SafetensorError,
    ) as error:  # RuntimeError: torch.save, a full disk
        raise CheckpointError(
            f"{str(directory)[:300]}: cannot be written ({type(error).__name__}: "
            f"{str(error).splitlines()[0][:200]}); "
            "what was there is as before. Free some room or choose another directory"
        ) from error


def _check_vacant(directory: Path, format: str) -> None:
    """Refuse a directory with a model of another format.

    Loading would find that one, or a mixture.
    """
    there = {"fairseq"} if (directory / "model.pt").is_file() else set()
    if (directory / "config.json").is_file():
        ours = read_json(directory / "config.json").get("format") == "roberta_hub"
        there.add("roberta_hub" if ours else "huggingface")
    if there - {format}:
        raise CheckpointError(
            f"{directory} holds a model of format {', '.join(sorted(there - {format}))!r}, which a "
            f"save as "
            f"{format!r} would not replace but mix with; choose another directory"
        )


def _write(
    checkpoint: Checkpoint, tokenizer: Tokenizer, directory: Path, format: str, head: str | None
) -> None:
    own_bpe = tokenizer.bpe is not GPT2BPE.shipped()
    if format == "roberta_hub":
        shipped = tokenizer.dictionary.symbols == Dictionary.roberta().symbols
        write_store(
            dataclasses.replace(checkpoint, dictionary=None) if shipped else checkpoint, directory
        )
        if own_bpe:
            files = tokenizer_files(tokenizer, checkpoint.config.max_positions)
            write_files(directory, {name: files[name] for name in ("vocab.json", "merges.txt")})
    elif format == "fairseq":
        write_fairseq(checkpoint, directory)
        if own_bpe:
            write_files(directory, bpe_files(tokenizer))
    else:
        files = tokenizer_files(tokenizer, checkpoint.config.max_positions)
        write_huggingface(checkpoint, directory, files, head)


def bpe_files(tokenizer: Tokenizer) -> dict[str, bytes]:
    """encoder.json and vocab.bpe, what fairseq calls gpt2_encoder_json and gpt2_vocab_bpe."""
    ids = {piece: int(symbol) for piece, symbol in tokenizer.bpe.printable_ids().items()}
    merges = ["#version: 0.2", *tokenizer.bpe.printable_merges(), ""]
    return {
        "encoder.json": json.dumps(ids, ensure_ascii=False).encode(),
        "vocab.bpe": "\n".join(merges).encode(),
    }


def tokenizer_files(tokenizer: Tokenizer, max_length: int) -> dict[str, bytes]:
    """The files from which transformers builds the same tokenizer.

    vocab.json, merges.txt and tokenizer_config.json.
    """
    vocabulary = {piece: i for i, piece in enumerate(tokenizer.pieces())}
    merges = tokenizer.bpe.printable_merges()
    about = {
        "tokenizer_class": "RobertaTokenizer",
        "model_max_length": max_length,
        "add_prefix_space": False,
    }
    return {
        "vocab.json": json.dumps(vocabulary, ensure_ascii=False).encode(),
        "merges.txt": "\n".join(["#version: 0.2", *merges, ""]).encode(),
        "tokenizer_config.json": json.dumps(about, indent=2).encode(),
    }

"""Model, vocabulary and labels -> a checkpoint in any of the three formats. `hub.py` is the way back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from roberta_hub.checkpoint.contents import LM_WEIGHT, Checkpoint, replacing_all
from roberta_hub.checkpoint.fairseq import write_fairseq
from roberta_hub.checkpoint.huggingface import write_huggingface
from roberta_hub.checkpoint.store import write_store
from roberta_hub.errors import CheckpointError, InputError, InputTypeError, RobertaHubError
from roberta_hub.model.roberta import RobertaModel
from roberta_hub.text.dictionary import Dictionary
from roberta_hub.text.tokenizer import Tokenizer

FORMATS = ("roberta_hub", "fairseq", "huggingface")


def checkpoint_of(
    model: nn.Module, tokenizer: Tokenizer, task: Any, labels: Mapping[str, Sequence[str]]
) -> Checkpoint:
    """What a model, its vocabulary and its labels are as a checkpoint; the weights are not copied."""
    if not isinstance(model, RobertaModel):
        raise InputTypeError(
            f"save writes roberta_hub models, this is a {type(model).__module__}.{type(model).__name__}; "
            "turn it into ours with roberta_hub.fairseq_bridge.from_fairseq"
        )
    weights = dict(model.state_dict())
    if not model.config.untie_weights:
        weights.pop(LM_WEIGHT, None)
    label_dictionary = getattr(task, "label_dictionary", None)
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
            if head in model.classification_heads
        },
        task=getattr(task, "name", "masked_lm"),
        init_token=getattr(task, "init_token", None),
    )


def write(
    checkpoint: Checkpoint, tokenizer: Tokenizer, directory: Path, format: str, head: str | None
) -> None:
    """Write a checkpoint in one of `FORMATS`.

    Raises:
        CheckpointError: the format cannot express the model, or the disk refuses; what was there stays.
    """
    # Not at the top: torch.hub's users load models without it (`dependencies` in hubconf.py).
    from safetensors import SafetensorError

    try:
        with replacing_all(directory) as work:
            _write(checkpoint, tokenizer, work, format, head)
    except RobertaHubError:
        raise
    except (
        OSError,
        RuntimeError,
        SafetensorError,
    ) as error:  # RuntimeError: torch.save, a full disk
        raise CheckpointError(
            f"{directory}: cannot be written ({type(error).__name__}: {str(error).splitlines()[0][:200]}); "
            "what was there is as before. Free some room or choose another directory"
        ) from error


def _write(
    checkpoint: Checkpoint, tokenizer: Tokenizer, directory: Path, format: str, head: str | None
) -> None:
    if format == "roberta_hub":
        write_store(checkpoint, directory)
    elif format == "fairseq":
        write_fairseq(checkpoint, directory)
    elif format == "huggingface":
        write_huggingface(
            checkpoint, directory, tokenizer_files(tokenizer, checkpoint.config.max_positions), head
        )
    else:
        raise InputError(f"format is {format!r}; choose {', '.join(FORMATS)}")


def tokenizer_files(tokenizer: Tokenizer, max_length: int) -> dict[str, bytes]:
    """vocab.json, merges.txt and tokenizer_config.json, from which transformers builds the same tokenizer."""
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

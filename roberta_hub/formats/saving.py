"""Saves a model, its vocabulary and its labels in any of the formats; `hub.py` loads them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from roberta_hub.arguments import kind_of, path_of, short_repr
from roberta_hub.checkpoint.checkpoint import LM_WEIGHT, Checkpoint
from roberta_hub.errors import CheckpointError, InputError, InputTypeError, RobertaHubError
from roberta_hub.files import publishing_all, reason_of
from roberta_hub.folder import Folder
from roberta_hub.formats.huggingface import description, files_beside
from roberta_hub.formats.source import FORMATS, formats_in
from roberta_hub.formats.tokenizer_files import is_written_by_its_class
from roberta_hub.model.known_head import whole_heads
from roberta_hub.model.roberta import require_roberta
from roberta_hub.model.sentence_layers import PREFIX, layers_of
from roberta_hub.rows.values import is_utf8
from roberta_hub.settings import Head, SentenceSettings, ZeroShotSettings, column
from roberta_hub.text.dictionary import Dictionary
from roberta_hub.text.tokenizer import Tokenizer

EXPORTS = {"onnx": ("model.onnx", "model.onnx.data"), "torch": ("model.pt2",)}
"""Model files of `export` by format; the first is always there."""
EXPORTED = {"exported_by": "roberta_hub"}
"""Marks config.json in such a folder: only what has it may be replaced."""
THRESHOLDS = "roberta_hub_thresholds"
"""Its key for the least probability that gives each label, where they were chosen."""


def checkpoint_of(
    model: nn.Module,
    known: Mapping[str, Head],
    tokenizer: Tokenizer,
    task: Any,
    default_head: str | None = None,
    *,
    sentence: SentenceSettings | None = None,
    zero_shot: ZeroShotSettings | None = None,
    family: str = "roberta",
    learnt: frozenset[str] = frozenset(),
) -> Checkpoint:
    """Put a model, its heads and its vocabulary into a checkpoint; the weights are not copied."""
    model = require_roberta(model, "save writes")
    weights = dict(model.state_dict())
    if not model.config.untie_weights:
        weights.pop(LM_WEIGHT, None)
    layers_of(model, sentence.layers if sentence is not None else ())  # its error
    if sentence is None or not sentence.layers:
        weights = {name: own for name, own in weights.items() if not name.startswith(PREFIX)}
    if sentence is not None and "pooler" in sentence.pooling and model.pooler is None:
        raise InputError(
            "sentence.pooling is 'pooler', and this model has no pooler; set another pooling"
        )
    label_dictionary = getattr(task, "label_dictionary", None)
    heads = whole_heads(model, known)
    return Checkpoint(
        config=model.config,
        weights=weights,
        source="the model in memory",
        dictionary=tokenizer.dictionary.dumps(with_mask=False)
        if tokenizer.dictionary.as_fairseq
        else None,  # the engine's files hold it
        label_dictionary=label_dictionary.dumps()
        if isinstance(label_dictionary, Dictionary)
        else None,
        known_heads=heads,
        default_head=default_head if default_head in heads else None,
        task=getattr(task, "name", "masked_lm"),
        init_token=getattr(task, "init_token", None),
        sentence=sentence,
        family=family,
        zero_shot=zero_shot,
        learnt=learnt,
    )


def write(
    checkpoint: Checkpoint,
    tokenizer: Tokenizer,
    directory: str | os.PathLike[str],
    format: str,
    head: str | None,
) -> None:
    """Write a checkpoint in one of `FORMATS`."""
    known = {known.name: known for known in FORMATS}
    if not isinstance(format, str) or format not in known:
        raise InputError(f"format is {short_repr(format)}; choose {', '.join(known)}")
    if not (head is None or isinstance(head, str)):
        raise InputTypeError(f"head is a {kind_of(head)}; pass a head's name")
    directory = path_of("the directory to save into", directory)
    if os.path.isfile(directory):  # which a name that is too long does not stop
        raise CheckpointError(
            f"{str(directory)[:300]} cannot be written: it is a file, and a model is saved as a "
            "directory; the file is as it was; choose another directory"
        )
    _check_labels(checkpoint)
    try:
        _check_vacant(directory, format)
        with publishing_all(directory, known[format].passing) as work:
            known[format].write(checkpoint, tokenizer, work, head)
    except RobertaHubError:
        raise
    except (OSError, RuntimeError) as error:  # RuntimeError: torch.save
        raise CheckpointError(
            f"{str(directory)[:300]}: cannot be written ({reason_of(error)}); what was there is as "
            "before. Free some room or choose another directory"
        ) from error


def _check_labels(checkpoint: Checkpoint) -> None:
    """Refuse a label that no file can hold."""
    for head, labels in column(checkpoint.known_heads, "labels").items():
        if broken := [label for label in labels if not is_utf8(label)]:
            raise CheckpointError(
                f"head {head!r}: label {short_repr(broken[0])} holds half of a surrogate pair, "
                "which no file can hold; give the class another name: roberta.labels[HEAD] = [...]"
            )


def _check_vacant(directory: Path, format: str) -> None:
    """Refuse a directory with a model of another format, or with an exported one.

    Loading would find that model, or a mixture of both; servers prefer model.onnx to new weights.
    """
    exported = [name for names in EXPORTS.values() for name in names]
    if there := [name for name in exported if os.path.lexists(directory / name)]:
        raise CheckpointError(
            f"{directory} holds an exported model ({', '.join(there)}), which a save as {format!r} "
            "would not replace but mix with; choose another directory"
        )
    if others := formats_in(Folder(directory)) - {format}:
        raise CheckpointError(
            f"{directory} holds a model of format {', '.join(sorted(others))!r}, which a "
            f"save as {format!r} would not replace but mix with; choose another directory"
        )


def beside_weights(
    checkpoint: Checkpoint, tokenizer: Tokenizer, head: str | None
) -> dict[str, bytes]:
    """Make the files of an export that hold no weights: those of Hugging Face's format, marked."""
    about = description(checkpoint, head, ends=(tokenizer.bos, tokenizer.eos)) | EXPORTED
    if (thresholds := checkpoint.known(head or "").thresholds) is not None:
        about[THRESHOLDS] = list(thresholds)
    for fact in ("reject_below", "known_pieces"):
        if (value := getattr(checkpoint.known(head or ""), fact)) is not None:
            about[f"roberta_hub_{fact}"] = value
    files = files_beside(checkpoint, tokenizer) if is_written_by_its_class(tokenizer) else {}
    return files | {"config.json": json.dumps(about, indent=2, ensure_ascii=False).encode()}

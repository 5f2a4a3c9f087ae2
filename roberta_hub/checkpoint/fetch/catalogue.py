"""Finds the record of a model by name, and checks a checkpoint against it."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from pathlib import Path

from roberta_hub.checkpoint.checkpoint import HEADS, Checkpoint
from roberta_hub.checkpoint.fetch.records import MODELS, Kind, Record, Remote
from roberta_hub.config import FAIRSEQ_FIELDS, RobertaConfig
from roberta_hub.errors import CheckpointError
from roberta_hub.settings import Head, column, with_columns

SHAPE_FIELDS = (
    "vocab_size",
    "padding_idx",
    "max_positions",
    "embed_dim",
    "embedding_dim",
    "ffn_dim",
    "num_layers",
    "num_unique_layers",
    "num_heads",
    "normalize_before",
    "layernorm_embedding",
    "untie_weights",
)
"""Configuration fields in which a model must match its record."""


def is_bundled(record: Record) -> bool:
    """Whether a model is part of the package, so nothing is downloaded.

    Example:
        >>> is_bundled(find_record("roberta.base")), is_bundled(find_record("roberta.tiny"))
        (False, True)
    """
    return any(origin.kind == "package" for origin in record.origins)


DOWNLOADED_MODELS = tuple(record for record in MODELS if not is_bundled(record))
"""The models that are downloaded."""


def config_of(record: Record) -> RobertaConfig:
    """Configuration of a named model, without a download.

    Example:
        >>> config_of(MODELS[1]).num_layers
        24
    """
    return RobertaConfig(**record.shape)


def files_of(record: Record, kind: Kind) -> tuple[Remote, ...]:
    """Files that one publisher has of a model; empty if none.

    Example:
        >>> [file.name for file in files_of(MODELS[0], "fairseq")]
        ['roberta.base.tar.gz']
        >>> files_of(find_record("roberta.tiny"), "fairseq")
        ()
    """
    return tuple(file for origin in record.origins if origin.kind == kind for file in origin.files)


def bundled_path(record: Record) -> Path:
    """Folder of a model that is part of the package.

    Example:
        >>> folder = bundled_path(find_record("roberta.tiny"))
        >>> [path.name for path in folder.glob("*.safetensors")]
        ['model.safetensors']
    """
    return Path(__file__).resolve().parents[2] / "models" / record.name.rpartition(".")[2]


def find_record(name: str) -> Record | None:
    """Record by name or alias, Hugging Face's included; None if there is no such model.

    Example:
        >>> find_record("roberta_large_mnli").name, find_record("FacebookAI/xlm-roberta-base").name
        ('roberta.large.mnli', 'xlmr.base')
        >>> find_record("bert-base") is None
        True
    """
    return next((record for record in MODELS if name in names_of(record)), None)


def names_of(record: Record) -> tuple[str, ...]:
    """All names of a model, the canonical one first.

    Example:
        >>> names_of(find_record("roberta.base"))
        ('roberta.base', 'roberta_base', 'FacebookAI/roberta-base', 'roberta-base')
    """
    return (record.name, *record.aliases, *record.elsewhere)


def suggestions(name: str) -> list[str]:
    """Canonical names closest to `name`, for "did you mean".

    Example:
        >>> suggestions("roberta-large-mnli")[0]
        'roberta.large.mnli'
        >>> suggestions("Roberta_Base")[0]
        'roberta.base'
        >>> suggestions("FacebookAI/roberta-base")[0]
        'roberta.base'
        >>> suggestions("google/bert-base-uncasd")[0]
        'bert.base.uncased'
        >>> suggestions("gpt2")
        []
    """
    known: dict[str, str] = {}
    for record in reversed(MODELS):  # for equal spellings the first record wins
        known |= {_spelling(other): record.name for other in names_of(record)}
    near = difflib.get_close_matches(_spelling(name), known, n=9, cutoff=0.7)
    return list(dict.fromkeys(known[spelling] for spelling in near))[:3]


def _spelling(name: str) -> str:
    """Normalize a name: lower case, dots, no owner and no suffix."""
    bare = name[-200:].rstrip("/").rpartition("/")[2].lower().removesuffix(".tar.gz")
    return bare.replace("_", ".").replace("-", ".")


def apply_head_names(record: Record, checkpoint: Checkpoint) -> None:
    """Set names, labels and inputs of a checkpoint's heads from its record.

    fairseq's files do not name the labels. Hugging Face's files do not name the head, and write
    the labels in capitals: `CONTRADICTION`.
    """
    theirs = [head for head in checkpoint.heads() if head not in record.labels]
    lacking = [head for head in record.labels if head not in checkpoint.heads()]
    if len(theirs) == len(lacking) == 1:
        (old,), (new,) = theirs, lacking
        for key in [key for key in checkpoint.weights if key.startswith(f"{HEADS}{old}.")]:
            checkpoint.weights[HEADS + new + key[len(HEADS + old) :]] = checkpoint.weights.pop(key)
        known = checkpoint.known_heads.pop(old, Head())
        labels = tuple(label.lower() for label in known.labels or ())
        # A file that names its labels also has their order.
        same = sorted(labels) == sorted(record.labels[new])
        checkpoint.known_heads[new] = dataclasses.replace(known, labels=labels if same else None)
    own = checkpoint.known_heads
    checkpoint.known_heads = with_columns(
        own,
        labels={**record.labels, **column(own, "labels")},
        inputs={**record.inputs, **column(own, "inputs")},
    )
    checkpoint.default_head = checkpoint.default_head or record.default_head


def check_shape(
    record: Record, checkpoint: Checkpoint, overrides: Mapping[str, object], folder: Path
) -> None:
    """Refuse a checkpoint whose shape is not that of the named model.

    Args:
        record: its shape is compared, except fields it is unsure of.
        checkpoint: as read, with `overrides`.
        overrides: fairseq's arguments that the caller changed; their fields are not compared.
        folder: where it was read from, for the message.
    """
    asked = {FAIRSEQ_FIELDS.get(name) for name in overrides}
    if "encoder_layers_to_keep" in overrides:
        asked.add("num_layers")
    config = config_of(record)
    for name in SHAPE_FIELDS:
        found, stated = getattr(checkpoint.config, name), getattr(config, name)
        if found != stated and name not in record.unsure and name not in asked:
            remedy = (
                "reinstall roberta-hub"
                if is_bundled(record)
                else f"delete {folder} and load again, or load it by its path as the model that "
                "it is"
            )
            raise CheckpointError(
                f"{folder} holds another model than {record.name}: its {name} is {found}, that of "
                f"{record.name} is {stated}; {remedy}"
            )

"""Reads the settings of a cross-encoder that sentence-transformers saved.

A cross-encoder is a Hugging Face model with a head for pairs. Its prompt, its length and its
activation function change its scores: each is honoured or refused by name.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from roberta_hub.arguments import brief
from roberta_hub.checkpoint.checkpoint import Checkpoint
from roberta_hub.errors import CheckpointError, Remedy
from roberta_hub.folder import Folder
from roberta_hub.formats.sentence_transformers import LOADING_KEYS
from roberta_hub.settings import HeadKind

_MODEL = "config_sentence_transformers.json"
_BODY = "sentence_bert_config.json"
_TORCH = "torch.nn."
"""How the names of functions begin that sentence-transformers takes unasked."""
_ONE = ("Identity", "Sigmoid", "Tanh")
"""Activation functions of one output. They order texts alike; `rank` gives the sigmoid."""
_SEVERAL = ("Identity", "Softmax", "Sigmoid")
"""Activation functions of several outputs. The last makes a head of any number of labels."""
_KINDS: dict[str, HeadKind] = {"Softmax": "single_label", "Sigmoid": "multi_label"}
"""Kind of a head with several outputs, by its activation function; Identity does not tell it."""
_MODEL_KEYS = {"model_type", "prompts", "default_prompt_name", "activation_fn"} | {
    "similarity_fn_name",
    "__version__",
    "requirements",  # without effect on pairs
}
_BODY_KEYS = {
    "max_seq_length",
    "do_lower_case",
    "processor_kwargs",
    "tokenizer_args",
    "transformer_task",
    "modality_config",
    "module_output_name",
    "unpad_inputs",
    "model_kwargs",
    "model_args",
}
_TOKENIZER_KEYS = ("processor_kwargs", "tokenizer_args")
_KNOWN = {
    **{key: {"model_max_length"} for key in _TOKENIZER_KEYS},
    **dict.fromkeys(("model_kwargs", "model_args"), LOADING_KEYS),
}
"""Which settings these may have."""


def read_cross_encoder(
    checkpoint: Checkpoint, hf: Mapping[str, Any], sentences: Folder | None, body: Folder
) -> None:
    """Put what a cross-encoder's activation function says into the checkpoint; refuse the rest."""
    folder = body if sentences is None else sentences
    model = {} if sentences is None else sentences.optional(_MODEL)
    if model.get("model_type") == "CrossEncoder":
        _check_keys(model, _MODEL_KEYS, folder / _MODEL)
        _check_prompt(model, folder)
        _check_body(body, checkpoint.config.max_positions)
    older = hf.get("sentence_transformers")
    for place, given in (
        (f"{body / 'config.json'}: sentence_transformers.activation_fn", _named(older)),
        (
            f"{body / 'config.json'}: sbert_ce_default_activation_function",
            hf.get("sbert_ce_default_activation_function"),
        ),
        (f"{folder / _MODEL}: activation_fn", _named(model)),
    ):
        if given is not None:
            _apply(given, place, checkpoint)


def _named(table: object) -> object:
    return table.get("activation_fn") if isinstance(table, dict) else None


def _apply(given: object, place: str, checkpoint: Checkpoint) -> None:
    """Honour an activation function, or refuse it."""
    name = given.rpartition(".")[2] if isinstance(given, str) else ""
    known = isinstance(given, str) and given.startswith(_TORCH)
    for head, (count, _) in checkpoint.heads().items():
        read = _ONE if count == 1 else _SEVERAL
        if not known or name not in read:
            raise CheckpointError(
                f"{place} is {brief(given)}, which is not read here; of a head with {count} "
                f"output{'s' * (count > 1)} torch.nn's {', '.join(read)} are",
                remedy=Remedy("take the key out: rank and classify answer as they do without it"),
            )
        if count > 1 and name in _KINDS:  # whatever problem_type says, which the package ignores
            own = dataclasses.replace(checkpoint.known(head), kind=_KINDS[name])
            checkpoint.known_heads[head] = own


def _check_keys(settings: Mapping[str, Any], known: set[str], path: Path) -> None:
    """Refuse what is set under a name that has no place here."""
    more = sorted(key for key, value in settings.items() if value and key not in known)
    if more:
        raise CheckpointError(
            f"{path} has {brief(more[0])}, which is not read here for a cross-encoder",
            remedy=Remedy("take it out where it changes no score"),
        )


def _check_prompt(model: Mapping[str, Any], folder: Folder) -> None:
    """Refuse a prompt that would be put before each pair."""
    prompts, name = model.get("prompts") or {}, model.get("default_prompt_name")
    if name is not None and not (isinstance(prompts, dict) and prompts.get(name) == ""):
        raise CheckpointError(
            f"{folder / _MODEL}: default_prompt_name is {brief(name)}, and prompts of a "
            "cross-encoder are not read here",
            remedy=Remedy(
                "set it to null, and write the prompt before the first text of each pair yourself"
            ),
        )


def _check_body(folder: Folder, longest: int) -> None:
    """Refuse a length or capitals that the tokenizer's own files do not say."""
    body = folder.optional(_BODY)
    _check_keys(body, _BODY_KEYS, folder / _BODY)
    own = folder.optional("tokenizer_config.json").get("model_max_length")
    limit = min(longest, own) if isinstance(own, int) else longest
    lengths = {"max_seq_length": body.get("max_seq_length")}
    for key, known in _KNOWN.items():
        given = body.get(key) or {}
        more = {*given} - known if isinstance(given, dict) else {brief(given)}
        if more:
            raise _unread(folder, f"{key} with {brief(min(more))}", "take it out")
        lengths[f"{key}.model_max_length"] = given.get("model_max_length")
    for key, length in lengths.items():
        if length is not None and not (isinstance(length, int) and length >= limit):
            raise _unread(
                folder,
                f"{key} {brief(length)}",
                "write it as model_max_length into tokenizer_config.json",
            )
    if body.get("do_lower_case"):
        raise _unread(
            folder,
            f"do_lower_case {brief(body['do_lower_case'])}",
            "write it into tokenizer_config.json, or give lower-case texts",
        )


def _unread(folder: Folder, what: str, remedy: str) -> CheckpointError:
    return CheckpointError(
        f"{folder / _BODY} asks for {what}, which is not read there for a cross-encoder",
        remedy=Remedy(remedy),
    )

"""Reads and writes the settings of a sentence-transformers directory.

modules.json lists the parts in order: the model itself, the pooling, perhaps a normalization. Its
dotted names are data: they are compared with a short list, and nothing is imported.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from roberta_hub.arguments import brief
from roberta_hub.errors import CheckpointError, InputError
from roberta_hub.folder import Folder
from roberta_hub.settings import MAX_LENGTH, SentenceSettings

MODULES_FILE = "modules.json"
_MODEL = "config_sentence_transformers.json"
_BODY = "sentence_bert_config.json"
_POOLING = "1_Pooling"
_NORMALIZE = "2_Normalize"
SETTINGS_FILES = (
    MODULES_FILE,
    _MODEL,
    _BODY,
    f"{_POOLING}/config.json",
    f"{_NORMALIZE}/config.json",
)
"""What `sentence_files` may write."""
_BODIES = (
    _BODY,
    *(
        f"sentence_{kind}_config.json"
        for kind in ("roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
    ),
)
"""Names that the settings of the model's part have had; the first that is there counts."""
_PACKAGE = "sentence_transformers."
"""How the names of its own modules begin; others name code that comes with a model."""
_CHAINS = (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"])
MAX_MODULES = 100
"""Most entries of modules.json; models have two or three."""
_FOLDER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
"""The name of a part's folder: nothing that leads out of the directory."""
_MODES = {"cls": "cls", "max": "max", "mean": "mean", "mean_sqrt_len_tokens": "mean_sqrt_len"}
"""Their name of a pooling -> ours."""
_SWITCHES = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len",
}
"""The older spelling, one switch a pooling -> ours, in the order in which vectors are joined."""
_UNREAD = (
    "processing_kwargs",
    "query_length",
    "document_length",
    "query_expansion",
    "config_args",
    "config_kwargs",
)
"""Settings of the model's part that change its vectors and are not read here."""


def find_body(folder: Folder) -> Folder:
    """Find the folder of the model itself: the given one, or `0_Transformer` in older ones.

    Args:
        folder: holds modules.json.

    Raises:
        CheckpointError: modules.json is damaged, names a folder elsewhere or a part that is not
            read here.
    """
    return _parts(folder)[0][1]


def read_sentence_settings(folder: Folder) -> SentenceSettings | None:
    """Read how a model makes sentence vectors; None: it is a cross-encoder, which makes none.

    Args:
        folder: holds modules.json.

    Raises:
        CheckpointError: a file is damaged, or asks for something that is not read here; the message
            names it.
    """
    parts = _parts(folder)
    model, inside = folder.optional(_MODEL), parts[0][1]
    body = next((inside.json(name) for name in _BODIES if inside.has(name)), {})
    kind = model.get("model_type", "SentenceTransformer")
    if kind not in ("SentenceTransformer", "CrossEncoder"):
        raise _unread(folder / _MODEL, f"model_type {brief(kind)}")
    chain = [name for name, _ in parts]
    if kind == "CrossEncoder" and chain == ["Transformer"]:
        return None
    if chain not in _CHAINS:
        raise _unread(folder / MODULES_FILE, f"the parts {', '.join(chain)}")
    _check_body(body, inside)
    if len(parts) > 2:
        _check_normalize(parts[2][1])
    prompts = model.get("prompts") or {}
    if not isinstance(prompts, dict):
        raise CheckpointError(f"{folder / _MODEL}: prompts is {brief(prompts)}, not an object")
    if (dimensions := model.get("truncate_dim")) is not None:
        raise _unread(folder / _MODEL, f"truncate_dim {brief(dimensions)}")
    try:
        return SentenceSettings(
            pooling=_pooling(parts[1][1]),
            normalize=len(parts) > 2,
            max_length=_max_length(body, inside),
            prompts={name: "" if text is None else text for name, text in prompts.items()},
            default_prompt=model.get("default_prompt_name"),
            lower_case=body.get("do_lower_case", False),
            similarity=model.get("similarity_fn_name") or "cosine",
        )
    except InputError as error:
        raise CheckpointError(error.what, place=str(folder), remedy=error.remedy) from None


def sentence_files(settings: SentenceSettings, width: int, longest: int) -> dict[str, bytes]:
    """Make the files from which sentence-transformers, old and new, computes the same vectors.

    Args:
        settings: of the model.
        width: C, of its hidden states.
        longest: what the model takes, in tokens.
    """
    chain = [("", "Transformer"), (_POOLING, "Pooling")]
    if settings.normalize:
        chain.append((_NORMALIZE, "Normalize"))
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"{_PACKAGE}models.{kind}"}
        for i, (path, kind) in enumerate(chain)
    ]
    pooling: dict[str, object] = {"word_embedding_dimension": width}
    pooling |= {switch: mode in settings.pooling for switch, mode in _SWITCHES.items()}
    if settings.pooling != tuple(mode for mode in _SWITCHES.values() if mode in settings.pooling):
        theirs = {ours: name for name, ours in _MODES.items()}  # an order that switches cannot say
        pooling["pooling_mode"] = [theirs[mode] for mode in settings.pooling]
    about = {
        "model_type": "SentenceTransformer",
        "prompts": settings.prompts,
        "default_prompt_name": settings.default_prompt,
        "similarity_fn_name": settings.similarity,
    }
    # Always a number, within what the model takes: text-embeddings-inference reads no null.
    limit = min(settings.max_length or longest, longest)
    body = {"max_seq_length": limit, "do_lower_case": settings.lower_case}
    files: dict[str, object] = {
        MODULES_FILE: modules,
        _MODEL: about,
        _BODY: body,
        f"{_POOLING}/config.json": pooling,
    }
    if settings.normalize:
        files[f"{_NORMALIZE}/config.json"] = {}
    return {
        name: json.dumps(value, indent=2, ensure_ascii=False).encode()
        for name, value in files.items()
    }


def _parts(folder: Folder) -> list[tuple[str, Folder]]:
    """Read modules.json: each part's kind, and its folder."""
    path, listed = folder / MODULES_FILE, folder.json_list(MODULES_FILE)
    if not 1 <= len(listed) <= MAX_MODULES:
        raise CheckpointError(f"{path}: {len(listed)} parts, must be 1 to {MAX_MODULES}")
    parts = []
    for number, entry in enumerate(listed):
        if not isinstance(entry, dict):
            raise CheckpointError(f"{path}: part {number} is {brief(entry)}, not an object")
        parts.append((_kind(entry.get("type"), path), _folder(entry.get("path"), folder)))
    if parts[0][0] != "Transformer":
        raise _unread(path, f"a {parts[0][0]} as the first part")
    return parts


def _kind(dotted: object, path: Path) -> str:
    """Return the last part of a module's name, which must be one of the package's own."""
    name = dotted.rpartition(".")[2] if isinstance(dotted, str) else None
    if name not in _CHAINS[1] or not str(dotted).startswith(_PACKAGE):
        raise _unread(path, f"the part {brief(dotted)}")
    return str(name)


def _folder(place: object, folder: Folder) -> Folder:
    """Folder of a module, which is in the given one or the given one itself."""
    if place in ("", "."):
        return folder
    if not isinstance(place, str) or not _FOLDER.fullmatch(place.removesuffix("/")):
        raise CheckpointError(
            f"{folder / MODULES_FILE}: {brief(place)} is no folder of {folder}; a part lies in a "
            "folder right below, whose name has letters, digits, '_', '-' and '.'"
        )
    part = folder.folder(place)
    if part.path.is_symlink():
        raise CheckpointError(f"{part} is a link to a folder elsewhere; put the folder there")
    return part


def _unread(path: Path, what: str) -> CheckpointError:
    return CheckpointError(
        f"{path} asks for {what[:200]}, which is not read here: sentence encoders of a "
        f"{', '.join(_CHAINS[1][:-1])} and perhaps a {_CHAINS[1][-1]} are. For the model alone, "
        "give its file of weights"
    )


def _check_body(body: Mapping[str, Any], folder: Folder) -> None:
    """Refuse settings of the model's part by which its vectors would be others."""
    path = folder / _BODY
    for name in _UNREAD:
        if body.get(name):
            raise _unread(path, f"{name} {brief(body[name])}")
    if (task := body.get("transformer_task", "feature-extraction")) != "feature-extraction":
        raise _unread(path, f"transformer_task {brief(task)}")
    modality = body.get("modality_config")
    text = modality.get("text") if isinstance(modality, dict) else {}
    output = text.get("method_output_name") if isinstance(text, dict) else text
    if modality is not None and output != "last_hidden_state":
        raise _unread(path, f"modality_config {brief(modality)}")


def _check_normalize(folder: Folder) -> None:
    path, settings = folder / "config.json", folder.optional("config.json")
    for name in ("module_input_name", "module_output_name"):
        if settings.get(name) not in (None, "sentence_embedding"):
            raise _unread(path, f"{name} {brief(settings[name])}")


def _pooling(folder: Folder) -> tuple[str, ...]:
    """Read the names of the poolings in either spelling."""
    path, settings = folder / "config.json", folder.json("config.json")
    if settings.get("include_prompt", True) is not True:
        raise _unread(path, f"include_prompt {brief(settings['include_prompt'])}")
    given = settings.get("pooling_mode")
    if given is not None:
        modes = [given] if isinstance(given, str) else given
        if not isinstance(modes, list) or not all(isinstance(mode, str) for mode in modes):
            raise CheckpointError(f"{path}: pooling_mode is {brief(given)}, not a name or a list")
        for mode in modes:
            if mode not in _MODES:
                raise _unread(path, f"pooling_mode {brief(mode)}")
        return tuple(_MODES[mode] for mode in modes)
    switches = {name: on for name, on in settings.items() if name.startswith("pooling_mode_")}
    for name, on in switches.items():
        if not isinstance(on, bool):
            raise CheckpointError(f"{path}: {brief(name)} is {brief(on)}, must be true or false")
        if on and name not in _SWITCHES:
            raise _unread(path, brief(name))
    return tuple(mode for name, mode in _SWITCHES.items() if switches.get(name)) or ("mean",)


def _max_length(body: Mapping[str, Any], folder: Folder) -> Any:
    """Read the longest input in tokens; None: what the model takes."""
    given = body.get("processor_kwargs") or body.get("tokenizer_args") or {}
    if not isinstance(given, dict) or not {*given} <= {"model_max_length"}:
        raise _unread(folder / _BODY, f"settings of the tokenizer {brief(given)}")
    length = given.get("model_max_length", body.get("max_seq_length"))
    if length is None:  # newer directories have it there
        length = folder.optional("tokenizer_config.json").get("model_max_length")
        length = length if type(length) is int else None
    unlimited = type(length) is int and length > MAX_LENGTH  # transformers writes 1e30
    return None if unlimited else length  # of any type: SentenceSettings checks it

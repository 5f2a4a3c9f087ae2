"""Reads and writes the settings of a sentence-transformers directory.

modules.json lists the parts in order: the model itself, the pooling, perhaps layers over its vector
and a normalization. Its dotted names are data: they are compared with a short list, and nothing is
imported.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from roberta_hub.arguments import brief
from roberta_hub.checkpoint.converted import RawCheckpoint
from roberta_hub.errors import CheckpointError, InputError, Remedy
from roberta_hub.folder import Folder
from roberta_hub.formats.shards import WHOLE, read_weights
from roberta_hub.model.sentence_layers import PREFIX
from roberta_hub.settings import MAX_LAYERS, MAX_LENGTH, SentenceLayer, SentenceSettings

MODULES_FILE = "modules.json"
MODEL_FILE = "config_sentence_transformers.json"
_BODY = "sentence_bert_config.json"
_KINDS = {
    "Dense": "dense",
    "LayerNorm": "layer_norm",
    "Dropout": "dropout",
    "Normalize": "normalize",
}
"""Their name of a layer over a pooled vector -> ours."""
SETTINGS_FILES = (
    MODULES_FILE,
    MODEL_FILE,
    _BODY,
    *(
        f"{number}_{kind}/{name}"
        for number in range(1, MAX_LAYERS + 3)
        for kind in ("Pooling", *_KINDS)
        for name in ("config.json", *WHOLE[:1])
    ),
)
"""What `sentence_files` may write."""
BODY_FILES = (
    _BODY,
    *(
        f"sentence_{kind}_config.json"
        for kind in ("roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
    ),
)
"""Names that the settings of the model's part have had; the first that is there counts."""
_PACKAGE = "sentence_transformers."
"""How the names of its own modules begin; others name code that comes with a model."""
_MODULES = ("Transformer", "Pooling", *_KINDS)
_NORM = ("norm.weight", "norm.bias")
"""The weights of a LayerNorm."""
MAX_MODULES = 100
"""Most entries of modules.json; models have two or three."""
_FOLDER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
"""The name of a part's folder: nothing that leads out of the directory."""
_MODES = {
    "cls": "cls",
    "max": "max",
    "mean": "mean",
    "mean_sqrt_len_tokens": "mean_sqrt_len",
    "weightedmean": "weighted_mean",
    "lasttoken": "last_token",
}
"""Their name of a pooling -> ours."""
_SWITCHES = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len",
    "pooling_mode_weightedmean_tokens": "weighted_mean",
    "pooling_mode_lasttoken": "last_token",
}
"""The older spelling, one switch a pooling -> ours, in the order in which vectors are joined."""
_OLD_SWITCHES = 4
"""How many of them the first versions know; the others are written where they are on."""
_ACTIVATIONS = {
    "tanh": "activation.Tanh",
    "linear": "linear.Identity",
    "relu": "activation.ReLU",
    "gelu": "activation.GELU",
    "swish": "activation.SiLU",
    "sigmoid": "activation.Sigmoid",
    "mish": "activation.Mish",
    "hardswish": "activation.Hardswish",
    "leaky_relu": "activation.LeakyReLU",
    "relu6": "activation.ReLU6",
}
"""Our name of an activation -> the class, in `torch.nn.modules`, without arguments."""
_POOLER = {
    "transformer_task": "feature-extraction",
    "modality_config": {"text": {"method": "forward", "method_output_name": "pooler_output"}},
    "module_output_name": "sentence_embedding",
}
"""What says that the model's own pooler makes the vector, without a part for pooling."""
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
    "model_args",  # of speed and memory
}
LOADING_KEYS = {
    "attn_implementation",
    "dtype",
    "torch_dtype",
    "low_cpu_mem_usage",
    "use_safetensors",
}
"""Settings of `model_kwargs` that change no answer but by rounding."""
_OURS_ALONE = {"trust_remote_code", "use_fast"}
"""Settings of any of theirs that have no effect here."""
_POOLING_KEYS = {"word_embedding_dimension", "embedding_dimension", "pooling_mode"}
_MODEL_KEYS = {
    "model_type",
    "prompts",
    "default_prompt_name",
    "similarity_fn_name",
    "truncate_dim",
    "__version__",
    "requirements",
}


def find_body(folder: Folder) -> Folder:
    """Find the folder of the model itself: the given one, or `0_Transformer` in older ones."""
    return _parts(folder)[0][1]


def part_folders(folder: Folder) -> list[str]:
    """Return the folder of each part, as modules.json names it; "" for the given one."""
    return ["" if own is folder else own.path.name for _, own in _parts(folder)]


def read_sentence_settings(folder: Folder) -> SentenceSettings | None:
    """Read how a model makes sentence vectors; None: it is a cross-encoder, which makes none."""
    parts = _parts(folder)
    model, inside = folder.optional(MODEL_FILE), parts[0][1]
    body = next((inside.json(name) for name in BODY_FILES if inside.has(name)), {})
    kind = model.get("model_type", "SentenceTransformer")
    if kind not in ("SentenceTransformer", "CrossEncoder"):
        raise _unread(folder / MODEL_FILE, f"model_type {brief(kind)}")
    if kind == "CrossEncoder" and len(parts) == 1:
        return None
    _check_keys(model, _MODEL_KEYS, folder / MODEL_FILE)
    pools = parts[1:2] if [name for name, _ in parts[1:2]] == ["Pooling"] else []
    _check_body(body, inside, by_pooler=not pools)
    layers = [(kind, own) for kind, own in parts[1:] if (kind, own) not in pools]
    if any(kind not in _KINDS for kind, _ in layers) or not (pools or _asks_the_pooler(body)):
        listed = ", ".join(name for name, _ in parts)
        raise _unread(folder / MODULES_FILE, f"the parts {listed}")
    prompts = model.get("prompts") or {}
    if not isinstance(prompts, dict):
        raise CheckpointError(f"{folder / MODEL_FILE}: prompts is {brief(prompts)}, not an object")
    # A normalization at the end is a setting of its own.
    normalize = bool(layers) and layers[-1][0] == "Normalize"
    specs = [_layer(kind, own) for kind, own in layers]
    pooling = pools[0][1].json("config.json") if pools else {}
    try:
        return SentenceSettings(
            pooling=_pooling(pools[0][1]) if pools else ("pooler",),
            normalize=normalize,
            max_length=_max_length(body, inside),
            prompts={name: "" if text is None else text for name, text in prompts.items()},
            default_prompt=model.get("default_prompt_name"),
            lower_case=body.get("do_lower_case", False),
            similarity=model.get("similarity_fn_name") or "cosine",
            include_prompt=pooling.get("include_prompt", True),
            truncate_dim=model.get("truncate_dim"),
            layers=tuple(specs[:-1] if normalize else specs),
        )
    except InputError as error:
        field, _, rest = error.what.partition(" ")
        what = f"{_KEYS_OF_FIELDS.get(field, field)} {rest}"
        raise CheckpointError(what, place=str(folder), remedy=error.remedy) from None


_KEYS_OF_FIELDS = {
    "default_prompt": "default_prompt_name",
    "lower_case": "do_lower_case",
    "max_length": "max_seq_length",
    "similarity": "similarity_fn_name",
}
"""Fields of `SentenceSettings` that have another name in the files, which an error says."""


def read_layers(
    folder: Folder, settings: SentenceSettings, *, converted: bool
) -> list[RawCheckpoint]:
    """Read the weights of the layers over pooled vectors, under our names."""
    parts = [(kind, own) for kind, own in _parts(folder) if kind in _KINDS]
    found = []
    for number, (kind, own) in enumerate(parts[: len(settings.layers)]):
        if kind not in ("Dense", "LayerNorm"):
            continue
        name = next(filter(own.has, WHOLE), None)
        if name is None:
            raise CheckpointError(
                f"{own} has no weights of its {kind}: neither {' nor '.join(WHOLE)}, but "
                f"{own.listing()}; copy them there, or for the model alone, give its file of "
                "weights"
            )
        raw = read_weights(own, own / name, converted=converted)
        _check_shapes(kind, raw.weights, own)
        raw.weights = {f"{PREFIX}{number}.{key}": raw.weights[key] for key in raw.weights}
        found.append(raw)
    return found


def sentence_files(
    settings: SentenceSettings,
    width: int,
    longest: int,
    weights: Mapping[str, Tensor] | None = None,
) -> dict[str, bytes]:
    """Make the files from which sentence-transformers, old and new, computes the same vectors."""
    by_pooler = settings.pooling == ("pooler",)
    if "pooler" in settings.pooling and not by_pooler:
        raise CheckpointError(
            f"pooling is {' + '.join(settings.pooling)}, and sentence-transformers takes the "
            "pooler alone",
            remedy=Remedy(
                "save as 'roberta_hub', or set roberta.sentence to another pooling",
                "give --to roberta_hub",
            ),
        )
    about: dict[str, object] = {
        "model_type": "SentenceTransformer",
        "prompts": settings.prompts,
        "default_prompt_name": settings.default_prompt,
        "similarity_fn_name": settings.similarity,
    }
    if settings.truncate_dim is not None:
        about["truncate_dim"] = settings.truncate_dim
    # Always a number, within what the model takes: text-embeddings-inference reads no null.
    limit = min(settings.max_length or longest, longest)
    body: dict[str, object] = {"max_seq_length": limit, "do_lower_case": settings.lower_case}
    configs: list[tuple[str, object]] = []
    if by_pooler:
        body |= _POOLER
    else:
        configs.append(("Pooling", _pooling_config(settings, width)))
    theirs = {ours: name for name, ours in _KINDS.items()}
    arrays = weights or {}
    tensors: dict[int, dict[str, Tensor]] = {}
    for number, layer in enumerate(settings.layers):
        prefix = f"{PREFIX}{number}."
        own = {
            name.removeprefix(prefix): tensor.detach().cpu().contiguous()
            for name, tensor in arrays.items()
            if name.startswith(prefix)
        }
        configs.append((theirs[layer.kind], _layer_config(layer, own)))
        if own:
            tensors[len(configs)] = own
    if settings.normalize:
        configs.append(("Normalize", {}))
    chain = [
        ("", "Transformer"),
        *((f"{i}_{kind}", kind) for i, (kind, _) in enumerate(configs, 1)),
    ]
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"{_PACKAGE}models.{kind}"}
        for i, (path, kind) in enumerate(chain)
    ]
    files: dict[str, object] = {MODULES_FILE: modules, MODEL_FILE: about, _BODY: body}
    files |= {f"{i}_{kind}/config.json": made for i, (kind, made) in enumerate(configs, 1)}
    written = {
        name: json.dumps(value, indent=2, ensure_ascii=False).encode()
        for name, value in files.items()
    }
    if tensors:
        from safetensors.torch import save as safetensors_bytes  # not for all that load

        for number, own in tensors.items():
            name = f"{number}_{configs[number - 1][0]}/{WHOLE[0]}"
            written[name] = safetensors_bytes(own, {"format": "pt"})
    return written


def _pooling_config(settings: SentenceSettings, width: int) -> dict[str, object]:
    """Say a pooling in the older spelling, which every version reads, where it can."""
    pooling: dict[str, object] = {"word_embedding_dimension": width}
    pooling |= {
        switch: mode in settings.pooling
        for number, (switch, mode) in enumerate(_SWITCHES.items())
        if number < _OLD_SWITCHES or mode in settings.pooling
    }
    if settings.pooling != tuple(mode for mode in _SWITCHES.values() if mode in settings.pooling):
        theirs = {ours: name for name, ours in _MODES.items()}  # an order that switches cannot say
        pooling["pooling_mode"] = [theirs[mode] for mode in settings.pooling]
    if not settings.include_prompt:
        pooling["include_prompt"] = False
    return pooling


def _layer_config(layer: SentenceLayer, own: Mapping[str, Tensor]) -> dict[str, object]:
    """Make the config.json of a layer over pooled vectors."""
    if layer.kind == "dropout":
        return {"dropout": layer.rate}
    if layer.kind == "layer_norm":
        return {"dimension": own["norm.weight"].numel()}
    if layer.kind == "normalize":
        return {}
    if layer.activation not in _ACTIVATIONS:
        raise CheckpointError(
            f"a dense layer over vectors has the activation {layer.activation!r}, for which "
            "sentence-transformers has no class",
            remedy=Remedy("save as 'roberta_hub'", "give --to roberta_hub"),
        )
    outputs, inputs = own["linear.weight"].shape
    config: dict[str, object] = {"in_features": inputs, "out_features": outputs}
    config["bias"] = "linear.bias" in own
    config["activation_function"] = f"torch.nn.modules.{_ACTIVATIONS[layer.activation]}"
    return config | ({"use_residual": True} if layer.residual else {})


def _parts(folder: Folder) -> list[tuple[str, Folder]]:
    """Read modules.json: each part's kind, and its folder."""
    path, listed = folder / MODULES_FILE, folder.json_list(MODULES_FILE)
    if not 1 <= len(listed) <= MAX_MODULES:
        raise CheckpointError(f"{path}: {len(listed)} parts, must be 1 to {MAX_MODULES}")
    parts, names = [], set()
    for number, entry in enumerate(listed):
        if not isinstance(entry, dict):
            raise CheckpointError(f"{path}: part {number} is {brief(entry)}, not an object")
        name = entry.get("name", f"part {number}")
        if not isinstance(name, str) or name in names:
            raise CheckpointError(
                f"{path}: part {number} has the name {brief(name)}; each part needs one of its own"
            )
        names.add(name)
        parts.append((_kind(entry.get("type"), path), _folder(entry.get("path"), folder)))
    if parts[0][0] != "Transformer":
        raise _unread(path, f"a {parts[0][0]} as the first part")
    return parts


def _kind(dotted: object, path: Path) -> str:
    """Return the last part of a module's name, which must be one of the package's own."""
    name = dotted.rpartition(".")[2] if isinstance(dotted, str) else None
    if name not in _MODULES or not str(dotted).startswith(_PACKAGE):
        shown = repr(dotted[:150]) if isinstance(dotted, str) else brief(dotted)
        raise _unread(path, f"the part {shown}")
    return str(name)


def _folder(place: object, folder: Folder) -> Folder:
    """Folder of a module, which is in the given one or the given one itself."""
    if place in ("", "."):
        return folder
    if not isinstance(place, str) or not _FOLDER.fullmatch(place.removesuffix("/")):
        raise CheckpointError(
            f"{folder / MODULES_FILE}: {brief(place)} is no folder of {folder}; a part is in a "
            "folder right below, whose name has letters, digits, '_', '-' and '.'"
        )
    part = folder.folder(place)
    if part.path.is_symlink():
        raise CheckpointError(f"{part} is a link to a folder elsewhere; put the folder there")
    return part


def _unread(path: Path, what: str) -> CheckpointError:
    return CheckpointError(
        f"{path} asks for {what[:200]}, which is not read here: sentence encoders of a "
        f"Transformer, a Pooling and perhaps a {', a '.join(_KINDS)} are. For the model alone, "
        "give its file of weights"
    )


def _check_keys(settings: Mapping[str, Any], known: set[str], path: Path) -> None:
    """Refuse a key that is not known, for it may change the vectors."""
    for name in settings:
        if name not in known:
            raise _unread(path, f"{name[:100]} {brief(settings[name])}")


def _asks_the_pooler(body: Mapping[str, Any]) -> bool:
    """Whether the model's own pooler makes the vector."""
    return all(
        body.get(name) == _POOLER[name] for name in ("modality_config", "module_output_name")
    )


def _check_body(body: Mapping[str, Any], folder: Folder, *, by_pooler: bool) -> None:
    """Refuse settings of the model's part by which its vectors would be others."""
    path = folder / _BODY
    for name, value in body.items():
        if name not in _BODY_KEYS and value:
            raise _unread(path, f"{name[:100]} {brief(value)}")
    for name in ("model_kwargs", "model_args"):
        given = body.get(name) or {}
        if not isinstance(given, dict):
            raise CheckpointError(f"{path}: {name} is {brief(given)}, not an object")
        for key in {*given} - LOADING_KEYS - _OURS_ALONE:
            raise _unread(path, f"{name} {brief({key: given[key]})}")
    if (task := body.get("transformer_task", "feature-extraction")) != "feature-extraction":
        raise _unread(path, f"transformer_task {brief(task)}")
    modality = body.get("modality_config")
    if modality is None or (by_pooler and _asks_the_pooler(body)):
        return
    text = modality.get("text") if isinstance(modality, dict) else {}
    output, method = (
        (text.get("method_output_name"), text.get("method", "forward"))
        if isinstance(text, dict)
        else (text, "forward")
    )
    if output not in ("last_hidden_state", ["last_hidden_state"]) or method != "forward":
        raise _unread(path, f"modality_config {brief(modality)}")
    if (made := body.get("module_output_name")) != "token_embeddings":
        raise _unread(path, f"module_output_name {brief(made)}")


def _pooling(folder: Folder) -> tuple[str, ...]:
    """Read the names of the poolings in either spelling."""
    path, settings = folder / "config.json", folder.json("config.json")
    given = settings.get("pooling_mode")
    switches = {name: on for name, on in settings.items() if name.startswith("pooling_mode_")}
    _check_keys(settings, {*_POOLING_KEYS, "include_prompt", *switches}, path)
    if given is not None:
        modes = [given] if isinstance(given, str) else given
        if not isinstance(modes, list) or not all(isinstance(mode, str) for mode in modes):
            raise CheckpointError(f"{path}: pooling_mode is {brief(given)}, not a name or a list")
        for mode in modes:
            if mode not in _MODES:
                raise _unread(path, f"pooling_mode {brief(mode)}")
        return tuple(_MODES[mode] for mode in modes)
    for name, on in switches.items():
        if not isinstance(on, bool):
            raise CheckpointError(f"{path}: {brief(name)} is {brief(on)}, must be true or false")
        if on and name not in _SWITCHES:
            raise _unread(path, brief(name))
    return tuple(mode for name, mode in _SWITCHES.items() if switches.get(name)) or ("mean",)


def _layer(kind: str, folder: Folder) -> SentenceLayer:
    """Read a layer over pooled vectors from its config.json."""
    path, settings = folder / "config.json", folder.optional("config.json")
    for name in ("module_input_name", "module_output_name"):
        if kind in ("Dense", "Normalize") and settings.get(name) not in (
            None,
            "sentence_embedding",
        ):
            raise _unread(path, f"{name} {brief(settings[name])}")
    names = {"module_input_name", "module_output_name"}
    if kind == "Dense":
        sizes = {"in_features", "out_features", "bias"}
        _check_keys(settings, names | sizes | {"activation_function", "use_residual"}, path)
    else:
        known = {"Normalize": names, "LayerNorm": {"dimension"}, "Dropout": {"dropout"}}
        _check_keys(settings, known[kind], path)
    try:
        return SentenceLayer(
            kind=_KINDS[kind],  # type: ignore[arg-type]
            activation=_activation(settings, path) if kind == "Dense" else "tanh",
            residual=settings.get("use_residual", False),
            rate=settings.get("dropout", 0.2 if kind == "Dropout" else 0.0),
        )
    except InputError as error:
        raise CheckpointError(error.what, place=str(path), remedy=error.remedy) from None


def _activation(settings: Mapping[str, Any], path: Path) -> str:
    """Return our name of a Dense layer's activation."""
    dotted = settings.get("activation_function", "torch.nn.modules.activation.Tanh")
    for ours, theirs in _ACTIVATIONS.items():
        if dotted in (f"torch.nn.modules.{theirs}", f"torch.nn.{theirs.partition('.')[2]}"):
            return ours
    raise _unread(path, f"activation_function {brief(dotted)}")


def _check_shapes(kind: str, weights: Mapping[str, Tensor], folder: Folder) -> None:
    """Refuse weights of a layer that are not those that its config.json names."""
    settings = folder.optional("config.json")
    if kind == "LayerNorm":
        wanted: dict[str, list[object]] = {name: [settings.get("dimension")] for name in _NORM}
    else:
        inputs, outputs = settings.get("in_features"), settings.get("out_features")
        wanted = {"linear.weight": [outputs, inputs]}
        if settings.get("bias", True):
            wanted["linear.bias"] = [outputs]
        if settings.get("use_residual") and inputs != outputs:
            wanted["residual.weight"] = [outputs, inputs]
    found = {name: [*tensor.shape] for name, tensor in weights.items()}
    if found != wanted:
        raise CheckpointError(
            f"the weights of the {kind} are {_shapes(found)}, and its config.json (in_features, "
            f"out_features, bias, use_residual, dimension) says {_shapes(wanted)}; the two files "
            "are not of one layer",
            place=str(folder),
        )


def _shapes(shapes: Mapping[str, Sequence[object]]) -> str:
    return ", ".join(f"{name[:60]} {[*shape]}" for name, shape in [*shapes.items()][:8]) or "none"


def _max_length(body: Mapping[str, Any], folder: Folder) -> Any:
    """Read the longest input in tokens; None: what the model takes."""
    name = "processor_kwargs" if body.get("processor_kwargs") else "tokenizer_args"
    given = body.get(name) or {}
    if not isinstance(given, dict) or not {*given} <= {"model_max_length", *_OURS_ALONE}:
        raise _unread(folder / _BODY, f"settings of the tokenizer, {name} {brief(given)}")
    length = given.get("model_max_length", body.get("max_seq_length"))
    if length is None:  # newer directories have it there
        length = folder.optional("tokenizer_config.json").get("model_max_length")
        length = length if type(length) is int else None
    unlimited = type(length) is int and length > MAX_LENGTH  # transformers writes 1e30
    return None if unlimited else length  # of any type: SentenceSettings checks it

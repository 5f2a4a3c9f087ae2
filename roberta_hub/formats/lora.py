"""Reads a LoRA adapter of peft's, and adds it to its base: W + scaling · B A.

Only what is this sum is read. What makes another one, such as DoRA, is refused by its key.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from torch import Tensor

from roberta_hub.arguments import brief
from roberta_hub.checkpoint.foreign import ADAPTER
from roberta_hub.errors import CheckpointError, Remedy
from roberta_hub.folder import Folder

PEFT_PREFIX = "base_model.model."
"""How peft's names of a model's tensors begin."""
MAX_RANK = 100_000
"""Largest rank: more is a damaged file, and no matrix of a model has so many rows."""
MAX_ALPHA = 1_000_000
"""Largest numerator of a scaling, which is 1 or 2 times the rank: more overflows in float32."""
_Form: TypeAlias = tuple[Callable[[Any], bool], str]
"""Whether a value can be a field's, and what one is, in words."""


def _is_rank(value: Any) -> bool:
    return type(value) is int and 1 <= value <= MAX_RANK


def _is_alpha(value: Any) -> bool:
    return type(value) in (int, float) and 0 < value <= MAX_ALPHA


def _is_names(value: Any) -> bool:
    return type(value) is str or (type(value) is list and all(type(n) is str for n in value))


def _is_numbers(value: Any) -> bool:
    return type(value) is int or (type(value) is list and all(type(n) is int for n in value))


def _is_share(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value <= 1


def _of_type(*kinds: type) -> Callable[[Any], bool]:
    return lambda value: type(value) in kinds


def _by_module(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: type(value) is dict and all(map(fits, value.values()))


_SWITCH: _Form = (_of_type(bool), "true or false")
_TEXT: _Form = (_of_type(str), "text")
_OBJECT: _Form = (_of_type(dict), "an object")
_NAMES: _Form = (_is_names, "a name, or a list of names")
_RANK: _Form = (_is_rank, f"a whole number from 1 to {MAX_RANK:,}")
_ALPHA: _Form = (_is_alpha, f"a number above 0, at most {MAX_ALPHA:,}")
_HONOURED: dict[str, _Form] = {
    "peft_type": _TEXT,
    "r": _RANK,
    "lora_alpha": _ALPHA,
    "use_rslora": _SWITCH,
    "rank_pattern": (_by_module(_is_rank), f"an object with {_RANK[1]} for each module"),
    "alpha_pattern": (_by_module(_is_alpha), f"an object with {_ALPHA[1]}, for each module"),
    "bias": _TEXT,
    "init_lora_weights": (_of_type(bool, str), "true, false or text"),
    "task_type": _TEXT,
    "auto_mapping": _OBJECT,
    "base_model_name_or_path": _TEXT,
    "revision": _TEXT,
}
"""Keys of adapter_config.json that are honoured here, each with what its value is."""
_NO_EFFECT: dict[str, _Form] = {
    "fan_in_fan_out": _SWITCH,  # peft takes it for a Linear as False, and ours all are
    "target_modules": _NAMES,  # the tensors say which
    "exclude_modules": _NAMES,
    "layers_to_transform": (_is_numbers, "a whole number, or a list of them"),
    "layers_pattern": _NAMES,
    "modules_to_save": _NAMES,
    "lora_dropout": (_is_share, "a number from 0 to 1"),
    "inference_mode": _SWITCH,
    "peft_version": _TEXT,
    "megatron_core": _TEXT,
    "qalora_group_size": (_of_type(int), "a whole number"),
    "ensure_weight_tying": _SWITCH,
    "runtime_config": _OBJECT,
    "eva_config": _OBJECT,
}
"""Keys that change nothing of what a trained adapter computes; every other one must be empty."""
_NEEDED = ("r", "lora_alpha")
"""Keys that cannot be null."""
_PLAIN_STARTS = (None, True, False, "gaussian", "eva", "orthogonal")
"""Values of init_lora_weights with which the base stays as it is; with others peft changes it."""
_SUFFIXES = {
    "SEQ_CLS": "ForSequenceClassification",
    "TOKEN_CLS": "ForTokenClassification",
    "QUESTION_ANS": "ForQuestionAnswering",
    "FEATURE_EXTRACTION": "Model",
}
"""peft's name of a task -> how transformers' class for it ends."""
_MODULE = re.compile(r"(.+)\.lora_(embedding_)?([AB])(?:\.weight)?")
_NAMED = re.compile(r"(\.modules_to_save|\.lora_(?:embedding_)?[AB])\.([^.]+)(?=\.|$)")
EMBEDDING_MARK = ".embedding"
"""Ends the name of a module in `Adapter.pairs` whose matrix is an embedding's."""
_PATTERN = re.compile(r"\^?[\w.\\]{1,200}")
"""Keys of rank_pattern and alpha_pattern that are names; others are expressions of a file's."""


@dataclass(frozen=True)
class Adapter:
    """A LoRA adapter under transformers' names: no wrapper, no name of its own."""

    source: str
    about: Mapping[str, Any]
    """The content of adapter_config.json."""
    pairs: dict[str, dict[str, Tensor]] = field(default_factory=dict)
    """Module -> its A (r, inputs) and its B (outputs, r)."""
    whole: dict[str, Tensor] = field(default_factory=dict)
    """Tensors that take the place of the base's: heads, biases."""

    @property
    def suffix(self) -> str | None:
        """The end of the name of transformers' class that it was trained in; None: not said."""
        return _SUFFIXES.get(str(self.about.get("task_type")))


def is_peft(names: Mapping[str, object]) -> bool:
    """Whether tensors have the names of a model inside peft.

    Example:
        >>> is_peft({"base_model.model.classifier.weight": 0}), is_peft({"classifier.weight": 0})
        (True, False)
    """
    return any(name.startswith(PEFT_PREFIX) for name in names)


def base_part(
    weights: Mapping[str, Tensor], folder: Folder, source: str, adapter: bool | None
) -> dict[str, Tensor]:
    """Return the base's tensors of a state dict of peft's, under transformers' names."""
    if adapter is None or not folder.has(ADAPTER):
        raise CheckpointError(
            f"{source} is a model inside peft, with a LoRA adapter ({PEFT_PREFIX}...), and "
            f"{folder} holds {'' if folder.has(ADAPTER) else 'no '}{ADAPTER}, which says its "
            "scaling",
            remedy=Remedy(
                f"with {ADAPTER} in the folder, load_model(folder, adapter=True) merges it and "
                "adapter=False loads the base alone",
                f"with {ADAPTER} in the folder, `roberta-hub convert FOLDER NEW --to roberta_hub "
                "--adapter` merges it, and --no-adapter leaves it out",
            ),
        )
    if not adapter and (bias := folder.json(ADAPTER).get("bias", "none")) != "none":
        raise CheckpointError(
            f"{folder}/{ADAPTER}: bias is {brief(bias)}: the biases of the base were trained with "
            f"the adapter, and {source} no longer has the base's own"
        )
    return {
        name.removeprefix(PEFT_PREFIX)
        .replace(".base_layer.", ".")
        .replace(".original_module.", "."): tensor
        for name, tensor in weights.items()
        if not _is_adapters(name)
    }


def _is_adapters(name: str) -> bool:
    return "lora_" in name or ".modules_to_save." in name


def adapter_part(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the adapter's tensors of a state dict of peft's, under their own names."""
    return {name: tensor for name, tensor in weights.items() if _is_adapters(name)}


def make_adapter(
    about: Mapping[str, Any], weights: Mapping[str, Tensor], source: str, *, named: bool = False
) -> Adapter:
    """Make an adapter of its settings and its tensors."""
    _check_values(about, source)
    _check_about(about, source)
    adapter = Adapter(source, about)
    if named:
        weights = _without_own_name(weights, source)
    for key, tensor in weights.items():
        short = key.removeprefix(PEFT_PREFIX).replace(".base_layer.", ".")
        if ".original_module." in short:  # the base's, which peft saves with all biases
            continue
        if not named and _is_second(short, weights):
            continue
        short = short.replace(".modules_to_save.", ".")
        if match := _MODULE.fullmatch(short):
            module = match[1] + (EMBEDDING_MARK if match[2] else "")
            adapter.pairs.setdefault(module, {})[match[3]] = tensor
        elif "lora_" in short or "trainable_tokens" in short:
            raise CheckpointError(
                f"{source}: tensor {key[:200]!r} is not a plain LoRA's", remedy=_MERGE
            )
        else:
            adapter.whole[short] = tensor
    if not adapter.pairs:
        raise CheckpointError(f"{source}: holds no LoRA matrices; fetch the adapter again")
    return adapter


def _is_second(short: str, weights: Mapping[str, Tensor]) -> bool:
    """Whether a file has a tensor under its plain name too, as peft saves a head's biases twice."""
    head, mark, rest = short.partition(".modules_to_save.")
    names = (rest, rest.partition(".")[2])  # with and without the adapter's own name
    return bool(mark) and any(f"{PEFT_PREFIX}{head}.{name}" in weights for name in names)


def _without_own_name(weights: Mapping[str, Tensor], source: str) -> dict[str, Tensor]:
    """Take the one adapter's name out of the names of its tensors: "default"."""
    found = {name: _NAMED.search(name) for name in weights}
    own = sorted({match[2] for match in found.values() if match})
    if len(own) > 1:
        raise CheckpointError(
            f"{source}: there are {len(own)} adapters ({', '.join(own)[:200]}), and one is merged; "
            "save one of them alone"
        )
    return {
        name[: match.end(1)] + name[match.end() :] if (match := found[name]) else name: tensor
        for name, tensor in weights.items()
    }


_MERGE = Remedy(
    "merge it with peft: merge_and_unload(), save_pretrained(folder), and load that folder", None
)


def _check_values(about: Mapping[str, Any], source: str) -> None:
    """Refuse a value that cannot be a field's, whether or not a module asks for it."""
    for key, (fits, form) in {**_HONOURED, **_NO_EFFECT}.items():
        value = about.get(key)
        if value is None and not (key in _NEEDED and key in about):
            continue
        if not fits(value):
            raise CheckpointError(
                f"{source}/{ADAPTER}: {key} of the adapter is {brief(value)}, must be {form}; "
                "fetch it again, or correct the file"
            )


def _check_about(about: Mapping[str, Any], source: str) -> None:
    """Refuse what is no plain LoRA, by its key."""
    problem = None
    if about.get("peft_type") != "LORA":
        problem = f"peft_type is {brief(about.get('peft_type'))}, and only 'LORA' is read"
    elif about.get("init_lora_weights") not in _PLAIN_STARTS:
        problem = f"init_lora_weights {brief(about['init_lora_weights'])} changes the base too"
    elif about.get("bias", "none") not in ("none", "all", "lora_only"):
        problem = f"bias is {brief(about['bias'])}"
    elif (task := about.get("task_type")) is not None and task not in _SUFFIXES:
        problem = f"task_type is {brief(task)}, and encoders are made for {', '.join(_SUFFIXES)}"
    for key, value in about.items():
        if problem is None and value and not (key in _HONOURED or key in _NO_EFFECT):
            problem = f"{key} is {brief(value)}, which is no plain LoRA"
    if problem is not None:
        raise CheckpointError(f"{source}/{ADAPTER}: {problem}", remedy=_MERGE)


def scaling(about: Mapping[str, Any], module: str, source: str) -> tuple[int, float]:
    """Return the rank of a module's matrices, and the factor of their product.

    Example:
        >>> about = {"r": 4, "lora_alpha": 8, "alpha_pattern": {"query": 16}}
        >>> scaling(about, "encoder.layer.0.attention.self.query", "a folder")
        (4, 4.0)
        >>> scaling({**about, "use_rslora": True}, "encoder.layer.0.output.dense", "a folder")
        (4, 4.0)
    """
    found = []
    for key, pattern in (("r", "rank_pattern"), ("lora_alpha", "alpha_pattern")):
        value = _of_pattern(about.get(pattern) or {}, pattern, module, source)
        found.append(about.get(key, 8) if value is None else value)
    rank, alpha = found
    root = bool(about.get("use_rslora"))
    return rank, float(alpha / (math.sqrt(rank) if root else rank))


def _of_pattern(table: Mapping[str, Any], name: str, module: str, source: str) -> Any:
    """Return what a pattern says of a module: a name, or the end of one; None: nothing."""
    for key, value in table.items():
        plain = key.replace("\\.", ".")
        if not _PATTERN.fullmatch(key) or "\\" in plain:
            raise CheckpointError(
                f"{source}/{ADAPTER}: {name} has the expression {brief(key)}, and names of modules "
                "are read",
                remedy=_MERGE,
            )
        if plain.startswith("^"):
            if module == plain[1:]:
                return value
        elif module == plain or module.endswith(f".{plain}"):
            return value
    return None


def add(weight: Tensor, pair: Mapping[str, Tensor], module: str, adapter: Adapter) -> Tensor:
    """Add a module's product to its matrix: (outputs, inputs), of an embedding (rows, width).

    Raises:
        CheckpointError: a matrix is missing, or of another shape than the base's or the rank.
    """
    embedding = module.endswith(EMBEDDING_MARK)
    module = module.removesuffix(EMBEDDING_MARK)
    rank, factor = scaling(adapter.about, module, adapter.source)
    a, b = pair.get("A"), pair.get("B")
    if a is None or b is None:
        raise CheckpointError(
            f"{adapter.source}: {module} lacks its lora_{'B' if b is None else 'A'}"
        )
    rows, columns = (
        (weight.shape[::-1] if embedding else weight.shape) if weight.dim() == 2 else (0, 0)
    )
    if a.shape != (rank, columns) or b.shape != (rows, rank):
        raise CheckpointError(
            f"{adapter.source}: of {module}, A is {tuple(a.shape)}, B {tuple(b.shape)} and the "
            f"base's matrix {tuple(weight.shape)}, with r={rank}; they are not of one model"
        )
    product = b.float() @ a.float() * factor
    return (weight.float() + (product.T if embedding else product)).to(weight.dtype)

"""Finds a LoRA adapter in a folder, and merges it into the checkpoint of its base.

The base may be of any format: its tensors are named as transformers names them, the adapter's are
added, and the sum is read as a Hugging Face folder's.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from roberta_hub.arguments import brief
from roberta_hub.checkpoint.checkpoint import (
    EMBEDDING,
    HEADS,
    LM_WEIGHT,
    SPAN_HEADS,
    TOKEN_HEADS,
    Checkpoint,
    expand,
)
from roberta_hub.checkpoint.converted import RawCheckpoint
from roberta_hub.checkpoint.fetch.cache import CHECKPOINT_FILE
from roberta_hub.checkpoint.foreign import ADAPTER
from roberta_hub.checkpoint.names.families import family_of
from roberta_hub.checkpoint.names.table import HeadNames, NameTable
from roberta_hub.errors import CheckpointError, Remedy
from roberta_hub.folder import Folder
from roberta_hub.formats.format import CheckpointSource
from roberta_hub.formats.huggingface import (
    description,
    from_their_names,
    parameter_names,
    their_tensors,
)
from roberta_hub.formats.huggingface_config import check_expressible, read_config
from roberta_hub.formats.huggingface_heads import head_to_write
from roberta_hub.formats.lora import (
    EMBEDDING_MARK,
    Adapter,
    adapter_part,
    add,
    is_peft,
    make_adapter,
)
from roberta_hub.formats.ours import is_ours
from roberta_hub.formats.sentence_transformers import MODULES_FILE, find_body
from roberta_hub.formats.shards import ADAPTER_WEIGHTS, INDEXES, WHOLE, read_weights, weights_in
from roberta_hub.model.sentence_layers import PREFIX

_LABELS = ("id2label", "label2id", "problem_type")
"""Fields of config.json that an adapter's folder may have for its head."""


def adapter_in(path: Path | Folder, file: str | None) -> Folder | None:
    """Find the folder with an adapter that belongs to what a path names; None: there is none."""
    if isinstance(path, Folder):
        folder = path
    else:
        place = path / file if path.is_dir() and file else path
        folder = Folder(place if os.path.isdir(place) else place.parent)  # of any length
    folders = [folder]
    if folder.has(MODULES_FILE) and not is_ours(folder):
        with contextlib.suppress(CheckpointError):  # its reader says what is wrong
            folders.append(find_body(folder))
    return _first_with_adapter(folders)


def adapter_of(source: CheckpointSource) -> Folder | None:
    """Find the folder with an adapter among those of a model; None: there is none."""
    folders = [source.folder] if source.sentences is None else [source.sentences, source.folder]
    return _first_with_adapter(folders)


def _first_with_adapter(folders: Sequence[Folder]) -> Folder | None:
    names = (ADAPTER, *ADAPTER_WEIGHTS)
    return next((found for found in folders if any(map(found.has, names))), None)


def is_alone(folder: Folder) -> bool:
    """Whether the folder of an adapter holds no base."""
    return not any(map(folder.has, (*WHOLE, *INDEXES, CHECKPOINT_FILE)))


def undeclared(folder: Folder) -> CheckpointError:
    """Error for a folder with an adapter, where the caller does not say what to do with it."""
    base = folder.optional(ADAPTER).get("base_model_name_or_path")
    of = f" of {brief(base)}" if isinstance(base, str) else ""
    return CheckpointError(
        f"{folder} holds a LoRA adapter{of}, which changes what its base answers",
        remedy=Remedy(
            "adapter=True merges it into the base, adapter=False loads the base alone",
            "`roberta-hub convert FOLDER NEW --to roberta_hub --adapter` writes both as one model, "
            "--no-adapter the base alone",
        ),
    )


def base_of(folder: Folder) -> tuple[str, str | None]:
    """Return the name or path of the base that an adapter names, and its revision."""
    about = folder.json(ADAPTER)
    base, revision = about.get("base_model_name_or_path"), about.get("revision")
    if not isinstance(base, str) or not base:
        raise no_base(folder, f"{ADAPTER} names no base")
    if not isinstance(revision, str | None):
        raise no_base(folder, f"the base is {brief(base)} at the revision {brief(revision)}")
    return base, None if revision == "main" or os.path.isdir(base) else revision


def lone_base(folder: Folder) -> tuple[str, str | None] | None:
    """Return the base that a folder with an adapter alone names; None: it is no such folder."""
    return base_of(folder) if folder.has(ADAPTER) and is_alone(folder) else None


def no_base(folder: Folder, what: str) -> CheckpointError:
    """Make the error for an adapter whose base is not available."""
    return CheckpointError(
        f"{folder} holds a LoRA adapter without its base: {what}",
        remedy=Remedy(
            f"put {ADAPTER} and {ADAPTER_WEIGHTS[0]} into the folder of the base, and load that "
            "with adapter=True; or write that folder's path as base_model_name_or_path",
            f"put {ADAPTER} and {ADAPTER_WEIGHTS[0]} into the folder of the base, and convert that "
            "with --adapter; or write that folder's path as base_model_name_or_path",
        ),
    )


def read_adapter(folder: Folder, *, converted: bool) -> Adapter:
    """Read an adapter: adapter_config.json, and its weights or peft's state dict of all."""
    about = folder.json(ADAPTER)
    own = next(filter(folder.has, ADAPTER_WEIGHTS), None)
    if own is not None:
        weights = read_weights(folder, folder / own, converted=converted).weights
    else:
        file = folder / weights_in(folder)
        weights = read_weights(folder, file, converted=converted).weights
        if not is_peft(weights):
            raise CheckpointError(
                f"{folder} has {ADAPTER} and none of {', '.join(ADAPTER_WEIGHTS)}; fetch it, or "
                "load the base alone with adapter=False"
            )
        weights = adapter_part(weights)
    return make_adapter(about, weights, str(folder), named=own is None)


def merge_adapter(
    base: Checkpoint, adapter: Adapter, folder: Folder, dtype: torch.dtype | None
) -> Checkpoint:
    """Return the checkpoint of a base with an adapter merged into it."""
    base = _in_its_class(base, adapter)
    table = family_of({"model_type": base.family}, base.source)
    head = _head_of(base, adapter, table)
    known = {*table.fields.values(), *table.fixed}
    config, weights = expand(base.config, base.weights, known)
    check_expressible(config, table, base.heads().get(head.name) if head else None)
    hf = description(base, head.name) if head else _headless(base)
    theirs = their_tensors(weights, config, table, head)
    layers = {n: t for n, t in base.weights.items() if n.startswith(PREFIX)}
    base.weights.clear()
    _merge(theirs, adapter, table, tied=config.lm_head and not config.untie_weights)
    lm_matrix = table.lm_head.get(LM_WEIGHT)
    if lm_matrix is not None and lm_matrix in theirs:
        hf["tie_word_embeddings"] = False
    hf["vocab_size"] = len(theirs[parameter_names(table, 1)[EMBEDDING]])
    suffix = adapter.suffix
    if suffix is not None:
        hf["architectures"] = [table.class_prefix + suffix]
    out = f"{head.modules['out_proj']}.weight" if head and "out_proj" in head.modules else ""
    labels = hf.get("id2label")
    if out in theirs and isinstance(labels, dict) and len(labels) != len(theirs[out]):
        del hf["id2label"]
    own = folder.optional("config.json") if is_alone(folder) else {}
    hf |= {name: own[name] for name in _LABELS if name in own}
    source = f"{base.source} with the adapter {adapter.source}"
    made = from_their_names(
        hf, RawCheckpoint(theirs), table, read_config(hf, table, folder), folder, dtype, source
    )
    if suffix not in (None, "Model") and not (
        made.heads() or made.token_heads() or made.span_heads()
    ):
        raise CheckpointError(
            f"{adapter.source}: the adapter is for {brief(adapter.about['task_type'])}, and "
            f"neither it nor {base.source} holds that head; save it with modules_to_save, or merge "
            "the two with peft"
        )
    return dataclasses.replace(
        made,
        weights=made.weights | layers,  # over pooled vectors, which an adapter does not change
        dictionary=base.dictionary,
        label_dictionary=base.label_dictionary,
        init_token=base.init_token,
        sentence=base.sentence,
        zero_shot=base.zero_shot,
        learnt=base.learnt,
    )


def _in_its_class(base: Checkpoint, adapter: Adapter) -> Checkpoint:
    """Return the base as the class has it that the adapter was trained in: with an LM head or not.

    fairseq's files do not say their family; pre-norm layers are XLM-R XL's.
    """
    config = base.config
    if base.family == "roberta" and config.normalize_before and not config.layernorm_embedding:
        base = dataclasses.replace(base, family="xlm-roberta-xl")
    if adapter.suffix is None or not config.lm_head:
        return base
    weights = {n: t for n, t in base.weights.items() if not n.startswith("encoder.lm_head.")}
    config = dataclasses.replace(config, lm_head=False, untie_weights=False)
    return dataclasses.replace(base, config=config, weights=weights)


def _head_of(base: Checkpoint, adapter: Adapter, table: NameTable) -> HeadNames | None:
    """Return the base's head, if the merged model has it too."""
    if adapter.suffix == "Model":
        return None
    several = len({*base.heads(), *base.token_heads(), *base.span_heads()}) > 1
    modules = {module for head in table.heads for module in head.modules.values()}
    brought = any(name.startswith(f"{module}.") for name in adapter.whole for module in modules)
    head = None if several and brought else head_to_write(table, base, None)
    return None if head and adapter.suffix not in (None, head.suffix) else head


def _headless(base: Checkpoint) -> dict[str, object]:
    """Make the content of config.json for a base without its heads."""
    prefixes = (HEADS, TOKEN_HEADS, SPAN_HEADS)
    weights = {n: t for n, t in base.weights.items() if not n.startswith(prefixes)}
    return description(dataclasses.replace(base, weights=weights, parts=()))


def _merge(theirs: dict[str, Tensor], adapter: Adapter, table: NameTable, *, tied: bool) -> None:
    """Add an adapter's matrices to those of its base, and put its whole tensors in place."""
    embedding = parameter_names(table, 1)[EMBEDDING]
    for module, pair in adapter.pairs.items():
        name = _place(f"{module.removesuffix(EMBEDDING_MARK)}.weight", theirs, table)
        if name.startswith(table.dropped):
            continue  # what our model has no place for, its answers do not depend on
        if name not in theirs:
            raise CheckpointError(
                f"{adapter.source}: the adapter changes {module[:200]!r}, which its base does not "
                "have"
            )
        if name == embedding and tied:
            raise _tied(adapter)
        theirs[name] = add(theirs[name], pair, module, adapter)
    whole = {_place(name, theirs, table): tensor for name, tensor in adapter.whole.items()}
    if embedding in whole and tied:
        raise _tied(adapter)
    # A head's module may have had other tensors: `classifier.dense` of one for sentences.
    modules = {module.partition(".")[0] for head in table.heads for module in head.modules.values()}
    modules.discard(table.prefix.rstrip("."))
    replaced = {name.partition(".")[0] for name in whole if name.endswith(".weight")} & modules
    for name in [name for name in theirs if name.partition(".")[0] in replaced]:
        del theirs[name]
    theirs |= whole


def _place(name: str, theirs: dict[str, Tensor], table: NameTable) -> str:
    """Return a name with the body's prefix, where the adapter was made of the bare body."""
    return table.prefix + name if table.prefix + name in theirs else name


def _tied(adapter: Adapter) -> CheckpointError:
    return CheckpointError(
        f"{adapter.source}: the adapter changes the token embedding, which the LM head shares, and "
        "nothing says whether the LM head changes too",
        remedy=Remedy("merge it with peft, and load the folder that this saves", None),
    )

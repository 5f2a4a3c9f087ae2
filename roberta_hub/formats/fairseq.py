"""fairseq's format: model.pt of every era from 2019 to 0.12, written in 0.12's plain form."""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from roberta_hub.checkpoint.checkpoint import (
    EMBEDDING,
    HEADS,
    LM_WEIGHT,
    POOLER,
    REPLACED_HEAD,
    VERSION_KEY,
    Checkpoint,
    check_counts,
    distinct_labels,
    expand,
    plain_inputs,
)
from roberta_hub.checkpoint.converted import RawCheckpoint, through_copy
from roberta_hub.checkpoint.fetch.cache import CHECKPOINT_FILE
from roberta_hub.checkpoint.quantized import check_not_quantized
from roberta_hub.checkpoint.tensors import TensorOrigin, copy_to_memory, stays_finite
from roberta_hub.checkpoint.untrusted.unpickle import is_mapped, load_pickle, plain, tensors
from roberta_hub.checkpoint.wrappers import unwrap
from roberta_hub.config import FAIRSEQ_ACTIVATIONS, RobertaConfig
from roberta_hub.errors import CheckpointError, InputError, Remedy
from roberta_hub.files import publishing, write_files
from roberta_hub.folder import Folder
from roberta_hub.formats.fairseq_arguments import (
    check_overrides,
    fairseq_cfg,
    flat_arguments,
    layers_to_keep,
    read_config,
    with_published_heads,
)
from roberta_hub.formats.foreign_heads import (
    advise_of_refusals,
    advise_of_thresholds,
    advise_of_vectors,
    check_first_token,
    facts_elsewhere,
    held_by_fairseq,
)
from roberta_hub.formats.format import WEIGHTS_BESIDE_CONFIG, CheckpointSource, Format
from roberta_hub.formats.tokenizer_files import (
    VOCABULARIES,
    check_layout,
    fairseq_added_file,
    fairseq_dictionary,
    lays_out_as_roberta,
)
from roberta_hub.formats.tokenizers import (
    TokenizerParts,
    TokenizerRequest,
    UserTokenizer,
    complete,
    read_dictionaries,
)
from roberta_hub.formats.upgrade import count_layers, is_post_norm_era, prune, upgrade
from roberta_hub.settings import FACTS, Head, check_fact, column
from roberta_hub.text.added import TOKENIZER_CONFIG_FILE
from roberta_hub.text.bpe import GPT2BPE
from roberta_hub.text.dictionary import Dictionary
from roberta_hub.text.fairseq_files import Keywords, added_in, engine_in
from roberta_hub.text.layout import SequenceLayout
from roberta_hub.text.learnt import LEARNT_KEY, pack, unpack
from roberta_hub.text.pieces import SubwordTokenizer
from roberta_hub.text.tokenizer import Tokenizer
from roberta_hub.text.with_added import with_tokens, without_added

TABLES = {"roberta_hub_kinds": FACTS["kind"], **facts_elsewhere("classification")}
"""Our keys in a model.pt for facts of heads, each of which holds a table by head."""
OURS = (
    "roberta_hub_labels",
    "roberta_hub_task",
    "roberta_hub_init_token",
    "roberta_hub_own_head",
    "roberta_hub_inputs",
    *TABLES,
    "roberta_hub_family",
    LEARNT_KEY,
)
"""Our own keys in a model.pt, for what fairseq has no place for."""

_TEACHER = "encoder._ema"
_FRESH_HISTORY = {
    "criterion_name": "MaskedLmLoss",
    "optimizer_name": "FairseqAdam",
    "lr_scheduler_state": {"best": None},
    "num_updates": 0,
}
_FRESH_ITERATOR = {"version": 2, "epoch": 1, "iterations_in_epoch": 0, "shuffle": True}
"""What fairseq's trainer needs in a file to train on from it, as at the start of a run."""


def read_fairseq(
    path: Path,
    overrides: Mapping[str, object] | None = None,
    dtype: torch.dtype | None = None,
    *,
    converted: bool = False,
) -> Checkpoint:
    """Read a file that fairseq wrote."""
    check_overrides(overrides or {})
    neutral = through_copy(path, "fairseq", read_raw_file) if converted else read_raw_file(path)
    return interpret(neutral, str(path), overrides or {}, dtype)


def read_raw_file(path: Path) -> RawCheckpoint:
    """Read a model.pt of any era into neutral form.

    That is its arguments in one flat dict, and its tensors under today's names.
    """
    origin: TensorOrigin = "file" if is_mapped(path) else "memory"
    return raw_checkpoint(load_pickle(path), str(path), origin, limit=path.stat().st_size)


def raw_checkpoint(
    state: Any, source: str, origin: TensorOrigin = "memory", limit: int | None = None
) -> RawCheckpoint:
    """Bring what was loaded from a fairseq file into neutral form."""
    state = _as_dict(state) or state
    arguments = _arguments(state, source)
    # data2vec keeps its teacher's weights as a dict among its own.
    named = {name: part for name, part in dict.items(state["model"]) if name != _TEACHER}
    raw = tensors(named, source, limit)
    if is_post_norm_era(raw):
        arguments["encoder_normalize_before"] = False
    return RawCheckpoint(upgrade(raw, source=source), arguments, origin)


def interpret(
    neutral: RawCheckpoint,
    source: str,
    overrides: Mapping[str, object],
    dtype: torch.dtype | None = None,
) -> Checkpoint:
    """Make a checkpoint of the neutral form of a fairseq file; see `read_fairseq`."""
    check_overrides(overrides)
    arguments, weights = _without_wrappers(neutral, source)
    _check_adapters(weights, source)
    neutral.weights.clear()  # else `copy_to_memory` could not free them one by one
    arguments = with_published_heads(arguments, weights, overrides, source)
    keep = layers_to_keep(overrides.get("encoder_layers_to_keep"))
    try:
        own_keep = layers_to_keep(arguments.get("encoder_layers_to_keep"))
    except InputError as error:
        raise CheckpointError(f"{source}: {error}") from None
    if keep is None and own_keep and len(set(own_keep)) != count_layers(weights):
        keep = own_keep  # else the file holds these layers only
    if keep is not None:
        weights = prune(weights, keep, source)
    elif own_keep is None and "encoder_layers" not in overrides:
        _check_layers(arguments.get("encoder_layers"), count_layers(weights), source)
    config = read_config(arguments | dict(overrides), weights, overrides, source)
    config = _settle_lm_head(config, weights, source)
    weights.pop(VERSION_KEY, None)  # in float32: then no half-precision tensor is mapped
    labels = _as_dict(arguments.get("roberta_hub_labels"))
    own_head = arguments.get("roberta_hub_own_head")
    family = arguments.get("roberta_hub_family")
    tasks = (arguments.get("roberta_hub_task"), arguments.get("task"))
    tokens = (arguments.get("roberta_hub_init_token"), arguments.get("init_token"))
    finite = neutral.finite and stays_finite(weights, dtype)
    weights = copy_to_memory(weights, dtype, neutral.origin) | {VERSION_KEY: torch.tensor([3.0])}
    checkpoint = Checkpoint(
        config=config,
        weights=weights,
        source=source,
        labels={
            head: distinct_labels(names, head, source)
            for head, names in labels.items()
            if isinstance(names, list) and all(isinstance(name, str) for name in names)
        },
        default_head=own_head if isinstance(own_head, str) else None,
        inputs=plain_inputs(arguments.get("roberta_hub_inputs")),
        known_heads=_facts(arguments),
        task=next((task for task in tasks if isinstance(task, str) and task), "masked_lm"),
        init_token=next((token for token in map(_integer, tokens) if token is not None), None),
        finite=finite,
        family=family if isinstance(family, str) else "roberta",
        learnt=unpack(arguments.get(LEARNT_KEY)),
    )
    check_counts(checkpoint, source)
    return checkpoint


def _without_wrappers(
    neutral: RawCheckpoint, source: str
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return arguments and weights, these under today's names without those of wrappers."""
    check_not_quantized(neutral.weights, source)
    weights = unwrap(neutral.weights, source)
    if weights is neutral.weights:
        return neutral.about, dict(weights)
    old = {"encoder_normalize_before": False} if is_post_norm_era(weights) else {}
    return {**neutral.about, **old}, upgrade(weights, source=source)


def _check_adapters(weights: Mapping[str, Tensor], source: str) -> None:
    """Refuse X-MOD, whose layers end in an adapter that the text's language chooses."""
    if any(".adapter_modules." in name for name in weights):
        raise CheckpointError(
            f"{source}: this is an X-MOD (Pfeiffer et al. 2022), with adapters for each language "
            "in its layers, which are not read here",
            remedy=Remedy("transformers reads it: XmodModel.from_pretrained('facebook/xmod-base')"),
        )


def _facts(arguments: Mapping[str, Any]) -> dict[str, Head]:
    """Keep of tables from a file only what can be said of a head."""
    found: dict[str, Head] = {}
    for key, fact in TABLES.items():
        for head, value in _as_dict(arguments.get(key)).items():
            with suppress(InputError):
                known = {fact.name: check_fact(fact, head, value)}
                found[head] = dataclasses.replace(found.get(head, Head()), **known)
    return {head: known for head, known in found.items() if isinstance(head, str)}


def _check_layers(stated: object, found: int, source: str) -> None:
    """Refuse a file that lost its last layers: it would silently make a smaller, wrong model."""
    if isinstance(stated, int) and stated != found:
        raise CheckpointError(
            f"{source}: its arguments say {stated} layers, and it holds {found}; the file is "
            "incomplete",
            remedy=Remedy(f"encoder_layers={found} loads what there is, if it is meant so", ""),
        )


def read_state(state: Any, source: str, overrides: Mapping[str, object]) -> Checkpoint:
    """Make a checkpoint of a fairseq file's content, or of a model in memory laid out like it."""
    return interpret(raw_checkpoint(state, source), source, overrides)


def _arguments(state: Any, source: str) -> dict[str, Any]:
    """Flatten the arguments, `args` or `cfg`, into one dict of plain values."""
    if not isinstance(state, dict) or not isinstance(state.get("model"), dict):
        found = (
            f"keys {sorted(key[:40] for key in state if isinstance(key, str))[:8]}"
            if isinstance(state, dict)
            else type(state).__name__
        )
        hint, remedy = "", None
        if isinstance(state, dict) and any(
            isinstance(key, str) and key.startswith("roberta.") for key in state
        ):
            hint = (
                "; this looks like a Hugging Face state dict: give its directory, with config.json"
            )
        elif isinstance(state, dict) and isinstance(next(iter(state.values()), None), Tensor):
            hint = "; this looks like a bare state_dict"
            remedy = Remedy(
                "save models with roberta.save(directory), or give it to a model of its shape, "
                "roberta.load_state_dict(torch.load(file))",
                "",
            )
        raise CheckpointError(
            f"{source}: no fairseq checkpoint: expected a dict with 'model', found {found}{hint}",
            remedy=remedy,
        )
    flat: dict[str, Any] = {}
    if state.get("args") is not None:
        flat = _as_dict(plain(state["args"], source))
    elif state.get("cfg") is not None:
        cfg = _as_dict(plain(state["cfg"], source))
        for group in ("bpe", "task", "model"):
            part = cfg.get(group)
            name = part.get("_name") if isinstance(part, dict) else part
            flat |= flat_arguments(_as_dict(part))
            if isinstance(name, str):
                flat["arch" if group == "model" else group] = name
    for ours in OURS:
        flat[ours] = plain(state.get(ours), source)
    return flat


def _as_dict(value: Any) -> dict[str, Any]:
    """Copy a dict by dict's own methods: a hostile file may have replaced those of a subclass."""
    return dict(dict.items(value)) if isinstance(value, dict) else {}


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _settle_lm_head(
    config: RobertaConfig, weights: dict[str, Tensor], source: str
) -> RobertaConfig:
    """Leave out an output matrix that is tied; a file without any LM head is data2vec's."""
    if not any(key.startswith("encoder.lm_head.") for key in weights):
        return dataclasses.replace(config, lm_head=False)
    if config.untie_weights:
        return config
    output = weights.pop(LM_WEIGHT, None)
    table = weights[EMBEDDING]
    alike = output is None or (output.shape, output.dtype) == (table.shape, table.dtype)
    same = output is None or output.data_ptr() == table.data_ptr()  # no need to read either
    if output is not None and not (alike and (same or torch.equal(output, table))):
        raise CheckpointError(
            f"{source}: the output matrix differs from the token embedding that it should be tied "
            "to",
            remedy=Remedy("pass untie_weights_roberta=True if this model was trained untied", ""),
        )
    return config


def check_relative(checkpoint: Checkpoint) -> None:
    """Refuse BERT, ALBERT, ELECTRA and layers over vectors, for which fairseq has no place."""
    config, sentence = checkpoint.config, checkpoint.sentence
    layers = () if sentence is None else sentence.layers
    lacks = {
        "segment embeddings": config.num_segments,
        "a projection of the summed embeddings": config.project_sum,
        f"padding with id {config.padding_idx}": config.padding_idx != RobertaConfig.padding_idx,
        f"layers over sentence vectors ({', '.join(map(str, layers))})": layers != (),
        # RoBERTa's own kinds are written without theirs, and `advise_of_vectors` says so.
        "a pooler": checkpoint.has(POOLER) and config.num_segments > 0,
        "a discriminator's head": checkpoint.has(REPLACED_HEAD),
    }
    found = [what for what, present in lacks.items() if present]
    if config.layer_norm_eps != 1e-5 and found:
        found.append(f"LayerNorm eps {config.layer_norm_eps}")
    if found:
        raise CheckpointError(
            f"this model is no RoBERTa: fairseq's has no place for {', '.join(found)}; save as "
            "'roberta_hub' or 'huggingface'"
        )


def fairseq_state(checkpoint: Checkpoint, vocabulary: Container[str] = ()) -> dict[str, Any]:
    """Make the content of a fairseq file, in 0.12's form with plain dicts only."""
    check_relative(checkpoint)
    config, weights = expand(checkpoint.config, checkpoint.weights)
    weights = {name: tensor for name, tensor in weights.items() if not name.startswith(POOLER)}
    problems = {
        f"LayerNorm eps {config.layer_norm_eps}": config.layer_norm_eps != 1e-5,
        "a model without language-model head": not config.lm_head,
        f"activation {config.activation_fn!r}": config.activation_fn not in FAIRSEQ_ACTIVATIONS,
        # fairseq's LM head has the layers' own.
        f"an LM head with {config.lm_activation!r} on layers with {config.activation_fn!r}": (
            config.lm_head and config.lm_activation != config.activation_fn
        ),
    }
    found = [what for what, present in problems.items() if present]
    if found:
        raise CheckpointError(
            f"fairseq cannot express {' and '.join(found)}; save as 'huggingface' or 'roberta_hub'"
        )
    others = [f"{head} (token)" for head in checkpoint.token_heads()]
    others += [f"{head} (span)" for head in checkpoint.span_heads()]
    if others:
        raise CheckpointError(
            f"fairseq's RoBERTa has classification heads only and cannot hold {', '.join(others)}",
            remedy=Remedy(
                "save as 'roberta_hub' or 'huggingface', or delete them first (del "
                "roberta.model.token_heads[NAME])",
                "give --to roberta_hub or --to huggingface",
            ),
        )
    check_first_token(checkpoint, "fairseq", list(checkpoint.known_heads))
    if not config.untie_weights:
        weights.setdefault(LM_WEIGHT, weights[EMBEDDING])
    weights[VERSION_KEY] = torch.tensor([3.0])
    known = checkpoint.known_heads
    labels = column(known, "labels")
    order = [name.split(".")[1] for name in weights if name.startswith(HEADS)]  # the model's
    there = {h: known[h] for h in sorted((h for h in known if h in order), key=order.index)}
    tables = {key: column(there, fact.name) for key, fact in TABLES.items()}
    return {
        "args": None,
        "cfg": fairseq_cfg(config, vocabulary),
        "model": {name: tensor.detach().cpu() for name, tensor in weights.items()},
        "criterion": None,
        "optimizer_history": [_FRESH_HISTORY],
        "task_state": {},
        "extra_state": {"train_iterator": _FRESH_ITERATOR},
        "roberta_hub_task": checkpoint.task,
        "roberta_hub_init_token": checkpoint.init_token,
        "roberta_hub_labels": {head: list(names) for head, names in labels.items()},
        "roberta_hub_own_head": checkpoint.default_head,
        "roberta_hub_inputs": column(known, "inputs"),
        "roberta_hub_family": checkpoint.family,
        **{key: table for key, table in tables.items() if table},
        **({LEARNT_KEY: pack(checkpoint.learnt)} if checkpoint.learnt else {}),
    }


def write_fairseq(
    checkpoint: Checkpoint, directory: Path, vocabulary: Mapping[str, bytes] | None = None
) -> None:
    """Write model.pt and dict.txt so that stock fairseq 0.12.2 loads them and trains on.

    No class is pickled. So the file loads under torch's `weights_only` default, as fairseq's own
    files do not.
    """
    state = fairseq_state(checkpoint, vocabulary or {})
    directory.mkdir(parents=True, exist_ok=True)
    with publishing(directory / CHECKPOINT_FILE) as file:
        torch.save(state, file)
    dictionaries = {
        "dict.txt": checkpoint.dictionary,
        "label/dict.txt": checkpoint.label_dictionary,
    }
    files = {name: data for name, data in dictionaries.items() if data is not None}
    write_files(directory, {**files, **(vocabulary or {})})


def fairseq_family(
    engine: SubwordTokenizer | None, dictionary: Dictionary, config: RobertaConfig
) -> str:
    """Tell the family of a model of fairseq's by what cuts its texts, and its dictionary.

    Example:
        >>> fairseq_family(None, Dictionary.roberta(), RobertaConfig())
        'roberta'
    """
    if engine is None or isinstance(without_added(engine), GPT2BPE):
        return "roberta"
    if SequenceLayout.of(dictionary).bos != dictionary.bos():  # `<s>` occurs twice
        return "camembert"
    return "xlm-roberta-xl" if config.normalize_before else "xlm-roberta"


def _detect(folder: Folder, file: Path | None) -> CheckpointSource | None:
    """See `Format.detect`: any file that needs no config.json, or a model.pt."""
    if file is None:
        return (
            CheckpointSource(format=FAIRSEQ, folder=folder)
            if folder.is_file(CHECKPOINT_FILE)
            else None
        )
    if file.suffix in WEIGHTS_BESIDE_CONFIG:
        return None
    return CheckpointSource(format=FAIRSEQ, folder=folder, file=file)


def _read(
    source: CheckpointSource,
    overrides: Mapping[str, object],
    dtype: torch.dtype | None,
    *,
    converted: bool,
) -> Checkpoint:
    """See `Format.read`."""
    return read_fairseq(
        source.file or source.folder / CHECKPOINT_FILE, overrides, dtype, converted=converted
    )


def _read_tokenizer(
    source: CheckpointSource, checkpoint: Checkpoint, wanted: TokenizerRequest
) -> TokenizerParts:
    """See `Format.read_tokenizer`: a model.pt does not say its family, its vocabulary does."""
    words, labels = read_dictionaries(source.folder, wanted.data)
    bpe = engine_in(source.folder, wanted.keywords)
    brought = UserTokenizer(folder=source.folder, bpe=bpe, words=words, labels=labels)
    parts = complete(brought, checkpoint, wanted, Keywords())
    engine = parts.bpe or GPT2BPE.shipped()
    if added := added_in(source.folder, engine, parts.dictionary):
        parts = dataclasses.replace(parts, bpe=with_tokens(engine, added))
    checkpoint.family = fairseq_family(parts.bpe, parts.dictionary, checkpoint.config)
    return parts


def fairseq_files(
    checkpoint: Checkpoint, tokenizer: Tokenizer, head: str | None = None
) -> tuple[Checkpoint, dict[str, bytes]]:
    """Bring a model and its pieces into fairseq's form."""
    checkpoint = held_by_fairseq(checkpoint, head)
    check_relative(checkpoint)
    check_layout(tokenizer, FAIRSEQ.name, lays_out_as_roberta(tokenizer))
    shipped = without_added(tokenizer.engine) is GPT2BPE.shipped()
    files = {} if shipped else tokenizer.piece_table.fairseq_files()
    dictionary = fairseq_dictionary(tokenizer, checkpoint.config.vocab_size)
    checkpoint = dataclasses.replace(checkpoint, dictionary=dictionary)
    return checkpoint, {**files, **fairseq_added_file(tokenizer)}


def _write(checkpoint: Checkpoint, tokenizer: Tokenizer, directory: Path, head: str | None) -> None:
    """See `Format.write`; every classification head is kept, or the one that is named."""
    checkpoint, files = fairseq_files(checkpoint, tokenizer, head)
    write_fairseq(checkpoint, directory, files)
    advise_of_thresholds(checkpoint, "fairseq's", list(checkpoint.known_heads))
    advise_of_refusals(checkpoint, "fairseq's", list(checkpoint.known_heads))
    advise_of_vectors(checkpoint, "fairseq's")


FAIRSEQ = Format(
    name="fairseq",
    detect=_detect,
    read=_read,
    read_tokenizer=_read_tokenizer,
    write=_write,
    passing=("label/dict.txt", "encoder.json", "vocab.bpe", TOKENIZER_CONFIG_FILE, *VOCABULARIES),
)
"""A model.pt with dict.txt, and the tables of what cuts texts where that is not GPT-2's BPE."""

"""Hugging Face's format: config.json with safetensors or .bin; with sentence-transformers' files.

The table of the family that config.json names says what everything is called (`names/`); nothing
here knows a family's names.
"""

from __future__ import annotations

import dataclasses
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from roberta_hub.arguments import advise, brief
from roberta_hub.checkpoint.checkpoint import (
    EMBEDDING,
    HEADS,
    LAYER,
    LM_WEIGHT,
    POOLER,
    POSITIONS,
    SEGMENTS,
    VERSION_KEY,
    Checkpoint,
    expand,
    expanded_config,
)
from roberta_hub.checkpoint.converted import RawCheckpoint
from roberta_hub.checkpoint.names.families import family_of
from roberta_hub.checkpoint.names.table import HeadNames, NameTable
from roberta_hub.checkpoint.quantized import check_not_quantized
from roberta_hub.checkpoint.safetensors import write_safetensors
from roberta_hub.checkpoint.tensors import copy_to_memory, is_finite, stays_finite
from roberta_hub.checkpoint.wrappers import unwrap
from roberta_hub.config import RobertaConfig
from roberta_hub.errors import CheckpointError, Remedy
from roberta_hub.files import write_files, write_json
from roberta_hub.folder import Folder
from roberta_hub.formats.cross_encoder import read_cross_encoder
from roberta_hub.formats.foreign_heads import (
    advise_of_heads,
    advise_of_refusals,
    advise_of_thresholds,
    check_first_token,
)
from roberta_hub.formats.format import CheckpointSource, Format, folder_of
from roberta_hub.formats.huggingface_config import (
    check_expressible,
    check_only,
    read_config,
    write_config,
)
from roberta_hub.formats.huggingface_heads import (
    about_head,
    head_to_write,
    heads_in,
    read_heads,
)
from roberta_hub.formats.lora import base_part, is_peft
from roberta_hub.formats.ours import is_ours
from roberta_hub.formats.overrides import override
from roberta_hub.formats.sentence_transformers import (
    MODULES_FILE,
    find_body,
    read_layers,
    read_sentence_settings,
    sentence_files,
)
from roberta_hub.formats.sentence_transformers import SETTINGS_FILES as SENTENCE_FILES
from roberta_hub.formats.shards import WHOLE, config_name, read_weights, weights_in
from roberta_hub.formats.tokenizer_files import (
    VOCABULARIES,
    check_layout,
    is_written_by_its_class,
    tokenizer_files,
)
from roberta_hub.formats.tokenizers import (
    TokenizerParts,
    TokenizerRequest,
    complete,
    fit_segments,
    read_user_tokenizer,
    tells_segments,
)
from roberta_hub.settings import SentenceSettings
from roberta_hub.text.added import TOKENIZER_CONFIG_FILE
from roberta_hub.text.learnt import LEARNT_KEY, pack, unpack
from roberta_hub.text.tokenizer import Tokenizer

SETFIT_HEAD = "model_head.pkl"
"""SetFit's file next to a sentence-transformers model."""
_SIZES = {
    "vocab_size": [(EMBEDDING, 0)],
    "max_positions": [(POSITIONS, 0)],
    "num_segments": [(SEGMENTS, 0)],
    "ffn_dim": [(f"{LAYER}0.fc1.weight", 0), (f"{LAYER}0.fc2.weight", 1)],
    "embed_dim": [(f"{LAYER}0.fc1.weight", 1), (f"{LAYER}0.fc2.weight", 0)],
}
"""Our field -> tensors, and the axis whose size it is."""


def parameter_names(
    table: NameTable, num_layers: int, heads: Iterable[HeadNames] = ()
) -> dict[str, str]:
    """Our name -> Hugging Face's of every parameter.

    Example:
        >>> from roberta_hub.checkpoint.names.roberta import ROBERTA
        >>> names = parameter_names(ROBERTA, 1)
        >>> names["encoder.sentence_encoder.layers.0.fc1.weight"]
        'roberta.encoder.layer.0.intermediate.dense.weight'
    """
    rows = {ours: table.prefix + theirs for ours, theirs in table.body.items()}
    for i in range(num_layers):
        place = table.prefix + table.layer_prefix.format(i)
        rows |= {f"{LAYER}{i}.{ours}": place + theirs for ours, theirs in table.layer.items()}
    rows |= table.lm_head
    for head in heads:
        rows |= {head.begin + ours: theirs for ours, theirs in head.modules.items()}
    if table.pooler is not None and table.pooler not in rows.values():  # else a head's
        rows[f"{POOLER}dense"] = table.pooler
    names: dict[str, str] = {}
    for ours, theirs in rows.items():
        if ours.endswith((".weight", ".bias")):
            names[ours] = theirs
        else:
            names |= {f"{ours}.{part}": f"{theirs}.{part}" for part in ("weight", "bias")}
    return names


def read_huggingface(
    folder: Folder,
    dtype: torch.dtype | None = None,
    *,
    file: Path | None = None,
    converted: bool = False,
    adapter: bool | None = None,
) -> Checkpoint:
    """Read a directory written by transformers: masked LM, bare encoder, or one with a head.

    Heads are those for sequence and token classification, question answering and multiple choice,
    and those that BERT, ALBERT and ELECTRA were pre-trained with. One for multiple choice is a
    classification head with one output, its dense layer being transformers' pooler; so are BERT's
    and ALBERT's heads for sentences. The token-type row of RoBERTa's kinds is added to the position
    rows, which is the same sum.
    """
    place = file or folder / weights_in(folder)  # first: no config.json makes up for weights
    hf = folder.json(config_name(folder))
    neutral = None
    if hf.get("model_type") is None:  # as in 2019: the tensors' names say it
        neutral = _read_plain(folder, place, adapter, converted=converted)
    table = family_of(hf, str(folder), neutral.weights if neutral else ())
    config = read_config(hf, table, folder)
    if neutral is None:
        neutral = _read_plain(folder, place, adapter, converted=converted)
    source = str(folder if file is None or file.name in WHOLE else file)
    return from_their_names(hf, neutral, table, config, folder, dtype, source)


def from_their_names(
    hf: dict[str, Any],
    neutral: RawCheckpoint,
    table: NameTable,
    config: RobertaConfig,
    folder: Folder,
    dtype: torch.dtype | None,
    source: str,
) -> Checkpoint:
    """Make a checkpoint of tensors under transformers' names."""
    theirs = _in_full(neutral.weights, table)
    _check_sizes(hf, theirs, table, folder)
    row = theirs.pop(table.prefix + table.folded, None) if table.folded else None
    heads = heads_in(table, theirs, hf.get("architectures"))
    for head in heads:
        if all(f"{module}.weight" in theirs for module in head.modules.values()):
            check_only(hf, head.only, table, folder)
    weights = _renamed(theirs, table, config, heads, str(folder))
    config = dataclasses.replace(
        config, lm_head=any(k.startswith("encoder.lm_head.") for k in weights)
    )
    if not config.untie_weights:
        weights.pop(LM_WEIGHT, None)
    finite = neutral.finite and stays_finite(weights, dtype)
    weights = copy_to_memory(weights, dtype, neutral.origin)
    if table.positions_from_zero:
        _move_positions(weights, config, str(folder))
    if row is not None and POSITIONS in weights:
        _fold(row, weights, config, str(folder))
        finite = finite and is_finite(weights[POSITIONS])  # of two large numbers it could be none
    _share_pooler(weights, table, heads)
    weights[VERSION_KEY] = torch.tensor([3.0])
    checkpoint = Checkpoint(
        config=config, weights=weights, source=source, finite=finite, family=table.model_type
    )
    read_heads(hf, checkpoint, heads)
    return checkpoint


def _read_plain(
    folder: Folder, file: Path, adapter: bool | None, *, converted: bool
) -> RawCheckpoint:
    """Read all tensors, without the names of wrappers, and refuse those that are quantized."""
    neutral = read_weights(folder, file, converted=converted)
    check_not_quantized(neutral.weights, str(file))
    neutral.weights = unwrap(neutral.weights, str(file))
    if is_peft(neutral.weights):
        neutral.weights = base_part(neutral.weights, folder, str(file), adapter)
    return neutral


def _in_full(theirs: dict[str, Tensor], table: NameTable) -> dict[str, Tensor]:
    """Bring names to the form of the table: the prefix in front, today's spelling."""
    if not any(key.startswith(table.prefix) for key in theirs):  # saved from the bare body
        theirs = {table.prefix + key: theirs.pop(key) for key in list(theirs)}
    for old, new in (("LayerNorm.gamma", "LayerNorm.weight"), ("LayerNorm.beta", "LayerNorm.bias")):
        for key in [key for key in theirs if old in key]:
            theirs[key.replace(old, new)] = theirs.pop(key)
    for second, first in table.doubles.items():
        if second in theirs:
            theirs[first] = theirs.pop(second)
    return theirs


def _check_sizes(
    hf: Mapping[str, Any], theirs: Mapping[str, Tensor], table: NameTable, folder: Folder
) -> None:
    """Refuse weights that agree with each other, and not with a size that config.json names.

    A single tensor of another shape is damaged, and loading names it.
    """
    names, fields = parameter_names(table, 1), {b: a for a, b in table.fields.items()}
    width = "embedding_dim" if "embedding_dim" in fields else "embed_dim"
    for ours, places in {**_SIZES, width: [(EMBEDDING, 1), (POSITIONS, 1)]}.items():
        field = fields.get(ours, "")
        tensors = [(theirs.get(names.get(tensor, "")), axis) for tensor, axis in places]
        found = {own.size(axis) for own, axis in tensors if own is not None and own.dim() == 2}
        if field in hf and len(found) == 1 and hf[field] not in found:
            raise _of_two_models(field, hf[field], f"are of size {found.pop()}", folder)
    if (row := theirs.get(table.prefix + (table.folded or " "))) is not None and row.dim() == 2:
        given = hf.get("type_vocab_size", 0)
        if type(given) is int and given > len(row) > 0:
            raise _of_two_models("type_vocab_size", given, f"have {len(row)}", folder)
    field = fields.get("num_unique_layers", fields["num_layers"])
    layers, given = _layers_in(theirs, table), hf.get(field)
    if type(given) is int and given > layers > 0:
        raise _of_two_models(field, given, f"have {layers}", folder)


def _of_two_models(field: str, given: object, found: str, folder: Folder) -> CheckpointError:
    return CheckpointError(
        f"{field} in config.json is {brief(given)}, and the weights {found}; the two files are not "
        "of one model",
        place=str(folder),
    )


def _layers_in(theirs: Iterable[str], table: NameTable) -> int:
    """Count the layers, or groups of layers, whose tensors are there."""
    begin, _, rest = (table.prefix + table.layer_prefix).partition("{}")
    pattern = re.compile(rf"{re.escape(begin)}(\d{{1,6}}){re.escape(rest)}")
    found = (pattern.match(name) for name in theirs)
    return 1 + max((int(match[1]) for match in found if match), default=-1)


def _renamed(
    theirs: dict[str, Tensor],
    table: NameTable,
    config: RobertaConfig,
    heads: Sequence[HeadNames],
    source: str,
) -> dict[str, Tensor]:
    """Take the tensors out of `theirs`, under our names."""
    layers = config.num_unique_layers or config.num_layers
    ours = {b: a for a, b in parameter_names(table, layers, heads).items()}
    weights: dict[str, Tensor] = {}
    for key in list(theirs):
        tensor = theirs.pop(key)
        if key in ours:
            weights[ours[key]] = tensor
        elif not key.startswith(table.dropped):
            raise CheckpointError(
                f"{source}: tensor {key[:120]!r} has no place in a {table.title} for masked LM, "
                "sequence or token classification, question answering or multiple choice"
                f"{_of_a_later_layer(key, table, layers)}"
            )
    return weights


def _of_a_later_layer(key: str, table: NameTable, layers: int) -> str:
    """Say how many layers config.json has, if a tensor belongs to a later one."""
    if _layers_in([key], table) <= layers:
        return ""
    fields = {b: a for a, b in table.fields.items()}
    name = fields.get("num_unique_layers", fields["num_layers"])
    return f"; {name} in config.json is {layers}"


def _share_pooler(weights: dict[str, Tensor], table: NameTable, heads: Sequence[HeadNames]) -> None:
    """Give the pooler a copy of the matrix that a head of theirs reads it through."""
    for head in heads:
        for ours, theirs in head.modules.items():
            for part in ("weight", "bias"):
                tensor = weights.get(f"{head.begin}{ours}.{part}")
                if theirs == table.pooler and tensor is not None:
                    weights[f"{POOLER}dense.{part}"] = tensor.clone()


def _move_positions(weights: dict[str, Tensor], config: RobertaConfig, source: str) -> None:
    """Put rows of zeros before the position table, so that row `padding_idx + 1` is the first."""
    positions = weights.get(POSITIONS)
    if positions is None:
        return
    if positions.dim() != 2:
        raise CheckpointError(
            f"{source}: position embeddings have shape {tuple(positions.shape)}; the file is "
            "damaged or of another architecture"
        )
    nothing = positions.new_zeros(config.padding_idx + 1, positions.size(1))
    weights[POSITIONS] = torch.cat([nothing, positions])


def _fold(row: Tensor, weights: dict[str, Tensor], config: RobertaConfig, source: str) -> None:
    """Add the one row of token types, which every token gets, to every position."""
    positions = weights[POSITIONS]
    if row.dim() != 2 or not len(row) or row.shape[1:] != positions.shape[1:]:
        raise CheckpointError(
            f"{source}: token-type embeddings have shape {tuple(row.shape)} and position "
            f"embeddings {tuple(positions.shape)}; the file is damaged or of another architecture"
        )
    if len(row) > 1:
        warnings.warn(
            f"{source}: there are {len(row)} token types, and every token gets the first, as "
            "transformers' tokenizers of such models say; if this one was trained on others too, "
            "its answers to pairs will differ",
            stacklevel=6,
        )
    # A clone: what is mapped is not written to.
    weights[POSITIONS] = positions.clone()
    weights[POSITIONS][config.padding_idx + 1 :] += row[0].to(positions.dtype)


def write_huggingface(
    checkpoint: Checkpoint,
    directory: Path,
    vocabulary: Mapping[str, bytes],
    head: str | None = None,
    *,
    ends: tuple[int, int] | None = None,
) -> None:
    """Write config.json, model.safetensors and tokenizer files that transformers loads."""
    table = family_of({"model_type": checkpoint.family}, checkpoint.source)
    known = {*table.fields.values(), *table.fixed}
    config, weights = expand(checkpoint.config, checkpoint.weights, known)
    names = head_to_write(table, checkpoint, head)
    if names and names.kind == HEADS:
        check_first_token(checkpoint, f"transformers' {table.title}", [names.name])
    sizes = checkpoint.heads().get(names.name) if names and names.kind == HEADS else None
    check_expressible(config, table, sizes)
    if names and sizes and config.spectral_norm_heads:
        weights = _fold_spectral_norm(weights, f"{HEADS}{names.name}.out_proj.")
    theirs = their_tensors(weights, config, table, names)
    directory.mkdir(parents=True, exist_ok=True)
    write_safetensors(directory / "model.safetensors", theirs, {"format": "pt"})
    write_files(directory, vocabulary)
    about = description(checkpoint, head, ends=ends)
    if checkpoint.learnt:
        about[LEARNT_KEY] = pack(checkpoint.learnt)
    write_json(directory / "config.json", about)
    if names:
        fixed = [known.name for known in table.heads if known.labels]  # of the pre-training
        advise_of_heads(checkpoint, "Hugging Face's", [names.name], fixed)
    if names and names.kind == HEADS:
        advise_of_thresholds(checkpoint, "Hugging Face's", [names.name])
        advise_of_refusals(checkpoint, "Hugging Face's", [names.name])


def description(
    checkpoint: Checkpoint, head: str | None = None, *, ends: tuple[int, int] | None = None
) -> dict[str, object]:
    """Make the content of config.json: kind, sizes, the head's labels."""
    table = family_of({"model_type": checkpoint.family}, checkpoint.source)
    names = head_to_write(table, checkpoint, head)
    shape = expanded_config(checkpoint.config, {*table.fields.values(), *table.fixed})
    about = write_config(shape, table, checkpoint.weights[EMBEDDING].dtype, ends)
    return about if names is None else about | about_head(table, names, checkpoint)


def their_tensors(
    weights: Mapping[str, Tensor], config: RobertaConfig, table: NameTable, head: HeadNames | None
) -> dict[str, Tensor]:
    """Return the tensors of a model under their names, and those that only they have."""
    layers = config.num_unique_layers or config.num_layers
    names = parameter_names(table, layers, [head] if head else [])
    theirs = {names[name]: tensor for name, tensor in weights.items() if name in names}
    if table.positions_from_zero:
        theirs[names[POSITIONS]] = weights[POSITIONS][config.padding_idx + 1 :]
    if table.folded:
        nothing = torch.zeros(1, config.embed_dim, dtype=weights[EMBEDDING].dtype)
        theirs[table.prefix + table.folded] = nothing
    if config.untie_weights and config.lm_head:
        theirs |= {second: theirs[first] for second, first in table.doubles.items()}
    else:
        theirs.pop(names[LM_WEIGHT], None)
    return theirs


def _fold_spectral_norm(weights: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the matrix that a spectral-norm layer multiplies by in eval: W / (u W v)."""
    weights = dict(weights)
    raw, u, v = (weights.pop(f"{prefix}weight_{part}") for part in ("orig", "u", "v"))
    weights[f"{prefix}weight"] = raw / torch.dot(u, raw @ v)
    return weights


def files_beside(checkpoint: Checkpoint, tokenizer: Tokenizer) -> dict[str, bytes]:
    """Make the tokenizer's files, and those that say how a vector of a text is made."""
    config = checkpoint.config
    files = tokenizer_files(tokenizer, config.max_positions)
    if checkpoint.sentence is not None:
        files |= sentence_files(
            checkpoint.sentence, config.embed_dim, config.max_positions, checkpoint.weights
        )
    return files


def _detect(folder: Folder, file: Path | None) -> CheckpointSource | None:
    """See `Format.detect`: a modules.json, or a config.json that is not ours."""
    if file is None and folder.has(MODULES_FILE) and not is_ours(folder):
        try:
            body = find_body(folder)
        except CheckpointError:
            body = (
                folder  # `_read` says what is wrong; a save only wants to know whose folder it is
            )
        return CheckpointSource(format=HUGGINGFACE, folder=body, sentences=folder)
    beside = folder_of(file, folder)
    if is_ours(beside) or not beside.has(config_name(beside)):
        return None
    sentences = folder if folder.has(MODULES_FILE) else None
    return CheckpointSource(format=HUGGINGFACE, folder=beside, file=file, sentences=sentences)


def _read(
    source: CheckpointSource,
    overrides: Mapping[str, object],
    dtype: torch.dtype | None,
    *,
    converted: bool,
) -> Checkpoint:
    """See `Format.read`."""
    sentence = None if source.sentences is None else read_sentence_settings(source.sentences)
    if (folder := source.sentences or source.folder).has(SETFIT_HEAD):
        advise_of_setfit(folder / SETFIT_HEAD)
    checkpoint = read_huggingface(
        source.folder, dtype, file=source.file, converted=converted, adapter=source.adapter
    )
    if source.sentences is not None:
        add_sentence(checkpoint, sentence, source.sentences, dtype, converted=converted)
    hf = source.folder.optional(config_name(source.folder))
    checkpoint.learnt = unpack(hf.get(LEARNT_KEY))
    if sentence is None:
        read_cross_encoder(checkpoint, hf, source.sentences, source.folder)
    if overrides:
        override(checkpoint, overrides)
    return checkpoint


def add_sentence(
    checkpoint: Checkpoint,
    sentence: SentenceSettings | None,
    folder: Folder,
    dtype: torch.dtype | None,
    *,
    converted: bool,
) -> None:
    """Give a checkpoint what a sentence-transformers folder says of its vectors and layers."""
    checkpoint.sentence = sentence
    if sentence is None:
        return
    for raw in read_layers(folder, sentence, converted=converted):
        checkpoint.finite = checkpoint.finite and raw.finite and stays_finite(raw.weights, dtype)
        checkpoint.weights |= copy_to_memory(raw.weights, dtype, raw.origin)
    if "pooler" in sentence.pooling and not checkpoint.has(POOLER):
        raise CheckpointError(
            f"{folder} asks for pooler_output, and the weights have no pooler.dense; "
            "copy those that it was saved with",
        )


def advise_of_setfit(place: object) -> None:
    """Warn of SetFit's head, which is not read: the vectors of its model are right."""
    advise(
        f"{place} is SetFit's head, a pickle of scikit-learn, which is not read; the body alone is "
        "loaded, which gives vectors and no labels",
        remedy=Remedy(
            "make a head of the same rows: fit(rows, model=path)",
            "make a head of the same rows: `roberta-hub fit ROWS --model FOLDER`",
        ),
    )


def _read_tokenizer(
    source: CheckpointSource, checkpoint: Checkpoint, wanted: TokenizerRequest
) -> TokenizerParts:
    """See `Format.read_tokenizer`: the tokenizer says whether there are segments."""
    brought = read_user_tokenizer(source.folder, checkpoint, wanted, whole=False)
    parts = complete(brought, checkpoint, wanted, wanted.keywords)
    has_segments = tells_segments(source.folder, parts.layout)
    fit_segments(checkpoint, parts.layout, has_segments=has_segments)
    return parts


def _write(checkpoint: Checkpoint, tokenizer: Tokenizer, directory: Path, head: str | None) -> None:
    """See `Format.write`; one head is kept."""
    check_layout(tokenizer, HUGGINGFACE.name, is_written_by_its_class(tokenizer))
    ends = (tokenizer.bos, tokenizer.eos)
    write_huggingface(checkpoint, directory, files_beside(checkpoint, tokenizer), head, ends=ends)


HUGGINGFACE = Format(
    name="huggingface",
    detect=_detect,
    read=_read,
    read_tokenizer=_read_tokenizer,
    write=_write,
    passing=(TOKENIZER_CONFIG_FILE, *VOCABULARIES, *SENTENCE_FILES),
)
"""What transformers and sentence-transformers read and write."""

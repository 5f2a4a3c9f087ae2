"""Model, vocabulary and labels -> a checkpoint in any of the three formats.

`hub.py` is the way back.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from roberta_hub.arguments import kind_of, path_of, shown
from roberta_hub.checkpoint.checkpoint import LM_WEIGHT, Checkpoint
from roberta_hub.checkpoint.formats.fairseq import write_fairseq
from roberta_hub.checkpoint.formats.huggingface import write_huggingface
from roberta_hub.checkpoint.store import write_store
from roberta_hub.config import Inputs
from roberta_hub.errors import CheckpointError, InputError, InputTypeError, RobertaHubError
from roberta_hub.files import read_json, replacing_all, write_files
from roberta_hub.model.roberta import own_model
from roberta_hub.text.bpe import GPT2BPE
from roberta_hub.text.dictionary import Dictionary
from roberta_hub.text.huggingface import UNUSED
from roberta_hub.text.tokenizer import Tokenizer

TOKENIZER = ("vocab.json", "merges.txt", "added_tokens.json", "tokenizer_config.json")
"""Hugging Face's names of a tokenizer's files, which our own format uses too."""
FORMATS = {
    "roberta_hub": ("dict.txt", "label_dict.txt", *TOKENIZER),
    "fairseq": ("label/dict.txt", "encoder.json", "vocab.bpe"),
    "huggingface": ("added_tokens.json", "tokenizer.json", "special_tokens_map.json"),
}
"""Every format, and its files that not every model has: those of an earlier save are removed."""


def checkpoint_of(
    model: nn.Module,
    tokenizer: Tokenizer,
    task: Any,
    labels: Mapping[str, Sequence[str]],
    own_head: str | None = None,
    inputs: Mapping[str, Inputs] | None = None,
) -> Checkpoint:
    """Put a model, its vocabulary and its labels into a checkpoint; the weights are not copied.

    Args:
        model: one of ours.
        tokenizer: whose dictionary the checkpoint gets.
        task: gives the label dictionary, the task's name and its first token, where it has them.
        labels: class names by head; those of heads that the model lacks are left out.
        own_head: the head that the model was trained for last, if known.
        inputs: what each head was trained on, if known.

    Raises:
        InputTypeError: a model that is not ours.
    """
    model = own_model(model, "save writes")
    weights = dict(model.state_dict())
    if not model.config.untie_weights:
        weights.pop(LM_WEIGHT, None)
    label_dictionary = getattr(task, "label_dictionary", None)
    heads = {*model.classification_heads, *model.token_heads, *model.span_heads}
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
            if head in heads and head not in model.span_heads
        },
        own_head=own_head if own_head in heads else None,
        inputs={head: given for head, given in (inputs or {}).items() if head in heads},
        task=getattr(task, "name", "masked_lm"),
        init_token=getattr(task, "init_token", None),
    )


def write(
    checkpoint: Checkpoint,
    tokenizer: Tokenizer,
    directory: str | os.PathLike[str],
    format: str,
    head: str | None,
) -> None:
    """Write a checkpoint in one of `FORMATS`.

    Args:
        checkpoint: of the model.
        tokenizer: whose files are written beside it.
        directory: made if missing; another model of the same format in it is replaced.
        format: one of `FORMATS`.
        head: for Hugging Face's format, which holds one; None: the only one.

    Raises:
        CheckpointError: the format cannot express the model, or the disk refuses. The directory is
            then as it was before.
        InputError: no such format, or a path that cannot be.
        InputTypeError: `directory` is no path.
    """
    # Not at the top: torch.hub's users load models without it (`dependencies` in hubconf.py).
    from safetensors import SafetensorError

    if not isinstance(format, str) or format not in FORMATS:
        raise InputError(f"format is {shown(format)}; choose {', '.join(FORMATS)}")
    if not (head is None or isinstance(head, str)):
        raise InputTypeError(f"head is a {kind_of(head)}; pass a head's name")
    directory = path_of("the directory to save into", directory)
    try:
        _check_vacant(directory, format)
        with replacing_all(directory, FORMATS[format]) as work:
            _write(checkpoint, tokenizer, work, format, head)
    except RobertaHubError:
        raise
    except (OSError, RuntimeError, SafetensorError) as error:  # RuntimeError: torch.save
        raise CheckpointError(
            f"{str(directory)[:300]}: cannot be written ({type(error).__name__}: "
            f"{str(error).splitlines()[0][:200]}); what was there is as before. Free some room or "
            "choose another directory"
        ) from error


def _check_vacant(directory: Path, format: str) -> None:
    """Refuse a directory with a model of another format.

    Loading would find that model, or a mixture of both.
    """
    there = {"fairseq"} if (directory / "model.pt").is_file() else set()
    if (directory / "config.json").is_file():
        ours = read_json(directory / "config.json").get("format") == "roberta_hub"
        there.add("roberta_hub" if ours else "huggingface")
    if there - {format}:
        raise CheckpointError(
            f"{directory} holds a model of format {', '.join(sorted(there - {format}))!r}, which a "
            f"save as {format!r} would not replace but mix with; choose another directory"
        )


def _write(
    checkpoint: Checkpoint, tokenizer: Tokenizer, directory: Path, format: str, head: str | None
) -> None:
    own_bpe, rows = tokenizer.bpe is not GPT2BPE.shipped(), checkpoint.config.vocab_size
    if format == "roberta_hub":
        shipped = tokenizer.dictionary.symbols == Dictionary.roberta().symbols
        write_store(
            dataclasses.replace(checkpoint, dictionary=None) if shipped else checkpoint, directory
        )
        if own_bpe or rows > len(tokenizer):  # a dict.txt alone has a symbol for every row
            write_files(directory, tokenizer_files(tokenizer, checkpoint.config.max_positions))
    elif format == "fairseq":
        if tokenizer.bpe.added or tokenizer.bpe.add_prefix_space:
            raise CheckpointError(
                "fairseq's BPE has no added words and puts no space before a text, as this "
                "tokenizer does; save as 'huggingface' or 'roberta_hub'"
            )
        dictionary = fairseq_dictionary(tokenizer, rows)
        write_fairseq(dataclasses.replace(checkpoint, dictionary=dictionary), directory)
        if own_bpe:
            write_files(directory, bpe_files(tokenizer))
    else:
        files = tokenizer_files(tokenizer, checkpoint.config.max_positions)
        ends = (tokenizer.bos, tokenizer.eos)
        write_huggingface(checkpoint, directory, files, head, ends=ends)


def fairseq_dictionary(tokenizer: Tokenizer, rows: int) -> bytes:
    """Make a dict.txt without `<mask>`, with a filler for each row that has no symbol."""
    dictionary = tokenizer.dictionary
    if rows > len(dictionary):
        dictionary = copy.deepcopy(dictionary)
        dictionary.pad_to_(rows)
    return dictionary.dumps(with_mask=False)


def bpe_files(tokenizer: Tokenizer) -> dict[str, bytes]:
    """encoder.json and vocab.bpe, what fairseq calls gpt2_encoder_json and gpt2_vocab_bpe."""
    ids = {piece: int(symbol) for piece, symbol in tokenizer.bpe.printable_ids().items()}
    merges = ["#version: 0.2", *tokenizer.bpe.printable_merges(), ""]
    return {
        "encoder.json": json.dumps(ids, ensure_ascii=False).encode(),
        "vocab.bpe": "\n".join(merges).encode(),
    }


def tokenizer_files(tokenizer: Tokenizer, max_length: int) -> dict[str, bytes]:
    """The files from which transformers builds the same tokenizer, as many as it needs.

    Raises:
        CheckpointError: a symbol with two ids, which vocab.json cannot express.
    """
    added = {w: tokenizer.dictionary.index(s) for w, s in tokenizer.bpe.added.items()}
    vocabulary = {piece: i for i, piece in enumerate(_row_names(tokenizer))}
    if len(vocabulary) < len(tokenizer):
        twice = next(p for i, p in enumerate(tokenizer.pieces()) if vocabulary.get(p, i) != i)
        raise CheckpointError(
            f"the dictionary gives {twice!r} two ids, which vocab.json cannot express; save as "
            "'fairseq'"
        )
    vocabulary |= added
    merges = tokenizer.bpe.printable_merges()
    about = {
        "tokenizer_class": "RobertaTokenizer",
        "model_max_length": max_length,
        "add_prefix_space": tokenizer.bpe.add_prefix_space,
    }
    words = {"added_tokens.json": json.dumps(added, ensure_ascii=False).encode()} if added else {}
    return words | {
        "vocab.json": json.dumps(vocabulary, ensure_ascii=False).encode(),
        "merges.txt": "\n".join(["#version: 0.2", *merges, ""]).encode(),
        "tokenizer_config.json": json.dumps(about, indent=2).encode(),
    }


def _row_names(tokenizer: Tokenizer) -> list[str]:
    """The piece of every row; a special symbol's rows that are out of use are named after it."""
    dictionary, names = tokenizer.dictionary, tokenizer.pieces()
    used = {
        dictionary.bos_word: tokenizer.bos,
        dictionary.eos_word: tokenizer.eos,
        dictionary.pad_word: tokenizer.pad,
        dictionary.unk_word: tokenizer.unk,
    }
    for i, symbol in enumerate(dictionary.symbols):
        if used.get(symbol, i) != i:
            names[i] = symbol + UNUSED
    for word, symbol in tokenizer.bpe.added.items():
        names[dictionary.index(symbol)] = word
    return names

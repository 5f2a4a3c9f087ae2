"""Saves a model, its vocabulary and its labels in any of the three formats; `hub.py` loads them."""

from __future__ import annotations

import copy
import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from roberta_hub.arguments import brief, kind_of, path_of, shown
from roberta_hub.checkpoint.checkpoint import LM_WEIGHT, Checkpoint
from roberta_hub.config import Inputs
from roberta_hub.errors import CheckpointError, InputError, InputTypeError, RobertaHubError
from roberta_hub.files import read_json, replacing_all, write_files
from roberta_hub.formats.fairseq import check_relative, write_fairseq
from roberta_hub.formats.huggingface import description, write_huggingface
from roberta_hub.formats.ours import write_store
from roberta_hub.formats.sentence_transformers import FILES as SENTENCE_FILES
from roberta_hub.formats.sentence_transformers import sentence_files
from roberta_hub.model.roberta import own_model
from roberta_hub.sentence_settings import SentenceSettings
from roberta_hub.text.bpe import GPT2BPE
from roberta_hub.text.byte_level import UNUSED
from roberta_hub.text.dictionary import Dictionary
from roberta_hub.text.huggingface import LAYOUT, SETTINGS
from roberta_hub.text.layout import Layout
from roberta_hub.text.tokenizer import Tokenizer

_VOCABULARIES = (
    "vocab.json",
    "merges.txt",
    "vocab.txt",
    "sentencepiece.bpe.model",
    "spiece.model",
    "added_tokens.json",
    "tokenizer.json",
    "special_tokens_map.json",
)
FORMATS = {
    "roberta_hub": ("dict.txt", "label_dict.txt", SETTINGS, *_VOCABULARIES),
    "fairseq": ("label/dict.txt", "encoder.json", "vocab.bpe", *_VOCABULARIES),
    "huggingface": (SETTINGS, *_VOCABULARIES, *SENTENCE_FILES),
}
"""Every format, and its files that not every model has: those of an earlier save are removed."""
EXPORTS = {"onnx": ("model.onnx", "model.onnx.data"), "torch": ("model.pt2",)}
"""What holds the model in a folder of `export`, by its format; the first is always there."""
EXPORTED = {"exported_by": "roberta_hub"}
"""Marks config.json in such a folder: only what has it may be replaced."""
ONE_SEPARATOR = ("Albert", "Bert", "Electra")
"""How the names of transformers' tokenizer classes begin that join sentences as BERT does."""


def checkpoint_of(
    model: nn.Module,
    tokenizer: Tokenizer,
    task: Any,
    labels: Mapping[str, Sequence[str]],
    own_head: str | None = None,
    inputs: Mapping[str, Inputs] | None = None,
    sentence: SentenceSettings | None = None,
    family: str = "roberta",
) -> Checkpoint:
    """Put a model, its vocabulary and its labels into a checkpoint; the weights are not copied.

    Args:
        model: one of ours.
        tokenizer: whose dictionary the checkpoint gets.
        task: gives the label dictionary, the task's name and its first token, where it has them.
        labels: class names by head; those of heads that the model lacks are left out.
        own_head: the head that the model was trained for last, if known.
        inputs: what each head was trained on, if known.
        sentence: how it makes sentence vectors, if known.
        family: `model_type` of the model's kind.

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
        dictionary=tokenizer.dictionary.dumps(with_mask=False)
        if tokenizer.dictionary.as_fairseq
        else None,  # the engine's files hold it
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
        sentence=sentence,
        family=family,
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
    if not isinstance(format, str) or format not in FORMATS:
        raise InputError(f"format is {shown(format)}; choose {', '.join(FORMATS)}")
    if not (head is None or isinstance(head, str)):
        raise InputTypeError(f"head is a {kind_of(head)}; pass a head's name")
    directory = path_of("the directory to save into", directory)
    if os.path.isfile(directory):  # which a name that is too long does not stop
        raise CheckpointError(
            f"{str(directory)[:300]} cannot be written: it is a file, and a model is saved as a "
            "directory; the file is as it was; choose another directory"
        )
    try:
        _check_vacant(directory, format)
        with replacing_all(directory, FORMATS[format]) as work:
            _write(checkpoint, tokenizer, work, format, head)
    except RobertaHubError:
        raise
    except (OSError, RuntimeError) as error:  # RuntimeError: torch.save
        raise CheckpointError(
            f"{str(directory)[:300]}: cannot be written ({type(error).__name__}: "
            f"{str(error).splitlines()[0][:200]}); what was there is as before. Free some room or "
            "choose another directory"
        ) from error


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
    saved = {"fairseq"} if (directory / "model.pt").is_file() else set()
    if (directory / "config.json").is_file():
        ours = read_json(directory / "config.json").get("format") == "roberta_hub"
        saved.add("roberta_hub" if ours else "huggingface")
    if saved - {format}:
        raise CheckpointError(
            f"{directory} holds a model of format {', '.join(sorted(saved - {format}))!r}, which a "
            f"save as {format!r} would not replace but mix with; choose another directory"
        )


def _write(
    checkpoint: Checkpoint, tokenizer: Tokenizer, directory: Path, format: str, head: str | None
) -> None:
    if format == "roberta_hub":
        _write_ours(checkpoint, tokenizer, directory)
    elif format == "fairseq":
        check_relative(checkpoint)
        _check_layout(tokenizer, format, _lays_out_as_roberta(tokenizer))
        _write_fairseq(checkpoint, tokenizer, directory)
    else:
        _check_layout(tokenizer, format, _is_written_by_its_class(tokenizer))
        ends = (tokenizer.bos, tokenizer.eos)
        write_huggingface(checkpoint, directory, _beside(checkpoint, tokenizer), head, ends=ends)


def beside_weights(
    checkpoint: Checkpoint, tokenizer: Tokenizer, head: str | None
) -> dict[str, bytes]:
    """Make the files of an export that hold no weights: those of Hugging Face's format, marked.

    Args:
        checkpoint: of the model.
        tokenizer: its files are left out where transformers would join sentences otherwise.
        head: that config.json describes; None: the only one.
    """
    about = description(checkpoint, head, ends=(tokenizer.bos, tokenizer.eos)) | EXPORTED
    files = _beside(checkpoint, tokenizer) if _is_written_by_its_class(tokenizer) else {}
    return files | {"config.json": json.dumps(about, indent=2, ensure_ascii=False).encode()}


def _beside(checkpoint: Checkpoint, tokenizer: Tokenizer) -> dict[str, bytes]:
    """Make the tokenizer's files, and those that say how a vector of a text is made."""
    config = checkpoint.config
    files = tokenizer_files(tokenizer, config.max_positions)
    if checkpoint.sentence is not None:
        files |= sentence_files(checkpoint.sentence, config.embed_dim, config.max_positions)
    return files


def _check_layout(tokenizer: Tokenizer, format: str, fits: bool) -> None:
    if not fits:
        raise CheckpointError(
            f"format {format!r} has no place for the special ids and separators of this tokenizer, "
            f"{brief(_described(tokenizer.layout))}; save as 'roberta_hub'"
        )


def _write_ours(checkpoint: Checkpoint, tokenizer: Tokenizer, directory: Path) -> None:
    if tokenizer.dictionary.symbols == Dictionary.roberta().symbols:
        checkpoint = dataclasses.replace(checkpoint, dictionary=None)  # the package has it
    write_store(checkpoint, directory)
    # A dict.txt alone has a symbol for every row, and means RoBERTa's BPE and way of joining.
    enough = (
        tokenizer.engine is GPT2BPE.shipped()
        and checkpoint.config.vocab_size <= len(tokenizer)
        and _lays_out_as_roberta(tokenizer)
    )
    if not enough:
        write_files(directory, tokenizer_files(tokenizer, checkpoint.config.max_positions))


def _write_fairseq(checkpoint: Checkpoint, tokenizer: Tokenizer, directory: Path) -> None:
    shipped = tokenizer.engine is GPT2BPE.shipped()
    files = {} if shipped else tokenizer.engine.fairseq_files()
    dictionary = fairseq_dictionary(tokenizer, checkpoint.config.vocab_size)
    write_fairseq(dataclasses.replace(checkpoint, dictionary=dictionary), directory, files)


def fairseq_dictionary(tokenizer: Tokenizer, rows: int) -> bytes:
    """Make a dict.txt without `<mask>`, with a filler for each row that has no symbol."""
    dictionary = tokenizer.dictionary
    if rows > len(dictionary):
        dictionary = copy.deepcopy(dictionary)
        dictionary.pad_to_(rows)
    return dictionary.dumps(with_mask=False)


def tokenizer_files(tokenizer: Tokenizer, max_length: int) -> dict[str, bytes]:
    """Return the files from which transformers builds the same tokenizer, as many as it needs.

    Raises:
        CheckpointError: rows that the engine's files cannot express.
    """
    settings = tokenizer.engine.settings
    if not settings:
        return {}  # there is no vocabulary
    about = {"tokenizer_class": settings["tokenizer_class"], "model_max_length": max_length}
    about |= settings
    if not _lays_out_as_roberta(tokenizer):
        about[LAYOUT] = _described(tokenizer.layout)
    files = tokenizer.engine.files(_rows(tokenizer))
    return files | {SETTINGS: json.dumps(about, indent=2).encode()}


def _is_written_by_its_class(tokenizer: Tokenizer) -> bool:
    """Tell whether the class that transformers makes of the files joins sentences as we do."""
    kind = str(tokenizer.engine.settings.get("tokenizer_class"))
    single = kind.startswith(ONE_SEPARATOR) and tokenizer.layout.separators == 1
    return single or _lays_out_as_roberta(tokenizer)


def _lays_out_as_roberta(tokenizer: Tokenizer) -> bool:
    dictionary = tokenizer.dictionary
    return dictionary.as_fairseq and tokenizer.layout == Layout.of(dictionary)


def _described(layout: Layout) -> dict[str, int | None]:
    """Special ids and separators, for a file and for people."""
    names = ("bos", "eos", "pad", "unk", "mask", "separators")
    return {name: getattr(layout, name) for name in names}


def _rows(tokenizer: Tokenizer) -> list[int | str]:
    """Tell what each id is; a special symbol's rows that are out of use are named after it."""
    dictionary, layout, rows = tokenizer.dictionary, tokenizer.layout, list(tokenizer.rows)
    used = {
        dictionary.bos_word: layout.bos,
        dictionary.eos_word: layout.eos,
        dictionary.pad_word: layout.pad,
        dictionary.unk_word: layout.unk,
    }
    for i, symbol in enumerate(dictionary.symbols):
        if used.get(symbol, i) != i:
            rows[i] = symbol + UNUSED
    return rows

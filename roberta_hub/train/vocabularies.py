"""Reads what cuts texts into ids, without weights: of a model's name, or of a folder."""

from __future__ import annotations

import os
from pathlib import Path

from roberta_hub.config import RobertaConfig
from roberta_hub.errors import InputError
from roberta_hub.folder import Folder
from roberta_hub.hub import available_models, load_model
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.model.roberta import Roberta
from roberta_hub.model.skeleton import shapes_only
from roberta_hub.text.bpe import GPT2BPE
from roberta_hub.text.dictionary import Dictionary
from roberta_hub.text.fairseq_files import Keywords, engine_in
from roberta_hub.text.missing import NoVocabulary
from roberta_hub.text.task import Task
from roberta_hub.text.tokenizer import Tokenizer

_WEIGHTS = ("*.pt", "*.safetensors", "pytorch_model*.bin", "state-*", "best", "last")
"""What is in a folder that holds a model, or a run."""


def read_vocabulary(name: str) -> Tokenizer:
    """Read the tokenizer of a model, or of a folder with dict.txt.

    Example:
        >>> len(read_vocabulary("roberta.large"))
        50265
    """
    path = Path(name)
    if is_vocabulary(path):
        return folder_vocabulary(path)
    if not os.path.exists(name) and name in available_models():
        found = load_model(name, pretrained=False, device="meta").tokenizer
        if not isinstance(found.engine, NoVocabulary):
            return found
    return load_model(name).tokenizer


def is_vocabulary(folder: Path) -> bool:
    """Tell whether a path is a folder that has a dict.txt, and no model."""
    if not os.path.isdir(folder):  # which also answers for names that no folder can have
        return False
    return (folder / "dict.txt").is_file() and not any(any(folder.glob(own)) for own in _WEIGHTS)


def folder_vocabulary(folder: Path) -> Tokenizer:
    """Read dict.txt and the files of its pieces; without such files the pieces are GPT-2's."""
    dictionary = Dictionary.load(folder / "dict.txt", add_mask=True)
    engine = engine_in(Folder(folder), Keywords()) or GPT2BPE.shipped()
    tokenizer = Tokenizer(engine, dictionary)
    if not tokenizer.num_words:
        raise InputError(
            f"{folder}: no symbol of its dict.txt, such as {dictionary[dictionary.nspecial]!r}, is "
            "a piece that texts are cut into; put sentencepiece.bpe.model, or vocab.json and "
            "merges.txt, next to it"
        )
    return tokenizer


def vocabulary_interface(folder: Path) -> RobertaHubInterface:
    """Put the vocabulary of a folder into an interface that has no weights, only the tokenizer."""
    tokenizer = folder_vocabulary(folder)
    config = RobertaConfig(vocab_size=len(tokenizer), num_layers=1)
    with shapes_only():
        model = Roberta(config)
    return RobertaHubInterface(
        config, Task(tokenizer.dictionary), model, bpe=tokenizer.engine, source=str(folder)
    )

"""Gives a checkpoint its tokenizer: from its files, from the caller's, or RoBERTa's own.

A relative of RoBERTa without files gets none, and never RoBERTa's.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path

from roberta_hub.arguments import path_text
from roberta_hub.checkpoint.checkpoint import Checkpoint
from roberta_hub.config import RobertaConfig
from roberta_hub.errors import InputError, VocabularyError
from roberta_hub.files import check_regular, listing
from roberta_hub.formats.fairseq import read_dictionaries
from roberta_hub.formats.source import Found, Source, data_directory
from roberta_hub.text.bpe import GPT2BPE
from roberta_hub.text.dictionary import MASK, SPECIALS, Dictionary
from roberta_hub.text.fairseq_files import Keywords, engine_in, own_keywords
from roberta_hub.text.huggingface import read_tokenizer as read_huggingface_tokenizer
from roberta_hub.text.layout import Layout
from roberta_hub.text.missing import FILES, NoVocabulary, no_vocabulary
from roberta_hub.text.pieces import Engine
from roberta_hub.text.table_fit import check_table

_NAMED_FILES = (
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "tokenizer.json",
    "sentencepiece.bpe.model",
    "spiece.model",
    "sentencepiece.model",
)
"""What a file with a vocabulary must be called."""


@dataclass(frozen=True)
class Wanted:
    """What the caller says of the tokenizer."""

    keywords: Keywords
    """fairseq's: which engine, and where its files lie."""
    vocabulary: Path | None
    """Where a model without a vocabulary gets one."""


@dataclass(frozen=True)
class Tables:
    """What turns text into ids, and ids of classes into names."""

    bpe: Engine | None
    """None: RoBERTa's."""
    dictionary: Dictionary
    layout: Layout | None
    """Which ids are special and how sentences are joined; None: RoBERTa's."""
    label_dictionary: Dictionary | None
    """fairseq's, of a classifier; None where the checkpoint brings none."""


def wanted_tokenizer(bpe: str, overrides: dict[str, object]) -> Wanted:
    """Take what is said of the tokenizer out of the caller's arguments.

    Raises:
        InputError: no such engine, half of a pair of files, or random ids.
    """
    if overrides.pop("user_dir", None) is not None:
        warnings.warn("user_dir is not needed: the wsc task is built in", stacklevel=4)
    given = overrides.pop("vocabulary", None)
    vocabulary = None if given is None else Path(path_text("vocabulary", given))
    return Wanted(own_keywords(bpe, overrides), vocabulary)


def read_tokenizer(found: Found, checkpoint: Checkpoint, wanted: Wanted) -> Tables:
    """Read the tables that turn text into the ids of a checkpoint.

    Args:
        found: Hugging Face's files count before a dict.txt.
        checkpoint: brings the dictionaries of our own format; its embedding table must fit.
        wanted: what the caller says.

    Raises:
        VocabularyError: a table is damaged, or does not fit the embedding table; or the caller asks
            for an engine whose files are not there.
        InputError: the caller names a vocabulary for a model that brings its own.
    """
    source, own, layout = found.source, wanted.keywords, None
    bpe: Engine | None = None
    dictionary: Dictionary | None = None
    words, labels = checkpoint.dictionary, checkpoint.label_dictionary
    if source is not None and source.kind == "fairseq":
        words, labels = read_dictionaries(source.directory, found.data)
        bpe = engine_in(source.directory, own)
    elif source is not None:
        brought = read_huggingface_tokenizer(source.directory)
        if found.data != data_directory(source.directory, "."):
            if source.kind == "roberta_hub" or brought is not None:
                raise _own_vocabulary("data_name_or_path", found.data, source)
            words, labels = read_dictionaries(source.directory, found.data)
        if brought is not None:
            bpe, dictionary, layout = brought
    if wanted.vocabulary is not None:
        if source is not None and (dictionary is not None or (words and bpe is not None)):
            raise _own_vocabulary("vocabulary", wanted.vocabulary, source)
        bpe, dictionary, layout = _from_path(wanted.vocabulary, checkpoint.family)
    elif dictionary is None and words is None and (files := _lacking(found, checkpoint)):
        config = checkpoint.config
        bpe, dictionary, layout = no_vocabulary(
            checkpoint.source,
            files,
            checkpoint.family,
            config.vocab_size,
            config.padding_idx,
            config.separator_idx,
        )
    if dictionary is None:
        dictionary = _dictionary(words, checkpoint)
        if bpe is None and not own.paths and (files := _foreign(dictionary)):
            bpe = NoVocabulary(checkpoint.source, files, dictionary.symbols[len(SPECIALS) :][:1])
    if own.kind is not None and not (source is not None and source.kind == "fairseq"):
        bpe = _asked_for(own, bpe, source, checkpoint)
    check_table(
        dictionary,
        rows=checkpoint.config.vocab_size,
        padding_idx=checkpoint.config.padding_idx,
        source=checkpoint.source,
    )
    classes = None
    if labels is not None:
        classes = Dictionary.parse(labels, "label/dict.txt", add_mask=True)
    return Tables(bpe, dictionary, layout, classes)


def family_of(found: Found, checkpoint: Checkpoint, tables: Tables) -> str:
    """Tell the family of a checkpoint; a model.pt does not say it, its vocabulary does.

    Args:
        found: a record knows its family.
        checkpoint: of another format than fairseq's knows it too.
        tables: of the checkpoint.
    """
    if found.record is not None:
        return found.record.family
    if found.source is None or found.source.kind != "fairseq":
        return checkpoint.family
    return fairseq_family(tables.bpe, tables.dictionary, checkpoint.config)


def fairseq_family(engine: Engine | None, dictionary: Dictionary, config: RobertaConfig) -> str:
    """Tell the family of a model of fairseq's by what cuts its texts, and its dictionary.

    Args:
        engine: None: GPT-2's BPE.
        dictionary: of the model.
        config: of the model.

    Example:
        >>> fairseq_family(None, Dictionary.roberta(), RobertaConfig())
        'roberta'
    """
    if engine is None or isinstance(engine, GPT2BPE):
        return "roberta"
    if Layout.of(dictionary).bos != dictionary.bos():  # `<s>` stands there twice
        return "camembert"
    return "xlm-roberta-xl" if config.normalize_before else "xlm-roberta"


def _asked_for(
    own: Keywords, bpe: Engine | None, source: Source | None, checkpoint: Checkpoint
) -> Engine | None:
    """Return the caller's engine, or the model's if that is of the kind that was asked for."""
    lacks = isinstance(bpe, NoVocabulary)
    if own.paths and not lacks:
        return engine_in(None if source is None else source.directory, own)
    if own.paths:
        raise VocabularyError(
            f"{checkpoint.source}: {' and '.join(own.paths)}: pieces, but not their ids in this "
            "model; give vocabulary=PATH, a directory with dict.txt too, or with Hugging Face's "
            "files"
        )
    byte_level = bpe is None or isinstance(bpe, GPT2BPE)
    if not lacks and byte_level == (own.kind == "sentencepiece"):
        raise VocabularyError(
            f"{checkpoint.source}: bpe={own.kind!r} is asked for, and its tokenizer is of another "
            "kind; leave bpe out"
        )
    return bpe


def _lacking(found: Found, checkpoint: Checkpoint) -> tuple[str, ...]:
    """Return the files that a relative without a vocabulary lacks; a RoBERTa lacks none."""
    if found.record is not None:
        return found.record.vocabulary
    return FILES.get(checkpoint.family, ())


def _foreign(dictionary: Dictionary) -> tuple[str, ...]:
    """Return the files of the engine that a dict.txt was made with; none: it may be GPT-2's."""
    pieces = GPT2BPE.shipped().symbols
    if any(symbol.startswith("▁") for symbol in dictionary.symbols):
        return FILES["xlm-roberta"]
    if any(symbol.isdecimal() and symbol not in pieces for symbol in dictionary.symbols):
        return ("vocab.json", "merges.txt")
    return ()


def _from_path(path: Path, family: str) -> tuple[Engine | None, Dictionary, Layout | None]:
    """Read the vocabulary that the caller names, a file or a directory."""
    directory = path
    if not path.is_dir():
        check_regular(path)
        if not path.is_file() or path.name not in _NAMED_FILES:
            what = "is called otherwise" if path.is_file() else "is not there"
            raise VocabularyError(
                f"vocabulary={str(path)[:500]!r} {what}; give a directory, or a file called "
                f"{', '.join(_NAMED_FILES)}"
            )
        directory = path.parent
    words, _ = read_dictionaries(directory)
    engine = None if words is None else engine_in(directory, Keywords())
    if words is not None and engine is not None:
        dictionary = Dictionary.parse(words, str(directory / "dict.txt"), add_mask=True)
        return engine, dictionary, None
    brought = read_huggingface_tokenizer(directory, family)
    if brought is None:
        raise VocabularyError(
            f"vocabulary={str(path)[:500]!r}: {directory} holds none of {', '.join(_NAMED_FILES)} "
            f"but {listing(directory)}"
        )
    return brought


def _own_vocabulary(argument: str, given: Path | None, source: Source) -> InputError:
    return InputError(
        f"{argument}={str(given)[:500]!r}: {source.directory} brings its own vocabulary, and "
        f"another one would be wrong; leave {argument} out"
    )


def _dictionary(words: bytes | None, checkpoint: Checkpoint) -> Dictionary:
    """Parse a dict.txt, whose size must be that of the embedding table; None: RoBERTa's own."""
    rows = checkpoint.config.vocab_size
    if words is None:
        dictionary = Dictionary.roberta()
        origin = "RoBERTa's own dictionary, there being no dict.txt,"
    else:
        dictionary = Dictionary.parse(words, f"dict.txt of {checkpoint.source}")
        dictionary.add_symbol(MASK)
        origin = f"dict.txt with {MASK}"
    if len(dictionary) != rows:
        raise VocabularyError(
            f"{checkpoint.source}: {origin} has {len(dictionary)} symbols and the embedding table "
            f"{rows} rows; put the dict.txt that the model was trained with beside it, or name its "
            "directory with data_name_or_path; or name a directory with Hugging Face's tokenizer "
            "files with vocabulary"
        )
    return dictionary

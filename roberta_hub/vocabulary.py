"""Gives a checkpoint its tokenizer: from its files, from the caller's, or RoBERTa's own.

A relative of RoBERTa without files gets none, and never RoBERTa's.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from roberta_hub.arguments import brief, path_text
from roberta_hub.checkpoint.checkpoint import Checkpoint
from roberta_hub.checkpoint.formats.fairseq import read_dictionaries
from roberta_hub.checkpoint.source import Found, Source, data_directory
from roberta_hub.errors import InputError, VocabularyError
from roberta_hub.files import check_regular, listing
from roberta_hub.text.bpe import GPT2BPE
from roberta_hub.text.dictionary import MASK, Dictionary
from roberta_hub.text.fairseq_files import engine_in
from roberta_hub.text.huggingface import read_tokenizer as read_huggingface_tokenizer
from roberta_hub.text.layout import Layout
from roberta_hub.text.missing import FILES, NoVocabulary, unnamed
from roberta_hub.text.pieces import Engine
from roberta_hub.text.table_fit import check_table

BPE = ("gpt2", "sentencepiece", "hf_byte_bpe")
"""fairseq's names of the engines that its RoBERTa and its relatives have."""
KEYWORDS = ("sentencepiece_model", "sentencepiece_vocab", "bpe_vocab", "bpe_merges")
"""fairseq's arguments that name an engine's files; the second is the first's older name."""
SAMPLING = ("sentencepiece_enable_sampling", "sentencepiece_alpha")
"""fairseq's arguments that make ids random."""
_NAMED_FILES = (
    *("vocab.txt", "vocab.json", "merges.txt", "tokenizer.json"),
    *("sentencepiece.bpe.model", "spiece.model", "sentencepiece.model"),
)
"""What a file with a vocabulary must be called."""


@dataclass(frozen=True)
class Wanted:
    """What the caller says of the tokenizer."""

    bpe: str = "gpt2"
    """One of `BPE`; "gpt2": what the model brings, else RoBERTa's."""
    own: GPT2BPE | None = None
    """An engine in the place of the checkpoint's."""
    keywords: Mapping[str, object] = field(default_factory=dict)
    """fairseq's arguments for the engine."""
    vocabulary: Path | None = None
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


def wanted_tokenizer(bpe: object, overrides: dict[str, object]) -> Wanted:
    """Take what is said of the tokenizer out of the caller's arguments.

    Raises:
        InputError: an engine that there is not, half of a pair of files, or random ids.
    """
    if not isinstance(bpe, str) or bpe not in BPE:
        raise InputError(f"bpe is {brief(bpe)}; there are {', '.join(map(repr, BPE))}")
    if overrides.pop("user_dir", None) is not None:
        warnings.warn("user_dir is not needed: the wsc task is built in", stacklevel=4)
    for name in SAMPLING:
        if overrides.pop(name, None) not in (None, False):
            raise InputError(
                f"{name} makes ids random, which is not supported: a text has one sequence of ids; "
                "leave it out"
            )
    keywords = {
        name: path_text(name, overrides.pop(name))
        for name in KEYWORDS
        if overrides.get(name) is not None
    }
    prefix = overrides.pop("bpe_add_prefix_space", None)
    if prefix is not None:
        keywords["bpe_add_prefix_space"] = prefix
    given = overrides.pop("vocabulary", None)
    vocabulary = None if given is None else Path(path_text("vocabulary", given))
    return Wanted(bpe, _gpt2_files(overrides), keywords, vocabulary)


def _gpt2_files(overrides: dict[str, object]) -> GPT2BPE | None:
    """Read the caller's own BPE files, whose names leave the overrides; None: there are none."""
    encoder, merges = (
        overrides.pop("gpt2_encoder_json", None),
        overrides.pop("gpt2_vocab_bpe", None),
    )
    if encoder is None and merges is None:
        return None
    if encoder is None or merges is None:
        raise InputError("gpt2_encoder_json and gpt2_vocab_bpe belong together; give both paths")
    paths = path_text("gpt2_encoder_json", encoder), path_text("gpt2_vocab_bpe", merges)
    for path in paths:
        check_regular(Path(path))
    return GPT2BPE.from_files(*paths)


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
    source, layout = found.source, None
    bpe: Engine | None = None
    dictionary: Dictionary | None = None
    words, labels = checkpoint.dictionary, checkpoint.label_dictionary
    if source is not None and source.kind == "fairseq":
        words, labels = read_dictionaries(source.directory, found.data)
        bpe = _fairseq_engine(source.directory, wanted)
    elif source is not None:
        brought = read_huggingface_tokenizer(source.directory)
        if found.data != data_directory(source.directory, "."):
            if source.kind == "roberta_hub" or brought is not None:
                raise _own_vocabulary("data_name_or_path", found.data, source)
            words, labels = read_dictionaries(source.directory, found.data)
        if brought is not None:
            bpe, dictionary, layout = brought
    complete = dictionary is not None or (words is not None and bpe is not None)
    if wanted.vocabulary is not None:
        if complete and source is not None:
            raise _own_vocabulary("vocabulary", wanted.vocabulary, source)
        bpe, dictionary, layout = _from_path(wanted.vocabulary)
    elif dictionary is None and words is None and (files := _lacking(found, checkpoint)):
        config = checkpoint.config
        bpe = NoVocabulary(checkpoint.source, files)
        dictionary, layout = unnamed(
            checkpoint.family, config.vocab_size, config.padding_idx, config.separator_idx
        )
    if dictionary is None:
        dictionary = _dictionary(words, checkpoint)
        if bpe is None and wanted.own is None and (files := _foreign(dictionary)):
            bpe = NoVocabulary(checkpoint.source, files)
    bpe = wanted.own or bpe
    _check_engine(bpe, wanted, checkpoint)
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
    byte_level = tables.bpe is None or isinstance(tables.bpe, GPT2BPE)
    if found.source is None or found.source.kind != "fairseq" or byte_level:
        return checkpoint.family
    if Layout.of(tables.dictionary).bos != tables.dictionary.bos():  # `<s>` stands there twice
        return "camembert"
    return "xlm-roberta-xl" if checkpoint.config.normalize_before else "xlm-roberta"


def _fairseq_engine(directory: Path, wanted: Wanted) -> Engine | None:
    """Read the engine beside a model.pt; None: there are no files of one."""
    files = (directory / "encoder.json", directory / "vocab.bpe")
    if all(file.is_file() for file in files):
        return GPT2BPE.from_files(*files)
    return engine_in(directory, wanted.keywords)


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


def _from_path(path: Path) -> tuple[Engine | None, Dictionary, Layout | None]:
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
    engine = engine_in(directory, {}) if words is not None else None
    if words is not None and engine is not None:
        dictionary = Dictionary.parse(words, str(directory / "dict.txt"), add_mask=True)
        return engine, dictionary, None
    brought = read_huggingface_tokenizer(directory)
    if brought is None:
        raise VocabularyError(
            f"vocabulary={str(path)[:500]!r}: {directory} holds none of {', '.join(_NAMED_FILES)} "
            f"but {listing(directory)}"
        )
    return brought


def _check_engine(bpe: Engine | None, wanted: Wanted, checkpoint: Checkpoint) -> None:
    """Refuse a model that lacks the engine that the caller asks for."""
    byte_level = bpe is None or isinstance(bpe, GPT2BPE)
    if wanted.bpe == "sentencepiece" and byte_level:
        raise VocabularyError(
            f"{checkpoint.source}: bpe='sentencepiece', and there is no sentencepiece.bpe.model; "
            "put it beside the model, or name it with sentencepiece_model=PATH"
        )
    if wanted.bpe == "hf_byte_bpe" and bpe is None:
        raise VocabularyError(
            f"{checkpoint.source}: bpe='hf_byte_bpe', and there are no vocab.json and merges.txt; "
            "put them beside the model, or name them with bpe_vocab=PATH and bpe_merges=PATH"
        )


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
            "directory with data_name_or_path"
        )
    return dictionary

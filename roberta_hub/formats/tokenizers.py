"""Gives a checkpoint its tokenizer: from its files, from the caller's, or RoBERTa's own.

A relative of RoBERTa without files gets none, and never RoBERTa's.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from roberta_hub.arguments import brief, path_text
from roberta_hub.checkpoint.checkpoint import POSITIONS, SEGMENTS, Checkpoint, read_dictionary
from roberta_hub.checkpoint.names.families import FAMILIES
from roberta_hub.errors import InputError, Remedy, VocabularyError
from roberta_hub.files import check_regular
from roberta_hub.folder import Folder
from roberta_hub.text.added import TOKENIZER_CONFIG_FILE, base_class
from roberta_hub.text.bpe import GPT2BPE
from roberta_hub.text.dictionary import MASK, SPECIALS, Dictionary
from roberta_hub.text.fairseq_files import Keywords, added_in, engine_in, tokenizer_keywords
from roberta_hub.text.huggingface import read_tokenizer as read_huggingface_tokenizer
from roberta_hub.text.layout import SequenceLayout
from roberta_hub.text.missing import VOCABULARY_FILES, NoVocabulary, no_vocabulary
from roberta_hub.text.pieces import SubwordTokenizer
from roberta_hub.text.table_fit import check_table
from roberta_hub.text.with_added import with_tokens, without_added

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
_INPUTS, _TOKEN_TYPES = "model_input_names", "token_type_ids"
_WITHOUT_TOKEN_TYPES = ("DistilBertTokenizer", "TokenizersBackend")
"""transformers' classes that say nothing of sentences, whatever separates them."""


@dataclass(frozen=True)
class TokenizerRequest:
    """What is known of a tokenizer before the checkpoint is read."""

    keywords: Keywords
    """The caller's fairseq keywords: tokenizer kind and files."""
    vocabulary: Path | None
    """Where a model without a vocabulary gets one."""
    data: Folder | None = None
    """Where dict.txt is looked for first; None: random weights are wanted."""
    files: tuple[str, ...] | None = None
    """Vocabulary files of a catalogue model; None: those of its family."""


@dataclass(frozen=True)
class TokenizerParts:
    """What turns text into ids, and ids of classes into names."""

    bpe: SubwordTokenizer | None
    """None: RoBERTa's."""
    dictionary: Dictionary
    layout: SequenceLayout | None
    """Which ids are special and how sentences are joined; None: RoBERTa's."""
    label_dictionary: Dictionary | None
    """fairseq's, of a classifier; None where the checkpoint brings none."""


@dataclass(frozen=True, kw_only=True)
class UserTokenizer:
    """What a folder brings of a tokenizer."""

    folder: Folder | None = None
    """None: random weights, without files."""
    bpe: SubwordTokenizer | None = None
    dictionary: Dictionary | None = None
    layout: SequenceLayout | None = None
    words: bytes | None = None
    """Bytes of a dict.txt without `<mask>`."""
    labels: bytes | None = None
    """Bytes of a label/dict.txt."""


def tokenizer_request(bpe: str, overrides: dict[str, object]) -> TokenizerRequest:
    """Take what is said of the tokenizer out of the caller's arguments."""
    if overrides.pop("user_dir", None) is not None:
        warnings.warn("user_dir is not needed: the wsc task is built in", stacklevel=4)
    given = overrides.pop("vocabulary", None)
    vocabulary = None if given is None else Path(path_text("vocabulary", given))
    return TokenizerRequest(tokenizer_keywords(bpe, overrides), vocabulary)


def read_user_tokenizer(
    folder: Folder, checkpoint: Checkpoint, wanted: TokenizerRequest, *, whole: bool
) -> UserTokenizer:
    """Read the tokenizer's files of a folder of Hugging Face's kind."""
    found = read_huggingface_tokenizer(folder)
    words, labels = checkpoint.dictionary, checkpoint.label_dictionary
    if wanted.data is not None and wanted.data is not folder:
        if whole or found is not None:
            raise _own_vocabulary("data_name_or_path", wanted.data.path, folder)
        words, labels = read_dictionaries(folder, wanted.data)
    bpe, dictionary, layout = found or (None, None, None)
    return UserTokenizer(
        folder=folder, bpe=bpe, dictionary=dictionary, layout=layout, words=words, labels=labels
    )


def complete(
    brought: UserTokenizer, checkpoint: Checkpoint, wanted: TokenizerRequest, asked: Keywords
) -> TokenizerParts:
    """Complete what a folder brings by what the caller gives, or by RoBERTa's own tables."""
    bpe, dictionary, layout = brought.bpe, brought.dictionary, brought.layout
    if wanted.vocabulary is not None:
        has_own = dictionary is not None or (brought.words and bpe is not None)
        if brought.folder is not None and has_own:
            raise _own_vocabulary("vocabulary", wanted.vocabulary, brought.folder)
        bpe, dictionary, layout = _from_path(wanted.vocabulary, checkpoint.family)
    elif dictionary is None and brought.words is None and (files := _lacking(wanted, checkpoint)):
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
        dictionary = _dictionary(brought.words, checkpoint)
        if bpe is None and not asked.paths and (files := _foreign(dictionary)):
            bpe = NoVocabulary(checkpoint.source, files, dictionary.symbols[len(SPECIALS) :][:1])
    if asked.kind is not None:
        bpe = _asked_for(asked, bpe, brought.folder, checkpoint)
    fit_padding(checkpoint, dictionary)
    check_table(
        dictionary,
        rows=checkpoint.config.vocab_size,
        padding_idx=checkpoint.config.padding_idx,
        source=checkpoint.source,
    )
    classes = None
    if brought.labels is not None:
        classes = Dictionary.parse(brought.labels, "label/dict.txt", add_mask=True)
    return TokenizerParts(bpe, dictionary, layout, classes)


def fit_padding(checkpoint: Checkpoint, dictionary: Dictionary) -> None:
    """Let the vocabulary say which id is padding, in families whose positions do not count it.

    config.json of a BERT may say 0, which is what it means when it says nothing, whatever row
    [PAD] has; of a RoBERTa it says where the positions begin, so that the two must agree.
    """
    table, old = FAMILIES.get(checkpoint.family), checkpoint.config.padding_idx
    if table is None or not table.positions_from_zero or dictionary.pad() == old:
        return
    checkpoint.config = replace(checkpoint.config, padding_idx=dictionary.pad())
    positions = checkpoint.weights.get(POSITIONS)
    if positions is not None:
        nothing = positions.new_zeros(dictionary.pad() + 1, *positions.shape[1:])
        checkpoint.weights[POSITIONS] = torch.cat([nothing, positions[old + 1 :]])


def fit_segments(
    checkpoint: Checkpoint, layout: SequenceLayout | None, *, has_segments: bool
) -> None:
    """Let the tokenizer say which tokens are of the second segment.

    Its vocabulary knows what ends a sentence.
    """
    if checkpoint.config.num_segments < 2 or layout is None:
        return
    if has_segments:
        checkpoint.config = replace(checkpoint.config, separator_idx=layout.eos)
        return
    checkpoint.config = replace(checkpoint.config, num_segments=1, separator_idx=None)
    if SEGMENTS in checkpoint.weights:
        checkpoint.weights[SEGMENTS] = checkpoint.weights[SEGMENTS][:1].clone()


def tells_segments(folder: Folder | None, layout: SequenceLayout | None) -> bool:
    """Whether transformers' tokenizer of a folder tells a model which sentence a token is of.

    One that joins sentences as RoBERTa does knows no segments: a BERT body with XLM-R's vocabulary
    (multilingual-e5-small) gives every token the first one. So do DistilBERT's class, version 5's
    generic one, and any whose `model_input_names` are without token types.
    """
    if layout is None or layout.separators > 1:
        return False
    settings = {} if folder is None else folder.optional(TOKENIZER_CONFIG_FILE, VocabularyError)
    names = settings.get(_INPUTS)
    if names is None:
        return base_class(settings.get("tokenizer_class")) not in _WITHOUT_TOKEN_TYPES
    if not isinstance(names, list):
        raise VocabularyError(f"{TOKENIZER_CONFIG_FILE}: {_INPUTS} is {brief(names)}, not a list")
    return _TOKEN_TYPES in names


def read_dictionaries(
    folder: Folder, data: Folder | None = None
) -> tuple[bytes | None, bytes | None]:
    """Read dict.txt and label/dict.txt, from the data directory or the model's folder."""
    data = data or folder
    words = [(data, "dict.txt"), (data, "input0/dict.txt"), (folder, "dict.txt")]
    labels = [(data, "label/dict.txt"), (folder, "label/dict.txt")]
    return _first_file(words), _first_file(labels)


def _first_file(places: list[tuple[Folder, str]]) -> bytes | None:
    found = (read_dictionary(folder, name) for folder, name in places)
    return next((data for data in found if data is not None), None)


def _asked_for(
    asked: Keywords, bpe: SubwordTokenizer | None, folder: Folder | None, checkpoint: Checkpoint
) -> SubwordTokenizer | None:
    """Return the caller's engine, or the model's if that is of the kind that was asked for."""
    lacks = isinstance(bpe, NoVocabulary)
    if asked.paths and not lacks:
        return engine_in(folder, asked)
    if asked.paths:
        raise VocabularyError(
            f"{checkpoint.source}: {' and '.join(asked.paths)}: pieces, but not their ids in this "
            "model",
            remedy=Remedy(
                "give vocabulary=PATH, a directory with dict.txt too, or with Hugging Face's files",
                "put dict.txt next to them, or Hugging Face's files",
            ),
        )
    byte_level = bpe is None or isinstance(without_added(bpe), GPT2BPE)
    if not lacks and byte_level == (asked.kind == "sentencepiece"):
        raise VocabularyError(
            f"{checkpoint.source}: bpe={asked.kind!r} is asked for, and its tokenizer is of "
            "another kind; leave bpe out"
        )
    return bpe


def _lacking(wanted: TokenizerRequest, checkpoint: Checkpoint) -> tuple[str, ...]:
    """Return the files that a relative without a vocabulary lacks; a RoBERTa lacks none."""
    return VOCABULARY_FILES.get(checkpoint.family, ()) if wanted.files is None else wanted.files


def _foreign(dictionary: Dictionary) -> tuple[str, ...]:
    """Return the files of the engine that a dict.txt was made with; none: it may be GPT-2's."""
    pieces = GPT2BPE.shipped().symbols
    if any(symbol.startswith("▁") for symbol in dictionary.symbols):
        return VOCABULARY_FILES["xlm-roberta"]
    if any(symbol.isdecimal() and symbol not in pieces for symbol in dictionary.symbols):
        return ("vocab.json", "merges.txt")
    return ()


def _from_path(
    path: Path, family: str
) -> tuple[SubwordTokenizer | None, Dictionary, SequenceLayout | None]:
    """Read the vocabulary that the caller names, a file or a directory."""
    folder = Folder(path)
    if not path.is_dir():
        check_regular(path)
        if not path.is_file() or path.name not in _NAMED_FILES:
            what = "is called otherwise" if path.is_file() else "is not there"
            raise VocabularyError(
                f"vocabulary={str(path)[:500]!r} {what}; give a directory, or a file called "
                f"{', '.join(_NAMED_FILES)}"
            )
        folder = Folder(path.parent)
    words, _ = read_dictionaries(folder)
    engine = None if words is None else engine_in(folder, Keywords())
    if words is not None and engine is not None:
        dictionary = Dictionary.parse(words, str(folder / "dict.txt"), add_mask=True)
        return with_tokens(engine, added_in(folder, engine, dictionary)), dictionary, None
    brought = read_huggingface_tokenizer(folder, family)
    if brought is None:
        raise VocabularyError(
            f"vocabulary={str(path)[:500]!r}: {folder} holds none of {', '.join(_NAMED_FILES)} "
            f"but {folder.listing()}"
        )
    return brought


def _own_vocabulary(argument: str, given: Path, folder: Folder) -> InputError:
    return InputError(
        f"{argument}={str(given)[:500]!r}: {folder} brings its own vocabulary, and "
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
        put = "put the dict.txt that the model was trained with next to it"
        raise VocabularyError(
            f"{checkpoint.source}: {origin} has {len(dictionary)} symbols and the embedding table "
            f"{rows} rows",
            remedy=Remedy(
                f"{put}, or name its directory with data_name_or_path; or name a directory with "
                "Hugging Face's tokenizer files with vocabulary",
                f"{put}, or Hugging Face's tokenizer files",
            ),
        )
    return dictionary

"""Reads the tokenizer of a Hugging Face directory: decides which engine its files mean.

Each engine has a reader of its own, which knows its files: `byte_level.py`, `wordpiece_files.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

from roberta_hub.arguments import brief
from roberta_hub.errors import VocabularyError
from roberta_hub.text import byte_level, unigram_files, wordpiece_files
from roberta_hub.text.dictionary import Dictionary
from roberta_hub.text.layout import Layout
from roberta_hub.text.pieces import Engine
from roberta_hub.text.tables import read_json

Found: TypeAlias = tuple[Engine, Dictionary, Layout]
"""What a tokenizer is made of."""

FILES = (
    "vocab.json",
    "merges.txt",
    "added_tokens.json",
    "tokenizer_config.json",
    "vocab.txt",
    "tokenizer.json",
    "sentencepiece.bpe.model",
    "spiece.model",
)
"""What the engines write, and the file of settings that stands beside every engine's files."""
SETTINGS = "tokenizer_config.json"
LAYOUT = "layout"
"""The setting that says how sentences are joined, where the vocabulary does not."""
BYTE_LEVEL, WORDPIECE, UNIGRAM = "byte-level BPE", "WordPiece", "SentencePiece"
ROBERTA = ("RobertaTokenizer", "BartTokenizer", "LongformerTokenizer")
"""transformers' classes that read RoBERTa's own tables."""
CLASSES = {
    **dict.fromkeys((*ROBERTA, "GPT2Tokenizer"), BYTE_LEVEL),
    **dict.fromkeys(("BertTokenizer", "ElectraTokenizer", "DistilBertTokenizer"), WORDPIECE),
    **dict.fromkeys(("XLMRobertaTokenizer", "CamembertTokenizer", "AlbertTokenizer"), UNIGRAM),
}
"""What transformers' classes read; each has a twin with `Fast` behind its name."""
GENERIC = ("PreTrainedTokenizer", "TokenizersBackend")
"""Classes that read any kind."""
TABLE = "tokenizer.json"
"""Holds any kind; each has files of its own beside."""
_FILES: dict[str, list[set[str]]] = {
    BYTE_LEVEL: [{"vocab.json", "merges.txt"}],
    UNIGRAM: [{"sentencepiece.bpe.model"}, {"spiece.model"}, {"sentencepiece.model"}],
    WORDPIECE: [{"vocab.txt"}],
}
_MODELS = {"BPE": BYTE_LEVEL, "WordPiece": WORDPIECE, "Unigram": UNIGRAM}
"""What tokenizer.json calls the kinds."""


def read_tokenizer(directory: Path, model_type: str | None = None) -> Found | None:
    """Read the engine, the dictionary and the layout of a Hugging Face directory.

    `tokenizer_class` decides which files are read, in tokenizer_config.json or else config.json;
    without one the files themselves decide.

    Args:
        directory: holds the files.
        model_type: of the model, where the directory does not say whose SentencePiece file it is.

    Returns:
        (engine, dictionary, layout), or None where the directory has no file of a vocabulary.

    Raises:
        VocabularyError: a file is damaged; or the directory holds a tokenizer of a kind that is not
            read here, and its texts would get other ids.
    """
    settings = _optional(directory / SETTINGS)
    kind = _kind(directory, settings)
    if kind is None:
        return None
    found: Found
    if kind == BYTE_LEVEL:
        found = byte_level.read(directory)
    elif kind == WORDPIECE:
        found = wordpiece_files.read(directory)
    else:
        found = unigram_files.read(directory, model_type)
    engine, dictionary, layout = found
    if LAYOUT in settings:
        try:
            layout = layout.changed(settings[LAYOUT], len(dictionary))
        except VocabularyError as error:
            raise VocabularyError(f"{directory / SETTINGS}: {LAYOUT} {error}") from None
    return engine, dictionary, layout


def _kind(directory: Path, settings: dict[str, Any]) -> str | None:
    """Tell which reader a directory wants; None: it has no file of a vocabulary."""
    config = _optional(directory / "config.json")
    named, where = settings.get("tokenizer_class"), directory / SETTINGS
    if named is None:
        named, where = config.get("tokenizer_class"), directory / "config.json"
    base = named.removesuffix("Fast") if isinstance(named, str) else named
    if base is None or base in GENERIC:
        return _kind_of_files(directory)
    kind = CLASSES.get(base) if isinstance(base, str) else None
    if kind is None:
        raise VocabularyError(
            f"{where}: tokenizer_class is {brief(named)}, which this version does not read: "
            "another vocabulary in its place would give other ids; it reads "
            f"{', '.join(CLASSES)}"
        )
    if _has_files(directory, kind):
        return kind
    # Without files a model gets RoBERTa's vocabulary, or none if it is one of the relatives.
    relative = (config.get("family") or config.get("model_type") or "roberta") != "roberta"
    if base not in ROBERTA and not relative:
        raise VocabularyError(
            f"{where}: tokenizer_class is {brief(named)}, and {directory} has no {kind} files: "
            "RoBERTa's vocabulary in their place would give other ids; put the tokenizer's files "
            "there"
        )
    return None


def _has_files(directory: Path, kind: str) -> bool:
    return kind in _own_files(directory) or (directory / TABLE).is_file()


def _own_files(directory: Path) -> list[str]:
    """Kinds whose own files lie in a directory, the one to prefer first."""
    names = {name for kind in _FILES.values() for group in kind for name in group}
    there = {name for name in names if (directory / name).is_file()}
    return [kind for kind, groups in _FILES.items() if any(there >= group for group in groups)]


def _kind_of_files(directory: Path) -> str | None:
    if (directory / "bpe.codes").is_file():
        raise VocabularyError(
            f"{directory} holds bpe.codes, the tables of BertweetTokenizer or PhobertTokenizer, "
            "which this version does not read"
        )
    own = _own_files(directory)
    if own:
        return own[0]
    if not (directory / TABLE).is_file():
        return None
    model = read_json(directory / TABLE).get("model")
    named = model.get("type", "BPE") if isinstance(model, dict) else "BPE"
    if not isinstance(named, str) or named not in _MODELS:
        raise VocabularyError(
            f"{directory / TABLE}: its model is {brief(named)}, which this version does not read; "
            f"it reads {', '.join(_MODELS)}"
        )
    return _MODELS[named]


def _optional(path: Path) -> dict[str, Any]:
    return read_json(path) if path.is_file() else {}

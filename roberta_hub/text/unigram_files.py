"""Reads a SentencePiece vocabulary of a Hugging Face directory: XLM-R's, CamemBERT's or ALBERT's.

It is read from a `.model` file or tokenizer.json. The rows of a model are its family's special
symbols, then the file's pieces in order.
"""

from __future__ import annotations

import dataclasses
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from roberta_hub.arguments import brief
from roberta_hub.errors import VocabularyError
from roberta_hub.folder import Folder
from roberta_hub.text.added import TOKENIZER_CONFIG_FILE, read_listed
from roberta_hub.text.dictionary import SPECIALS, Dictionary
from roberta_hub.text.layout import SequenceLayout
from roberta_hub.text.sentencepiece_file import SentencePieceModel, read_model
from roberta_hub.text.tokenizer_json import TOKENIZER_FILE, read_unigram, reading
from roberta_hub.text.unigram import SentencePiece
from roberta_hub.text.unigram_family import ALBERT, CAMEMBERT, FILE, OTHER, XLM_R, Family

UNIGRAM_FILES = (FILE, "spiece.model", "sentencepiece.model")
"""What a `.model` file is called."""
_BEGINNINGS = {"xlmroberta": XLM_R, "camembert": CAMEMBERT, "albert": ALBERT}
"""How tokenizer_class and model_type begin, in small letters and without hyphens."""
_CLEANING = ("do_lower_case", "keep_accents", "remove_space")


def read(
    folder: Folder, model_type: str | None = None
) -> tuple[SentencePiece, Dictionary, SequenceLayout]:
    """Read the engine, the dictionary and the layout of a Hugging Face directory.

    Args:
        folder: holds a `.model` file, or a tokenizer.json with a unigram model.
        model_type: of the model, where the directory does not say whose rows they are.

    Raises:
        VocabularyError: a file is damaged or false, or its pieces are not those of a family.
        MissingExtraError: SentencePiece's library is missing.
    """
    settings = folder.optional(TOKENIZER_CONFIG_FILE, VocabularyError)
    path = folder / next(filter(folder.is_file, UNIGRAM_FILES), TOKENIZER_FILE)
    with reading(path):
        if path.name == TOKENIZER_FILE:
            model, family = _of_table(folder)
        else:
            model = read_model(path)
            family = _family(folder, settings, path, model_type)
        rows = _rows(model, family)
    family = _cleaned(family, settings, folder / TOKENIZER_CONFIG_FILE)
    rows += _added(folder, len(rows))
    with reading(path):
        return SentencePiece(model, family), *_tables(rows, family)


def _family(
    folder: Folder, settings: Mapping[str, Any], path: Path, model_type: str | None
) -> Family:
    """Tell whose rows a `.model` file has: as the settings say, else as the file is called."""
    config = folder.optional("config.json", VocabularyError)
    for named in (settings.get("tokenizer_class"), config.get("model_type"), model_type):
        words = str(named).lower().replace("-", "")
        for beginning, family in _BEGINNINGS.items():
            if words.startswith(beginning):
                return family
    return ALBERT if path.name == ALBERT.file else XLM_R


def _of_table(folder: Folder) -> tuple[SentencePieceModel, Family]:
    """Return what a tokenizer.json holds, in the order of its family's `.model` file."""
    specials = {*SPECIALS, *CAMEMBERT.first, "[CLS]", "[SEP]", "[MASK]", "<mask>"}
    model, cleaning = read_unigram(folder, specials)
    texts = model.texts
    if cleaning is not None or "[CLS]" in texts:
        return model, dataclasses.replace(ALBERT, cleaning=cleaning)
    for family in (CAMEMBERT, XLM_R):
        head = len(family.first)
        if texts[:head] == family.first and texts[-1] == family.mask:
            # The file begins with <unk>, <s>, </s>: CamemBERT's rows have the last two at the end.
            begin = [model.unknown, 0, 2] if family is XLM_R else [model.unknown]
            return _picked(model, [*begin, *range(head, len(texts) - 1)]), family
    return model, OTHER


def _picked(model: SentencePieceModel, order: Sequence[int]) -> SentencePieceModel:
    """Return the model of some of the pieces, in this order."""
    return dataclasses.replace(
        model,
        texts=tuple(model.texts[i] for i in order),
        scores=array("f", [model.scores[i] for i in order]),
        kinds=bytes(model.kinds[i] for i in order),
    )


def _cleaned(family: Family, settings: Mapping[str, Any], path: Path) -> Family:
    """Return the family with the cleaning that tokenizer_config.json, the path, asks for."""
    if family.cleaning is None:
        return family
    asked = {name: settings[name] for name in _CLEANING if name in settings}
    for name, value in asked.items():
        if not isinstance(value, bool):
            raise VocabularyError(f"{path}: {name} is {brief(value)}, not true or false")
    return dataclasses.replace(family, cleaning=dataclasses.replace(family.cleaning, **asked))


def _rows(model: SentencePieceModel, family: Family) -> list[str]:
    """Return the symbol of each row of a model."""
    if family.left_out:
        expected = ("<unk>", "<s>", "</s>")
        if model.texts[:3] != expected:
            raise VocabularyError(
                f"its first pieces are {', '.join(map(brief, model.texts[:3]))}, and those of a "
                f"{family.tokenizer_class} are {', '.join(expected)}: other ids would be wrong"
            )
        return [*family.first, *model.texts[family.left_out :], family.mask]
    return list(model.texts)


def _added(folder: Folder, rows: int) -> list[str]:
    """Special symbols that were added after the rows."""
    behind = {token.id: token for token in read_listed(folder) if token.id >= rows}
    words = [token.word for token in behind.values() if token.special is False]
    if words:
        raise VocabularyError(
            f"{folder}: {brief(words[0])} was added as a word that a text can write, which is not "
            "done here, so its texts would get other ids; add it as a special token, and save the "
            "tokenizer again"
        )
    if sorted(behind) != list(range(rows, rows + len(behind))):
        raise VocabularyError(
            f"{folder}: the added tokens leave an id out: {brief(sorted(behind))}"
        )
    return [behind[number].word for number in sorted(behind)]


def _tables(rows: Sequence[str], family: Family) -> tuple[Dictionary, SequenceLayout]:
    if rows[: len(SPECIALS)] == list(SPECIALS) or family is CAMEMBERT:
        dictionary = Dictionary.from_rows(rows)
    else:
        names = {"bos": family.bos, "pad": family.pad, "eos": family.eos, "unk": family.unk}
        dictionary = Dictionary.from_symbols(rows, **names)
    return dictionary, SequenceLayout.of(dictionary, mask=family.mask, separators=family.separators)

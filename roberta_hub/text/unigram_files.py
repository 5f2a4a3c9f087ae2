"""Reads a SentencePiece vocabulary of a Hugging Face directory: XLM-R's, CamemBERT's or ALBERT's.

It is read from a `.model` file or tokenizer.json. The rows of a model are its family's special
symbols, then the file's pieces in order.
"""

from __future__ import annotations

import dataclasses
from array import array
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from roberta_hub.arguments import brief
from roberta_hub.errors import VocabularyError
from roberta_hub.folder import Folder
from roberta_hub.text.added import (
    TOKENIZER_CONFIG_FILE,
    class_of,
    embedding_rows,
    is_generic,
    read_added,
)
from roberta_hub.text.dictionary import SPECIALS, Dictionary
from roberta_hub.text.layout import SequenceLayout
from roberta_hub.text.pieces import SubwordTokenizer
from roberta_hub.text.sentencepiece_file import NORMAL, SentencePieceModel, read_model
from roberta_hub.text.tokenizer_json import (
    TOKENIZER_FILE,
    read_separators,
    read_unigram,
    reading,
    unread_setting,
)
from roberta_hub.text.tokenizer_steps import at_odds
from roberta_hub.text.unigram import SentencePiece
from roberta_hub.text.unigram_family import (
    ALBERT,
    CAMEMBERT,
    FILE,
    OTHER,
    WHITE_SPACE,
    XLM_R,
    Family,
    ends_in_comma,
)
from roberta_hub.text.with_added import added_symbol, with_tokens

UNIGRAM_FILES = (FILE, "spiece.model", "sentencepiece.model")
"""What a `.model` file is called."""
_BEGINNINGS = {"xlmroberta": XLM_R, "camembert": CAMEMBERT, "albert": ALBERT}
"""How tokenizer_class and model_type begin, in lower case and without hyphens."""
CLASSES = ("XLMRobertaTokenizer", "CamembertTokenizer", "AlbertTokenizer")
"""transformers' classes that read them."""
_CLEANING = ("do_lower_case", "keep_accents")
"""Arguments of AlbertTokenizer, which count before tokenizer.json."""
_OURS = ("remove_space", "plain_quotes", "cut_commas")
"""What it does not read."""


def read(
    folder: Folder, model_type: str | None = None
) -> tuple[SubwordTokenizer, Dictionary, SequenceLayout]:
    """Read engine, dictionary and layout of a Hugging Face directory with SentencePiece's pieces.

    tokenizer.json counts before a `.model` file. `model_type` tells whose rows they are, where the
    directory does not.
    """
    settings = folder.optional(TOKENIZER_CONFIG_FILE, VocabularyError)
    kind = class_of(folder, CLASSES)
    _check_ends(settings, folder / TOKENIZER_CONFIG_FILE)
    # transformers reads the first, and leaves older files where they are.
    names = (TOKENIZER_FILE, *UNIGRAM_FILES)
    path = folder / next(filter(folder.is_file, names), TOKENIZER_FILE)
    with reading(path):
        if path.name == TOKENIZER_FILE:
            model, family = _of_table(folder, settings, kind)
            model = _as_in_file(model, folder, family)
        else:
            model = read_model(path)
            family = _family(folder, settings, path, model_type)
        family = _as_settings_say(family, settings, folder / TOKENIZER_CONFIG_FILE, kind)
        rows = _rows(model, family)
        vocabulary = {row: i for i, row in enumerate(rows)}
        added = read_added(folder, from_model=path.name != TOKENIZER_FILE)
        rows, tokens = added.placed(vocabulary, embedding_rows(folder))
        symbols = {
            row: row if row in vocabulary else added_symbol(row) for row in rows if row in tokens
        }
        dictionary, layout = _tables([symbols.get(row, row) for row in rows], family)
        found = {symbols[word]: token for word, token in tokens.items()}
        inner = SentencePiece(model, family)
        if not family.white_space and WHITE_SPACE not in settings and path.name == TOKENIZER_FILE:
            _check_blanks(inner)
        engine = with_tokens(inner, found)
    begin, end = (family.bos, layout.bos), (family.eos, layout.eos)
    # AlbertTokenizer alone does as the file says.
    joins = None if family.tokenizer_class == ALBERT.tokenizer_class else kind
    count = read_separators(folder, begin, end, joins, layout.separators)
    if count != layout.separators:
        layout = SequenceLayout.of(dictionary, mask=family.mask, separators=count)
    return engine, dictionary, layout


def _check_blanks(engine: SentencePiece) -> None:
    """Refuse Metaspace alone where it would leave more than U+0085 in the words.

    Such white space stays inside a text and goes at its end, and a copy would part words there.
    """
    if left := engine.unmapped_space().replace("\x85", ""):
        raise VocabularyError(
            f"its pre_tokenizer is Metaspace alone, and its character map leaves {brief(left)} as "
            "they are, unknown characters within a text; this version reads them as blanks, and "
            "would give other ids; put WhitespaceSplit before Metaspace, and train so"
        )


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


def _of_table(
    folder: Folder, settings: Mapping[str, Any], kind: str | None
) -> tuple[SentencePieceModel, Family]:
    """Return what a tokenizer.json holds, in the order of its family's `.model` file."""
    controls = {*CAMEMBERT.first, *read_added(folder).controls}
    cut = settings.get("cut_commas") is True
    table = read_unigram(folder, controls, by_class=kind is not None, cut_commas=cut)
    model, cleaning = table.model, table.cleaning
    texts, unk = model.texts, model.texts[model.unknown]
    named = settings.get("unk_token")
    named = named.get("content") if isinstance(named, Mapping) else named
    if unk not in (SPECIALS[3], "<unk>NOTUSED", "[UNK]", named):
        raise VocabularyError(
            f"unk_id is {model.unknown}, the piece {unk[:40]!r}, which is no special word for what "
            "is unknown; name it unk_token in tokenizer_config.json, or correct unk_id"
        )
    if kind is not None and model.byte_fallback:
        raise at_odds("byte_fallback", True, kind, False)
    if kind is not None and unk != SPECIALS[3]:
        raise at_odds("unk_id", model.unknown, kind, f"the id of {SPECIALS[3]}")
    quotes = cleaning is not None and cleaning.plain_quotes
    bare = cleaning is None or cleaning.keep_accents
    if kind is not None and (quotes, quotes or bare) != (kind == ALBERT.tokenizer_class, True):
        raise at_odds("normalizer", cleaning, kind, ALBERT.cleaning if not quotes else None)
    changed = partial(dataclasses.replace, cleaning=cleaning, white_space=table.white_space)
    if quotes and kind == ALBERT.tokenizer_class and cleaning is not None:
        for name in _CLEANING:
            value, usual = getattr(cleaning, name), getattr(ALBERT.cleaning, name)
            if name not in settings and value is not usual:
                raise unread_setting(folder, name, value, kind, usual)
    if "[CLS]" in texts or quotes:
        return model, changed(ALBERT, unk=unk)
    for family in (CAMEMBERT, XLM_R):
        head = len(family.first)
        if texts[:head] == family.first and texts[-1] == family.mask and unk == family.unk:
            # The file begins with <unk>, <s>, </s>: CamemBERT's rows have the last two behind.
            begin = [model.unknown, 0, 2] if family is XLM_R else [model.unknown]
            picked = _picked(model, [*begin, *range(head, len(texts) - 1)])
            return picked, changed(family)
    return model, changed(OTHER, unk=unk)


def _as_in_file(model: SentencePieceModel, folder: Folder, family: Family) -> SentencePieceModel:
    """Return tokenizer.json's model with what only a `.model` file of the same vocabulary says."""
    name = next(filter(folder.is_file, UNIGRAM_FILES), None)
    if name is None or family.file is None:
        return model
    file = read_model(folder / name)
    differs = dataclasses.replace(file, scores=model.scores, kinds=model.kinds, denormalizer=b"")
    scores = zip(file.texts, file.scores, model.scores, strict=False)
    if differs != model or any(a != b and not ends_in_comma(text) for text, a, b in scores):
        return model  # an older vocabulary
    kinds = zip(model.kinds, file.kinds, strict=True)
    return dataclasses.replace(
        file,
        scores=model.scores,
        kinds=bytes(own if ours == NORMAL else ours for ours, own in kinds),
    )


def _picked(model: SentencePieceModel, order: Sequence[int]) -> SentencePieceModel:
    """Return the model of some of the pieces, in this order."""
    return dataclasses.replace(
        model,
        texts=tuple(model.texts[i] for i in order),
        scores=array("f", [model.scores[i] for i in order]),
        kinds=bytes(model.kinds[i] for i in order),
    )


def _as_settings_say(
    family: Family, settings: Mapping[str, Any], path: Path, kind: str | None
) -> Family:
    """Return the family with what tokenizer_config.json, the path, asks for."""
    names = (WHITE_SPACE, *_OURS, *(_CLEANING if kind is not None else ()))
    asked = {name: settings[name] for name in names if name in settings}
    for name, value in asked.items():
        if not isinstance(value, bool):
            raise VocabularyError(f"{path}: {name} is {brief(value)}, not true or false")
    white = asked.pop(WHITE_SPACE, True if kind is not None else family.white_space)
    cleaning = family.cleaning and dataclasses.replace(family.cleaning, **asked)
    return dataclasses.replace(family, cleaning=cleaning, white_space=white)


def _check_ends(settings: Mapping[str, Any], path: Path) -> None:
    """Refuse settings by which transformers leaves out the space or the ids around a text."""
    for name in ("add_prefix_space", "add_bos_token", "add_eos_token"):
        generic = name == "add_prefix_space" and is_generic(settings.get("tokenizer_class"))
        if settings.get(name) not in (None, True) and not generic:  # these obey tokenizer.json
            raise VocabularyError(
                f"{path}: {name} is {brief(settings[name])}, and this version reads every text "
                "with a space before it and special tokens around it; texts would get other ids"
            )


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


def _tables(rows: Sequence[str], family: Family) -> tuple[Dictionary, SequenceLayout]:
    as_fairseq = rows[: len(SPECIALS)] == list(SPECIALS) and family.unk == SPECIALS[3]
    if as_fairseq or family.first == CAMEMBERT.first:
        dictionary = Dictionary.from_rows(rows)
    else:
        names = {"bos": family.bos, "pad": family.pad, "eos": family.eos, "unk": family.unk}
        dictionary = Dictionary.from_symbols(rows, **names)
    return dictionary, SequenceLayout.of(dictionary, mask=family.mask, separators=family.separators)

"""Reads a byte-level BPE from `vocab.json` and `merges.txt`, or from `tokenizer.json`.

Hugging Face numbers the pieces as the model does, fairseq numbers them twice: GPT-2's way in the
BPE and the model's in the dictionary. Reading gives fairseq's two tables, so that one tokenizer
serves all.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from roberta_hub.arguments import brief
from roberta_hub.errors import VocabularyError
from roberta_hub.folder import Folder
from roberta_hub.text.added import TOKENIZER_CONFIG_FILE, class_of, is_generic, read_added
from roberta_hub.text.bpe import GPT2BPE
from roberta_hub.text.dictionary import SPECIALS, Dictionary, without_unused
from roberta_hub.text.gpt2_tables import MAX_TABLE_BYTES, check_merges, printable, read_merges
from roberta_hub.text.layout import SequenceLayout
from roberta_hub.text.tokenizer_json import (
    TOKENIZER_FILE,
    Added,
    ByteLevelTable,
    read_byte_level,
    read_separators,
    reading,
)
from roberta_hub.text.tokenizer_steps import refused

BYTE_LEVEL_FILES = ("vocab.json", "merges.txt")
CLASSES = ("RobertaTokenizer", "BartTokenizer", "LongformerTokenizer")
"""transformers' classes that read RoBERTa's own tables."""


def read(folder: Folder) -> tuple[GPT2BPE, Dictionary, SequenceLayout]:
    """Read the BPE and the dictionary of a Hugging Face directory.

    Args:
        folder: holds tokenizer.json, or `vocab.json` and `merges.txt`; the first counts, as in
            transformers.

    Returns:
        (engine, dictionary, RoBERTa's layout as the dictionary has it).

    Raises:
        VocabularyError: a file is damaged, or holds a vocabulary that is not RoBERTa's kind.
    """
    table, kind = read_byte_level(folder), class_of(folder, CLASSES)
    if table is not None:
        source = folder / TOKENIZER_FILE
        vocabulary, merges = table.vocabulary, table.merges
    else:
        source = folder / BYTE_LEVEL_FILES[0]
        vocabulary = folder.json(BYTE_LEVEL_FILES[0], VocabularyError, MAX_TABLE_BYTES)
        merges = read_merges(folder / BYTE_LEVEL_FILES[1])
    prefix, added = _add_prefix_space(folder, table), read_added(folder)
    words = [token for token in added.values() if not token.special]
    _check_words(words, folder)
    with reading(source):
        bpe = _bpe(merges, [token.word for token in words], prefix)
        ids = {token.word: token.id for token in added.values()}
        dictionary = _dictionary(bpe, {**vocabulary, **ids})
        if table is not None:
            _check_table(table, bpe, dictionary, ids, kind)
        layout = SequenceLayout.of(dictionary)
        begin, end = (SPECIALS[0], layout.bos), (SPECIALS[2], layout.eos)
    count = read_separators(folder, begin, end, kind, layout.separators)
    return bpe, dictionary, SequenceLayout.of(dictionary, separators=count)


def _add_prefix_space(folder: Folder, table: ByteLevelTable | None) -> bool:
    """As transformers: the class's argument, or for a generic class what tokenizer.json says."""
    settings, source = (
        folder.optional(TOKENIZER_CONFIG_FILE, VocabularyError),
        TOKENIZER_CONFIG_FILE,
    )
    value = settings.get("add_prefix_space")
    if table is not None and is_generic(settings.get("tokenizer_class")):
        value, source = table.add_prefix_space, TOKENIZER_FILE
    if not isinstance(value, (bool, type(None))):
        raise VocabularyError(
            f"{folder / source}: add_prefix_space is {brief(value)}, not true or false"
        )
    return bool(value)


def _check_table(
    table: ByteLevelTable,
    bpe: GPT2BPE,
    dictionary: Dictionary,
    added: Collection[str],
    kind: str | None,
) -> None:
    """Refuse settings that change an id, given this vocabulary."""
    formed = {*bpe.printable_ids(), *added, *map(without_unused, SPECIALS)}
    if table.ignore_merges and (odd := sorted(table.vocabulary.keys() - formed)):
        raise refused("ignore_merges", True, f"pieces that merges form, unlike {odd[0]!r}")
    lacking = [
        piece for byte in range(256) if (piece := printable(bytes([byte]))) not in table.vocabulary
    ]
    if lacking and (table.unk != SPECIALS[3] or table.fuse_unk or kind is not None):
        name = "fuse_unk" if table.fuse_unk else "unk_token"
        value = table.fuse_unk if table.fuse_unk else table.unk
        raise refused(
            name,
            value,
            f"each of the {len(lacking)} bytes that its vocabulary lacks as {SPECIALS[3]}",
        )


def _check_words(words: Sequence[Added], folder: Folder) -> None:
    """Refuse words that are found in another way than by their letters alone."""
    odd = [token.word for token in words if token.odd or not token.word.strip()]
    if len({token.normalized for token in words}) > 1:  # those not normalized go first
        odd = odd or [token.word for token in words]
    if odd:
        shown = ", ".join(repr(word[:40]) for word in odd[:5])
        more = f" and {len(odd) - 5} more" if len(odd) > 5 else ""
        raise VocabularyError(
            f"{folder}: the added tokens {shown}{more} strip their neighbours, match single words "
            "only, or are normalized unlike each other, which this package does not do, so their "
            "texts would get other ids; add them without lstrip, rstrip, single_word and "
            "normalized=False, or as special tokens, and save the tokenizer again"
        )


def _bpe(
    merges: Sequence[tuple[bytes, bytes]], added: Sequence[str], add_prefix_space: bool
) -> GPT2BPE:
    shipped = GPT2BPE.shipped()
    if list(merges) != shipped.merges():
        check_merges(merges)
    elif not added and not add_prefix_space:
        return shipped
    return GPT2BPE(merges, added=added, add_prefix_space=add_prefix_space)


def _dictionary(bpe: GPT2BPE, vocabulary: Mapping[str, Any]) -> Dictionary:
    """Give the same ids fairseq's names: GPT-2 ids as decimal strings, specials as they are."""
    numbers, first = list(vocabulary.values()), len(SPECIALS)
    if not all(type(i) is int for i in numbers) or sorted(numbers) != list(range(len(numbers))):
        raise VocabularyError("the ids are not 0, 1, 2, … each once")
    pieces = sorted(vocabulary, key=vocabulary.__getitem__)
    if tuple(map(without_unused, pieces[:first])) != SPECIALS:
        raise VocabularyError(f"ids 0 to 3 are not {', '.join(SPECIALS)}: no RoBERTa vocabulary")
    names = bpe.printable_ids() | bpe.added
    rows = [
        piece if without_unused(piece) in SPECIALS else names.get(piece, piece) for piece in pieces
    ]
    dictionary = Dictionary.from_rows(rows)
    dictionary.count[first:] = range(len(rows) - first, 0, -1)  # ranks, as in `Dictionary.roberta`
    return dictionary

"""Reads a byte-level BPE from `vocab.json` and `merges.txt`, or from `tokenizer.json`.

Hugging Face numbers the pieces as the model does, fairseq numbers them twice: GPT-2's way in the
BPE and the model's in the dictionary. Reading gives fairseq's two tables, so that one tokenizer
serves all.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Sequence

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
from roberta_hub.text.bpe import GPT2BPE
from roberta_hub.text.dictionary import SPECIALS, Dictionary, without_unused
from roberta_hub.text.gpt2_tables import MAX_TABLE_BYTES, check_merges, printable, read_merges
from roberta_hub.text.layout import SequenceLayout
from roberta_hub.text.pieces import SubwordTokenizer
from roberta_hub.text.tokenizer_json import (
    TOKENIZER_FILE,
    ByteLevelTable,
    read_byte_level,
    read_separators,
    reading,
)
from roberta_hub.text.tokenizer_steps import refused
from roberta_hub.text.with_added import added_symbol, with_tokens

BYTE_LEVEL_FILES = ("vocab.json", "merges.txt")
CLASSES = ("RobertaTokenizer", "BartTokenizer", "LongformerTokenizer")
"""transformers' classes that read RoBERTa's own tables."""


def read(folder: Folder) -> tuple[SubwordTokenizer, Dictionary, SequenceLayout]:
    """Read engine, dictionary and layout of a Hugging Face directory with a byte-level BPE.

    tokenizer.json counts before `vocab.json` and `merges.txt`, as in transformers.
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
    with reading(source):
        bpe = _bpe(merges, prefix)
        rows, tokens = added.placed(vocabulary, embedding_rows(folder))
        names = _symbols(bpe, rows, tokens)
        dictionary = _dictionary(names)
        symbols = dict(zip(rows, names, strict=True))
        tokenizer = with_tokens(bpe, {symbols[word]: token for word, token in tokens.items()})
        if table is not None:
            _check_table(table, bpe, {*tokens, *added.controls}, kind)
        layout = SequenceLayout.of(dictionary)
        begin, end = (SPECIALS[0], layout.bos), (SPECIALS[2], layout.eos)
    count = read_separators(folder, begin, end, kind, layout.separators)
    return tokenizer, dictionary, SequenceLayout.of(dictionary, separators=count)


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
    table: ByteLevelTable, bpe: GPT2BPE, added: Collection[str], kind: str | None
) -> None:
    """Refuse settings that change an id, given this vocabulary."""
    formed = {*bpe.printable_ids(), *added, *map(without_unused, SPECIALS)}
    if table.ignore_merges and (unformed := sorted(table.vocabulary.keys() - formed)):
        raise refused("ignore_merges", True, f"pieces that merges form, unlike {unformed[0]!r}")
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


def _bpe(merges: Sequence[tuple[bytes, bytes]], add_prefix_space: bool) -> GPT2BPE:
    shipped = GPT2BPE.shipped()
    if list(merges) != shipped.merges():
        check_merges(merges)
    elif not add_prefix_space:
        return shipped
    return GPT2BPE(merges, add_prefix_space=add_prefix_space)


def _symbols(bpe: GPT2BPE, rows: Sequence[str], added: Container[str]) -> list[str]:
    """Give the rows fairseq's names: GPT-2 ids as decimal strings, specials as they are."""
    names, first = bpe.printable_ids(), len(SPECIALS)
    if tuple(map(without_unused, rows[:first])) != SPECIALS:
        raise VocabularyError(f"ids 0 to 3 are not {', '.join(SPECIALS)}: no RoBERTa vocabulary")
    return [
        row
        if without_unused(row) in SPECIALS
        else names.get(row) or (added_symbol(row) if row in added else row)
        for row in rows
    ]


def _dictionary(symbols: Sequence[str]) -> Dictionary:
    dictionary, first = Dictionary.from_rows(symbols), len(SPECIALS)
    ranks = range(len(symbols) - first, 0, -1)  # as in `Dictionary.roberta`
    dictionary.count[first:] = ranks
    return dictionary

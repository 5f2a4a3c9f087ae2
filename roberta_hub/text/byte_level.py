"""Reads a byte-level BPE that lies in `vocab.json` and `merges.txt`, or in `tokenizer.json`.

Hugging Face numbers the pieces as the model does, fairseq numbers them twice: GPT-2's way in the
BPE and the model's in the dictionary. Reading gives fairseq's two tables, so that one tokenizer
serves all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from roberta_hub.errors import VocabularyError
from roberta_hub.text.added import read_settings
from roberta_hub.text.bpe import GPT2BPE
from roberta_hub.text.dictionary import SPECIALS, Dictionary
from roberta_hub.text.layout import Layout
from roberta_hub.text.tables import check_merges, from_printable, read_json, read_merges

UNUSED = "NOTUSED"
"""Behind a special symbol: a row that the symbol had before a dict.txt gave it another."""


def read(directory: Path) -> tuple[GPT2BPE, Dictionary, Layout]:
    """Read the BPE and the dictionary of a Hugging Face directory.

    Args:
        directory: holds `vocab.json` and `merges.txt`, or `tokenizer.json`.

    Returns:
        (engine, dictionary, RoBERTa's layout as the dictionary has it).

    Raises:
        VocabularyError: a file is damaged, or holds a vocabulary that is not RoBERTa's kind.
    """
    if (directory / "vocab.json").is_file() and (directory / "merges.txt").is_file():
        source = directory / "vocab.json"
        vocabulary = read_json(source)
        merges = read_merges(directory / "merges.txt")
    else:
        source = directory / "tokenizer.json"
        vocabulary, merges = _tokenizer_json(source)
    settings = read_settings(directory)
    try:
        bpe = _bpe(merges, settings.words, settings.add_prefix_space)
        dictionary = _dictionary(bpe, vocabulary | settings.ids)
    except VocabularyError as error:
        raise VocabularyError(f"{source}: {error}") from None
    return bpe, dictionary, Layout.of(dictionary)


def _tokenizer_json(path: Path) -> tuple[dict[str, Any], list[tuple[bytes, bytes]]]:
    table = read_json(path)
    try:
        model = table["model"]
        vocabulary = dict(model["vocab"])
        # Older files write a merge as 'Ġ t', newer ones as ['Ġ', 't'].
        pairs = [m.split(" ") if isinstance(m, str) else m for m in model["merges"]]
        return vocabulary, [(from_printable(left), from_printable(right)) for left, right in pairs]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise VocabularyError(
            f"{path} holds no byte-level BPE ({type(error).__name__}: {error})"
        ) from None


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
    numbers = list(vocabulary.values())
    if not all(type(i) is int for i in numbers) or sorted(numbers) != list(range(len(numbers))):
        raise VocabularyError("the ids are not 0, 1, 2, … each once")
    pieces = {number: piece for piece, number in vocabulary.items()}
    first = len(SPECIALS)
    if tuple(_used(pieces.get(i, "")) for i in range(first)) != SPECIALS:
        raise VocabularyError(f"ids 0 to 3 are not {', '.join(SPECIALS)}: no RoBERTa vocabulary")
    names = bpe.printable_ids() | bpe.added
    moved = {piece for i, piece in pieces.items() if i >= first and _used(piece) in SPECIALS}
    dictionary = Dictionary()
    for number in range(first, len(pieces)):
        piece = pieces[number]
        symbol = _used(piece) if piece in moved else names.get(piece, piece)
        dictionary.add_symbol(symbol, n=len(pieces) - number, overwrite=piece in moved)
    if len(dictionary) != len(pieces):
        raise VocabularyError("a piece and a special symbol have the same name")
    return dictionary


def _used(piece: str) -> str:
    """Return the special symbol that a row without use is named after; other pieces as they are."""
    bare = piece.removesuffix(UNUSED)
    return bare if bare in SPECIALS else piece

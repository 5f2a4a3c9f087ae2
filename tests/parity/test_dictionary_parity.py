"""The situations of fairseq's tests/test_dictionary.py, answered by real fairseq and by ours.

The lines, ids and counts are theirs (facebookresearch/fairseq, MIT).
"""

from __future__ import annotations

import io
import string
from pathlib import Path
from typing import Any

import pytest

from roberta_hub.errors import VocabularyError
from roberta_hub.text import Dictionary

from . import peers

pytestmark = [pytest.mark.parity, peers.needs_fairseq]

LINES = ["A B C D", "B C D", "C D", "D"]
FIRST = [[4, 5, 6, 7, 2], [5, 6, 7, 2], [6, 7, 2], [7, 2]]
"""Ids in the order of the first occurrences."""
SORTED = [[7, 6, 5, 4, 2], [6, 5, 4, 2], [5, 4, 2], [4, 2]]
"""Ids in the order of the counts."""
CAMEMBERT = ["<unk>", "<s>", "</s>"]
"""Words that CamemBERT's file has a second time."""


def theirs() -> type[Any]:
    peers.real_fairseq()
    from fairseq.data import Dictionary as Theirs

    return Theirs  # type: ignore[no-any-return]


def ids(dictionary: Any) -> list[list[int]]:
    return [dictionary.encode_line(line, add_if_not_exist=False).tolist() for line in LINES]


def content(dictionary: Any) -> tuple[list[str], list[int], dict[str, int]]:
    return dictionary.symbols, dictionary.count, dictionary.indices


def test_finalize(tmp_path: Path) -> None:
    """Before, after, and read again from the file that either of both has written."""
    made = [kind() for kind in (theirs(), Dictionary)]
    for dictionary in made:
        for line in LINES:
            dictionary.encode_line(line, add_if_not_exist=True)
        assert ids(dictionary) == FIRST
        dictionary.finalize()
        assert ids(dictionary) == SORTED
        path = tmp_path / type(dictionary).__module__
        dictionary.save(str(path))
        for reader in (theirs(), Dictionary):
            assert ids(reader.load(str(path))) == SORTED
    assert content(made[0]) == content(made[1])
    files = {path.read_bytes() for path in tmp_path.iterdir()}
    assert len(files) == 1


@pytest.mark.parametrize("kind", ["theirs", "ours"])
def test_words_that_overwrite_others(kind: str) -> None:
    dictionary = theirs()() if kind == "theirs" else Dictionary()
    rows = [f"{word} 999 #fairseq:overwrite\n" for word in CAMEMBERT]
    dictionary.add_from_file(io.StringIO("".join([*rows, ", 999\n", "▁de 999\n"])))
    known = {"<pad>": 1, "foo": 3, "<unk>": 4, "<s>": 5, "</s>": 6, ",": 7, "▁de": 8}
    assert {word: dictionary.index(word) for word in known} == known
    assert (dictionary.bos(), dictionary.eos(), dictionary.unk()) == (0, 2, 3)


def test_words_twice_without_leave() -> None:
    rows = "".join(f"{word} 999\n" for word in [*CAMEMBERT, ",", "▁de"])
    with pytest.raises(RuntimeError, match="Duplicate"):
        theirs()().add_from_file(io.StringIO(rows))
    with pytest.raises(VocabularyError, match="line 1: '<unk>' again"):
        Dictionary().add_from_file(io.StringIO(rows))


@pytest.mark.parametrize("kind", ["theirs", "ours"])
def test_a_space_is_a_symbol(kind: str) -> None:
    dictionary = theirs()() if kind == "theirs" else Dictionary()
    dictionary.add_from_file(io.StringIO("  999\na 999\nb 999\n"))
    assert [dictionary.index(symbol) for symbol in " ab"] == [4, 5, 6]


@pytest.mark.parametrize(
    ("threshold", "nwords", "padding"),
    [(0, -1, 8), (-1, -1, 8), (4000, -1, 8), (0, 20, 8), (3000, 30, 16), (0, -1, 1), (0, 10, 7)],
)
def test_counts_of_a_file(tmp_path: Path, threshold: int, nwords: int, padding: int) -> None:
    """Each letter 1,000 times and 500 more than the one before it; which are kept, and padding."""
    path, counts = tmp_path / "letters.txt", {}
    with open(path, "w", encoding="utf-8") as file:
        for number, letter in enumerate(string.ascii_letters):
            times = 10 + 5 * number
            file.write(f"{letter} " * times + "\n")
            counts[letter] = 100 * times
    peers.real_fairseq()
    from fairseq.tokenizer import tokenize_line

    mine, other = Dictionary(), theirs()()
    theirs().add_file_to_dictionary(str(path), other, tokenize_line, 1)
    with open(path, encoding="utf-8") as file:
        for line in file:
            mine.encode_line(line, add_if_not_exist=True)
    for dictionary in (mine, other):
        for letter, count in counts.items():
            dictionary.add_symbol(letter, n=count - dictionary.count[dictionary.index(letter)])
        eos = dictionary.eos()  # their reader counts one at the end of each line
        dictionary.count[eos] = 1
        dictionary.finalize(threshold=threshold, nwords=nwords, padding_factor=padding)
    assert content(mine) == content(other)
    assert len(mine) % padding == 0
    for letter in mine.symbols[4:]:
        assert mine.get_count(mine.index(letter)) == counts.get(letter, 0)


def test_a_line_of_ids() -> None:
    """What `encode_line` takes: unknown words, both orders, an end or none, tokenizers."""
    made = [kind() for kind in (theirs(), Dictionary)]
    for dictionary in made:
        for line in LINES:
            dictionary.encode_line(line)
    cases: list[dict[str, Any]] = [
        {},
        {"append_eos": False},
        {"reverse_order": True},
        {"reverse_order": True, "append_eos": False},
        {"add_if_not_exist": False},
        {"line_tokenizer": str.split, "add_if_not_exist": False},
        {"line_tokenizer": list, "add_if_not_exist": False},
        {"add_if_not_exist": True},
    ]
    for options in cases:
        for line in ("A B", " D\tZ  A \n", "", "new words A", "A A A"):
            found = [dictionary.encode_line(line, **options) for dictionary in made]
            assert found[0].tolist() == found[1].tolist()
            assert found[0].dtype == found[1].dtype
    assert content(made[0]) == content(made[1])

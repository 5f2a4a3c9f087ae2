"""Words of several pieces, and the sentences that hold them."""

from types import ModuleType

import pytest
from scripts import TOOLS, load_script

from roberta_hub.text.tokenizer import Tokenizer

TEXTS = [
    "Ann saw a hobgoblin.",
    "A hobgoblin saw Ann.",
    "The hobgoblin left.",
    "Superstitions are old.",
    "Old superstitions are HOBGOBLIN tales.",
]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    return load_script(TOOLS / "cut_words.py")


def test_words_are_those_that_the_vocabulary_cuts(tool: ModuleType) -> None:
    pieces = Tokenizer.shipped().tokenize
    found = tool.cut_words(TEXTS, pieces, least=1)
    assert found == {" hobgoblin", "Superstitions", " superstitions"}
    assert all(len(pieces(word)) > 1 for word in found)
    assert tool.cut_words(TEXTS, pieces, least=2) == {" hobgoblin"}


def test_parts_of_words_are_no_words(tool: ModuleType) -> None:
    texts = ["A hobgoblin-like Citroën doesn't xylograph2 hobgoblins"]
    assert tool.cut_words(texts, list, least=1) == {" hobgoblins"}


def test_each_word_is_covered_so_often_and_no_text_is_taken_in_vain(tool: ModuleType) -> None:
    words = {" hobgoblin", " superstitions"}
    assert tool.covering(TEXTS, words, times=1) == [TEXTS[0], TEXTS[4]]
    assert tool.covering(TEXTS, words, times=2) == [TEXTS[0], TEXTS[1], TEXTS[4]]
    assert tool.covering(TEXTS, set(), times=2) == []

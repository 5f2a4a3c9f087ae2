"""Pieces ↔ words: by bytes, against sets of bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_text import texts

from roberta_hub.errors import InputError, InputTypeError
from roberta_hub.text.alignment import align, locate


@pytest.mark.parametrize(
    ("text", "words", "pieces"),
    [
        ("It was a great day", ["It", "was", "a", "great", "day"], [[1], [2], [3], [4], [5]]),
        ("You can’t.", ["You", "can’t", "."], [[1], [2, 3, 4, 5], [6]]),
        ("You can’t.", ["You", "can", "’t", "."], [[1], [2], [3, 4, 5], [6]]),
        ("an epipheny", ["an", "epipheny"], [[1], [2, 3, 4]]),
        ("trailing  ", ["trailing"], [[1, 2]]),
        ("day ", ["day", " "], [[1], [2]]),
        ("", [], []),
        ("day", [], []),
        ("day", ["", "day"], [[], [1]]),
        ("don't", ["do", "n't"], [[1], [1, 2]]),  # `don` is one piece: it belongs to both
        ("a  b", ["a", " ", "b"], [[1], [2], [3]]),
    ],
)
def test_examples(tokenizer, text, words, pieces):
    assert align(tokenizer, text, words) == pieces


def test_emoji_in_parts(tokenizer):
    text = "so 🤖👩‍👧 it"
    robot, family = align(tokenizer, text, ["so", "🤖", "👩‍👧", "it"])[1:3]
    assert robot and family and not set(robot) & set(family)
    assert sorted(robot + family) == list(range(2, len(tokenizer.encode(text)) - 2))


def test_a_piece_that_covers_several_words(tokenizer):
    assert tokenizer.tokenize("www") == ["www"]
    assert align(tokenizer, "www", ["w", "w", "w"]) == [[1], [1], [1]]


def test_spans_instead_of_words(tokenizer):
    spans = [(12, 17), (0, 2), (3, 8)]  # any order, and overlaps
    assert align(tokenizer, "an epipheny", [(3, 11), (0, 2), (0, 11)]) == [
        [2, 3, 4],
        [1],
        [1, 2, 3, 4],
    ]
    with pytest.raises(
        InputError, match=r"words\[0\] is \(12, 17\), outside the text of 11 characters"
    ):
        align(tokenizer, "an epipheny", spans)
    with pytest.raises(InputError, match=r"words\[0\]"):
        align(tokenizer, "an epipheny", [(3, 2)])


@pytest.mark.parametrize("words", [[3], ["a", (0, 1)], [(1, 2, 3)], [None]])
def test_words_of_another_kind(tokenizer, words):
    with pytest.raises(InputTypeError, match="neither all str nor all"):
        align(tokenizer, "a b", words)


@pytest.mark.parametrize(("text", "error"), [("a\ud800", InputError), (None, InputTypeError)])
def test_text_that_is_none(tokenizer, text, error):
    with pytest.raises(error):
        align(tokenizer, text, ["a"])


def test_locate():
    assert locate("no, no no", ["no", "no", "no"]) == [(0, 2), (4, 6), (7, 9)]
    with pytest.raises(
        InputError, match=r"words\[1\], 'No', does not occur in the text after character 2: ', no'"
    ):
        locate("no, no", ["no", "No"])
    with pytest.raises(InputError, match=r"words\[2\]"):
        locate("no, no", ["no", "no", "no"])


def core(text, start, end):
    """The bytes from the first to the last that is not of a whitespace character."""
    space = [character.isspace() for character in text for _ in character.encode()]
    solid = [i for i in range(start, end) if not space[i]]
    return set(range(solid[0], solid[-1] + 1)) if solid else set()


@pytest.mark.system
@given(texts(), st.data())
def test_as_sets_of_bytes(tokenizer, text, data):
    cut = st.integers(0, len(text))
    words = data.draw(st.lists(st.tuples(cut, cut).map(lambda s: (min(s), max(s))), max_size=6))
    expected = []
    for start, end in words:
        start, end = len(text[:start].encode()), len(text[:end].encode())
        mine = []
        for i, piece in enumerate(tokenizer.engine.byte_spans(text), 1):
            word_core, piece_core = core(text, start, end), core(text, *piece)
            if word_core:
                overlap = bool(word_core & piece_core)
            else:
                overlap = not piece_core and bool(set(range(start, end)) & set(range(*piece)))
            if overlap:
                mine.append(i)
        expected.append(mine)
    assert align(tokenizer, text, words) == expected


@pytest.mark.system
@given(texts())
def test_words_of_a_split_have_all_pieces_with_ink(tokenizer, text):
    aligned = align(tokenizer, text, text.split())
    assert all(aligned)
    inked = [
        i for i, piece in enumerate(tokenizer.engine.byte_spans(text), 1) if core(text, *piece)
    ]
    assert sorted({i for word in aligned for i in word}) == inked

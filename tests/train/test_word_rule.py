"""Taggers of `fit` cut texts between grapheme clusters; older ones keep the rule they learnt."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import regex
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_models import small_roberta

import roberta_hub
from roberta_hub.errors import CheckpointError, InputError
from roberta_hub.inference.tag import split_words, words_to_label
from roberta_hub.train.fitting.tag_examples import read_tag_examples
from roberta_hub.train.fitting.tag_scores import look_up, looked_up

DATA = Path(__file__).resolve().parents[1] / "data/old_word_rule"
TEXT = "दिल्ली e\u0301t\u00e9 می\u200cخواهم ❤️ Note"
PARTS = ["दिल्ली", "e\u0301t\u00e9", "می\u200cخواهم", "❤️", "Note"]
OLD_PARTS = ["द", "ि", "ल", "्", "ल", "ी", "e", "\u0301", "t\u00e9", "می", "\u200c", "خواهم"]
OLD_PARTS += ["❤", "\ufe0f", "Note"]
"""What a head of commit cc8f2ab4 gave for TEXT."""
ODD = "aé1 \n.-'_e\u0301\u20e3\u093f\u094d\u0915ิก今\u200d\u200c👩🏽🇩🇪\ufe0f\u0600ـَ한\u1100\u1161"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("नमस्ते दिल्ली।", ["नमस्ते", "दिल्ली", "।"]),
        ("தமிழ்நாடு-இல்", ["தமிழ்நாடு", "-", "இல்"]),
        ("مُحَمَّد في مَكَّة", ["مُحَمَّد", "في", "مَكَّة"]),
        ("cafe\u0301 Zu\u0308rich's", ["cafe\u0301", "Zu\u0308rich", "'", "s"]),
        ("می\u200cخواهم،", ["می\u200cخواهم", "،"]),
        ("അവന്\u200d.", ["അവന്\u200d", "."]),
        ("שָׁלוֹם־עוֹלָם", ["שָׁלוֹם", "־", "עוֹלָם"]),
        ("ไทยกำลัง", ["ไ", "ท", "ย", "กำ", "ลั", "ง"]),
        (
            "👨\u200d👩\u200d👧x🇩🇪🇫🇷 1\ufe0f\u20e3",
            ["👨\u200d👩\u200d👧", "x", "🇩🇪", "🇫🇷", "1\ufe0f\u20e3"],
        ),
        ("-\u0301a \u0301b", ["-\u0301", "a", "\u0301b"]),
    ],
)
def test_a_part_has_its_marks(text: str, parts: list[str]) -> None:
    assert [text[start:end] for start, end in split_words(text, "clusters")] == parts


@given(st.text(st.sampled_from(ODD), max_size=24))
def test_no_word_ends_inside_a_cluster(text: str) -> None:
    edges = {place for match in regex.finditer(r"\X", text) for place in match.span()}
    for words in (split_words(text, "clusters"), words_to_label(text)):
        assert "".join(text[start:end] for start, end in words) == "".join(text.split())
        inside = {place for word in words for place in word} - edges
        assert all(text[place - 1].isspace() for place in inside)  # a mark after a blank


@given(
    st.text(
        st.sampled_from("aÉßя1²½ª٣Ω今にไ한\n \u00a0.,'-_£🙂ⅷ①\x1c"),
        max_size=24,
    )
)
def test_without_marks_the_parts_are_the_old_ones(text: str) -> None:
    assert split_words(text, "clusters") == split_words(text, "parts")


def rows_of(word: str, start: int, end: int, count: int = 20) -> list[dict[str, Any]]:
    return [
        {"text": f"{i}: {word} x", "spans": [[len(f"{i}: ") + start, len(f"{i}: ") + end, "LOC"]]}
        for i in range(count)
    ]


@pytest.mark.parametrize(
    ("word", "cut", "said"),
    [
        ("दिल्ली", 1, "'दि'"),
        ("தமிழ்நாடு", 4, "'ழ்'"),
        ("مَكَّة", 3, "'كَّ'"),
        ("Zu\u0308rich", 2, "'u\u0308'"),
        ("کتاب\u200cها", 4, "'ب\\u200c'"),
        ("👨\u200d👩", 2, "'👨\\u200d👩'"),
    ],
)
def test_spans_of_whole_words_are_learnt_and_others_named(word: str, cut: int, said: str) -> None:
    found = read_tag_examples(rows_of(word, 0, len(word)))
    assert found is not None and not any("not learnt" in note for note in found.notes)
    assert all(row.text[a:b] == word for row in found.train for a, b, _ in row.spans)
    for start, end in ((0, cut), (cut, len(word))):
        rows = [*rows_of(word, 0, len(word)), *rows_of("so " + word, 3 + start, 3 + end, 1)]
        found = read_tag_examples(rows)
        assert found is not None
        (note,) = (note for note in found.notes if "not learnt" in note)
        assert note.startswith("1 row not learnt, a span that cuts a character: table:21 (")
        assert note.endswith(f" in {said})")


def test_a_span_that_cuts_a_word_between_clusters_is_named() -> None:
    rows = [*rows_of("दिल्ली", 0, 6), *rows_of("so दिल्ली", 3, 5, 1)]  # दि of दिल्ली
    found = read_tag_examples(rows)
    assert found is not None
    assert (
        "1 row not learnt, a span that cuts a word: table:21 ([6, 8, 'LOC'] in 'दिल्ली')"
        in found.notes
    )


def test_evaluate_names_a_span_that_cuts_a_character() -> None:
    roberta = small_roberta()
    roberta.register_token_head("ner", labels=["O", "B-LOC", "I-LOC"])
    with pytest.raises(InputError, match=r"table:1: a span that cuts a character \[0, 4, 'LOC'\]"):
        roberta_hub.evaluate(roberta, [{"text": "cafe\u0301 x", "spans": [[0, 4, "LOC"]]}])


def test_looked_up_spans_are_whole_words() -> None:
    from roberta_hub.train.fitting.spans import Annotated

    known = looked_up([Annotated("दिल्ली है", ((0, 6, "LOC"),), "x:1")])
    assert look_up("दिल्ली", known) == {(0, 6, "LOC")}
    assert look_up("द", {"द": "LOC"}) == {(0, 1, "LOC")} and look_up("दि", {"द": "LOC"}) == set()


# ---- old heads ----


@pytest.mark.parametrize("format", ["roberta_hub", "huggingface"])
def test_a_head_of_an_older_fit_keeps_its_rule(tmp_path: Path, format: str) -> None:
    """Both config.json were written by commit cc8f2ab4, and so were OLD_PARTS."""
    roberta = small_roberta()
    roberta.register_token_head("tagger", labels=["O", "B-X"])
    with torch.no_grad():
        roberta.model.token_heads["tagger"].out_proj.bias.copy_(torch.tensor([-9.0, 9.0]))
    roberta.word_rules["tagger"] = "clusters"
    roberta.save(tmp_path / "new", format)
    again = roberta_hub.load_model(tmp_path / "new")
    assert [span.text for span in again.tag(TEXT)] == PARTS
    shutil.copytree(tmp_path / "new", tmp_path / "old")
    shutil.copy(DATA / f"{format}.json", tmp_path / "old/config.json")
    old = roberta_hub.load_model(tmp_path / "old")
    assert [span.text for span in old.tag(TEXT)] == OLD_PARTS
    for other in ("roberta_hub", "huggingface"):
        old.save(tmp_path / other, other)
        again = roberta_hub.load_model(tmp_path / other)
        assert [*again.word_rules.values()] == ["parts"]
        assert [span.text for span in again.tag(TEXT)] == OLD_PARTS


def test_a_rule_that_is_none_is_named(tmp_path: Path) -> None:
    roberta = small_roberta()
    roberta.register_token_head("tagger", labels=["O", "B-X"])
    roberta.save(tmp_path, "huggingface")
    about = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**about, "roberta_hub_words": "syllables"}))
    with pytest.raises(CheckpointError, match="words is 'syllables'; choose 'words'"):
        roberta_hub.load_model(tmp_path)

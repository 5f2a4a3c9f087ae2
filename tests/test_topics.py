"""The topics that training leaves out: their numbers, and the rule that labels them."""

import re
from pathlib import Path
from types import ModuleType

import pytest
from scripts import TOOLS, load_script

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def topics() -> ModuleType:
    return load_script(TOOLS / "draw_topics.py")


def test_four_hundred_articles_are_held_out(topics):
    simple = topics.held_out("simplewiki_2022")
    assert len(simple) == 400 and max(simple) < 137_231
    assert topics.held_out("enwiki_2021_core") and topics.held_out("oanc_slate") == set()


def test_only_numbers_are_committed():
    text = (ROOT / "tools/data/topics.json").read_text()
    assert set(re.findall(r'"([^"]*)"', text)) <= {
        "sports",
        "music",
        "film",
        "politics",
        "geography",
        "animals",
        "science",
        "war",
        "enwiki_2021_core",
    }


@pytest.mark.parametrize(
    ("first", "kind"),
    [
        ("Ada Berg is a Norwegian former football player. She won.", "football player"),
        ("Ada Berg (born 1 May 1990) is a Norwegian football player. She won.", "football player"),
        ("The Aa is a river in the north of Hill Land. It is short.", "river"),
        ("The blue tree frog (Rana ada) is a species of frog in the family Ranidae.", "frog"),
        ("Aa is a fictional planet in a book. It is far.", None),
        ("Ada Berg is a chemist and politician. She is old.", None),
        ("Berg is a genus of flowering plants. They are red.", None),
        ("No verb here at all.", None),
    ],
)
def test_the_first_sentence_decides(topics, first, kind):
    assert topics.kind_of(first) == kind


def test_what_decides_is_not_shown(topics):
    rest = "It flows fast. " + " ".join(["water"] * 40) + ". It ends in the sea."
    shown = dict(topics.parts([f"The Aa is a river in Hill Land. {rest}"]))
    assert shown == {0: rest}
    assert dict(topics.parts([f"The Aa is a river in it. He was born there. {rest}"])) == {}


def test_the_rows_are_there(topics, shared, monkeypatch):
    """Of the first few documents only: the whole text takes 20 seconds."""
    few = min(topics.held_out(topics.SOURCE)) + 1
    monkeypatch.setattr(topics, "SHARED", shared)
    read = topics.documents
    monkeypatch.setattr(
        topics, "documents", lambda name: (d for d, _ in zip(read(name), range(few), strict=False))
    )
    ((text, label),) = topics.rows()
    assert label in topics.LABELS and len(text.split()) in topics.WORDS

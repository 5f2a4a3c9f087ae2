"""tag() against the head at every word's first piece, found one text at a time."""

from __future__ import annotations

import contextlib
import math
import re
import time
from collections.abc import Iterator
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pytest
import torch
from families import write_family
from hypothesis import given
from hypothesis import strategies as st
from questions import ids_of, states_of
from small_models import randomise, small_roberta

from roberta_hub import RobertaHubInterface, load_model
from roberta_hub.errors import InputError, InputTypeError, UnknownNameError
from roberta_hub.inference.batching import Runner
from roberta_hub.inference.tag import (
    TOUCHING,
    Span,
    entities,
    first_pieces,
    merge_spans,
    tag_words,
    treebank_words,
    whole_spans,
    word_parts,
    words_to_label,
)
from roberta_hub.text.alignment import align, locate

LABELS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
TEXTS = [
    "Ada Lovelace's dog didn't bark (in the U.S., 1843).",
    "",
    "naïve 🙂 İstanbul’s epipheny!?",
    "  two   spaces\nand lines ",
    "Ada Lovelace's dog didn't bark (in the U.S., 1843).",
]
LONG = " ".join(f"Name{i} of many;" for i in range(20))


@pytest.fixture(scope="module")
def _model() -> RobertaHubInterface:
    roberta = small_roberta(heads={"mnli": 3})
    roberta.register_token_head("ner", labels=LABELS)
    roberta.register_token_head("pos", num_classes=3)
    for head in roberta.model.token_heads.values():
        randomise(head, std=1.0)
    return roberta


@pytest.fixture
def roberta(_model: RobertaHubInterface) -> Iterator[RobertaHubInterface]:
    before = [p._version for p in _model.parameters()]
    yield _model.eval()
    assert [p._version for p in _model.parameters()] == before


def plain(roberta: RobertaHubInterface, text: str) -> list[tuple[str, float]]:
    """(label, probability) of each word, straight from the definition."""
    with torch.no_grad():
        rows = roberta.model.token_heads["ner"](states_of(roberta, ids_of(roberta, text)))
    found = []
    for pieces in align(roberta.tokenizer, text, treebank_words(text)):
        best = rows.softmax(-1)[pieces[0]].max(0)
        found.append((LABELS[int(best.indices)], float(best.values)))
    return found


@pytest.mark.parametrize("batch_tokens", [None, 9])
def test_a_word_gets_the_label_of_its_first_piece(roberta, batch_tokens):
    runner = Runner(model=roberta.model, tokenizer=roberta.tokenizer, batch_tokens=batch_tokens)
    words = [treebank_words(text) for text in TEXTS]
    found = tag_words(runner, TEXTS, words, "ner", LABELS)
    assert len({label for own in found for label, _ in own}) > 2  # the head tells words apart
    for text, own in zip(TEXTS, found, strict=True):
        wanted = plain(roberta, text)
        assert [label for label, _ in own] == [label for label, _ in wanted]
        assert [p for _, p in own] == pytest.approx([p for _, p in wanted], abs=1e-5)


def test_spans_lie_in_the_text(roberta):
    texts = [*TEXTS, " ".join(TEXTS)[:90]]
    found = roberta.tag(texts, "ner", batch_tokens=30)
    assert found[0] == found[4] and found[1] == []
    assert sum(map(len, found)) > 5
    for text, spans in zip(texts, found, strict=True):
        assert all(text[s.start : s.end] == s.text for s in spans)
        assert all(a.end <= b.start for a, b in zip(spans, spans[1:], strict=False))
        assert all(0.2 <= s.score <= 1 and s.label in ("PER", "LOC") for s in spans)
    assert roberta.tag([], "ner") == []


def test_mode_and_labels(roberta):
    roberta.train()
    assert roberta.tag(TEXTS, "ner") == roberta.tag(TEXTS, "ner")  # no dropout
    assert roberta.training
    assert roberta.head_labels("ner") == LABELS
    assert "ner (O, B-PER, I-PER, B-LOC, I-LOC)" in repr(roberta)
    # Numbers where no names were given; without "O" every word is a span.
    assert roberta.head_labels("pos") == ("0", "1", "2")
    (spans,) = roberta.tag(["Ada sang, then slept."], "pos")
    assert [s.text for s in spans] == ["Ada", "sang", ",", "then", "slept", "."]


def test_long_texts(roberta):
    with pytest.raises(InputError, match=r"texts\[1\]: too long: 102 tokens > 48"):
        roberta.tag(["Ada", LONG], "ner")
    whole = treebank_words(LONG)
    runner = Runner(model=roberta.model, tokenizer=roberta.tokenizer, truncate=True)
    (cut,) = tag_words(runner, [LONG], [whole], "ner", LABELS)
    seen = [p for _, p in cut]
    assert len(cut) == len(whole) and seen[0] > 0 and seen[-1] == 0
    assert cut[-1] == ("O", 0.0) and seen == sorted(seen, key=lambda p: p == 0)
    assert max(s.end for s in roberta.tag([LONG], "ner", truncate=True)[0]) < len(LONG) / 2 + 40
    # Without "O" among the labels, what was cut off is no span either.
    (words,) = roberta.tag([LONG], "pos", truncate=True)
    assert len(words) == sum(p > 0 for p in seen) < len(whole)
    (slid,) = roberta.tag([LONG], "ner", stride=20)
    assert max(s.end for s in slid) > len(LONG) * 0.8
    # What stands in the first window alone is as it was in a text that was cut there, but for a
    # token.
    runner = Runner(model=roberta.model, tokenizer=roberta.tokenizer, stride=20)
    (windowed,) = tag_words(runner, [LONG], [whole], "ner", LABELS)
    assert [label for label, _ in windowed[:5]] == [label for label, _ in cut[:5]]
    assert all(p > 0 for _, p in windowed)


def test_what_cannot_be_tagged(roberta):
    with pytest.raises(InputTypeError, match=r"texts\[1\]: a tuple; tag takes single texts"):
        roberta.tag(["Ada", ("Ada", "Bo")], "ner")
    with pytest.raises(UnknownNameError, match="'mnli' is for classify, choose and predict"):
        roberta.tag(["Ada"], "mnli")
    with pytest.raises(
        UnknownNameError, match=r"no token head 'nr'; this model has ner, pos, mnli"
    ):
        roberta.tag(["Ada"], "nr")
    with pytest.raises(UnknownNameError, match="'ner' is for tag"):
        roberta.classify(["Ada"], head="ner")


@pytest.mark.parametrize(
    ("tags", "spans"),
    [
        ("B-X I-X O", [("X", 0, 1)]),
        ("I-X I-X", [("X", 0, 1)]),  # CoNLL 2003's own scheme begins with I-
        ("I-X B-X I-X", [("X", 0, 0), ("X", 1, 2)]),
        ("B-X I-Y", [("X", 0, 0), ("Y", 1, 1)]),
        ("B-X O I-X", [("X", 0, 0), ("X", 2, 2)]),
        ("S-X S-X B-X E-X I-X", [("X", 0, 0), ("X", 1, 1), ("X", 2, 3), ("X", 4, 4)]),
        ("U-X B-X L-X", [("X", 0, 0), ("X", 1, 2)]),
        ("X X O X", [("X", 0, 1), ("X", 3, 3)]),
        ("B-a-b I-a-b", [("a-b", 0, 1)]),
        ("", []),
    ],
)
def test_labels_to_spans(tags, spans):
    assert entities(tags.split()) == spans
    single = [(tag, i, i) for i, tag in enumerate(tags.split()) if tag != "O"]
    assert entities(tags.split(), joined=False) == single


def test_a_span_has_the_mean_probability_of_its_words():
    found = merge_spans("a b", [(0, 1), (2, 3)], ["B-X", "I-X"], [0.5, 1.0], ["O", "B-X", "I-X"])
    assert found == [Span("X", 0, 3, "a b", 0.75)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("“Hi,” I’m O'Brien’s.", ["“", "Hi", ",", "”", "I", "’m", "O'Brien", "’s", "."]),
        ("won't can’t 'tis", ["wo", "n't", "ca", "n’t", "'", "tis"]),
        ("#tag @me 50% $5 a-b x/y", ["#tag", "@me", "50%", "$5", "a-b", "x/y"]),
        ("U.S. e.g. etc. J.R.R. ...", ["U.S.", "e.g.", "etc", ".", "J.R.R.", ".", ".", "."]),
        ("'s n't", ["'", "s", "n't"]),
        (" \n", []),
    ],
)
def test_words(text, words):
    spans = treebank_words(text)
    assert [text[start:end] for start, end in spans] == words


# ---- words that no blank ends, and other ways from pieces to words ----


def marking(kind: str, folder: Path, text: str, marked: dict[str, str]) -> RobertaHubInterface:
    """A random model whose head gives the pieces of these parts of the text these labels."""
    write_family(kind, folder, head="bare", max_position_embeddings=98)
    roberta = load_model(folder).eval()
    roberta.register_token_head("ner", labels=["O", *dict.fromkeys(marked.values())])
    labels = roberta.head_labels("ner")
    wanted = torch.full((len(roberta.encode(text)), len(labels)), -4.0)
    wanted[:, 0] = 4.0
    places = locate(text, list(marked))
    firsts = first_pieces(roberta.tokenizer, text, places)  # a "▁" that is a piece among them
    for part, pieces, first in zip(
        marked, align(roberta.tokenizer, text, places), firsts, strict=True
    ):
        for piece in {*pieces, first}:
            wanted[piece, 0], wanted[piece, labels.index(marked[part])] = -4.0, 4.0
    with torch.no_grad():
        states = states_of(roberta, ids_of(roberta, text))
        states = torch.cat([states, states.new_ones(len(states), 1)], 1)
        solved = torch.linalg.pinv(states.double()) @ wanted.double()  # as many columns as rows
        head = roberta.model.token_heads["ner"].out_proj
        head.weight.copy_(solved[:-1].T)
        head.bias.copy_(solved[-1])
    return roberta


@pytest.mark.system
@pytest.mark.parametrize("kind", ["bert", "bert-cased", "xlm-roberta", "roberta"])
@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("今天我们去公园", {"今天": "TIME", "公园": "LOC"}),
        ("name:mary,town:berlin", {"mary": "PER", "berlin": "LOC"}),
        ("berlin/paris", {"berlin": "LOC", "paris": "LOC"}),
        ("user=mary;id=7", {"mary": "PER"}),
        ("in f(berlin) was", {"berlin": "LOC"}),
    ],
)
def test_spans_end_where_no_blank_is(tmp_path, kind, text, marked):
    """The head marks these pieces, and no others."""
    roberta = marking(kind, tmp_path, text, marked)
    for aggregation in ("word", "first", "average", "max"):
        found = roberta.tag(text, "ner", aggregation=aggregation)
        assert [(s.text, s.label) for s in found] == list(marked.items()), aggregation


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("and/or 24/7 1,000 3-0", ["and", "/", "or", "24/7", "1,000", "3-0"]),
        ("Mary's/John's don't", ["Mary", "'s", "/", "John", "'s", "do", "n't"]),
        ("[2024-01-01T12:30:45] user=mary", ["[", "2024-01-01T12:30:45", "]", "user", "=", "mary"]),
        ("see http://a.org/b. me@a.org", ["see", "http://a.org/b", ".", "me@a.org"]),
        ("C:\\Users\\mary", ["C", ":", "\\", "Users", "\\", "mary"]),
        ("COVID-19疫苗，好", ["COVID-19", "疫", "苗", "，", "好"]),
        ("สวัสดี", ["ส", "วั", "ส", "ดี"]),
        ("नमस्ते दुनिया।", ["नमस्ते", "दुनिया", "।"]),
        ("cafe\u0301 :/ //", ["cafe\u0301", ":", "/", "//"]),
    ],
)
def test_words_to_label(text, words):
    spans = words_to_label(text)
    assert [text[start:end] for start, end in spans] == words


@given(st.text(st.sampled_from("ab1:/,. -'今ัสา(=)“\n🙂é"), max_size=30))
def test_words_to_label_cover_all_ink(text):
    spans = words_to_label(text)
    assert "".join(text[start:end] for start, end in spans) == "".join(text.split())
    assert all(start < end for start, end in spans) and spans == sorted(spans)
    # A text of letters and blanks has the words that it always had.
    plain = re.sub(r"[^ab1 .'\n-]", "", text)
    assert words_to_label(plain) == treebank_words(plain)


def test_an_aggregation_that_is_none(roberta):
    with pytest.raises(InputError, match="aggregation is 'simple'; choose 'word', 'first'"):
        roberta.tag("Ada", "ner", aggregation="simple")
    with pytest.raises(InputError, match="aggregation"):
        roberta.tag([], "ner", aggregation=None)


def test_a_text_that_is_cut_has_no_labels_beyond(roberta):
    for aggregation in ("first", "average", "max", "piece"):
        (found,) = roberta.tag([LONG], "ner", truncate=True, aggregation=aggregation)
        assert found and max(s.end for s in found) < len(LONG) / 2 + 40
        (slid,) = roberta.tag([LONG], "ner", stride=20, aggregation=aggregation)
        assert max(s.end for s in slid) > len(LONG) * 0.8


# ---- labels that are likeliest together ----


def likeliest(rows: torch.Tensor) -> list[str]:
    """Try all labels of all words, straight from the definition."""
    found, best = rows.tolist(), (-1.0, [""])
    for chosen in product(range(len(LABELS)), repeat=len(found)):
        tags = [LABELS[k] for k in chosen]
        value = math.prod(row[k] for row, k in zip(found, chosen, strict=True))
        for before, tag in pairwise(["O", *tags]):
            if tag[:2] == "I-" and before[2:] != tag[2:]:
                value = -2.0  # no whole span
            if tag[:2] == "B-" and before[2:] == tag[2:]:
                value *= TOUCHING
        best = max(best, (value, tags))
    return best[1]


@pytest.mark.parametrize("words", [0, 1, 2, 5])
def test_spans_are_whole_and_likeliest(words):
    torch.manual_seed(words)
    apart = 0
    for _ in range(30):
        rows = (2 * torch.randn(words, len(LABELS))).softmax(-1)
        found = [LABELS[k] for k in whole_spans(rows, LABELS)]
        assert found == (likeliest(rows) if words else [])
        apart += found != [LABELS[k] for k in rows.argmax(-1)]
    assert apart > 5 or not words


@pytest.mark.parametrize(("sure", "tag"), [(0.9, "I-PER"), (0.99, "B-PER")])
def test_a_span_of_the_same_label_begins_only_where_the_model_is_sure(sure, tag):
    rows = torch.tensor([[0.0, 1.0, 0.0, 0.0, 0.0], [0.0, sure, 1 - sure, 0.0, 0.0]])
    assert [LABELS[k] for k in whole_spans(rows, LABELS)] == ["B-PER", tag]


def test_labels_without_a_beginning_are_chosen_by_themselves():
    rows = torch.eye(3)[[1, 2, 0, 2]]
    assert whole_spans(rows, ["O", "I-X", "I-Y"]).tolist() == [1, 2, 0, 2]


def test_a_head_for_parts_is_asked_for_whole_spans(roberta):
    text, words = TEXTS[0], word_parts(TEXTS[0])
    roberta.word_rules["ner"] = "parts"
    try:
        (spans,) = roberta.tag([text], "ner")
    finally:
        del roberta.word_rules["ner"]
    runner = Runner(model=roberta.model, tokenizer=roberta.tokenizer)
    (said,) = tag_words(runner, [text], [words], "ner", LABELS, "parts")
    (first,) = tag_words(runner, [text], [words], "ner", LABELS)
    tags, scores = zip(*said, strict=True)
    assert said != first  # the head's own labels are no whole spans
    assert spans == merge_spans(text, words, tags, scores, LABELS)
    follows = pairwise(["O", *tags])
    assert all(tag[:2] != "I-" or before[2:] == tag[2:] for before, tag in follows)


@pytest.mark.system
@pytest.mark.parametrize("kind", ["roberta", "gottbert", "xlm-roberta", "bert", "albert"])
def test_a_long_token_takes_time_by_its_length(kind: str, tmp_path: Path) -> None:
    """Four times the letters take some four times as long, with the error and without."""
    roberta = load_model(write_family(kind, tmp_path / "model"))
    roberta.register_token_head("ner", labels=["O", "B-PER", "I-PER"])
    units = ("a", "abcdefgh", "-", "a-", "ไ", "今天", "a\u0301", "👩\u200d", "http://")

    def cost(letters: int, **options: Any) -> float:
        began = time.process_time()
        for unit in units:
            with contextlib.suppress(InputError):  # too long, where nothing cuts it
                roberta.tag((unit * letters)[:letters], head="ner", **options)
        return time.process_time() - began

    for options in ({}, {"truncate": True}):
        cost(100, **options)
        short = max(min(cost(1500, **options) for _ in range(2)), 0.01)
        assert min(cost(6000, **options) for _ in range(2)) < 10 * short, options

"""The scores of spans are seqeval's: micro and of each label, on random spans.

The tables of tags are those of tests/test_metrics.py, test_v1.py and test_scheme.py of
chakki-works/seqeval, and of each their neighbours: every sequence of up to four tags.
"""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from roberta_hub.inference.tag import Span, entities
from roberta_hub.measures.counts import f1
from roberta_hub.train.fitting.confusions import confusion_display
from roberta_hub.train.fitting.spans import Annotated
from roberta_hub.train.fitting.tag_scores import Tagged, judge_spans
from roberta_hub.train.fitting.tagger import tags_of

pytestmark = pytest.mark.parity
WORDS = 12
PLACES = [(2 * i, 2 * i + 1) for i in range(WORDS)]
TEXT = " ".join("x" * WORDS)


def spans(draw: random.Random) -> tuple[tuple[int, int, str], ...]:
    """Some spans of words, none over another."""
    found, word = [], 0
    while word < WORDS:
        length = draw.randint(1, 3)
        if draw.random() < 0.4 and word + length <= WORDS:
            last = word + length - 1
            found.append((PLACES[word][0], PLACES[last][1], draw.choice(["PER", "LOC", "ORG"])))
            word += length
        word += 1
    return tuple(found)


def near(draw: random.Random, wanted: tuple[tuple[int, int, str], ...]) -> list[Span]:
    """The wanted spans, some of them lost and some with another label; or others."""
    if draw.random() < 0.3:
        wanted = spans(draw)
    kept = [span for span in wanted if draw.random() < 0.8]
    return [
        Span(la if draw.random() < 0.8 else "LOC", s, e, TEXT[s:e], draw.random())
        for s, e, la in kept
    ]


@pytest.mark.parametrize("seed", range(5))
def test_scores_are_seqevals(seed: int) -> None:
    metrics = pytest.importorskip("seqeval.metrics")
    draw = random.Random(seed)
    rows = [Annotated(TEXT, spans(draw), f"x:{i}") for i in range(40)]
    answers = [Tagged(near(draw, row.spans), []) for row in rows]
    found = judge_spans(rows, answers, rows)
    wanted = [tags_of(PLACES, row.spans) for row in rows]
    given = [tags_of(PLACES, [(s.start, s.end, s.label) for s in own.spans]) for own in answers]
    report = metrics.classification_report(wanted, given, output_dict=True, zero_division=0)
    assert found.numbers["F1"] == pytest.approx(report["micro avg"]["f1-score"])
    assert found.numbers["precision"] == pytest.approx(report["micro avg"]["precision"])
    assert found.numbers["recall"] == pytest.approx(report["micro avg"]["recall"])
    assert 0.2 < found.numbers["F1"] < 0.95
    for label in ("PER", "LOC", "ORG"):
        right, missed, wrong = (found.confusion[label, k] for k in ("right", "missed", "wrong"))
        assert f1(right, missed, wrong) == pytest.approx(report[label]["f1-score"])
        assert right / (right + wrong) == pytest.approx(report[label]["precision"])
        assert right / (right + missed) == pytest.approx(report[label]["recall"])
        assert right + missed == report[label]["support"]
    assert confusion_display("tagging", found.confusion)


def test_the_trained_heads_own_measure_is_seqevals_too() -> None:
    metrics = pytest.importorskip("seqeval.metrics")
    from roberta_hub.train.tasks.tokens import entity_scores

    draw = random.Random(7)
    wanted = [tags_of(PLACES, spans(draw)) for _ in range(30)]
    given = [tags_of(PLACES, spans(draw)) for _ in range(30)]
    found = tuple(entity_scores(wanted, given).values())
    assert found == pytest.approx(
        (
            metrics.precision_score(wanted, given),
            metrics.recall_score(wanted, given),
            metrics.f1_score(wanted, given),
        )
    )


BIO = ["O", "B-PER", "I-PER", "B-ORG", "I-ORG"]
ENDS = ["O", "B-A", "I-A", "E-A", "S-A", "I-B", "E-B"]


@pytest.mark.parametrize("tags", [BIO, ENDS, ["O", "I-ORG-COMPANY", "B-ORG-COMPANY", "I-組織"]])
def test_every_short_sequence_of_tags(tags: list[str]) -> None:
    """Where a span begins and ends, as in conlleval: "I-" after another label begins one."""
    labelling = pytest.importorskip("seqeval.metrics.sequence_labeling")
    for length in range(5):
        for row in itertools.product(tags, repeat=length):
            assert entities(row) == labelling.get_entities(list(row)), row


def test_the_spans_of_their_tests() -> None:
    labelling = pytest.importorskip("seqeval.metrics.sequence_labeling")
    row = ["O", "O", "O", "B-MISC", "I-MISC", "I-MISC", "O", "B-PER", "I-PER"]
    assert entities(row) == labelling.get_entities(row) == [("MISC", 3, 5), ("PER", 7, 8)]


WANTED = [["B-A", "B-B", "O", "B-A"]]
GIVEN = [["O", "B-B", "B-C", "B-A"]]
TABLES: list[tuple[Any, Any]] = [
    ([[]], [[]]),
    ([["O"]], [["O"]]),
    ([["B-PER"]], [["B-Test"]]),
    ([["B-PER"]], [["B-ORG"]]),
    ([["B-PER", "O"]], [["O", "O"]]),
    (WANTED, GIVEN),
    (
        [["O", "O", "O", "B-MISC", "I-MISC", "I-MISC", "O"], ["B-PER", "I-PER", "O"]],
        [["O", "O", "B-MISC", "I-MISC", "I-MISC", "I-MISC", "O"], ["B-PER", "I-PER", "O"]],
    ),
    (
        [["O", "O", "O", "B-MISC", "I-MISC", "O", "B-ORG"], ["B-PER", "I-PER", "O", "B-PER"]],
        [["O", "O", "B-MISC", "I-MISC", "I-MISC", "O", "O"], ["B-PER", "I-PER", "O", "B-MISC"]],
    ),
]


@pytest.mark.parametrize(("wanted", "given"), TABLES)
def test_the_tables_of_their_tests(wanted: Any, given: Any) -> None:
    metrics = pytest.importorskip("seqeval.metrics")
    from roberta_hub.train.tasks.tokens import entity_scores

    scores = (metrics.precision_score, metrics.recall_score, metrics.f1_score)
    assert tuple(entity_scores(wanted, given).values()) == pytest.approx(
        tuple(score(wanted, given, zero_division=0) for score in scores)
    )


def test_their_report() -> None:
    """Precision, recall, F1 and count of each label: of their test, theirs, and those of `fit`."""
    metrics = pytest.importorskip("seqeval.metrics")
    numbers = {"A": (1.0, 0.5, 2 / 3, 2), "B": (1.0, 1.0, 1.0, 1), "C": (0.0, 0.0, 0.0, 0)}
    report = metrics.classification_report(WANTED, GIVEN, output_dict=True, zero_division=0)
    places = PLACES[:4]
    text = " ".join("x" * 4)

    def annotated(tags: list[str]) -> tuple[tuple[int, int, str], ...]:
        return tuple((places[a][0], places[b][1], label) for label, a, b in entities(tags))

    rows = [Annotated(text, annotated(tags), "x:1") for tags in WANTED]
    answers = [
        Tagged([Span(label, s, e, text[s:e], 0.9) for s, e, label in annotated(tags)], [])
        for tags in GIVEN
    ]
    found = judge_spans(rows, answers, rows)
    assert found.numbers == pytest.approx({"F1": 2 / 3, "precision": 2 / 3, "recall": 2 / 3})
    for label, (precision, recall, score, count) in numbers.items():
        theirs = report[label]
        assert tuple(theirs.values()) == pytest.approx((precision, recall, score, count))
        right, missed, wrong = (
            found.confusion.get((label, kind), 0) for kind in ("right", "missed", "wrong")
        )
        assert (right / max(right + wrong, 1), right / max(right + missed, 1)) == pytest.approx(
            (precision, recall)
        )
        assert (f1(right, missed, wrong), right + missed) == (pytest.approx(score), count)


@pytest.mark.parametrize("prefixes", ["BIO", "EIO"])
def test_a_thousand_random_tags(prefixes: str) -> None:
    """Their statistical test, which compares with conlleval."""
    metrics = pytest.importorskip("seqeval.metrics")
    from roberta_hub.train.tasks.tokens import entity_scores

    draw = random.Random(3)

    def tag() -> str:
        prefix = draw.choice(prefixes)
        return "O" if prefix == "O" else f"{prefix}-{draw.choice(['PER', 'MISC', 'ORG', 'LOC'])}"

    for _ in range(30):
        lengths = [draw.randint(1, 40) for _ in range(50)]
        wanted, given = ([[tag() for _ in range(n)] for n in lengths] for _ in range(2))
        scores = (metrics.precision_score, metrics.recall_score, metrics.f1_score)
        assert tuple(entity_scores(wanted, given).values()) == pytest.approx(
            tuple(score(wanted, given) for score in scores)
        )

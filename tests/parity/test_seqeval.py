"""The scores of spans are seqeval's: micro and of each label, on random spans."""

from __future__ import annotations

import random

import pytest

from roberta_hub.inference.tag import Span
from roberta_hub.train.fitting.confusions import confusion_display
from roberta_hub.train.fitting.spans import Annotated
from roberta_hub.train.fitting.tag_scores import Tagged, judge_spans
from roberta_hub.train.fitting.tagger import tags_of
from roberta_hub.train.metrics import f1

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
    found = entity_scores(wanted, given)
    assert found == pytest.approx(
        (
            metrics.precision_score(wanted, given),
            metrics.recall_score(wanted, given),
            metrics.f1_score(wanted, given),
        )
    )

"""New pairs of a table's texts: which they are, what they teach, and what is said beside it."""

from __future__ import annotations

import pytest
import torch

import roberta_hub
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.train.data.sentences import LabelledText
from roberta_hub.train.fitting.pair_cosines import (
    can_compare_pairs,
    new_pairs,
    pair_cosines,
)

TEXTS = [
    ("A man plays a guitar.", "Someone makes music."),
    ("It rains in Oslo.", "Oslo is wet today."),
    ("The bank is closed.", "A cat sleeps."),
    ("She reads a book.", "A woman is reading."),
    ("Prices rise again.", "Everything costs more."),
    ("The train is late.", "The dog barks."),
]


@pytest.fixture(scope="module")
def tiny() -> RobertaHubInterface:
    return roberta_hub.load_model("roberta.tiny")


def rows_of(labels: list[str]) -> list[LabelledText]:
    return [
        LabelledText(pair, (label,), str(i))
        for i, (pair, label) in enumerate(zip(TEXTS[: len(labels)], labels, strict=True))
    ]


def test_own_pairs_come_first_and_each_pair_once(tiny: RobertaHubInterface) -> None:
    found = [pair.text for pair in new_pairs(tiny, rows_of(["1"] * 6), 1000, seed=1, per_row=20)]
    assert found[:6] == TEXTS
    assert len(set(found)) == len(found) <= 6 * 6
    firsts, seconds = ({pair[k] for pair in TEXTS} for k in (0, 1))
    assert all(a in firsts and b in seconds for a, b in found)
    assert len(found) > 12
    assert len(new_pairs(tiny, rows_of(["1"] * 6), 9, seed=1)) == 9


def test_numbers_are_the_cosines_up_to_their_scale(tiny: RobertaHubInterface) -> None:
    found = new_pairs(tiny, rows_of(["1"] * 6), 1000, seed=1)
    numbers = torch.tensor([float(pair.labels[0]) for pair in found])
    assert numbers.mean() == pytest.approx(0, abs=1e-5)
    assert numbers.std(correction=0) == pytest.approx(1, abs=1e-5)
    direct = torch.tensor(pair_cosines(tiny, found))
    assert torch.corrcoef(torch.stack([numbers, direct]))[0, 1] > 0.99999


def test_no_label_is_read_and_a_seed_decides(tiny: RobertaHubInterface) -> None:
    first = new_pairs(tiny, rows_of(list("123456")), 30, seed=1)
    assert first == new_pairs(tiny, rows_of(list("654321")), 30, seed=1)
    assert first != new_pairs(tiny, rows_of(list("123456")), 30, seed=2)


def test_one_row_has_no_other_partner(tiny: RobertaHubInterface) -> None:
    assert [pair.text for pair in new_pairs(tiny, rows_of(["1"]), 5, seed=1)] == TEXTS[:1]


def test_who_can_compare(tiny: RobertaHubInterface) -> None:
    assert can_compare_pairs(tiny, rows_of(["1"] * 6))
    assert not can_compare_pairs(tiny, [LabelledText("one text", ("1",), "x")])


def test_the_cosine_is_named_where_it_orders_the_pairs_better(tiny: RobertaHubInterface) -> None:
    """Scores that are the cosines themselves cannot be learnt better from 24 rows."""
    pairs = [(a, b) for a, _ in TEXTS for _, b in TEXTS][:24]
    scores = pair_cosines(tiny, [LabelledText(pair, ("0",), "x") for pair in pairs])
    rows = [{"a": a, "b": b, "score": s} for (a, b), s in zip(pairs, scores, strict=True)]
    mine = roberta_hub.fit(rows, text=["a", "b"], label="score", minutes=0.01, progress=False)
    by_name = {way.name: way for way in mine.fitted.choice.ways}
    assert by_name["the cosine of the model's vectors, nothing learnt"].score == pytest.approx(1)
    [said] = [note for note in mine.fitted.notes if "better without training" in note]
    assert "`similarity` has a Spearman of 1.000" in said

"""What answers are made of: a line for people, a dict for programs."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import pytest

from roberta_hub import Answer, Hit, Prediction, Span
from roberta_hub.errors import InputTypeError

RECORDS: list[tuple[Any, str, dict[str, Any]]] = [
    (
        Prediction.of(["negative", "positive"], [0.2574, 0.7426]),
        "positive 0.74",
        {"label": "positive", "score": 0.7426, "scores": {"positive": 0.7426, "negative": 0.2574}},
    ),
    (Prediction.of(["0"], [-3.217]), "0 -3.22", {"label": "0", "score": -3.217}),
    (
        Prediction.of(["art", "fun", "sport"], [0.31, 0.9, 0.55], [0.3, 0.5, 0.6]),
        "fun 0.90, art 0.31",
        {"label": "fun", "score": 0.9, "labels": ["fun", "art"]},
    ),
    (
        Prediction.of(["art", "fun"], [0.31, 0.2], [0.5, 0.5]),
        "no label (art 0.31)",
        {"label": "art", "score": 0.31, "labels": []},
    ),
    (
        Span(label="PER", start=0, end=3, text="Ada", score=0.987),
        "PER Ada 0.99",
        {"label": "PER", "start": 0, "end": 3, "text": "Ada", "score": 0.987},
    ),
    (
        Answer(text="Ada", start=0, end=3, score=0.5),
        "Ada 0.50",
        {"text": "Ada", "start": 0, "end": 3, "score": 0.5},
    ),
    (Answer(text="", start=0, end=0, score=0.9), "no answer 0.90", {"text": "", "score": 0.9}),
    (Hit(7, 0.875, "Goal!"), "0.88 Goal!", {"index": 7, "score": 0.875, "text": "Goal!"}),
    (Hit(7, 0.5, ("a", "b")), "0.50 a | b", {"index": 7, "score": 0.5, "text": ["a", "b"]}),
    (Hit(7, 0.5, None), "0.50 corpus[7]", {"index": 7, "score": 0.5, "text": None}),
]
IDS = [line for _, line, _ in RECORDS]


@pytest.mark.parametrize(("record", "line", "fields"), RECORDS, ids=IDS)
def test_a_line_and_a_dict(record: Any, line: str, fields: dict[str, Any]) -> None:
    assert str(record) == f"{record}" == line
    absent = ["labels"] * (vars(record).get("labels", 0) is None)
    assert [*record.to_dict(), *absent] == list(vars(record))
    through = json.loads(json.dumps(record.to_dict(), allow_nan=False))
    assert fields.items() <= through.items()


@pytest.mark.parametrize("record", [record for record, _, _ in RECORDS], ids=IDS)
def test_repr_makes_it_again(record: Any) -> None:
    assert eval(repr(record)) == record
    assert copy.deepcopy(record) == pickle.loads(pickle.dumps(record)) == record


def test_a_changed_dict_leaves_the_record() -> None:
    record = Prediction.of(["a", "b"], [0.2, 0.8])
    record.to_dict()["scores"]["a"] = 1.0
    assert record.scores == {"a": 0.2, "b": 0.8}


@pytest.mark.parametrize("record", [record for record, _, _ in RECORDS], ids=IDS)
@pytest.mark.parametrize("read", [lambda r: r["label"], lambda r: r[0], list, dict])
def test_it_is_no_dict_and_no_list(record: Any, read: Any) -> None:
    with pytest.raises(InputTypeError, match=r"has no item .*; it has \..*, and to_dict\(\)"):
        read(record)


def test_a_table_of_them() -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    spans = [Span("PER", 0, 3, "Ada", 0.9), Span("LOC", 7, 11, "Rome", 0.8)]
    rows = [span.to_dict() for span in spans]
    assert pandas.DataFrame(spans).to_dict("records") == rows
    assert polars.DataFrame(rows).to_dicts() == rows


def test_arrays_hold_them_whole() -> None:
    numpy = pytest.importorskip("numpy")
    hits = [Hit(0, 0.5, "a"), Hit(1, 0.5, "b")]
    assert numpy.array(hits, dtype=object).tolist() == hits

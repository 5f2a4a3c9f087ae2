"""The numbers of `evaluate` are those of scikit-learn, scipy and seqeval, to 1e-9."""

from __future__ import annotations

import dataclasses
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from families import SENTENCES
from task_files import CONTEXT, conll, rows_of, squad, write_jsonl

from roberta_hub import RobertaHubInterface, evaluate
from roberta_hub.evaluation.scores import pair_similarities
from roberta_hub.evaluation.tasks import Asked
from roberta_hub.inference.tag import tag_words
from roberta_hub.measures.squad import squad_score

NEAR = 1e-9
TEXTS = [f"{i} {text[:40]}" for i, text in enumerate(SENTENCES * 6)][:90]


def drawn(choices: Any, many: int = len(TEXTS), seed: int = 0) -> list[Any]:
    draw = random.Random(seed)
    return [draw.choice(choices) for _ in range(many)]


def test_labels(model: RobertaHubInterface) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    names = ["art", "sport", "war"]
    wanted = drawn(names)
    found: Any = evaluate(model, {"text": TEXTS, "label": wanted})
    answers = model.classify(TEXTS)
    given = [answer.label for answer in answers]
    probabilities = np.array([[answer.scores[name] for name in names] for answer in answers])
    assert (found.kind, found.verb, found.how) == ("labels", "classify", "head topic")
    theirs = {
        "accuracy": metrics.accuracy_score(wanted, given),
        "f1_macro": metrics.f1_score(wanted, given, average="macro"),
        "f1_micro": metrics.f1_score(wanted, given, average="micro"),
        "mcc": metrics.matthews_corrcoef(wanted, given),
        "log_loss": metrics.log_loss(wanted, probabilities, labels=names),
        "majority": max(map(wanted.count, names)) / len(wanted),
        "ece": calibration(probabilities.max(1), np.array(given) == np.array(wanted)),
    }
    assert found.numbers == pytest.approx(theirs, abs=NEAR)
    report = metrics.classification_report(wanted, given, output_dict=True, zero_division=0)
    for group in found.groups:
        theirs = report[group.name]
        assert group.rows == theirs["support"]
        own = [group.numbers[name] for name in ("precision", "recall", "f1")]
        wanted_numbers = [theirs[name] for name in ("precision", "recall", "f1-score")]
        assert own == pytest.approx(wanted_numbers, abs=NEAR)
    low, high = found.interval
    assert 0 < low < found["accuracy"] < high < 1


def calibration(scores: Any, right: Any) -> float:
    """Expected calibration error in ten bins, by numpy."""
    bins = np.minimum((scores * 10).astype(int), 9)
    shares = [abs(scores[bins == b].sum() - right[bins == b].sum()) for b in range(10)]
    return float(sum(shares)) / len(scores)


def test_one_class_and_a_label_that_is_never_given(model: RobertaHubInterface) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    texts = TEXTS[:9]
    given = [answer.label for answer in model.classify(texts)]
    for wanted in (given, ["war"] * 9, ["art"] * 9):
        found: Any = evaluate(model, {"text": texts, "label": wanted})
        macro = metrics.f1_score(wanted, given, average="macro", zero_division=0)
        assert found["f1_macro"] == pytest.approx(macro, abs=NEAR)
        assert found["mcc"] == pytest.approx(metrics.matthews_corrcoef(wanted, given), abs=NEAR)


@pytest.mark.parametrize("form", ["lists", "separated", "flags"])
def test_several_labels(model: RobertaHubInterface, form: str) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    names = ("a", "b", "c")
    truth = np.array([drawn([0, 1], seed=k) for k in range(3)]).T
    truth[0] = 0 if form != "separated" else 1
    own = [[name for name, yes in zip(names, row, strict=True) if yes] for row in truth]
    table: dict[str, Any] = {"text": TEXTS, "labels": own}
    more: dict[str, Any] = {}
    if form == "separated":
        truth[~truth.any(1)] = 1  # an empty cell is a label that is missing
        own = [[name for name, yes in zip(names, row, strict=True) if yes] for row in truth]
        table["labels"] = [", ".join(row) for row in own]
    if form == "flags":
        table = {"text": TEXTS} | {name: truth[:, k].tolist() for k, name in enumerate(names)}
        more["label"] = list(names)
    found: Any = evaluate(model, table, head="tags", **more)
    answers = model.classify(TEXTS, "tags")
    given = np.array([[name in (a.labels or ()) for name in names] for a in answers])
    scores = np.array([[a.scores[name] for name in names] for a in answers])
    theirs = {
        "accuracy": metrics.accuracy_score(truth, given),
        "f1_micro": metrics.f1_score(truth, given, average="micro", zero_division=0),
        "f1_macro": metrics.f1_score(truth, given, average="macro", zero_division=0),
        "log_loss": metrics.log_loss(truth.ravel(), scores.ravel(), labels=[0, 1]),
        "ece": calibration(scores.ravel(), truth.ravel().astype(bool)),
    }
    assert found.numbers == pytest.approx(theirs, abs=NEAR)
    assert found.how == "head tags, several labels" and found.rows == len(TEXTS)
    each = metrics.f1_score(truth, given, average=None, zero_division=0)
    assert [g.numbers["f1"] for g in found.groups] == pytest.approx(list(each), abs=NEAR)


@pytest.mark.parametrize("similarity", ["cosine", "dot", "euclidean", "manhattan"])
def test_scored_pairs(model: RobertaHubInterface, similarity: Any) -> None:
    stats = pytest.importorskip("scipy.stats")
    one, other = TEXTS[:40], TEXTS[40:80]
    people = drawn([0, 0.5, 1, 2.25, 4, 5], 40)
    before = model.sentence
    assert before is not None
    try:
        model.sentence = dataclasses.replace(before, similarity=similarity, normalize=False)
        table = {"sentence1": one, "sentence2": other, "score": people}
        found: Any = evaluate(model, table)
        near = pair_similarities(Asked(model, "x"), list(zip(one, other, strict=True)))
        matrix = model.similarity(one, other).diagonal()
    finally:
        model.sentence = before
    assert (found.kind, found.verb) == ("scores", "embed")
    assert found.how == f"{similarity} of vectors"
    torch.testing.assert_close(torch.tensor(near), matrix, atol=1e-4, rtol=1e-4)
    assert found["spearman"] == pytest.approx(stats.spearmanr(near, people).statistic, abs=NEAR)
    assert found["pearson"] == pytest.approx(stats.pearsonr(near, people).statistic, abs=NEAR)


def test_correlations_of_a_head_of_regression(model: RobertaHubInterface) -> None:
    stats = pytest.importorskip("scipy.stats")
    people = drawn([1, 2, 3, 4, 5])
    found: Any = evaluate(model, {"text": TEXTS, "stars": people}, head="stars")
    given = [answer.score for answer in model.classify(TEXTS, "stars")]
    assert (found.kind, found.verb, found.how) == ("scores", "classify", "head stars")
    assert found["spearman"] == pytest.approx(stats.spearmanr(given, people).statistic, abs=NEAR)
    assert found["pearson"] == pytest.approx(stats.pearsonr(given, people).statistic, abs=NEAR)
    same: Any = evaluate(model, {"text": TEXTS[:4], "stars": [2] * 4}, head="stars")
    assert same["spearman"] is None and "no correlation" in same.notes[-1]
    assert "spearman  none" in str(same) and json.dumps(same.to_dict())


@pytest.mark.parametrize("form", ["conll", "jsonl"])
def test_spans(model: RobertaHubInterface, form: str, tmp_path: Path) -> None:
    metrics = pytest.importorskip("seqeval.metrics")
    path = tmp_path / "test.txt"
    words, tags = conll(path)
    if form == "jsonl":
        rows = [{"tokens": w, "ner_tags": t} for w, t in zip(words, tags, strict=True)]
        path = write_jsonl(tmp_path / "test.jsonl", rows)
    found: Any = evaluate(model, path)
    places = []
    for own in words:
        ends = np.cumsum([len(word) + 1 for word in own])
        places.append([(int(e) - 1 - len(w), int(e) - 1) for w, e in zip(own, ends, strict=True)])
    texts = [" ".join(own) for own in words]
    said = tag_words(model._runner(), texts, places, "ner", model.head_labels("ner"))
    given = [[tag for tag, _ in own] for own in said]
    report = metrics.classification_report(tags, given, output_dict=True, zero_division=0)
    assert (found.kind, found.verb, found.rows) == ("spans", "tag", 25)
    theirs = {
        "f1": metrics.f1_score(tags, given, zero_division=0),
        "precision": metrics.precision_score(tags, given, zero_division=0),
        "recall": metrics.recall_score(tags, given, zero_division=0),
        "f1_macro": metrics.f1_score(tags, given, average="macro", zero_division=0),
    }
    assert found.numbers == pytest.approx(theirs, abs=NEAR)
    assert 0 < found["f1"] < 1
    for group in found.groups:
        assert group.numbers["f1"] == pytest.approx(report[group.name]["f1-score"], abs=NEAR)
        assert group.rows == report[group.name]["support"]


ANSWERS = [["Ada Lovelace"], ["the first program", "program"], ["London"], ["1843", "in 1843"]]


@pytest.mark.parametrize("form", ["doccano", "label_studio", "frame", "words"])
def test_spans_in_characters(model: RobertaHubInterface, form: str, tmp_path: Path) -> None:
    texts = [f"Ada saw {i} times New York." for i in range(12)]
    found = model.tag(texts, "ner")
    draw = random.Random(1)
    right = [[s for s in own if draw.random() < 0.7] for own in found]
    extra = [
        [4, 7, "LOC"] if not any(s.start < 7 and s.end > 4 for s in own) else None for own in right
    ]
    marks = [
        [[s.start, s.end, s.label] for s in own] + ([more] if more and i % 2 else [])
        for i, (own, more) in enumerate(zip(right, extra, strict=True))
    ]
    rows: Any = [{"text": text, "label": own} for text, own in zip(texts, marks, strict=True)]
    task: Any = tmp_path / "spans.jsonl"
    if form == "doccano":
        write_jsonl(task, rows)
    elif form == "label_studio":
        task = tmp_path / "spans.json"
        results = [
            [
                {
                    "value": {"start": a, "end": b, "labels": [la], "text": text[a:b]},
                    "type": "labels",
                }
                for a, b, la in own
            ]
            for text, own in zip(texts, marks, strict=True)
        ]
        tasks = [
            {"data": {"text": text}, "annotations": [{"result": own}]}
            for text, own in zip(texts, results, strict=True)
        ]
        task.write_text(json.dumps(tasks), encoding="utf-8")
    elif form == "frame":
        task = pytest.importorskip("pandas").DataFrame(rows)
    else:
        task = tmp_path / "none.jsonl"
        write_jsonl(task, [{**row, "text": None} for row in rows[:1]] + rows)
    got: Any = evaluate(model, task)
    given = [{(s.start, s.end, s.label) for s in own} for own in found]
    wanted = [{(a, b, la) for a, b, la in own} for own in marks]
    hits = sum(len(a & b) for a, b in zip(given, wanted, strict=True))
    both = sum(map(len, given)) + sum(map(len, wanted))
    assert (got.kind, got.rows) == ("spans", 12) and "places in characters" in got.how
    assert got["f1"] == pytest.approx(2 * hits / both, abs=NEAR) and 0 < got["f1"] < 1
    assert got.notes == (("left out: 1 row without a text",) if form == "words" else ())


@pytest.mark.parametrize("impossible", [False, True])
def test_answers(model: RobertaHubInterface, impossible: bool, tmp_path: Path) -> None:
    """`squad_score` itself is compared with SQuAD's scripts in tests/parity/test_metrics.py."""
    wanted = [*ANSWERS, *([[], []] if impossible else [])]
    path = tmp_path / "dev.json"
    questions = squad(path, wanted, impossible)
    found: Any = evaluate(model, path)
    asked = [one["question"] for one in questions]
    given = model.answer(asked, CONTEXT, "squad", no_answer=impossible)
    scores = [
        squad_score(answer.text, own, unanswerable=impossible)
        for answer, own in zip(given, wanted, strict=True)
    ]
    assert (found.kind, found.verb, found.rows) == ("answers", "answer", len(wanted))
    assert f"SQuAD {'2.0' if impossible else '1.1'}" in found.how
    exact, f1 = torch.tensor(scores, dtype=torch.double).mean(0).tolist()
    assert found.numbers == pytest.approx({"f1": f1, "exact": exact}, abs=NEAR)
    assert [group.rows for group in found.groups] == ([4, 2] if impossible else [])
    table: Any = evaluate(model, write_jsonl(tmp_path / "dev.jsonl", rows_of(questions)))
    assert table.numbers == found.numbers


def test_minimal_pairs(model: RobertaHubInterface, tmp_path: Path) -> None:
    pairs = [
        {
            "sentence_good": f"The {noun} {verb}.",
            "sentence_bad": f"The {noun} {verb}s.",
            "field": "morphology" if i % 2 else "syntax",
            "linguistics_term": noun,
            "UID": f"{noun}_{verb}",
        }
        for i, (noun, verb) in enumerate((n, v) for n in ("dogs", "cats") for v in ("run", "sit"))
    ]
    pairs.append({"sentence_good": "Same.", "sentence_bad": "Same.", "field": "syntax"})
    found: Any = evaluate(model, write_jsonl(tmp_path / "pairs.jsonl", pairs))
    right = [
        model.score(pair["sentence_good"]) > model.score(pair["sentence_bad"]) for pair in pairs
    ]
    assert (found.kind, found.verb, found.rows) == ("minimal_pairs", "score", 5)
    assert found["accuracy"] == sum(right) / 5
    assert found.notes == ("pairs that score alike, and are wrong: 1",)
    fields = {group.name: group for group in found.groups if group.of == "field"}
    assert fields["syntax"].rows == 3
    assert fields["syntax"].numbers["accuracy"] == (right[0] + right[2] + right[4]) / 3
    assert {group.of for group in found.groups} == {"field", "phenomenon", "paradigm"}
    for i, pair in enumerate(pairs):
        write_jsonl(tmp_path / f"blimp/{i}.jsonl", [pair])
    assert evaluate(model, tmp_path / "blimp").numbers == found.numbers
    lists = {"good": [p["sentence_good"] for p in pairs], "bad": [p["sentence_bad"] for p in pairs]}
    assert evaluate(model, lists).numbers == found.numbers

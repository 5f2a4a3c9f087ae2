"""The tables on other people's sets: their rows, their scores, and the page about them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import entities  # noqa: E402
import others  # noqa: E402
from lib import fit_scores, fit_sets, other_answers, other_page, report  # noqa: E402
from lib.fit_runs import Key, Run, Runs, place_of  # noqa: E402
from lib.fit_scores import Answers, judge  # noqa: E402
from lib.fit_sets import Drawn, Table  # noqa: E402
from lib.other_engines import seeds_of, sizes_of  # noqa: E402
from lib.other_sets import TABLES  # noqa: E402

RUNS = Runs(others.FILE)
CELLS = (
    (Key("lr", "all-MiniLM-L6-v2", "trec", 64, 2), "accuracy"),
    (Key("lr", "roberta.tiny", "irony", 8, 3), "f1_of_positive"),
    (Key("tfidf", "words", "emotion", 64, 1), "macro_f1"),
)
"""Cells that are computed again, each with its set's measure."""


@pytest.fixture
def folder(shared: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(fit_sets, "SHARED", shared)
    monkeypatch.setattr(fit_sets, "TASKS", shared / "data/tasks")


@pytest.mark.parametrize(("key", "score"), CELLS)
@pytest.mark.usefixtures("folder")
def test_a_cell_is_computed_again_from_what_was_answered(key: Key, score: str) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    run = RUNS.read()[key]
    drawn = TABLES[key.set].draw(key.size, key.seed)
    wanted = [str(label) for _, label in drawn.test]
    answered = [drawn.labels[at] for at in other_answers.classes(run.answers)]
    by_hand = {
        "accuracy": metrics.accuracy_score(wanted, answered),
        "macro_f1": metrics.f1_score(wanted, answered, average="macro"),
        "f1_of_positive": metrics.f1_score(wanted, answered, average="binary", pos_label="irony")
        if key.set == "irony"
        else None,
    }
    assert run.scores[score] == pytest.approx(by_hand[score], abs=6e-5)
    assert run.scores["accuracy"] == pytest.approx(by_hand["accuracy"], abs=6e-5)
    assert (run.rows, run.tested) == (len(drawn.learn), len(wanted))


@pytest.mark.usefixtures("folder")
def test_the_sets_are_those_that_are_published() -> None:
    sizes = {"emotion": 1421, "hate": 2970, "irony": 784, "offensive": 860, "trec": 500}
    for name, count in {**sizes, "sst5": 2210, "subj": 2000, "mr": 2132}.items():
        table = TABLES[name]
        few, every = table.draw(8, 1), table.draw(table.sizes[-1], 1)
        assert len(few.test) == count and few.test == every.test
        assert len(few.learn) == 8 * len(few.labels)
        assert few.labels == every.labels and {*few.learn} <= {*every.learn}
        assert not {t for t, _ in every.learn} & {t for t, _ in every.test}
    said = dict(TABLES["trec"].draw(5452, 1).test)
    assert said["What does NASA stand for ?"] == "abbreviation"
    assert said["When did Hawaii become a state ?"] == "numeric value"
    pairs = TABLES["wang"].draw(4718, 1)
    assert len(pairs.test) == 1148 and len({text[0] for text, _ in pairs.test}) == 81


def test_questions_are_ranked_each_by_itself() -> None:
    rows: list[Any] = [(("a", str(i)), mark) for i, mark in enumerate(("wrong", "right", "right"))]
    rows += [(("b", "x"), "right"), (("c", "y"), "wrong")]  # neither can be ranked wrongly
    drawn = Drawn([], rows)
    table = Table("t", "ranked", (0,), lambda size, seed: ([], rows), positive="right")
    found = judge(Answers((), np.array([0.9, 0.5, 0.1, 0.0, 1.0]), 0.0), drawn, table)
    assert found == pytest.approx({"map": (1 / 2 + 2 / 3) / 2, "mrr": 1 / 2})
    both = np.array([[0.1, 0.9], [0.5, 0.5], [0.9, 0.1], [1, 0], [0, 1]])
    ranked = judge(Answers(("right", "wrong"), 1 - both, 0.0), drawn, table)
    assert ranked == found
    assert fit_scores.f1_of(np.array([1, 1, 0]), np.array([1, 0, 1])) == pytest.approx(0.5)


def test_answers_come_back_as_they_were_written() -> None:
    wide = np.eye(77)[[0, 76, 44, 3]]
    text = other_answers.written(Answers(tuple(map(str, range(77))), wide, 0.0))
    assert json.loads(json.dumps(text)) == text and len(text) == 4
    assert other_answers.classes(text).tolist() == [0, 76, 44, 3]
    text = other_answers.written(Answers((), np.array([0.12345, -1.0]), 0.0))
    assert other_answers.scores(text).tolist() == [0.1235, -1.0]


def test_what_learns_nothing_has_one_cell() -> None:
    assert [*sizes_of("zero_shot", TABLES["trec"])] == [0] == [*sizes_of("tfidf", TABLES["wang"])]
    assert not [*sizes_of("ours", TABLES["sts2012 OnWN"])]
    assert seeds_of("ours", TABLES["trec"], 5452, (1, 2, 3)) == [1]
    assert seeds_of("ours", TABLES["trec"], 1000, (1, 2, 3)) == [1, 2, 3]


def about(machine: str) -> dict[str, Any]:
    known = {"date": "2026-11-28", "instruction_sets": "avx2", "versions": {"torch": "2"}}
    return {**known, "machine": machine}


def test_every_row_says_whose_it_is_and_where_fit_has_fewer_points(tmp_path: Path) -> None:
    runs = Runs(tmp_path / "others.json")
    for engine, accuracy, machine in (("ours", 0.5, "x"), ("lr", 0.75, "y")):
        key = Key(engine, "roberta.tiny", "trec", 8, 1)
        place = place_of(about(machine))
        runs.add(
            Run(key, 48, 500, {"accuracy": accuracy}, 2.0, place=place, answers="0"),
            about(machine),
        )
    marks = ("losses", "sentences 8", "tweets whole", "names", "machines")
    page = "\n".join(f"<!-- measured: {mark} -->\nold\n<!-- end -->" for mark in marks)
    text = other_page.filled(f"By hand.\n{page}", runs, ["| names |"])
    assert text == other_page.filled(text, runs, ["| names |"]) and "old" not in text
    assert text.startswith("By hand.\n") and "\n| names |\n" in text
    assert "| `fit`, roberta.tiny | 50.0 |  |  |  |  | 2.0 | torch 2 | A |" in text
    assert "| regression on vectors, roberta.tiny | 75.0 |  |  |  |  | 2.0 | torch 2 | B |" in text
    assert "TREC 8 (-25.0)" in text and "- B: y, avx2" in text
    published = [line for line in text.splitlines() if line.startswith("| *")]
    assert published and all("published, not rerun: [" in line for line in published)


def test_the_page_is_that_of_the_results() -> None:
    spans = json.loads((report.RESULTS / "entities.json").read_text(encoding="utf-8"))
    text = others.PAGE.read_text(encoding="utf-8")
    assert text == other_page.filled(text, RUNS, entities.table(spans))
    marks = {mark for _, mark, _ in other_page.PART.findall(text)}
    assert marks == {*other_page.tables(other_page.Measured(RUNS), [])}

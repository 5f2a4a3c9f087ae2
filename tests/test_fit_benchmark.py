"""The table of `benchmarks/fit.py`: its scores, what it keeps, and what its page says."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import fit as command  # noqa: E402
from lib import fit_page, fit_scores, report  # noqa: E402
from lib.fit_engines import FIXED  # noqa: E402
from lib.fit_runs import Key, Run, Runs  # noqa: E402
from lib.fit_scores import Answers, judge  # noqa: E402
from lib.fit_sets import REPORTED, Drawn  # noqa: E402

ABOUT = {"date": "2026-11-25", "machine": "x", "versions": {"torch": "2"}}


def test_scores_of_classes_are_those_of_scikit_learn() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    luck = np.random.default_rng(0)
    values = luck.dirichlet((1, 1, 1), 200)
    names = ("a", "b", "c")
    wanted = [names[i] for i in luck.integers(0, 3, 200)]
    drawn = Drawn([("", name) for name in names], [("", label) for label in wanted])
    found = judge(Answers(names, values, 0.0), drawn, REPORTED["sst2"])
    guessed = [names[i] for i in values.argmax(1)]
    assert found["accuracy"] == pytest.approx(metrics.accuracy_score(wanted, guessed))
    assert found["macro_f1"] == pytest.approx(metrics.f1_score(wanted, guessed, average="macro"))
    assert found["log_loss"] == pytest.approx(metrics.log_loss(wanted, values), rel=1e-4)


def test_a_score_that_is_as_often_right_as_it_says_has_no_error() -> None:
    sure = np.array([[0.75, 0.25]] * 4)
    assert fit_scores.ece(sure, np.array([0, 0, 0, 1])) == pytest.approx(0)
    assert fit_scores.ece(sure, np.array([1, 1, 1, 1])) == pytest.approx(0.75)
    certain = np.array([[1.0, 0.0], [0.55, 0.45]])
    assert fit_scores.ece(certain, np.array([0, 1])) == pytest.approx(0.55 / 2)


def test_several_labels_count_together_and_unlearnt_ones_are_missed() -> None:
    found = [("a", "b"), (), ("c",)]
    assert fit_scores.micro_f1(found, [("a",), ("d",), ("c",)]) == pytest.approx(4 / 6)
    assert fit_scores.spearman(np.array([1.0, 5.0, 9.0]), [1, 2, 3]) == pytest.approx(1)
    assert fit_scores.spearman(np.array([1.0, 1.0, 1.0]), [1, 2, 3]) == 0


def test_the_rare_class_is_the_one_that_was_learnt_least() -> None:
    drawn = Drawn([("", "no"), ("", "no"), ("", "yes")], [("", "yes"), ("", "yes"), ("", "no")])
    values = np.array([[0.1, 0.9], [0.9, 0.1], [0.9, 0.1]])
    found = judge(Answers(("no", "yes"), values, 0.0), drawn, REPORTED["sst2_rare"])
    assert found["recall_of_rare"] == 0.5 and found["accuracy"] == pytest.approx(2 / 3)


def run(engine: str, name: str, size: int, seed: int = 1, **scores: float) -> Run:
    return Run(Key(engine, "roberta.tiny", name, size, seed), 16, 100, scores, 3.0)


def test_runs_that_several_processes_add_are_all_kept(tmp_path: Path) -> None:
    def add(seed: int) -> None:
        Runs(tmp_path / "fit.json").add(run("lr", "sst2", 8, seed, accuracy=0.5), ABOUT)

    threads = [threading.Thread(target=add, args=(seed,)) for seed in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    kept = Runs(tmp_path / "fit.json")
    assert sorted(key.seed for key in kept.read()) == list(range(12))
    kept.add(run("lr", "sst2", 8, 3, accuracy=0.9), ABOUT)
    assert len(kept.read()) == 12
    assert kept.read()[Key("lr", "roberta.tiny", "sst2", 8, 3)].scores == {"accuracy": 0.9}


def test_what_is_there_is_not_measured_again(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    measured: list[Key] = []

    def measure(key: Key) -> Run:
        measured.append(key)
        return run(*key[:1], *key[2:], accuracy=0.5, ece=0.1, log_loss=0.5, macro_f1=0.5)

    monkeypatch.setattr(command, "measure", measure)
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    words = ["fit.py", "--engines", "lr", "--sets", "sst2", "banking10", "--models", "roberta.tiny"]
    monkeypatch.setattr(sys, "argv", [*words, "--sizes", "8"])
    command.main()
    assert len(measured) == 6
    monkeypatch.setattr(sys, "argv", [*words, "--sizes", "8", "16"])
    command.main()
    assert len(measured) == 12 and len(set(measured)) == 12
    assert "| sst2 | 8 | 50.0 ± 0.0 |" in (tmp_path / "fit.md").read_text()


def test_small_tables_and_first_seeds_come_first() -> None:
    given = argparse.Namespace(
        sets=["sst2", "nlupp"], sizes=[], seeds=[1, 2], models=["roberta.tiny"], engines=["lr"]
    )
    order = [(key.seed, key.set, key.size) for key in command.asked(given)]
    assert order[:3] == [(1, "sst2", 8), (1, "nlupp", 200), (1, "sst2", 16)]
    assert len(order) == 10 and order[5][0] == 2


def lines_of(tmp_path: Path, *measured: Run) -> list[str]:
    runs = Runs(tmp_path / "fit.json")
    for one in measured:
        runs.add(one, ABOUT)
    return [line for line in fit_page.page(runs).splitlines() if "| roberta.tiny |" in line]


def few(engine: str, seed: int, accuracy: float) -> Run:
    return run(engine, "sst2", 8, seed, accuracy=accuracy, ece=0.07, log_loss=0.6)


def test_the_page_says_what_is_met_and_what_is_not(tmp_path: Path) -> None:
    lines = lines_of(
        tmp_path,
        few("ours", 1, 0.70),
        few("ours", 2, 0.72),
        few("lr", 1, 0.68),
        few("lr", 2, 0.70),
        *(run("ours", "nlupp", 200, seed, micro_f1=0.73) for seed in (1, 2, 3)),
    )
    assert "| +2.0 over 1 of 21 tables | so far |" in lines[0]
    assert lines[1].endswith("| not measured |  |")  # SetFit
    assert "| 0.070 (regression 0.070) over 1 sets | so far |" in lines[3]
    assert lines[6].endswith("| 0.730 | **no** |")


def test_a_table_below_the_regression_is_named(tmp_path: Path) -> None:
    first = lines_of(
        tmp_path,
        *(few("ours", seed, 0.60) for seed in (1, 2)),
        few("lr", 1, 0.68),
        few("lr", 2, 0.70),
    )[0]
    assert "below by more than its scatter: sst2 at 8 | not so far |" in first


def test_what_fit_chooses_stands_beside_the_better_of_its_ways(tmp_path: Path) -> None:
    def chosen(size: int, accuracy: float, way: str) -> Run:
        found = run("ours", "sst2", size, accuracy=accuracy, ece=0.07, log_loss=0.6)
        return dataclasses.replace(found, way=way)

    regression, whole = FIXED.values()
    lines = lines_of(
        tmp_path,
        chosen(8, 0.70, regression),
        run("by_training", "sst2", 8, accuracy=0.73),
        chosen(16, 0.75, whole),
        run("by_regression", "sst2", 16, accuracy=0.76),
        run("by_regression", "sst2", 64, accuracy=0.9),  # what was chosen there is not known
    )
    assert "| on 1 of 2 tables, at most 3.0 points below | not so far |" in lines[2]


def test_a_way_that_fit_has_taken_is_not_learnt_again(
    tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    taken = dataclasses.replace(few("ours", 1, 0.7), way=FIXED["by_training"])
    Runs(tmp_path / "fit.json").add(taken, ABOUT)
    measured: list[str] = []
    monkeypatch.setattr(command, "measure", lambda key: measured.append(key.engine))
    words = ["--sets", "sst2", "--models", "roberta.tiny", "--sizes", "8", "--seeds", "1"]
    monkeypatch.setattr(sys, "argv", ["fit.py", "--engines", "ours", *FIXED, *words])
    command.main()
    assert measured == ["by_regression"]


def test_the_page_that_is_kept_is_that_of_its_numbers() -> None:
    kept = Runs(report.RESULTS / "fit.json")
    assert (report.RESULTS / "fit.md").read_text() == fit_page.page(kept)
    assert json.loads((report.RESULTS / "fit.json").read_text())["history"]

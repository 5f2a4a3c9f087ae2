"""`roberta-hub evaluate` in a process of its own: reports, exit status, what it refuses."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import forks
import pytest
from shell.running import PYTHON
from task_files import write_jsonl

from roberta_hub import RobertaHubInterface
from roberta_hub.evaluation.records import KINDS
from roberta_hub.shell.evaluate import KINDS as SHELL_KINDS

ROWS = "text,label\nA dog ran.,art\nGoal!,sport\nIt rains.,art\n,art\nNo label.,\n"


@pytest.fixture
def place(model: RobertaHubInterface, tmp_path: Path) -> Path:
    model.save(tmp_path / "mine")
    (tmp_path / "rows.csv").write_text(ROWS)
    (tmp_path / "words.conll").write_text("Ada B-PER\nsings O\n")
    write_jsonl(tmp_path / "pairs.jsonl", [{"sentence_good": "A b.", "sentence_bad": "B a."}])
    return tmp_path


def run(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    done = forks.run("-m", "roberta_hub", "evaluate", *arguments, cwd=place)
    assert "Traceback" not in done.stderr
    assert not PYTHON.search(done.stderr.replace("labels=", "")), done.stderr
    return done


@pytest.mark.system
def test_one_task(place: Path, model: RobertaHubInterface) -> None:
    done = run(place, "mine", "rows.csv")
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout.startswith("mine on rows.csv: accuracy ")
    assert "asked: classify, head topic; labelled texts (text, label), 3 rows" in done.stdout
    assert done.stdout.endswith("left out: 1 row without a text, 1 row without a label\n")
    done = run(place, "mine", "rows.csv", "-f", "json")
    told = json.loads(done.stdout)
    right = [answer.label for answer in model.classify(["A dog ran.", "Goal!", "It rains."])]
    wanted = sum(a == b for a, b in zip(right, ["art", "sport", "art"], strict=True)) / 3
    assert told["numbers"]["accuracy"] == pytest.approx(wanted) and told["rows"] == 3
    done = run(place, "mine", "rows.csv", "--format", "markdown")
    assert done.stdout.startswith("## `mine` on `rows.csv`\n")


@pytest.mark.system
def test_rows_with_weights(place: Path, model: RobertaHubInterface) -> None:
    lines = ROWS.splitlines()[:4]
    given = [f"{line},{n}" for line, n in zip(lines, ("trust", 3, 0, 0.5), strict=True)]
    (place / "weighted.csv").write_text("\n".join(given) + "\n")
    done = run(place, "mine", "weighted.csv", "--weight", "trust")
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout.endswith(
        "left out: 1 row with a weight of 0\neach row counts by its weight (trust)\n"
    )
    told = json.loads(run(place, "mine", "weighted.csv", "--weight", "trust", "-f", "json").stdout)
    right = [answer.label == "art" for answer in model.classify(["A dog ran.", "It rains."])]
    assert told["numbers"]["accuracy"] == pytest.approx((3 * right[0] + 0.5 * right[1]) / 3.5)
    assert {group["name"]: group["rows"] for group in told["groups"]}["art"] == 3.5
    done = run(place, "mine", "words.conll", "--weight", "trust")
    assert "weight means nothing to a task of the kind 'spans'; leave --weight out" in done.stderr


@pytest.mark.system
def test_several_tasks_are_one_table(place: Path) -> None:
    done = run(place, "mine", "rows.csv", "pairs.jsonl")
    first, head, *rows = done.stdout.splitlines()
    assert first == "mine on 2 tasks" and head.split() == ["task", "asked", "rows", "measures"]
    assert [row.split()[:3] for row in rows[:2]] == [
        ["rows.csv", "classify", "3"],
        ["pairs.jsonl", "score", "1"],
    ]
    assert rows[2] == "rows.csv: left out: 1 row without a text, 1 row without a label"
    done = run(place, "mine", "rows.csv", "pairs.jsonl", "-f", "json")
    assert [one["kind"] for one in json.loads(done.stdout)["tasks"]] == ["labels", "minimal_pairs"]


@pytest.mark.system
def test_the_least_that_is_good_enough(place: Path) -> None:
    done = run(place, "mine", "rows.csv", "--least", "accuracy=0", "--least", "log_loss=0")
    assert done.returncode == 0 and done.stderr == ""
    done = run(place, "mine", "rows.csv", "--least", "accuracy=1.5")
    assert done.returncode == 1 and done.stdout.startswith("mine on rows.csv: ")
    assert done.stderr.startswith("roberta-hub: rows.csv: accuracy is ")
    assert done.stderr.endswith(", less than 1.5\n")
    done = run(place, "mine", "rows.csv", "--least", "ndcg@10=0.5")
    assert (done.returncode, done.stdout) == (1, "")
    assert "--least ndcg@10: it was not measured; there is accuracy, f1_macro" in done.stderr
    done = run(place, "mine", "rows.csv", "--least", "accuracy")
    assert done.returncode == 2 and "'accuracy' is not like accuracy=0.8" in done.stderr


@pytest.mark.system
@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["mine"], 2, "Missing argument 'TASK...'"),
        (["mine", "nothing.csv"], 1, "nothing.csv: no such file"),
        (["mine", "mine/config.json"], 1, "mine/config.json"),
        (
            ["mine", "mine"],
            1,
            "mine is of no shape that is read: give a table of texts with labels",
        ),
        (["mine", "rows.csv", "--kind", "scores"], 1, "--text A,B names two columns"),
        (["mine", "rows.csv", "--head", "tpoic"], 1, "did you mean topic?"),
        (["mine", "rows.csv", "--labels", "art"], 2, "is no list like 0=negative,1=positive"),
        (["mine", "rows.csv", "--labels", "art=peace"], 1, "--labels ITS=OURS,... says which"),
        (["mine", "rows.csv", "--labels", "art=war"], 0, ""),
        (["mine", "rows.csv", "--device", "cpu"], 0, ""),
        (["mine", "rows.csv", "--device", "quantum"], 1, "quantum"),
        (["roberta.tiny", "words.conll"], 1, "name a model that has one; `roberta-hub fit` and"),
        (["mine", "rows.csv", "--text", "a,b"], 1, "no column 'a'"),
    ],
)
def test_refused(place: Path, arguments: list[str], status: int, said: str) -> None:
    done = run(place, *arguments)
    assert (done.returncode, said in done.stderr) == (status, True), done.stderr
    assert bool(done.stdout) == (status == 0)


def test_the_kinds_are_those_of_python() -> None:
    assert tuple(kind.replace("-", "_") for kind in SHELL_KINDS) == KINDS

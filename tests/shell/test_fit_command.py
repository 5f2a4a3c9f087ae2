"""`roberta-hub fit` says what it does, and the line that it ends with is right."""

from __future__ import annotations

import csv
import fcntl
import json
import os
import pty
import random
import re
import select
import shlex
import signal
import struct
import termios
import time
from pathlib import Path

import forks
import pytest
from running import Run, runner, write_model

WORDS = {"fine": "good", "great": "good", "dull": "bad", "empty": "bad"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("shell") / "model")


def reports_alone(error: str) -> bool:
    """Whether nothing but what is tried and learnt went to standard error."""
    method = r"\d\d:\d\d:\d\d (a regression|training).*"
    said = rf"{method}: (accuracy [\d.]+|reads .* rows|fold \d of \d|learns all .* rows)"
    return all(re.fullmatch(said, line) for line in error.splitlines())


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(monkeypatch, capsys)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a table in it."""
    monkeypatch.chdir(tmp_path)
    draw = random.Random(1)
    words = [draw.choice(list(WORDS)) for _ in range(200)]
    with (tmp_path / "reviews.csv").open("w", newline="") as file:
        rows = [(i, f"A {word} film, number {i}.", WORDS[word]) for i, word in enumerate(words)]
        csv.writer(file).writerows([("id", "review", "verdict"), *rows])
    return tmp_path


@pytest.mark.system
def test_likely_wrong_labels_are_shown(run: Run, folder: Path) -> None:
    rows = list(csv.reader((folder / "reviews.csv").open(newline="")))
    for i in (5, 30):  # behind the header: lines 6 and 31
        rows[i][2] = {"good": "bad", "bad": "good"}[rows[i][2]]
    with (folder / "reviews.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    status, printed, _ = run("fit", "reviews.csv", "--label", "verdict", "--minutes", "0.01")
    assert status == 0 and "labels that are likely wrong (" in printed
    assert f"reviews.csv:6: {rows[5][2]}, more likely " in printed
    assert printed.index("likely wrong") < printed.index("The model is in mine")
    card = (folder / "mine/README.md").read_text()
    assert "## Labels that are likely wrong" in card and "reviews.csv:6: " in card


@pytest.mark.system
def test_from_a_table_to_an_answer(run: Run, model: Path, folder: Path) -> None:
    options = ("--label", "verdict", "-m", model, "--epochs", 12)
    status, printed, error = run("fit", "reviews.csv", *options)
    assert status == 0
    lines = [re.sub(r"^\d\d:\d\d:\d\d ", "", line) for line in error.splitlines()]
    vectors, whole = (
        "a regression on the model's vectors",
        "training the whole model from a regression",
    )
    assert lines[0] == f"{vectors}: reads 200 rows"
    assert re.fullmatch(rf"{vectors}: accuracy [01]\.\d{{3}}", lines[1])
    assert lines[2:5] == [f"{whole}: fold {i} of 3" for i in (1, 2, 3)]
    assert re.fullmatch(rf"{whole}: accuracy [01]\.\d{{3}}", lines[5])
    assert re.fullmatch(rf"({vectors}|{whole}): learns all 200 rows", lines[6]) and len(lines) == 7
    lines = printed.splitlines()
    assert lines[0] == "reviews.csv: 200 texts (review), labels: verdict"
    assert lines[1] == "task: classification, 2 classes"
    assert {line.split()[0] for line in lines[2:4]} == {"good", "bad"}
    assert lines[4] == "180 to learn from, 20 held out (0.1 of each class, seed 1)"
    assert lines[5].endswith("learns with your settings: on folds, then on all rows")
    assert lines[6].startswith("done in ") and lines[7].startswith("learnt by ")
    assert "accuracy 100.0 %" in printed
    assert lines[-2] == "The model is in mine, with a README.md. Next:"
    assert max(map(len, lines)) <= 80 + len(str(model))
    given, _, asked = lines[-1].strip().partition(" | ")
    assert given == "printf 'Your text.\\n'"
    status, printed, _ = run(*shlex.split(asked)[1:], stdin=b"A dull film.\nA great film.\n")
    assert status == 0
    assert [json.loads(line)["label"] for line in printed.splitlines()] == ["bad", "good"]


@pytest.mark.system
def test_how_it_learns_can_be_said(run: Run, model: Path, folder: Path) -> None:
    """And a second run says that it replaces the first."""
    options = ("--label", "verdict", "-m", model, "--epochs", 1, "--learning-rate", 1e-4)
    more = ("--batch-size", 20, "--max-length", 12, "--pooling", "cls")
    status, printed, error = run("fit", "reviews.csv", *options, *more)
    assert status == 0 and reports_alone(error) and "holds a model that fit made" not in printed
    card = Path("mine/README.md").read_text()
    said = (
        "--epochs 1 --learning-rate 0.0001 --batch-size 20 --max-length 12 --pooling cls --seed 1"
    )
    assert said in card
    command = next(line for line in card.splitlines() if line.startswith("roberta-hub fit "))
    status, printed, error = run(*shlex.split(command)[1:])
    assert status == 0 and reports_alone(error)
    note = "note: mine holds a model that fit made before; the new one replaces it"
    assert note in printed.splitlines()


@pytest.mark.system
def test_a_rare_class_gets_the_shells_words(run: Run, model: Path, folder: Path) -> None:
    draw = random.Random(2)
    rows = [("A film.", "ok")] + [
        (f"A film, the {draw.random():.3f}th.", "bad" if draw.random() < 0.1 else "ok")
        for _ in range(160)
    ]
    with open("rare.csv", "w", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *rows])
    options = ("-m", model, "--epochs", 3, "--valid", 0.3)
    status, printed, _ = run("fit", "rare.csv", *options)
    assert status == 0 and "found of each class (recall):" in printed
    words = " ".join(printed.split())
    assert re.search(r"not better than always 'ok' no bad was found \(0 of \d+\)", words)
    assert "--balance finds more of the rare ones" in words and "balance=True" not in words


def test_from_spans_to_a_tagger(run: Run, model: Path, folder: Path) -> None:
    rows = [{"text": f"Ada wrote row {i}.", "spans": [[0, 3, "PER"]]} for i in range(30)]
    rows[4]["spans"] = [[0, 2, "PER"]]
    Path("notes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = ("-m", model, "--epochs", 1, "--output", "my tagger")
    status, printed, error = run("fit", "notes.jsonl", *options)
    assert (status, error) == (0, "")
    lines = printed.splitlines()
    assert lines[:2] == [
        "notes.jsonl: 29 texts, texts with spans (text, spans)",
        "task: tagging, 1 label, 29 spans",
    ]
    said = " ".join(line.strip() for line in lines)
    assert (
        "1 row not learnt, a span that cuts a word: notes.jsonl:5 ([0, 2, 'PER'] in 'Ada')" in said
    )
    assert any(line.startswith("F1 ") for line in lines)
    assert max(map(len, lines)) <= 80 + len(str(model))
    status, printed, _ = run(*shlex.split(lines[-1])[1:])
    assert status == 0 and isinstance(json.loads(printed)["spans"], list)
    status, _, error = run("fit", "notes.jsonl", "-m", model, "--minutes", 1)
    assert status == 1 and "minutes means nothing to a tagger; leave out --minutes" in error


@pytest.mark.system
def test_a_line_for_pairs(run: Run, model: Path, folder: Path) -> None:
    rows = "".join(f"A {i}.,B {i}.,{'yes' if i % 2 else 'no'}\n" for i in range(20))
    Path("pairs.csv").write_text(f'"first, of two",second,label\n{rows}')
    options = ("--text", '"first, of two",second', "-m", model, "--epochs", 1, "-o", "my pairs")
    status, printed, _ = run("fit", "pairs.csv", *options)
    assert status == 0 and printed.startswith("pairs.csv: 20 pairs of texts (first, of two, sec")
    status, printed, _ = run(*shlex.split(printed.splitlines()[-1])[1:])
    assert status == 0 and json.loads(printed)["label"] in ("yes", "no")


@pytest.mark.system
def test_several_labels_of_a_file_without_a_header(run: Run, model: Path, folder: Path) -> None:
    names = ["art", "art|sport", "sport", ""]
    rows = "".join(f"Some words {i}.,{names[i % 4]},{i % 2},{i % 3 % 2}\n" for i in range(24))
    Path("plain.csv").write_text(rows)
    always = ("plain.csv", "--no-header", "-m", model, "--epochs", 1)
    status, printed, _ = run("fit", *always, "--label", "3,4", "-o", "flags")
    assert status == 0 and printed.startswith(
        "plain.csv: 24 texts (1), labels: 3, 4\ntask: multi-l"
    )
    status, printed, _ = run("fit", *always, "--label", "2", "--separator", "|", "-o", "split")
    assert status == 0 and "task: multi-label, 2 labels\n  art " in printed
    card = Path("split/README.md").read_text()
    assert "--label 2 --separator '|' " in card and "--seed 1 --no-header\n" in card


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["reviews.csv", "--label", "verdit"], 1, "no column 'verdit'; did you mean verdict?"),
        (["gone.csv"], 1, "gone.csv: no such file"),
        (["reviews.csv", "--label", "verdict", "--valid", "gone.csv"], 1, "gone.csv: no such"),
        (["reviews.csv", "--valid", "2"], 1, "valid is 2.0; give a share of the rows"),
        (["reviews.csv", "--label", "verdict", "--output", "reviews.csv"], 1, "is a file; name an"),
        (["reviews.csv", "--task", "tags"], 2, "'tags' is not one of 'classification'"),
        (["reviews.csv", "--epochs", "0"], 2, "0 is not in the range"),
        (["reviews.csv", "--batch-size", "0"], 2, "0 is not in the range"),
        (["reviews.csv", "--trials", "0"], 2, "0 is not in the range"),
        (["reviews.csv", "--pooling", "max"], 2, "'max' is not one of 'cls', 'mean'"),
        (["reviews.csv", "--minutes", "0"], 1, "minutes is 0.0; give a number above 0"),
        (["reviews.csv", "--learning-rate", "2"], 1, "learning_rate is 2.0; give a number above"),
        ([], 2, "Missing argument 'TABLE'"),
    ],
)
def test_what_is_wrong(
    run: Run, folder: Path, arguments: list[str], status: int, words: str
) -> None:
    found, printed, error = run("fit", *arguments)
    assert found == status and printed == "" and words in error
    assert sorted(path.name for path in folder.iterdir()) == ["reviews.csv"]


@pytest.mark.system
def test_in_a_terminal_a_bar_and_ctrl_c(model: Path, folder: Path) -> None:
    """The bar has the loss and the time that is left; Ctrl-C ends with 130 and leaves nothing."""
    here, there = pty.openpty()
    fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    command = ["-m", "roberta_hub", "fit", "reviews.csv", "--label", "verdict"]
    process = forks.start(
        *command, "-m", model, "--epochs", 9999, stdout=forks.DEVNULL, stderr=there
    )
    os.close(there)
    seen, deadline = b"", time.monotonic() + 120
    while b"loss" not in seen:
        assert time.monotonic() < deadline and select.select([here], [], [], 120)[0], seen
        seen += os.read(here, 4096)
    assert re.search(rb"\d<\d+:\d\d", seen)  # time gone < time left
    process.send_signal(signal.SIGINT)
    while True:  # until it closes its end
        try:
            seen += os.read(here, 4096)
        except OSError:
            break
    assert process.wait(60) == 130
    assert list(filter(None, seen.decode().splitlines()))[-2:] == [
        "mine was not written",
        "roberta-hub: interrupted",
    ]
    assert sorted(path.name for path in folder.iterdir()) == ["reviews.csv"]


@pytest.mark.system
def test_another_table_leaves_the_model_that_is_there(run: Run, folder: Path) -> None:
    """Who names no folder replaces the model of the same table alone, whose rows come and go."""
    quick = ("--epochs", 1, "--minutes", 0.01)
    rows = (folder / "reviews.csv").read_text().splitlines()
    (folder / "few.csv").write_text("\n".join(rows[:21]) + "\n")
    (folder / "more.csv").write_text("\n".join(rows[:51]) + "\n")
    other = [f"{i},Parcel {i} is {'late' if i % 2 else 'here'}.,{i % 2}" for i in range(30)]
    (folder / "other.csv").write_text("\n".join(["id,review,verdict", *other]) + "\n")
    assert run("fit", "few.csv", "--label", "verdict", *quick)[0] == 0
    before = (folder / "mine/model.safetensors").read_bytes()
    status, _, err = run("fit", "other.csv", "--label", "verdict", *quick)
    assert status == 1 and "mine holds a model that fit made of another table; --output NAME" in err
    assert (folder / "mine/model.safetensors").read_bytes() == before
    status, printed, _ = run("fit", "more.csv", "--label", "verdict", *quick)
    assert status == 0 and "the new one replaces it" in printed
    assert run("fit", "other.csv", "--label", "verdict", "-o", "mine", *quick)[0] == 0

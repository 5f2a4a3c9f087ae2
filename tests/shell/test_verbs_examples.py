"""Every example in the help of every verb runs, in a folder with nothing but what it names.

bash reads each line, so its quotes, pipes and patterns are real. What it calls roberta-hub notes
arguments and standard input, with which the command then runs in this process.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import forks
import pytest
import torch
from checkpoint.archives import pack, regular
from checkpoint.server import Server, body
from families import write_family
from shell.running import Run, runner, write_model
from verification.peers_at_fault import served

import roberta_hub
from roberta_hub.checkpoint.fetch import download, http
from roberta_hub.shell.main import _EXAMPLES, VERBS, verb
from roberta_hub.train.data.learnt_vocabulary import learn_vocabulary

sys.path.insert(0, str(Path(__file__).parents[1] / "checkpoint"))

from hub_server import HubServer, environment

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "tests/data/fairseq/model.pt"
MEMBERS = regular("m/dict.txt", b"a 1\n"), regular("m/model.pt", SAMPLE.read_bytes())
OTHER = ("train", "fit", "verify", "ui", "serve")
"""Verbs whose examples train for minutes, need a server (see the end of this file), or are one."""
STUB = """#!/bin/sh
printf '%s\\0' "$@" > "$CAPTURED/arguments"
cat > "$CAPTURED/stdin"
"""
pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed"),
]


def examples(help: str) -> list[str]:
    """The lines of a help that run the command."""
    lines = help.partition("examples:")[2].split("\n\n")[0].splitlines()
    return [line.strip() for line in lines if "roberta-hub" in line]


def all_examples() -> list[tuple[str, str]]:
    found = [("roberta-hub", line) for line in examples(_EXAMPLES)]
    for name in VERBS:
        if name not in OTHER:
            found += [(name, line) for line in examples(verb(name).epilog or "")]
    return found


@pytest.mark.parametrize("name", [name for name in VERBS if name not in OTHER])
def test_each_verb_has_two_examples_that_call_it(name: str) -> None:
    lines = examples(verb(name).epilog or "")
    assert len(lines) >= 2
    assert all(f"roberta-hub {name}" in line and len(line) <= 78 for line in lines)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the examples name: models that somebody trained, tables, lines, checkpoints."""
    place = tmp_path_factory.mktemp("examples")
    model = write_model(place / "models" / "model")
    here = place / "here"
    here.mkdir()
    for name in ("mine", "newer", "ner", "squad", "race", "reranker"):
        (here / name).symlink_to(model)
    (here / "reviews.csv").write_text(
        'text,stars\n"Good, very good.",5\nLate again.,1\nIt was fine.,5\n'
    )
    (here / "moods.csv").write_text("text,label\nGoal!,sport\nA fine film.,art\n")
    (here / "script.py").write_text("import fairseq\nprint(fairseq.__version__)\n")
    (here / "package").mkdir()
    (here / "package" / "evaluate.py").write_text(
        "from fairseq.data import encoders\nprint('0.12.2')\n"
    )
    (here / "questions.csv").write_text("question,context\nWho wrote it?,Ada wrote it.\n")
    (here / "found.csv").write_text("query,text\nlate delivery,It came a week late.\n")
    for name in ("corpus", "RTE"):
        (here / name).mkdir()
    for name in ("corpus.txt", "reviews.txt", "corpus/one.txt", "held-out.txt"):
        (here / name).write_text("A dog ran.\nGoal!\nThe train was late.\n")
    (here / "pairs.tsv").write_text("a\tb\tlabel\nA dog ran.\tAn animal moved.\tyes\n")
    (here / "RTE/train.tsv").write_text(
        "index\tsentence1\tsentence2\tlabel\n0\tA dog ran.\tIt sat.\tnot_entailment\n"
    )
    roberta_hub.index(here / "reviews.csv", here / "reviews.lance", text="text")
    learn_vocabulary([str(here / "corpus")], here / "my-vocabulary", 300)
    shutil.copy(SAMPLE, here / "model.pt")
    (here / "model.tar.gz").write_bytes(pack(*MEMBERS))
    stub = place / "bin" / "roberta-hub"
    stub.parent.mkdir()
    stub.write_text(STUB)
    stub.chmod(0o755)
    return place


@pytest.fixture(scope="module")
def done() -> set[tuple[object, ...]]:
    """Arguments and standard inputs that have run."""
    return set()


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path) -> Run:
    for name in (download.OFFLINE_ENV, http.MIRROR_ENV, download.ENDPOINT_ENV):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TORCH_HOME", str(folder / "torch"))
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setattr(torch.hub, "_hub_dir", None)
    monkeypatch.chdir(folder / "here")
    return runner(monkeypatch, capsys)


def read_by_bash(line: str, folder: Path) -> tuple[list[str], bytes]:
    """The arguments and the standard input that bash gives the command."""
    captured = folder / "captured"
    captured.mkdir(exist_ok=True)
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(
        ["bash", "-c", line],
        cwd=folder / "here",
        env={**os.environ, "PATH": path, "CAPTURED": str(captured)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=30,
    )
    arguments = (captured / "arguments").read_bytes().decode().split("\0")[:-1]
    return arguments, (captured / "stdin").read_bytes()


def of_the_help(start: str) -> list[str]:
    """The arguments of the first example that begins so."""
    line = next(line for _, line in all_examples() if line.startswith(f"roberta-hub {start}"))
    return shlex.split(line)[1:]


def test_what_can_be_pasted_answers_well(run: Run) -> None:
    """Who tries the first line of the help sees what the model is good at."""

    def answer(start: str) -> Any:
        status, out, err = run(*of_the_help(start), "-f", "jsonl")
        assert status == 0, err
        return [json.loads(line) for line in out.splitlines()]

    for start in ("zero-shot", 'zero-shot "I was charged twice." --labels billing,delivery,praise'):
        (found,) = answer(start)
        assert found["label"] == "billing" and found["score"] > 0.85
    (found,) = answer("fill-mask")
    assert found["words"][0]["word"] == "University" and found["words"][0]["score"] > 0.6
    (found,) = answer('fill-mask "It was')
    assert [word["word"] for word in found["words"]] == ["good", "bad"]
    (found,) = answer("classify --pair")
    assert found["label"] == "entailment" and found["score"] > 0.7
    good, bad = answer("score")
    assert good["score"] > bad["score"] + 10


@pytest.mark.parametrize(("name", "line"), all_examples(), ids=lambda value: value)
def test_it_runs(
    name: str,
    line: str,
    run: Run,
    folder: Path,
    done: set[tuple[object, ...]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arguments, stdin = read_by_bash(line, folder)
    assert arguments and arguments[0] in VERBS
    if arguments[0] == "export" and "torch" not in arguments:
        pytest.importorskip("onnxscript", reason="no onnxscript; pip install '.[onnx]'")
    if (*arguments, stdin) in done:  # as one that pipes the same elsewhere
        return
    done.add((*arguments, stdin))
    if arguments[0] == "run":  # it makes the process the script's
        ended = forks.run("-m", "roberta_hub", *arguments, cwd=folder / "here")
        assert (ended.returncode, ended.stdout) == (0, "0.12.2\n"), ended.stderr
        return
    if names := [argument for argument in arguments if argument.startswith("deepset/")]:
        pytest.importorskip("huggingface_hub")
        ended = fetched_by_name(arguments, names, folder)
        assert ended.returncode == 0 and ended.stdout, ended.stderr
        return
    with Server() as server:  # stands for the publisher
        for model in ("roberta.base", "roberta.large"):
            server.plan[f"/{model}.tar.gz"] = [body(pack(*MEMBERS))]
        monkeypatch.setenv(http.MIRROR_ENV, server.url)
        status, out, err = run(*arguments, stdin=stdin)
    if arguments[0] == "doctor":
        assert status in (0, 1)  # what it finds on this machine
        return
    assert status == 0, (shlex.join(arguments), err)
    if "-o" in arguments:
        target = folder / "here" / arguments[arguments.index("-o") + 1]
        assert target.stat().st_size and (arguments[0] == "index" or not out)
    elif arguments[0] not in ("convert", "preprocess", "vocabulary"):  # which write folders
        assert out


def fetched_by_name(arguments: list[str], names: list[str], folder: Path) -> Any:
    """Run a command with a hub that has models of these names."""
    model = folder / "bert"
    if not model.exists():
        write_family("bert", model)
    with HubServer() as hub, Server() as publisher:
        publisher.plan["/roberta.base.tar.gz"] = [body(pack(*MEMBERS))]
        for name in names:
            hub.publish(name, model)
        env = environment(folder, hub, **{http.MIRROR_ENV: publisher.url})
        return forks.run("-m", "roberta_hub", *arguments, cwd=folder / "here", env=env)


@pytest.mark.parametrize("line", examples(verb("fit").epilog or ""))
def test_fit_runs_on_a_small_model(line: str, run: Run, folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    arguments, _ = read_by_bash(line, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        moods = ("good", "bad")
        rows = [f"Film {i} was {moods[i % 2]}.,{moods[i % 2]}\n" for i in range(40)]
        Path("reviews.csv").write_text("text,label\n" + "".join(rows))
        pairs = [f"A {i}.\tB {i}.\t{moods[i % 2]}\n" for i in range(40)]
        Path("pairs.tsv").write_text("premise\thypothesis\tlabel\n" + "".join(pairs))
        notes = [{"text": f"Ada saw film {i}.", "spans": [[0, 3, "PER"]]} for i in range(40)]
        Path("notes.jsonl").write_text("".join(json.dumps(note) + "\n" for note in notes))
        model = folder / "models" / "model"
        status, _, err = run(*arguments, "--epochs", "1", "--model", model)
        assert status == 0, err
        if "notes.jsonl" in arguments:
            status, out, _ = run("tag", "-m", "tagger", "Ada sings.")
            assert status == 0 and isinstance(json.loads(out), (dict, list))
            return
        written = "entails" if "--output" in arguments else "mine"
        pair = ("--pair", "a", "b") if written == "entails" else ("a",)
        status, out, _ = run("classify", "-m", written, *pair)
        assert status == 0 and json.loads(out)["label"] in moods


def test_train_knows_all_that_its_examples_set() -> None:
    pytest.importorskip("hydra")
    from roberta_hub.train.config import compose
    from roberta_hub.train.usage import usage

    lines = usage().partition("examples:")[2].replace("\\\n", " ").strip().splitlines()
    assert len(lines) >= 2
    for line in lines:
        _, _, settings = line.partition(" train ")
        compose(shlex.split(settings))


@pytest.mark.parametrize("line", examples(verb("verify").epilog or ""))
def test_verify_runs_on_what_it_names(line: str, run: Run, folder: Path) -> None:
    pytest.importorskip("onnxscript", reason="no onnxscript; pip install '.[onnx]'")
    arguments, _ = read_by_bash(line, folder)
    mine = roberta_hub.load_model("mine")
    if "http" not in line:
        mine.export("mine-onnx")
        status, out, err = run(*arguments)
    else:

        def answer(texts: list[str], normalize: bool) -> list[list[float]]:
            found: list[list[float]] = mine.features(texts, pooling="mean", truncate=True).tolist()
            return found

        with served(answer) as root:
            there = [part.replace("http://localhost:8080", root) for part in arguments]
            status, out, err = run(*there)
    assert status == 0 and "as mine does: the same" in out, (out, err)

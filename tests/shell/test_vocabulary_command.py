"""`roberta-hub vocabulary`: your own language in two commands, whole or not there at all."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from running import Run, runner

from roberta_hub.train.vocabularies import read_vocabulary

GREEK = """Η γάτα κοιμάται στον ήλιο, και ο σκύλος την κοιτάζει.
Ο ήλιος ανατέλλει το πρωί και δύει το βράδυ.

Η μητέρα διαβάζει ένα βιβλίο, και το παιδί ακούει.
Το παιδί πηγαίνει στο σχολείο: 12 παιδιά, 120 βιβλία.
"""
COMMAND = [sys.executable, "-m", "roberta_hub", "vocabulary"]
FILES = [
    "dict.txt", "encoder.json", "merges.txt", "tokenizer.json", "tokenizer_config.json",
    "vocab.bpe", "vocab.json", "vocabulary.json",
]  # fmt: skip


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text(GREEK * 2, encoding="utf-8")
    return runner(monkeypatch, capsys)


@pytest.mark.system
def test_two_commands_make_a_model(run: Run, tmp_path: Path) -> None:
    status, printed, error = run("vocabulary", "a.txt", "--size", "330", "--output", "mine")
    assert (status, printed) == (0, "")
    tokens = 2 * sum(
        len(ids) - 2
        for ids in read_vocabulary("mine").encode_batch([x for x in GREEK.splitlines() if x])
    )
    assert error == f"mine: 330 symbols of 8 lines, {tokens} tokens\n"
    assert sorted(os.listdir(tmp_path / "mine")) == FILES
    status, _, error = run(
        "train", "pretrain=tiny", "data.vocabulary=mine", "data.train=a.txt", "output=run",
        "architecture.num_layers=1", "loop.max_updates=1", "task.options.block_size=16",
        "loop.precision=no",
    )  # fmt: skip
    assert status == 0, error
    assert "the vocabulary is that of mine, 330 symbols" in error
    asked = ("tokens", "η γάτα", "-f", "jsonl")
    assert run(*asked, "-m", "run/last")[1] == run(*asked, "-m", "mine")[1]
    status, _, error = run("preprocess", "a.txt", "--vocabulary", "mine", "--output", "bin")
    assert status == 0
    assert error.startswith("bin: train 10 lines, ")


def test_tokens_shows_bytes_blanks_and_special_words(run: Run) -> None:
    assert run("vocabulary", "a.txt", "--size", "330", "--output", "mine")[0] == 0
    found = {}
    for text in ("το παιδί", "  x\t", "<mask>", "日"):
        status, printed, _ = run("tokens", "-m", "mine", "-f", "jsonl", "--", text)
        assert status == 0
        found[text] = json.loads(printed)["tokens"][1:-1]
    assert found["το παιδί"] == ["ÏĦÎ¿", "ĠÏĢÎ±Î¹Î´Î¯"]  # pieces, a blank is Ġ
    assert found["  x\t"] == ["Ġ", "Ġ", "x", "ĉ"]
    assert found["<mask>"] == ["<", "m", "a", "s", "k", ">"]  # a text cannot write a special id
    assert found["日"] == ["æ", "Ĺ", "¥"]  # its three bytes: nothing is unknown


def test_what_cannot_be_learnt_is_said(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("\n")
    (tmp_path / "bad.txt").write_bytes(b"a\n\xff\n")
    said = {
        ("a.txt", "--size", "200"): "a vocabulary of 200 has no room for a merge",
        ("empty.txt",): "empty.txt: there is no text in it",
        ("bad.txt",): "bad.txt:2: not UTF-8",
        ("none.txt",): "none.txt: no such file",
    }
    for words, sentence in said.items():
        status, _, error = run("vocabulary", *words, "-o", "mine")
        assert (status, sentence in error) == (1, True), (words, error)
        assert not list(tmp_path.glob("*mine*"))
    status, _, error = run("vocabulary", "a.txt", "--size", "50000", "-o", "mine")
    assert status == 0
    assert "fewer than 50,000, as no other pair of pieces is there 2 times" in error
    assert "is there already" in run("vocabulary", "a.txt", "-o", "mine")[2]
    status, _, error = run("fill-mask", "-m", "mine", "το <mask>")
    assert status == 1
    assert "a vocabulary without a model; `roberta-hub tokens -m mine` shows" in error


MEASURED = """
import os, subprocess, sys
_, status, usage = os.wait4(subprocess.Popen(sys.argv[1:]).pid, 0)
print(usage.ru_maxrss)
sys.exit(status != 0)
"""
"""Runs a command and prints its peak in KiB. A child's peak begins at its parent's size, so that
the parent has to be small."""


@pytest.mark.system
def test_a_process_writes_it_and_its_memory_does_not_grow_with_the_text(tmp_path: Path) -> None:
    peaks = []
    for times in (25_000, 100_000):  # 10 MB, which fill all buffers, and 40 MB
        (tmp_path / "a.txt").write_text(GREEK * times, encoding="utf-8")
        target = tmp_path / f"of-{times}"
        words = [*COMMAND, str(tmp_path / "a.txt"), "--size", "300", "-o", str(target)]
        ran = subprocess.run([sys.executable, "-c", MEASURED, *words], capture_output=True)
        assert ran.returncode == 0, ran.stderr
        peaks.append(int(ran.stdout.split()[-1]) / 1024)
        assert sorted(os.listdir(target)) == FILES
    assert peaks[1] - peaks[0] < 25, peaks  # MB


@pytest.mark.system
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_process_leaves_no_folder(tmp_path: Path, number: int) -> None:
    (tmp_path / "a.txt").write_text(GREEK * 60_000, encoding="utf-8")
    words = [*COMMAND, "a.txt", "--size", "300", "-o", "mine"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, cwd=tmp_path)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob(".incomplete-mine*")) and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.5)
    process.send_signal(number)
    assert process.wait(20) == (130 if number == signal.SIGINT else -signal.SIGKILL)
    assert not (tmp_path / "mine").exists()
    if number == signal.SIGINT:
        assert os.listdir(tmp_path) == ["a.txt"]
    (tmp_path / "a.txt").write_text(GREEK * 2, encoding="utf-8")
    assert subprocess.run(words, cwd=tmp_path, capture_output=True).returncode == 0
    assert sorted(os.listdir(tmp_path)) == ["a.txt", "mine"]

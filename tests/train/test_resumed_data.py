"""A run that was killed goes on over the data that it began with, or says that they are others."""

from __future__ import annotations

import os
import re
import shutil
import signal
import time
from pathlib import Path

import forks
import pytest
import torch
from test_state import assert_same, numbers

from roberta_hub.checkpoint.safetensors import read_safetensors
from roberta_hub.errors import InputError
from roberta_hub.text.tokenizer import Tokenizer
from roberta_hub.train import train
from roberta_hub.train.config import compose
from roberta_hub.train.loop.state import find_state

pytestmark = pytest.mark.system

ROWS = [
    (f"The {animal} {verb} in the {place}.", "calm" if verb == "sleeps" else "loud")
    for animal in ("dog", "cat", "cow", "duck")
    for verb in ("sleeps", "barks", "sings")
    for place in ("house", "garden", "street")
]
DIGESTS = re.compile(r"digest of the (\w+) data was '([0-9a-f]{32})' and is now '([0-9a-f]{32})'")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "OMP_NUM_THREADS": "1"}


def table(path: Path, rows: list[tuple[str, str]]) -> Path:
    path.write_text("".join(f"{text}\t{label}\n" for text, label in [("text", "mood"), *rows]))
    return path


def settings(base: Path, folder: Path, *more: str) -> list[str]:
    return [
        "finetune=sst_2",
        f"model={base}",
        f"data.train={folder / 'train.tsv'}",
        f"data.valid={folder / 'valid.tsv'}",
        "data.format=tsv",
        "data.columns={sentence: text, label: mood}",
        "optimizer.total_updates=400",
        "optimizer.warmup_updates=2",
        "batch.batch_size=4",
        "loop.max_updates=400",
        "loop.max_epochs=null",
        "loop.progress=false",
        "loop.evaluate_every=100",
        "loop.save_every=2",
        *more,
    ]


def kill(output: Path, *arguments: str) -> None:
    """Start a run, and kill it once it has written a state."""
    command = ["-m", "roberta_hub", "train", *arguments, f"output={output}"]
    streams = {"stdout": forks.PIPE, "stderr": forks.STDOUT}
    with forks.start(*command, **streams, env=ENVIRONMENT) as process:
        until = time.monotonic() + 120
        while process.poll() is None and find_state(output) is None and time.monotonic() < until:
            time.sleep(0.005)
        time.sleep(0.05)
        process.kill()
        assert process.wait() == -signal.SIGKILL, process.stdout and process.stdout.read()
    assert find_state(output) is not None


def go_on(output: Path, *arguments: str) -> tuple[int, str]:
    command = ["-m", "roberta_hub", "train", *arguments, f"output={output}"]
    done = forks.run(*command, env=ENVIRONMENT)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr


@pytest.fixture(scope="module")
def killed(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a killed run, and the two tables that it began with."""
    folder = tmp_path_factory.mktemp("killed")
    table(folder / "train.tsv", ROWS)
    table(folder / "valid.tsv", ROWS[::3])
    kill(folder / "run", *settings(base, folder))
    return folder


def exchanged_labels(rows: list[tuple[str, str]]) -> list[tuple[str, str]]:
    other = {"calm": "loud", "loud": "calm"}
    return [(text, other[label]) for text, label in rows]


def swapped_rows(rows: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [rows[1], rows[0], *rows[2:]]


def another_word(rows: list[tuple[str, str]]) -> list[tuple[str, str]]:
    text = rows[0][0].replace("dog", "cat")
    tokenizer = Tokenizer.shipped()
    assert len(tokenizer.encode(text)) == len(tokenizer.encode(rows[0][0]))
    return [(text, rows[0][1]), *rows[1:]]


def another_row(rows: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [*rows, ("The horse sleeps.", "calm")]


CHANGES = [
    ("train", exchanged_labels),
    ("train", swapped_rows),
    ("train", another_word),
    ("train", another_row),
    ("valid", exchanged_labels),
    ("valid", swapped_rows),
]


@pytest.mark.parametrize(("which", "change"), CHANGES)
def test_changed_rows_are_refused(base, killed, tmp_path, which, change):
    shutil.copytree(killed, tmp_path, dirs_exist_ok=True)
    rows = ROWS if which == "train" else ROWS[::3]
    table(tmp_path / f"{which}.tsv", change(rows))
    before = numbers_of_state(tmp_path / "run")
    status, said = go_on(tmp_path / "run", *settings(base, tmp_path))
    assert status == 1 and "belongs to another run" in said, said
    found = DIGESTS.search(said)
    assert found is not None, said
    assert found[1] == {"train": "training", "valid": "validation"}[which]
    assert found[2] != found[3]
    assert_same(before, numbers_of_state(tmp_path / "run"))
    # The rows as they were: the run goes on.
    table(tmp_path / f"{which}.tsv", rows)
    status, said = go_on(tmp_path / "run", *settings(base, tmp_path, "loop.max_minutes=0"))
    assert status == 0, said


def numbers_of_state(output: Path) -> dict[str, torch.Tensor]:
    state = find_state(output)
    assert state is not None
    return {k: v.clone() for k, v in read_safetensors(state / "weights.safetensors").items()}


def test_the_same_rows_under_other_names_go_on_bit_for_bit(base, killed, tmp_path):
    shutil.copytree(killed, tmp_path, dirs_exist_ok=True)
    names = {"train": tmp_path / "old" / "rows.tsv", "valid": tmp_path / "rows to judge by.tsv"}
    names["train"].parent.mkdir()
    for name, path in names.items():
        (tmp_path / f"{name}.tsv").rename(path)
    more = [f"data.{name}={path}" for name, path in names.items()]
    few = "loop.max_updates=60"
    status, said = go_on(tmp_path / "run", *settings(base, tmp_path, *more, few))
    assert status == 0, said
    status, said = go_on(tmp_path / "whole", *settings(base, killed, few))
    assert status == 0, said
    for one, other in zip(numbers(tmp_path / "run"), numbers(tmp_path / "whole"), strict=True):
        assert_same(one, other)


CORPUS = "The sun rises in the east.\nIt sets in the west.\n\nThe moon is far.\nIt is cold there.\n"


def corpus_settings(base: Path, text: Path, *more: str) -> list[str]:
    return [
        "pretrain=base",
        f"model={base}",
        "pretrained=true",
        f"data.train={text}",
        f"data.valid={text}",
        "task.options={block_size: 16}",
        "optimizer.total_updates=200",
        "optimizer.warmup_updates=2",
        "batch.max_tokens=64",
        "batch.update_freq=1",
        "loop.max_updates=60",
        "loop.max_epochs=null",
        "loop.progress=false",
        "loop.evaluate_every=0",
        "loop.save_every=2",
        "loop.precision='no'",
        *more,
    ]


def test_another_corpus_is_refused(base, tmp_path):
    text, other = tmp_path / "corpus.txt", tmp_path / "other.txt"
    text.write_text(CORPUS * 20)
    other.write_text(CORPUS.replace("far", "old") * 20)
    output = tmp_path / "run"
    kill(output, *corpus_settings(base, text))
    status, said = go_on(output, *corpus_settings(base, other))
    assert status == 1 and [found[0] for found in DIGESTS.findall(said)] == [
        "training",
        "validation",
    ], said
    # Other text under the same name, and the same text under another name.
    text.rename(tmp_path / "moved.txt")
    other.rename(text)
    status, said = go_on(output, *corpus_settings(base, text))
    assert status == 1 and DIGESTS.search(said), said
    status, said = go_on(output, *corpus_settings(base, tmp_path / "moved.txt"))
    assert status == 0, said


def test_side_tasks_know_their_data_too(base, tmp_path):
    table(tmp_path / "train.tsv", ROWS)
    table(tmp_path / "valid.tsv", ROWS[::3])
    text = tmp_path / "corpus.txt"
    text.write_text(CORPUS * 20)
    more = ["task.options={rehearse: '%s'}", "loop.evaluate_every=0"]
    own = [more[0] % text, more[1]]
    output = tmp_path / "run"
    kill(output, *settings(base, tmp_path, *own))
    (tmp_path / "old.txt").write_text(text.read_text())
    text.write_text(CORPUS.replace("far", "old") * 20)
    status, said = go_on(output, *settings(base, tmp_path, *own))
    assert status == 1 and "digest of the training data of side task 1 was" in said, said
    moved = [more[0] % (tmp_path / "old.txt"), more[1]]
    status, said = go_on(output, *settings(base, tmp_path, *moved, "loop.max_minutes=0"))
    assert status == 0, said


def test_a_run_of_before_digests_goes_on_with_a_note(base, killed, tmp_path):
    shutil.copytree(killed, tmp_path, dirs_exist_ok=True)
    path = find_state(tmp_path / "run") / "run.pt"
    rest = torch.load(path, weights_only=True)
    digests = [name for name in rest["identity"] if name.startswith("digest of")]
    assert len(digests) == 2
    for name in digests:
        rest["identity"].pop(name)
    torch.save(rest, path)
    few = "loop.max_updates=40"
    status, said = go_on(tmp_path / "run", *settings(base, tmp_path, few))
    assert status == 0 and "note: " in said and "keeps no digest of its data" in said, said
    status, said = go_on(tmp_path / "run", *settings(base, tmp_path, few))
    assert status == 0 and "keeps no digest" not in said  # the state is of this version now
    table(tmp_path / "train.tsv", exchanged_labels(ROWS))
    with pytest.raises(InputError, match="digest of the training data was"):
        train(compose([*settings(base, tmp_path, few), f"output={tmp_path / 'run'}"]))

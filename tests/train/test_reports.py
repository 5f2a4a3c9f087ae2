"""A run says what it does: lines of a logger in a library, on stderr in the command."""

import logging
import re
from pathlib import Path

import forks
import pytest
from learning import tsv
from toy import ToyTask, config

from roberta_hub.train import reports
from roberta_hub.train.loop.training_loop import train_loop
from roberta_hub.train.reports import Messages

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.system
def test_the_command_reports_on_stderr(base, tmp_path):
    rows = [["a fine film", "good"], ["a dull film", "bad"], ["great fun", "good"]] * 4
    path = tsv(tmp_path / "x.tsv", ["sentence", "label"], rows)
    found = forks.run(
        "-m",
        "roberta_hub",
        "train",
        "finetune=sst_2",
        f"model={base}",
        f"data.train={path}",
        f"data.valid={path}",
        "data.format=tsv",
        f"output={tmp_path}/run",
        "optimizer.total_updates=null",
        "batch.batch_size=4",
        "optimizer.warmup_updates=2",
        "loop.max_updates=6",
        "loop.evaluate_every=3",
        "loop.log_every=3",
    )
    assert found.returncode == 0, found.stderr
    for words in (
        r"labels of 12 examples: good 8, bad 4",
        rf"training {base}, [\d,]+ parameters, on 12 examples, [\d,]+ tokens an epoch",
        rf"6 updates, 3 an epoch, 2 of warm-up; everything is written into {tmp_path}/run",
        r"update 3 of 6, epoch \d: loss [\d.]+, learning rate \S+, [\d,]+ tokens/s, \d+ s left",
        r"evaluated after update 3: accuracy .*; the best so far, kept in .*/run/best",
        r"saved .*/run/state-000000006",
        r"stopped after update 6, all updates are done \(max_updates\)",
    ):
        assert re.search(rf"^\d\d:\d\d:\d\d {words}", found.stderr, re.MULTILINE), found.stderr
    assert found.stdout.startswith("stopped after update 6 (max_updates): ")
    assert "tokens/s" not in found.stdout and "evaluated" not in found.stdout


def test_a_library_says_nothing_unless_asked(tmp_path, capfd, caplog):
    train_loop(ToyTask(), config(tmp_path / "quiet", loop__max_updates=5))
    assert capfd.readouterr() == ("", "")
    assert not logging.getLogger("roberta_hub").handlers
    caplog.set_level(logging.INFO, "roberta_hub")
    train_loop(ToyTask(), config(tmp_path / "asked", loop__max_updates=12))
    text = caplog.text
    for words in ("on 96 examples", "update 5 of 12", "evaluated after update 12", "stopped after"):
        assert words in text, text
    assert "update 10 of 12" not in text  # half a minute has not passed


def test_a_resumed_run_says_where_it_goes_on(tmp_path, caplog):
    train_loop(ToyTask(), config(tmp_path, loop__max_updates=5, optimizer__total_updates=10))
    caplog.set_level(logging.INFO, "roberta_hub")
    train_loop(ToyTask(), config(tmp_path, loop__max_updates=10, optimizer__total_updates=10))
    assert "10 updates, 5 of them done" in caplog.text


def test_lines_come_by_the_clock_and_know_the_time_left(tmp_path, caplog, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(reports.time, "monotonic", lambda: now[0])
    caplog.set_level(logging.INFO, "roberta_hub")
    messages = Messages(tmp_path, 0, 1000)
    for update in range(1, 101):
        now[0] += 1.0
        row = {"update": update, "epoch": 0, "loss": 1.0, "lr": 1e-5, "tokens_per_second": 9.0}
        messages.updated(row)
    assert [m.split(" of ")[0] for m in caplog.messages] == [
        "update 1",
        "update 31",
        "update 61",
        "update 91",
    ]
    assert caplog.messages[1].endswith("9 tokens/s, 16 min 09 s left")


def test_the_epoch_is_that_of_the_update(tmp_path, caplog, monkeypatch):
    """The last update of an epoch is of it, and not of the next."""
    monkeypatch.setattr(reports, "MESSAGE_SECONDS", -1.0)
    caplog.set_level(logging.INFO, "roberta_hub")
    train_loop(
        ToyTask(), config(tmp_path, loop__max_updates=None, loop__max_epochs=2, loop__log_every=1)
    )
    epochs = re.findall(r"update \d+ of \d+, epoch (\d+)", caplog.text)
    assert epochs and epochs == ["1"] * (len(epochs) // 2) + ["2"] * (len(epochs) // 2)


def test_where_a_bar_is_shown_the_line_is_not_doubled(tmp_path, caplog, capfd):
    caplog.set_level(logging.INFO, "roberta_hub")
    train_loop(ToyTask(), config(tmp_path, loop__progress=True, loop__max_updates=12))
    assert "tokens/s" not in caplog.text and "evaluated after update 12" in caplog.text
    assert "tokens/s" in capfd.readouterr().err


@pytest.mark.parametrize("rank", ["0", "1"])
def test_only_the_first_process_speaks(monkeypatch, rank):
    monkeypatch.setenv("RANK", rank)
    assert reports.first_process() == (rank == "0")

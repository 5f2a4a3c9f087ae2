"""`updates` trains in memory, and so does `fit`: no file is written where nobody asked for one."""

from __future__ import annotations

import signal
from pathlib import Path

import forks
import pytest
import torch
from toy import ToyTask, config

from roberta_hub.train.loop.training_loop import train_loop
from roberta_hub.train.loop.updates import updates

FIT = """
import os, resource, sys, tempfile, roberta_hub
tempfile.tempdir = os.getcwd()
resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
texts = [f"The {('dog', 'cat')[i % 2]} in {i}." for i in range(40)]
rows = [{"text": text, "label": text[4:7]} for text in texts]
options = {"model": sys.argv[1], "epochs": 1, "progress": False}
print(roberta_hub.fit(rows, **options).classify("The cat in 3.").label)
spans = [{"text": row["text"], "label": [[4, 7, row["label"]]]} for row in rows]
print(type(roberta_hub.fit(spans, **options).tag("The cat in 3.")).__name__)
"""


@pytest.mark.system
@pytest.mark.skipif(not hasattr(signal, "SIGXFSZ"), reason="there is no limit of a file's size")
def test_fit_without_an_output_may_write_no_file(base: Path, tmp_path: Path) -> None:
    """A classifier with its folds, and a tagger, where a file may have no byte."""
    ran = forks.run("-c", FIT, base, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    label, answer = ran.stdout.split()
    assert label in ("cat", "dog") and answer
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


FULL = """
import resource, sys, roberta_hub
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
rows = [{"text": f"The {word} in {i}.", "label": word} for i in range(9) for word in ("cat", "dog")]
try:
    roberta_hub.fit(rows, model=sys.argv[1], output="mine", epochs=1, progress=False)
except roberta_hub.RobertaHubError as error:
    print(error)
"""


@pytest.mark.system
@pytest.mark.skipif(not hasattr(signal, "SIGXFSZ"), reason="there is no limit of a file's size")
def test_a_model_that_the_disk_does_not_take_leaves_nothing(base: Path, tmp_path: Path) -> None:
    ran = forks.run("-c", FULL, base, cwd=tmp_path)
    assert ran.stdout.startswith("mine: cannot be written (File too large); "), ran.stderr
    assert "name another folder with output=" in ran.stdout and not (tmp_path / "mine").exists()


def test_the_weights_are_those_of_a_run_with_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    one, other = ToyTask(dropout=0.2), ToyTask(dropout=0.2)
    updates(one, config("no folder"))
    assert not list((tmp_path / "here").iterdir()) and not one.evaluations
    train_loop(other, config(tmp_path / "run"))
    ours, theirs = one.module.state_dict(), other.module.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_after_an_update(number: int) -> None:
    class Interrupted(ToyTask):
        batches = 0

        def batch(self, indices, epoch):  # type: ignore[no-untyped-def]
            self.batches += 1
            if self.batches == 3:
                signal.raise_signal(number)
            return super().batch(indices, epoch)

    task, before = Interrupted(), signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt):
        updates(task, config("no folder"))
    assert task.batches == 3 and signal.getsignal(number) is before
    assert "forward" not in vars(task.module)  # nothing of accelerate's stays

"""An index whose maker is killed at any moment holds each row once when the same call ends."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("lancedb")

from indexed import rows_of, sentences, write_csv

import roberta_hub
from roberta_hub.errors import InputError
from roberta_hub.indexing import parts, store

pytestmark = pytest.mark.system
ROWS = 400
DRIVE = """
import json, sys
from roberta_hub import index
from roberta_hub.scale import processes
from roberta_hub.scale.work import do_unit
processes.run_units = lambda job, units, schedule: (do_unit(job, unit) for unit in units)
source, target, model = json.loads(sys.argv[1])
print("BEGUN", flush=True)
index(source, target, key="id", model=model, unit_rows=50)
"""


def drive(source: Path, target: Path, model: Path) -> subprocess.Popen[str]:
    given = json.dumps([str(source), str(target), str(model)])
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVE, given], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "BEGUN\n"
    return process


def test_killed_by_the_clock(tmp_path: Path, encoder: Path) -> None:
    texts = sentences(ROWS)
    source, target = write_csv(tmp_path / "in.csv", texts), tmp_path / "t.lance"
    began = time.monotonic()
    assert drive(source, tmp_path / "undisturbed.lance", encoder).wait() == 0
    whole = time.monotonic() - began
    draw = random.Random(0)
    for _ in range(3):
        process = drive(source, target, encoder)
        time.sleep(draw.uniform(0, whole))
        process.kill()
        process.wait()
    assert drive(source, target, encoder).wait() == 0
    assert rows_of(target) == [(str(n), text) for n, text in enumerate(texts)]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "in.csv",
        "t.lance",
        "undisturbed.lance",
    ]


class Killed(BaseException):
    """In place of a kill, at one exact moment."""


MOMENTS = {
    "before the commit": (store.Store, "take", False),
    "behind the commit": (store.Store, "take", True),
    "before the files are noted": (store.Store, "note_taken", False),
    "behind it": (store.Store, "note_taken", True),
    "before the indices": (store.Store, "build", False),
    "in the middle of the clearing": (parts.Parts, "_remove", True),
}


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("key", ["id", None])
@pytest.mark.usefixtures("_in_process")
def test_killed_at_each_step(
    tmp_path: Path, encoder: Path, monkeypatch: pytest.MonkeyPatch, moment: str, key: str | None
) -> None:
    owner, name, behind = MOMENTS[moment]
    whole = getattr(owner, name)

    def dies(*given: object) -> None:
        if behind:
            whole(*given)
        raise Killed

    first = write_csv(tmp_path / "a.csv", sentences(60))
    second = write_csv(tmp_path / "b.csv", sentences(30, seed=1), first=60)
    target = tmp_path / "t.lance"
    for source in (first, second):
        with monkeypatch.context() as broken:
            broken.setattr(owner, name, dies)
            with pytest.raises(Killed):
                roberta_hub.index(source, target, key=key, model=encoder, unit_rows=20)
        roberta_hub.index(source, target, key=key, model=encoder, unit_rows=20)
        assert not target.with_name("t.lance.units").exists()
    texts = [*sentences(60), *sentences(30, seed=1)]
    assert rows_of(target) == [(str(n), text) for n, text in enumerate(texts)]
    numbers = roberta_hub.open_index(target).table.to_arrow()["_number"].to_pylist()
    assert sorted(numbers) == list(range(90))


@pytest.mark.usefixtures("_in_process")
def test_another_source_does_not_take_what_was_begun(
    tmp_path: Path, encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = write_csv(tmp_path / "a.csv", sentences(60))
    second = write_csv(tmp_path / "b.csv", sentences(30, seed=1), first=60)
    target = tmp_path / "t.lance"

    def dies(*given: object) -> None:
        raise Killed

    with monkeypatch.context() as broken:
        broken.setattr(store.Store, "take", dies)
        with pytest.raises(Killed):
            roberta_hub.index(first, target, model=encoder)
    with pytest.raises(InputError, match=r"t\.lance\.units was begun with another source"):
        roberta_hub.index(second, target, model=encoder)


def test_two_writers_of_one_index(tmp_path: Path, encoder: Path) -> None:
    from filelock import FileLock

    source = write_csv(tmp_path / "in.csv", ["a dog"])
    with (
        FileLock(tmp_path / "t.lance.lock"),
        pytest.raises(InputError, match="another process writes this index"),
    ):
        roberta_hub.index(source, tmp_path / "t.lance", model=encoder)

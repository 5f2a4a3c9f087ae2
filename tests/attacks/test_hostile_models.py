"""A hostile SentencePiece file is answered with a sentence: no signal, little memory, no wait."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import forks
import pytest

pytest.importorskip("sentencepiece")
pytest.importorskip("resource")

from attacks.hostile_models import FALSE

TESTS = Path(__file__).resolve().parents[1]


def child(*arguments: str) -> list[dict[str, Any]]:
    """What a process of its own says; a signal ends the test."""
    paths = [str(TESTS), str(TESTS.parent), os.environ.get("PYTHONPATH", "")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    done = forks.run("-m", "attacks.hostile_models", *arguments, env=env, timeout=3000)
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.system
def test_false_files_are_refused_in_a_sentence(tmp_path: Path) -> None:
    paths = []
    for i, (data, _) in enumerate(FALSE.values()):
        paths.append(tmp_path / f"{i}.model")
        paths[-1].write_bytes(data)
    huge = tmp_path / "huge.model"
    with open(huge, "wb") as file:
        file.truncate(100 << 30)
    *reports, last = child("files", *map(str, paths), str(huge))
    assert "the limit" in last["says"] and last["megabytes"] < 300
    for (name, (_, reason)), path, report in zip(FALSE.items(), paths, reports, strict=True):
        assert re.search(reason, report["says"]), (name, report["says"])
        assert str(path) in report["says"], name
        assert report["megabytes"] < 300 and report["seconds"] < 5, (name, report)


def check_mutants(count: int, seed: int, folder: Path) -> None:
    (report,) = child("mutants", str(count), str(seed), str(folder / "last.model"))
    assert 0 < report["accepted"] < count, report
    assert report["slowest"] < 10, report


@pytest.mark.system
def test_mutated_files_never_end_the_process(tmp_path: Path) -> None:
    check_mutants(300, 0, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_ten_thousand_mutated_files(tmp_path: Path) -> None:
    for seed in range(1, 11):
        check_mutants(1000, seed, tmp_path)

"""Every hostile file harms a naive reader, and ours says in a sentence why it will not read it."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from attacks.bench import GIGABYTE, HARMS, MARKER, Attack, harms, run

LARGE = {
    "pickles: deep lists",
    "pickles: ten million values",
    "zips: a bomb of 1 GB as pickle",
    "dictionaries: two million symbols and more",
    "dictionaries: one symbol overwritten many times",
    "configs: index: a million shards",
    "configs: ours: a thousand layers",
    "configs: tokenizer: a million merges",
}
"""Attacks whose files take seconds to write or to refuse."""
TABLES = ("pickles", "zips", "tars", "tensors", "dictionaries", "configs")


def case(table: str, attack: Attack) -> Any:
    """An attack as a parameter of a test, named by its table and its name."""
    name = f"{table}: {attack.name}"
    return pytest.param(attack, id=name, marks=[pytest.mark.system] if name in LARGE else [])


ATTACKS = [
    case(table, attack)
    for table in TABLES
    for attack in importlib.import_module(f"attacks.{table}").ATTACKS
]
HARMFUL = [case for case in ATTACKS if isinstance(case.values[0], Attack) and case.values[0].naive]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits and forks of Linux")


def laid_out(attack: Attack, home: Path) -> tuple[Path, Path]:
    """Make the files of an attack; return what to load and where the marker would appear."""
    folder = home / "files"
    folder.mkdir()
    return attack.make(folder), home / MARKER


def seen(folder: Path) -> dict[str, int]:
    """Files that are not in the reader's own cache, with their sizes."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    found = {path.relative_to(folder).as_posix(): path.stat().st_size for path in files}
    return {name: size for name, size in found.items() if not name.startswith("cache/")}


@pytest.mark.parametrize("attack", ATTACKS)
def test_ours_refuses(attack: Attack, tmp_path: Path) -> None:
    path, marker = laid_out(attack, tmp_path)
    before = seen(tmp_path)
    ran = run("ours", path, tmp_path, seconds=10, room=3 * GIGABYTE)
    assert ran.end == "refused", ran
    assert re.search(attack.reason, ran.says), ran.says
    assert ran.grown < GIGABYTE, f"{ran.grown >> 20} MB"
    assert not marker.exists()
    assert seen(tmp_path) == before, "files appeared"


@pytest.mark.system
@pytest.mark.parametrize("attack", HARMFUL)
def test_a_naive_reader_is_harmed(attack: Attack, tmp_path: Path) -> None:
    """Else the attack is none, and the test above proves nothing."""
    if attack.name == "deep dicts" and sys.version_info >= (3, 12):
        pytest.skip("from Python 3.12 on the naive reader survives them")
    expected = set(attack.harm.split(" or "))
    assert expected <= set(HARMS)
    path, marker = laid_out(attack, tmp_path)
    seconds = 1 if "hangs" in expected else 30
    ran = run(attack.naive, path, tmp_path, seconds=seconds, room=GIGABYTE)
    assert harms(ran, marker, GIGABYTE) & expected, ran


def test_every_fault_of_files_is_attacked() -> None:
    """Rows of the fault table from archives to dictionaries; row 34, CRLF, is a good file."""
    rows = {case.values[0].row for case in ATTACKS if isinstance(case.values[0], Attack)}
    assert rows >= set(range(17, 38)) - {34}
    names = [case.id for case in ATTACKS]
    assert len(set(names)) == len(names)
    assert set(names) >= LARGE

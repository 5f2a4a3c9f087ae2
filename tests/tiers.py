"""Three tiers of tests; tests/conftest.py takes this file's hooks.

    unit      in process, tiny models, tenths of a second: `make test`, minutes
    system    processes, kills, exports, training, and what takes seconds: `make test-system`
    parity    other libraries at length: `make test-parity`

A file says its tier by `pytestmark = pytest.mark.system`, a single test by `@pytest.mark.system`;
what says nothing is `unit`. A `unit` test starts no Python but the forks of tests/forks.py. A run
of one tier imports no file of another.
"""

from __future__ import annotations

import multiprocessing.util
import re
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import forks
import pytest

TIERS = ("unit", "system", "parity")
TIERS_OF = pytest.StashKey[dict[str, list[str]]]()
"""The tiers of every test that was collected, before any is left out."""
FORKS = ("os.fork", "os.forkpty")
PROGRAMS = ("subprocess.Popen", "os.system", "os.posix_spawn", "os.exec")
"""Audit events of a new process; a program that is no Python takes no time worth a tier."""
OF_A_FILE = re.compile(r"^pytestmark = (?:\[[^]]*?)?pytest\.mark\.(unit|system|parity)\b", re.M)
_unit = False
"""Whether a test of this tier runs just now."""


def tier_of_file(path: Path) -> str | None:
    """Return the tier that a file has as a whole; None: its tests may have several."""
    found = OF_A_FILE.search(path.read_text(encoding="utf-8"))
    return found[1] if found else None


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files of other tiers: with them each worker collects `unit` four seconds longer."""
    asked = re.match(r"(unit|system|parity)( and not \w+)*$", config.option.markexpr)
    if asked is None or not collection_path.match("test_*.py"):
        return None
    return True if tier_of_file(collection_path) not in (None, asked[1]) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if not any(item.get_closest_marker(tier) for tier in TIERS):
            item.add_marker("unit")
    config.stash[TIERS_OF] = {
        item.nodeid: [tier for tier in TIERS if item.get_closest_marker(tier)] for item in items
    }


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    global _unit
    _unit = item.get_closest_marker("unit") is not None
    try:
        return (yield)
    finally:
        _unit = False


def _watch(event: str, arguments: tuple[object, ...]) -> None:
    if not _unit or event not in FORKS + PROGRAMS or forks.starting.is_set():
        return
    if event in FORKS or re.search("python|roberta-hub", str(arguments[:2])):
        pytest.fail(
            f"a test of the tier `unit` starts a process ({event}): use tests/forks.py, "
            "or mark the test with pytest.mark.system"
        )


def _spawn(*arguments: Any) -> Any:
    """What multiprocessing's spawn calls, which no audit event tells of."""
    _watch("os.posix_spawn", arguments)
    return _spawned(*arguments)


sys.addaudithook(_watch)
_spawned, multiprocessing.util.spawnv_passfds = multiprocessing.util.spawnv_passfds, _spawn

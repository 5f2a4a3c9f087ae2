"""Every test is of one tier, and what is of the quickest starts no process."""

from __future__ import annotations

import multiprocessing
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import forks
import pytest
from tiers import TIERS_OF, pytest_ignore_collect, tier_of_file

ROOT = Path(__file__).resolve().parents[2]


def test_every_test_is_of_one_tier(request: pytest.FixtureRequest) -> None:
    found = request.config.stash[TIERS_OF]
    assert found[request.node.nodeid] == ["unit"]
    assert {test: tiers for test, tiers in found.items() if len(tiers) != 1} == {}
    # Two workers of pytest-xdist give up where their tests have other names.
    assert [test for test in found if re.search(" at 0x[0-9a-f]{9}", test)] == []


def test_a_file_of_one_tier_has_no_test_of_another() -> None:
    """A run of one tier does not collect it, and so the test above does not see it."""
    whole = {path: tier_of_file(path) for path in (ROOT / "tests").rglob("test_*.py")}
    assert {"system", "parity"} <= {*whole.values()}
    marks = re.compile(r"@pytest\.mark\.(unit|system|parity)\b|marks=.*mark\.(unit|system|parity)")
    files = [path for path, tier in whole.items() if tier is not None]
    assert [path for path in files if marks.search(path.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize(
    ("asked", "found"),
    [("unit and not slow and not network", ["unit", "any"]), ("system", ["system", "any"])]
    + [(every, ["unit", "system", "any"]) for every in ("not network", "unit or system", "")],
)
def test_a_run_of_one_tier_collects_no_file_of_another(
    asked: str, found: list[str], tmp_path: Path
) -> None:
    marks = {"unit": "pytest.mark.unit", "system": "[\n    pytest.mark.system,\n]", "any": "[]"}
    config = SimpleNamespace(option=SimpleNamespace(markexpr=asked))
    for name, mark in marks.items():
        (tmp_path / f"test_{name}.py").write_text(f"import pytest\n\npytestmark = {mark}\n")
    kept = [n for n in marks if not pytest_ignore_collect(tmp_path / f"test_{n}.py", config)]  # type: ignore[arg-type]
    assert kept == found


def forked() -> None:
    if os.fork() == 0:
        os._exit(0)


@pytest.mark.parametrize(
    "start",
    [
        lambda: subprocess.run([sys.executable, "-c", ""]),
        lambda: os.system(f"{sys.executable} --version"),
        lambda: multiprocessing.get_context("spawn").Process(target=print).start(),
        lambda: multiprocessing.get_context("fork").Process(target=print).start(),
        forked,
    ],
    ids=["subprocess", "os.system", "spawn", "fork", "os.fork"],
)
def test_a_unit_test_that_starts_a_process_fails(start: Callable[[], object]) -> None:
    with pytest.raises(pytest.fail.Exception, match=r"use tests/forks\.py, or mark"):
        start()


def test_ci_runs_every_tier() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    said = (ROOT / ".ci/run").read_text(encoding="utf-8").split("\n")
    for target, tier in (("test", "unit"), ("test-system", "system"), ("test-parity", "parity")):
        assert f"make {target}" in said
        recipe = makefile.partition(f"\n{target}:")[2].partition("\n\n")[0]
        assert f'-m "{tier} and not slow and not network"' in recipe


def test_no_two_files_outside_of_packages_share_a_name() -> None:
    """pytest would import one of them in the other's place."""
    files = [path for path in (ROOT / "tests").rglob("*.py") if path.name != "conftest.py"]
    alone = [path.name for path in files if not (path.parent / "__init__.py").exists()]
    assert [name for name, count in Counter(alone).items() if count > 1] == []


# ---- forks ----


def test_a_fork_is_a_process_of_its_own(tmp_path: Path) -> None:
    code = (
        "import os, sys\n"
        "print(sys.argv, os.getcwd(), os.environ['WHO'], sys.stdin.read(), __name__)\n"
        "print('wrong', file=sys.stderr)\n"
        "sys.exit(3)\n"
    )
    env = {**os.environ, "WHO": "me"}
    done = forks.run("-c", code, "a", 1, cwd=tmp_path, env=env, input="given")
    assert done.stdout == f"['-c', 'a', '1'] {tmp_path} me given __main__\n"
    assert (done.stderr, done.returncode) == ("wrong\n", 3)
    assert "WHO" not in os.environ


def test_how_a_fork_ends() -> None:
    assert forks.run("-c", "import os; os.kill(os.getpid(), 9)").returncode == -9
    done = forks.run("-c", "import atexit; atexit.register(print, 'last'); 1 / 0")
    assert (done.returncode, done.stdout) == (1, "last\n")
    assert done.stderr.endswith("ZeroDivisionError: division by zero\n")
    done = forks.run("-c", "raise SystemExit('why')")
    assert (done.returncode, done.stderr) == (1, "why\n")
    with pytest.raises(subprocess.TimeoutExpired):
        forks.run("-c", "import time; time.sleep(60)", timeout=0.1)


def test_a_fork_is_told_and_asked(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import time; print(input(), flush=True); time.sleep(60)")
    pipes = {"stdin": forks.PIPE, "stdout": forks.PIPE, "stderr": forks.STDOUT}
    with forks.start(tmp_path / "script.py", **pipes) as process:
        assert process.poll() is None
        process.stdin.write("there\n")
        process.stdin.flush()
        assert process.stdout.readline() == "there\n"
        process.send_signal(2)
        assert "KeyboardInterrupt" in process.stdout.read()
        assert process.wait(60) == process.poll() == -2


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="no /proc")
def test_the_server_has_one_thread() -> None:
    """Another would be missing in each fork, and what it held would stay locked."""
    code = "import os; print(len(os.listdir(f'/proc/{os.getppid()}/task')))"
    assert forks.run("-c", code).stdout == "1\n"


def test_forks_know_nothing_of_each_other() -> None:
    assert forks.run("-c", "import torch; torch.left = 1; print(torch.get_num_threads())").stdout
    done = forks.run("-c", "import torch; print(hasattr(torch, 'left'))", check=True)
    assert done.stdout == "False\n"

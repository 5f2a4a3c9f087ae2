"""What every test may ask for, and what is told of a run."""

import datetime
import os
import platform
import random
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import hypothesis
import pytest

sys.path.insert(0, str(Path(__file__).parent))

import masked_cpu
from tiers import (  # noqa: F401
    pytest_collection_modifyitems,
    pytest_ignore_collect,
    pytest_runtest_protocol,
)

# The same examples in every run; and no deadline, which a busy machine would miss.
hypothesis.settings.register_profile("same", derandomize=True, deadline=None)
hypothesis.settings.load_profile("same")

ROOT = Path(__file__).resolve().parents[1]

masked_cpu.mask_as_told()  # here, before the conftest of a folder imports torch


def shared_folder() -> Path | None:
    """The folder of oracles and training data, beside some checkouts and in no repository."""
    places = [os.environ.get("ROBERTA_HUB_SHARED"), ROOT.parent / "shared"]
    return next((Path(place) for place in places if place and Path(place).is_dir()), None)


@pytest.fixture(scope="session")
def shared() -> Path:
    folder = shared_folder()
    if folder is None:
        pytest.skip(
            "no $ROBERTA_HUB_SHARED and no ../shared: original vocabulary tables and real text"
        )
    return folder


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """What a test draws without a seed of its own is the same in any order and selection."""
    random.seed(0)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(0)
    if (torch := sys.modules.get("torch")) is not None:
        torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or fills the cache of the person who runs it."""
    monkeypatch.setenv("TORCH_HOME", str(tmp_path_factory.getbasetemp() / "torch_home"))
    monkeypatch.delenv("PYTORCH_FAIRSEQ_CACHE", raising=False)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--result", type=Path, help="write what was run, and how it went, to this file"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[STARTED] = time.time()


STARTED = pytest.StashKey[float]()
PEERS = ("torch", "fairseq", "transformers", "tiktoken", "safetensors", "spacy")


def versions() -> str:
    found = [f"Python {platform.python_version()}"]
    for name in PEERS:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"no {name}")
    return ", ".join(found)


def write_result(reporter: pytest.TerminalReporter, path: Path, reasons: list[str]) -> None:
    """A page for the repository: when, where, what, and the slowest."""
    git = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    commit = subprocess.run(git, capture_output=True, text=True).stdout.strip() or "no repository"
    counts = {name: len(reporter.stats.get(name, [])) for name in ("passed", "failed", "error")}
    ran = [report for name in counts for report in reporter.stats.get(name, [])]
    slowest = sorted(ran, key=lambda report: -report.duration)[:10]
    minutes = (time.time() - reporter.config.stash[STARTED]) / 60
    lines = [
        "# The last `make test-full`",
        "",
        f"{datetime.date.today()}, commit {commit}; {versions()}; {platform.machine()}, "
        f"{os.cpu_count()} cores.",
        "",
        ", ".join(f"{count} {name}" for name, count in counts.items())
        + f", {len(reporter.stats.get('skipped', []))} skipped, in {minutes:.0f} minutes.",
        *(f"- {reason}" for reason in reasons),
        "",
        "| slowest | seconds |",
        "|---|--:|",
        *(f"| `{report.nodeid}` | {report.duration:.0f} |" for report in slowest),
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    deselected = len(terminalreporter.stats.get("deselected", []))
    reasons = sorted(
        {report.longrepr[2] for report in skipped if isinstance(report.longrepr, tuple)}
    )
    if (path := terminalreporter.config.getoption("--result")) is not None:
        write_result(terminalreporter, path, reasons)
    if skipped or deselected:
        terminalreporter.section("not run")
        terminalreporter.write_line(f"{len(skipped)} skipped, {deselected} not of this selection")
        for reason in reasons:
            terminalreporter.write_line(f"  {reason}")

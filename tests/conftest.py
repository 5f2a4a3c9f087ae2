"""What every test may ask for."""

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))


def shared_folder() -> Path | None:
    """The folder of oracles and training data, which is beside some checkouts and in no repository."""
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
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or fills the cache of the person who runs it."""
    monkeypatch.setenv("TORCH_HOME", str(tmp_path_factory.getbasetemp() / "torch_home"))
    monkeypatch.delenv("PYTORCH_FAIRSEQ_CACHE", raising=False)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    deselected = len(terminalreporter.stats.get("deselected", []))
    if skipped or deselected:
        terminalreporter.section("not run")
        reasons = sorted(
            {report.longrepr[2] for report in skipped if isinstance(report.longrepr, tuple)}
        )
        terminalreporter.write_line(f"{len(skipped)} skipped, {deselected} left for make test-full")
        for reason in reasons:
            terminalreporter.write_line(f"  {reason}")

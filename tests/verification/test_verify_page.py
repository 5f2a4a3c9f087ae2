"""The jobs of the guides `verify` and `compare` run, command by command."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml
from scripts import TOOLS, load_script

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / f"docs/guides/{name}.md" for name in ("verify", "compare")]
pytestmark = pytest.mark.system


def commands_of_the_job(page: Path) -> list[str]:
    text = page.read_text(encoding="utf-8")
    (block,) = re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (job,) = yaml.safe_load(block)["jobs"].values()
    return [step["run"] for step in job["steps"]]


def test_the_jobs_run(tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    commands = [command for page in PAGES for command in commands_of_the_job(page)]
    assert len(commands) == 3
    (tmp_path / "work").mkdir()
    rows = "".join(f"{i} dogs ran.,{'ab'[i % 2]}\n" for i in range(12))
    (tmp_path / "work/rows.csv").write_text(f"text,kind\n{rows}")
    summary = tmp_path / "summary.md"
    environment = load_script(TOOLS / "answers.py").from_source(tmp_path)
    for command in commands:
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", command],
            cwd=tmp_path / "work",
            env={**environment, "GITHUB_STEP_SUMMARY": str(summary), "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert "**the same ids and hidden states**" in summary.read_text()
    assert (tmp_path / "work/compared.json").read_text().startswith("{")

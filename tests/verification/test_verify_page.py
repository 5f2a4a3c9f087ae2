"""The job of docs/guides/verify.md runs, command by command, beside the table that it names."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml
from scripts import TOOLS, load_script

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/guides/verify.md").read_text(encoding="utf-8")
pytestmark = pytest.mark.system


def test_the_job_runs(tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    (block,) = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (job,) = yaml.safe_load(block)["jobs"].values()
    commands = [step["run"] for step in job["steps"]]
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
    assert "**the same**" in summary.read_text()
    assert (tmp_path / "work/compared.json").read_text().startswith("{")

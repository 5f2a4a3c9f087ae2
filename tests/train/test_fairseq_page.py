"""The blocks of docs/guides/fairseq_data.md, typed one after the other in an empty folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/guides/fairseq_data.md").read_text("utf-8")


@pytest.mark.system
@pytest.mark.timeout(600)
def test_the_page_runs_as_typed(tmp_path: Path) -> None:
    blocks = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.M | re.S)
    assert len(blocks) == 4
    command = tmp_path / "bin/roberta-hub"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m roberta_hub "$@"\n')
    command.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
    }
    (tmp_path / "work").mkdir()
    done = subprocess.run(
        ["bash", "-e", "-c", "\n".join(blocks)],
        cwd=tmp_path / "work",
        env=environment,
        capture_output=True,
        text=True,
        timeout=540,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "pairs-bin: train 2 examples; valid 2 examples" in done.stderr
    assert "stopped after update 2 (max_updates)" in done.stdout
    assert done.stdout.splitlines()[-2:] == ["checkpoint_last.pt", "dict.txt"]

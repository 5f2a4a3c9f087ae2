"""`tests/safety/audit.py` end to end on three quick rows.

So the table can be made again tomorrow.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from parity.peers import needs_fairseq, needs_transformers

pytestmark = pytest.mark.system

ROOT = Path(__file__).resolve().parents[2]
ROWS = "5,8,18"


@needs_fairseq
@needs_transformers
@pytest.mark.skipif(sys.platform != "linux", reason="limits and forks of Linux")
def test_three_rows(tmp_path: Path) -> None:
    command = [
        sys.executable,
        ROOT / "tests" / "safety" / "audit.py",
        "--rows",
        ROWS,
        "--out",
        tmp_path,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    table = (tmp_path / "safety-part.md").read_text(encoding="utf-8")
    assert [
        line.split("|")[1].strip()
        for line in table.splitlines()
        if line.startswith(("| 5 ", "| 8 ", "| 18 "))
    ] == ROWS.split(",")
    assert f"python tests/safety/audit.py --rows {ROWS}" in table
    result = json.loads((tmp_path / "safety-part.json").read_text(encoding="utf-8"))
    assert {"torch", "fairseq", "transformers", "huggingface_hub", "roberta_hub"} <= set(
        result["versions"]
    )
    grades = {(case["row"], case["engine"], case["grade"]) for case in result["cases"]}
    assert {grade for row, engine, grade in grades if engine == "roberta_hub"} == {"safe"}
    assert (18, "fairseq", "harmed") in grades, "a control: the attack works on who is not careful"
    assert (5, "fairseq", "wrong") in grades
    assert not [grade for *_, grade in grades if grade == "broken"]

"""The recipes of docs/guides/cluster.md run as they stand, each where its engine is installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from engines import ROOT, interpreter, surroundings

from roberta_hub import RobertaHubInterface, load_model

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

PAGE = (ROOT / "docs/guides/cluster.md").read_text(encoding="utf-8")
BLOCKS = dict(re.findall(r"^### (.+?)$.*?^```\w+\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
ENGINES = {
    "Ray Data": ("ray_data", "ray"),
    "Daft": ("daft", "daft"),
    "Spark": ("spark", "pyspark"),
}
ROWS, UNKNOWN = 60, 17
pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    rows = [
        {"id": n, "premise": f"A dog ran {n} miles.", "hypothesis": f"Animal {n % 7} moved."}
        for n in range(ROWS)
    ]
    rows[UNKNOWN]["premise"] = None
    return rows


@pytest.fixture(scope="module")
def roberta() -> RobertaHubInterface:
    return load_model("roberta.tiny").eval()


@pytest.fixture
def folder(rows: list[dict[str, Any]], tmp_path: Path) -> Path:
    (tmp_path / "pairs").mkdir()
    for k in range(2):
        half = rows[k * ROWS // 2 : (k + 1) * ROWS // 2]
        pq.write_table(pa.Table.from_pylist(half), tmp_path / "pairs" / f"{k}.parquet")
    return tmp_path


def check(folder: Path, rows: list[dict[str, Any]], roberta: RobertaHubInterface) -> None:
    """Every row once, answered as a plain call answers it."""
    files = sorted(folder.joinpath("answers").glob("*.parquet"))
    found = {row["id"]: row for file in files for row in pq.read_table(file).to_pylist()}
    assert sum(pq.read_metadata(file).num_rows for file in files) == len(found) == ROWS
    asked = [row for row in rows if row["id"] != UNKNOWN]
    plain = roberta.classify([(row["premise"], row["hypothesis"]) for row in asked])
    for row, wanted in zip(asked, plain, strict=True):
        assert found[row["id"]]["label"] == wanted.label
        assert found[row["id"]]["score"] == pytest.approx(wanted.score, abs=1e-6)
    assert found[UNKNOWN]["label"] is found[UNKNOWN]["score"] is None


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_a_recipe_answers_as_a_plain_call(
    engine: str, folder: Path, rows: list[dict[str, Any]], roberta: RobertaHubInterface
) -> None:
    python = interpreter(*ENGINES[engine])
    if engine == "Spark" and shutil.which("java") is None:
        pytest.skip("no Java here")
    (folder / "recipe.py").write_text(BLOCKS[engine], encoding="utf-8")
    more = {"PYSPARK_PYTHON": python, "SPARK_LOCAL_IP": "127.0.0.1"}
    ran = subprocess.run(
        [python, "recipe.py"],
        cwd=folder,
        env=surroundings(**more),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout[-3000:]
    check(folder, rows, roberta)


def test_the_script_of_a_slurm_array_runs(
    folder: Path, rows: list[dict[str, Any]], roberta: RobertaHubInterface
) -> None:
    """Without Slurm, by its variables; one task is killed before it began, and is started again."""
    script = folder / "array.sh"
    script.write_text(BLOCKS["A Slurm array"], encoding="utf-8")
    count = 2
    line = re.search(r"#SBATCH --array=1-(\d+)", script.read_text())
    assert line is not None and int(line[1]) >= count
    command = folder / "bin" / "roberta-hub"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m roberta_hub "$@"\n')
    command.chmod(0o755)
    path = f"{command.parent}{os.pathsep}{os.environ['PATH']}"
    for task in (2, 1):
        variables = {"SLURM_ARRAY_TASK_ID": str(task), "SLURM_ARRAY_TASK_COUNT": str(count)}
        ran = subprocess.run(
            ["bash", str(script)],
            cwd=folder,
            env=surroundings(**variables, PATH=path),
            capture_output=True,
            text=True,
        )
        # The first file has a row without a premise, which the last line names.
        assert ran.returncode == (1 if task == 1 else 0), ran.stderr
        assert ("nothing in the column 'premise'" in ran.stderr) is (task == 1)
        names = sorted(path.name for path in (folder / "answers").iterdir())
        assert sum(name.startswith("part-") for name in names) == (1 if task == 2 else 2)
        assert ("_SUCCESS" in names) is (task == 1)
    check(folder, rows, roberta)

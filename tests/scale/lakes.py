"""What the tests of lakes share: a small model, pairs in files of three formats, a driver."""

from __future__ import annotations

import csv
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from small_models import small_roberta

HERE = Path(__file__).resolve().parent
WORDS = [
    "a",
    "dog",
    "ran",
    "fast",
    "and",
    "some",
    "animal",
    "slept",
    "while",
    "two",
    "old",
    "men",
    "sang",
    "of",
    "rain",
    "or",
    "snow",
]
TEXT = ("premise", "hypothesis")


def write_model(folder: Path, seed: int = 0) -> Path:
    """A model of two layers, 32 wide, with a head of each kind."""
    heads = {"mnli": 3, "race": 1}
    labels = {"mnli": ("contradiction", "neutral", "entailment")}
    roberta = small_roberta(seed, heads=heads, labels=labels, num_layers=2)
    roberta.register_token_head("ner", labels=["O", "B-PER", "I-PER"])
    roberta.register_span_head("squad")
    roberta.default_head = "mnli"
    roberta.save(folder)
    return folder


def sentence(draw: random.Random, most: int = 12) -> str:
    return " ".join(draw.choices(WORDS, k=draw.randint(1, most)))


def pairs(rows: int, seed: int = 0) -> list[dict[str, Any]]:
    draw = random.Random(seed)
    return [{"id": n, "premise": sentence(draw), "hypothesis": sentence(draw)} for n in range(rows)]


def write_rows(path: Path, rows: list[dict[str, Any]], group: int = 64) -> Path:
    """Rows as a file of the format that its name says."""
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=group)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        with open(path, "w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    return path


def read_lake(target: Path) -> list[dict[str, Any]]:
    """All rows of a lake, in the order of its units."""
    return [row for path in parts(target) for row in pq.read_table(path).to_pylist()]


def parts(target: Path) -> list[Path]:
    return sorted(target.glob("part-*.parquet"))


def bytes_of(target: Path) -> dict[str, bytes]:
    left = [path.name for path in target.iterdir() if path.name.endswith(".tmp")]
    assert not left, left
    return {path.name: path.read_bytes() for path in parts(target)}


def drive(**told: Any) -> subprocess.Popen[str]:
    """Start a driver of its own, which prints a REPORT; see drive.py."""
    from engines import surroundings

    told = {name: str(value) if isinstance(value, Path) else value for name, value in told.items()}
    return subprocess.Popen(
        [sys.executable, str(HERE / "drive.py"), json.dumps(told)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=surroundings(),
    )


def report_of(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, err = process.communicate()
    lines = [line for line in out.splitlines() if line.startswith("REPORT ")]
    assert lines, out + err
    found: dict[str, Any] = json.loads(lines[-1].removeprefix("REPORT "))
    return found


def until(true: Callable[[], Any], seconds: float = 300) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := true():
            return found
        time.sleep(0.02)
    raise AssertionError(f"not within {seconds} s")

"""Small samples of our own writing, and the way a person trains on them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import roberta_hub
from roberta_hub import RobertaHubInterface
from roberta_hub.train.config import compose
from roberta_hub.train.run import result, run

ANIMALS = {"cat": "meows", "dog": "barks", "cow": "moos", "duck": "quacks"}


def learn(
    base: Path, folder: Path, recipe: str, files: Sequence[Path], *more: str, updates: int = 60
) -> tuple[RobertaHubInterface, dict[str, float]]:
    """Train as a command line would: the model that is left, and its last evaluation's numbers."""
    train, valid = files
    settings = [
        f"finetune={recipe}",
        f"model={base}",
        f"data.train={train}",
        f"data.valid={valid}",
        f"output={folder}/run",
        "optimizer.lr=1e-2",
        "optimizer.total_updates=null",
        "optimizer.warmup_updates=4",
        "optimizer.clip_norm=1.0",
        "batch.batch_size=16",
        "batch.update_freq=1",
        f"loop.max_updates={updates}",
        "loop.max_epochs=null",
        f"loop.evaluate_every={updates}",
        "loop.progress=false",
        *more,
    ]
    report = run(compose(settings))
    return result(report).eval(), report.metrics


def tsv(path: Path, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> Path:
    path.write_text("\n".join("\t".join(map(str, row)) for row in [header, *rows]) + "\n")
    return path


def jsonl(path: Path, rows: Sequence[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def parquet(path: Path, rows: list[dict[str, Any]]) -> Path:
    arrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet").write_table(arrow.Table.from_pylist(rows), path)
    return path


def table(path: Path, rows: list[dict[str, Any]]) -> Path:
    """A table of the kind that the name ends with."""
    if path.suffix == ".tsv":
        return tsv(path, list(rows[0]), [list(row.values()) for row in rows])
    return {".jsonl": jsonl, ".parquet": parquet}[path.suffix](path, rows)


def two(
    make: Callable[[random.Random], Any],
    folder: Path,
    suffix: str,
    write: Callable[[Path, list[Any]], Path],
    counts: Sequence[int] = (160, 40),
) -> list[Path]:
    """A training and a held-out set of different draws."""
    draw = random.Random(1)
    return [
        write(folder / f"{name}.{suffix}", [make(draw) for _ in range(count)])
        for name, count in zip(("train", "valid"), counts, strict=True)
    ]


def both(roberta: RobertaHubInterface, folder: Path) -> list[RobertaHubInterface]:
    """A model, and what is loaded again after it was saved."""
    roberta.save(folder / "saved")
    return [roberta, roberta_hub.load_model(folder / "saved").eval()]


def left(folder: Path) -> list[str]:
    """What lies in a folder, but for the empty one that torch makes where temporary files go.

    torch's optimizers make it in every program, when the first of them is used.
    """
    names = sorted(path.name for path in folder.iterdir())
    torchs = [name for name in names if name.startswith("torchinductor_")]
    assert not any(any((folder / name).iterdir()) for name in torchs)
    return [name for name in names if name not in torchs]

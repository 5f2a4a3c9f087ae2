"""Makes lakes of short pairs for the benchmarks, and watches what processes take."""

from __future__ import annotations

import csv
import lzma
import os
import random
import threading
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("ROBERTA_HUB_SHARED", ROOT.parent / "shared"))
TRAIN = SHARED / "data/nli/train.tsv.xz"
TOKENS = 16
"""Most tokens of a sentence."""
LOOKED_AT = 60_000
"""Pairs of the training table whose sentences are drawn from."""
GROUP = 16_384
"""Rows of a row group of the source."""


def sentences() -> tuple[list[str], list[str]]:
    """Real premises and hypotheses of at most `TOKENS` tokens each."""
    from roberta_hub.text.tokenizer import Tokenizer

    if not TRAIN.exists():
        raise SystemExit(f"{TRAIN} is not there; $ROBERTA_HUB_SHARED names its folder")
    with lzma.open(TRAIN, "rt", encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        real = [(row["premise"], row["hypothesis"]) for row in islice(rows, LOOKED_AT)]
    tokenizer = Tokenizer.shipped()
    short = []
    for texts in zip(*real, strict=True):
        several = list(dict.fromkeys(texts))
        ids = tokenizer.encode_batch(several)
        short.append([t for t, i in zip(several, ids, strict=True) if len(i) <= TOKENS + 2])
    return short[0], short[1]


def write_pairs(path: Path, rows: int, seed: int = 0) -> None:
    """Recombine real sentences to so many pairs."""
    premises, hypotheses = sentences()
    draw = random.Random(seed)
    fresh = path.with_suffix(".new")
    schema = pa.schema([("id", pa.int64()), ("premise", pa.string()), ("hypothesis", pa.string())])
    with pq.ParquetWriter(fresh, schema) as writer:
        for start in range(0, rows, GROUP):
            count = min(GROUP, rows - start)
            columns = {
                "id": range(start, start + count),
                "premise": draw.choices(premises, k=count),
                "hypothesis": draw.choices(hypotheses, k=count),
            }
            table = {name: list(column) for name, column in columns.items()}
            writer.write_table(pa.table(table, schema=schema))
    fresh.replace(path)


class Watch:
    """Samples CPU seconds and memory of a process and all below it."""

    def __init__(self, pid: int, every: float = 0.5) -> None:
        self.cpu: dict[tuple[int, float], float] = {}
        """CPU seconds by process, the last that were seen of those that ended."""
        self.resident: dict[tuple[int, float], list[tuple[float, int]]] = {}
        """(time, bytes) by process; shared pages count in each."""
        self._root, self._every = psutil.Process(pid), every
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(self._every):
            for process in self._family():
                try:
                    who = (process.pid, process.create_time())
                    times = process.cpu_times()
                    self.cpu[who] = times.user + times.system
                    size = process.memory_info().rss
                except psutil.Error:
                    continue
                self.resident.setdefault(who, []).append((time.time(), size))

    def _family(self) -> Iterator[psutil.Process]:
        try:
            yield self._root
            yield from self._root.children(recursive=True)
        except psutil.Error:
            return

    def stop(self) -> dict[str, Any]:
        """End; tell CPU seconds, and the peak of the largest process, in MB."""
        self._stop.set()
        self._thread.join()
        peaks = [max(size for _, size in seen) for seen in self.resident.values()]
        return {"cpu": sum(self.cpu.values()), "peak": max(peaks, default=0) / 1e6}

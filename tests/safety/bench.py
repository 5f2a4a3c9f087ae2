"""A helper process for each engine, which imports it once and forks for every case."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from .case import STOCK, Outcome, Place

TESTS = Path(__file__).resolve().parents[1]


class Bench:
    """Runs the cases of one engine, one after the other."""

    def __init__(self, engine: str, server: str) -> None:
        self.engine = engine
        paths = [str(TESTS), str(TESTS / "checkpoint"), str(TESTS.parent)]
        quiet = {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_DISABLE_XET": "1"}
        quiet |= {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
        # A pool of threads would not survive the forks.
        threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        kept = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
        found = {"PYTHONPATH": os.pathsep.join(paths), "HF_ENDPOINT": server}
        self._helper = subprocess.Popen(
            [sys.executable, "-m", "safety.helper", engine],
            env={**kept, **quiet, **threads, **found},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, row: int, name: str, place: Place, engine: str = STOCK) -> Outcome:
        """Run one case; `engine` tells both fairseqs apart, which share a helper."""
        order = {"row": row, "name": name, "engine": engine}
        order |= {key: str(value) for key, value in vars(place).items()}
        return Outcome(**self._ask(order))

    def version(self) -> dict[str, str]:
        return self._ask({"row": "version"})

    def _ask(self, order: dict[str, Any]) -> dict[str, Any]:
        assert self._helper.stdin is not None and self._helper.stdout is not None
        self._helper.stdin.write(json.dumps(order) + "\n")
        self._helper.stdin.flush()
        answer = self._helper.stdout.readline()
        if not answer:
            raise RuntimeError(f"the helper of {self.engine} ended, exit {self._helper.wait()}")
        return dict(json.loads(answer))

    def close(self) -> None:
        assert self._helper.stdin is not None
        self._helper.stdin.close()
        self._helper.wait(60)

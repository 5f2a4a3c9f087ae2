"""Finds interpreters that have other engines, and runs their programs beside a test."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from interpreters import interpreter as interpreter

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def surroundings(**more: str) -> dict[str, str]:
    """What programs of tests find in their environment: this checkout, one thread, no network."""
    paths = [str(ROOT), str(HERE), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "OMP_NUM_THREADS": "1",
        "ROBERTA_HUB_OFFLINE": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_AUTH_MODE": "disabled",  # else Ray writes a token into the home folder
        "DO_NOT_TRACK": "true",  # Daft's statistics
        "AWS_EC2_METADATA_DISABLED": "true",
        **more,
    }


@contextmanager
def helper(python: str, script: str, log: Path) -> Iterator[Any]:
    """Run a helper that prints JSON when it is ready, and ends when its input does."""
    with open(log, "w") as errors:
        process = subprocess.Popen(
            [python, str(HERE / script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=surroundings(),
        )
        try:
            ready = process.stdout.readline()
            if not ready:
                process.wait(60)
                pytest.fail(f"{script} did not start: {log.read_text()[-3000:]}")
            yield json.loads(ready)
        finally:
            process.stdin.close()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

"""Runs `roberta-hub serve` as a process, and asks it as clients do."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import requests

ASK = requests.Session()
ASK.trust_env = False  # no proxy between this machine and itself
KEY = "ROBERTA_HUB_API_KEY"


def start(*arguments: str, **variables: str) -> subprocess.Popen[str]:
    """Start the command with these arguments, and no key unless the variables have one."""
    command = [sys.executable, "-m", "roberta_hub", "serve", "--port", "0", *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", KEY: "", **variables}
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )


@contextmanager
def served(*arguments: str, **variables: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Serve a model: (its address without the last slash, the process)."""
    with start(*arguments, **variables) as process:
        try:
            assert process.stdout is not None and process.stderr is not None
            address = process.stdout.readline().strip()
            assert address.startswith("http://127.0.0.1:"), process.stderr.read()
            until_healthy(address)
            yield address.rstrip("/"), process
        finally:
            process.kill()


def until_healthy(address: str) -> None:
    """Wait for the first answer: the port is taken before the model is loaded."""
    for _ in range(300):
        try:
            if ASK.get(f"{address}health", timeout=10).status_code == 200:
                return
        except requests.ConnectionError:
            pass
        time.sleep(0.05)
    raise AssertionError("it is not healthy")


def post(address: str, path: str, body: Any, **more: Any) -> requests.Response:
    """Post JSON."""
    return ASK.post(address + path, json=body, timeout=60, **more)

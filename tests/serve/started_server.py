"""Runs `roberta-hub serve` as a process, and asks it as clients do."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import requests

ASK = requests.Session()
ASK.trust_env = False  # no proxy between this machine and itself
KEY = "ROBERTA_HUB_API_KEY"


def start(*arguments: str, **variables: str) -> subprocess.Popen[str]:
    """Start the command with these arguments, and no key unless the variables have one."""
    command = [sys.executable, "-m", "roberta_hub", "serve", *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", KEY: "", **variables}
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )


@contextmanager
def served(*arguments: str, **variables: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Serve a model: (its address without the last slash, the process)."""
    with start("--port", "0", *arguments, **variables) as process:
        try:
            assert process.stdout is not None and process.stderr is not None
            address = process.stdout.readline().strip()
            assert address.startswith("http://127.0.0.1:"), process.stderr.read()
            assert ASK.get(f"{address}health", timeout=300).status_code == 200
            yield address.rstrip("/"), process
        finally:
            process.kill()


def post(address: str, path: str, body: Any, **more: Any) -> requests.Response:
    """Post JSON."""
    return ASK.post(address + path, json=body, timeout=300, **more)

"""Runs `roberta-hub ui` as a process, and asks it as a browser does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import requests

ANSWERS = requests.Session()
ANSWERS.trust_env = False  # no proxy between this machine and itself


def start(*arguments: str, **variables: str) -> subprocess.Popen[str]:
    """Start the command with these arguments; without a display unless the variables name one."""
    command = [sys.executable, "-m", "roberta_hub", "ui", *arguments]
    own = {"OMP_NUM_THREADS": "1", "DISPLAY": "", "WAYLAND_DISPLAY": ""}
    environment = {**os.environ, **own, **variables}
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )


@contextmanager
def served(*arguments: str, **variables: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Serve a page: (its address, the process)."""
    with start(*arguments, **variables) as process:
        try:
            assert process.stdout is not None and process.stderr is not None
            address = process.stdout.readline().strip()
            assert address.startswith("http://127.0.0.1:"), process.stderr.read()
            yield address, process
        finally:
            process.kill()


def ask(address: str, name: str, values: Sequence[str]) -> list[str]:
    """Ask a tab's endpoint: markup, Python, shell."""
    place = f"{address}gradio_api/call/{name}"
    sent = ANSWERS.post(place, json={"data": list(values)}, timeout=60)
    assert sent.status_code == 200, sent.text
    got = ANSWERS.get(f"{place}/{sent.json()['event_id']}", timeout=120)
    got.encoding = "utf-8"
    event, data = got.text.strip().split("\n\n")[-1].split("\n", 1)
    assert event == "event: complete", got.text
    found: list[Any] = json.loads(data.removeprefix("data: "))
    return found

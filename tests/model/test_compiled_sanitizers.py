"""The compiled layers under the compiler's sanitizers, at every level of this CPU."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from compiled_layers import levels_here

from roberta_hub.model import compiled

pytestmark = [pytest.mark.system, pytest.mark.slow]
DRIVER = Path(__file__).with_name("compiled_driver.cpp")


@pytest.mark.parametrize("kind", ["address,undefined", "thread"])
def test_no_sanitizer_finds_anything(kind: str, built: Path, tmp_path: Path) -> None:
    if shutil.which("g++") is None:
        pytest.skip("no g++ here")
    program = tmp_path / "driver"
    command = ["g++", "-std=c++17", "-O1", "-g", "-pthread", "-w", f"-fsanitize={kind}"]
    command += ["-fno-sanitize-recover=all", "-o", str(program), str(DRIVER)]
    made = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if made.returncode and "cannot find" in made.stderr:
        pytest.skip("g++ without the sanitizer's library")
    assert made.returncode == 0, made.stderr[-2000:]
    # TSan runs no forked child of several threads unless told.
    environment = {
        **os.environ,
        "TSAN_OPTIONS": "die_after_fork=0",
        "ASAN_OPTIONS": "detect_leaks=0",
    }
    ran = subprocess.run(
        [str(program)], capture_output=True, text=True, env=environment, timeout=900
    )
    assert ran.returncode == 0, (ran.stdout + ran.stderr)[-4000:]
    assert ran.stdout.split("\n")[:-1] == [
        f"level {compiled.LEVELS.index(level)}" for level in levels_here()
    ]

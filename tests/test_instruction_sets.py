"""Tests of numbers pass on slow and on fast CPUs: oneDNN, MKL and torch are told to hold back."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
import torch

TESTS = Path(__file__).resolve().parent
SETTINGS = {
    "SSE 4, one thread": {
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
        "ATEN_CPU_CAPABILITY": "default",
        "OMP_NUM_THREADS": "1",
    },
    "AVX2, two threads": {
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "ATEN_CPU_CAPABILITY": "avx2",
        "OMP_NUM_THREADS": "2",
    },
    "all there is, two threads": {"ONEDNN_MAX_CPU_ISA": "DEFAULT", "OMP_NUM_THREADS": "2"},
}
CHOSEN = (
    "inference/test_answer.py",
    "inference/test_tag.py",
    "model/test_heads.py",
    "model/test_ragged_kernel.py",
    "checkpoint/test_older_versions.py",
)
"""Batches beside single texts, packed beside padded, and numbers that another CPU wrote."""

pytestmark = [
    pytest.mark.system,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="these settings are of x86"),
]


def told(setting: str) -> dict[str, str]:
    """The environment of a process that is told so, and none of this run's own settings."""
    own = {k: v for k, v in os.environ.items() if k not in SETTINGS["SSE 4, one thread"]}
    return {k: v for k, v in own.items() if not k.startswith("PYTEST_")} | SETTINGS[setting]


def test_torch_does_as_it_is_told() -> None:
    code = "import torch; print(torch.backends.cpu.get_cpu_capability(), torch.get_num_threads())"
    found = {}
    for setting in SETTINGS:
        command = [sys.executable, "-c", code]
        ran = subprocess.run(command, env=told(setting), capture_output=True, text=True, check=True)
        found[setting] = ran.stdout.split()
    assert found["SSE 4, one thread"] == ["DEFAULT", "1"]
    assert found["all there is, two threads"][0] == torch.backends.cpu.get_cpu_capability()
    if found["all there is, two threads"][0] != "DEFAULT":
        assert found["AVX2, two threads"] == ["AVX2", "2"]


@pytest.mark.parametrize("setting", SETTINGS)
def test_numbers_agree_on_any_cpu(setting: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not network"]
    command += ["--maxfail", "5", *(str(TESTS / name) for name in CHOSEN)]
    ran = subprocess.run(
        command, cwd=TESTS.parent, env=told(setting), capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-1000:]
    assert " passed" in ran.stdout

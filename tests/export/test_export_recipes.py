"""Other loaders open what is exported; docs/guides/runtimes.md and serve.md run as typed.

Each runs in an environment of its own (`make lakes`), servers with requests that come together.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from exported_answers import made
from interpreters import interpreter
from small_models import assert_close

import roberta_hub
from roberta_hub import RobertaHubInterface

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PAGE = "".join(
    (ROOT / f"docs/guides/{name}.md").read_text(encoding="utf-8") for name in ("runtimes", "serve")
)
BLOCKS = {
    section.partition("\n")[0]: code[1]
    for section in re.split(r"^### ", PAGE, flags=re.MULTILINE)
    if (code := re.search(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL))
}
CPP, CMAKE = (
    re.findall(rf"^```{kind}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[0]
    for kind in ("cpp", "cmake")
)
PAIRS = [("A dog ran.", "An animal moved."), ("A dog ran.", "It slept.")]
TEXTS = ["The train was late.", "", "Where can I buy a ticket to Berlin for tomorrow?"]
SURROUNDINGS = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
    "OMP_NUM_THREADS": "1",
    "ROBERTA_HUB_OFFLINE": "1",
    "HF_HUB_OFFLINE": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "disabled",
}
pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(1800)]


def ran(command: list[str], folder: Path) -> str:
    """What a program writes."""
    done = subprocess.run(command, cwd=folder, env=SURROUNDINGS, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    return done.stdout


# ---- files ----


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `mnli-onnx`, of the model in the box."""
    pytest.importorskip("onnxscript")
    folder = tmp_path_factory.mktemp("recipes")
    roberta_hub.load_model("roberta.tiny").export(folder / "mnli-onnx", head="mnli")
    return folder


@pytest.fixture(scope="module")
def tiny() -> RobertaHubInterface:
    return roberta_hub.load_model("roberta.tiny").eval()


def logits_of(roberta: RobertaHubInterface, pairs: list[tuple[str, str]]) -> list[list[float]]:
    with torch.no_grad():
        rows = [roberta.predict("mnli", roberta.encode(*p), return_logits=True)[0] for p in pairs]
    return [row.tolist() for row in rows]


ON_FILES = {"ONNX Runtime": "onnxruntime", "OpenVINO": "openvino", "optimum": "optimum"}


@pytest.mark.parametrize("recipe", ON_FILES)
def test_a_recipe_has_the_models_logits(
    recipe: str, exported: Path, tiny: RobertaHubInterface
) -> None:
    name = ON_FILES[recipe]
    pytest.importorskip("tokenizers")
    python = interpreter("optimum" if name == "onnxruntime" else name, name)
    found = json.loads(ran([python, "-c", BLOCKS[recipe]], exported))
    for row, wanted in zip(found, logits_of(tiny, PAIRS), strict=True):
        assert row == pytest.approx(wanted, abs=1e-3 if recipe == "OpenVINO" else 1e-4)


LOADERS: dict[str, tuple[str, dict[str, str]]] = {
    "ORTModelForFeatureExtraction": ("last_hidden_state", {}),
    "ORTModelForMaskedLM": ("logits", {"output": "logits"}),
    "ORTModelForSequenceClassification": ("logits", {"head": "topic"}),
    "ORTModelForTokenClassification": ("logits", {"head": "ner"}),
    "ORTModelForQuestionAnswering": ("end_logits", {"head": "squad"}),
    "SentenceTransformer": ("embedding", {}),
}


@pytest.mark.parametrize("family", ["roberta", "bert"])
@pytest.mark.parametrize("loader", LOADERS)
def test_loaders_open_the_folder(loader: str, family: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    python = interpreter("optimum", "optimum")
    roberta = made(family, tmp_path / "family")
    roberta.sentence = roberta_hub.SentenceSettings(pooling="mean", normalize=True)
    name, choices = LOADERS[loader]
    roberta.export(tmp_path / "out", **choices)
    texts = json.dumps(TEXTS)
    said = ran([python, str(HERE / "opening.py"), loader, str(tmp_path / "out"), texts], tmp_path)
    found = json.loads(said.splitlines()[-1])
    if loader == "SentenceTransformer":
        assert_close(torch.tensor(found[name]), roberta.embed(TEXTS), 1e-4)
        return
    ids = torch.tensor(found["input_ids"])
    model = roberta.model
    with torch.no_grad():
        states = model(ids, features_only=True)[0]
        if loader == "ORTModelForMaskedLM":
            wanted = model(ids)[0]
        elif loader == "ORTModelForSequenceClassification":
            wanted = model(ids, classification_head_name="topic")[0]
        elif loader == "ORTModelForTokenClassification":
            wanted = model.token_heads["ner"](states)
        elif loader == "ORTModelForQuestionAnswering":
            wanted = model.span_heads["squad"](states)[..., 1]
        else:
            wanted = states
    real = ids.ne(model.config.padding_idx)
    assert real.sum(1).tolist() == [len(row) for row in roberta.encode_batch(TEXTS)]
    outputs = torch.tensor(found[name])
    if outputs.dim() == 2 and loader == "ORTModelForSequenceClassification":
        assert_close(outputs, wanted, 1e-4)
    else:
        assert_close(outputs[real], wanted[real], 1e-4)


# ---- servers ----


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def serving(python: str, code: str, folder: Path) -> Iterator[str]:
    """Run a server of the page; yields the address that answers."""
    (folder / "server.py").write_text(code, encoding="utf-8")
    port = free_port()
    with open(folder / "log", "w") as log:
        process = subprocess.Popen(
            [python, "server.py", str(port)],
            cwd=folder,
            env=SURROUNDINGS,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    address = f"http://127.0.0.1:{port}/predict"
    try:
        for _ in range(600):
            assert process.poll() is None, (folder / "log").read_text()[-3000:]
            try:
                posted(address, PAIRS[0])
                break
            except OSError:
                time.sleep(1)
        yield address
    finally:
        os.killpg(process.pid, 15)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()


def posted(address: str, pair: tuple[str, str]) -> dict[str, Any]:
    body = json.dumps({"premise": pair[0], "hypothesis": pair[1]}).encode()
    request = urllib.request.Request(
        address, data=body, headers={"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        return dict(json.loads(answer.read()))


@pytest.mark.parametrize("server", ["LitServe", "Ray Serve"])
def test_a_server_answers_clients_that_come_together(
    server: str, tmp_path: Path, tiny: RobertaHubInterface
) -> None:
    name = {"LitServe": "litserve", "Ray Serve": "ray_serve"}[server]
    python = interpreter(name, {"ray_serve": "ray.serve"}.get(name, name))
    pairs = [(f"A dog ran {n} miles.", f"{'An animal moved. ' * (n % 5 + 1)}") for n in range(40)]
    with serving(python, BLOCKS[server], tmp_path) as address, ThreadPoolExecutor(8) as clients:
        answers = list(clients.map(lambda pair: posted(address, pair), pairs))
    for answer, wanted in zip(answers, tiny.classify(pairs, "mnli"), strict=True):
        assert answer["label"] == wanted.label
        assert answer["score"] == pytest.approx(wanted.score, abs=1e-5)


# ---- machine code ----


def test_machine_code_answers_in_cpp(tmp_path: Path) -> None:
    if not all(map(shutil.which, ("cmake", "g++"))):
        pytest.skip("no cmake or no g++ here")
    roberta = made("roberta", tmp_path / "family")
    roberta.export(tmp_path / "mnli-torch", "torch", head="topic")
    ran([sys.executable, "-c", BLOCKS["AOTInductor"]], tmp_path)
    (tmp_path / "main.cpp").write_text(CPP, encoding="utf-8")
    (tmp_path / "CMakeLists.txt").write_text(CMAKE, encoding="utf-8")
    prefix = f"-DCMAKE_PREFIX_PATH={torch.utils.cmake_prefix_path}"
    ran(["cmake", "-S", ".", "-B", "build", prefix, "-DCMAKE_BUILD_TYPE=Release"], tmp_path)
    ran(["cmake", "--build", "build"], tmp_path)
    said = ran([str(tmp_path / "build/main"), "mnli.pt2"], tmp_path)
    found = [float(number) for number in re.findall(r"-?\d+\.\d+(?:e-?\d+)?", said)]
    with torch.no_grad():
        ids = torch.tensor([[0, 250, 2335, 2075, 4, 2]])
        wanted = roberta.model(ids, classification_head_name="topic")[0][0]
    assert found == pytest.approx(wanted.tolist(), abs=1e-4)

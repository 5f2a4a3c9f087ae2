"""`roberta-hub verify`: its reports, its exit status, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from peers_at_fault import Service, copied, served
from shell.running import Run, runner

from roberta_hub import SentenceSettings

pytest.importorskip("transformers")
pytestmark = pytest.mark.parity


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(monkeypatch, capsys)


def test_a_sound_peer(folders: Any, run: Run, tmp_path: Path) -> None:
    folder = folders("gottbert", SentenceSettings(normalize=True))
    (tmp_path / "texts.csv").write_text("id,text\n1,A text of mine.\n2,Another.\n")
    (tmp_path / "lines.txt").write_text("A text of mine.\n")
    with served(Service(folder)) as root:
        status, said, _ = run("verify", folder, "--against", root)
        assert status == 0 and f"answers as {folder} does: the same vectors, within" in said
        more = ("-i", tmp_path / "texts.csv", "-c", "text", "--format", "json")
        status, said, _ = run("verify", folder, "--against", root, *more)
        found = json.loads(said)
        assert status == 0 and found["ok"] and found["verdict"] == "same"
        asked = found["texts"]
        more = ("-i", tmp_path / "lines.txt", "--format", "markdown")
        status, said, _ = run("verify", folder, "--against", root, *more)
    assert status == 0 and f"on {asked - 1} texts" in said
    assert said.startswith("## `") and "| vectors |" in said


def test_a_fault(folders: Any, run: Run, tmp_path: Path) -> None:
    folder = folders("gottbert")
    peer = copied(folder, tmp_path / "peer", config={"hidden_act": "gelu_new"})
    status, said, _ = run("verify", folder, "--against", peer)
    assert status == 1 and "first differs at: layer 1 of " in said
    assert "activation: computes the GELU by tanh, and the model was trained with the exact" in said
    status, said, _ = run("verify", folder, "--against", peer, "--format", "json")
    assert status == 1 and json.loads(said)["first_difference"].startswith("layer 1")


def test_what_cannot_be_asked(folders: Any, run: Run, tmp_path: Path) -> None:
    folder = folders("gottbert")
    status, said, wrong = run("verify", folder, "--against", tmp_path / "nothing")
    assert (status, said) == (1, "") and "is no file or folder; compare with an ONNX file" in wrong
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    status, _, wrong = run("verify", folder, "--against", tmp_path / "model.gguf")
    assert status == 1 and "pip install llama-cpp-python" in wrong
    status, _, wrong = run("verify", folder)
    assert status == 2 and "--against" in wrong
    (tmp_path / "texts.csv").write_text("text\nGood.\n\n,\n")
    status, _, wrong = run("verify", folder, "--against", folder, "-i", tmp_path / "texts.csv")
    assert status == 1 and "texts.csv" in wrong

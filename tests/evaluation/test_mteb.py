"""mteb itself runs our model, and gives it the numbers of sentence-transformers with its files.

It has an environment of its own, with torchmetrics as another peer.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from families import SENTENCES
from interpreters import interpreter
from small_models import small_roberta

import roberta_hub
from roberta_hub import RobertaHubInterface, SentenceSettings, as_mteb
from roberta_hub.errors import InputError, InputTypeError, MissingExtraError

pytest.importorskip("sentence_transformers")
pytestmark = pytest.mark.parity
RUN = Path(__file__).with_name("run_mteb.py")
PROMPTS = {"query": "query: ", "document": "passage: ", "STS": "same: "}
SETTINGS = {
    "plain": SentenceSettings(),
    "prompts": SentenceSettings(pooling="cls", normalize=True, prompts=PROMPTS),
    "default": SentenceSettings(prompts={"query": "q: "}, default_prompt="query"),
    "dot, cut": SentenceSettings(similarity="dot", truncate_dim=8, max_length=12),
}


@pytest.mark.timeout(900)
def test_numbers_are_those_of_sentence_transformers(tmp_path: Path) -> None:
    python = interpreter("mteb", "mteb")
    folders = []
    for name, settings in SETTINGS.items():
        roberta = small_roberta(num_layers=2)
        roberta.sentence = settings
        folders.append(tmp_path / name)
        roberta.save(folders[-1], "huggingface")
    done = subprocess.run(
        [python, RUN, "|".join(text[:60] for text in SENTENCES), *folders],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={
            "PATH": "/usr/bin:/bin",
            "HOME": str(tmp_path),
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
        },
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines() == [f"{name}: same" for name in SETTINGS]


def test_scores_of_answers_are_those_of_torchmetrics(shared: Path, tmp_path: Path) -> None:
    """SQuAD 1.1's, on real questions; those of 2.0 are in tests/parity/test_metrics.py."""
    python = interpreter("mteb", "torchmetrics")
    roberta = small_roberta(num_layers=1, max_positions=256)
    roberta.register_span_head("squad")
    roberta.save(tmp_path / "model")
    whole = json.loads((shared / "data/tasks/squad/xquad.en.json").read_text(encoding="utf-8"))
    (tmp_path / "dev.json").write_text(json.dumps({**whole, "data": whole["data"][:4]}))
    done = subprocess.run(
        [python, RUN.with_name("run_squad.py"), tmp_path / "model", tmp_path / "dev.json"],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.endswith(" the same\n")


def test_vectors_prompts_and_similarity() -> None:
    roberta = small_roberta(num_layers=2)
    prompts = {"query": "query: ", "passage": "passage: ", "Toy-query": "toy: ", "STS": "same: "}
    roberta.sentence = SentenceSettings(normalize=True, prompts=prompts, default_prompt="query")
    encoder = as_mteb(roberta, name="mine/small", truncate_dim=8)
    batches = [{"text": ["a", "b"]}, {"text": ["c"]}]

    class Task:
        def __init__(self, name: str, type: str) -> None:
            self.name, self.type = name, type

    toy, other, sts = Task("Toy", "Retrieval"), Task("Other", "Retrieval"), Task("S", "STS")
    for task, kind, prompt in (
        (toy, "query", "toy: "),
        (toy, "document", "passage: "),
        (other, "query", "query: "),
        (sts, None, "same: "),
        (other, None, "query: "),  # the default
    ):
        found = encoder.encode(batches, task_metadata=task, prompt_type=kind)
        wanted = roberta.embed(["a", "b", "c"], prompt, truncate_dim=8)
        torch.testing.assert_close(torch.from_numpy(found), wanted)
    one, other_vectors = roberta.embed(["a", "b"]), roberta.embed(["c", "d"])
    near = encoder.similarity(one, other_vectors.numpy())
    torch.testing.assert_close(near, roberta.similarity(["a", "b"], ["c", "d"]))
    pairs = encoder.similarity_pairwise(one, other_vectors)
    torch.testing.assert_close(pairs, near.diagonal())
    with pytest.raises(InputTypeError, match="only texts are read"):
        encoder.encode([{"image": [1]}], task_metadata=toy)


def test_the_revision_is_of_weights_and_settings() -> None:
    """mteb keeps results by name and revision: another model must not get them."""
    roberta = small_roberta(num_layers=1)
    before = as_mteb(roberta, name="a/b").revision
    assert before == as_mteb(roberta, name="c/d").revision
    assert before != as_mteb(roberta, truncate_dim=4).revision
    roberta.sentence = SentenceSettings(pooling="cls")
    encoder = as_mteb(roberta)
    changed = encoder.revision
    assert changed not in (before, "") and changed == encoder.revision
    with torch.no_grad():
        next(roberta.model.parameters())[3, 5] += 1e-3
    assert as_mteb(roberta).revision == encoder.revision != changed


def test_long_texts() -> None:
    roberta = small_roberta(num_layers=1)
    batch, task = [{"text": ["word " * 100]}], object()
    assert as_mteb(roberta).encode(batch, task_metadata=task).shape == (1, 32)
    with pytest.raises(InputError, match="too long"):
        as_mteb(roberta, truncate=False).encode(batch, task_metadata=task)


def test_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    roberta: RobertaHubInterface = small_roberta(num_layers=1)
    roberta.save(tmp_path / "runs/mine")
    assert as_mteb(tmp_path / "runs/mine").name == "runs/mine"
    assert as_mteb("roberta.tiny").name == "roberta_hub/roberta.tiny"
    assert as_mteb(roberta).name == "roberta_hub/random weights"
    for name in ("", "a\nb", "/"):
        with pytest.raises(InputError, match=r"give owner/name"):
            as_mteb(roberta, name=name)
    monkeypatch.setitem(sys.modules, "mteb.models.model_meta", None)
    with pytest.raises(MissingExtraError, match=r"mteb is not installed .* pip install mteb"):
        _ = as_mteb(roberta).mteb_model_meta
    assert roberta_hub.as_mteb is as_mteb

"""Layouts that real libraries write, loaded by name by them and by us from one server."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from families import write_family

sys.path.insert(0, str(Path(__file__).parents[1] / "checkpoint"))

from hub_server import HubServer, environment

pytest.importorskip("huggingface_hub")
package = pytest.importorskip("sentence_transformers")
pytestmark = pytest.mark.parity
TEXTS = ["The dog barked.", "It was late when the train came to Hamburg."]
PEERS = """
import json, sys
import torch
from sentence_transformers import CrossEncoder, SentenceTransformer
from transformers import AutoModelForSequenceClassification, AutoTokenizer
a, b = TEXTS = json.loads(sys.argv[1])
tokenizer = AutoTokenizer.from_pretrained("owner/classifier")
model = AutoModelForSequenceClassification.from_pretrained("owner/classifier").eval()
with torch.no_grad():
    logits = [model(**tokenizer(text, return_tensors="pt")).logits.softmax(-1)[0] for text in TEXTS]
print(json.dumps({
    "classifier": [row.tolist() for row in logits],
    "encoder": SentenceTransformer("owner/encoder", device="cpu").encode(TEXTS).tolist(),
    "reranker": CrossEncoder("owner/reranker", device="cpu").predict([(a, b), (b, a)]).tolist(),
}))
"""
OURS = """
import json, sys
from roberta_hub import load_model
a, b = TEXTS = json.loads(sys.argv[1])
print(json.dumps({
    "classifier": load_model("owner/classifier").predict_proba(TEXTS).tolist(),
    "encoder": load_model("owner/encoder").embed(TEXTS).tolist(),
    "reranker": [
        load_model("owner/reranker").rank(*pair)[0].score for pair in ((a, [b]), (b, [a]))
    ],
}))
"""


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[HubServer]:
    """Folders that transformers and sentence-transformers saved."""
    with HubServer() as running:
        running.publish(
            "owner/classifier", write_family("gottbert", tmp_path / "c", head="sentence")
        )
        base, own = package.base.modules, package.sentence_transformer.modules
        body = base.Transformer(str(write_family("minilm", tmp_path / "m")), max_seq_length=30)
        parts = [body, own.Pooling(32, "mean"), base.Dense(32, 16), base.Normalize()]
        package.SentenceTransformer(modules=parts, device="cpu").save(str(tmp_path / "encoder"))
        running.publish("owner/encoder", tmp_path / "encoder", library="sentence-transformers")
        pairs = write_family("bert", tmp_path / "p", head="sentence", num_labels=1)
        package.CrossEncoder(str(pairs), device="cpu").save_pretrained(str(tmp_path / "reranker"))
        running.publish("owner/reranker", tmp_path / "reranker")
        yield running


def answers(code: str, home: Path, hub: HubServer | None) -> dict[str, Any]:
    """What a program answers; without a hub it is offline."""
    home.mkdir(exist_ok=True)
    offline = {} if hub else {"HF_HUB_OFFLINE": "1"}
    run = subprocess.run(
        [sys.executable, "-c", code, json.dumps(TEXTS)],
        env={**environment(home, hub), "OMP_NUM_THREADS": "1", **offline},
        cwd=home,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    found: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return found


def test_three_layouts_by_name_as_their_own_libraries(hub: HubServer, tmp_path: Path) -> None:
    theirs = answers(PEERS, tmp_path / "peers", hub)
    ours = answers(OURS, tmp_path / "ours", hub)
    for name in ("classifier", "encoder"):
        for mine, own in zip(ours[name], theirs[name], strict=True):
            assert mine == pytest.approx(own, abs=2e-5), name
    assert ours["reranker"] == pytest.approx(theirs["reranker"], abs=2e-5)


@pytest.mark.parametrize(("first", "then"), [(PEERS, OURS), (OURS, PEERS)])
def test_what_one_fetched_loads_offline_in_the_other(
    hub: HubServer, tmp_path: Path, first: str, then: str
) -> None:
    """Theirs is huggingface_hub's cache, and so is ours."""
    fetched = answers(first, tmp_path / "home", hub)
    again = answers(then, tmp_path / "home", None)
    assert again["encoder"][0] == pytest.approx(fetched["encoder"][0], abs=2e-5)
    assert again["reranker"] == pytest.approx(fetched["reranker"], abs=2e-5)

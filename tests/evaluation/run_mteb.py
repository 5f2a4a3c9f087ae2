"""Runs mteb on tasks of a few texts, with our model and with sentence-transformers'.

    python run_mteb.py "a text|another|..." FOLDER...

Prints "FOLDER: same" where both get the same numbers.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import mteb
from datasets import Dataset
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.sts import AbsTaskSTS
from mteb.abstasks.task_metadata import TaskMetadata
from mteb.models import EncoderProtocol
from sentence_transformers import SentenceTransformer

import roberta_hub

TEXTS, FOLDERS = sys.argv[1].split("|"), sys.argv[2:]
DRAW = random.Random(0)


def about(name: str, kind: Any, measure: str) -> TaskMetadata:
    return TaskMetadata(
        name=name,
        description="A few texts.",
        reference=None,
        dataset={"path": "local/none", "revision": "1"},
        type=kind,
        category="t2t",
        modalities=["text"],
        eval_splits=["test"],
        eval_langs=["eng-Latn"],
        main_score=measure,
        date=None,
        domains=None,
        task_subtypes=None,
        license=None,
        annotations_creators=None,
        dialect=None,
        sample_creation=None,
        bibtex_citation=None,
    )


class ToySTS(AbsTaskSTS):
    metadata = about("ToySTS", "STS", "cosine_spearman")
    min_score, max_score = 0, 5

    def load_data(self, *given: Any, **more: Any) -> None:
        rows = {
            "sentence1": TEXTS[:-1],
            "sentence2": TEXTS[1:],
            "score": [DRAW.uniform(0, 5) for _ in TEXTS[1:]],
        }
        self.dataset = {"default": {"test": Dataset.from_dict(rows)}}
        self.data_loaded = True


class ToyRetrieval(AbsTaskRetrieval):
    metadata = about("ToyRetrieval", "Retrieval", "ndcg_at_10")

    def load_data(self, *given: Any, **more: Any) -> None:
        names = [f"d{i}" for i in range(len(TEXTS))]
        titles = ["A title" if i % 2 else "" for i in range(len(TEXTS))]
        corpus = Dataset.from_dict({"id": names, "title": titles, "text": TEXTS})
        asked = Dataset.from_dict({"id": ["q0", "q1", "q2"], "text": [t[:20] for t in TEXTS[:3]]})
        judged = {f"q{q}": {DRAW.choice(names): 1, DRAW.choice(names): 2} for q in range(3)}
        self.dataset = {
            "default": {
                "test": {
                    "corpus": corpus,
                    "queries": asked,
                    "relevant_docs": judged,
                    "top_ranked": None,
                }
            }
        }
        self.data_loaded = True


def numbers(model: Any) -> dict[str, float]:
    DRAW.seed(0)
    found = {}
    for task in (ToySTS(), ToyRetrieval()):
        task.load_data()
        result = mteb.evaluate(model, [task], cache=None, encode_kwargs={"batch_size": 4})
        (scores,) = result.task_results[0].scores["test"]
        for name, value in scores.items():
            if isinstance(value, float) and value == value:
                found[f"{task.metadata.name} {name}"] = value
    return found


def compare(folder: str) -> None:
    ours = roberta_hub.as_mteb(folder)
    assert isinstance(ours, EncoderProtocol)
    again = ours.mteb_model_meta.load_model()
    assert again.roberta is ours.roberta and again.name == ours.name
    theirs = numbers(SentenceTransformer(folder, device="cpu"))
    own = numbers(ours)
    assert own.keys() == theirs.keys() and len(own) > 20, (own.keys() ^ theirs.keys(), own)
    far = {name: (own[name], theirs[name]) for name in own if abs(own[name] - theirs[name]) > 1e-3}
    assert not far, far


if __name__ == "__main__":
    for each in FOLDERS:
        compare(each)
        print(f"{Path(each).name}: same")

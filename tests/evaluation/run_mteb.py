"""Runs mteb on tasks of a few texts, with our model and with sentence-transformers'.

    python run_mteb.py "a text|another|..." FOLDER...

Prints "FOLDER: same" where both get the same numbers.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
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
NAMES = [f"d{i}" for i in range(len(TEXTS))]
TITLES = ["A title" if i % 2 else "" for i in range(len(TEXTS))]
JUDGED = {f"q{q}": {DRAW.choice(NAMES): 1, DRAW.choice(NAMES): 2} for q in range(3)}
ASKED = {f"q{q}": TEXTS[q][:20] for q in range(3)}
OURS = {
    "ndcg@10": "ndcg_at_10",
    "map@100": "map_at_100",
    "recall@10": "recall_at_10",
    "recall@100": "recall_at_100",
}
"""mteb's names of the measures of `evaluate`."""


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
        corpus = Dataset.from_dict({"id": NAMES, "title": TITLES, "text": TEXTS})
        asked = Dataset.from_dict({"id": list(ASKED), "text": list(ASKED.values())})
        self.dataset = {
            "default": {
                "test": {
                    "corpus": corpus,
                    "queries": asked,
                    "relevant_docs": JUDGED,
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
    with tempfile.TemporaryDirectory() as beir:
        write(Path(beir))
        found = roberta_hub.evaluate(folder, beir, truncate=True)
    for name, mteb_name in OURS.items():
        theirs_now = own[f"ToyRetrieval {mteb_name}"]  # of five digits
        assert abs(found[name] - theirs_now) < 1e-5, (name, found[name], theirs_now)


def write(folder: Path) -> None:
    """The task of retrieval as a folder of BEIR's shape."""
    rows = zip(NAMES, TITLES, TEXTS, strict=True)
    corpus = [{"_id": name, "title": title, "text": text} for name, title, text in rows]
    asked = [{"_id": name, "text": text} for name, text in ASKED.items()]
    for name, objects in (("corpus", corpus), ("queries", asked)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(o) + "\n" for o in objects))
    (folder / "qrels").mkdir()
    lines = [f"{q}\t{d}\t{score}\n" for q, own in JUDGED.items() for d, score in own.items()]
    (folder / "qrels/test.tsv").write_text("".join(lines))


if __name__ == "__main__":
    for each in FOLDERS:
        compare(each)
        print(f"{Path(each).name}: same")

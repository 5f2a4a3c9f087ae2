"""A small model with a head of every kind, and a folder to search."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_models import randomise, small_roberta
from task_files import write_jsonl

from roberta_hub import RobertaHubInterface, SentenceSettings

LABELS = {"topic": ("art", "sport", "war"), "tags": ("a", "b", "c")}


@pytest.fixture(scope="session")
def model() -> RobertaHubInterface:
    heads = {"topic": 3, "tags": 3, "stars": 1}
    roberta = small_roberta(heads=heads, labels=LABELS, num_layers=2, max_positions=64)
    roberta.kinds |= {"tags": "multi_label", "stars": "regression"}
    roberta.register_token_head("ner", labels=["O", "B-PER", "I-PER", "B-LOC", "I-LOC"])
    roberta.register_span_head("squad")
    for heads_of_kind in (roberta.model.token_heads, roberta.model.span_heads):
        randomise(heads_of_kind)  # of a seed, whichever test comes first
    roberta.default_head = "topic"
    prompts = {"query": "query: ", "passage": "passage: "}
    roberta.sentence = SentenceSettings(normalize=True, prompts=prompts)
    return roberta


@pytest.fixture
def beir(tmp_path: Path) -> Path:
    """A folder of BEIR's shape: 30 documents, 8 queries, judgements of 0, 1 and 2."""
    documents = [
        {"_id": f"d{i}", "title": f"Town {i}" if i % 3 else "", "text": f"About the {i}th town."}
        for i in range(30)
    ]
    queries = [{"_id": f"q{i}", "text": f"Where is town {i}?"} for i in range(10)]
    write_jsonl(tmp_path / "beir/corpus.jsonl", documents)
    write_jsonl(tmp_path / "beir/queries.jsonl", queries)
    lines = ["query-id\tcorpus-id\tscore"]
    for q in range(8):
        lines += [f"q{q}\td{(q * 7 + k) % 30}\t{k % 3}" for k in range(9)]
    (tmp_path / "beir/qrels").mkdir()
    (tmp_path / "beir/qrels/test.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path / "beir"

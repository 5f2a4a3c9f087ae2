"""The numbers of a search are trec_eval's, by pytrec_eval, and those of plain arithmetic."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from task_files import write_jsonl

from roberta_hub import RobertaHubInterface, evaluate
from roberta_hub.errors import InputError, MissingExtraError, UnknownNameError

pytest.importorskip("pytrec_eval")


def objects(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_measures(model: RobertaHubInterface, beir: Path) -> None:
    import pytrec_eval

    found: Any = evaluate(model, beir)
    assert (found.kind, found.verb, found.rows) == ("search", "search", 8)
    assert found.how == "30 documents" and "qrels/test.tsv" in found.shape
    documents, queries = objects(beir / "corpus.jsonl"), objects(beir / "queries.jsonl")[:8]
    texts = [f"{one['title']} {one['text']}".strip() for one in documents]
    vectors = model.embed(texts, prompt_name="passage")
    asked = model.embed([one["text"] for one in queries], prompt_name="query")
    near = (asked @ vectors.T).tolist()
    judged: dict[str, dict[str, int]] = {}
    for line in (beir / "qrels/test.tsv").read_text().splitlines()[1:]:
        query, document, score = line.split("\t")
        judged.setdefault(query, {})[document] = int(score)
    run = {
        one["_id"]: {d["_id"]: s for d, s in zip(documents, row, strict=True)}
        for one, row in zip(queries, near, strict=True)
    }
    names = {"ndcg_cut.10", "recip_rank", "map", "recall.10,100"}
    theirs = pytrec_eval.RelevanceEvaluator(judged, names).evaluate(run)
    keys = ("ndcg_cut_10", "recip_rank", "map", "recall_10", "recall_100")
    means = [sum(own[key] for own in theirs.values()) / 8 for key in keys]
    assert list(found.numbers.values()) == pytest.approx(means, abs=1e-9)
    assert list(found.numbers) == ["ndcg@10", "mrr@100", "map@100", "recall@10", "recall@100"]
    plain = [by_hand(run[query], judged[query]) for query in judged]
    for place, name in enumerate(("ndcg@10", "mrr@100", "map@100")):
        assert found[name] == pytest.approx(sum(own[place] for own in plain) / 8, abs=1e-9)
    assert 0 < found.interval[0] <= found["ndcg@10"] <= found.interval[1] < 1


def by_hand(run: dict[str, float], judged: dict[str, int]) -> tuple[float, float, float]:
    """nDCG at 10, reciprocal rank and average precision of one query."""
    order = sorted(run, key=lambda name: (-run[name], name))
    gains = [judged.get(name, 0) for name in order]

    def dcg(values: list[int]) -> float:
        return sum(v / math.log2(i + 2) for i, v in enumerate(values[:10]))

    hits = [i for i, gain in enumerate(gains) if gain > 0]
    precisions = [(n + 1) / (i + 1) for n, i in enumerate(hits)]
    best = sorted(judged.values(), reverse=True)
    wanted = sum(gain > 0 for gain in best)
    return dcg(gains) / dcg(best), 1 / (hits[0] + 1), sum(precisions) / wanted


def test_a_document_with_the_id_of_its_query_is_not_found(
    model: RobertaHubInterface, tmp_path: Path
) -> None:
    rows = [{"_id": name, "title": "", "text": f"text of {name}"} for name in ("a", "b", "c")]
    write_jsonl(tmp_path / "corpus.jsonl", rows)
    write_jsonl(tmp_path / "queries.jsonl", [{"_id": "a", "text": "text of a"}])
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels/dev.tsv").write_text("a\tb\t1\na\tgone\t1\n")
    found: Any = evaluate(model, tmp_path)
    assert found["recall@10"] == 0.5 and found["mrr@100"] >= 0.5
    assert "queries that found the document of their own id, which does not count: 1" in found.notes
    assert "judged documents that are not in the corpus, and count as not found: 1" in found.notes


def test_what_is_missing_is_counted(model: RobertaHubInterface, beir: Path) -> None:
    documents, queries = objects(beir / "corpus.jsonl"), objects(beir / "queries.jsonl")
    documents[3] |= {"title": None, "text": None}
    documents[4] |= {"title": ""}
    queries[2]["text"] = None
    write_jsonl(beir / "corpus.jsonl", documents)
    write_jsonl(beir / "queries.jsonl", queries)
    (beir / "qrels/test.tsv").write_text(
        (beir / "qrels/test.tsv").read_text() + "q9\td1\t0\n", encoding="utf-8"
    )
    found: Any = evaluate(model, beir)
    assert found.rows == 8 and found.how == "29 documents"
    assert found.notes[:2] == (
        "queries without a text, left out: 1",
        "documents without title and text, left out: 1",
    )
    assert "queries that no document answers, and which count as 0: 1" in found.notes


def test_splits_and_compressed_files(model: RobertaHubInterface, beir: Path) -> None:
    whole = evaluate(model, beir).numbers
    corpus = beir / "corpus.jsonl"
    (beir / "corpus.jsonl.gz").write_bytes(gzip.compress(corpus.read_bytes()))
    corpus.unlink()
    (beir / "qrels/test.tsv").rename(beir / "qrels/dev.tsv")
    assert evaluate(model, beir).numbers == whole
    lines = (beir / "qrels/dev.tsv").read_text().splitlines()
    trec = "".join(line.replace("\t", "\t0\t", 1) + "\n" for line in lines[1:])
    (beir / "qrels/train.tsv").write_text(trec)
    with pytest.raises(InputError, match=r"has dev, train, and none is test; say which with split"):
        evaluate(model, beir)
    assert evaluate(model, beir, split="train").numbers == whole
    with pytest.raises(UnknownNameError, match=r"no split 'tset'; it has dev, train"):
        evaluate(model, beir, split="tset")


BROKEN = {
    "corpus.jsonl": [
        ("not json\n", r"corpus.jsonl:1: not JSON"),
        ('{"text": "a"}\n', r"corpus.jsonl:1: _id is None; each has one"),
        ('{"_id": "a", "text": 5}\n', r"corpus.jsonl:1: text is 5, not a text"),
        ('{"_id": "a", "text": "x"}\n{"_id": "a", "text": "y"}\n', r":2: two documents have the"),
    ],
    "queries.jsonl": [
        ("", r"has no text of 8 of the 8 queries that are judged: 'q0'"),
        ('{"_id": "q0", "text": "a"}\n' * 2, r"queries.jsonl:2: two queries have the _id 'q0'"),
    ],
    "qrels/test.tsv": [
        ("", r"test.tsv: has no judgements"),
        ("query-id\tcorpus-id\tscore\nq0 d0 1\n", r"test.tsv:2: 'q0 d0 1' is not a query's id"),
        ("query-id\tcorpus-id\tscore\nq0\td0\tyes\n", r"test.tsv:2: .* a whole number"),
    ],
}


@pytest.mark.parametrize(
    ("name", "text", "said"), [(n, t, s) for n, rows in BROKEN.items() for t, s in rows]
)
def test_broken_files(
    model: RobertaHubInterface, beir: Path, name: str, text: str, said: str
) -> None:
    (beir / name).write_text(text)
    with pytest.raises(InputError, match=said):
        evaluate(model, beir)


def test_a_text_that_is_too_long_is_named(model: RobertaHubInterface, beir: Path) -> None:
    documents = objects(beir / "corpus.jsonl")
    documents[5]["text"] = "word " * 100
    write_jsonl(beir / "corpus.jsonl", documents)
    with pytest.raises(InputError, match=r"corpus.jsonl: document d5: .* pass truncate=True"):
        evaluate(model, beir)
    assert evaluate(model, beir, truncate=True).rows == 8


def test_a_bar_counts_documents(
    model: RobertaHubInterface, beir: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    evaluate(model, beir)
    assert capfd.readouterr().err == ""
    evaluate(model, beir, progress=True)
    assert "30.0 documents" in capfd.readouterr().err.replace("30 documents", "30.0 documents")


def test_without_pytrec_eval(
    model: RobertaHubInterface, beir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pytrec_eval", None)
    with pytest.raises(MissingExtraError, match=r"pytrec-eval-terrier .*\[evaluation\]"):
        evaluate(model, beir)


def test_prompts_are_those_of_search(model: RobertaHubInterface, beir: Path) -> None:
    """The folder of a model without prompts is searched otherwise."""
    import copy
    import dataclasses

    bare = copy.copy(model)
    assert model.sentence is not None
    bare.sentence = dataclasses.replace(model.sentence, prompts={})
    asked = model.embed(["Where is town 1?"], prompt_name="query")
    assert not torch.equal(asked, bare.embed(["Where is town 1?"]))
    assert evaluate(bare, beir).numbers != evaluate(model, beir).numbers

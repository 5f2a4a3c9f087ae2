"""Vectors of fewer bytes, and words beside vectors: what a search still finds.

    python benchmarks/vectors.py

Three searches: XQuAD's questions to their paragraphs, BoolQ's first 600 questions to their
passages, and the questions of Wang et al. (2007), development set, to the sentences that answer
them. Nothing is chosen by these numbers: the dtypes are sentence-transformers', bm25s has its own
constants, and 60 is Cormack's. Needs the packages of `make test` and the shared folder. Writes
`benchmarks/results/vectors.{md,json}`.
"""

from __future__ import annotations

import csv
import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import pytrec_eval
from lib import answers, worth
from lib.report import about, write
from sentences import unpacked

import roberta_hub
from roberta_hub import RobertaHubInterface
from roberta_hub.inference.precision import in_dtype
from roberta_hub.inference.word_index import RANKED, WordIndex, fused
from roberta_hub.settings import VectorDtype

NEAREST = 10
DTYPES: tuple[VectorDtype, ...] = ("float32", "float16", "int8", "binary")
MEASURES = {"nDCG@10": "ndcg_cut_10", "R@1": "success_1", "MAP": "map"}


@dataclass(frozen=True)
class Search:
    """Queries, documents, and which documents answer each query."""

    name: str
    queries: list[str]
    corpus: list[str]
    judged: dict[str, dict[str, int]]


def of_folder(name: str, folder: Path) -> Search:
    """Read a folder of BEIR's shape, whose ids are numbers behind a letter."""
    queries, corpus = (
        [json.loads(line) for line in (folder / f"{part}.jsonl").read_text("utf-8").splitlines()]
        for part in ("queries", "corpus")
    )
    judged: dict[str, dict[str, int]] = {}
    for line in (folder / "qrels/test.tsv").read_text("utf-8").splitlines()[1:]:
        query, document, _ = line.split("\t")
        judged[query[1:]] = {document[1:]: 1}
    texts = [f"{own['title']} {own['text']}".strip() for own in corpus]
    return Search(name, [own["text"] for own in queries], texts, judged)


def wang() -> Search:
    """Questions of TREC, and sentences that answer them or do not."""
    lines = answers.lines_of(answers.SHARED / "data/others/answer_sentences/wang.dev.csv.xz")
    rows = list(csv.DictReader(lines))
    queries = list(dict.fromkeys(row["qtext"] for row in rows if row["label"] == "1"))
    corpus = list(dict.fromkeys(row["atext"] for row in rows))
    place = {text: str(i) for i, text in enumerate(corpus)}
    judged: dict[str, dict[str, int]] = {str(i): {} for i in range(len(queries))}
    for row in rows:
        if row["label"] == "1":
            judged[str(queries.index(row["qtext"]))][place[row["atext"]]] = 1
    return Search("Wang's answer sentences", queries, corpus, judged)


def searches() -> Iterator[Search]:
    """Read the three."""
    for name, make, limit in (("XQuAD", worth.xquad, None), ("BoolQ", worth.boolq, 600)):
        with tempfile.TemporaryDirectory() as folder:
            yield of_folder(name, make(Path(folder), limit))
    yield wang()


def measured(search: Search, rankings: Sequence[Sequence[int]]) -> dict[str, float]:
    """Judge a ranking of each query by trec_eval's measures."""
    run = {
        str(query): {str(document): -float(rank) for rank, document in enumerate(found)}
        for query, found in enumerate(rankings)
    }
    names = {"ndcg_cut.10", "success.1", "map"}
    found = pytrec_eval.RelevanceEvaluator(search.judged, names).evaluate(run)
    return {
        own: mean(found.get(query, {}).get(name, 0.0) for query in search.judged)
        for own, name in MEASURES.items()
    }


def ranked(roberta: RobertaHubInterface, asked: Any, corpus: Any, most: int) -> list[list[int]]:
    """Search vectors, and return the places of the nearest."""
    return [[hit.index for hit in hits] for hits in roberta.search(asked, corpus, most)]


def compared(roberta: RobertaHubInterface, search: Search) -> dict[str, Any]:
    """Ask one model: every dtype beside float32, and words beside vectors."""
    prompts = (roberta.sentence and roberta.sentence.prompts) or {}
    asked = roberta.embed(
        search.queries, prompt_name="query" if "query" in prompts else None, truncate=True
    )
    document = next((name for name in ("document", "passage", "corpus") if name in prompts), None)
    floats = roberta.embed(search.corpus, prompt_name=document, truncate=True)
    exact = ranked(roberta, asked, floats, RANKED)
    dtypes = {}
    for dtype in DTYPES:
        vectors = in_dtype(floats, dtype)  # as embed(dtype=) does, without asking the model again
        found = ranked(roberta, asked, vectors, RANKED)
        both = zip(exact, found, strict=True)
        dtypes[dtype] = {
            "bytes": vectors.element_size() * vectors.size(1),
            "recall@10": mean(len({*a[:NEAREST]} & {*b[:NEAREST]}) / NEAREST for a, b in both),
            **measured(search, found),
        }
    index = WordIndex(search.corpus)
    words = [index.ranked(query) for query in search.queries]
    joined = [[place for place, _ in fused(two, RANKED)] for two in zip(exact, words, strict=True)]
    ways = {"vectors": exact, "words": words, "both": joined}
    return {"dtypes": dtypes, "ways": {name: measured(search, way) for name, way in ways.items()}}


def page(found: dict[str, dict[str, Any]], sizes: dict[str, str]) -> str:
    """Write the two tables."""
    lines = [
        "# Vectors of fewer bytes, and words beside vectors",
        "",
        "Made by `python benchmarks/vectors.py`. Bytes are of one vector of 384 numbers.",
        "Recall@10 is the share of float32's ten nearest texts that are among the ten nearest;",
        "queries are float32.",
        "nDCG@10 is by the right answers: "
        + "; ".join(f"{name}: {size}" for name, size in sizes.items())
        + ".",
        "",
        "| model | search | dtype | bytes | recall@10 | nDCG@10 |",
        "|---|---|---|--:|--:|--:|",
    ]
    for model, own in found.items():
        for name, both in own.items():
            for dtype, of in both["dtypes"].items():
                numbers = f"{of['bytes']} | {of['recall@10']:.3f} | {of['nDCG@10']:.3f}"
                lines.append(f"| {model} | {name} | {dtype} | {numbers} |")
    lines += [
        "",
        "`search(words=True)` joins the ranking by vectors with bm25s's by reciprocal ranks:",
        "",
        f"| model | search | by | {' | '.join(MEASURES)} |",
        "|---|---|---|--:|--:|--:|",
    ]
    for model, own in found.items():
        for name, both in own.items():
            for way, of in both["ways"].items():
                numbers = " | ".join(f"{of[measure]:.3f}" for measure in MEASURES)
                lines.append(f"| {model} | {name} | {way} | {numbers} |")
    return "\n".join(lines)


def main() -> None:
    """Measure both models, and write the page."""
    tasks = list(searches())
    with tempfile.TemporaryDirectory() as folder:
        models = {
            "roberta.tiny": roberta_hub.load_model(),
            "all-MiniLM-L6-v2": roberta_hub.load_model(unpacked(Path(folder))),
        }
        found = {
            name: {task.name: compared(model, task) for task in tasks}
            for name, model in models.items()
        }
    sizes = {own.name: f"{len(own.queries):,} to {len(own.corpus):,}" for own in tasks}
    facts = about("torch", "bm25s", "sentence-transformers", "pytrec-eval-terrier")
    write("vectors", page(found, sizes), {"about": facts, "sizes": sizes, "found": found})


if __name__ == "__main__":
    main()

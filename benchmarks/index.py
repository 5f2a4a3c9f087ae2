"""Recombined sentences: embedded into an index, killed on the way, searched, deduplicated.

    python benchmarks/index.py FOLDER                    # 100,000 sentences
    python benchmarks/index.py FOLDER --rows 1000000 --no-vectors
    python benchmarks/index.py FOLDER --choose           # recall by probes and candidates

Vectors are roberta.tiny's. The maker of the index is killed three times at random, and starts
again. Recall and milliseconds are of 100 other sentences, beside faiss on the same vectors: its
`IndexFlatIP`, which is exact, `IndexIVFPQ` with a byte for 16 numbers, and inverted lists of a
byte a number, as the index has them. sentence-transformers' rate is of some of the texts. Near-
duplicates are compared with brute force on the first 20,000 rows; by vectors, where every row is
compared with every other, `--no-vectors` leaves them out. Each stage is noted in FOLDER, so the
same call resumes after a crash. Needs the packages of `make test`, faiss-cpu and the shared folder.
Writes `benchmarks/results/index.{md,json}`, or `index_1000000.{md,json}` of a million rows.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

os.environ |= {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from lib.pairs import sentences
from lib.report import about, write

import roberta_hub

KILLS = 3
QUERIES = 100
ASIDE = 100
"""Sentences by which the constants of the index were chosen; they judge nothing."""
CHECKED_ROWS = 20_000
PEER_ROWS = 200
MANY = 1_000_000
"""Rows from which on a result has a file of its own."""
DRIVE = """
import sys
import roberta_hub
how = {"key": "id", "optimize": "auto", "unit_rows": int(sys.argv[3]), "workers": 2}
roberta_hub.index(sys.argv[1], sys.argv[2], progress=False, **how)
"""


def write_texts(path: Path, rows: int, seed: int = 0) -> None:
    """Recombine real sentences, of which a tenth are near-duplicates of earlier ones."""
    premises, hypotheses = sentences()
    draw = random.Random(seed)
    texts: list[str] = []
    for _ in range(rows):
        if texts and draw.random() < 0.1:
            words = draw.choice(texts).split()
            words[draw.randrange(len(words))] = draw.choice(premises).split()[0]
            texts.append(" ".join(words))
        else:
            texts.append(f"{draw.choice(premises)} {draw.choice(hypotheses)}")
    pq.write_table(pa.table({"id": range(rows), "text": texts}), path, row_group_size=16_384)


def queries(count: int, seed: int) -> list[str]:
    premises, hypotheses = sentences()
    draw = random.Random(seed)
    return [f"{draw.choice(hypotheses)} {draw.choice(premises)}" for _ in range(count)]


def build(source: Path, target: Path, rows: int, state: dict[str, Any], folder: Path) -> None:
    """Run the maker; kill it at random moments."""
    unit = max(1, rows // 40)
    draw = random.Random(time.time_ns())
    while not (target.exists() and len(roberta_hub.open_index(target)) == rows):
        began = time.monotonic()
        given = [sys.executable, "-c", DRIVE, str(source), str(target), str(unit)]
        process = subprocess.Popen(
            given, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        )
        wanted = len(parts(target)) + draw.randint(1, 40 // KILLS - 2)
        while process.poll() is None:
            time.sleep(0.5)
            if len(state["kills"]) < KILLS and len(parts(target)) >= wanted:
                time.sleep(draw.uniform(0, 2))
                process.kill()
                state["kills"].append(len(parts(target)))
        process.wait()
        state["seconds"] += time.monotonic() - began
        (folder / "state.json").write_text(json.dumps(state))


def parts(target: Path) -> list[Path]:
    return list(target.with_name(f"{target.name}.units").glob("part-*"))


def size(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


@dataclass(frozen=True)
class Times:
    """Milliseconds of one query at a time."""

    median: float
    p95: float
    cpu: float
    """Mean of all threads; what other programs take of the machine is not in it."""


def milliseconds(search: Callable[[Any], Any], vectors: Any) -> tuple[Times, list[Any]]:
    """Time each query, and return what was found."""
    taken, found = [], []
    before = time.process_time()
    for vector in vectors:
        began = time.perf_counter()
        found.append(search(vector))
        taken.append(1e3 * (time.perf_counter() - began))
    cpu = 1e3 * (time.process_time() - before) / len(taken)
    return Times(float(np.median(taken)), float(np.percentile(taken, 95)), cpu), found


def recall(found: list[list[int]], exact: list[list[int]]) -> float:
    return sum(len({*a} & {*b}) for a, b in zip(found, exact, strict=True)) / sum(map(len, exact))


def searches(index: Any, texts: list[str]) -> list[dict[str, Any]]:
    """The index, exact and not, and faiss on the same vectors."""
    import faiss
    import torch

    torch.set_num_threads(1)
    faiss.omp_set_num_threads(1)
    asked = index._model().embed(texts, prompt=index.about.query_prompt).numpy()
    rows = index.table.to_arrow().sort_by("_number")
    stored = np.stack(rows["vector"].combine_chunks().flatten().to_numpy().reshape(len(rows), -1))
    stored = stored.astype("float32")
    flat = faiss.IndexFlatIP(stored.shape[1])
    flat.add(stored)
    lists = int(2 * len(stored) ** 0.5)

    def listed(rest: str) -> tuple[Any, float]:
        began = time.monotonic()
        name = f"IVF{lists},{rest}"
        engine = faiss.index_factory(stored.shape[1], name, faiss.METRIC_INNER_PRODUCT)
        engine.train(stored)
        engine.add(stored)
        engine.nprobe = 40
        return engine, time.monotonic() - began

    built = {
        "faiss IndexIVFPQ, in memory": listed(f"PQ{stored.shape[1] // 16}"),
        "faiss IVF,SQ8, in memory": listed("SQ8"),
    }
    one = torch.from_numpy

    def ours(**how: Any) -> Callable[[Any], list[int]]:
        return lambda vector: [hit.index for hit in index.search(one(vector)[None], 10, **how)[0]]

    def theirs(engine: Any) -> Callable[[Any], list[int]]:
        return lambda vector: engine.search(vector[None], 10)[1][0].tolist()

    ways = {
        "index": ours(),
        "index, exact": ours(exact=True),
        "faiss IndexFlatIP, in memory": theirs(flat),
        **{name: theirs(engine) for name, (engine, _) in built.items()},
    }
    for search in ways.values():
        search(asked[0])  # opens what is opened once
    timed = {name: milliseconds(search, asked) for name, search in ways.items()}
    exact = timed["index, exact"][1]
    return [
        {
            "way": name,
            "recall": recall(found, exact),
            **asdict(times),
            **({"built": built[name][1]} if name in built else {}),
        }
        for name, (times, found) in timed.items()
    ]


def choose(index: Any) -> str:
    """Recall and milliseconds by constants of the index, on sentences that judge nothing."""
    import torch

    torch.set_num_threads(1)
    asked = index._model().embed(queries(ASIDE, seed=2), prompt=index.about.query_prompt).numpy()

    def found(vector: Any, probes: int, refine: int) -> list[int]:
        search = index.table.search(vector, vector_column_name="vector").distance_type("cosine")
        search = search.limit(10).select(["_number", "_distance"])
        search = search.nprobes(probes).refine_factor(refine) if probes else search
        search = search if probes else search.bypass_vector_index()
        return [row["_number"] for row in search.to_list()]

    exact = [found(vector, 0, 0) for vector in asked]
    lines = ["| partitions looked into | candidates a hit | recall@10 | ms, median | CPU ms |"]
    lines.append("|--:|--:|--:|--:|--:|")
    for probes in (10, 20, 40, 80):
        for refine in (1, 3, 5, 10):
            times, own = milliseconds(partial(found, probes=probes, refine=refine), asked)
            share = recall(own, exact)
            lines.append(
                f"| {probes} | {refine} | {share:.3f} | {times.median:.1f} | {times.cpu:.1f} |"
            )
    return "\n".join(lines)


def embedding_rates(texts: list[str], folder: Path) -> dict[str, float]:
    """Texts a second, one thread, ours and sentence-transformers on the same weights."""
    import torch
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(1)
    roberta = roberta_hub.load_model().eval()
    if not (folder / "hf").exists():
        roberta.save(folder / "hf", format="huggingface")
    peer = SentenceTransformer(str(folder / "hf"), device="cpu")
    fast = roberta_hub.load_model().eval().optimize("auto")
    ways: dict[str, Callable[[], Any]] = {
        "roberta_hub": lambda: roberta.embed(texts, progress=False),
        "roberta_hub, as the index": lambda: fast.embed(texts, progress=False),
        "sentence-transformers": lambda: peer.encode(texts, batch_size=64),
    }
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(3):
        for name, embed in ways.items():
            began = time.process_time()
            embed()
            taken[name].append(time.process_time() - began)
    return {name: len(texts) / float(np.median(times)) for name, times in taken.items()}


def pairs_by_brute_force(texts: list[str], threshold: float) -> set[tuple[int, int]]:
    """All pairs of a Jaccard index at or over a threshold, by a product of sparse matrices."""
    from scipy.sparse import csr_matrix

    from roberta_hub.indexing.near_words import shingles

    sets = [shingles(text) for text in texts]
    columns = {value: k for k, value in enumerate({v for own in sets for v in own})}
    flat = [columns[value] for own in sets for value in own]
    ends = np.cumsum([0, *map(len, sets)])
    matrix = csr_matrix((np.ones(len(flat), np.int32), flat, ends), (len(sets), len(columns)))
    both = (matrix @ matrix.T).tocoo()
    sizes = np.diff(ends)
    share = both.data / (sizes[both.row] + sizes[both.col] - both.data)
    near = (share >= threshold) & (both.row < both.col)
    return set(zip(both.row[near].tolist(), both.col[near].tolist(), strict=True))


def checked(found: Any, near: set[tuple[int, int]]) -> dict[str, Any]:
    """How many pairs that are near are left among the kept, and how many groups are wrong."""
    kept = {*found.kept}
    left = sum(a in kept and b in kept for a, b in near)
    wrong = sum(group != row and (group, row) not in near for row, group in enumerate(found.group))
    return {
        "pairs": len(near),
        "left": left,
        "recall": 1 - left / max(1, len(near)),
        "wrong": wrong,
        "dropped": found.rows - len(kept),
    }


def near_duplicates(texts: list[str], target: Path) -> dict[str, Callable[[], Any]]:
    """Both ways on all rows, and beside brute force on the first."""
    some = texts[:CHECKED_ROWS]

    def words() -> dict[str, Any]:
        found = roberta_hub.duplicates(texts, threshold=0.7)
        return {"rows": found.rows, "seconds": found.seconds, "report": str(found)}

    def words_checked() -> dict[str, Any]:
        found = roberta_hub.duplicates(some, threshold=0.7)
        return checked(found, pairs_by_brute_force(some, 0.7))

    def vectors() -> dict[str, Any]:
        found = roberta_hub.duplicates(target, by="vectors")
        near = near_vectors(target, found.threshold)
        first = list(found.group[:CHECKED_ROWS])
        kept = {row for row, group in enumerate(first) if row == group}
        left = sum(a in kept and b in kept for a, b in near)
        wrong = sum(
            group != row and (group, row) not in near and found.similarity[row] < 1
            for row, group in enumerate(first)
        )
        share = 1 - left / max(1, len(near))
        own = {"pairs": len(near), "left": left, "recall": share, "wrong": wrong}
        return {"seconds": found.seconds, "report": str(found), **own}

    return {"words": words, "words, checked": words_checked, "vectors, checked": vectors}


def near_vectors(target: Path, least: float) -> set[tuple[int, int]]:
    """All pairs of the first rows whose cosine is not less."""
    rows = roberta_hub.open_index(target).table.to_arrow().sort_by("_number")[:CHECKED_ROWS]
    vectors = rows["vector"].combine_chunks().flatten().to_numpy().reshape(len(rows), -1)
    near = set()
    for start in range(0, len(vectors), 1000):
        a, b = np.nonzero(vectors[start : start + 1000] @ vectors.T >= least)
        near |= {
            (i + start, j) for i, j in zip(a.tolist(), b.tolist(), strict=True) if i + start < j
        }
    return near


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--choose", action="store_true")
    parser.add_argument("--no-vectors", action="store_true", help="no near-duplicates by vectors")
    given = parser.parse_args()
    folder, rows = given.folder, given.rows
    folder.mkdir(parents=True, exist_ok=True)
    source, target = folder / "texts.parquet", folder / "texts.lance"
    if not source.exists():
        write_texts(source, rows)
    noted = folder / "state.json"
    state = json.loads(noted.read_text()) if noted.exists() else {"kills": [], "seconds": 0.0}
    build(source, target, rows, state, folder)
    texts = pq.read_table(source)["text"].to_pylist()
    index = roberta_hub.open_index(target)
    if given.choose:
        print(choose(index))
        return

    def measured(name: str, measure: Callable[[], Any]) -> Any:
        """Measure, or read what a call that was killed has noted."""
        if name not in state:
            state[name] = measure()
            noted.write_text(json.dumps(state))
        return state[name]

    def once() -> bool:
        there = index.table.to_arrow().sort_by("_number")
        return there["id"].to_pylist() == [*range(rows)] and there["text"].to_pylist() == texts

    sizes = {"index": size(target), "source": source.stat().st_size}
    numbers = {
        "about": about("torch", "lancedb", "datasketch", "faiss-cpu", "sentence-transformers"),
        "rows": rows,
        "bytes": {**sizes, "vectors": rows * index.about.width * 4},
    }
    measured("each row once, in order", once)
    measured("searches", lambda: searches(index, queries(QUERIES, seed=1)))
    measured("texts a second", lambda: embedding_rates(texts[:PEER_ROWS], folder))
    for name, measure in near_duplicates(texts, target).items():
        if not (given.no_vectors and name.startswith("vectors")):
            measured(name, measure)
    numbers |= state
    write("index" if rows < MANY else f"index_{rows}", page(numbers), numbers)


def page(numbers: dict[str, Any]) -> str:
    """The page of results."""
    rates = numbers["texts a second"]
    sizes = {name: f"{count / 1e6:,.0f} MB" for name, count in numbers["bytes"].items()}
    rows = [
        f"| {way['way']} | {way['recall']:.3f} | {way['median']:.1f} | {way['p95']:.1f} | "
        f"{way['cpu']:.1f} |"
        for way in numbers["searches"]
    ]
    checks = [
        f"| {name} | {own['pairs']:,} | {own['left']:,} | {own['recall']:.4f} | {own['wrong']} |"
        for name, own in numbers.items()
        if name.endswith("checked")
    ]
    return "\n".join(
        [
            f"# {numbers['rows']:,} recombined sentences in an index",
            "",
            f"Again: `python benchmarks/index.py FOLDER --rows {numbers['rows']}`.",
            "",
            f"- roberta.tiny, 384 numbers a vector; {numbers['seconds']:,.0f} seconds of a shared "
            f"machine, with {len(numbers['kills'])} kills (at {numbers['kills']} of 40 parts) and "
            "the starts after them.",
            f"- Each row is there once, in order: {numbers['each row once, in order']}.",
            f"- The index has {sizes['index']}, its vectors alone {sizes['vectors']}, the texts' "
            f"Parquet {sizes['source']}.",
            f"- Texts a CPU second, one thread, of {PEER_ROWS:,}: "
            + ", ".join(f"{name} {rate:,.0f}" for name, rate in rates.items())
            + ".",
            "",
            f"{QUERIES} other sentences, one at a time, without the model:",
            "",
            "| | recall@10 | ms, median | ms, p95 | CPU ms |",
            "|---|--:|--:|--:|--:|",
            *rows,
            "",
            "Near-duplicates: "
            + ". ".join(
                own["report"]
                for own in numbers.values()
                if isinstance(own, dict) and "report" in own
            )
            + f". Compared with brute force on the first {CHECKED_ROWS:,} rows:",
            "",
            "| | near pairs | of which both are kept | found | wrong |",
            "|---|--:|--:|--:|--:|",
            *checks,
        ]
    )


if __name__ == "__main__":
    main()

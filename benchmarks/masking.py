"""Dynamic beside static masking, the comparison of Liu et al. 2019 (section 4.1) at a scale of two CPU cores.

    python benchmarks/masking.py                 # nine runs, about ten minutes
    python benchmarks/masking.py --epochs 4 --seeds 1

A small masked LM goes forty times over a small text, as BERT did over its own. Static: each sequence has ten masks that
take turns (so each is seen four times), or a single one. Dynamic: a new mask each time. All are judged on held-out
text under the same masks. Runs that are done are not done again. Writes `benchmarks/results/masking.{md,json,png}`.
"""

from __future__ import annotations

import argparse
import csv
import lzma
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import mean, stdev

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
SHARED = Path(os.environ.get("ROBERTA_HUB_SHARED", ROOT.parent / "shared"))
WORK = ROOT / "runs" / "masking"
KINDS = {
    "dynamic": "",
    "static, 10 masks": ", copies: 10",
    "static, 1 mask": ", copies: 1",
}
TRAIN, VALID = 300_000, 300_000
"""Characters of text."""
Curve = list[tuple[int, float]]
"""(epoch, held-out loss)"""


def prepare() -> None:
    """Two stretches of Wikipedia, of different articles."""
    WORK.mkdir(parents=True, exist_ok=True)
    path = SHARED / "data/pretrain/simplewiki_2022.txt.xz"
    with lzma.open(path, "rt", encoding="utf-8") as file:
        text = file.read(TRAIN + VALID)
    cut = text.index("\n\n", TRAIN)
    (WORK / "train.txt").write_text(text[:cut], encoding="utf-8")
    (WORK / "valid.txt").write_text(text[cut:], encoding="utf-8")


def curve(kind: str, seed: int, epochs: int) -> Curve:
    """Train once; the held-out loss along the way."""
    folder = WORK / f"{kind.replace(', ', '-').replace(' ', '-')}-{epochs}-{seed}"
    done = folder / "done"
    settings = [
        "pretrain=tiny",
        "architecture={embed_dim: 128, embedding_dim: 64, ffn_dim: 512, num_layers: 2, num_heads: 2}",
        f"data.train={WORK}/train.txt",
        f"data.valid={WORK}/valid.txt",
        f"output={folder}",
        f"seed={seed}",
        f"task.options={{block_size: 128, start: informed{KINDS[kind]}}}",
        "optimizer.lr=2e-3",
        "optimizer.warmup_updates=50",
        "optimizer.total_updates=null",
        "batch.max_tokens=2048",
        "loop.max_updates=null",
        f"loop.max_epochs={epochs}",
        "loop.evaluate_every=100",
        "loop.progress=false",
    ]
    if not done.is_file():
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "roberta_hub", "train", *settings]
        run = subprocess.run(command, env=environment, capture_output=True, text=True)
        if run.returncode:
            raise SystemExit(f"{kind}, seed {seed} failed:\n{run.stderr[-2000:]}")
        done.touch()
    with (folder / "valid.csv").open() as file:
        found = [(int(row["update"]), float(row["loss"])) for row in csv.DictReader(file)]
    return found


def plot(curves: dict[str, list[Curve]], path: Path) -> None:
    """Mean and range over seeds."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.2), layout="constrained")
    for kind, own in curves.items():
        updates = [u for u, _ in own[0]]
        losses = list(zip(*([loss for _, loss in c] for c in own), strict=True))
        (line,) = axes.plot(updates, [mean(at) for at in losses], label=kind)
        low, high = [min(at) for at in losses], [max(at) for at in losses]
        axes.fill_between(updates, low, high, color=line.get_color(), alpha=0.2, linewidth=0)
    axes.set_xlabel("updates")
    axes.set_ylabel("held-out loss, nats a masked token")
    axes.set_title(
        "Static and dynamic masking: mean and range of three seeds", loc="left", fontsize=11
    )
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    figure.savefig(path, dpi=120)


def main() -> None:
    """Train, compare, and write the result."""
    from report import RESULTS, about, write

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    prepare()
    jobs = [(kind, seed, options.epochs) for seed in range(1, options.seeds + 1) for kind in KINDS]
    curve(*jobs[0])  # alone, so that the others find its tokens in the page cache
    with ThreadPoolExecutor(options.processes) as pool:
        found = list(pool.map(lambda job: curve(*job), jobs))
    curves: dict[str, list[Curve]] = {kind: [] for kind in KINDS}
    for (kind, _, _), own in zip(jobs, found, strict=True):
        curves[kind].append(own)
    page = table(curves, options.epochs)
    print(page)
    plot(curves, WORK / "masking.png")
    if options.epochs >= 40 and options.seeds >= 3:
        plot(curves, RESULTS / "masking.png")
        write(
            "masking", page, {"about": about("torch"), "epochs": options.epochs, "curves": curves}
        )


def table(curves: dict[str, list[Curve]], epochs: int) -> str:
    """The numbers as Markdown, and what they say."""
    lines = [
        "| masking | best held-out loss, each seed | mean (standard deviation) | at the end |",
        "|---|---|--:|--:|",
    ]
    best = {kind: [min(loss for _, loss in c) for c in own] for kind, own in curves.items()}
    for kind, own in curves.items():
        spread = stdev(best[kind]) if len(own) > 1 else 0.0
        each = ", ".join(f"{b:.3f}" for b in best[kind])
        last = mean(c[-1][1] for c in own)
        lines.append(f"| {kind} | {each} | {mean(best[kind]):.3f} ({spread:.3f}) | {last:.3f} |")
    dynamic = best["dynamic"]
    said = []
    for kind in list(KINDS)[1:]:
        gap = mean(best[kind]) - mean(dynamic)
        sure = max(dynamic) < min(best[kind]) or min(dynamic) > max(best[kind])
        word = "lower" if gap > 0 else "higher"
        doubt = "in every seed" if sure else "but the seeds overlap"
        said.append(
            f"Dynamic masking's best loss is {abs(gap):.3f} {word} than that of {kind}, {doubt}."
        )
    return (
        f"# Static and dynamic masking\n\nA masked LM of 2 layers x 128, {epochs} epochs over {TRAIN // 1000} kB of Simple "
        "English Wikipedia. Again: `python benchmarks/masking.py`.\n\n"
        + "\n".join(lines)
        + "\n\n"
        + " ".join(said)
        + "\n\n![held-out loss](masking.png)\n"
    )


if __name__ == "__main__":
    main()

"""Pre-trains one small model under the choices that the papers compare, for equal time.

    python benchmarks/papers.py                  # resumes where it was; three hours on two cores
    python benchmarks/papers.py --minutes 60     # begins no stage after that
    python benchmarks/papers.py --quick          # whether it works, three minutes; writes no result

Inputs and objectives of BERT, RoBERTa, ALBERT, ELECTRA and SpanBERT, each an arm. All have the same
text, vocabulary, encoder and processor time: an update of each is measured first, and a cheaper one
gets more of them. An arm is trained in stages, and judged after each by what no objective touches:
the loss of masked tokens of held-out full sentences, and BLiMP's minimal pairs; at its end by MNLI
after a short fine-tuning. The first weights come from the text's statistics (`start=informed`):
from random ones so short a run learns word frequencies alone.

Text: Simple English Wikipedia of `../shared/data` (or $ROBERTA_HUB_SHARED/data), a sentence a line.
Runs stand in `runs/papers`, an arm a process, as many at once as there are cores. Every finished
arm is written to `benchmarks/results/papers.{json,md,png}`; another machine resumes from there.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import lzma
import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import mean, median
from typing import Any

from lib.corpus import shared_file

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
FOLDER = ROOT / "runs/papers"
PAIRS, NEXT, ORDER = "sentences: segment_pair", "next_sentence", "sentence_order"
ARMS: dict[str, tuple[str, str]] = {
    "full sentences": ("masked_lm", "sentences: full"),
    "sentences of one document": ("masked_lm", "sentences: doc"),
    "segment pairs": ("masked_lm", PAIRS),
    "segment pairs, next sentence": ("masked_lm", f"{PAIRS}, objectives: [{NEXT}]"),
    "sentence pairs, next sentence": (
        "masked_lm",
        f"sentences: sentence_pair, objectives: [{NEXT}]",
    ),
    "segment pairs, sentence order": ("masked_lm", f"{PAIRS}, objectives: [{ORDER}]"),
    "replaced tokens": ("replaced_tokens", "sentences: full"),
    "spans": ("masked_lm", "sentences: full, unit: span"),
    "spans, boundary": (
        "masked_lm",
        "sentences: full, unit: span, objectives: [span_boundary]",
    ),
}
"""Each arm's `task.name` and `task.options`."""
SEEDS = (1, 2)
SENTENCE = re.compile(r"(?<=[.!?])[\"')\]]?\s+(?=[\"'(\[]?[A-Z0-9])")


@dataclasses.dataclass(frozen=True)
class Scale:
    """How large the model is and how long it learns."""

    name: str = "runs"
    words: int = 8_000_000
    held_out: int = 60_000
    """Words of the held-out articles."""
    vocabulary: int = 8_192
    seconds: int = 600
    """Processor time of an arm's updates."""
    stages: int = 4
    measured: int = 18
    """Updates that are measured."""
    minimal_pairs: int | None = None
    """Lines of BLiMP; None: all."""
    mnli: int = 12_000
    """Pairs to learn."""
    mnli_held_out: int = 5_000

    @property
    def folder(self) -> Path:
        """Where its runs stand."""
        return FOLDER / self.name


QUICK = Scale("quick", 120_000, 8_000, 2_048, 12, 2, 6, 400, 500, 125)
ENCODER = {
    "embed_dim": 192,
    "ffn_dim": 768,
    "num_layers": 4,
    "num_heads": 3,
    "max_positions": 128,
    "dropout": 0.0,
    "attention_dropout": 0.0,
}


# ---- text ----


def articles() -> Iterator[list[str]]:
    """Read the paragraphs of each article."""
    path = shared_file("data/pretrain/simplewiki_2022.txt.xz")
    with lzma.open(path, "rt", encoding="utf-8") as file:
        for blank, lines in itertools.groupby(file, key=lambda line: not line.strip()):
            if not blank:
                yield [line.strip() for line in lines]


def prepare(scale: Scale) -> None:
    """Write the text, a sentence a line, and learn its vocabulary, once."""
    if (scale.folder / "vocabulary").is_dir():
        return
    from roberta_hub.train.data.learnt_vocabulary import learn_vocabulary

    scale.folder.mkdir(parents=True, exist_ok=True)
    found = articles()
    for name, words in (("valid", scale.held_out), ("train", scale.words)):
        count, documents = 0, []
        while count < words:
            sentences = [part for line in next(found) for part in SENTENCE.split(line) if part]
            if len(sentences) > 1:  # one alone has no order
                documents.append("\n".join(sentences) + "\n")
                count += sum(len(sentence.split()) for sentence in sentences)
        (scale.folder / f"{name}.txt").write_text("\n".join(documents), encoding="utf-8")
    learn_vocabulary(
        [str(scale.folder / "train.txt")], scale.folder / "vocabulary", scale.vocabulary
    )


# ---- one arm, in a process of its own ----


def settings(arm: str, seed: int, scale: Scale, output: Path, updates: int) -> list[str]:
    """List an arm's settings, as our command line would have them."""
    task, options = ARMS[arm]
    encoder = ", ".join(f"{name}: {value}" for name, value in ENCODER.items())
    return [
        "pretrain=tiny",
        f"architecture={{{encoder}}}",
        f"data.vocabulary={scale.folder / 'vocabulary'}",
        f"data.train={scale.folder / 'train.txt'}",
        f"output={output}",
        f"seed={seed}",
        f"task.name={task}",
        f"task.options={{block_size: 128, start: informed, {options}}}",
        "optimizer.lr=2e-3",
        f"optimizer.warmup_updates={max(1, updates // 20)}",
        f"optimizer.total_updates={updates}",
        "batch.max_tokens=4096",
        "batch.update_freq=1",
        "loop.evaluate_every=0",
        "loop.precision='no'",
        "loop.progress=false",
    ]


def train(arm: str, seed: int, scale: Scale, output: Path, until: int, updates: int) -> None:
    """Train up to an update; a run that was there resumes."""
    from roberta_hub.train.config import compose
    from roberta_hub.train.run import run

    run(compose([*settings(arm, seed, scale, output, updates), f"loop.max_updates={until}"]))


def seconds_of_an_update(arm: str, scale: Scale) -> float:
    """Measure the processor time of an arm's update, in this process."""
    output = scale.folder / "measured" / short(arm)
    few, used = scale.measured // 3, []
    for until in (few, 2 * few, 3 * few + scale.measured):
        train(arm, 1, scale, output, until, 10 * scale.measured)
        used.append(resource.getrusage(resource.RUSAGE_SELF).ru_utime)
    # The last two runs resume, at the same cost; the last makes that many updates more.
    return ((used[2] - used[1]) - (used[1] - used[0])) / scale.measured


def judge(arm: str, output: Path, scale: Scale) -> dict[str, float]:
    """Measure a model by what no arm is trained for."""
    import roberta_hub
    from roberta_hub.train.config import compose
    from roberta_hub.train.tasks.build import build_task

    roberta = roberta_hub.load_model(output / "last").eval()
    found: dict[str, float] = {}
    if ARMS[arm][0] == "masked_lm":
        held_out = f"data.valid={scale.folder / 'valid.txt'}"
        own = settings("full sentences", 1, scale, scale.folder / "judged" / output.name, 100)
        options = "task.options={block_size: 128}"
        config = compose([*own, options, held_out, held_out.replace("valid", "train", 1)])
        numbers = build_task(config, roberta, fresh=False).evaluate()
        found |= {"held-out loss": numbers["loss"], "guessed": numbers["top1"]}
    pairs = minimal_pairs(scale)
    if ARMS[arm][0] == "masked_lm":
        roberta.optimize()
        found["BLiMP"] = roberta_hub.evaluate(roberta, pairs)["accuracy"]
    return found


def minimal_pairs(scale: Scale) -> list[dict[str, Any]]:
    """Read BLiMP's pairs; fewer of them evenly."""
    with lzma.open(shared_file("data/eval/blimp_sample.jsonl.xz"), "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    step = 1 if scale.minimal_pairs is None else len(rows) // scale.minimal_pairs
    return rows[::step]


def fine_tuned(output: Path, scale: Scale) -> float:
    """Measure MNLI after a short fine-tuning."""
    import roberta_hub
    from roberta_hub.train.config import compose
    from roberta_hub.train.run import run

    rows = {}
    for name, most in (("train", scale.mnli), ("mnli_dev_matched", scale.mnli_held_out)):
        path = scale.folder / f"{name}.jsonl"
        rows[name] = path
        if not path.is_file():
            with lzma.open(shared_file(f"data/nli/{name}.tsv.xz"), "rt", encoding="utf-8") as file:
                columns = next(file).rstrip("\n").split("\t")
                lines = (line.rstrip("\n").split("\t") for line in file)
                wanted = (dict(zip(columns, line, strict=True)) for line in lines)
                kept = [row for row in wanted if row.get("source", "mnli").startswith("mnli")]
            text = "".join(
                json.dumps({key: row[key] for key in ("premise", "hypothesis", "label")}) + "\n"
                for row in kept[:most]
            )
            path.write_text(text, encoding="utf-8")
    place = output.parent / f"{output.name} mnli"
    run(
        compose(
            [
                "finetune=mnli",
                f"model={output / 'last'}",
                f"data.train={rows['train']}",
                f"output={place}",
                "data.format=null",
                "data.columns={sentence: premise, sentence2: hypothesis}",
                "task.options={max_length: 128, truncate: true}",
                "optimizer.lr=5e-4",
                "optimizer.width=null",
                "optimizer.warmup_updates=null",
                "optimizer.total_updates=null",
                "batch.max_tokens=4096",
                "loop.max_updates=null",
                "loop.max_epochs=2",
                "loop.evaluate_every=0",
                "loop.progress=false",
            ]
        )
    )
    tuned = roberta_hub.load_model(place / "last").eval().optimize()
    return float(
        roberta_hub.evaluate(tuned, str(rows["mnli_dev_matched"]), truncate=True)["accuracy"]
    )


def run_arm(arm: str, seed: int, scale: Scale, updates: int, deadline: float) -> None:
    """Train an arm stage by stage and write what came out after each; what is done stays."""
    output = folder_of(arm, seed, scale)
    path = output.with_suffix(".json")
    fresh = {"seed": seed, "stages": []}
    found = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else fresh
    while len(found["stages"]) < scale.stages and time.time() < deadline:
        until = updates * (len(found["stages"]) + 1) // scale.stages
        train(arm, seed, scale, output, until, updates)
        found["stages"].append({"update": until, **judge(arm, output, scale)})
        path.write_text(json.dumps(found), encoding="utf-8")
    if len(found["stages"]) == scale.stages and "MNLI" not in found and time.time() < deadline:
        found["MNLI"] = fine_tuned(output, scale)
        path.write_text(json.dumps(found), encoding="utf-8")


def short(arm: str) -> str:
    """Name an arm's folder."""
    return arm.replace(",", "").replace(" ", "-")


def folder_of(arm: str, seed: int, scale: Scale) -> Path:
    """Name the folder of a run."""
    return scale.folder / f"{short(arm)}-{seed}"


# ---- all of them ----

Found = dict[str, list[dict[str, Any]]]
"""What came of each seed, by arm."""


def child(*words: str, quick: bool) -> str:
    """Run this script for one arm in a process with one thread; return what it prints last."""
    command = [sys.executable, __file__, *words, *(["--quick"] if quick else [])]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True)
    if ran.returncode:
        raise SystemExit(f"{' '.join(words)} failed:\n{ran.stderr[-3000:]}")
    return ran.stdout.rstrip().rpartition("\n")[2]


def costs(scale: Scale) -> dict[str, float]:
    """Return the seconds of an update of each arm, measured once, one arm at a time.

    Arms with the same work share the median of their measurements: the rest is noise.
    """
    path = scale.folder / "seconds.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    for arm in ARMS:
        if arm not in known:
            known[arm] = float(child("--measure", arm, quick=scale == QUICK))
            path.write_text(json.dumps(known, indent=1), encoding="utf-8")
            print(f"{arm}: {known[arm]:.3f} s an update", flush=True)
    alike: dict[Any, list[float]] = {}
    for arm in ARMS:
        alike.setdefault(extra_work(arm), []).append(known[arm])
    return {arm: median(alike[extra_work(arm)]) for arm in ARMS}


def extra_work(arm: str) -> tuple[bool, bool]:
    """Tell arms with more matrix products apart; those that choose other inputs cost the same."""
    task, options = ARMS[arm]
    return task == "replaced_tokens", "span_boundary" in options


def restore(scale: Scale) -> None:
    """Take what another machine finished, and its seconds of an update, from the results."""
    from lib.report import RESULTS

    path = RESULTS / "papers.json"
    if scale == QUICK or not path.is_file():
        return
    known = json.loads(path.read_text(encoding="utf-8"))
    files = {scale.folder / "seconds.json": known["seconds of an update"]}
    for arm, runs in known["arms"].items():
        files |= {folder_of(arm, run["seed"], scale).with_suffix(".json"): run for run in runs}
    for place, content in files.items():
        if not place.is_file():
            place.write_text(json.dumps(content, indent=1), encoding="utf-8")


def collected(scale: Scale) -> Found:
    """Read what is finished of each arm."""
    found: Found = {}
    for arm in ARMS:
        paths = [folder_of(arm, seed, scale).with_suffix(".json") for seed in SEEDS]
        read = [json.loads(path.read_text(encoding="utf-8")) for path in paths if path.is_file()]
        found[arm] = read
    return found


def table(scale: Scale, seconds: dict[str, float], found: Found) -> str:
    """Write the page."""
    lines = [
        "# The papers' choices",
        "",
        f"One small model ({ENCODER['num_layers']} layers x {ENCODER['embed_dim']}, "
        f"{scale.vocabulary:,} symbols, inputs of 128 tokens) on {scale.words:,} words of Simple "
        f"English Wikipedia, {scale.seconds:,} seconds of one core for each arm and seed.",
        "Held-out loss: nats per masked token of full sentences, under the same masks for all; an",
        "arm that masks spans was not trained for such masks. BLiMP: minimal pairs whose right",
        "sentence is the likelier one; 50 % is chance. MNLI: dev-matched, after two epochs of",
        f"{scale.mnli:,} pairs; 33 % is chance. Each seed's number, and their mean.",
        "",
        "| arm | updates | held-out loss | BLiMP, % | MNLI, % |",
        "|---|--:|--:|--:|--:|",
    ]
    for arm, runs in found.items():
        ends = [run["stages"][-1] for run in runs if len(run["stages"]) == scale.stages]
        cells = [
            spread([end["held-out loss"] for end in ends if "held-out loss" in end], 3),
            spread([100 * end["BLiMP"] for end in ends if "BLiMP" in end], 1),
            spread([100 * run["MNLI"] for run in runs if "MNLI" in run], 1),
        ]
        updates = f"{int(scale.seconds / seconds[arm]):,}"
        lines.append(f"| {arm} | {updates} | {' | '.join(cells)} |")
    lines += [
        "",
        "![Held-out loss over the time of an arm, and what each seed reached](papers.png)",
        "",
    ]
    return "\n".join([*lines, "Again: `python benchmarks/papers.py`."])


def spread(values: list[float], digits: int) -> str:
    """Write the seeds' numbers and their mean."""
    if not values:
        return "–"
    each = ", ".join(f"{value:.{digits}f}" for value in values)
    return each if len(values) == 1 else f"{each}: **{mean(values):.{digits}f}**"


def plot(path: Path, scale: Scale, found: Found) -> None:
    """Plot the held-out loss over an arm's time, and what each seed of an arm reached."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        1, 4, figsize=(9.6, 3.9), dpi=150, width_ratios=(1.4, 1, 1, 1), layout="constrained"
    )
    curves, *dots = axes
    minutes = [scale.seconds / 60 * (i + 1) / scale.stages for i in range(scale.stages)]
    for number, (arm, runs) in enumerate(found.items()):
        stages = [run["stages"] for run in runs if "held-out loss" in run["stages"][-1]]
        means = [mean(stage["held-out loss"] for stage in at) for at in zip(*stages, strict=False)]
        curves.plot(minutes[: len(means)], means, color=f"C{number}", marker="o", markersize=3)
        for axis, values in zip(dots, reached(arm, runs), strict=True):
            axis.scatter(values, [number] * len(values), color=f"C{number}", s=14, zorder=2)
    curves.set(xlabel="minutes of one core", title="held-out loss")
    for axis, title in zip(dots, ("loss at the end", "BLiMP, %", "MNLI, %"), strict=True):
        axis.set(
            title=title, yticks=range(len(found)), yticklabels=[], ylim=(len(found) - 0.5, -0.5)
        )
    dots[0].set_yticklabels(found)
    for number, label in enumerate(dots[0].get_yticklabels()):
        label.set_color(f"C{number}")
    for axis in axes:
        axis.grid(alpha=0.3)
    figure.savefig(path)
    pyplot.close(figure)


def reached(arm: str, runs: list[dict[str, Any]]) -> tuple[list[float], list[float], list[float]]:
    """List held-out loss, BLiMP and MNLI of an arm's seeds; no loss where masks were spans."""
    ends = [run["stages"][-1] for run in runs]
    spans = "unit: span" in ARMS[arm][1]
    losses = [end["held-out loss"] for end in ends if "held-out loss" in end and not spans]
    blimp = [100 * end["BLiMP"] for end in ends if "BLiMP" in end]
    return losses, blimp, [100 * run["MNLI"] for run in runs if "MNLI" in run]


def publish(scale: Scale, seconds: dict[str, float]) -> None:
    """Write the results of what is finished."""
    from lib.report import RESULTS, about, write

    found = collected(scale)
    if scale != QUICK:  # a run that is not at its end resumes from its own folder
        found = {arm: [run for run in runs if "MNLI" in run] for arm, runs in found.items()}
    page = table(scale, seconds, found)
    if scale == QUICK:
        print(page)
        plot(scale.folder / "papers.png", scale, found)
        return
    about_it = {"about": about("torch"), "seconds of an update": seconds, "arms": found}
    write("papers", page, about_it)
    plot(RESULTS / "papers.png", scale, found)


def main() -> None:
    """Measure, train, judge, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    for name in ("--measure", "--arm", "--seed", "--updates", "--deadline"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    given = parser.parse_args()
    scale = QUICK if given.quick else Scale()
    if given.measure:
        print(seconds_of_an_update(given.measure, scale))
        return
    if given.arm:
        run_arm(given.arm, int(given.seed), scale, int(given.updates), float(given.deadline))
        return
    deadline = time.time() + 60 * given.minutes
    prepare(scale)
    restore(scale)
    seconds = costs(scale)

    def launch(seed: int, arm: str) -> None:
        if time.time() < deadline:
            words = ["--arm", arm, "--seed", str(seed), "--deadline", str(deadline)]
            updates = str(int(scale.seconds / seconds[arm]))
            child(*words, "--updates", updates, quick=given.quick)
            print(f"{arm}, seed {seed}", flush=True)

    with ThreadPoolExecutor(given.workers) as pool:
        for _ in pool.map(launch, *zip(*itertools.product(SEEDS, ARMS), strict=True)):
            publish(scale, seconds)


if __name__ == "__main__":
    main()

"""Compares our loop with transformers' Trainer: losses step by step, and tokens a second.

Both get the same model, data, masks and order.

    python benchmarks/trainer.py                 # about a quarter of an hour on two cores
    python benchmarks/trainer.py --steps 20 --rounds 1

Both pre-train the same small RoBERTa in float32 without dropout, with AdamW in the same groups, the
same clipping and the same learning rate at each step. Trainer gets our batches, masked by our code,
as padded tensors. Rounding differs with the order of sums, and grows as training continues; so each
step counts the largest difference until then. The spread is that difference between transformers on
one and on two threads, and at least 1e-6, the resolution of float32 at such a loss. Our difference
from transformers on as many threads may be three times the spread. A pair of runs is one draw of
something chaotic, hence three seeds, which decide order and masks.

Speed counts real tokens; our time includes masking and packing, Trainer's batches are ready. Text:
the first paragraphs of 5-400 words of `../shared/data/pretrain/simplewiki_2022` (or under
$ROBERTA_HUB_SHARED), else the descriptions of the packages installed here. Writes
`benchmarks/results/trainer.{md,json}`.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from itertools import accumulate
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
PARAGRAPHS = 4000
SMALL = {"embed_dim": 128, "ffn_dim": 512, "num_layers": 2, "num_heads": 2}
MIDDLE = {"embed_dim": 256, "ffn_dim": 1024, "num_layers": 4, "num_heads": 4}
PEAK = 1e-3
RESOLUTION = 1e-6
"""Resolution of a float32 loss between 8 and 16."""
THREADS = (1, 2)
ORDERS = {
    "random order, 16 paragraphs a batch": {"batch_size": 16},
    "like lengths together, 2048 tokens a batch": {"max_tokens": 2048},
}
"""Batches in the comparison of speed: Trainer's own order, and the one that pads least."""
SEEDS = (1, 2, 3)
Limits = dict[str, int]
"""Limits of a batch, and the seed."""
Run = dict[str, list[float]]
"""Losses, learning rates, real tokens and clock of each step."""


def settings(folder: Path, steps: int, limits: Limits) -> list[str]:
    """List the settings of one run, as for our command line; every paragraph is a sequence."""
    return [
        f"seed={limits.get('seed', 1)}",
        "pretrain=base",
        f"model={folder}/ours",
        "pretrained=true",
        f"data.train={folder}/text.txt",
        f"output={folder}/run",
        "resume=false",
        "task.options={sentences: doc}",
        f"optimizer.lr={PEAK}",
        "optimizer.decay=weights",
        "optimizer.clip_norm=1.0",
        f"optimizer.warmup_updates={steps // 10}",
        "optimizer.total_updates=null",
        f"batch.max_tokens={limits.get('max_tokens', 'null')}",
        f"batch.batch_size={limits.get('batch_size', 'null')}",
        "batch.update_freq=1",
        f"loop.max_updates={steps}",
        "loop.evaluate_every=0",
        "loop.log_every=1",
        "loop.precision=no",
        "loop.progress=false",
    ]


# ---- one engine each, in a process of its own ----


def ours(folder: Path, steps: int, limits: Limits) -> Run:
    """Train with our loop."""
    from roberta_hub.train.config import compose
    from roberta_hub.train.run import run

    run(compose(settings(folder, steps, limits)))
    with (folder / "run/log.csv").open() as file:
        rows = list(csv.DictReader(file))
    columns = {"losses": "loss", "rates": "lr", "tokens": "tokens", "times": "seconds"}
    return {name: [float(row[column]) for row in rows] for name, column in columns.items()}


def transformers(folder: Path, steps: int, limits: Limits) -> Run:
    """Train with transformers' Trainer, whose data has one of our batches as each item."""
    import torch
    from transformers import RobertaForMaskedLM, Trainer, TrainerCallback, TrainingArguments

    batches, tokens = padded_batches(folder, steps, limits)
    found: Run = {"losses": [], "rates": [], "tokens": tokens, "times": []}

    class InOrder(Trainer):
        def compute_loss(self, *args: Any, **keywords: Any) -> Any:
            loss = super().compute_loss(*args, **keywords)
            found["losses"].append(loss.item())  # its own log rounds
            found["rates"].append(self.optimizer.param_groups[0]["lr"])
            return loss

        def _get_train_sampler(self, *args: Any) -> Any:
            return torch.utils.data.SequentialSampler(batches)

    class Clock(TrainerCallback):
        def on_step_end(self, *args: Any, **keywords: Any) -> None:
            found["times"].append(time.monotonic())

    arguments = TrainingArguments(
        output_dir=str(folder / "trainer"),
        max_steps=steps,
        per_device_train_batch_size=1,
        learning_rate=PEAK,
        lr_scheduler_type="linear",
        warmup_steps=steps // 10,
        adam_beta1=0.9,
        adam_beta2=0.98,
        adam_epsilon=1e-6,
        weight_decay=0.01,
        max_grad_norm=1.0,
        use_cpu=True,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        logging_strategy="no",
    )
    model = RobertaForMaskedLM.from_pretrained(folder / "huggingface")
    # BERT's table of token types, a row of zeros in a RoBERTa; fairseq's has none, so it is not
    # trained.
    model.roberta.embeddings.token_type_embeddings.weight.requires_grad_(False)
    parts = {"train_dataset": batches, "data_collator": lambda items: items[0]}
    InOrder(model, arguments, callbacks=[Clock()], **parts).train()
    return found


def padded_batches(folder: Path, steps: int, limits: Limits) -> tuple[list[Any], list[float]]:
    """The batches that our loop would see, as transformers wants them.

    The real tokens of each stand beside them.
    """
    import torch

    from roberta_hub.train.config import compose
    from roberta_hub.train.data.batches import plan_epoch
    from roberta_hub.train.run import make_task

    config = compose(settings(folder, steps, limits))
    task = make_task(config)
    size = config.batch
    updates = plan_epoch(
        task.lengths(0), size.max_tokens, seed=config.seed, epoch=0, batch_size=size.batch_size
    )
    batches, tokens = [], []
    for (indices,) in updates[:steps]:
        made = task.batch(indices, 0)
        labels = torch.full_like(made.packed.ids, -100)
        labels[made.targets["rows"]] = made.targets["ids"]
        real = made.packed.unpack(torch.ones_like(labels))
        columns = {
            "input_ids": made.packed.unpack(made.packed.ids).masked_fill(real == 0, 1),
            "attention_mask": real,
            "labels": made.packed.unpack(labels).masked_fill(real == 0, -100),
        }
        batches.append(columns)
        tokens.append(float(sum(made.packed.lengths)))
    return batches, tokens


ENGINES = {"roberta_hub": ours, "transformers": transformers}


def launch(engine: str, folder: Path, steps: int, limits: Limits, threads: int) -> Run:
    """Run an engine in a process of its own."""
    environment = os.environ | {"OMP_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "false"}
    command = [sys.executable, __file__, "--engine", engine, "--folder", str(folder)]
    command += ["--steps", str(steps), "--limits", json.dumps(limits)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{engine} failed:\n{done.stderr[-3000:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


# ---- both ----


def prepare(folder: Path, shape: dict[str, int]) -> str:
    """Write the text, and one random model in both formats."""
    import torch
    from lib.corpus import paragraphs

    from roberta_hub import RobertaConfig, RobertaHubInterface, RobertaModel
    from roberta_hub.text import Dictionary, Task

    source, text = paragraphs(PARAGRAPHS)
    (folder / "text.txt").write_text("\n\n".join(text) + "\n", encoding="utf-8")
    torch.manual_seed(1)
    model = RobertaModel(RobertaConfig(**shape, dropout=0.0, attention_dropout=0.0))  # type: ignore[arg-type]
    roberta = RobertaHubInterface(model.config, Task(Dictionary.roberta()), model)
    roberta.save(folder / "ours")
    roberta.save(folder / "huggingface", format="huggingface")
    return source


def speed(run: Run) -> float:
    """Compute real tokens a second, without the first two steps."""
    return sum(run["tokens"][2:]) / (run["times"][-1] - run["times"][1])


def distance(one: list[float], other: list[float]) -> list[float]:
    """Compute the largest difference so far, step by step."""
    return list(accumulate((abs(a - b) for a, b in zip(one, other, strict=True)), max))


Losses = dict[str, dict[int, list[float]]]
"""Losses of each engine, by threads, at each step."""


def compare_losses(folder: Path, steps: int, seed: int) -> Losses:
    """Collect the losses of both engines; their learning rates must be equal at every step."""
    losses: Losses = {engine: {} for engine in ENGINES}
    rates = []
    for engine in ENGINES:
        for threads in THREADS:
            run = launch(engine, folder, steps, {"batch_size": 4, "seed": seed}, threads)
            losses[engine][threads] = run["losses"]
            rates.append(run["rates"])
    for other in rates[1:]:
        assert max(distance(rates[0], other)) < 1e-12, "the learning rates differ"
    return losses


def compare_speed(folder: Path, rounds: int) -> dict[str, dict[str, list[float]]]:
    """Measure tokens a second of each order and engine, the engines in turn."""
    found: dict[str, dict[str, list[float]]] = {
        order: {engine: [] for engine in ENGINES} for order in ORDERS
    }
    for _ in range(rounds):
        for order, limits in ORDERS.items():
            for engine in ENGINES:
                run = launch(engine, folder, 12, limits, THREADS[-1])
                found[order][engine].append(speed(run))
    return found


def main() -> None:
    """Measure, print, and write the result."""
    from lib.report import about, write

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--engine", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--limits", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.engine:
        print(json.dumps(ENGINES[options.engine](options.folder, options.steps, options.limits)))
        return
    with tempfile.TemporaryDirectory() as name:
        source = prepare(Path(name), SMALL)
        losses = [compare_losses(Path(name), options.steps, seed) for seed in SEEDS]
    print(table_of_losses(losses), flush=True)
    with tempfile.TemporaryDirectory() as name:
        prepare(Path(name), MIDDLE)
        speeds = compare_speed(Path(name), options.rounds)
    page = (
        f"# Training beside transformers' Trainer\n\nMasked LM in float32 on paragraphs of 5-400 "
        f"words: {source}. "
        f"Again: `python "
        f"benchmarks/trainer.py`.\n\n{table_of_losses(losses)}\n{table_of_speed(speeds)}"
    )
    print(page)
    if options.steps >= 200:
        numbers = {"about": about("torch", "transformers", "accelerate"), "source": source}
        write("trainer", page, {**numbers, "losses": losses, "tokens_per_second": speeds})


def ratios(losses: Losses) -> list[float]:
    """How many times as far ours are from transformers as transformers is from itself.

    There is one number a step, over all steps until it.
    """
    ours, theirs = losses["roberta_hub"], losses["transformers"]
    spread = [max(d, RESOLUTION) for d in distance(theirs[1], theirs[2])]
    apart = [distance(ours[threads], theirs[threads]) for threads in THREADS]
    return [max(ds) / s for *ds, s in zip(*apart, spread, strict=True)]


def table_of_losses(seeds: list[Losses]) -> str:
    """Losses and their largest differences so far, at some steps of the first seed.

    What all seeds come to is said too.
    """
    losses = seeds[0]
    ours, theirs = losses["roberta_hub"], losses["transformers"]
    apart = {threads: distance(ours[threads], theirs[threads]) for threads in THREADS}
    worst, steps = [max(ratios(one)) for one in seeds], len(ours[1])
    marks = [m for m in (1, 10, 50, 100, 150, 200) if m <= steps]
    rows = [
        (f"loss: {engine}, threads: {threads}", values, ".6f")
        for engine, runs in losses.items()
        for threads, values in runs.items()
    ]
    rows.append(("apart: transformers on 1 and 2 threads", distance(theirs[1], theirs[2]), ".1e"))
    rows += [
        (f"apart: roberta_hub and transformers, threads: {k}", d, ".1e") for k, d in apart.items()
    ]
    lines = ["| after step | " + " | ".join(map(str, marks)) + " |", "|---|" + "--:|" * len(marks)]
    for name, values, form in rows:
        cells = [format(values[m - 1], form) for m in marks]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return (
        f"## Losses\n\n{SMALL['num_layers']} layers x {SMALL['embed_dim']}, 4 paragraphs a step, "
        f"{steps} steps, the first of {len(seeds)} seeds. "
        "Apart: the largest difference of two losses until then.\n\n"
        + "\n".join(lines)
        + "\n\nSeed by seed ours are at most "
        f"{', '.join(f'{w:.2f}' for w in worst)} times as far from transformers as transformers on "
        f"one thread is from itself on two; "
        f"in the median {median(worst):.2f}, {'within' if median(worst) <= 3 else 'outside'} three "
        f"times that spread. Less than 1e-6, "
        "float32's resolution at such a loss, counts as 1e-6. Against one difference of "
        "transformers' the larger of two of ours is held, and "
        "ours begin in the first step, where packed rows are summed in another order, its own in a "
        "later one.\n"
    )


def table_of_speed(speeds: dict[str, dict[str, list[float]]]) -> str:
    """Write tokens a second side by side."""
    lines = ["| batches | roberta_hub | transformers | ratio |", "|---|--:|--:|--:|"]
    for order, found in speeds.items():
        cells = [f"{median(v):,.0f} ({min(v):,.0f}-{max(v):,.0f})" for v in found.values()]
        ratio = median(found["roberta_hub"]) / median(found["transformers"])
        lines.append(f"| {order} | {' | '.join(cells)} | {ratio:.2f} |")
    rounds = len(next(iter(speeds.values()))["roberta_hub"])
    return (
        f"## Speed\n\n{MIDDLE['num_layers']} layers x {MIDDLE['embed_dim']}, two threads; real "
        f"tokens a second, medians of {rounds} "
        "rounds with least and most, engines in turn, ten steps each.\n\n"
        + "\n".join(lines)
        + "\n\ntransformers computes "
        "logits of every token, padding among them; we of the masked ones.\n"
    )


if __name__ == "__main__":
    main()

"""Our loop beside transformers' Trainer: the same model, data, masks and order; losses step by step, and tokens a second.

    python benchmarks/trainer.py                 # about twelve minutes on two cores
    python benchmarks/trainer.py --steps 20 --rounds 1

Both pre-train the same small RoBERTa in float32 without dropout, with AdamW in the same groups, the same clipping and
the same learning rate at each step. Trainer gets our batches, masked by our code, as padded tensors. What training on one
and on two threads makes of transformers' own losses is the spread that ours are held to. Text: the
first paragraphs of 5-400 words of `../shared/data/pretrain/simplewiki_2022`, else the README files of the packages installed
here. Writes `benchmarks/results/trainer.{md,json}`.
"""

from __future__ import annotations

import argparse
import csv
import json
import lzma
import os
import subprocess
import sys
import tempfile
from importlib.metadata import distributions
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
SHARED = Path(os.environ.get("ROBERTA_HUB_SHARED", ROOT.parent / "shared"))
PARAGRAPHS = 4000
SMALL = {"embed_dim": 128, "ffn_dim": 512, "num_layers": 2, "num_heads": 2}
MIDDLE = {"embed_dim": 256, "ffn_dim": 1024, "num_layers": 4, "num_heads": 4}
WARMUP, PEAK = 20, 1e-3


def paragraphs() -> tuple[str, list[str]]:
    """Where the text is from, and its paragraphs."""
    path = SHARED / "data/pretrain/simplewiki_2022.txt.xz"
    if path.is_file():
        with lzma.open(path, "rt", encoding="utf-8") as file:
            found = [line.strip() for line, _ in zip(file, range(40 * PARAGRAPHS), strict=False)]
        source = "Simple English Wikipedia"
    else:
        pages = [d.read_text("METADATA") or "" for d in distributions()]
        found = [" ".join(p.split()) for page in pages for p in page.split("\n\n")]
        source = "descriptions of installed packages"
    return source, [p for p in found if 5 <= len(p.split()) <= 400][:PARAGRAPHS]


def settings(folder: Path, steps: int, batch: int) -> list[str]:
    """One run, as our command line would have it. Every paragraph is a sequence."""
    return [
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
        f"optimizer.warmup_updates={WARMUP}",
        "optimizer.total_updates=1000",
        "batch.max_tokens=null",
        f"batch.batch_size={batch}",
        "batch.update_freq=1",
        f"loop.max_updates={steps}",
        "loop.evaluate_every=0",
        "loop.log_every=1",
        "loop.precision=no",
        "loop.progress=false",
    ]


# ---- one engine each, in a process of its own ----


def ours(folder: Path, steps: int, batch: int) -> dict[str, Any]:
    """Losses, real tokens and seconds of our loop."""
    from roberta_hub.train.config import compose
    from roberta_hub.train.run import run

    run(compose(settings(folder, steps, batch)))
    with (folder / "run/log.csv").open() as file:
        rows = list(csv.DictReader(file))
    tokens = [float(row["tokens"]) for row in rows]
    times = [float(row["seconds"]) for row in rows]
    return {"losses": [float(row["loss"]) for row in rows], "tokens": tokens, "times": times}


def transformers(folder: Path, steps: int, batch: int) -> dict[str, Any]:
    """The same of transformers' Trainer."""
    import time

    import torch
    from transformers import RobertaForMaskedLM, Trainer, TrainingArguments

    from roberta_hub.train.batches import plan
    from roberta_hub.train.config import compose
    from roberta_hub.train.run import make_task

    config = compose(settings(folder, steps, batch))
    task = make_task(config)
    updates = plan(task.lengths(0), None, seed=config.seed, epoch=0, batch_size=batch)[:steps]
    batches, tokens = [], []
    for (own,) in updates:
        made = task.batch(own, 0)
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

    losses: list[float] = []
    times: list[float] = []

    class Recorder(Trainer):  # the log rounds to four digits
        def compute_loss(self, *args: Any, **keywords: Any) -> Any:
            loss = super().compute_loss(*args, **keywords)
            losses.append(float(loss[0] if isinstance(loss, tuple) else loss))
            times.append(time.monotonic())
            return loss

        def _get_train_sampler(self, *args: Any) -> Any:
            return torch.utils.data.SequentialSampler(batches)

    arguments = TrainingArguments(
        output_dir=str(folder / "trainer"),
        max_steps=steps,
        per_device_train_batch_size=1,  # an item is a batch of ours
        learning_rate=PEAK,
        lr_scheduler_type="linear",
        warmup_steps=WARMUP,
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
    # BERT's table of token types, a row of zeros in a RoBERTa; fairseq's has none, so it is not trained.
    model.roberta.embeddings.token_type_embeddings.weight.requires_grad_(False)
    trainer = Recorder(
        model, arguments, train_dataset=batches, data_collator=lambda items: items[0]
    )
    trainer.create_optimizer()
    trainer.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(trainer.optimizer, _rate)
    trainer.train()
    return {"losses": losses, "tokens": tokens, "times": times}


def _rate(done: int) -> float:
    """Linear warm-up and decay to update 1000, as a share of the peak."""
    return done / WARMUP if done <= WARMUP else 1 - (done - WARMUP) / (1000 - WARMUP)


ENGINES = {"roberta_hub": ours, "transformers": transformers}


def launch(engine: str, folder: Path, steps: int, batch: int, threads: int) -> dict[str, Any]:
    """Run an engine in a process of its own."""
    environment = os.environ | {"OMP_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "false"}
    command = [sys.executable, __file__, "--engine", engine, "--folder", str(folder)]
    command += ["--steps", str(steps), "--batch", str(batch)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{engine} failed:\n{done.stderr[-3000:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


# ---- both ----


def prepare(folder: Path, shape: dict[str, int]) -> str:
    """The text, and one random model in both formats."""
    import torch

    from roberta_hub import RobertaConfig, RobertaHubInterface, RobertaModel
    from roberta_hub.text.dictionary import Dictionary, Task

    source, text = paragraphs()
    (folder / "text.txt").write_text("\n\n".join(text) + "\n", encoding="utf-8")
    torch.manual_seed(1)
    model = RobertaModel(RobertaConfig(**shape, dropout=0.0, attention_dropout=0.0))  # type: ignore[arg-type]
    roberta = RobertaHubInterface(model.config, Task(Dictionary.roberta()), model)
    roberta.save(folder / "ours")
    roberta.save(folder / "huggingface", format="huggingface")
    return source


def speed(run: dict[str, Any]) -> float:
    """Real tokens a second, the first two steps left out."""
    return sum(run["tokens"][2:]) / (run["times"][-1] - run["times"][1])


def distance(one: list[float], other: list[float]) -> list[float]:
    """The largest difference so far, step by step: chaos grows, and both are judged after as many steps."""
    largest, found = 0.0, []
    for a, b in zip(one, other, strict=True):
        largest = max(largest, abs(a - b))
        found.append(largest)
    return found


def main() -> None:
    """Measure, print, and write the result."""
    from report import about, write

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--engine", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.engine:
        print(json.dumps(ENGINES[options.engine](options.folder, options.steps, options.batch)))
        return
    with tempfile.TemporaryDirectory() as name:
        source = prepare(Path(name), SMALL)
        runs = {
            (engine, threads): launch(engine, Path(name), options.steps, options.batch, threads)
            for engine in ENGINES
            for threads in (1, 2)
        }
    with tempfile.TemporaryDirectory() as name:
        prepare(Path(name), MIDDLE)
        speeds: dict[str, list[float]] = {engine: [] for engine in ENGINES}
        for _ in range(options.rounds):
            for engine in ENGINES:
                speeds[engine].append(speed(launch(engine, Path(name), 12, 16, 2)))
    losses = {f"{engine}, {threads}": run["losses"] for (engine, threads), run in runs.items()}
    own = distance(losses["transformers, 1"], losses["transformers, 2"])
    between = distance(losses["roberta_hub, 2"], losses["transformers, 2"])
    page = table(options.steps, source, losses, own, between, speeds)
    print(page)
    if options.steps >= 200:
        numbers = {"about": about("torch", "transformers", "accelerate"), "losses": losses}
        write("trainer", page, {**numbers, "tokens_per_second": speeds})


def table(
    steps: int,
    source: str,
    losses: dict[str, list[float]],
    own: list[float],
    between: list[float],
    speeds: dict[str, list[float]],
) -> str:
    """The numbers as Markdown."""
    marks = [m for m in (1, 10, 50, 100, 150, 200) if m <= steps]
    lines = ["| after step | " + " | ".join(map(str, marks)) + " |", "|---|" + "--:|" * len(marks)]
    for name, values in losses.items():
        lines.append(
            f"| loss: {name} thread{'s' * name.endswith('2')} | "
            + " | ".join(f"{values[m - 1]:.6f}" for m in marks)
            + " |"
        )
    for name, values in (
        ("transformers, 1 and 2 threads", own),
        ("roberta_hub and transformers", between),
    ):
        lines.append(
            f"| largest difference so far: {name} | "
            + " | ".join(f"{values[m - 1]:.1e}" for m in marks)
            + " |"
        )
    ratios = [b / max(a, 1e-6) for a, b in zip(own, between, strict=True)]
    ratio = median(speeds["roberta_hub"]) / median(speeds["transformers"])
    spread = {k: f"{median(v):,.0f} ({min(v):,.0f}-{max(v):,.0f})" for k, v in speeds.items()}
    return (
        f"# Training beside transformers' Trainer\n\nMasked LM in float32, {source}, ragged paragraphs of 5-400 words. "
        f"Again: `python benchmarks/trainer.py`.\n\n## Losses\n\n{SMALL['num_layers']} layers x {SMALL['embed_dim']}, "
        f"{steps} steps.\n\n" + "\n".join(lines) + "\n\nOur difference is at most "
        f"{max(ratios):.2f} times transformers' own spread (of at least 1e-6, float32's at this loss), {ratios[-1]:.2f} times at "
        f"the end.\n\n## Speed\n\n{MIDDLE['num_layers']} layers x {MIDDLE['embed_dim']}, batches of 16 paragraphs, two threads, "
        f"runs in turn; real tokens a second:\n\n| roberta_hub | transformers | ratio |\n|--:|--:|--:|\n"
        f"| {spread['roberta_hub']} | {spread['transformers']} | {ratio:.2f} |\n\ntransformers computes logits of every "
        "token, padding among them; we of the masked ones.\n"
    )


if __name__ == "__main__":
    main()

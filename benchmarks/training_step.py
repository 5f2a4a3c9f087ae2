"""Times updates of training on ragged pairs and on blocks, against an older checkout and peers.

The model has 6 layers of width 384 and a factorized embedding; dropout is 0.1.

    python benchmarks/training_step.py --before ../main     # a checkout of the commit before
    python benchmarks/training_step.py --memory 1000        # and what memory does, in updates

Pairs: updates of 64 pairs of about 33 tokens, as `plan` draws them with `batch_size=64`, the same
pairs for all; transformers pads each of its batches, in random order, to a multiple of 16. Masked
LM: 32 blocks of 128 tokens. An update is forward, backward, clipping and AdamW. Every engine has a
process of its own, and they take turns, an update each. The ceiling is what the layers' products
alone take, forward and backward, on as many tokens. Ratios are of CPU time, which other processes
on the machine disturb least (with `--threads 1`; two threads also spin). In bfloat16 where the CPU
has it, else in float32. Writes `benchmarks/results/training_step.{md,json}`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

ROOT = Path(__file__).resolve().parents[1]
WIDTH, FFN, LAYERS, HEADS, SYMBOLS, FACTOR = 384, 1536, 6, 12, 50265, 256
PAIRS, BLOCKS, LENGTH, MASKED, MASK = 64, 32, 128, 0.15, 50264
EXAMPLES = 64 * PAIRS
"""A whole pool of batches."""
Step = Callable[[], int]
"""Does an update; tells its real tokens."""


def lengths() -> list[int]:
    """Draw tokens of each pair: about 33, as in NLI."""
    drawn = random.Random(0)
    return [max(8, min(128, round(drawn.lognormvariate(3.4, 0.4)))) for _ in range(EXAMPLES)]


def sequence(length: int) -> Tensor:
    """Draw ids of so many tokens."""
    return torch.cat([torch.tensor([0]), torch.randint(4, 50_000, (length - 1,))])


def blocks() -> tuple[Tensor, Tensor, Tensor]:
    """Make (tokens with masks, tokens, which of them are masked), each (B, T)."""
    tokens = torch.randint(4, 50_000, (BLOCKS, LENGTH))
    chosen = torch.rand(BLOCKS, LENGTH) < MASKED
    return tokens.masked_fill(chosen, MASK), tokens, chosen


def ours(task: str, dtype: torch.dtype) -> Step:
    """Make updates as `roberta_hub/train/loop/updates.py` does, in any checkout."""
    from roberta_hub import RobertaConfig, RobertaModel
    from roberta_hub.model.packing import pack, pack_sequences
    from roberta_hub.train.data.batches import plan_epoch
    from roberta_hub.train.loop.optimizer import make_optimizer
    from roberta_hub.train.tasks.masked_lm import MaskedLM
    from roberta_hub.train.tasks.sentences import SentenceObjective
    from roberta_hub.train.tasks.training_task import Batch, Loss

    try:
        from roberta_hub.train.loop.memory import limit_caches
    except ImportError:  # an older checkout
        pass
    else:
        limit_caches()
    sizes = {"embed_dim": WIDTH, "ffn_dim": FFN, "num_layers": LAYERS, "num_heads": HEADS}
    model = RobertaModel(RobertaConfig(**sizes, vocab_size=SYMBOLS, embedding_dim=FACTOR)).train()
    objective = SentenceObjective("nli", "classification")
    known, module = lengths(), model

    def pairs() -> Iterator[Batch]:
        epoch = 0
        while True:
            for (micro,) in plan_epoch(known, None, seed=1, epoch=epoch, batch_size=PAIRS):
                packed = pack_sequences([sequence(known[i]) for i in micro], padding_idx=1)
                yield Batch(packed, {"labels": torch.randint(0, 3, (len(micro),))}, len(micro))
            epoch += 1

    def masked() -> Iterator[Batch]:
        while True:
            seen, tokens, chosen = blocks()
            rows = chosen.flatten().nonzero().squeeze(1)
            targets = {"rows": rows, "ids": tokens[chosen]}
            yield Batch(pack(seen, padding_idx=1), targets, len(rows))

    if task == "pairs":
        model.register_classification_head("nli", 3)
        batches = pairs()
    else:
        batches, module = masked(), MaskedLM(model)

    def loss(batch: Batch) -> Loss:
        if task == "masked LM":
            words: Loss = module(batch)
            return words
        return objective.loss(objective.logits(model, batch), batch)

    optimizer = make_optimizer(module, lr=1e-4)

    def step() -> int:
        batch = next(batches)
        with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
            total = loss(batch).total / batch.count
        _update(optimizer, module, total)
        return len(batch.packed.ids)

    return step


def transformers(task: str, dtype: torch.dtype) -> Step:
    """Make transformers' updates, as its examples train."""
    from transformers import (
        RobertaConfig,
        RobertaForMaskedLM,
        RobertaForSequenceClassification,
    )

    config = RobertaConfig(
        vocab_size=SYMBOLS,
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=FFN,
        max_position_embeddings=514,
        type_vocab_size=1,
        num_labels=3,
    )
    kind = RobertaForSequenceClassification if task == "pairs" else RobertaForMaskedLM
    model = kind(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    known, place = lengths(), 0

    def inputs() -> dict[str, Tensor]:
        nonlocal place
        if task != "pairs":
            seen, tokens, chosen = blocks()
            return {"input_ids": seen, "labels": tokens.masked_fill(~chosen, -100)}
        own = [known[(place + i) % EXAMPLES] for i in range(PAIRS)]
        place += PAIRS
        width = -(-max(own) // 16) * 16
        ids = torch.ones(PAIRS, width, dtype=torch.long)
        for row, length in zip(ids, own, strict=True):
            row[:length] = sequence(length)
        labels = torch.randint(0, 3, (PAIRS,))
        return {"input_ids": ids, "attention_mask": ids.ne(1).long(), "labels": labels}

    def step() -> int:
        given = inputs()
        with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
            loss = model(**given).loss
        _update(optimizer, model, loss)
        return int(given["input_ids"].ne(1).sum())

    return step


def _update(optimizer: torch.optim.Optimizer, module: nn.Module, loss: Tensor) -> None:
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(list(module.parameters()), 1.0)
    optimizer.step()


def ceiling(task: str, dtype: torch.dtype) -> Step:
    """Make the products of all layers with weights, forward and backward, and nothing else."""
    rows = 33 * PAIRS if task == "pairs" else BLOCKS * LENGTH
    shapes = [(WIDTH, WIDTH)] * 4 + [(WIDTH, FFN), (FFN, WIDTH)]
    made = [torch.randn(n, m).to(dtype) for n, m in shapes]
    narrow, wide = torch.randn(rows, WIDTH).to(dtype), torch.randn(rows, FFN).to(dtype)

    def step() -> int:
        for _ in range(LAYERS):
            for weight in made:
                x, y = (narrow if size == WIDTH else wide for size in weight.shape)
                x @ weight, y @ weight.t(), x.t() @ y
        return rows

    return step


ENGINES = {"transformers": transformers, "before": ours, "now": ours, "ceiling": ceiling}


def work(engine: str, task: str, threads: int, dtype: str) -> None:
    """Answer each line of input with CPU time, seconds, tokens and memory of an update."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    step = ENGINES[engine](task, getattr(torch, dtype))
    for _ in sys.stdin:
        start, own = time.perf_counter(), time.process_time()
        tokens = step()
        own, seconds = time.process_time() - own, time.perf_counter() - start
        print(json.dumps([own, seconds, tokens, memory()]), flush=True)


def memory() -> float:
    """Tell what this process holds, in MB, where Linux tells."""
    found = Path("/proc/self/statm")
    pages = int(found.read_text().split()[1]) if found.is_file() else 0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


class Worker:
    """An engine in a process of its own; it works only when asked."""

    def __init__(self, engine: str, task: str, checkout: Path, threads: int, dtype: str) -> None:
        own = [str(Path(__file__).resolve()), "--work", engine, "--task", task]
        self.process = subprocess.Popen(
            [sys.executable, *own, "--threads", str(threads), "--dtype", dtype],
            env={**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": str(threads)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def step(self) -> tuple[float, float, int, float]:
        """Do an update: (CPU seconds, seconds, tokens, MB)."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        own, seconds, tokens, held = json.loads(self.process.stdout.readline())
        return own, seconds, tokens, held

    def close(self) -> None:
        """Let it end."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def compare(task: str, engines: dict[str, Path], args: argparse.Namespace) -> dict[str, Any]:
    """Time engines by turns: what `Worker.step` tells of every update."""
    workers = {n: Worker(n, task, at, args.threads, args.dtype) for n, at in engines.items()}
    found: dict[str, Any] = {name: [] for name in engines}
    for turn in range(args.rounds + 1):
        for name, worker in workers.items():
            taken = worker.step()
            found[name] += [taken] if turn else []  # the first is not counted
    for worker in workers.values():
        worker.close()
    return found


def remember(checkout: Path, args: argparse.Namespace) -> list[float]:
    """Tell what memory is held after each tenth of the updates, in MB."""
    engine = "now" if checkout == ROOT else "before"
    worker = Worker(engine, "pairs", checkout, args.threads, args.dtype)
    held = [worker.step()[3] for _ in range(args.memory)]
    worker.close()
    return [round(held[i]) for i in range(9, args.memory, max(1, args.memory // 10))]


def commit(checkout: Path) -> str:
    """Name the commit of a checkout: "3e3e85c, 2026-11-23"."""
    asked = ["git", "-C", str(checkout), "log", "-1", "--format=%h, %cs"]
    return subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()


def main() -> None:
    """Measure, print, and write the result; or work for a parent that does."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--before", type=Path, help="an older checkout of this repository")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--memory", type=int, default=0, help="updates over which memory is read")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--dtype", default=None)
    parser.add_argument("--work", choices=ENGINES, help=argparse.SUPPRESS)
    parser.add_argument("--task", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        return work(args.work, args.task, args.threads, args.dtype)
    sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]
    from lib.report import about, write

    from roberta_hub.model.kernels import cpu, missing_features

    args.dtype = args.dtype or ("float32" if missing_features("bfloat16") else "bfloat16")
    engines = {"transformers": ROOT, "now": ROOT, "ceiling": ROOT}
    engines |= {"before": args.before.resolve()} if args.before else {}
    found = {task: compare(task, engines, args) for task in ("pairs", "masked LM")}
    lines = ["| task | engine | tokens/s | CPU ms a token | over before | share of ceiling |"]
    lines += ["|---|---|--:|--:|--:|--:|"]
    for task, samples in found.items():
        own = {n: [sum(column) for column in zip(*s, strict=True)] for n, s in samples.items()}
        cost = {n: 1e3 * total[0] / total[2] for n, total in own.items()}
        speed = {n: total[2] / total[1] for n, total in own.items()}
        for name, own in cost.items():
            over = f"{cost['before'] / own:.2f} x" if "before" in cost else ""
            share = f"{cost['ceiling'] / own:.0%}"
            lines.append(f"| {task} | {name} | {speed[name]:,.0f} | {own:.3f} | {over} | {share} |")
    held: dict[str, list[float]] = {}
    if args.memory:
        held = {n: remember(at, args) for n, at in engines.items() if n in ("before", "now")}
    memories = [
        f"Memory of the process after each tenth of {args.memory} updates of pairs, {name}: "
        f"{', '.join(f'{mb:,.0f}' for mb in own)} MB."
        for name, own in held.items()
    ]
    features = sorted(f for f in cpu().features if f.startswith(("amx", "avx512", "avx_vnni")))
    before = f" Before: {commit(args.before)}." if args.before else ""
    page = (
        f"# An update of training\n\n{LAYERS} layers x {WIDTH}, {SYMBOLS:,} symbols, embedding "
        f"{FACTOR} wide (transformers: {WIDTH}, and logits of every token), dropout 0.1, AdamW, "
        f"{args.dtype}, {args.threads} threads; {PAIRS} ragged pairs of about 33 tokens, or "
        f"{BLOCKS} x {LENGTH} tokens of masked LM. Totals of {args.rounds} updates, engines by "
        f"turns.{before}\nAgain: `python benchmarks/training_step.py --before CHECKOUT --rounds "
        f"{args.rounds} --memory {args.memory}`.\n\n"
        + "\n".join(lines)
        + "\n\n"
        + "\n".join(memories)
    ).rstrip() + f"\n\nCPU: {', '.join(features) or 'no AVX-512'}."
    print(page)
    numbers = {"about": about("torch", "transformers"), "samples": found, "memory": held}
    write("training_step", page, {**numbers, "features": features, "dtype": args.dtype})


if __name__ == "__main__":
    main()

"""Makes roberta.tiny, from the text to the files in the package.

Each step can be stopped, and goes on when started again.

    python tools/train_tiny.py prepare      # text and pairs -> runs/tiny
    python tools/train_tiny.py pretrain     # the masked LM, on blocks of 128 tokens
    python tools/train_tiny.py lengthen     # the same on blocks of 512, for the later positions
    python tools/train_tiny.py match        # the same with heads that look for a word's doubles
    python tools/train_tiny.py pairs        # the head for pairs, with as much text beside them
    python tools/train_tiny.py mnli         # the same with more pairs than text, in smaller batches
    python tools/train_tiny.py settle       # the same with dropout, the learning rate ends at 0
    python tools/train_tiny.py ship         # the model in half precision -> roberta_hub/models/tiny

Steps that train are `roberta-hub train` with the settings of STEPS; more settings can follow. One
process a core is faster on a CPU than one process with all of them (8,200 tokens/s against 6,400).
On a GPU that is lent in slots of ten minutes: `prepare --where gpu` there, from the compressed
texts (those of `cpu` are 52 MiB; cut `enwiki_2021_core.txt.xz` in two to carry it), then each step
with `--processes 1 loop.max_minutes=9` until it says that it is done; this was never run. The data
is that of `../shared/data` (or $ROBERTA_HUB_SHARED/data); its README says where it comes from.
Evaluation sets are read by benchmarks/tiny.py alone.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import lzma
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SHARED = Path(os.environ.get("ROBERTA_HUB_SHARED", ROOT.parent / "shared"))
WORK = ROOT / "runs" / "tiny"
EVERY = 400
"""One document in this many is held out, for the perplexity on Wikipedia."""
HELD_OUT_PAIRS = 2000
TEXTS = {
    "cpu": ["simplewiki_2022", "oanc_slate", "oanc_berlitz", "oanc_technical", "sgd_dialogues"],
    "gpu": [
        "simplewiki_2022",
        "oanc_slate",
        "oanc_berlitz",
        "oanc_technical",
        "sgd_dialogues",
        "enwiki_2021_core",
    ],
}
"""The texts to learn from: a CPU sees less than one epoch of the plainer ones."""
SOURCES = ("mnli", "snli", "wanli")
"""Sources of the pairs that train the head: people wrote or checked these one by one. The others
are longer, and made by rules."""
DEMONSTRATION = (
    "Roberta is a heavily optimized version of BERT",
    "Roberta is not very optimized",
    "potatoes are awesome",
    "The first Star wars movie came out in",
    "Vikram samvat calendar is official in",
    "is the common currency of the European Union",
)
"""Sentences of the hub page, which no training set may hold."""


def documents(name: str) -> Iterator[list[str]]:
    """Read the lines of each document."""
    path = SHARED / "data/pretrain" / f"{name}.txt.xz"
    with lzma.open(path, "rt", encoding="utf-8") as file:
        for blank, lines in itertools.groupby(file, key=lambda line: not line.strip()):
            if not blank:
                yield [line.rstrip("\n") for line in lines]


def prepare(where: str) -> None:
    """Split text and pairs into training and held-out sets."""
    WORK.mkdir(parents=True, exist_ok=True)
    with (WORK / "train.txt").open("w") as train, (WORK / "valid.txt").open("w") as valid:
        for name in TEXTS[where]:
            for number, lines in enumerate(documents(name)):
                held_out = "wiki" in name and number % EVERY == 0
                kept = [line for line in lines if not any(d in line for d in DEMONSTRATION)]
                (valid if held_out else train).write("\n".join(kept) + "\n\n")
    with lzma.open(SHARED / "data/nli/train.tsv.xz", "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    header, pairs = rows[0], [r for r in rows[1:] if r[3].startswith(SOURCES)]
    pairs = [r for r in pairs if not any(d in c for c in r for d in DEMONSTRATION)]
    random.Random(1).shuffle(pairs)
    for name, part in (("valid", pairs[:HELD_OUT_PAIRS]), ("train", pairs[HELD_OUT_PAIRS:])):
        lines = ["\t".join(row) for row in [header, *part]]
        (WORK / f"nli_{name}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")


PAIRS = [
    "finetune=mnli",
    "architecture={dropout: 0.0, attention_dropout: 0.0, pooler_dropout: 0.1}",
    f"data.train={WORK}/nli_train.tsv",
    f"data.valid={WORK}/nli_valid.tsv",
    "data.format=tsv",
    "data.columns={sentence: premise, sentence2: hypothesis, label: label}",
    "data.labels=[contradiction, neutral, entailment]",
    "optimizer.decay=weights",
    "optimizer.weight_decay=0.01",
    "optimizer.clip_norm=1.0",
    "batch.batch_size=null",
    "batch.update_freq=2",
    "loop.max_epochs=null",
    "loop.precision=bf16",
    "loop.find_unused_parameters=false",
]
"""Settings that all steps with pairs have in common."""
STEPS = {
    "pretrain": [
        "pretrain=tiny",
        f"data.train={WORK}/train.txt",
        f"data.valid={WORK}/valid.txt",
        f"output={WORK}/pretrain",
        "optimizer.total_updates=4400",
        # Half way down its learning rate, which goes on falling in the next step.
        "loop.max_updates=2407",
    ],
    "lengthen": [
        "pretrain=tiny",
        f"model={WORK}/pretrain/last",
        "pretrained=true",
        "architecture={dropout: 0.0, attention_dropout: 0.0}",
        f"data.train={WORK}/pretrain/tokens/train",
        f"data.valid={WORK}/pretrain/tokens/valid",
        f"output={WORK}/lengthen",
        "seed=2",
        "task.options={block_size: 512, start: random}",
        "optimizer.lr=5e-4",
        "optimizer.warmup_updates=10",
        "optimizer.total_updates=420",
        "loop.max_updates=420",
        "loop.evaluate_every=140",
    ],
    "match": [
        "pretrain=tiny",
        f"model={WORK}/lengthen/last",
        "pretrained=true",
        "architecture={dropout: 0.0, attention_dropout: 0.0}",
        f"data.train={WORK}/pretrain/tokens/train",
        f"data.valid={WORK}/pretrain/tokens/valid",
        f"output={WORK}/match",
        "seed=3",
        "task.options={block_size: 512, start: matching}",
        "optimizer.lr=6e-4",
        "optimizer.warmup_updates=20",
        "optimizer.total_updates=900",
        "loop.max_updates=900",
        "loop.evaluate_every=300",
    ],
    "pairs": [
        *PAIRS,
        f"model={WORK}/match/last",
        f"output={WORK}/pairs",
        f"task.options={{max_length: 128, truncate: true, rehearse: {WORK}/pretrain/tokens/train}}",
        "optimizer.lr=4e-4",
        "optimizer.warmup_updates=100",
        "optimizer.total_updates=3600",
        "batch.max_tokens=2048",
        "loop.max_updates=1439",  # its learning rate would go on falling
        "loop.evaluate_every=600",
    ],
    "mnli": [
        *PAIRS,
        f"model={WORK}/pairs/last",
        f"output={WORK}/mnli",
        "seed=2",
        f"task.options={{max_length: 128, truncate: true, rehearse: {WORK}/pretrain/tokens/train, "
        "rehearse_share: 0.33, rehearse_weight: 0.5}",
        "optimizer.lr=3e-4",
        "optimizer.warmup_updates=50",
        "optimizer.total_updates=5500",
        "batch.max_tokens=1024",
        "loop.max_updates=2000",  # after it, it began to know the pairs by heart
        "loop.evaluate_every=1000",
    ],
    "settle": [
        *PAIRS,
        f"model={WORK}/mnli/last",
        f"output={WORK}/settle",
        "seed=3",
        "architecture={dropout: 0.1, attention_dropout: 0.1, pooler_dropout: 0.1}",
        f"task.options={{max_length: 128, truncate: true, rehearse: {WORK}/pretrain/tokens/train, "
        "rehearse_share: 0.33, rehearse_weight: 0.5}",
        "optimizer.lr=2e-4",
        "optimizer.warmup_updates=50",
        "optimizer.total_updates=2200",
        "batch.max_tokens=1024",
        "loop.max_updates=2200",
        "loop.evaluate_every=550",
    ],
}
"""Settings of the steps that train."""


def learn(step: str, processes: int, more: list[str]) -> int:
    """Run `roberta-hub train` in one process a core, or as told."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(processes), "-m", "roberta_hub", "train"]
    environment = dict(os.environ)
    if processes > 1:
        environment.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // processes)))
    return subprocess.run([*command, *STEPS[step], *more], env=environment, cwd=ROOT).returncode


def ship() -> None:
    """Write the model as the package holds it.

    That is in half precision, with the catalogue's configuration and its dropout.
    """
    import torch

    from roberta_hub import RobertaHubInterface, RobertaModel, load_model
    from roberta_hub.checkpoint.fetch.catalogue import config_of, embedded, find

    record = find("roberta.tiny")
    assert record is not None
    trained = load_model(WORK / "settle" / "best")
    model = RobertaModel(config_of(record))
    model.register_classification_head("mnli", len(record.heads["mnli"]))
    model.load_state_dict(trained.model.state_dict())
    shipped = RobertaHubInterface(model.config, trained.task, model, labels=dict(record.labels))
    shipped.to(torch.float16).save(embedded(record))


def main() -> int:
    """Run a step."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("step", choices=["prepare", *STEPS, "ship"])
    parser.add_argument("settings", nargs="*", metavar="FIELD=VALUE")
    parser.add_argument("--where", choices=TEXTS, default="cpu", help="which texts to prepare")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    if arguments.step in STEPS:
        return learn(arguments.step, arguments.processes, arguments.settings)
    prepare(arguments.where) if arguments.step == "prepare" else ship()
    return 0


if __name__ == "__main__":
    sys.exit(main())

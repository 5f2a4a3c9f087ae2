"""roberta.tiny, from the text to the files in the package. Each step can be stopped and started again.

    python tools/train_tiny.py prepare            # text and pairs -> runs/tiny/{train,valid}.txt, nli_{train,valid}.tsv
    python tools/train_tiny.py pretrain [FIELD=VALUE ...]
    python tools/train_tiny.py finetune --name mnli [FIELD=VALUE ...]
    python tools/train_tiny.py ship               # the best model, in half precision -> roberta_hub/models/tiny

The data is that of `../shared/data` (or $ROBERTA_HUB_SHARED/data); its README says where it comes from. Evaluation sets
are read by benchmarks/tiny.py only.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import lzma
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SHARED = Path(os.environ.get("ROBERTA_HUB_SHARED", ROOT.parent / "shared"))
WORK = ROOT / "runs" / "tiny"
EVERY = 400
"""One document in so many is held out, for the perplexity on Wikipedia."""
HELD_OUT_PAIRS = 3000
TEXTS = {
    "cpu": ["simplewiki_2022", "oanc_slate", "oanc_berlitz", "oanc_technical", "sgd_dialogues"],
    "gpu": ["simplewiki_2022", "oanc_slate", "oanc_berlitz", "oanc_technical", "sgd_dialogues", "enwiki_2021_core"],
}
"""What is read: a CPU sees less than one epoch of the plainer texts."""
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
    """The lines of each document."""
    path = SHARED / "data/pretrain" / f"{name}.txt.xz"
    with lzma.open(path, "rt", encoding="utf-8") as file:
        for blank, lines in itertools.groupby(file, key=lambda line: not line.strip()):
            if not blank:
                yield [line.rstrip("\n") for line in lines]


def prepare(where: str) -> None:
    """Split text and pairs into what is learnt from and what is held out of it."""
    WORK.mkdir(parents=True, exist_ok=True)
    with (WORK / "train.txt").open("w") as train, (WORK / "valid.txt").open("w") as valid:
        for name in TEXTS[where]:
            for number, lines in enumerate(documents(name)):
                held_out = "wiki" in name and number % EVERY == 0
                kept = [line for line in lines if not any(d in line for d in DEMONSTRATION)]
                (valid if held_out else train).write("\n".join(kept) + "\n\n")
    with lzma.open(SHARED / "data/nli/train.tsv.xz", "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    header, pairs = rows[0], [r for r in rows[1:] if not any(d in c for c in r for d in DEMONSTRATION)]
    random.Random(1).shuffle(pairs)
    for name, part in (("valid", pairs[:HELD_OUT_PAIRS]), ("train", pairs[HELD_OUT_PAIRS:])):
        lines = ["\t".join(row) for row in [header, *part]]
        (WORK / f"nli_{name}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    steps = parser.add_subparsers(dest="step", required=True)
    steps.add_parser("prepare").add_argument("--where", choices=TEXTS, default="cpu")
    arguments = parser.parse_args()
    if arguments.step == "prepare":
        prepare(arguments.where)


if __name__ == "__main__":
    sys.exit(main())

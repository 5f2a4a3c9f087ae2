"""A classifier that refuses: what it lets through, and what it keeps out.

    pip install scikit-learn
    python benchmarks/reject.py scores   # which number ranks best; vectors and a regression alone
    python benchmarks/reject.py fits     # three whole fits with reject=0.05; some minutes each
    python benchmarks/reject.py          # both, then the page

Each cell is kept in `runs/reject`, and is not made again. BANKING77 without a quarter of its
intents chooses, TREC without two of its six classes judges; so do every second text of
`lib/strange_texts.py` and the others. Writes `results/reject.{md,json}`.
"""

from __future__ import annotations

import csv
import lzma
import pickle
import random
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from lib.strange_texts import OTHER_LANGUAGES, noise  # noqa: E402

SHARED = (
    next(folder for folder in (ROOT / "shared", ROOT.parent / "shared") if folder.is_dir()) / "data"
)
RUNS = ROOT / "runs/reject"
SEEDS = (1, 2, 3)
REJECT = 0.05
Row = tuple[str, str]


def banking(part: str) -> list[Row]:
    path = SHARED / f"tasks/intents/banking77_{part}.csv"
    with path.open(encoding="utf-8", newline="") as lines:
        return [(row["text"], row["category"]) for row in csv.DictReader(lines)]


def trec(part: str) -> list[Row]:
    path = SHARED / f"others/sentences/trec.{part}.tsv.xz"
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        rows = [line.rstrip("\n").rsplit("\t", 1) for line in lines]
    return [(text, f"class {label}") for text, label in rows]


def drawn(name: str, seed: int) -> dict[str, list[Row]]:
    """Draw what is learnt, and what is asked: known classes and unknown ones."""
    read = {"banking77": banking, "trec": trec}[name]
    train, test = read("train"), read("test")
    names = sorted({label for _, label in train})
    draw = random.Random(seed)
    unknown = {*draw.sample(names, 19 if name == "banking77" else 2)}
    learn = [row for row in train if row[1] not in unknown]
    asked = test if name == "banking77" else [*test, *(r for r in train if r[1] in unknown)]
    return {
        "learn": learn,
        "known": [row for row in asked if row[1] not in unknown],
        "unknown": [row for row in asked if row[1] in unknown],
        "languages": [(text, "") for text in OTHER_LANGUAGES[1::2]],
        "noise": [(text, "") for text in noise()[1::2]],
    }


# ------------------------------------------------------------------- whole fits


def whole_fit(name: str, seed: int) -> None:
    """Fit, and keep the model with the answers that chose its threshold."""
    import roberta_hub
    from roberta_hub.train.fitting import learning

    folder = RUNS / f"{name}_{seed}"
    if (folder / "cells.pickle").is_file():
        return
    kept: dict[str, Any] = {}
    for called in ("fit_rejection", "held_out_rejection"):
        make = getattr(learning, called)

        def keep(*given: Any, make: Any = make) -> Any:
            kept["given"] = given
            return make(*given)

        setattr(learning, called, keep)
    rows = drawn(name, seed)
    table = [{"text": text, "label": label} for text, label in rows["learn"]]
    began, cpu = time.monotonic(), time.process_time()
    mine = roberta_hub.fit(table, reject=REJECT, seed=seed, output=folder / "model", progress=False)
    kept |= {"seconds": time.monotonic() - began, "cpu": time.process_time() - cpu}
    kept["fitted"] = str(mine.fitted)
    with (folder / "cells.pickle").open("wb") as file:
        pickle.dump(kept, file)


if __name__ == "__main__":
    for seed in SEEDS:
        whole_fit("banking77", seed)

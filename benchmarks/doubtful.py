"""Which labels are wrong: against cleanlab.

    pip install cleanlab scikit-learn
    python benchmarks/doubtful.py            # some minutes of one core
    python benchmarks/doubtful.py --seeds 1  # whether it works; writes no result

They are judged on `embed` vectors of roberta.tiny and scikit-learn's logistic regression (C=10), so
that ours and cleanlab's see the same probabilities. The sets are those that `fit.py` reports,
`lib/fit_sets.py` draws them; rules were chosen on its tuning sets. Vectors are kept in
`runs/doubtful`. Writes `benchmarks/results/doubtful.{md,json}`.
"""

from __future__ import annotations

import argparse
import random
import sys
import warnings
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from lib.fit_sets import REPORTED, Row  # noqa: E402
from lib.report import about, write  # noqa: E402

from roberta_hub.train.data.sentences import LabelledText  # noqa: E402
from roberta_hub.train.fitting.doubtful import doubts, likely_wrong  # noqa: E402

SETS = {"sst2": 1000, "imdb": 600, "banking10": 1000, "banking10b": 1000, "banking10c": 1000}
"""Rows to draw tables from."""
TEST = 400
ROWS, NOISE = (200, 600), (0.1, 0.2)
"""Rows of a table, and the share of them that get another label at random."""

Set = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Vectors and classes to learn from, and those to test on."""


def vectors(name: str) -> Set:
    """Draw a set, and make its vectors."""
    path = ROOT / f"runs/doubtful/{name}.npz"
    if not path.is_file():
        import roberta_hub

        roberta = roberta_hub.load_model("roberta.tiny").eval()
        learn, test = drawn(name)
        names = sorted({str(label) for _, label in learn})
        kept: dict[str, np.ndarray] = {}
        for part, rows in (("learn", learn), ("test", test)):
            texts = [str(text) for text, _ in rows]
            kept[part] = roberta.embed(texts, truncate=True, progress=False).numpy()
            kept[f"{part} classes"] = np.array([names.index(str(label)) for _, label in rows])
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(path, **kept)
    found = np.load(path)
    return found["learn"], found["learn classes"], found["test"], found["test classes"]


def drawn(name: str) -> tuple[list[Row], list[Row]]:
    """Draw rows to learn from and test rows, no text twice."""
    table = REPORTED[name]
    whole, test = table.rows(10**6, 1)
    held = {text for text, _ in test}
    learn = [row for row in {row[0]: row for row in whole}.values() if row[0] not in held]
    random.Random(name).shuffle(learn)
    return learn[: SETS[name]], random.Random(name).sample(test, min(TEST, len(test)))


def regression(x: np.ndarray, y: np.ndarray) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=10, max_iter=1000).fit(x, y)


# ------------------------------------------------------------------- wrong labels


def wrong_labels(name: str, rows: int, noise: float, seed: int) -> dict[str, float]:
    """Put wrong labels in, and measure who finds them in the same out-of-fold probabilities."""
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import average_precision_score, roc_auc_score
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    x, y, _, _ = vectors(name)
    luck = np.random.default_rng(seed)
    some = luck.permutation(len(x))[:rows]
    x, y, classes = x[some], y[some], int(y.max()) + 1
    wrong = luck.random(len(y)) < noise
    given = np.where(wrong, (y + luck.integers(1, classes, len(y))) % classes, y)
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    p = cross_val_predict(
        LogisticRegression(C=10, max_iter=1000), x, given, cv=folds, method="predict_proba"
    )
    ours = doubts(torch.tensor(p), torch.tensor(given)).numpy()
    confidence = -get_label_quality_scores(given, p, method="self_confidence")
    margin = -get_label_quality_scores(given, p, method="normalized_margin")
    names = [str(k) for k in range(classes)]
    table = [LabelledText("", (names[k],), str(i)) for i, k in enumerate(given)]
    listed = np.zeros(len(y), bool)
    listed[[int(found.where) for found in likely_wrong(table, names, p.tolist())]] = True
    return {
        "ours": float(average_precision_score(wrong, ours)),
        "confidence": float(average_precision_score(wrong, confidence)),
        "margin": float(average_precision_score(wrong, margin)),
        "AUC ours": float(roc_auc_score(wrong, ours)),
        "AUC confidence": float(roc_auc_score(wrong, confidence)),
        "F1 ours": f1(listed, wrong),
        "F1 cleanlab": f1(find_label_issues(given, p), wrong),
    }


def f1(found: np.ndarray, wanted: np.ndarray) -> float:
    return float(2 * (found & wanted).sum() / max(found.sum() + wanted.sum(), 1))


# ------------------------------------------------------------------- the page


def page(wrong: dict[str, list[dict[str, float]]]) -> str:
    """Write the table."""
    lines = [
        "# Likely wrong labels",
        "",
        "In tables of 200 and 600 rows 10 and 20 % of the labels were changed at random. "
        "Probabilities are out-of-fold (5 folds) of a logistic regression on `embed` of "
        "roberta.tiny, the same for all. Average precision of the ranking of all rows; *F1*: of "
        "the rows that `likely_wrong` lists, and that cleanlab's `find_label_issues` lists. "
        f"Means over {len(next(iter(wrong.values())))} tables a set; of two classes all three "
        "rankings are one.",
        "",
        "| set | ours | cleanlab, self-confidence | cleanlab, normalized margin | AUC: ours, "
        "self-confidence | F1: ours | cleanlab |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]

    def row(cells: list[str]) -> str:
        return f"| {' | '.join(cells)} |"

    for name, found in wrong.items():
        m = {key: mean(one[key] for one in found) for key in found[0]}
        cells = [f"{m[key]:.3f}" for key in ("ours", "confidence", "margin")]
        cells += [f"{m['AUC ours']:.3f}, {m['AUC confidence']:.3f}"]
        lines.append(row([name, *cells, f"{m['F1 ours']:.3f}", f"{m['F1 cleanlab']:.3f}"]))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=10)
    seeds = range(1, parser.parse_args().seeds + 1)
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    wrong: dict[str, list[dict[str, float]]] = {}
    for name in SETS:
        tables = [(rows, noise, seed) for rows in ROWS for noise in NOISE for seed in seeds]
        wrong[name] = [wrong_labels(name, *table) for table in tables]
        print(name, "done", flush=True)
    text = page(wrong)
    print(text)
    if len(seeds) > 1:
        versions = about("torch", "scikit-learn", "cleanlab")
        write("doubtful", text, {"wrong labels": wrong, "about": versions})


if __name__ == "__main__":
    main()

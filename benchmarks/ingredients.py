"""Measures what each ingredient of roberta.tiny is worth: the same steps on a tenth of the tokens.

    python benchmarks/ingredients.py             # ten minutes an arm, two quiet cores
    python benchmarks/ingredients.py --share 0.001 --limit 50    # a look

Each arm runs the steps of `tools/train_tiny.py` without one ingredient, and is judged as
`benchmarks/tiny.py` does. The last arm is random weights that see the pairs alone, the gate that
pre-training must pass. All arms learn in bfloat16. What is done is not done again. Writes
`benchmarks/results/ingredients.{md,json}`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]
from lib import answers  # noqa: E402
from lib.report import about, write  # noqa: E402

ARMS: dict[str, tuple[str, ...]] = {
    "all of it": (),
    "without the borrowed weights": ("start",),
    "without a teacher": ("teacher",),
    "without the masked LM": ("language",),
    "without sentence vectors": ("vectors",),
    "random weights, pairs alone": ("start", "teacher", "language", "vectors"),
}
SETTINGS = ("loop.evaluate_every=0", "loop.precision=bf16")
SETS = ("mnli_dev_matched", "snli_dev", "sts_b_test", "books", "sst2_dev", "topics")


def train(folder: Path, without: tuple[str, ...], share: float) -> None:
    """Run the steps of an arm; each goes on where it stopped."""
    for step in ("language", "pairs"):
        if step in without:
            continue
        command = [sys.executable, str(ROOT / "tools/train_tiny.py"), step, "loop.progress=false"]
        command += ["--work", str(folder), "--share", str(share)]
        command += [word for name in without for word in ("--without", name)]
        if subprocess.run([*command, *SETTINGS], cwd=ROOT).returncode:
            sys.exit(f"{folder.name}: {step} failed")


def judge(folder: Path, limit: int | None) -> dict[str, float]:
    """Return an arm's score in each set; of books the share of words in the top five."""
    import roberta_hub

    roberta = roberta_hub.load_model(folder / "pairs" / "last").eval()
    found = {}
    for name in SETS:
        score = answers.SETS[name][2](roberta, limit)
        found[name] = score.more["top5"] if name == "books" else score.value
    return found


def main() -> None:
    """Train every arm, compare, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--share", type=float, default=0.1, help="of the updates")
    parser.add_argument("--limit", type=int, help="the first rows of every set only, for a look")
    given = parser.parse_args()
    table: dict[str, dict[str, float]] = {}
    for arm, without in ARMS.items():
        folder = ROOT / "runs" / "ingredients" / f"{given.share}-{'-'.join(without) or 'all'}"
        done = folder / f"scores-{given.limit}.json"
        if not done.is_file():
            train(folder, without, given.share)
            done.write_text(json.dumps(judge(folder, given.limit)))
        table[arm] = json.loads(done.read_text())
    lines = ["| | " + " | ".join(answers.SETS[name][0] for name in SETS) + " |"]
    lines.append("|---|" + "--:|" * len(SETS))
    for arm, scores in table.items():
        cells = [
            f"{scores[name]:.3f}" if name == "sts_b_test" else f"{100 * scores[name]:.1f} %"
            for name in SETS
        ]
        lines.append(f"| {arm} | {' | '.join(cells)} |")
    page = (
        "# What each ingredient of roberta.tiny is worth\n\n"
        f"The steps of `tools/train_tiny.py` with {given.share:g} of their updates, in bfloat16, "
        "one seed. Again: `python benchmarks/ingredients.py`.\n\n" + "\n".join(lines)
    )
    print(page)
    if not given.limit:
        found = {"about": about("torch"), "cores": os.cpu_count(), "share": given.share}
        write("ingredients", page, {**found, "scores": table})


if __name__ == "__main__":
    main()

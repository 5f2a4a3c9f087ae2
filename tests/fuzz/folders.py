"""Differential fuzzing of whole folders against transformers and sentence-transformers.

    python -m tests.fuzz.folders --seed 1 --minutes 60
    python -m tests.fuzz.folders --seed 1 --case 4711

A case is a random folder that the peers write, and random texts. It ends equal (ids exactly,
numbers up to rounding) or refused by an error of ours; anything else is printed with its number.
`--result` writes the counts to FOLDERS.md.
"""

from __future__ import annotations

import argparse
import datetime
import os
import pprint
import sys
import time
from collections import Counter
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

RESULT = Path(__file__).with_name("FOLDERS.md")
PACKAGES = (
    "torch",
    "transformers",
    "tokenizers",
    "sentence-transformers",
    "sentencepiece",
    "peft",
)


def main() -> int:
    """Run cases for some minutes, or one by its number."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--case", type=int, action="append", help="run these alone")
    parser.add_argument("--keep", type=Path, help="leave the folder of a case there")
    parser.add_argument("--result", action="store_true", help=f"write {RESULT.name}")
    chosen = parser.parse_args()

    import torch
    import transformers

    from .folder_cases import Outcome, run_case

    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    transformers.logging.set_verbosity_error()
    outcomes: list[Outcome] = []
    start = time.monotonic()
    if chosen.case:
        for number in chosen.case:
            outcome = run_case(chosen.seed, number, chosen.keep)
            outcomes.append(outcome)
            print(number, outcome.kind)
            pprint.pprint(vars(outcome), width=150)
    else:
        number = chosen.first
        while time.monotonic() - start < 60 * chosen.minutes:
            outcome = run_case(chosen.seed, number)
            outcomes.append(outcome)
            if outcome.found.different:
                print(number, outcome.family, outcome.head, outcome.found.different[0][:600])
                sys.stdout.flush()
            number += 1
    lines = report(outcomes, chosen.seed, (time.monotonic() - start) / 60)
    print("\n".join(lines))
    if chosen.result:
        RESULT.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return int(any(outcome.found.different for outcome in outcomes))


def report(outcomes: list, seed: int, minutes: float) -> list[str]:
    """The page of a run."""
    found = []
    for name in PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"no {name}")
    lines = [
        "# Random folders beside transformers and sentence-transformers",
        "",
        f"{datetime.date.today()}, {', '.join(found)}; seed {seed}, {len(outcomes)} folders in "
        f"{minutes:.0f} minutes.",
        "",
        "| family | folders | equal | refused | different | not read by the peers |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    kinds = ("equal", "refused", "different", "no peer")
    families = sorted({outcome.family for outcome in outcomes})
    for family in [*families, "all"]:
        own = [o for o in outcomes if family in (o.family, "all")]
        counts = Counter(o.kind for o in own)
        row = " | ".join(str(counts[kind]) for kind in kinds)
        lines.append(f"| {family} | {len(own)} | {row} |")
    for title, name in (
        ("Compared and equal", "equal"),
        ("Refused, by the reason", "refused"),
        ("Texts that a documented difference is about", "documented"),
        ("Not read by the peers", "peers"),
    ):
        total: Counter[str] = Counter()
        for outcome in outcomes:
            total.update(getattr(outcome.found, name))
        lines += ["", f"## {title}", "", "| | |", "|---|--:|"]
        lines += [f"| {what} | {count:,} |" for what, count in total.most_common()]
    different = [outcome for outcome in outcomes if outcome.found.different]
    lines += ["", "## Different", ""]
    lines += [f"- {o.number} {o.family}: {o.found.different[0][:300]}" for o in different] or [
        "None."
    ]
    return lines


if __name__ == "__main__":
    sys.exit(main())

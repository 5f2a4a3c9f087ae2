"""Measures `fit` and what people would take instead, on tables of few rows and of many kinds.

    python benchmarks/fit.py                              # everything but the large tables: hours
    python benchmarks/fit.py --engines lr as_is           # minutes
    python benchmarks/fit.py --engines ours --sets sst2 banking10 --sizes 8 --seeds 1
    python benchmarks/fit.py --engines ours --sets sst2_whole imdb_whole --models roberta.tiny
    python benchmarks/fit.py --page                       # only the page, of what is there

What is measured is written at once, and not measured again: a run that is stopped resumes where it
was. `--again` measures anew. The engines are those of lib/fit_engines.py: `lr` is scikit-learn's
regression on vectors of the same model, `as_is` the model without training, `setfit` SetFit
with its defaults, `ours` what `fit` chooses, `by_regression` and `by_training` the two ways that it
chooses between; where `ours` has taken the way, it is not trained again. All get the same rows
(lib/fit_sets.py) and one thread. SetFit runs where it is installed; its numbers are kept otherwise.

Needs `../shared/data` or $ROBERTA_HUB_SHARED. Writes `benchmarks/results/fit.{md,json}`.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]
os.environ |= {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}

from lib import fit_page, report  # noqa: E402
from lib.fit_cells import measured  # noqa: E402
from lib.fit_engines import ENGINES, FIXED, MODELS, PACKAGES, takes  # noqa: E402
from lib.fit_runs import Key, Run, Runs  # noqa: E402
from lib.fit_sets import REPORTED  # noqa: E402

Wanted = argparse.Namespace


def asked(given: Wanted) -> Iterator[Key]:
    """What is to be measured, the first seed of the smallest tables first."""
    sizes = sorted({(place, s) for n in given.sets for place, s in enumerate(REPORTED[n].sizes)})
    for seed in given.seeds:
        for place, size in sizes:
            for name in given.sets:
                table = REPORTED[name]
                if table.sizes[place : place + 1] != (size,):
                    continue
                if given.sizes and size not in given.sizes:
                    continue
                for model in given.models:
                    for engine in given.engines:
                        if takes(engine, table, size):
                            yield Key(engine, model, name, size, seed)


def measure(key: Key) -> Run | None:
    """Let an engine learn a table; None: it has no answer for such tables."""
    found = measured(key, REPORTED[key.set], ENGINES[key.engine])
    return found and found[0]


def main() -> None:
    """Measure what is asked and missing, and write each number as it comes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    few = [name for name, table in REPORTED.items() if table.kind != "large"]
    parser.add_argument("--engines", nargs="+", default=list(ENGINES), choices=list(ENGINES))
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--sets", nargs="+", default=few, choices=list(REPORTED))
    parser.add_argument("--sizes", nargs="+", type=int, default=[])
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--again", action="store_true", help="measure what is there anew")
    parser.add_argument("--page", action="store_true", help="write the page alone")
    given = parser.parse_args()
    runs = Runs(report.RESULTS / "fit.json")
    if importlib.util.find_spec("setfit") is None:
        given.engines = [engine for engine in given.engines if engine != "setfit"]
    import torch

    torch.set_num_threads(1)
    for key in [] if given.page else asked(given):
        known = runs.read()
        taken = known.get(key._replace(engine="ours"))
        if taken is not None and FIXED.get(key.engine) == taken.way:
            continue
        if given.again or key not in known:
            found = measure(key)
            if found is not None:
                runs.add(found, report.about(*PACKAGES[key.engine]))
                print(found.line(), flush=True)
    (report.RESULTS / "fit.md").write_text(fit_page.page(runs), encoding="utf-8")


if __name__ == "__main__":
    main()

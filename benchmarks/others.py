"""Measures `fit` and what people would take instead on the tables that others publish.

    python benchmarks/others.py                                  # everything: many hours
    python benchmarks/others.py --engines tfidf lr as_is         # an hour
    python benchmarks/others.py --engines ours --sets trec --sizes 8 --seeds 1
    python benchmarks/others.py --page                           # only the page, of what is there

What is measured is written at once, and not measured again: a run that is stopped resumes where it
was. `--again` measures anew. Each cell is a process of its own with one thread. The sets are those
of lib/other_sets.py, the engines those of lib/other_engines.py: `tfidf` is scikit-learn's
regression on TF-IDF, `lr` the same on vectors of a model, `as_is` the cosine of its vectors,
`zero_shot` the names of the labels, `setfit` SetFit with its defaults, where it is installed, and
`ours` is `fit`. What each answered to each test row is kept beside its scores.

Needs `../shared/data` or $ROBERTA_HUB_SHARED. Writes `benchmarks/results/others.json`, and the
tables of `docs/background/tables.md`, whose text is written by hand.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]
os.environ |= {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}

import entities  # noqa: E402
from lib import other_answers, other_page, report  # noqa: E402
from lib.fit_cells import measured  # noqa: E402
from lib.fit_engines import loaded  # noqa: E402
from lib.fit_runs import Key, Run, Runs, place_of  # noqa: E402
from lib.other_engines import (  # noqa: E402
    ENGINES,
    FROZEN,
    OWN,
    PACKAGES,
    models_of,
    seeds_of,
    sizes_of,
)
from lib.other_sets import TABLES  # noqa: E402

PAGE = ROOT / "docs/background/tables.md"
FILE = report.RESULTS / "others.json"


def asked(given: argparse.Namespace) -> Iterator[Key]:
    """What is to be measured, engine by engine, the smallest tables first."""
    for engine in given.engines:
        sizes = sorted(
            (place, name, size)
            for name in given.sets
            for place, size in enumerate(sizes_of(engine, TABLES[name]))
        )
        for _, name, size in sizes:
            for model in models_of(engine):
                for seed in seeds_of(engine, TABLES[name], size, given.seeds):
                    if given.sizes and size not in given.sizes:
                        continue
                    if model in given.models or engine == "tfidf":
                        yield Key(engine, model, name, size, seed)


def one(key: Key) -> tuple[Run, dict[str, Any]] | None:
    """Measure a cell in this process: the run, and what surrounds it."""
    found = measured(key, TABLES[key.set], ENGINES[key.engine])
    if found is None:
        return None
    run, answers = found
    about = report.about(*PACKAGES[key.engine])
    if key.engine in OWN:
        about["versions"]["roberta_hub"] = report.own_version()
    return replace(run, place=place_of(about), answers=other_answers.written(answers)), about


def measure(key: Key) -> tuple[Run, dict[str, Any]] | None:
    """Measure a cell in a process of its own, a fork of this one: libraries need no new start."""
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as alone:
        return alone.submit(one, key).result()


def main() -> None:
    """Measure what is asked and missing, and write each number as it comes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    models = models_of("ours")
    parser.add_argument("--engines", nargs="+", default=list(ENGINES), choices=list(ENGINES))
    parser.add_argument("--models", nargs="+", default=list(models), choices=list(models))
    parser.add_argument("--sets", nargs="+", default=list(TABLES), choices=list(TABLES))
    parser.add_argument("--sizes", nargs="+", type=int, default=[])
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--again", action="store_true", help="measure what is there anew")
    parser.add_argument("--page", action="store_true", help="write the page alone")
    given = parser.parse_args()
    if importlib.util.find_spec("setfit") is None:
        given.engines = [engine for engine in given.engines if engine != "setfit"]
    import torch

    torch.set_num_threads(1)
    runs = Runs(FILE)
    for key in [] if given.page else asked(given):
        if given.again or key not in runs.read():
            if key.engine in FROZEN:
                loaded(key.model)
            found = measure(key)
            if found is not None:
                runs.add(*found)
                print(found[0].line(), flush=True)
    spans = json.loads((report.RESULTS / "entities.json").read_text(encoding="utf-8"))
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(other_page.filled(text, runs, entities.table(spans)), encoding="utf-8")


if __name__ == "__main__":
    main()

"""Measures the taggers of `roberta_hub.fit` and spaCy's `ner`, on four sets of labelled spans.

    python benchmarks/entities.py                            # every set, from roberta.tiny
    python benchmarks/entities.py --sets nlupp --seeds 1 2   # some of it
    python benchmarks/entities.py --models all-MiniLM-L6-v2

Both learn the same nine tenths of the rows and hold the same tenth out. `fit` does nothing with it;
spaCy stops by it: `blank("en")` with the `ner` that `spacy init config` writes, trained until 1,600
updates bring nothing more. Both then answer test rows that neither has seen. A span is right if its
edges and its label are; of sets that come as words spaCy is given these words, where `tag` cuts the
text itself. Rows of a set that is not divided are drawn by the seed.

Each run is a process of its own with one thread. Writes `benchmarks/results/entities.{md,json}`
after each; what is there is not run again (`--again` does). The sets are those of
`../shared/data/tasks` and `others` (or under $ROBERTA_HUB_SHARED).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import process_time
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from lib import report  # noqa: E402
from lib.corpus import shared_file  # noqa: E402

SETS = {
    "nlupp": "NLU++ banking, slots",
    "wikigold": "wikigold, names",
    "wnut17": "WNUT 2017, names",
    "btc": "Broad Twitter Corpus, names without @names",
}
ROWS = {"nlupp": 600, "wikigold": 500}
"""Rows to learn of the sets that are not divided; the others are the test."""
NAMES = {"fit": "fit", "spacy": "spaCy's ner"}


def rows_of(file: str) -> list[Any]:
    from roberta_hub.rows.left_out import LeftOut
    from roberta_hub.train.fitting.span_layouts import span_table
    from roberta_hub.train.fitting.spans import checked

    source = span_table(shared_file(f"data/tasks/{file}"))
    assert source is not None
    return checked(source.read(), LeftOut())


def drawn(name: str, seed: int) -> tuple[list[Any], list[Any]]:
    """(rows to learn, rows of the test) of a set."""
    if name == "wnut17":
        return rows_of("ner/wnut17/train.conll"), rows_of("ner/wnut17/test.annotated")
    if name == "btc":  # the part g is the test, as in the corpus's own division
        parts = [
            without_handles(rows_of(f"../others/ner/btc/btc_{part}.conll.xz")) for part in "abeg"
        ]
        return [row for part in parts[:-1] for row in part], parts[-1]
    files = {"nlupp": "intents/nlupp_banking.jsonl", "wikigold": "ner/wikigold.conll.txt"}
    rows = rows_of(files[name])
    random.Random(seed).shuffle(rows)
    return rows[: ROWS[name]], rows[ROWS[name] :]


def without_handles(rows: Sequence[Any]) -> list[Any]:
    """Take the label off words such as "@ada": their sign alone tells them."""
    return [
        replace(row, spans=tuple(s for s in row.spans if not row.text[s[0] :].startswith("@")))
        for row in rows
    ]


def score(test: Sequence[Any], answers: Sequence[set[Any]]) -> dict[str, float]:
    """Micro-F1, precision and recall of spans."""
    right = sum(len({*row.spans} & own) for row, own in zip(test, answers, strict=True))
    wanted, found = sum(len(row.spans) for row in test), sum(map(len, answers))
    precision, recall = right / max(found, 1), right / max(wanted, 1)
    return {"f1": 2 * right / max(wanted + found, 1), "precision": precision, "recall": recall}


def as_table(rows: Sequence[Any]) -> list[dict[str, Any]]:
    return [{"text": row.text, "spans": [list(span) for span in row.spans]} for row in rows]


def of_fit(learnt: list[Any], test: list[Any], seed: int, model: str) -> dict[str, Any]:
    """Make a tagger, and ask it."""
    from lib.fit_engines import weights

    import roberta_hub

    folder = weights(model)
    began = process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mine = roberta_hub.fit(
            as_table(learnt), label="spans", model=folder, seed=seed, progress=False
        )
    seconds = process_time() - began
    texts = [row.text for row in test]
    answers = [
        {(span.start, span.end, span.label) for span in spans}
        for spans in mine.eval().tag(texts, stride=64, progress=False)
    ]
    looked_up = mine.fitted.scores.simplest
    held_out = mine.fitted.scores.numbers["F1"]
    numbers = {"cpu_seconds": seconds, "held_out": held_out, "looked_up": looked_up}
    return {**score(test, answers), **numbers}


def of_spacy(name: str, learnt: list[Any], test: list[Any], seed: int) -> dict[str, Any]:
    """Train spaCy's `ner` to its end, and ask it."""
    import spacy
    from spacy.cli.init_config import init_config
    from spacy.tokens import Doc, DocBin
    from spacy.training.initialize import init_nlp
    from spacy.training.loop import train

    from roberta_hub.train.fitting.tag_examples import read_tag_examples

    halves = read_tag_examples(as_table(learnt), label="spans", seed=seed)
    assert halves is not None
    nlp = spacy.blank("en")

    def doc_of(row: Any) -> Any:
        if name == "nlupp":
            doc = nlp.make_doc(row.text)
        else:  # the set's own words
            doc = Doc(nlp.vocab, words=row.text.split(" "))
        spans = [doc.char_span(start, end, label=label) for start, end, label in row.spans]
        doc.ents = [span for span in spans if span is not None]
        return doc

    with tempfile.TemporaryDirectory() as work:
        for part, rows in (("train", halves.train), ("dev", halves.valid)):
            DocBin(docs=map(doc_of, rows)).to_disk(f"{work}/{part}.spacy")
        config = init_config(lang="en", pipeline=["ner"], optimize="efficiency", gpu=False)
        config["paths"]["train"], config["paths"]["dev"] = (
            f"{work}/train.spacy",
            f"{work}/dev.spacy",
        )
        config["training"]["seed"] = config["system"]["seed"] = seed
        config["training"]["logger"] = {
            "@loggers": "spacy.ConsoleLogger.v3",
            "progress_bar": None,
            "console_output": False,
            "output_file": f"{work}/log.jsonl",
        }
        began = process_time()
        trained = init_nlp(config)
        (Path(work) / "out").mkdir()
        _, best = train(trained, Path(work) / "out", stdout=sys.stderr, stderr=sys.stderr)
        seconds = process_time() - began
        updates = json.loads(Path(work, "log.jsonl").read_text().splitlines()[-1])["step"]
        tagger = spacy.load(best or Path(work) / "out/model-best")
    answers = []
    for row in test:
        doc = tagger(row.text if name == "nlupp" else Doc(tagger.vocab, words=row.text.split(" ")))
        answers.append({(ent.start_char, ent.end_char, ent.label_) for ent in doc.ents})
    return {**score(test, answers), "cpu_seconds": seconds, "updates": updates}


def one(name: str, engine: str, model: str, seed: int) -> dict[str, Any]:
    """Run one line of the table in this process."""
    import torch

    torch.set_num_threads(1)
    learnt, test = drawn(name, seed)
    if engine == "fit":
        return of_fit(learnt, test, seed, model)
    return of_spacy(name, learnt, test, seed)


def page(numbers: dict[str, Any]) -> str:
    """Write the table."""
    lines = [
        "# Taggers of your own",
        "",
        "`roberta_hub.fit` beside spaCy's `ner`, on spans of test rows that neither has seen; the "
        "same rows are learnt, the same tenth of them held out. `python benchmarks/entities.py` "
        "says how. Numbers with a ± are means and standard deviations over seeds.",
        "",
        *table(numbers),
        "",
        "The rates, epochs and rules of `fit` were chosen on other sets: re3d, restaurants-8k and "
        "four domains of DSTC8.",
    ]
    places = [(run["by"], report.sentence(run["about"])) for run in numbers["runs"].values()]
    for by, place in sorted(set(places)):
        lines += ["", f"{by}: {place}"]
    return "\n".join(lines) + "\n"


def table(numbers: dict[str, Any]) -> list[str]:
    """Write the lines of the table."""
    lines = [
        "| set | rows | learnt by | seeds | F1 | precision | recall | CPU s | version | CPU |",
        "|---|--:|---|--:|--:|--:|--:|--:|---|---|",
    ]
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for found in numbers["runs"].values():
        groups.setdefault((found["set"], found["by"]), []).append(found)
    for (name, by), own in sorted(groups.items()):
        cells = [_mean([100 * run[key] for run in own]) for key in ("f1", "precision", "recall")]
        seconds = _mean([run["cpu_seconds"] for run in own], digits=0)
        abouts = [run["about"] for run in own]
        versions = [f"{k} {v}" for about in abouts for k, v in about["versions"].items()]
        cpus = [about["instruction_sets"] for about in abouts]
        where = " | ".join("; ".join(dict.fromkeys(found)) for found in (versions, cpus))
        lines.append(
            f"| {SETS[name]} | {own[0]['rows']:,} | {by} | {len(own)} | {' | '.join(cells)} "
            f"| {seconds} | {where} |"
        )
    return lines


def _mean(values: Sequence[float], digits: int = 1) -> str:
    mean = sum(values) / len(values)
    if len(values) == 1:
        return f"{mean:.{digits}f}"
    spread = (sum((v - mean) ** 2 for v in values) / (len(values) - 1)) ** 0.5
    return f"{mean:.{digits}f} ± {spread:.{digits}f}"


def main() -> None:
    """Run what is asked and not there yet, and write after each run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--engines", nargs="+", default=list(NAMES), choices=list(NAMES))
    parser.add_argument("--models", nargs="+", default=["roberta.tiny"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--one", nargs=4, metavar=("SET", "ENGINE", "MODEL", "SEED"))
    given = parser.parse_args()
    if given.one:
        name, engine, model, seed = given.one
        print(json.dumps(one(name, engine, model, int(seed))))
        return
    file = report.RESULTS / "entities.json"
    numbers = json.loads(file.read_text()) if file.exists() else {"runs": {}}
    for seed in given.seeds:
        for name in given.sets:
            rows = len(drawn(name, seed)[0])
            for engine in given.engines:
                for model in given.models if engine == "fit" else [""]:
                    by = f"fit, {model}" if engine == "fit" else NAMES[engine]
                    key = f"{name} {by} {seed}"
                    if key in numbers["runs"] and not given.again:
                        continue
                    done = subprocess.run(
                        [sys.executable, __file__, "--one", name, engine, model, str(seed)],
                        capture_output=True,
                        text=True,
                        env={**os.environ, "OMP_NUM_THREADS": "1"},
                    )
                    if done.returncode:
                        raise SystemExit(f"{key}: {done.stderr[-2000:]}")
                    found = json.loads(done.stdout.splitlines()[-1])
                    about = report.about("torch" if engine == "fit" else "spacy")
                    run = {"set": name, "by": by, "rows": rows, **found, "about": about}
                    numbers["runs"][key] = run
                    file.write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
                    file.with_suffix(".md").write_text(page(numbers), encoding="utf-8")
                    print(key, found, flush=True)


if __name__ == "__main__":
    main()

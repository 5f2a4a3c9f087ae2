"""How good the built-in model is, and what it costs: one table, next to an older one.

    python benchmarks/tiny.py --before runs/tiny/0.1.0      # more than half an hour on two cores
    python benchmarks/tiny.py --model runs/tiny/last --only mnli_dev_matched,sts_b_test
    python benchmarks/tiny.py --only blimp,xquad_search         # a few of those by `evaluate`
    python benchmarks/tiny.py --wrong                       # and the 50 surest mistakes of each set

It reads the evaluation sets of `../shared/data` (or $ROBERTA_HUB_SHARED/data), which no training
step reads, the topics of `tools/draw_topics.py`, and the Wikipedia text that
`tools/train_tiny.py prepare` held out. The older model of 0.1.0 is a folder, which this makes:

    git archive 735c42f roberta_hub/models/tiny | tar x --strip-components 3 -C runs/tiny/0.1.0

Writes `benchmarks/results/tiny.{md,json}` where the model is the one in the box and nothing is left
out; `--name` writes other results beside it, and with `--only` replaces these numbers alone.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from lib import answers, costs, worth  # noqa: E402
from lib.report import RESULTS, about, sentence, write  # noqa: E402
from lib.worth import percent  # noqa: E402

SHIPPED = "roberta.tiny"
HELD_OUT = ROOT / "runs" / "tiny" / "valid.txt"
PAIRS = 1000
"""Pairs of a speed round."""
WORST = 50
PERPLEXITY = {"perplexity_books": answers.SHARED / "data/eval/books_dev.txt"}
PERPLEXITY["perplexity_wikipedia"] = HELD_OUT
ONLY = (*answers.SETS, *worth.TASKS, *PERPLEXITY, "bytes", "wheel", "start", "speed")
"""What can be measured, by the names of the results."""


def measure(
    model: str, only: list[str], rounds: int, limit: int | None
) -> tuple[dict[str, Any], dict[str, answers.Score]]:
    """Return the numbers of one model, and what it answered to every set."""
    import roberta_hub

    roberta = roberta_hub.load_model(model).eval()
    prepared = roberta_hub.load_model(model).eval()
    if set(only) & worth.TASKS.keys():
        prepared.optimize()  # the same float32 within 2e-5, and minutes of BLiMP instead of hours
    folder = costs.folder_of(model)
    numbers: dict[str, Any] = {"model": model if model == SHIPPED else Path(model).name}
    scores = {}
    for name in only:
        if name in answers.SETS:
            score = scores[name] = answers.SETS[name][2](roberta, limit)
            numbers[name] = score.more or [score.value, score.chance]
        elif name in worth.TASKS:
            numbers[name] = worth.evaluated(prepared, name, limit)
        elif name in PERPLEXITY and PERPLEXITY[name].is_file():
            numbers[name] = answers.perplexity(roberta, PERPLEXITY[name])
        print(f"{model}: {name} {numbers.get(name, '')}"[:300], file=sys.stderr, flush=True)
    if "bytes" in only:
        numbers["bytes"] = costs.file_bytes(folder)
    if "wheel" in only:
        numbers["wheel"] = costs.wheel_bytes(folder)
    if "speed" in only:
        rows = answers.table(answers.SHARED / "data/nli/mnli_dev_matched.tsv.xz")
        pairs = [(row[0], row[1]) for row in rows[1 : 1 + min(PAIRS, limit or PAIRS)]]
        numbers["speed"] = costs.shares(roberta, pairs, rounds)
    return numbers, scores


def rows(n: Mapping[str, Any]) -> dict[str, str]:
    """What stands in the table: what it is -> its number."""
    found = {}
    for name, (what, _, _) in answers.SETS.items():
        if name == "books" and name in n:
            found[f"{what} ({n[name]['passages']} passages)"] = percent(n[name]["top5"])
            found["the same, words of one token only"] = percent(n[name]["top5_of_whole_words"])
            found["the first guess"] = percent(n[name]["top1"])
        elif name in n:
            value, chance = n[name]
            more = "" if chance is None else f" (most frequent label {percent(chance)})"
            found[f"{what}{more}"] = f"{value:.3f}" if chance is None else percent(value)
    found |= worth.rows(dict(n))
    chance = f"{math.exp(10.825):,.0f}"
    for name, what in (
        ("perplexity_books", f"perplexity of masked tokens, books (chance {chance})"),
        ("perplexity_wikipedia", "the same, held-out Simple English Wikipedia"),
    ):
        if name in n:
            found[what] = f"{n[name]:.1f}"
    for name, what in (("bytes", "files in the package"), ("wheel", "the package's wheel")):
        if name in n:
            found[what] = f"{n[name] / 1e6:.1f} MB"
    if "start" in n:
        found["start of Python to a first filled mask"] = f"{n['start']['median']:.2f} s"
    if "speed" in n:
        for name, what in (("plain", "plain"), ("optimized", "after `optimize()`")):
            speed = n["speed"][name]
            found[f"MNLI pairs a second on this CPU, {what}"] = (
                f"{median(speed['pairs_per_second']):,.0f}"
            )
            found[f"the same, share of the products' ceiling, {what}"] = percent(
                speed["share_of_ceiling"]
            )
    return found


def table(numbers: Mapping[str, Any]) -> str:
    """The numbers as Markdown, those of the older model first."""
    now, before = rows(numbers), rows(numbers["before"]) if "before" in numbers else None
    page = ["# The model in the box", "", "Again: `python benchmarks/tiny.py`.", ""]
    if before is None:
        page += [f"| what | {numbers['model']} |", "|---|--:|"]
        page += [f"| {what} | {value} |" for what, value in now.items()]
    else:
        page += [f"| what | {numbers['before']['model']} | {numbers['model']} |", "|---|--:|--:|"]
        page += [f"| {what} | {before.get(what, '')} | {value} |" for what, value in now.items()]
    if "start" in numbers and "before" in numbers:
        ratio = numbers["start"]["median"] / numbers["before"]["start"]["median"]
        page.append(f"| start to first answer, over the older model's, by turns | | {ratio:.2f} |")
    if "speed" in numbers:
        page += [
            "",
            "The ceiling is the time of the bare float32 products that `classify` needs for the "
            "same pairs, with their real lengths and in the same batches, by turns with it: "
            "torch's own (plain), prepacked and a batch on each core (`optimize()`); attention's "
            "products are counted at the speed of the others.",
        ]
    page += [""] * bool(numbers.get("later"))
    for about_it in dict.fromkeys(map(sentence, numbers.get("later", {}).values())):
        names = [part for part, own in numbers["later"].items() if sentence(own) == about_it]
        page.append(f"Measured by itself: {', '.join(names)}. {about_it}")
    return "\n".join(page) + "\n"


def wrong(model: str, scores: Mapping[str, answers.Score]) -> str:
    """The surest mistakes of every set as Markdown; texts only where their licence permits."""
    page = [f"# The surest mistakes of {model}", ""]
    page.append("Again: `python benchmarks/tiny.py --wrong`. Rows count from 1, without a header.")
    for name, score in scores.items():
        what, verb, _ = answers.SETS[name]
        worst = sorted(score.mistakes, key=lambda m: -m.sure)[:WORST]
        shown = answers.MAY_BE_SHOWN.get(name)
        page += ["", f"## {what}", ""]
        page.append(f"Sentences: {shown}." if shown else "Rows only: the sentences are others'.")
        sure = "off by" if verb == "embed" else "sure"
        page += ["", f"| row | {sure} | given | right |{' text |' if shown else ''}"]
        page.append(f"|--:|--:|---|---|{'---|' if shown else ''}")
        for m in worst:
            text = m.text.replace("|", "/") if shown else ""
            text = text if len(text) <= 160 else f"{text[:157]}..."
            cells = [str(m.row), f"{m.sure:.2f}", m.given, m.wanted, *([text] if shown else [])]
            page.append(f"| {' | '.join(cells)} |")
    return "\n".join(page) + "\n"


def replaced(old: str, new: str) -> str:
    """Put the sections of a page of mistakes into an older one, in the place of its own."""
    head, *sections = old.rstrip("\n").split("\n\n## ")
    by_title = {section.split("\n", 1)[0]: section for section in sections}
    for section in new.rstrip("\n").split("\n\n## ")[1:]:
        by_title[section.split("\n", 1)[0]] = section
    return "\n\n## ".join([head, *by_title.values()]) + "\n"


def main() -> None:
    """Measure, print, and write the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default=SHIPPED, help="a name or a path")
    parser.add_argument("--before", help="an older model, name or path, to stand beside it")
    parser.add_argument("--only", help=f"comma between; of {', '.join(ONLY)}")
    parser.add_argument("--wrong", action="store_true", help="write the surest mistakes too")
    parser.add_argument("--rounds", type=int, default=9, help="of what is timed")
    parser.add_argument("--limit", type=int, help="the first rows of every set only, for a look")
    parser.add_argument(
        "--name", help="of the results; else they are written where all is measured"
    )
    options = parser.parse_args()
    only = options.only.split(",") if options.only else list(ONLY)
    unknown = sorted(set(only) - set(ONLY))
    if unknown:
        parser.error(f"--only {', '.join(unknown)}: there is {', '.join(ONLY)}")
    whole = options.model == SHIPPED and not options.only and not options.limit
    name = options.name or ("tiny" if whole else None)
    if options.wrong and not name:
        parser.error("--wrong writes among the results, and these are no whole ones: add --name")
    models = {"model": options.model} | ({"before": options.before} if options.before else {})
    found = {who: measure(m, only, options.rounds, options.limit) for who, m in models.items()}
    if "start" in only:
        for who, s in costs.first_answers(models, options.rounds).items():
            found[who][0]["start"] = {"median": s.median, "seconds": s.seconds}
    numbers, scores = found["model"]
    more = ("pytrec-eval-terrier",) if set(only) & worth.SEARCHES.keys() else ()
    numbers = {"about": about("torch", *more), **numbers}
    if options.before:
        numbers["before"] = found["before"][0]
    if name and options.only and (RESULTS / f"{name}.json").is_file():
        old = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
        if options.before:
            numbers["before"] = old.get("before", {}) | numbers["before"]
        later = dict.fromkeys(only, numbers["about"])
        later = {"about": old["about"], "later": old.get("later", {}) | later}
        numbers = old | numbers | later
    page = table(numbers)
    print(page)
    if name:
        write(name, page, numbers)
    if options.wrong:
        file = RESULTS / f"{name}_wrong.md"
        page = wrong(numbers["model"], scores)
        if options.only and file.is_file():
            page = replaced(file.read_text(encoding="utf-8").rsplit("\n\n", 1)[0], page)
        file.write_text(f"{page}\n{sentence(numbers['about'])}\n", encoding="utf-8")


if __name__ == "__main__":
    main()

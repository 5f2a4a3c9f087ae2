"""How good roberta.tiny is: one table of scores, size and speed.

    python benchmarks/tiny.py                    # about three minutes on two cores
    python benchmarks/tiny.py --model runs/tiny/settle/best

It reads the evaluation sets of `../shared/data` (or $ROBERTA_HUB_SHARED/data), which no training
step reads, and the Wikipedia text that `tools/train_tiny.py prepare` held out. Writes
`benchmarks/results/tiny.{md,json}`.
"""

from __future__ import annotations

import argparse
import csv
import lzma
import math
import os
import random
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
SHARED = Path(os.environ.get("ROBERTA_HUB_SHARED", ROOT.parent / "shared"))
HELD_OUT = ROOT / "runs" / "tiny" / "valid.txt"
WORDS_OF = 2000
"""Passages of which a word is masked."""
ROUNDS = 5
PAIRS = 1000
"""Pairs of a speed round."""


def pairs(name: str) -> list[tuple[tuple[str, str], str]]:
    """Premise and hypothesis with their label."""
    data = (SHARED / "data/nli" / name).read_bytes()
    text = (lzma.decompress(data) if name.endswith(".xz") else data).decode("utf-8")
    lines = text.rstrip("\n").split("\n")
    rows = list(csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]
    return [((premise, hypothesis), label) for premise, hypothesis, label in rows]


def accuracy(roberta: Any, name: str) -> tuple[float, float]:
    """Share of right labels, and of the most frequent label.

    RTE's second label is "not entailment".
    """
    found = pairs(name)
    labels = [label for _, label in found]
    predictions = [p.label for p in roberta.classify([pair for pair, _ in found], head="mnli")]
    if "not_entailment" in labels:
        predictions = ["entailment" if p == "entailment" else "not_entailment" for p in predictions]
    right = sum(p == label for p, label in zip(predictions, labels, strict=True))
    return right / len(labels), max(map(labels.count, set(labels))) / len(labels)


def masked_words(roberta: Any) -> dict[str, float]:
    """How often a masked lower-case word of prose is first, or among the first five guesses.

    A random word of each passage of 8-200 words, whatever its length; one that the vocabulary cuts
    into pieces cannot be hit by one mask, and is a miss in `all`.
    """
    draw = random.Random(0)
    lines = (SHARED / "data/eval/books_dev.txt").read_text(encoding="utf-8").splitlines()
    texts, wanted = [], []
    for line in lines:
        words = list(re.finditer(r"(?<= )[a-z]+(?=[ ,.;:!?])", line))
        if 8 <= len(line.split()) <= 200 and words:
            word = draw.choice(words)
            texts.append(f"{line[: word.start()].rstrip()} <mask>{line[word.end() :]}")
            wanted.append(f" {word.group()}")
    texts, wanted = texts[:WORDS_OF], wanted[:WORDS_OF]
    guesses = [
        [word for _, _, word in found] for found in roberta.fill_mask(texts, topk=5, truncate=False)
    ]
    whole = [len(roberta.tokenize(word)) == 1 for word in wanted]
    top1 = [g[:1] == [w] for g, w in zip(guesses, wanted, strict=True)]
    top5 = [w in g for g, w in zip(guesses, wanted, strict=True)]
    return {
        "passages": len(texts),
        "top1": sum(top1) / len(texts),
        "top5": sum(top5) / len(texts),
        "top5_of_whole_words": sum(top5) / sum(whole),
    }


def perplexity(roberta: Any, path: Path) -> float:
    """Of masked tokens, 15 % of each block of 128, always the same ones."""
    import tempfile

    from roberta_hub.train.config import BatchConfig, Config, DataConfig, TaskConfig
    from roberta_hub.train.tasks.build import build_task

    with tempfile.TemporaryDirectory() as folder:
        config = Config(
            output=folder,
            data=DataConfig(train=str(path), valid=str(path)),
            task=TaskConfig(name="masked_lm", options={"block_size": 128}),
            batch=BatchConfig(max_tokens=4096),
        )
        return build_task(config, roberta).evaluate()["perplexity"]


def speed(roberta: Any) -> Iterator[float]:
    """Pairs a second, round after round."""
    sample = [pair for pair, _ in pairs("mnli_dev_matched.tsv.xz")[:PAIRS]]
    roberta.classify(sample[:100], head="mnli")
    for _ in range(ROUNDS):
        start = time.perf_counter()
        roberta.classify(sample, head="mnli")
        yield len(sample) / (time.perf_counter() - start)


def main() -> None:
    """Measure, print, and write the result."""
    from lib.report import about, write

    import roberta_hub
    from roberta_hub.checkpoint.fetch.catalogue import embedded, find

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="roberta.tiny")
    options = parser.parse_args()
    roberta = roberta_hub.load_model(options.model).eval()
    record = find(options.model)
    folder = embedded(record) if record else Path(options.model)
    numbers: dict[str, Any] = {"about": about("torch"), "model": options.model}
    numbers["bytes"] = sum(p.stat().st_size for p in folder.iterdir() if p.is_file())
    for name in ("mnli_dev_matched.tsv.xz", "snli_dev.tsv.xz", "rte_dev.tsv"):
        numbers[name.split(".")[0]] = accuracy(roberta, name)
    numbers["books"] = masked_words(roberta)
    numbers["perplexity_books"] = perplexity(roberta, SHARED / "data/eval/books_dev.txt")
    if HELD_OUT.is_file():
        numbers["perplexity_wikipedia"] = perplexity(roberta, HELD_OUT)
    numbers["pairs_per_second"] = list(speed(roberta))
    page = table(numbers)
    print(page)
    if options.model == "roberta.tiny":
        write("tiny", page, numbers)


def table(n: dict[str, Any]) -> str:
    """The numbers as Markdown."""
    rows = [
        ("MNLI dev-matched, accuracy", n["mnli_dev_matched"]),
        ("SNLI dev, accuracy", n["snli_dev"]),
        ("RTE dev, two labels, accuracy", n["rte_dev"]),
    ]
    lines = ["| what | roberta.tiny | most frequent label |", "|---|--:|--:|"]
    lines += [f"| {what} | {100 * a:.1f} % | {100 * b:.1f} % |" for what, (a, b) in rows]
    books = n["books"]
    lines += [
        f"| masked lower-case word of books, in the top five ({books['passages']} passages) | "
        f"{100 * books['top5']:.1f} % | |",
        f"| the same, words of one token only | {100 * books['top5_of_whole_words']:.1f} % | |",
        f"| the first guess | {100 * books['top1']:.1f} % | |",
        f"| perplexity of masked tokens, books | {n['perplexity_books']:.1f} | "
        f"{math.exp(10.825):,.0f} (chance) |",
    ]
    if "perplexity_wikipedia" in n:
        lines.append(
            f"| the same, held-out Simple English Wikipedia | {n['perplexity_wikipedia']:.1f} | |"
        )
    found = n["pairs_per_second"]
    lines += [
        f"| files in the package | {n['bytes'] / 1e6:.1f} MB | |",
        f"| MNLI pairs a second on this CPU | {median(found):,.0f} "
        f"({min(found):,.0f}-{max(found):,.0f}) | |",
    ]
    return "# roberta.tiny\n\nAgain: `python benchmarks/tiny.py`.\n\n" + "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()

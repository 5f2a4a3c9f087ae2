"""Sixteen threads, one model and one tokenizer: how many answers are wrong, ours and transformers'.

    python benchmarks/threads_safety.py            # two minutes

Each thread asks about texts of its own, some cut at a length and some not, some padded and some
not, as requests of a server differ. What is right is what the same call answers alone. Writes
`benchmarks/results/threads_safety.{md,json}`; ends with 1 where an answer of ours is wrong.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "benchmarks")]

from families import SENTENCES, write_family  # noqa: E402
from lib.report import about, write  # noqa: E402

import roberta_hub  # noqa: E402

COUNT, THREADS, AT_ONCE = 20_000, 16, 5
"""Texts; threads; texts of a call."""
NEAR = 1e-4
"""How far from its answer alone a vector may be: batches of other texts round otherwise."""
CUTS = (None, 8, 16, 32)
Answer = Callable[[list[str], int], Any]
"""From texts and the number of a way to ask them to answers, one each."""


def texts_of(count: int) -> list[str]:
    """Texts of 1 to 40 words, the same every time."""
    draw = random.Random(7)
    words = " ".join(SENTENCES).split()
    return [" ".join(draw.choices(words, k=draw.randint(1, 40))) for _ in range(count)]


def counted(calls: list[list[str]], answer: Answer, same: Callable[[Any, Any], bool]) -> Counter:
    """Ask all calls alone, then from all threads at once: answers by right, wrong and error."""
    alone = [answer(texts, number) for number, texts in enumerate(calls)]

    def ask(number: int) -> Any:
        try:
            return answer(calls[number], number)
        except Exception as error:  # what a caller of the peer would get
            return error

    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(ask, range(len(calls))))
    counts: Counter[str] = Counter()
    for texts, one, wanted in zip(calls, found, alone, strict=True):
        if isinstance(one, Exception):
            counts[f"{type(one).__name__}: {one}"] += len(texts)
        else:
            right = [same(a, b) for a, b in zip(one, wanted, strict=True)]
            counts["right"] += sum(right)
            counts["wrong"] += len(right) - sum(right)
    return +counts  # without zeros


def ours(folder: Path) -> dict[str, Answer]:
    """Ids, and vectors of texts that are cut or read in windows."""
    roberta = roberta_hub.load_model(folder).eval()
    roberta.optimize()
    ways = ({"truncate": True}, {"stride": 4}, {"truncate": True, "batch_tokens": 40})

    def vectors(texts: list[str], number: int) -> Any:
        return roberta.features(texts, pooling="mean", progress=False, **ways[number % 3])

    return {
        "roberta_hub, ids": lambda texts, number: roberta.encode_batch(texts),
        "roberta_hub, vectors, cut or in windows": vectors,
    }


def theirs(folder: Path) -> dict[str, Answer]:
    """Ids of a fast tokenizer that is shared, as servers share it."""
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)

    def ids(texts: list[str], number: int) -> list[list[int]]:
        cut, padded = CUTS[number % len(CUTS)], number // len(CUTS) % 2
        options = {"truncation": cut is not None, "max_length": cut, "padding": bool(padded)}
        return tokenizer(texts, **options)["input_ids"]

    return {"transformers' fast tokenizer, ids, cut and padded or not": ids}


def main() -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=COUNT)
    count = parser.parse_args().count
    texts = texts_of(count)
    calls = [texts[i : i + AT_ONCE] for i in range(0, count, AT_ONCE)]
    found: dict[str, Counter] = {}
    with tempfile.TemporaryDirectory() as work:
        raw = write_family("roberta", Path(work) / "raw")
        folder = Path(work) / "saved"
        roberta_hub.load_model(raw).save(folder, format="huggingface")
        for name, answer in {**ours(folder), **theirs(folder)}.items():
            found[name] = counted(calls, answer, is_same)
            print(name, dict(found[name]))
    rows = []
    for name, counts in found.items():
        errors = [said for said in counts if said not in ("right", "wrong")]
        failed = sum(counts[said] for said in errors)
        rows.append(f"| {name} | {counts['wrong']:,} | {failed:,} | {', '.join(errors)} |")
    page = "\n".join(
        [
            "# One model, sixteen threads",
            "",
            "Again: `python benchmarks/threads_safety.py`.",
            "",
            f"{count:,} texts, {AT_ONCE} a call, {THREADS} threads; calls differ in where texts "
            "are cut and whether they are padded. Right is what the same call answers alone.",
            "",
            "| | wrong | not answered | error |",
            "|---|--:|--:|---|",
            *rows,
        ]
    )
    packages = ("torch", "transformers", "tokenizers")
    numbers = {name: dict(counts) for name, counts in found.items()}
    write("threads_safety", page, {"about": about(*packages), "counts": numbers})
    bad = sum(c["wrong"] for name, c in found.items() if name.startswith("roberta_hub"))
    return 1 if bad else 0


def is_same(one: Any, other: Any) -> bool:
    """Whether two answers are the same, vectors up to rounding."""
    if isinstance(one, torch.Tensor) and one.is_floating_point():
        return bool((one - other).abs().max() < NEAR)
    return torch.equal(torch.as_tensor(one), torch.as_tensor(other))


if __name__ == "__main__":
    sys.exit(main())

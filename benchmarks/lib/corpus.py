"""Reads the texts of the speed tables: ragged, and the same wherever the data folder is.

The first 500 pairs of MNLI dev-matched and the first 500 paragraphs of Simple English Wikipedia
that have 5-400 words. Without the folder, descriptions and docstrings of the installed packages.
"""

from __future__ import annotations

import csv
import lzma
import os
from importlib.metadata import distributions
from pathlib import Path

SHARED = Path(os.environ.get("ROBERTA_HUB_SHARED", Path(__file__).resolve().parents[3] / "shared"))


def shared_file(name: str) -> Path:
    """A file of the shared folder; without it the benchmark ends in a sentence."""
    path = SHARED / name
    if not path.exists():
        raise SystemExit(f"{path} is not there; $ROBERTA_HUB_SHARED names its folder")
    return path


COUNT = 500
"""Of each kind."""
Text = str | tuple[str, str]


def corpus(count: int = COUNT) -> tuple[str, list[Text]]:
    """Where the texts are from, and the texts: as many pairs as paragraphs."""
    if (SHARED / "data/nli/mnli_dev_matched.tsv.xz").is_file():
        return "MNLI dev-matched and Simple English Wikipedia", [
            *_pairs(count),
            *paragraphs(count)[1],
        ]
    source, found = paragraphs(2 * count)
    pairs = list(zip(found[: 2 * (count // 2) : 2], found[1 : 2 * (count // 2) : 2], strict=False))
    return source, [*pairs, *found[2 * (count // 2) :]]


def sentences(count: int) -> list[str]:
    """So many different sentences, those of MNLI's pairs; without the folder paragraphs."""
    if (SHARED / "data/nli/mnli_dev_matched.tsv.xz").is_file():
        found = [part for text in _pairs(count) for part in text]
    else:
        found = paragraphs(2 * count)[1]
    return list(dict.fromkeys(found))[:count]


def _pairs(count: int) -> list[Text]:
    with lzma.open(
        SHARED / "data/nli/mnli_dev_matched.tsv.xz", "rt", encoding="utf-8", newline=""
    ) as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [
            (row["premise"], row["hypothesis"]) for row, _ in zip(rows, range(count), strict=False)
        ]


def paragraphs(count: int) -> tuple[str, list[str]]:
    """Where they are from, and the first paragraphs of 5-400 words."""
    path = SHARED / "data/pretrain/simplewiki_2022.txt.xz"
    if path.is_file():
        with lzma.open(path, "rt", encoding="utf-8") as file:
            found = [line.strip() for line, _ in zip(file, range(40 * count), strict=False)]
        source = "Simple English Wikipedia"
    else:
        pages = [d.read_text("METADATA") or "" for d in distributions()]
        found = [" ".join(p.split()) for page in pages for p in page.split("\n\n")]
        source = "descriptions of installed packages"
    return source, [p for p in found if 5 <= len(p.split()) <= 400][:count]


def padding(lengths: list[int], batch: int = 32) -> float:
    """Slots for each real token in padded batches, in the given order."""
    groups = [lengths[i : i + batch] for i in range(0, len(lengths), batch)]
    return sum(len(g) * max(g) for g in groups) / sum(lengths)

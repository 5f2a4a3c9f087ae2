"""What the tests of indices share: a small sentence encoder, texts in a file, rows of an index."""

from __future__ import annotations

import csv
import random
from collections.abc import Sequence
from pathlib import Path

from scale.lakes import WORDS
from small_models import small_roberta

import roberta_hub
from roberta_hub import SentenceSettings


def write_encoder(folder: Path, seed: int = 0, **settings: object) -> Path:
    roberta = small_roberta(seed, num_layers=2)
    own = {"normalize": True, "prompts": {"query": "ask: ", "document": "text: "}, **settings}
    roberta.sentence = SentenceSettings(**own)
    roberta.save(folder)
    return folder


def sentences(count: int, seed: int = 0) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(2, 6))) + f" {n}" for n in range(count)]


def write_csv(path: Path, texts: Sequence[str], first: int = 0, lang: str = "en") -> Path:
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "text", "lang"])
        writer.writerows((first + n, text, lang) for n, text in enumerate(texts))
    return path


def rows_of(path: Path) -> list[tuple[str, str]]:
    table = roberta_hub.open_index(path).table.to_arrow().sort_by("_number")
    return list(zip(table["id"].to_pylist(), table["text"].to_pylist(), strict=True))

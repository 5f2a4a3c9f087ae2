"""Writes tasks of every shape."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any


def write_jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


WORDS = ["Ada", "Lovelace", "went", "to", "New", "York", "(", "again", ")", "naïve", "北京", "."]


def conll(path: Path, seed: int = 0) -> tuple[list[list[str]], list[list[str]]]:
    """Write some sentences with IOB tags; return words and tags."""
    draw = random.Random(seed)
    words, tags = [], []
    for _ in range(25):
        own = [draw.choice(WORDS) for _ in range(draw.randint(1, 9))]
        marks, before = [], "O"
        for _ in own:
            inside = f"I-{before[2:]}" if before != "O" else "O"
            before = draw.choice(["O", "O", "B-PER", "B-LOC", inside])
            marks.append(before)
        words.append(own)
        tags.append(marks)
    lines = ["-DOCSTART- -X- O O", ""]
    for own, marks in zip(words, tags, strict=True):
        lines += [f"{word} NN x {mark}" for word, mark in zip(own, marks, strict=True)] + [""]
    path.write_text("\n".join(lines), encoding="utf-8")
    return words, tags


CONTEXT = "Ada Lovelace wrote the first program in London in 1843."


def squad(path: Path, answers: list[list[str]], impossible: bool = False) -> list[dict[str, Any]]:
    qas: list[dict[str, Any]] = [
        {
            "id": str(i),
            "question": f"What is {own[0] if own else 'nothing'}?",
            "answers": [{"text": text, "answer_start": CONTEXT.index(text)} for text in own],
            "is_impossible": not own,
        }
        for i, own in enumerate(answers)
    ]
    if not impossible:
        for one in qas:
            del one["is_impossible"]
    data = [{"title": "x", "paragraphs": [{"context": CONTEXT, "qas": qas}]}]
    path.write_text(json.dumps({"version": "2.0", "data": data}), encoding="utf-8")
    return qas


def rows_of(questions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same as `datasets` writes it."""
    return [
        {
            "question": one["question"],
            "context": CONTEXT,
            "answers": {
                "text": [a["text"] for a in one["answers"]],
                "answer_start": [a["answer_start"] for a in one["answers"]],
            },
        }
        for one in questions
    ]

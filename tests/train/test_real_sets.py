"""Tasks on published sets, from roberta.tiny, above what is had without learning.

Minutes, so for make test-full.

Small parts of the sets and few epochs: they show that a recipe learns on real text, not how well it
can.
"""

from __future__ import annotations

import csv
import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from roberta_hub.train.config import compose
from roberta_hub.train.run import make_task, run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]
Numbers = dict[str, float]


@pytest.fixture(autouse=True)
def _two_threads(_one_thread: None) -> Iterator[None]:
    """More than the other tests here: these compute for a minute."""
    torch.set_num_threads(2)
    yield


def learn(folder: Path, recipe: str, *more: str) -> tuple[Numbers, Numbers]:
    """(numbers before, numbers after) training roberta.tiny."""
    settings = [
        f"finetune={recipe}",
        "model=roberta.tiny",
        f"output={folder}/run",
        "optimizer.lr=5e-4",
        "optimizer.warmup_updates=null",
        "optimizer.total_updates=null",
        "optimizer.clip_norm=1.0",
        "batch.max_tokens=8192",
        "batch.batch_size=16",
        "batch.update_freq=1",
        "loop.max_updates=null",
        "loop.max_epochs=2",
        "loop.evaluate_every=null",
        "loop.progress=false",
        *more,
    ]
    config = compose(settings)
    before = make_task(config).evaluate()
    report = run(config)
    assert report.finished, report.stopped
    print(recipe, {"before": before, "after": report.metrics})  # with pytest -s, and where it fails
    return before, report.metrics


def files(train: Path, valid: Path) -> list[str]:
    return [f"data.train={train}", f"data.valid={valid}"]


def test_sentiment_of_imdb_reviews(shared, tmp_path):
    """Half of the training reviews are others with a few words changed.

    So single words say less.
    """
    data = shared / "data/tasks/imdb_counterfactual"
    header, *reviews = rows(data / "train.tsv")
    with (tmp_path / "train.tsv").open("w", newline="") as file:
        some = random.Random(0).sample(reviews, 1500)  # the file's first are mostly negative
        csv.writer(file, delimiter="\t", lineterminator="\n").writerows([header, *some])
    settings = ["data.format=tsv", "data.columns={sentence: Text, label: Sentiment}"]
    options = ["task.options={max_length: 128, truncate: true}"]
    paths = files(tmp_path / "train.tsv", data / "dev.tsv")
    _, after = learn(tmp_path, "imdb", *paths, *settings, *options)
    labels = [row[0] for row in rows(data / "dev.tsv")[1:]]
    majority = max(Counter(labels).values()) / len(labels)
    assert after["accuracy"] > majority + 0.1, after


def rows(path: Path) -> list[list[str]]:
    with path.open(newline="") as file:
        return list(csv.reader(file, delimiter="\t"))


def test_names_in_wnut(shared, tmp_path):
    """Rare and new names in tweets: a hard set. "O" everywhere, the majority, has an F1 of 0."""
    data = shared / "data/tasks/ner/wnut17"
    more = ["loop.max_epochs=3", "task.options={truncate: true}"]
    _, after = learn(tmp_path, "ner", *files(data / "train.conll", data / "dev.conll"), *more)
    assert after["f1"] > 0.05 and after["precision"] > 0.1, after


def test_answers_in_squads_layout(shared, tmp_path):
    """Some hundred questions are few.

    To be beaten are three words at random, and the model before it learns.
    """
    about = json.loads((shared / "data/tasks/squad/xquad.en.json").read_text())
    articles = about["data"]
    for name, part in (("train", articles[8:32]), ("valid", articles[:8])):
        (tmp_path / f"{name}.json").write_text(json.dumps({"data": part}))
    paths = files(tmp_path / "train.json", tmp_path / "valid.json")
    before, after = learn(tmp_path, "squad", *paths, "loop.max_epochs=3", "optimizer.lr=1e-3")
    assert after["f1"] > max(before["f1"], guessed(articles[:8])) * 1.25, (before, after)


def guessed(articles: list[dict[str, Any]]) -> float:
    """Mean F1 of three words at random, SQuAD's way of counting but for its normalization."""
    draw, scores = random.Random(0), []
    for paragraph in (p for article in articles for p in article["paragraphs"]):
        words = paragraph["context"].split()
        for question in paragraph["qas"]:
            start = draw.randrange(max(1, len(words) - 2))
            truth = Counter(question["answers"][0]["text"].split())
            guess = Counter(words[start : start + 3])
            common = (guess & truth).total()
            scores.append(2 * common / (guess.total() + truth.total()))
    return sum(scores) / len(scores)


def test_pronouns_of_gap(shared, tmp_path):
    """Which of two names a pronoun means, where it means one of them.

    The LM alone decides, so it has an accuracy before it learns; always the first name, or always
    the second, has another. The right name is the query, which tells the model nothing: both are
    scored alike.
    """
    share = 0.0
    for name, source, count in (("train", "development", 600), ("valid", "validation", 300)):
        rows = (shared / f"data/tasks/pronouns/gap-{source}.tsv").read_text().splitlines()
        short = [row for row in rows[1:] if len(row) < 700 and "TRUE" in row][:count]
        (tmp_path / f"{name}.tsv").write_text("\n".join([rows[0], *short]) + "\n")
        share = sum(row.split("\t")[6] == "TRUE" for row in short) / len(short)
    paths = files(tmp_path / "train.tsv", tmp_path / "valid.tsv")
    more = ["data.format=gap", "batch.batch_size=8"]
    before, after = learn(tmp_path, "winogrande", *paths, *more)
    assert after["accuracy"] > max(share, 1 - share), (share, before, after)
    assert after["loss"] < before["loss"], (before, after)

"""Tasks on published sets, from roberta.tiny, above what is had without learning. Minutes, so for make test-full."""

import csv
import json
import random
from collections import Counter

import pytest

from roberta_hub.train.config import compose
from roberta_hub.train.run import make_task, run

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _both_cores(monkeypatch):
    import torch

    torch.set_num_threads(2)


def learn(folder, recipe, *more):
    """(numbers before, numbers after) training roberta.tiny."""
    settings = [
        f"finetune={recipe}",
        "model=/tmp/tiny_copy",
        f"output={folder}/run",
        "optimizer.lr=5e-4",
        "optimizer.warmup_updates=null",
        "optimizer.total_updates=null",
        "optimizer.clip_norm=1.0",
        "batch.max_tokens=8192",
        "batch.batch_size=16",
        "loop.max_updates=null",
        "loop.max_epochs=2",
        "loop.evaluate_every=null",
        "loop.progress=false",
        *more,
    ]
    config = compose(settings)
    before = make_task(config).evaluate()
    r = run(config).metrics; print("NUM", recipe, before, r); return before, r


def test_sentiment_of_imdb_reviews(shared, tmp_path):
    data = shared / "data/tasks/imdb_counterfactual"
    settings = ["data.format=tsv", "data.columns={sentence: Text, label: Sentiment}"]
    files = [f"data.train={data}/train.tsv", f"data.valid={data}/dev.tsv"]
    options = ["task.options={max_length: 256, truncate: true}", "task.metric=accuracy"]
    _, after = learn(tmp_path, "imdb", *files, *settings, *options)
    with (data / "dev.tsv").open(newline="") as file:
        labels = [row[0] for row in csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)][1:]
    majority = max(Counter(labels).values()) / len(labels)
    assert after["accuracy"] > majority + 0.15, after


def test_names_in_wnut(shared, tmp_path):
    """Rare and new names in tweets: a hard set. "O" everywhere, the majority, has an F1 of 0."""
    data = shared / "data/tasks/ner/wnut17"
    files = [f"data.train={data}/train.conll", f"data.valid={data}/dev.conll"]
    more = ["loop.max_epochs=6", "optimizer.lr=1e-3", "task.options={truncate: true}"]
    _, after = learn(tmp_path, "ner", *files, *more)
    assert after["f1"] > 0.08 and after["precision"] > 0.15, after


def test_answers_in_squads_layout(shared, tmp_path):
    """A thousand questions are few; a span of the right length at a random place is what must be beaten."""
    about = json.loads((shared / "data/tasks/squad/xquad.en.json").read_text())
    articles = about["data"]
    for name, part in (("train", articles[8:]), ("valid", articles[:8])):
        (tmp_path / f"{name}.json").write_text(json.dumps({"data": part}))
    files = [f"data.train={tmp_path}/train.json", f"data.valid={tmp_path}/valid.json"]
    before, after = learn(tmp_path, "squad", *files, "loop.max_epochs=6", "optimizer.lr=1e-3")
    assert after["f1"] > max(2 * before["f1"], guessed(articles[:8])), (before, after)


def guessed(articles):
    """Mean F1 of stretches of three words at random, SQuAD's way of counting but for its normalization."""
    draw = random.Random(0)
    scores = []
    for paragraph in (p for article in articles for p in article["paragraphs"]):
        words = paragraph["context"].split()
        for question in paragraph["qas"]:
            start = draw.randrange(max(1, len(words) - 2))
            guess, truth = (
                Counter(words[start : start + 3]),
                Counter(question["answers"][0]["text"].split()),
            )
            common = sum((guess & truth).values())
            scores.append(2 * common / (sum(guess.values()) + sum(truth.values())))
    return sum(scores) / len(scores)


def test_pronouns_of_gap(shared, tmp_path):
    """Who a pronoun means, of two names. The LM alone decides, so it has an accuracy before it learns."""
    for name, source, count in (("train", "development", 800), ("valid", "validation", 300)):
        rows = (shared / f"data/tasks/pronouns/gap-{source}.tsv").read_text().splitlines()
        short = [row for row in rows[1:] if len(row) < 700 and "TRUE" in row][:count]
        (tmp_path / f"{name}.tsv").write_text("\n".join([rows[0], *short]) + "\n")
    files = [f"data.train={tmp_path}/train.tsv", f"data.valid={tmp_path}/valid.tsv"]
    more = ["data.format=gap", "loop.max_epochs=3", "batch.batch_size=8"]
    before, after = learn(tmp_path, "winogrande", *files, *more)
    # Every example is true: a guess between two names has a half.
    assert after["accuracy"] > max(0.5, before["accuracy"]) + 0.02, (before, after)

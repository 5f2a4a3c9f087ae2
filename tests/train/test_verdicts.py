"""A verdict of `fit` is never better than what was looked at: memory, twins, chance, doubts."""

from __future__ import annotations

import pickle
import random
import unicodedata
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from learning import ANIMALS
from small_models import small_roberta
from table_lessons import pairs, with_own_head

import roberta_hub
from roberta_hub import RobertaHubInterface
from roberta_hub.text.learnt import MOST_DIGESTS, digest, pack, text_key, unpack
from roberta_hub.train.data.labels import mistyped_notes
from roberta_hub.train.fitting.examples import read_examples
from roberta_hub.train.fitting.learning import reusable_head
from roberta_hub.train.fitting.method_selection import METHOD_AS_IS
from roberta_hub.train.fitting.split import folds, group_duplicates
from roberta_hub.train.fitting.tag_examples import read_tag_examples

pytestmark = pytest.mark.filterwarnings("ignore:.*")
Rows = list[dict[str, Any]]


def animals(count: int, seed: int = 1) -> Rows:
    draw = random.Random(seed)
    words = [draw.choice(list(ANIMALS)) for _ in range(count)]
    return [{"text": f"The {w} of {seed} in row {i}.", "label": w} for i, w in enumerate(words)]


@contextmanager
def heard() -> Iterator[list[str]]:
    """The warnings that come, as texts."""
    said: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield said
    said += [str(one.message) for one in caught]


# ---- what a model knows ----


@pytest.mark.system
@pytest.mark.parametrize("format", ["roberta_hub", "fairseq", "huggingface"])
def test_what_was_learnt_travels_with_every_way_of_saving(
    base: Path, tmp_path: Path, format: Any
) -> None:
    rows = animals(60)
    mine = roberta_hub.fit(rows, model=base, epochs=4, progress=False, pooling="cls")
    assert mine.learnt == {digest(row["text"]) for row in rows}
    mine.save(tmp_path / "saved", format)
    loaded = roberta_hub.load_model(tmp_path / "saved")
    assert loaded.learnt == mine.learnt
    loaded.save(tmp_path / "again")
    with heard() as said:
        again = roberta_hub.fit(rows, model=tmp_path / "again", progress=False)
    assert any(f"{tmp_path}/again has learnt 60 of these 60 texts before: its" in o for o in said)
    scores = again.fitted.scores
    assert scores.how == "may be known" and scores.count == 60
    assert "on 60 rows that the model may know (95 %: " in scores.headline()
    assert "cross-validated" not in scores.headline()
    assert scores.conclusions[0].endswith(("on rows that it may remember", scores.guess))
    assert any("has learnt 60 of these 60" in note for note in again.fitted.notes)


@pytest.mark.system
def test_a_memory_of_noise_is_no_score_by_cross_validation(lively: Path, tmp_path: Path) -> None:
    """Labels by chance, learnt until all of them are known."""
    draw = random.Random(3)
    rows = [{"text": f"A note of {i * 7919}.", "label": draw.choice("ab")} for i in range(24)]
    mine = roberta_hub.fit(rows, model=lively, epochs=60, learning_rate=1e-2, progress=False)
    known = [mine.classify(row["text"]).label == row["label"] for row in rows]
    assert sum(known) > 20  # it remembers
    mine.save(tmp_path / "mine")
    again = roberta_hub.fit(rows, model=tmp_path / "mine", progress=False, output=tmp_path / "new")
    assert again.fitted.choice.taken == METHOD_AS_IS and again.fitted.scores.how == "may be known"
    assert again.fitted.scores.conclusions[0] != f"better than {again.fitted.scores.guess}"
    card = (tmp_path / "new/README.md").read_text()
    assert "The model may have learnt these rows before" in card
    assert "weights that had not seen them" not in card
    measured: Any = roberta_hub.evaluate(tmp_path / "mine", rows)
    note = "the model has learnt all 24 texts: what it remembers is no measure of new ones"
    assert note in measured.notes and note in str(measured)
    compared: Any = roberta_hub.compare(tmp_path / "mine", tmp_path / "new", rows)
    assert sum("has learnt all 24 texts" in note for note in compared.notes) == 2


@pytest.mark.system
def test_only_new_rows_are_judged(base: Path, tmp_path: Path) -> None:
    old, new = animals(50), animals(40, seed=2)
    roberta_hub.fit(old, model=base, epochs=4, progress=False).save(tmp_path / "mine")
    with heard() as said:
        both = roberta_hub.fit(old + new, model=tmp_path / "mine", progress=False)
    assert any("has learnt 50 of these 90 texts before; the others choose and" in o for o in said)
    scores = both.fitted.scores
    assert scores.how == "cross-validated" and scores.count == 40 == len(both.fitted.rows)
    assert {row.text for row in both.fitted.rows} == {row["text"] for row in new}
    before = roberta_hub.load_model(tmp_path / "mine")
    right = [before.classify(row["text"]).label == row["label"] for row in new]
    ways = {way.name: way.score for way in both.fitted.choice.ways}
    assert ways[METHOD_AS_IS] == pytest.approx(sum(right) / 40)
    assert both.learnt == {digest(row["text"]) for row in old + new}
    apart = roberta_hub.fit(old, valid=old[:5] + new, model=tmp_path / "mine", progress=False)
    assert apart.fitted.scores.count == 40 and apart.fitted.scores.how == "held out"
    assert apart.learnt == {digest(row["text"]) for row in old}
    measured: Any = roberta_hub.evaluate(tmp_path / "mine", old[:7] + new)
    assert any("has learnt 7 of the 47 texts" in note for note in measured.notes)
    assert roberta_hub.evaluate(tmp_path / "mine", new).notes == ()  # type: ignore[union-attr]


def test_a_head_that_does_not_say_what_it_learnt_is_not_judged_silently(tmp_path: Path) -> None:
    with_own_head().save(tmp_path / "given")
    rows = pairs(45, ("neutral", "entailment", "contradiction"))
    with heard() as said:
        found = roberta_hub.fit(rows, model=tmp_path / "given", minutes=1e-9, progress=False)
    assert any("does not say which texts it has learnt: where those of" in one for one in said)
    assert found.fitted.choice.taken == METHOD_AS_IS
    assert "on 45 rows that the model may know" in found.fitted.scores.headline()
    assert not found.learnt  # nothing was
    with heard() as said:
        fresh = roberta_hub.fit(animals(20), model=tmp_path / "given", minutes=1e-9, progress=False)
    assert not any("has learnt" in one for one in said)
    assert fresh.fitted.scores.how == "cross-validated"


@pytest.mark.system
def test_a_tagger_says_what_it_knows(base: Path, tmp_path: Path) -> None:
    rows = [{"text": f"Ada came {i} times.", "spans": [[0, 3, "PER"]]} for i in range(30)]
    roberta_hub.fit(rows, model=base, epochs=1, progress=False).save(tmp_path / "tagger")
    with heard() as said:
        again = roberta_hub.fit(rows[:27], model=tmp_path / "tagger", epochs=1, progress=False)
    assert any("of these 27 texts before" in one for one in said)
    assert again.fitted.scores.how in ("held out", "may be known")
    known = [row for row in rows if digest(row["text"]) in again.learnt]
    again.save(tmp_path / "more")
    output: dict[str, Any] = {"output": tmp_path / "third"}
    third = roberta_hub.fit(known, model=tmp_path / "more", epochs=1, progress=False, **output)
    assert third.fitted.scores.how == "may be known"
    assert "may have learnt these rows before" in (tmp_path / "third/README.md").read_text()
    measured: Any = roberta_hub.evaluate(tmp_path / "more", known)
    assert any(f"has learnt all {len(known)} texts" in note for note in measured.notes)


@pytest.mark.system
def test_a_pickled_estimator_knows_what_it_learnt(base: Path) -> None:
    texts, labels = [r["text"] for r in animals(24)], [r["label"] for r in animals(24)]
    mine = roberta_hub.RobertaClassifier(str(base), epochs=1, progress=False).fit(texts, labels)
    assert pickle.loads(pickle.dumps(mine)).model_.learnt == set(map(digest, texts))


def test_digests_are_written_and_read_again() -> None:
    texts = [f"Text {i}." for i in range(2000)]
    digests = set(map(digest, texts))
    assert len(digests) == 2000 and unpack(pack(digests)) == digests
    assert 8 * MOST_DIGESTS < 10_000_000  # a config.json that is read
    assert unpack(None) == unpack(7) == unpack("") == frozenset()


# ---- twins ----


def test_texts_that_say_the_same_have_one_key() -> None:
    same = [
        "Café  noir",
        "Cafe\u0301 noir",
        "CAFÉ noir ",
        "Ｃafé\u00a0noir",
        "ca\ufb00é".upper()[:0],
    ]
    assert len({text_key(text) for text in same[:4]}) == 1
    assert text_key(("One.", "two.")) == text_key(("Two.", "one."))
    assert text_key(("One.", "two.")) != text_key("One. two.")
    assert text_key("Cafe noir") != text_key("Café noir")


def twins(count: int, seed: int = 0) -> Rows:
    """Texts with a mark above a letter, each in NFC and in NFD, with a label by chance."""
    draw = random.Random(seed)
    plain = "the a dog cat house ran sat green red blue man woman ate tree river sky"
    rows: Rows = []
    for _ in range(count):
        words = [draw.choice(plain.split(" ")) for _ in range(9)]
        text = " ".join([*words, draw.choice(("café", "naïve", "über", "señor"))])
        label = draw.choice("ab")
        rows += [{"text": unicodedata.normalize(f, text), "label": label} for f in ("NFC", "NFD")]
    return rows


def reversed_pairs(count: int, seed: int = 0) -> Rows:
    """Pairs in both orders, with a label by chance."""
    draw = random.Random(seed)
    rows: Rows = []
    for i in range(count):
        one, other = f"The {i * 31} sheep ran.", f"It was about {draw.randint(0, 999)} animals."
        label = draw.choice("ab")
        rows += [{"a": one, "b": other, "label": label}, {"a": other, "b": one, "label": label}]
    return rows


@pytest.mark.parametrize("rows", [twins(150), reversed_pairs(150)])
@pytest.mark.parametrize("seed", [1, 2])
def test_twins_are_on_one_side(rows: Rows, seed: int) -> None:
    names = [name for name in rows[0] if name != "label"]
    found = read_examples(rows, text=names, label="label", seed=seed)
    train, valid = ({text_key(e.text) for e in side} for side in (found.train, found.valid))
    assert len(found.valid) >= 20 and not train & valid
    assert any("with a text that occurs more than once, 150 texts in all" in n for n in found.notes)
    every = read_examples(rows[:120], text=names, label="label").train
    for part in folds(every, group_duplicates(every, []), 3, seed, "classification"):
        own = {text_key(every[i].text) for i in part}
        assert len(part) == 2 * len(own)
    apart = read_examples(rows[::2], valid=rows[1:40:2], text=names, label="label")
    assert len(apart.train) == 130  # what the other table has too is not learnt


def test_twins_of_texts_with_spans_are_on_one_side() -> None:
    rows = [{"text": row["text"], "spans": [[0, 1, "X"]]} for row in twins(60)]
    rows = [{"text": f"Ada {row['text']}", "spans": [[0, 3, "PER"]]} for row in rows]
    found = read_tag_examples(rows)
    assert found is not None
    assert not {text_key(r.text) for r in found.train} & {text_key(r.text) for r in found.valid}


def test_a_pair_in_two_orders_may_have_two_labels() -> None:
    rows = reversed_pairs(20)
    for i, row in enumerate(rows):
        row["label"] = "ab"[i % 2]
    assert not any(
        "different labels" in note for note in read_examples(rows, text=["a", "b"]).notes
    )
    rows[1] |= {"a": rows[0]["a"].upper(), "b": rows[0]["b"]}
    notes = read_examples(rows, text=["a", "b"]).notes
    assert "1 of these texts with different labels, first table:1 and table:2" in notes


@pytest.mark.system
def test_noise_of_twins_is_not_learnt() -> None:
    """Regression on the vectors of roberta.tiny, which knows a text by its other form."""
    scores = roberta_hub.fit(twins(60), minutes=1e-9, progress=False).fitted.scores
    assert scores.conclusions[0] == f"not better than {scores.guess}"


# ---- several labels by chance ----


@pytest.mark.system
def test_several_labels_by_chance_are_no_better_than_a_constant_set() -> None:
    draw = random.Random(5)
    words = ["red", "green", "blue", "dog", "cat", "house", "tree", "runs", "sits"]
    rows = [
        {
            "text": f"{' '.join(draw.choice(words) for _ in range(8))} {i}",
            "label": [name for name in "abc" if draw.random() < 0.6],
        }
        for i in range(90)
    ]
    scores = roberta_hub.fit(rows, minutes=1e-9, progress=False).fitted.scores
    counts = [sum(name in row["label"] for row in rows) for name in "abc"]
    total = sum(counts)
    assert scores.simplest == pytest.approx(2 * total / (3 * 90 + total))
    assert scores.guess.startswith("always ") and scores.guess.count("'") == 6
    assert not scores.conclusions[0].startswith("better")


# ---- likely wrong labels ----


@pytest.fixture(scope="module")
def doubted(tmp_path_factory: pytest.TempPathFactory) -> tuple[RobertaHubInterface, Path]:
    words = {"fine": "good", "great": "good", "dull": "bad", "empty": "bad"}
    rows = [{"text": f"A {w} film {i}.", "label": words[w]} for i, w in enumerate([*words] * 10)]
    rows[5]["label"], rows[30]["label"] = "bad", "good"
    folder = tmp_path_factory.mktemp("doubted") / "mine"
    return roberta_hub.fit(rows, minutes=0.01, progress=False, output=folder), folder


@pytest.mark.system
def test_likely_wrong_labels_are_in_print_card_and_notebook(
    doubted: tuple[RobertaHubInterface, Path],
) -> None:
    mine, folder = doubted
    found = mine.fitted.doubtful
    assert {"table:6", "table:31"} <= {one.where for one in found}
    first = found[0]
    line = f"{first.where}: {first.given}, more likely {first.suggested} ({first.probability:.2f})"
    for text in (str(mine.fitted), (folder / "README.md").read_text()):
        assert "labels that are likely wrong (" in text.casefold()
        assert line in text and str(first.text) in text
    assert max(map(len, str(mine.fitted).splitlines())) <= 80
    html = mine.fitted._repr_html_()
    assert "labels that are likely wrong (" in html and f"more likely {first.suggested}" in html


@pytest.mark.system
def test_a_clean_table_has_none(base: Path) -> None:
    rows = [{"text": f"A {w} {i}", "label": w} for i in range(20) for w in ("cat", "dog")]
    mine = roberta_hub.fit(rows, progress=False, minutes=0.01)
    if not mine.fitted.doubtful:
        assert "likely wrong" not in str(mine.fitted) + mine.fitted._repr_html_()


# ---- the head that has the labels ----


@pytest.mark.parametrize("default", ["mnli", None])
def test_a_head_is_found_by_its_inputs(tmp_path: Path, default: str | None) -> None:
    names = {"mnli": ("no", "yes"), "sentiment": ("no", "yes")}
    roberta = small_roberta(heads=dict.fromkeys(names, 2), labels=names, num_layers=1)
    roberta.register_token_head("entities", labels=["O", "B-PER", "I-PER"])
    roberta.inputs |= {"mnli": "pair", "sentiment": "one", "entities": "one"}
    roberta.default_head = default
    single: Rows = [{"text": f"Words of {i}.", "label": ("no", "yes")[i % 2]} for i in range(20)]
    both = [{"a": row["text"], "b": "More.", "label": row["label"]} for row in single]
    assert reusable_head(roberta, read_examples(single)) == "sentiment"
    assert reusable_head(roberta, read_examples(both, text=["a", "b"])) == "mnli"
    answers = roberta.classify([row["text"] for row in single], "sentiment")
    for row, answer in zip(single, answers, strict=True):
        row["label"] = answer.label
    if len({row["label"] for row in single}) < 2:
        with torch.no_grad():
            roberta.model.classification_heads["sentiment"].out_proj.bias.zero_()
        single[0]["label"] = {"no": "yes", "yes": "no"}[single[0]["label"]]
    roberta.save(tmp_path / "box")
    found = roberta_hub.fit(single, model=tmp_path / "box", minutes=1e-9, progress=False)
    assert found.fitted.choice.taken == METHOD_AS_IS
    assert found.default_head == "sentiment" and "mnli" in found.model.classification_heads
    assert found.fitted.scores.numbers["accuracy"] >= 0.9


# ---- labels that look odd ----


@pytest.mark.parametrize("word", ["N/A", "nan", "NULL"])
def test_labels_that_look_missing_are_noted(tmp_path: Path, word: str) -> None:
    rows = [f"A text of {i},{('good', 'bad', word)[i % 3]}" for i in range(30)]
    (tmp_path / "x.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    found = read_examples(tmp_path / "x.csv")
    assert word in found.classes
    assert (
        f"10 rows with a label that looks missing ({word!r}) are learnt as that class; empty the "
        "cell where there is none"
    ) in found.notes
    (tmp_path / "x.csv").write_text("\n".join(["text,label", *rows]).replace(word, ""))
    assert not any("looks missing" in note for note in read_examples(tmp_path / "x.csv").notes)


def test_a_rare_label_one_letter_from_a_frequent_one_is_noted() -> None:
    labels = ["positive"] * 40 + ["negative"] * 40 + ["postive", "negatvie", "negative_"]
    found = read_examples([{"text": f"Text {i}.", "label": own} for i, own in enumerate(labels)])
    assert (
        "label 'postive' (1) is one letter from 'positive' (40); if it is a typing error, write "
        "them alike"
    ) in found.notes
    assert any("'negatvie' (1) is one letter from 'negative' (40)" in note for note in found.notes)
    several = [{"text": f"Text {i}.", "label": [own, "other"]} for i, own in enumerate(labels)]
    assert any("label 'postive' (1)" in note for note in read_examples(several).notes)


def test_labels_that_are_meant_so_are_not_noted() -> None:
    for counts in (
        {"label_1": 100, "label_2": 1},
        {"positive": 40, "negative": 1},
        {"positive": 40, "postive": 30},
        {"cat": 100, "car": 1},
        {"PER": 100, "ORG": 2, "PRO": 3},
        {"2019": 100, "2018": 2},
    ):
        assert mistyped_notes(counts) == []
    many = {f"{a}{b}{c}{d}": 1 + 99 * (a == "a") for a in "abcdef" for b in "ghijkl"
            for c in "mnopqr" for d in "stuvwx"}  # fmt: skip
    assert mistyped_notes(many)  # 1,296 labels take no second

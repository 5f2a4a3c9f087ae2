"""Tasks on whole texts learn more than the majority, predict, and survive saving.

A small sample is enough.
"""

from __future__ import annotations

from contextlib import nullcontext
from random import Random
from typing import Any

import pytest
import torch
from learning import ANIMALS, both, jsonl, learn, tsv, two

from roberta_hub.errors import InputError, UnknownNameError
from roberta_hub.train.config import compose
from roberta_hub.train.run import make_model, make_task, result, run
from roberta_hub.train.tasks.sentences import METRICS

SOUNDS = list(ANIMALS.values())


@pytest.mark.system
def test_classification(base, tmp_path):
    """Whether the animal of the second sentence is one of two; the first is of no use."""

    def make(draw: Random) -> list[str]:
        animal, other = draw.choices(sorted(ANIMALS), k=2)
        verdict = "yes" if animal in ("dog", "cat") else "no"
        return [f"The {other} is here.", f"It {ANIMALS[animal]}.", verdict]

    files = two(make, tmp_path, "tsv", lambda p, rows: tsv(p, ("one", "two", "verdict"), rows))
    columns = "data.columns={sentence: one, sentence2: two, label: verdict}"
    more = ["data.format=tsv", columns, "task.head=sound"]
    trained, found = learn(base, tmp_path, "rte", files, *more, updates=40)
    assert found["accuracy"] > 0.9  # the majority has about 0.5
    assert {"accuracy", "mcc", "f1", "loss"} <= set(METRICS) == set(found)
    texts = [("The dog is here.", "It barks."), ("The dog is here.", "It moos.")]
    for roberta in both(trained, tmp_path):
        assert [p.label for p in roberta.classify(texts, head="sound")] == ["yes", "no"]
        assert roberta.head_labels("sound") == ("no", "yes")
        assert (roberta.default_head, roberta.inputs) == ("sound", {"sound": "pair"})
        assert [p.label for p in roberta.classify(texts)] == ["yes", "no"]


@pytest.mark.system
def test_another_models_probabilities_are_learnt(base, tmp_path):
    """Single labels would end near 0 and 1: these doubts are in the second column alone."""
    doubts = {"cat": 0.8, "dog": 0.6, "cow": 0.35, "duck": 0.1}

    def make(draw: Random) -> list[str]:
        animal = draw.choice(sorted(doubts))
        tame = doubts[animal]
        label = "tame" if tame > 0.5 else "wild"
        return [f"It {ANIMALS[animal]}.", label, f"{1 - tame:.2f} {tame}"]

    files = two(make, tmp_path, "tsv", lambda p, rows: tsv(p, ("text", "label", "seen"), rows))
    columns = "data.columns={sentence: text, label: label, probabilities: seen}"
    names = "data.labels=[wild, tame]"
    trained, found = learn(base, tmp_path, "imdb", files, columns, names, updates=300)
    assert found["accuracy"] > 0.95
    for animal, wanted in doubts.items():
        answer = trained.classify(f"It {ANIMALS[animal]}.", head="imdb")
        assert answer.scores["tame"] == pytest.approx(wanted, abs=0.1), animal


@pytest.mark.parametrize(("format", "metric"), [("cola", "mcc"), ("rte", "accuracy")])
def test_cola_is_judged_by_its_correlation(base, tmp_path, format, metric):
    """As in GLUE; every other set of one label a text by its accuracy."""
    rows = {
        "cola": ["ab12\t1\t\tShe sings.", "ab12\t0\t*\tSings he."],
        "rte": [
            "index\tsentence1\tsentence2\tlabel",
            "0\tShe sings.\tShe is silent.\tnot_entailment",
            "1\tShe sings.\tShe makes a sound.\tentailment",
        ],
    }
    path = tmp_path / "rows.tsv"
    path.write_text("".join(f"{row}\n" for row in rows[format]), encoding="utf-8")
    settings = ["finetune=rte", f"model={base}", f"data.train={path}", f"data.valid={path}"]
    task = make_task(
        compose([*settings, f"data.format={format}", "task.metric=null", f"output={tmp_path}"])
    )
    assert task.metric == metric


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ([], "needs data.labels"),
        (["data.labels=[a, b, c]"], r"x\.tsv:2: 2 probabilities for 3 classes \(a, b, c\)"),
        (["data.labels=[a, b]", "task.name=regression"], "task regression has no use for"),
        (["data.labels=[a, b]", "data.format=rte"], "data.format=rte has no columns with names"),
    ],
)
def test_probabilities_that_cannot_be_learnt(base, tmp_path, settings, words):
    path = tsv(tmp_path / "x.tsv", ("sentence", "label", "seen"), [["A", "a", "0.5 0.5"]])
    columns = "data.columns={sentence: sentence, label: label, probabilities: seen}"
    with pytest.raises(InputError, match=words):
        learn(base, tmp_path, "imdb", (path, path), columns, *settings)


@pytest.mark.system
def test_regression(base, tmp_path):
    """How many of four words are "up": 0 to 1."""

    def make(draw: Random) -> list[Any]:
        words = [draw.choice(["up", "down"]) for _ in range(4)]
        return [" ".join(words), words.count("up") / 4]

    files = two(make, tmp_path, "tsv", lambda p, rows: tsv(p, ("sentence", "label"), rows))
    more = ["data.format=tsv", "task.metric=pearson"]
    trained, found = learn(base, tmp_path, "sts_b", files, *more)
    assert found["pearson"] > 0.9 and found["spearman"] > 0.85
    assert found["loss"] < 0.02  # the mean has 0.0625
    values = []
    for roberta in both(trained, tmp_path):
        up, down = roberta.classify(["up up up up", "down down down down"], head="sts_b")
        assert up.score > 0.8 and down.score < 0.2
        assert (roberta.default_head, roberta.inputs) == ("sts_b", {"sts_b": "one"})
        values.append(up.score)
    assert values[0] == pytest.approx(values[1])


@pytest.mark.system
def test_multi_label(base, tmp_path):
    def make(draw: Random) -> dict[str, Any]:
        there = draw.sample(sorted(ANIMALS), draw.randint(0, 3))
        return {"sentence": "I saw " + " and ".join(there or ["nobody"]), "label": there}

    files = two(make, tmp_path, "jsonl", jsonl, (300, 60))
    more = ["task.name=multi_label", "task.head=seen", "data.format=null", "task.metric=f1"]
    trained, found = learn(base, tmp_path, "imdb", files, *more, updates=300)
    assert found["f1"] > 0.9  # all labels everywhere, the best constant, has 0.55
    assert found["exact"] > 0.7
    for roberta in both(trained, tmp_path):
        (answer,) = roberta.classify(["I saw cat and duck"], head="seen", multi_label=True)
        assert {label for label, p in answer.scores.items() if p > 0.5} == {"cat", "duck"}
        assert roberta.classify(["I saw cat and duck"]) == [answer]  # as the head learnt
        assert {*(answer.labels or ())} == {"cat", "duck"}
        assert roberta.head_labels("seen") == tuple(sorted(ANIMALS))
        assert (roberta.default_head, roberta.inputs) == ("seen", {"seen": "one"})


def race(draw: Random) -> dict[str, Any]:
    animal = draw.choice(sorted(ANIMALS))
    options = draw.sample(sorted(SOUNDS), 4)
    answer = "ABCD"[options.index(ANIMALS[animal])]
    questions = {"questions": ["It _ ."], "options": [options], "answers": [answer]}
    return {"article": f"There is a {animal} here.", **questions}


def commonsense(draw: Random) -> dict[str, Any]:
    animal = draw.choice(sorted(ANIMALS))
    options = draw.sample(sorted(SOUNDS), 3)
    if ANIMALS[animal] not in options:
        options[draw.randrange(3)] = ANIMALS[animal]
    choices = [{"label": a, "text": t} for a, t in zip("ABC", options, strict=True)]
    key = "ABC"[options.index(ANIMALS[animal])]
    return {"question": {"stem": f"What does a {animal} do?", "choices": choices}, "answerKey": key}


@pytest.mark.system
@pytest.mark.parametrize(
    ("recipe", "make", "context", "option"),
    [
        ("race", race, "There is a {} here.", "It {} ."),
        ("commonsense_qa", commonsense, "Q: What does a {} do?", "A: {}"),
    ],
)
def test_choice(lively, tmp_path, recipe, make, context, option):
    suffix = "txt" if recipe == "race" else "jsonl"
    files = two(make, tmp_path, suffix, jsonl, (200, 40))
    trained, found = learn(lively, tmp_path, recipe, files)
    assert found["accuracy"] > 0.8  # a guess has 1/4 and 1/3
    options = [option.format(sound) for sound in SOUNDS]
    for roberta in both(trained, tmp_path):
        # The layout, which is the task's, comes with the model.
        answers = [
            roberta.choose(context.format(animal), options, "sentence_classification_head").label
            for animal in ANIMALS
        ]
        right = [option.format(sound) for sound in SOUNDS]
        head = "sentence_classification_head"
        assert (roberta.default_head, roberta.inputs) == (head, {head: "pair"})
        assert roberta.choose(context.format("cat"), options).label == answers[0]
        assert sum(a == r for a, r in zip(answers, right, strict=True)) >= 3


def sst(base, folder, text: str, *settings: str):
    """A task on a table in this text; nothing is trained."""
    (folder / "x.tsv").write_text(f"sentence\tlabel\n{text}\n")
    more = [f"model={base}", f"data.train={folder}/x.tsv", "data.format=tsv", *settings]
    return make_task(compose(["finetune=sst_2", *more]))


@pytest.mark.parametrize(("good", "bad", "kept"), [("yes", "no", True), ("plus", "minus", False)])
def test_a_head_of_the_same_labels_learns_on(base, tmp_path, good, bad, kept):
    first = sst(base, tmp_path, "Good!\tyes\nBad.\tno").finish()
    first.save(tmp_path / "model")
    # In another order: the numbers of the labels stay those of the head.
    settings = [f"data.labels=[{good}, {bad}]", "seed=2"]
    with nullcontext() if kept else pytest.warns(UserWarning, match="knows no, yes, the data plus"):
        task = sst(tmp_path / "model", tmp_path, f"Good!\t{good}", *settings)
    found = task.finish()
    assert found.head_labels("sst_2") == (("no", "yes") if kept else ("plus", "minus"))
    assert task.batch([0], 0).targets["labels"].tolist() == [found.head_labels("sst_2").index(good)]
    weights = [r.model.head("sst_2").out_proj.weight for r in (first, found)]
    assert torch.equal(*weights) == kept


def test_a_head_that_learns_on_is_marked_anew(base, tmp_path):
    """With what it is trained on now; the other heads' marks stay, through a changed shape."""
    first = sst(base, tmp_path, "Good!\tyes\nBad.\tno").finish()
    first.register_classification_head("other", labels=["a", "b"])
    first.inputs["other"] = "pair"
    first.default_head = "other"
    first.save(tmp_path / "model")
    kept = make_model(
        compose(["finetune=sst_2", f"model={tmp_path}/model", "architecture.dropout=0.2"])
    )
    assert (kept.default_head, kept.inputs) == ("other", {"other": "pair", "sst_2": "one"})
    (tmp_path / "pairs.tsv").write_text("sentence\tsentence2\tlabel\nA\tB\tyes\nC\tD\tno\n")
    columns = "data.columns={sentence: sentence, sentence2: sentence2, label: label}"
    more = [f"model={tmp_path}/model", f"data.train={tmp_path}/pairs.tsv", "data.format=tsv"]
    found = make_task(compose(["finetune=sst_2", *more, columns])).finish()
    assert (found.default_head, found.inputs) == ("sst_2", {"other": "pair", "sst_2": "pair"})


def test_a_new_head_comes_from_the_seed(base, tmp_path):
    tasks = [sst(base, tmp_path, "A\tx\nB\ty", f"seed={seed}") for seed in (1, 1, 2)]
    one, same, other = (t.finish().model.head("sst_2").dense.weight for t in tasks)
    assert torch.equal(one, same) and not torch.equal(one, other)


@pytest.mark.system
@pytest.mark.parametrize(
    ("row", "settings", "words"),
    [
        ("Fine\tmaybe", ["data.labels=[yes, no]"], r"x\.tsv:2: label 'maybe' is not among yes, no"),
        ("Fine", [], r"x\.tsv:2: 1 fields, the header has 2"),
        (
            "word " * 60 + "\tyes",
            ["task.options.truncate=false", "data.labels=[yes, no]"],
            r"x\.tsv:2: 63 tokens > 48; task.options.truncate=true",
        ),
        ("Fine\tyes", ["data.labels=[yes, yes]"], "give different names"),
        ("Fine\tyes", [], r"\['yes'\]; this task needs at least 2"),
        ("Fine\tyes\nBad\tno", ["task.options={truncte: true}"], "did you mean truncate"),
        (
            "Fine\tyes\nBad\tno",
            ["task.options={max_length: 0}"],
            "max_length is 0, must be at least 1",
        ),
        (
            "Fine\tyes\nBad\tno",
            ["task.options={max_length: 99}"],
            "is 99, the model takes 48 tokens",
        ),
        ("Fine\tyes\nBad\tno", ["task.options={truncate: 1}"], "truncate is 1, must be bool"),
        ("Fine\tyes\nBad\tno", ["task.metric=acuracy"], "did you mean accuracy"),
        ("Fine\tyes\nBad\tno", ["task.name=clasification"], "did you mean classification"),
        ("Fine\tyes\nBad\tno", ["task.name=regression"], r"x\.tsv:2: label 'yes' is no number"),
        ("Fine\tyes\nBad\tno", ["data.train=null"], "data.train is not set"),
    ],
)
def test_what_cannot_be_learnt(base, tmp_path, row, settings, words):
    with pytest.raises((InputError, UnknownNameError), match=words):
        sst(base, tmp_path, row, *settings)


def test_text_that_cannot_be_encoded_is_named_by_its_line(base, tmp_path):
    rows = [{"sentence": "Good!", "label": "yes"}, {"sentence": "\ud800", "label": "no"}]
    file = jsonl(tmp_path / "x.jsonl", rows)
    with pytest.raises(InputError, match=r"x\.jsonl:2: "):
        make_task(
            compose(["finetune=sst_2", f"model={base}", f"data.train={file}", "data.format=jsonl"])
        )


def test_an_option_of_race_is_cut_as_fairseqs(base, tmp_path):
    """`<s>`, the option and `</s>` are at most `max_option_length` tokens.

    The article stays whole.
    """
    row = race(Random(1)) | {"options": [["a b c d e f g h", "moos"]], "answers": ["B"]}
    file = jsonl(tmp_path / "x.txt", [row])
    settings = [f"model={base}", f"data.train={file}", "task.options.max_option_length=6"]
    task = make_task(compose(["finetune=race", *settings]))
    roberta, packed = task.finish(), task.batch([0], 0).packed
    parts = [ids.tolist() for ids in packed.ids.split(list(packed.lengths))]
    article = roberta.encode(row["article"]).tolist()[1:]
    assert parts == [
        [*roberta.encode("It a b c").tolist(), 2, *article],
        [*roberta.encode("It moos .").tolist(), 2, *article],
    ]


def test_a_recipe_learns_a_csv(base, tmp_path):
    """As the page on training says it."""
    path = tmp_path / "reviews.csv"
    path.write_text("text,stars\n" + '"Fine, ""really""",5\nDull,1\n' * 8)
    settings = [
        f"model={base}",
        f"data.train={path}",
        "data.columns={sentence: text, label: stars}",
    ]
    config = compose(["finetune=sst_2", *settings, f"output={tmp_path}/run", "loop.max_epochs=2"])
    report = run(config)
    assert (report.stopped, report.update) == ("max_epochs", 2)
    assert result(report).head_labels("sst_2") == ("1", "5")


def test_a_constant_answer_correlates_with_nothing(base, tmp_path):
    """CoLA's best checkpoint is chosen by this number: one answer for all is 0, and not 0.86."""
    rows = [f"ab12\t{int(i > 0)}\t{'' if i else '*'}\tSentence {i}." for i in range(11)]
    path = tmp_path / "rows.tsv"
    path.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    settings = ["finetune=cola", f"model={base}", f"data.train={path}", f"data.valid={path}"]
    task = make_task(compose([*settings, f"output={tmp_path}"]))
    head = task.roberta.classification_heads["cola"].out_proj
    with torch.no_grad():
        head.weight.zero_()
        for number in (0, 1):
            head.bias.copy_(torch.eye(2)[number])
            found = task.evaluate()
            assert found["mcc"] == 0.0
            assert found["accuracy"] == pytest.approx((10 if number else 1) / 11)

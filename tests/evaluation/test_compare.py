"""`compare` counts what changed from a model to the next, and says what may be chance."""

from __future__ import annotations

import csv
import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from families import SENTENCES
from shell.running import runner
from small_models import copied, small_roberta

import roberta_hub
from roberta_hub import RobertaHubInterface
from roberta_hub.errors import InputError, UnknownNameError
from roberta_hub.evaluation.compare import mcnemar
from roberta_hub.evaluation.comparison import Comparison, Slice
from roberta_hub.measures.classes import CLASS_MEASURES, ClassMeasure
from roberta_hub.train.fitting.examples import read_examples

TEXTS = [f"{a} {b}" for a, b in pairwise(SENTENCES[:16])]
TEXTS = [text[:90] for text in TEXTS for _ in (0, 1, 2)]
TEXTS = [f"{i} {text}" for i, text in enumerate(TEXTS)]


def margins(roberta: RobertaHubInterface) -> torch.Tensor:
    """How much surer each text is "art" than "sport"."""
    logits = roberta.predict_proba(TEXTS).log()
    return logits[:, 0] - logits[:, 1]


def leaning(roberta: RobertaHubInterface, by: torch.Tensor) -> RobertaHubInterface:
    """A copy whose head leans more to "sport"."""
    found = copied(roberta)
    with torch.no_grad():
        found.model.classification_heads["topic"].out_proj.bias[1] += by
    return found


@pytest.fixture(scope="module")
def old() -> RobertaHubInterface:
    """Half of its answers are "art"."""
    roberta = small_roberta(heads={"topic": 2}, labels={"topic": ("art", "sport")})
    return leaning(roberta, margins(roberta).median())


@pytest.fixture(scope="module")
def new(old: RobertaHubInterface) -> RobertaHubInterface:
    """The same, whose head leans so that a third of the answers flips."""
    return leaning(old, margins(old).quantile(0.85))


@pytest.fixture(scope="module")
def table(old: RobertaHubInterface) -> dict[str, list[str]]:
    """Rows whose right labels are the old model's answers, but for every eighth."""
    labels = [found.label for found in old.classify(TEXTS)]
    other = {"art": "sport", "sport": "art"}
    labels = [other[label] if i % 8 == 0 else label for i, label in enumerate(labels)]
    kinds = ["short" if i % 3 else "long" for i in range(len(TEXTS))]
    return {"text": TEXTS, "label": labels, "length": kinds}


def test_what_changed_is_counted_row_by_row(
    old: RobertaHubInterface, new: RobertaHubInterface, table: dict[str, list[str]]
) -> None:
    found = roberta_hub.compare(old, new, table, by="length")
    before, after = old.classify(TEXTS), new.classify(TEXTS)
    for part in (found.whole, *found.slices):
        kind = part.name.rpartition(" = ")[2]
        rows = [
            i for i in range(len(TEXTS)) if part.name == "all rows" or table["length"][i] == kind
        ]
        was = [before[i].label == table["label"][i] for i in rows]
        now = [after[i].label == table["label"][i] for i in rows]
        assert part.rows == len(rows)
        assert part.changed == sum(before[i].label != after[i].label for i in rows) / len(rows)
        assert part.accuracy == (sum(was) / len(rows), sum(now) / len(rows))
        lost = sum(a and not b for a, b in zip(was, now, strict=True))
        won = sum(b and not a for a, b in zip(was, now, strict=True))
        assert part.only == (lost, won) and part.chance == mcnemar(lost, won)
        assert part.calibration == pytest.approx(
            (ece([before[i].score for i in rows], was), ece([after[i].score for i in rows], now))
        )
    assert found.changed > 0.2 and found.worse
    assert {part.name for part in found.slices} == {"length = short", "length = long"}
    for wrong in found.mistakes:
        i = TEXTS.index(str(wrong.text))
        assert (wrong.old, wrong.new, wrong.right) == (before[i].label, after[i].label, wrong.old)
        assert wrong.where == f"table:{i + 1}" and wrong.score == after[i].score
    scores = [wrong.score for wrong in found.mistakes]
    assert scores == sorted(scores, reverse=True) and scores


def ece(scores: list[float], right: list[bool]) -> float:
    total = 0.0
    for low in range(10):
        rows = [i for i, score in enumerate(scores) if min(int(score * 10), 9) == low]
        if rows:
            gap = sum(scores[i] for i in rows) - sum(right[i] for i in rows)
            total += abs(gap)
    return total / len(scores)


def test_mcnemar_is_the_exact_binomial_test() -> None:
    stats = pytest.importorskip("scipy.stats")
    for lost, won in ((0, 0), (1, 0), (5, 1), (30, 41), (400, 460), (900, 700), (2000, 2200)):
        wanted = stats.binomtest(lost, lost + won).pvalue if lost + won else 1.0
        assert mcnemar(lost, won) == pytest.approx(wanted, rel=1e-9), (lost, won)


def test_the_same_model_is_not_worse(old: RobertaHubInterface, table: dict[str, list[str]]) -> None:
    found = roberta_hub.compare(old, old, table, by=["length"])
    assert not found.worse and found.changed == 0 and found.mistakes == ()
    assert "is not known to be worse or better than" in str(found)


def test_few_rows_are_no_proof(
    old: RobertaHubInterface, new: RobertaHubInterface, table: dict[str, list[str]]
) -> None:
    flipped = [
        i
        for i, (a, b) in enumerate(zip(old.classify(TEXTS), new.classify(TEXTS), strict=True))
        if a.label != b.label and i % 8
    ]
    rows = {name: [column[i] for i in flipped[:5]] for name, column in table.items()}
    found = roberta_hub.compare(old, new, rows)
    assert found.whole.only == (5, 0) and found.whole.chance == 2 / 2**5
    assert not found.worse
    rows = {name: [column[i] for i in flipped[:6]] for name, column in table.items()}
    assert roberta_hub.compare(old, new, rows).worse  # p = 2 / 64


def test_slices_are_judged_together() -> None:
    """Of twenty slices one has p < 0.05 by chance."""
    chance = [Slice(f"k = {i}", 50, 0.1, (0.9, 0.8), (6, 0), 0.03, (0.0, 0.0)) for i in range(20)]
    whole = Slice("all rows", 1000, 0.1, (0.9, 0.9), (60, 60), 1.0, (0.0, 0.0))
    found = Comparison("a", "b", "t", "classify", whole, tuple(chance), ())
    assert not found.worse
    sure = Slice("k = x", 50, 0.3, (0.9, 0.6), (16, 1), 0.0003, (0.0, 0.0))
    found = Comparison("a", "b", "t", "classify", whole, (*chance, sure), ())
    assert [one.name for one in found.worse_slices] == ["k = x"] and found.worse
    assert "worse on k = x than" in str(found)


def test_without_right_labels_flips_are_counted(
    old: RobertaHubInterface, new: RobertaHubInterface, table: dict[str, list[str]]
) -> None:
    found = roberta_hub.compare(old, new, {"text": TEXTS})
    labelled = roberta_hub.compare(old, new, table)
    assert found.whole.accuracy is None and found.changed == labelled.changed
    assert not found.worse and len(found.mistakes) == round(found.changed * len(TEXTS))


# ---- right labels, as `fit` learns them ----


def tagged_pair() -> tuple[RobertaHubInterface, RobertaHubInterface, list[set[str]]]:
    """Two heads of several labels, and what the old one answers."""
    old = small_roberta(heads={"topic": 3}, labels={"topic": ("a", "b", "c")})
    old.kinds["topic"] = "multi_label"
    logits = old.model.classification_heads["topic"].out_proj
    with torch.no_grad():
        before = old.predict_proba(TEXTS).logit().median(0).values
        logits.bias -= before  # half of the texts have each label
    new = copied(old)
    with torch.no_grad():
        new.model.classification_heads["topic"].out_proj.bias[2] -= 1.0
    return old, new, [{*(found.labels or ())} for found in old.classify(TEXTS)]


@pytest.mark.parametrize("form", ["list", "text of a list", "separator", "columns"])
def test_several_labels_are_right_where_all_are(form: str) -> None:
    old, new, right = tagged_pair()
    assert len(set(map(frozenset, right))) > 2
    table: dict[str, Any] = {"text": TEXTS, "label": [sorted(own) for own in right]}
    options: dict[str, Any] = {}
    if form == "text of a list":
        table["label"] = [str(own) for own in table["label"]]
    elif form == "separator":
        table["label"] = ["; ".join(own) for own in table["label"]]
    elif form == "columns":
        del table["label"]
        table |= {name: [int(name in own) for own in right] for name in "abc"}
        options["label"] = ["a", "b", "c"]
    found = roberta_hub.compare(old, new, table, **options)
    kept = [i for i, own in enumerate(right) if own or form != "separator"]  # "" is no label
    after = [{*(one.labels or ())} for one in new.classify(TEXTS)]
    share = sum(after[i] == right[i] for i in kept) / len(kept)
    assert found.whole.rows == len(kept) and found.whole.accuracy == (1.0, share) and share < 1
    assert found.whole.only == (len(kept) - round(share * len(kept)), 0)
    flat = [
        (p, name in right[i]) for i in kept for name, p in new.classify(TEXTS)[i].scores.items()
    ]
    assert found.whole.calibration is not None
    assert found.whole.calibration[1] == pytest.approx(ece(*map(list, zip(*flat, strict=True))))
    for wrong in found.mistakes:
        i = TEXTS.index(str(wrong.text))
        assert wrong.right == wrong.old == (", ".join(sorted(right[i])) or "no label")


@pytest.mark.parametrize(
    ("names", "cells"),
    [
        (("false", "true"), [True, False]),
        (("0", "1"), [1.0, 0.0]),
        (("0.0", "1.0"), [1.0, 0.0]),  # as `train` names them
        (("0", "1"), [1, 0]),
        (("art", "sport"), [" sport ", "art"]),
    ],
)
def test_labels_are_read_as_fit_learns_them(names: tuple[str, str], cells: list[Any]) -> None:
    roberta = small_roberta(heads={"topic": 2}, labels={"topic": names})
    table = {"text": TEXTS, "label": [cells[i % 2] for i in range(len(TEXTS))]}
    found = roberta_hub.compare(roberta, roberta, table)
    answers = [names.index(one.label) for one in roberta.classify(TEXTS)]
    share = sum(a == 1 - i % 2 for i, a in enumerate(answers)) / len(TEXTS)
    assert found.whole.accuracy == (share, share)
    measured: Any = roberta_hub.evaluate(roberta, table)
    assert measured["accuracy"] == share


@pytest.mark.parametrize(
    ("kind", "names", "cells"),
    [
        ("single_label", ("0", "1"), ["0", "1", "nan", "1", "NaN", "0"]),
        ("multi_label", ("a", "b"), [{"a": 1, "b": 0}, {"a": None, "b": None}, {"a": 1, "b": 1}]),
        ("multi_label", ("a", "b"), [["a"], None, [], ["b"]]),
    ],
)
def test_a_label_that_fit_misses_is_left_out(kind: str, names: Any, cells: list[Any]) -> None:
    roberta = small_roberta(heads={"topic": 2}, labels={"topic": names})
    roberta.kinds["topic"] = kind
    table = {"text": TEXTS[:12], "label": [cells[i % len(cells)] for i in range(12)]}
    learnt = read_examples(table)
    rows = len(learnt.train) + len(learnt.valid)
    found = roberta_hub.compare(roberta, roberta, table)
    measured: Any = roberta_hub.evaluate(roberta, table)
    assert found.whole.rows == measured.rows == rows < 12
    assert f"{12 - rows} rows without a label left out, first table:" in "; ".join(learnt.notes)
    assert measured.notes == found.notes == (f"left out: {12 - rows} rows without a label",)


def test_a_known_name_is_a_label_even_if_it_says_that_there_is_none() -> None:
    """`fit` learns the word nan as a class, where the task is said."""
    names = ("0", "1", "nan")
    roberta = small_roberta(heads={"topic": 3}, labels={"topic": names})
    table = {"text": TEXTS[:12], "label": [(*names, " nan", "NaN")[i % 5] for i in range(12)]}
    learnt = read_examples(table, task="classification")
    assert {*names} < {*learnt.classes}
    found = roberta_hub.compare(roberta, roberta, table)
    measured: Any = roberta_hub.evaluate(roberta, table)
    assert found.whole.rows == measured.rows == 10  # two are "NaN", which the head does not know
    assert found.notes == measured.notes == ("left out: 2 rows without a label",)
    assert {group.name: group.rows for group in measured.groups}["nan"] == 4


def test_rows_without_a_label_are_left_out_as_evaluate_does(
    old: RobertaHubInterface, new: RobertaHubInterface, table: dict[str, list[str]]
) -> None:
    gaps: dict[str, list[Any]] = {name: list(column) for name, column in table.items()}
    gaps["label"][3] = gaps["label"][7] = None
    gaps["text"][4] = None
    found = roberta_hub.compare(old, new, gaps, by="length")
    kept = [i for i in range(len(TEXTS)) if i not in (3, 4, 7)]
    whole = roberta_hub.compare(
        old, new, {name: [column[i] for i in kept] for name, column in table.items()}, by="length"
    )
    assert found.whole == whole.whole and found.slices == whole.slices
    assert found.notes == ("left out: 2 rows without a label, 1 row without a text",)
    assert found.notes[0] in str(found) and found.notes[0] in found.to_markdown()
    assert found.notes[0] in found._repr_html_()
    measured: Any = roberta_hub.evaluate(old, gaps)
    assert measured.notes == found.notes and measured["accuracy"] == whole.whole.accuracy[0]  # type: ignore[index]


@pytest.mark.parametrize("verb", ["classify", "embed"])
def test_answers_that_are_no_numbers_are_refused(
    old: RobertaHubInterface, table: dict[str, list[str]], verb: Any
) -> None:
    """Finite weights that overflow, as float16 does."""
    damaged = copied(old)
    with torch.no_grad():
        if verb == "classify":
            damaged.model.classification_heads["topic"].out_proj.weight.fill_(3e38)
        else:
            damaged.model.transformer.layers[-1].final_layer_norm.weight.fill_(3e38)
    with pytest.raises(InputError, match=r"table:1: the model answers with (nan|inf)"):
        roberta_hub.compare(old, damaged, table, verb=verb)


# ---- vectors ----


def test_neighbours_that_changed(old: RobertaHubInterface) -> None:
    other = small_roberta(seed=1)
    bare = small_roberta()
    rows = {"text": TEXTS, "half": ["a" if i % 2 else "b" for i in range(len(TEXTS))]}
    found = roberta_hub.compare(bare, other, rows, by="half")
    assert found.verb == "embed" and not found.worse
    near = []
    for model in (bare, other):
        cosines = model.similarity(TEXTS, TEXTS).fill_diagonal_(-math.inf)
        near.append([set(row.tolist()) for row in cosines.topk(10).indices])
    lost = [1 - len(a & b) / 10 for a, b in zip(*near, strict=True)]
    assert found.changed == pytest.approx(sum(lost) / len(lost))
    assert found.slices[0].changed == pytest.approx(sum(lost[::2]) / len(lost[::2]))
    assert found.mistakes[0].score == max(lost)
    assert roberta_hub.compare(bare, bare, rows).changed == 0
    with_heads = roberta_hub.compare(old, other, rows, verb="embed")
    assert with_heads.verb == "embed"


# ---- what cannot be compared ----


def test_what_cannot_be_compared(
    old: RobertaHubInterface, new: RobertaHubInterface, table: dict[str, list[str]]
) -> None:
    with pytest.raises(InputError, match=r"has the label 'law', which neither model knows"):
        roberta_hub.compare(old, new, {"text": ["a b"], "label": ["law"]})
    with pytest.raises(InputError, match=r"topic, label could each hold the right labels"):
        roberta_hub.compare(old, new, {"text": ["a b"], "topic": ["art"], "label": ["art"]})
    with pytest.raises(InputError, match=r"no rows to judge; left out: 1 row without a text"):
        roberta_hub.compare(old, new, {"text": [None], "label": ["art"]})
    with pytest.raises(UnknownNameError, match=r"no column 'lenght'; did you mean length"):
        roberta_hub.compare(old, new, table, by="lenght")
    with pytest.raises(InputError, match=r"too long"):
        roberta_hub.compare(old, new, {"text": ["word " * 100], "label": ["art"]})
    with pytest.raises(InputError, match=r"neighbours need three"):
        roberta_hub.compare(old, new, {"text": ["a", "a"]}, verb="embed")
    number = small_roberta(heads={"stars": 1})
    with pytest.raises(InputError, match=r"gives a number, and compare takes labels"):
        roberta_hub.compare(number, number, {"text": ["a"]})


def test_a_damaged_model_is_not_compared(
    old: RobertaHubInterface, table: dict[str, list[str]]
) -> None:
    damaged = copied(old)
    with torch.no_grad():
        damaged.model.transformer.layers[0].fc2.bias[0] = torch.inf
    for verb in ("classify", "embed"):
        with pytest.raises(InputError, match=r"layers\.0\.fc2\.bias holds NaN or infinity"):
            roberta_hub.compare(old, damaged, table, verb=verb)


# ---- the command ----


@pytest.fixture
def place(
    old: RobertaHubInterface,
    new: RobertaHubInterface,
    table: dict[str, list[str]],
    tmp_path: Path,
) -> Path:
    old.save(tmp_path / "old")
    new.save(tmp_path / "new")
    with open(tmp_path / "rows.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(table)
        writer.writerows(zip(*table.values(), strict=True))
    return tmp_path


@pytest.mark.system
def test_the_command(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = runner(monkeypatch, capsys)
    monkeypatch.chdir(place)
    status, said, _ = run("compare", "old", "new", "-i", "rows.csv", "--by", "length")
    assert status == 1 and said.startswith("new is worse than old on rows.csv: ")
    assert "length = long" in said and "surest new mistakes:" in said and "rows.csv:" in said
    status, said, _ = run("compare", "old", "old", "-i", "rows.csv", "--format", "json")
    assert status == 0 and json.loads(said)["worse"] is False
    status, said, _ = run("compare", "old", "new", "-i", "rows.csv", "--format", "markdown")
    assert status == 1 and "| `all rows` | 45 |" in said
    unlabelled = ("--label", "length", "--text", "text")
    status, _, wrong = run("compare", "old", "new", "-i", "rows.csv", *unlabelled)
    assert status == 1 and "which neither model knows" in wrong
    vectors = ("compare", "old", "new", "-i", "rows.csv", "--verb", "embed")
    assert run(*vectors)[0] == 0
    assert run(*vectors, "--most-changed", "0")[0] == 0  # only the head is another


def test_the_record_in_every_form(
    old: RobertaHubInterface, new: RobertaHubInterface, table: dict[str, list[str]]
) -> None:
    found: Any = roberta_hub.compare(old, new, table, by="length")
    assert json.loads(json.dumps(found.to_dict()))["whole"]["rows"] == len(TEXTS)
    assert "surest new mistakes" in found._repr_html_() and "<script" not in found._repr_html_()
    assert max(map(len, str(found).splitlines())) < 160


def test_a_measure_of_classes_is_one_entry_that_every_report_shows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """fit, evaluate and compare tell what `CLASS_MEASURES` lists; train takes its key as metric."""
    monkeypatch.setitem(
        CLASS_MEASURES, "wrong", ClassMeasure("wrong ones", "It is bad.", share_wrong)
    )
    rows = {"text": [f"{word} {i}" for i in range(8) for word in ("good", "bad")]}
    rows["label"] = ["yes", "no"] * 8
    mine = roberta_hub.fit(rows, progress=False)
    assert "wrong ones" in mine.fitted.scores.numbers
    found = roberta_hub.compare(mine, mine, rows)
    assert set(found.whole.measures) == {*CLASS_MEASURES} and "wrong ones" in str(found)
    assert "wrong" in roberta_hub.evaluate(mine, rows).numbers


def share_wrong(answered: torch.Tensor, wanted: torch.Tensor) -> float:
    return float(answered.ne(wanted).double().mean())

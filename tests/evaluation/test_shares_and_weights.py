"""`evaluate` and `compare` read and count shares, votes and weights as `fit` does."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from small_models import small_roberta
from task_files import write_jsonl
from test_measures import NEAR, TEXTS, drawn

from roberta_hub import RobertaHubInterface, compare, evaluate
from roberta_hub.errors import InputError, InputTypeError, UnknownNameError
from roberta_hub.inference.certainty import pack_pieces
from roberta_hub.measures.classes import CLASS_MEASURES
from roberta_hub.settings import REJECTED
from roberta_hub.train.fitting.evaluation import compute_scores
from roberta_hub.train.fitting.examples import Examples, read_examples

NAMES = ("art", "sport", "war")
SHARES = [(0.7, 0.3, 0.0), (0.0, 1.0, 0.0), (0.25, 0.25, 0.5), (0.33, 0.33, 0.33)]
PARTS = [dict(zip(NAMES, SHARES[i % 4], strict=True)) for i in range(len(TEXTS))]
RATERS = [drawn([*NAMES, ""], seed=seed) for seed in (1, 2, 3)]
KEYS = {each.title: key for key, each in CLASS_MEASURES.items()}
KEYS |= {"log loss": "log_loss", "ECE": "ece"}
SEVERAL = {"micro-F1": "f1_micro", "all labels right": "accuracy", "ECE": "ece"}


def write_csv(path: Path, columns: dict[str, list[Any]]) -> Path:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def table(form: str, place: Path) -> tuple[Any, dict[str, Any]]:
    """The texts with shares in a form that `fit` learns, and how its columns are named."""
    if form == "dicts":
        rows = [{"text": text, "label": own} for text, own in zip(TEXTS, PARTS, strict=True)]
        return write_jsonl(place / "x.jsonl", rows), {}
    if form == "a name among dicts":
        cells = ["war" if i % 9 == 0 else own for i, own in enumerate(PARTS)]
        return {"text": TEXTS, "label": cells}, {}
    if form == "texts of dicts":
        return write_csv(place / "x.csv", {"text": TEXTS, "label": PARTS}), {}
    if form == "columns":
        columns = {name: [own[name] for own in PARTS] for name in NAMES}
        columns["art"] = ["" if i == 5 else value for i, value in enumerate(columns["art"])]
        return write_csv(place / "x.csv", {"text": TEXTS, **columns}), {"label": list(NAMES)}
    if form == "votes":
        raters: dict[str, Any] = dict(zip(("Ada", "Bob", "Eve"), RATERS, strict=True))
        return write_csv(place / "x.csv", {"text": TEXTS, **raters}), {"label": [*raters]}
    right = drawn(NAMES)
    flags = {name: [int(own == name) for own in right] for name in NAMES}
    more = {"label": list(NAMES), "task": "classification"}
    return write_csv(place / "x.csv", {"text": TEXTS, **flags}), more


def rows_of(examples: Examples) -> list[Any]:
    return [*examples.train, *examples.valid]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "form", ["dicts", "a name among dicts", "texts of dicts", "columns", "votes", "columns of 0, 1"]
)
def test_shares_are_read_and_counted_as_fit_counts_them(
    model: RobertaHubInterface, form: str, weighted: bool, tmp_path: Path
) -> None:
    task, more = table(form, tmp_path)
    if weighted:  # with 0: such a row is left out
        frame = pytest.importorskip("pandas")
        if isinstance(task, dict):
            task = frame.DataFrame(task)
        else:
            read = frame.read_json if task.suffix == ".jsonl" else frame.read_csv
            task = read(task, **({"lines": True} if task.suffix == ".jsonl" else {}))
        task["trust"] = drawn([0, 0.5, 1, 2.5], len(TEXTS), seed=9)
        more = {**more, "weight": "trust"}
    rows = rows_of(read_examples(task, **more))
    answers = model.classify([row.text for row in rows], "topic")
    theirs = compute_scores("classification", rows, answers, dict.fromkeys(NAMES, 9))
    more.pop("task", None)
    found: Any = evaluate(model, task, **more)
    assert (found.kind, found.how, found.rows) == ("labels", "head topic", len(rows))
    assert found.rows == len(TEXTS) - (form in ("columns", "votes") and not weighted) or weighted
    ours = {title: found[key] for title, key in KEYS.items()}
    assert ours == pytest.approx(theirs.numbers, abs=NEAR)
    assert found.interval == pytest.approx(theirs.interval, abs=NEAR)
    assert found["majority"] == pytest.approx(theirs.simplest, abs=NEAR)
    sizes = dict.fromkeys(NAMES, 0.0)
    for (name, _), amount in theirs.confusion.items():
        sizes[name] += amount
    assert {group.name: group.rows for group in found.groups} == pytest.approx(sizes, abs=1e-5)
    said = "; ".join(found.notes)
    several = sum(bool(row.shares) for row in rows)
    what = "votes for classes" if form == "votes" else "shares of classes"
    assert f"holds {what}: {several} row" in said and "counted as parts of each" in said
    assert ("each row counts by its weight (trust)" in said) is weighted


@pytest.mark.parametrize("form", ["lists", "dicts", "columns"])
def test_several_labels_with_weights_are_counted_as_fit_counts_them(
    model: RobertaHubInterface, form: str
) -> None:
    names = ("a", "b", "c")
    truth = [[n for n in names if n in own] for own in drawn(["a", "ab", "", "bc", "c"])]
    task: dict[str, Any] = {"text": TEXTS, "trust": drawn([0.1, 0.2, 0.9], seed=4)}
    more: dict[str, Any] = {"weight": "trust"}
    if form == "lists":
        task["label"] = truth
    elif form == "dicts":  # fractions that add up to 1 are no shares to a head of several labels
        task["label"] = [{n: 0.9 if n in own else 0.1 for n in names} for own in truth]
        more["task"] = "multi_label"
    else:
        task |= {n: [int(n in own) for own in truth] for n in names}
        more["label"] = list(names)
    rows = rows_of(read_examples(task, **more))
    answers = model.classify([row.text for row in rows], "tags")
    theirs = compute_scores("multi_label", rows, answers, dict.fromkeys(names, 9))
    more.pop("task", None)
    found: Any = evaluate(model, task, head="tags", **more)
    said = f"label holds numbers other than 0 and 1 in {len(TEXTS)} rows, first task:1; 0.5 and"
    assert any(note.startswith(said) for note in found.notes) is (form == "dicts")
    ours = {title: found[key] for title, key in SEVERAL.items()}
    assert ours == pytest.approx(theirs.numbers, abs=NEAR) and found.rows == len(rows)


@pytest.fixture(scope="module")
def refusing() -> RobertaHubInterface:
    """A model that refuses about half of the texts."""
    found = small_roberta(heads={"topic": 3}, labels={"topic": NAMES}, max_positions=64).eval()
    found._heads.note("topic", known_pieces=pack_pieces(map(found.encode, TEXTS[::2])))
    found.reject_below["topic"] = 0.0
    sure = sorted(one.certainty for one in found.classify(TEXTS))
    found.reject_below["topic"] = sure[len(sure) // 2]
    return found


@pytest.mark.parametrize("case", ["classes", "several labels", "numbers", "vectors", "refusals"])
def test_a_weight_of_two_is_two_rows(
    model: RobertaHubInterface, refusing: RobertaHubInterface, case: str
) -> None:
    more: dict[str, Any] = {}
    task: dict[str, Any] = {"text": TEXTS, "label": drawn(NAMES)}
    if case == "several labels":
        task["label"], more["head"] = drawn([["a"], ["a", "b"], [], ["c"]]), "tags"
    elif case == "numbers":
        task["label"], more["head"] = drawn([0, 1, 2.5, 4]), "stars"
    elif case == "vectors":
        task = {"sentence1": TEXTS, "sentence2": TEXTS[::-1], "score": drawn([0, 1, 2.5, 4])}
    elif case == "refusals":
        model, task["label"] = refusing, drawn([*NAMES, "peace"])
    times = drawn([0, 1, 2, 3], seed=5)
    again = [i for i, many in enumerate(times) for _ in range(many)]
    one: Any = evaluate(model, {**task, "times": times}, weight="times", **more)
    repeated = {name: [column[i] for i in again] for name, column in task.items()}
    other: Any = evaluate(model, repeated, **more)
    near = 2e-3 if case == "vectors" else 1e-6  # rounding of other batches ranks equal pairs
    assert one.numbers == pytest.approx(other.numbers, abs=near)
    assert one.numbers != pytest.approx(evaluate(model, task, **more).numbers, abs=1e-6)  # type: ignore[union-attr]
    for own, theirs in zip(one.groups, other.groups, strict=True):
        assert (own.name, own.rows) == (theirs.name, theirs.rows)
        assert own.numbers == pytest.approx(theirs.numbers, abs=1e-6)
    for here, there in zip(one.curve, other.curve, strict=True):
        assert here.coverage == there.coverage  # of equal rows the curve takes all or none
    assert (
        one.rows == sum(map(bool, times)) and f"{times.count(0)} rows with a weight" in one.notes[0]
    )


def test_a_refusal_of_a_row_that_is_out_of_scope_in_part_is_right_in_part(
    refusing: RobertaHubInterface,
) -> None:
    task = {"text": TEXTS, "label": [{"art": 0.25, "peace": 0.75}] * len(TEXTS)}
    found: Any = evaluate(refusing, task)
    answers = refusing.classify(TEXTS)
    right = [0.75 if a.rejected else 0.25 * (a.label == "art") for a in answers]
    assert found["accuracy"] == pytest.approx(sum(right) / len(TEXTS), abs=NEAR)
    assert found["auroc_out_of_scope"] == pytest.approx(0.5)  # each row is as much of both
    assert f"{len(TEXTS)} rows out of scope" in "; ".join(found.notes)


def test_labels_that_are_written_otherwise_join_their_shares(model: RobertaHubInterface) -> None:
    task = {"text": TEXTS, "label": [{"0": 0.4, "00": 0.35, "1": 0.25}] * len(TEXTS)}
    joined = {"text": TEXTS, "label": [{"art": 0.75, "war": 0.25}] * len(TEXTS)}
    labels = {"0": "art", "00": "art", "1": "war"}
    one: Any = evaluate(model, task, labels=labels)
    other: Any = evaluate(model, joined)
    assert one.numbers == pytest.approx(other.numbers, abs=NEAR)


@pytest.mark.parametrize(
    ("task", "more", "said"),
    [
        ({"label": [{"art": 80, "war": 20}]}, {}, r"task:1: label is .*; divide percent by 100"),
        ({"label": [{"art": 1, "war": 1}]}, {}, r"task:1: label is .*, and their sum is 1"),
        ({"label": [{"art": 0.5, "peace": 0.5}]}, {}, r"does not know: 'peace' \(1\); it knows"),
        ({"label": ["art"], "w": [-1]}, {"weight": "w"}, r"task:1: w is -1; a weight is a number"),
        ({"label": ["art"], "w": [None]}, {"weight": "w"}, r"task:1: w is empty; a weight is a nu"),
        ({"label": ["art"], "w": [0]}, {"weight": "w"}, r"left out: 1 row with a weight of 0"),
        ({"label": ["art"]}, {"weight": "label", "label": "label"}, r"'label' holds weights"),
        (
            {"good": ["a b"], "bad": ["b a"], "w": [1]},
            {"weight": "w"},
            r"weight means nothing",
        ),
    ],
)
def test_what_cannot_be_read(
    model: RobertaHubInterface, task: dict[str, Any], more: dict[str, Any], said: str
) -> None:
    whole = task if "good" in task else {"text": ["a b c"], **task}
    with pytest.raises(InputError, match=said):
        evaluate(model, whole, **more)


def test_a_weight_is_the_name_of_a_column(model: RobertaHubInterface) -> None:
    task = {"text": ["a b c"], "label": ["art"], "trust": [1]}
    with pytest.raises(UnknownNameError, match=r"no column 'turst'; did you mean trust"):
        evaluate(model, task, weight="turst")
    with pytest.raises(InputTypeError, match=r"weight is \[1\]; give the name of a column"):
        evaluate(model, task, weight=[1])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("verb", "name", "said"),
    [
        (evaluate, "weigth", r"did you mean weight=\?"),
        (evaluate, "sample_weight", r"say weight=: the name of a column"),
        (evaluate, "separator", r"between commas, semicolons or bars are taken apart"),
        (evaluate, "dataset", r"say task=: a path"),
        (compare, "weight", r"evaluate\(model, table, weight=...\) weighs the rows"),
        (compare, "labels", r"evaluate\(model, table, labels=\{...\}\) maps"),
        (compare, "tabel", r"did you mean table= or label=\?"),
    ],
)
def test_another_keyword_is_answered_with_ours(
    model: RobertaHubInterface, verb: Any, name: str, said: str
) -> None:
    with pytest.raises(
        InputTypeError, match=rf"{verb.__name__} has no argument '{name}'; .*{said}"
    ):
        verb(model, {"text": ["a b c"], "label": ["art"]}, **{name: "x"})


# ---- compare ----


def test_compare_counts_shares_as_evaluate_does(
    model: RobertaHubInterface, refusing: RobertaHubInterface, tmp_path: Path
) -> None:
    for form in ("dicts", "columns", "votes"):
        task, more = table(form, tmp_path)
        found = compare(model, refusing, task, head="topic", **more)
        both: Any = [evaluate(one, task, head="topic", **more) for one in (model, refusing)]
        assert found.whole.rows == both[0].rows
        assert found.whole.accuracy == pytest.approx([one["accuracy"] for one in both], abs=NEAR)
        assert found.whole.calibration == pytest.approx([one["ece"] for one in both], abs=NEAR)
        for key, numbers in found.whole.measures.items():
            assert numbers == pytest.approx([one[key] for one in both], abs=NEAR), key
        assert any("counted as parts of each" in note for note in found.notes)
        assert found.whole.only is not None and sum(found.whole.only) <= found.whole.rows


def test_compare_counts_a_refusal_out_of_scope_as_evaluate_does(
    model: RobertaHubInterface, refusing: RobertaHubInterface
) -> None:
    """Before only the label "(rejected)" was right to refuse, and "peace" was an error."""
    task = {"text": TEXTS, "label": drawn([*NAMES, "peace", REJECTED])}
    found = compare(model, refusing, task, head="topic")
    alone: Any = evaluate(refusing, task)
    assert found.whole.accuracy is not None and found.whole.calibration is not None
    assert found.whole.accuracy[1] == pytest.approx(alone["accuracy"], abs=NEAR)
    assert found.whole.calibration[1] == pytest.approx(alone["ece"], abs=NEAR)
    for key, numbers in found.whole.measures.items():
        assert numbers[1] == pytest.approx(alone[key], abs=NEAR), key
    outside = [label not in NAMES for label in task["label"]]
    said = f"{sum(outside)} rows out of scope, with labels that neither model knows: "
    assert any(note.startswith(said) for note in found.notes)
    given = [one.label for one in model.classify(TEXTS, "topic")]
    right = sum(a == b for a, b in zip(given, task["label"], strict=True))
    assert found.whole.accuracy[0] == right / len(TEXTS)  # a model that refuses nothing is wrong
    lost = [one for one in found.mistakes if one.new == REJECTED]
    assert lost and all(one.right in NAMES for one in lost)
    with pytest.raises(InputError, match="has the label 'peace', which neither model knows"):
        compare(refusing, refusing, {"text": TEXTS, "label": ["peace"] * len(TEXTS)})
    with pytest.raises(InputError, match=r"has the label '.*', which neither model knows"):
        compare(model, model, task, head="topic")


def test_to_refuse_a_class_that_only_the_other_model_knows_is_right(
    refusing: RobertaHubInterface,
) -> None:
    """Each model is judged by its own labels, as `evaluate` judges it."""
    wider = small_roberta(heads={"topic": 4}, labels={"topic": (*NAMES, "peace")}, max_positions=64)
    task = {"text": TEXTS, "label": drawn([*NAMES, "peace"])}
    found = compare(refusing, wider, task)
    one: Any = evaluate(refusing, task)
    other: Any = evaluate(wider, task)
    assert found.whole.accuracy == pytest.approx((one["accuracy"], other["accuracy"]), abs=NEAR)
    assert not any("out of scope" in note for note in found.notes)

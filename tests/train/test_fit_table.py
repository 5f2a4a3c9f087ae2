"""`roberta_hub.fit` reads tables of every kind, says what is odd, and leaves a model or nothing."""

from __future__ import annotations

import csv
import json
import os
import random
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import forks
import pytest
import torch
from families import write_family
from learning import ANIMALS, left, parquet
from small_models import small_roberta

import roberta_hub
from roberta_hub.errors import InputError, InputTypeError, RobertaHubError, UnknownNameError
from roberta_hub.rows.columns import find_columns
from roberta_hub.rows.tables import table_of
from roberta_hub.train.fitting.examples import Examples, read_examples
from roberta_hub.train.fitting.fit import prepare_classifier
from roberta_hub.train.fitting.learning_options import LearningOptions
from roberta_hub.train.fitting.model_card import fit_command
from roberta_hub.train.fitting.model_folder import check_output, holds_model, write_folder
from roberta_hub.train.settings import Config

pytestmark = pytest.mark.filterwarnings("ignore:.*rows are few to learn from")
Rows = list[dict[str, Any]]


def animals(count: int, seed: int = 1) -> Rows:
    """Sentences in which one word tells the class."""
    draw = random.Random(seed)
    words = [draw.choice(list(ANIMALS)) for _ in range(count)]
    return [{"text": f"The {w} in row {i} makes a noise.", "label": w} for i, w in enumerate(words)]


def written(path: Path, rows: Rows, **options: Any) -> Path:
    with path.open("w", newline="", encoding=options.pop("encoding", "utf-8")) as file:
        writer = csv.DictWriter(file, list(rows[0]), **options)
        writer.writeheader()
        writer.writerows(rows)
    return path


# ---- tables of every kind ----


def shapes(folder: Path) -> dict[str, Any]:
    """The same rows in every container."""
    rows = [
        {"text": 'A "fine", long\nfilm 🙂.', "label": "good"},
        {"text": "Dull.", "label": "bad"},
    ]
    rows = [{**row, "text": f"{row['text']} {i}"} for i in range(4) for row in rows]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    found: dict[str, Any] = {
        "CSV": written(folder / "a.csv", rows),
        "CSV of Excel": written(folder / "b.csv", rows, encoding="utf-8-sig", delimiter=";"),
        "CSV, all quoted": written(folder / "c.csv", rows, quoting=csv.QUOTE_ALL),
        "TSV": written(
            folder / "d.tsv",
            [{**r, "text": r["text"].replace("\n", " ")} for r in rows],
            delimiter="\t",
        ),
        "JSONL": folder / "e.jsonl",
        "a path as str": str(folder / "a.csv"),
        "dict of columns": columns,
        "dict of tuples": {name: tuple(column) for name, column in columns.items()},
        "list of dicts": rows,
    }
    (folder / "e.jsonl").write_text("".join(json.dumps(row) + "\r\n" for row in rows))
    return found


KINDS = ("CSV", "CSV of Excel", "CSV, all quoted", "TSV", "JSONL", "a path as str")
KINDS += ("dict of columns", "dict of tuples", "list of dicts")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_table_gives_the_same_examples(tmp_path: Path, kind: str) -> None:
    made = shapes(tmp_path)
    assert set(made) == set(KINDS)
    found = read_examples(made[kind], valid=0.25)
    wanted = read_examples(made["list of dicts"], valid=0.25)

    def texts(examples: Examples) -> list[Any]:
        return [
            (str(e.text).replace("\n", " "), e.labels) for e in (*examples.train, *examples.valid)
        ]

    assert texts(found) == texts(wanted)


@pytest.mark.parametrize("package", ["pandas", "polars", "pyarrow", "parquet"])
def test_frames(tmp_path: Path, package: str) -> None:
    rows = animals(20)
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    if package == "parquet":
        table: Any = parquet(tmp_path / "x.parquet", rows)
    elif package == "pyarrow":
        table = pytest.importorskip("pyarrow").table(columns)
    else:
        table = pytest.importorskip(package).DataFrame(columns)
    found, wanted = read_examples(table), read_examples(rows)
    assert [e.text for e in found.train] == [e.text for e in wanted.train]
    assert [e.labels for e in found.valid] == [e.labels for e in wanted.valid]
    if package == "pandas":  # an index of its own is no part of it, and NaN is no label
        table = table.set_index([[f"row {i}" for i in range(20)]])
        table.loc["row 3", "label"] = None
        (note,) = [note for note in read_examples(table).notes if "without" in note]
        assert note == "1 row without a label left out, first table:4"


def test_pandas_whole_numbers_beside_nan_stay_whole() -> None:
    frame = pytest.importorskip("pandas").DataFrame(
        {"text": [f"text {i}" for i in range(9)], "label": [1, 2, None] * 3}
    )
    assert read_examples(frame).classes == ("1", "2")


# ---- columns ----


@pytest.mark.parametrize(
    ("names", "given", "wanted"),
    [
        (["text", "label"], {}, (("text",), "label")),
        (["Review", "Sentiment"], {}, (("Review",), "Sentiment")),
        (["id", "sentence", "label"], {}, (("sentence",), "label")),
        (["premise", "hypothesis", "label"], {}, (("premise", "hypothesis"), "label")),
        (["what was said", "stars"], {}, (("what was said",), "stars")),
        (["title of it", "story", "topic"], {}, (("title of it", "story"), "topic")),
        (["id", "what was said", "kind"], {"label": "kind"}, (("what was said",), "kind")),
        (["a", "b", "c"], {"text": "c", "label": "a"}, (("c",), "a")),
        (
            ["text", "title of it", "c"],
            {"text": ["title of it", "text"]},
            (("title of it", "text"), "c"),
        ),
    ],
)
def test_columns_are_found(names: list[str], given: dict[str, Any], wanted: Any) -> None:
    prose = {"text", "Review", "sentence", "premise", "hypothesis", "what was said", "story"}
    prose.add("title of it")
    rows = [{n: "some words here" if n in prose else str(i) for n in names} for i in range(3)]
    assert find_columns(table_of(rows), **given) == (wanted[0], (wanted[1],))


def test_columns_that_are_not_clear_are_listed_with_two_rows() -> None:
    rows = [{"id": i, "a": f"x{i}", "b": f"y{i}"} for i in range(3)]
    with pytest.raises(InputError) as caught:
        find_columns(table_of(rows))
    said = (
        "table: no column is known to hold the texts. Its columns, with two rows: id (0, 1); "
        "a ('x0', 'x1'); b ('y0', 'y1'); say which with "
    )
    assert str(caught.value) == f"{said}text=..."
    assert caught.value.in_shell() == f"{said}--text"
    rows = [{"review": "a b", "text": "c d", "label": 1}]
    with pytest.raises(InputError, match="review, text could each hold the texts"):
        find_columns(table_of(rows))
    with pytest.raises(InputError, match="stars, label could each hold the labels"):
        find_columns(table_of([{"text": "a b", "stars": 1, "label": 2}]))
    with pytest.raises(UnknownNameError, match=r"no column 'labels'; did you mean label\? Its"):
        find_columns(table_of([{"text": "a b", "label": 2}]), label="labels")


@pytest.mark.parametrize(
    ("labels", "task", "classes"),
    [
        (["1", "0"], "classification", ("0", "1")),
        ([1, 5], "classification", ("1", "5")),
        ([1.0, 2.0], "classification", ("1", "2")),
        ([True, False], "classification", ("false", "true")),
        (["01", "1"], "classification", ("01", "1")),
        (["2.5", "1"], "regression", ()),
        (list(range(21)), "regression", ()),
        (list(range(20)), "classification", tuple(sorted(map(str, range(20))))),
        ([["a", "b"], []], "multi_label", ("a", "b")),
    ],
)
def test_the_task_follows_from_the_labels(labels: list[Any], task: str, classes: Any) -> None:
    rows = [{"text": f"{i} of {k}", "label": own} for k in range(3) for i, own in enumerate(labels)]
    found = read_examples(rows)
    assert (found.task, found.classes) == (task, classes)


def test_the_task_can_be_said(tmp_path: Path) -> None:
    rows = [{"text": f"text {i}", "label": str(i % 5)} for i in range(20)]
    assert read_examples(rows, task="regression").task == "regression"
    path = written(
        tmp_path / "x.csv",
        [{**row, "label": "a, b" if i % 2 else ""} for i, row in enumerate(rows)],
    )
    found = read_examples(path, task="multi_label")
    assert found.classes == ("a, b",) and {e.labels for e in found.train} == {("a, b",), ()}
    found = read_examples(path, separator=",")
    assert found.classes == ("a", "b") and {e.labels for e in found.train} == {("a", "b"), ()}


# ---- what is odd ----


def test_the_first_row_that_repeats_is_named() -> None:
    rows = animals(60)
    rows[50]["text"], rows[20]["text"] = rows[2]["text"], rows[9]["text"]
    (note,) = [n for n in read_examples(rows).notes if "more than once" in n]
    assert note.endswith("first table:21")  # whose text is that of row 10; row 51 has that of row 3


def test_a_sign_among_numbers_is_a_missing_one() -> None:
    rows = [
        {"text": f"film {i}", "stars": "-" if i % 9 == 4 else f"{i / 7:.2f}"} for i in range(72)
    ]
    said = "stars holds numbers, and '-' in 8 rows, first table:5; if that means a missing number"
    with pytest.raises(InputError, match=said):
        read_examples(rows, label="stars")
    with pytest.raises(InputError, match="'-', no number; if it is missing, empty the cell"):
        read_examples(rows, label="stars", task="regression")
    emptied = [{**row, "stars": row["stars"].strip("-")} for row in rows]
    assert len(read_examples(emptied, label="stars").train) == 64  # the remedy works


def test_what_is_odd_is_said() -> None:
    rows = animals(200)
    rows[3]["text"] = " "
    rows[4]["label"] = ""
    rows[7]["label"] = rows[7]["label"].upper() + " "
    rows[8] = {**rows[9], "text": rows[9]["text"].upper()}
    rows[10] = {"text": rows[11]["text"], "label": "horse"}
    found = read_examples(rows, valid=0.1)
    upper, lower = rows[7]["label"].strip(), rows[7]["label"].strip().lower()
    count = found.counts()
    assert found.notes == [
        "1 row without a text left out, first table:4",
        "1 row without a label left out, first table:5",
        f"labels that look alike are different classes: {upper!r} (1), {lower!r} ({count[lower]}); "
        "write them alike",
        f"2 of the classes with one row only, hardly learnt: {upper}, horse",
        "4 rows with a text that occurs more than once, 2 texts in all; all rows of one text are "
        "on one side; first table:10",
        "1 of these texts with different labels, first table:11 and table:12",
    ]
    shown = found.summary().splitlines()
    assert shown[0] == "table: 198 texts (text), labels: label"
    assert shown[1] == "task: classification, 6 classes"
    assert shown[-1].endswith("held out (0.1 of each class, seed 1)")


def test_few_rows_are_said() -> None:
    assert "27 rows are few to learn from" in read_examples(animals(30), valid=0.1).notes[-1]
    found = read_examples(animals(30))  # too few to hold any out
    assert "30 rows are few to learn from" in found.notes[-1] and not found.valid
    assert found.summary().endswith("30 to learn from, 0 held out; scores are cross-validated")


# ---- the split ----


def test_the_split_is_stratified_and_seeded() -> None:
    rows = [{"text": f"text {i}", "label": "rare" if i % 10 == 0 else "common"} for i in range(400)]
    found = read_examples(rows)
    assert (len(found.train), len(found.valid)) == (360, 40)
    assert Counter(e.labels[0] for e in found.valid) == {"common": 36, "rare": 4}
    assert sorted(e.text for e in (*found.train, *found.valid)) == sorted(r["text"] for r in rows)
    again, other = read_examples(rows), read_examples(rows, seed=2)
    assert again.valid == found.valid != other.valid
    assert len(read_examples(rows, valid=0.5).valid) == 200


def test_doubled_texts_are_on_one_side() -> None:
    draw = random.Random(0)
    rows = [{"text": f"text {draw.randrange(60)}", "label": i % 3} for i in range(400)]
    found = read_examples(rows)
    train, valid = ({str(e.text) for e in side} for side in (found.train, found.valid))
    assert not train & valid
    assert 25 <= len(found.valid) <= 60


@pytest.mark.parametrize(
    ("labels", "held_out", "task", "left"),
    [
        ([["x"], []], [], "multi_label", "no label"),
        ([1.5, 2.5], 1.5, "regression", "only the number '2.5'"),
        (["x", "y"], "x", "classification", "only the class 'y'"),
    ],
)
def test_what_is_left_beside_a_held_out_table_can_be_learnt(
    labels: list[Any], held_out: Any, task: str, left: str
) -> None:
    table = {"text": ["It rains.", "It snows."], "label": labels}
    valid = {"text": ["It rains."], "label": [held_out]}
    with pytest.raises(InputError, match=f"^table: {left} is left to learn from; add rows whose"):
        read_examples(table, valid=valid, task=task)


def test_a_held_out_table_of_its_own(tmp_path: Path) -> None:
    rows = animals(60)
    train, valid = written(tmp_path / "a.csv", rows[:50]), written(tmp_path / "b.csv", rows[48:])
    found = read_examples(train, valid=valid)
    assert (len(found.train), len(found.valid)) == (48, 12)
    assert "2 rows with a text that b.csv has too, not learnt; first a.csv:50" in found.notes
    assert found.summary().splitlines()[-1] == f"48 to learn from, 12 held out ({valid})"


@pytest.mark.parametrize(
    ("learnt", "asked", "differ"),
    [((50, 50), (50, 50), False), ((50, 50), (57, 43), False), ((50, 50), (80, 20), True)],
)
def test_shares_of_classes_that_differ_are_said(
    learnt: tuple[int, int], asked: tuple[int, int], differ: bool
) -> None:
    def rows(counts: tuple[int, int], name: str) -> list[dict[str, str]]:
        labels = ["cat"] * counts[0] + ["dog"] * counts[1]
        return [{"text": f"{name} {i}", "label": label} for i, label in enumerate(labels)]

    notes = read_examples(rows(learnt, "a"), valid=rows(asked, "b")).notes
    said = [note for note in notes if note.startswith("the shares of classes differ")]
    assert said == [
        "the shares of classes differ: 'cat' is 50 % of the rows to learn from and 80 % of valid; "
        "answers lean to the shares that are learnt"
    ] * int(differ)


# ---- bad tables ----


def good(count: int = 12) -> Rows:
    return [{"text": f"some words {i}", "label": "ab"[i % 2]} for i in range(count)]


BAD: dict[str, tuple[Any, dict[str, Any], str]] = {
    "no rows": ([], {}, "table: is empty"),
    "a header alone": (b"text,label\n", {}, "x.csv: no row has both a text (text) and a label"),
    "nothing": (b"", {}, "x.csv: is empty"),
    "a text file": (b"Some words.\nOthers here.\n", {}, "no column is known to hold the labels"),
    "one class": ([{**row, "label": "a"} for row in good()], {}, "label is 'a' in every row; cl"),
    "one number": ([{**row, "label": 1.5} for row in good()], {}, "label is 1.5 in every row"),
    "no labels": ([{**row, "label": None} for row in good()], {}, "no row has both a text (text)"),
    "no texts": ([{**row, "text": ""} for row in good()], {}, "no row has both a text (text) and"),
    "a number for a text": (
        [{**row, "text": 5} for row in good()],
        {"text": "text"},
        "table:1: the column 'text' holds 5, a int, not a text; text=... names",
    ),
    "each row its own class": (
        [{**row, "label": f"kind {i}x"} for i, row in enumerate(good(60))],
        {},
        "label has 60 different values in 60 rows, too many for classes",
    ),
    "words in a regression": (good(), {"task": "regression"}, "table:1: label is 'a', no number"),
    "NaN in a regression": (
        b"text,label\na b,1.5\nc d,nan\n",
        {"task": "regression"},
        "x.csv:3: label is 'nan', no number",
    ),
    "a list among classes": (
        [*good(), {"text": "a b", "label": ["a"]}],
        {"task": "classification"},
        "table:13: label is a list; task multi_label learns those",
    ),
    "a label of several lines": (
        [*good(), {"text": "a b", "label": "a\nb"}],
        {},
        "table:13: label 'a\\nb' holds U+000A",
    ),
    "columns of two lengths": (
        {"text": ["a b"], "label": [1, 2]},
        {},
        "columns of different lengths: 'text' 1, 'label' 2",
    ),
    "one str for a column": ({"text": "a b", "label": "x"}, {}, "table['text'] is one str"),
    "a row that is a list": ([["a b", "x"]], {}, "table:1 is a list, not a dict"),
    "a set": ({"a b"}, {}, "table is a set; give a path to a CSV"),
    "the same column twice": (
        good(),
        {"text": "label", "label": "label"},
        "cannot be both text and",
    ),
    "three columns of text": (
        good(),
        {"text": ["text", "label", "x"]},
        "give the name of a column, or",
    ),
    "no such task": (good(), {"task": "ner"}, "task is 'ner'; choose None, 'classification'"),
    "a share over 1": (
        good(),
        {"valid": 10},
        "valid is 10; give a share of the rows between 0 and 1",
    ),
    "an unknown label held out": (
        good(),
        {"valid": [{"text": "new words", "label": "z"}]},
        "valid:1: label 'z' is in no row to learn from; there are a, b",
    ),
    "no column held out": (
        good(),
        {"valid": [{"text": "x y", "y": "a"}]},
        "valid has no column 'label'",
    ),
    "one text only": (
        [{"text": "a b", "label": k} for k in "xy"],
        {"valid": 0.1},
        "2 rows to learn from and 0 to",
    ),
    "all of it held out": (good(), {"valid": good()}, "0 rows to learn from and 12 to hold out"),
}


@pytest.mark.parametrize(("table", "options", "words"), BAD.values(), ids=BAD)
def test_bad_tables(tmp_path: Path, table: Any, options: dict[str, Any], words: str) -> None:
    if isinstance(table, bytes):
        (tmp_path / "x.csv").write_bytes(table)
        table = tmp_path / "x.csv"
    with pytest.raises(RobertaHubError) as caught:
        read_examples(table, **options)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


# ---- the model ----


@pytest.fixture(scope="module")
def fitted(base: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path, str]:
    folder = tmp_path_factory.mktemp("fitted")
    table = written(folder / "animals.csv", animals(240))
    options = LearningOptions(epochs=14)
    ready = prepare_classifier(
        read_examples(table), model=base, output=folder / "mine", options=options
    )
    done = ready.train(progress=False)
    assert ready.output is not None
    made = fit_command(ready.examples, ready.config, options, ready.output)
    return done, folder / "mine", made


@pytest.mark.system
def test_it_learns_and_answers_with_its_own_head(fitted: Any) -> None:
    done, folder, _ = fitted
    scores = done.fitted.scores
    assert scores.numbers["accuracy"] > 0.9 > 0.5 > scores.simplest
    mine = roberta_hub.load_model(folder)
    for word in ANIMALS:
        answer = mine.classify(f"The {word} in row 999 makes a noise.")
        assert answer.label == word
        assert done.classify(f"The {word} in row 999 makes a noise.") == answer
    assert mine.head_labels(mine.default_head) == tuple(sorted(ANIMALS))


@pytest.mark.system
def test_the_folder_has_a_card_and_nothing_else(fitted: Any) -> None:
    done, folder, command = fitted
    assert {path.name for path in folder.iterdir()} >= {
        "README.md",
        "config.json",
        "model.safetensors",
    }
    assert not [path for path in folder.parent.iterdir() if path.name.startswith(".")]
    card = (folder / "README.md").read_text()
    for words in (
        "animals.csv",
        done.fitted.scores.headline(),
        command,
        "240 texts",
        "torch ",
        "cat",
    ):
        assert words in card


@pytest.mark.system
def test_the_card_is_true(fitted: Any, base: Path) -> None:
    """Its block of Python runs, and its command names all that was chosen."""
    _, folder, command = fitted
    block = (folder / "README.md").read_text().split("```python\n")[1].split("```")[0]
    exec(block.replace("print(", "answer = ("), names := {})
    assert names["answer"].label in ANIMALS  # type: ignore[attr-defined]
    assert command == (
        f"roberta-hub fit {folder.parent}/animals.csv --text text --label label "
        f"--model {base} --output {folder} --task classification --epochs 14 --seed 1"
    )


@pytest.mark.system
def test_the_scores_as_text(fitted: Any) -> None:
    scores = fitted[0].fitted.scores
    lines = scores.summary().splitlines()
    assert lines[0].startswith(
        f"accuracy {100 * scores.numbers['accuracy']:.1f} % on 24 rows held "
    )
    assert "out (95 %: 86 to 100); " in lines[0]
    assert f"; {scores.guess}: " in " ".join(lines[:2])
    assert f"better than {scores.guess}" in lines
    start = lines.index("") + 1
    assert lines[start].split() == ["right", "answered"]
    assert lines[start + 1].split() == sorted(ANIMALS)
    counts = [line.split()[1:] for line in lines[start + 2 : start + 6]]
    assert sum(int(n) for row in counts for n in row) == 24
    assert max(map(len, lines)) <= 80


@pytest.mark.system
def test_pairs(base: Path, tmp_path: Path) -> None:
    draw, rows = random.Random(1), []
    for i in range(40):
        first, second = draw.choices(list(ANIMALS), k=2)
        rows.append(
            {
                "premise": f"A {first} {i}.",
                "hypothesis": f"A {second}.",
                "label": str(first == second),
            }
        )
    mine = roberta_hub.fit(rows, model=base, output=tmp_path / "mine", epochs=1, progress=False)
    assert mine.inputs == {mine.default_head: "pair"}
    assert mine.classify([("A cat.", "A cat.")])[0].label in ("True", "False")
    assert '[("a text", "another")]' in (tmp_path / "mine/README.md").read_text()


@pytest.mark.system
def test_a_regression_answers_in_the_tables_numbers(lively: Path, tmp_path: Path) -> None:
    prices = {"cat": 1000.5, "dog": 2000.5, "cow": 9000.5, "duck": 10000.5}
    rows = [{"text": row["text"], "price": prices[row["label"]]} for row in animals(200)]
    found = read_examples(rows, label="price")
    ready = prepare_classifier(
        found, model=lively, output=tmp_path / "mine", options=LearningOptions(epochs=20)
    )
    scores = ready.train(progress=False).fitted.scores
    assert scores.numbers["Pearson"] > 0.8 < scores.numbers["Spearman"]
    assert scores.interval[0] < scores.numbers["mean error"] < scores.simplest / 2
    lines = scores.summary().splitlines()
    assert lines[0].startswith("mean error ")
    assert "; always the median, " in scores.headline() and "largest errors:" in lines


@pytest.mark.system
def test_several_labels(base: Path, tmp_path: Path) -> None:
    rows = [
        {"text": f"{a} and {b} {i}", "label": sorted({a, b})}
        for i, (a, b) in enumerate([(a, b) for a in ANIMALS for b in ANIMALS] * 8)
    ]
    options = LearningOptions(epochs=16)
    ready = prepare_classifier(
        read_examples(rows), model=base, output=tmp_path / "mine", options=options
    )
    done = ready.train(False)
    scores = done.fitted.scores
    assert scores.numbers["micro-F1"] > scores.simplest
    assert set(done.classify("cat and cow 1", multi_label=True).scores) == set(ANIMALS)
    lines = [line.split() for line in scores.summary().splitlines()]
    assert ["right", "missed", "wrong", "precision", "recall", "F1"] in lines


def remarks(count: int, seed: int) -> Rows:
    """Texts of none to two things; each is named in an eighth of them."""
    draw = random.Random(seed)
    things = ("bread", "soup", "rice", "tea", "milk", "fish", "cheese", "salad")
    named = [sorted(draw.sample(things, draw.randint(0, 2))) for _ in range(count)]
    return [
        {"text": f"{' and '.join(own) or 'nothing'} {i}", "label": own}
        for i, own in enumerate(named)
    ]


@pytest.mark.system
def test_rare_labels_are_learnt_and_not_all_denied(lively: Path, tmp_path: Path) -> None:
    examples = read_examples(remarks(600, 1), valid=remarks(100, 2))
    done = prepare_classifier(examples, model=lively, output=tmp_path / "mine").train(False)
    scores = done.fitted.scores
    assert scores.numbers["micro-F1"] > 0.6 > 0.25 > scores.simplest


@pytest.mark.system
def test_other_heads_go(base: Path, tmp_path: Path) -> None:
    """What the model knew before belongs to its old weights."""
    old = small_roberta(num_layers=2, heads={"mnli": 3}, labels={"mnli": ("a", "b", "c")})
    old.register_token_head("ner", labels=["O", "B-X"])
    old.save(tmp_path / "old")
    mine = roberta_hub.fit(good(), model=tmp_path / "old", output=tmp_path / "mine", epochs=1)
    assert list(mine.labels) == [mine.default_head]
    with pytest.raises(UnknownNameError, match="zero_shot needs"):
        mine.zero_shot("a", ["b", "c"])


@pytest.mark.system
def test_long_texts_are_cut_and_said(base: Path, tmp_path: Path) -> None:
    rows = good(40)
    rows[5]["text"] = "many words " * 60
    with pytest.warns(UserWarning, match=r"table: 1 of 40 texts have more than 48 tokens and are"):
        roberta_hub.fit(rows, model=base, output=tmp_path / "mine", epochs=1)


@pytest.mark.system
def test_the_call_prints_nothing_and_repeats(
    base: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    answers = []
    for _ in range(2):  # the second replaces the first
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mine = roberta_hub.fit(good(), model=base, output=tmp_path / "mine", epochs=2)
        answers.append(mine.classify(["some words", "others"]))
    assert answers[0] == answers[1]
    assert capfd.readouterr() == ("", "")


# ---- the folder ----


@pytest.mark.parametrize("there", ["a file", "files", "a model"])
def test_what_is_not_ours_is_refused_before_anything_else(
    base: Path, tmp_path: Path, there: str
) -> None:
    target = tmp_path / "mine"
    if there == "a file":
        target.write_text("mine")
    elif there == "files":
        target.mkdir()
        (target / "thesis.txt").write_text("all of it")
    else:
        small_roberta().save(target)
        (target / "README.md").write_text("# Mine\n")
    with pytest.raises(InputError, match=r"output is .*mine, .*output=") as caught:
        roberta_hub.fit("no-table.csv", output=target)
    assert caught.value.in_shell().endswith("name another folder with --output")


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputTypeError, match="output is 5"):
        roberta_hub.fit("x.csv", output=5)  # type: ignore[arg-type]
    with pytest.raises(RobertaHubError, match="mine"):
        roberta_hub.fit(good(), output=tmp_path / "file" / "mine")


@pytest.mark.system
def test_a_model_of_ones_own_is_replaced_and_that_is_said(base: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"model": base, "output": tmp_path / "mine", "epochs": 1}
    with warnings.catch_warnings(record=True) as first:
        warnings.simplefilter("always")
        roberta_hub.fit(good(), **options)
    said = "holds a model that fit made before; the new one replaces it"
    assert not [w for w in first if said in str(w.message)]
    with pytest.warns(UserWarning, match=f"table: .*mine {said}"):
        mine = roberta_hub.fit(good(), **options)
    assert any(said in note for note in mine.fitted.notes)


@pytest.mark.system
def test_without_an_output_nothing_is_left(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, temporary = tmp_path / "work", tmp_path / "temporary"
    work.mkdir(), temporary.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    mine = roberta_hub.fit(good(), model=base, epochs=2)
    assert not left(work) and not left(temporary)
    written = roberta_hub.fit(good(), model=base, epochs=2, output=work / "mine")
    state, other = mine.model.state_dict(), written.model.state_dict()
    assert all(torch.equal(value, other[name]) for name, value in state.items())
    assert mine.source == "fit of table" and mine.training == written.training
    assert [p.requires_grad for p in mine.parameters()] == [True] * len(list(mine.parameters()))
    assert mine.fitted.rows == written.fitted.rows and mine.fitted.scores == written.fitted.scores
    mine.save(tmp_path / "kept")
    again = roberta_hub.load_model(tmp_path / "kept")
    theirs, ours = again.classify("some words").scores, mine.classify("some words").scores
    assert theirs == pytest.approx(ours, abs=1e-5)  # mapped weights may round otherwise
    assert again.fitted is None


def test_a_run_that_fails_leaves_nothing(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    rows = [{"text": f"a text {i}", "label": [1e200, -1e200, 1e-3][i % 3]} for i in range(60)]
    with pytest.raises(InputError, match="too far apart"):
        roberta_hub.fit(rows, model=base, task="regression")
    assert not left(tmp_path)


@pytest.mark.system
def test_one_goes_on_from_ones_own(base: Path, tmp_path: Path) -> None:
    """Also into the same folder: what was learnt is where it begins."""
    options: dict[str, Any] = {"output": tmp_path / "mine", "progress": False}
    rows = animals(120)
    first = roberta_hub.fit(rows, model=base, epochs=14, **options)
    reached = first.fitted.scores.numbers["accuracy"]
    learnt = {"learning_rate": 1e-6, "epochs": 1}
    again = roberta_hub.fit(rows, model=tmp_path / "mine", **learnt, **options)
    assert again.fitted.scores.numbers["accuracy"] >= reached > 0.8
    assert list(again.labels) == list(first.labels)
    found = roberta_hub.load_model(tmp_path / "mine")
    assert found.classify("The cat in row 3.") == again.classify("The cat in row 3.")
    assert f"model='{tmp_path}/mine'" in (tmp_path / "mine/README.md").read_text()
    fewer = [row for row in rows if row["label"] != "cat"]
    other = roberta_hub.fit(fewer, model=tmp_path / "mine", epochs=1, **options)
    assert set(other.head_labels(other.default_head)) == set(ANIMALS) - {"cat"}


@pytest.mark.system
def test_a_regression_goes_on_in_the_tables_numbers(base: Path, tmp_path: Path) -> None:
    prices = {"cat": 1000.5, "dog": 2000.5, "cow": 9000.5, "duck": 10000.5}
    rows = [{"text": row["text"], "price": prices[row["label"]]} for row in animals(200)]
    options: dict[str, Any] = {"label": "price", "output": tmp_path / "mine", "progress": False}
    first = roberta_hub.fit(rows, model=base, epochs=20, **options)
    learnt = {"learning_rate": 1e-6, "epochs": 1}
    again = roberta_hub.fit(rows, model=tmp_path / "mine", **learnt, **options)
    before, after = (m.fitted.scores.numbers["mean error"] for m in (first, again))
    assert after < before * 1.5


# ---- calls ----


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("num_epochs", "say epochs="),
        ("num_train_epochs", "say epochs="),
        ("test_size", "say valid=: the share of rows to hold out"),
        ("class_weight", "say balance=: balance=True counts rare classes"),
        ("random_state", "say seed="),
        ("lr", "say learning_rate="),
        ("output_dir", "say output="),
        ("max_seq_length", "say max_length="),
        ("X", r"say table=: one table holds texts and labels, fit\({'text': X, 'label': y}\)"),
        ("sample_weight", "say weight=: the name of a column"),
        ("device", "the model runs where it lies"),
        ("epoch", "did you mean epochs="),
    ],
)
def test_words_of_habit_are_answered_with_ours(name: str, words: str) -> None:
    with pytest.raises(InputTypeError, match=f"^fit has no argument '{name}'; {words}"):
        roberta_hub.fit(good(), **{name: 1})


def test_texts_and_labels_apart_are_answered_with_the_estimator() -> None:
    with pytest.raises(InputTypeError, match=r"too many positional.*; RobertaClassifier\(\)\.fit"):
        roberta_hub.fit(["a", "b"], [0, 1])  # type: ignore[call-arg, misc]
    with pytest.raises(InputTypeError, match=r"'table'; call it as fit\(table, text=None"):
        roberta_hub.fit()  # type: ignore[call-arg]


def test_rates_batches_and_lengths_are_taken(base: Path) -> None:
    options = LearningOptions(learning_rate=3e-5, batch_size=7, max_length=9, epochs=2)
    config = prepare_classifier(read_examples(good(40)), model=base, options=options).config
    assert (config.optimizer.lr, config.batch.batch_size) == (3e-5, 7)
    assert config.task.options["max_length"] == 9 and config.loop.max_epochs == 2
    for name, value in (
        ("minutes", 0),
        ("learning_rate", 1.5),
        ("batch_size", 0),
        ("max_length", 2),
        ("trials", 0),
        ("pooling", "max"),
    ):
        with pytest.raises(InputError, match=name):
            roberta_hub.fit(good(), **{name: value})
    with pytest.raises(InputTypeError, match="balance"):
        roberta_hub.fit(good(), balance="yes")  # type: ignore[arg-type]


# ---- signals ----

RUN = """
import logging, sys, tempfile, torch, roberta_hub, roberta_hub.train.reports
torch.set_num_threads(1)
tempfile.tempdir = sys.argv[2]
output = sys.argv[3] if len(sys.argv) > 3 else None
rows = [{"text": f"some words {i}", "label": "ab"[i % 2]} for i in range(400)]
roberta_hub.train.reports.logger.addHandler(logging.StreamHandler(sys.stdout))
roberta_hub.train.reports.logger.setLevel(logging.INFO)
try:
    roberta_hub.fit(rows, model=sys.argv[1], output=output, epochs=9999)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.system
@pytest.mark.parametrize("to", ["mine", "memory"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_nothing(base: Path, tmp_path: Path, to: str, number: int) -> None:
    output = [tmp_path / "mine"] if to == "mine" else []
    run = forks.start("-c", RUN, base, tmp_path, *output, stdout=forks.PIPE)
    assert run.stdout is not None
    deadline = time.monotonic() + 120
    while "updates" not in run.stdout.readline():  # it begins to train
        assert time.monotonic() < deadline and run.poll() is None
    assert left(tmp_path) == []
    run.send_signal(number)
    assert run.stdout.read().splitlines()[-1] == "interrupted"
    assert run.wait(60) == 0
    assert left(tmp_path) == []


OVER_AND_OVER = """
import sys, torch, roberta_hub
from pathlib import Path
from roberta_hub.train.fitting.model_folder import write_folder
torch.set_num_threads(1)
roberta, output = roberta_hub.load_model(sys.argv[1]), Path(sys.argv[2])
print("ready", flush=True)
for number in range(10_000):
    write_folder(roberta, output, f"card {number}")
"""


@pytest.mark.system
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_at_any_instant_leaves_nothing(base: Path, tmp_path: Path, number: int) -> None:
    """The folder is made, filled, written and cleared all the time; the model is whole after it."""
    draw = random.Random(number)
    for _ in range(12):
        run = forks.start("-c", OVER_AND_OVER, base, tmp_path / "mine", stdout=forks.PIPE)
        assert run.stdout is not None and run.stdout.readline().strip() == "ready"
        time.sleep(draw.random() / 4)
        run.send_signal(number)
        assert run.wait(60) == -number
        assert left(tmp_path) in ([], ["mine"])
        if (tmp_path / "mine").exists():
            assert not [path for path in (tmp_path / "mine").iterdir() if path.name[0] == "."]
            assert holds_model(tmp_path / "mine")
            roberta_hub.load_model(tmp_path / "mine")


# ---- what a table may hold ----


def test_the_word_nan_among_numbers_is_a_missing_label() -> None:
    rows: Rows = [{"text": f"a text {i}", "label": str(i % 5 / 2)} for i in range(60)]
    rows[7]["label"] = " NaN"
    found = read_examples(rows)
    assert found.task == "regression" and len(found.train) + len(found.valid) == 59
    assert any(note.startswith("1 row without a label left out") for note in found.notes)
    rows[7]["label"] = "inf"
    with pytest.raises(InputError, match="table:8: label is 'inf', no number"):
        read_examples(rows)


@pytest.mark.parametrize("label", [float("inf"), -float("inf")])
def test_an_infinite_label_is_no_class(label: float) -> None:
    rows = [{"text": f"a text {i}", "label": [0.0, 1.0, label][i % 3]} for i in range(9)]
    with pytest.raises(InputError, match=r"table:3: .*inf"):
        read_examples(rows)
    with pytest.raises(InputError, match=r"table:3: .*inf"):
        read_examples(rows, task="classification")


def test_numbers_too_far_apart(base: Path, tmp_path: Path) -> None:
    rows = [{"text": f"a text {i}", "label": [1e200, -1e200, 1e-3][i % 3]} for i in range(60)]
    ready = prepare_classifier(
        read_examples(rows, task="regression"), model=base, output=tmp_path / "mine"
    )
    with pytest.raises(InputError, match="too far apart; take their logarithms"):
        ready.train(progress=False)


def test_numbers_that_are_written_in_two_ways_are_named() -> None:
    rows = [{"text": f"a text {i}", "label": ["0", "1", "1.0"][i % 3]} for i in range(60)]
    (note,) = (note for note in read_examples(rows).notes if "look alike" in note)
    assert "'1' (20), '1.0' (20)" in note


@pytest.mark.parametrize("task", ["multi_label", "classification"])
def test_the_only_row_of_a_label_is_learnt_whatever_the_seed(task: str) -> None:
    listed = task == "multi_label"
    rows: Rows = [{"text": f"a text {i}", "label": ["cat"] if listed else "cat"} for i in range(40)]
    for i in range(8):
        rows[i]["label"] = ["cat", f"rare{i}"] if listed else f"rare{i}"
    if not listed:
        rows += [{"text": f"a text {i}", "label": "dog"} for i in range(8, 20)]
    for seed in range(20):
        found = read_examples(rows, seed=seed, valid=0.1)
        assert found.task == task and found.valid
        learnt = {name for example in found.train for name in example.labels}
        assert learnt >= {f"rare{i}" for i in range(8)}


def test_missing_labels_count_alike_in_both_tables() -> None:
    rows: Rows = [{"text": f"a text {i}", "label": ["a", "b"][: 1 + i % 2]} for i in range(20)]
    valid: Rows = [{"text": "new one", "label": ["a"]}, {"text": "new two", "label": float("nan")}]
    found = read_examples(rows, valid=valid)
    assert [example.text for example in found.valid] == ["new one"]


# ---- where the model goes ----


def test_nothing_of_an_earlier_models_vocabulary_stays(tmp_path: Path) -> None:
    write_family("camembert", tmp_path / "other")
    other = roberta_hub.load_model(tmp_path / "other")
    tiny = small_roberta(num_layers=1)
    write_folder(other, tmp_path / "mine", "")
    write_folder(tiny, tmp_path / "mine", "")
    found = roberta_hub.load_model(tmp_path / "mine")
    assert found.encode("good film").tolist() == tiny.encode("good film").tolist()


@contextmanager
def nobody() -> Iterator[None]:
    """Be another user than root, who writes anywhere; nothing changes for one who is not root."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other rights")
def test_an_output_whose_parent_cannot_be_written() -> None:
    with tempfile.TemporaryDirectory() as closed:
        output = Path(closed) / "output"
        output.mkdir()
        output.chmod(0o777)
        Path(closed).chmod(0o555)
        with nobody():
            assert check_output(output) == output
        assert not list(output.iterdir())
        output.chmod(0o555)
        words = r"cannot be written \(Permission denied\); name another"
        for place in (output, output / "deeper" / "still"):
            with pytest.raises(InputError, match=words), nobody():
                check_output(place)
        Path(closed).chmod(0o755)


def test_the_command_for_data_in_memory_names_the_share() -> None:
    rows = animals(60)
    for valid, words in ((0.4, "valid=0.4, "), (rows[:20], "valid=valid, ")):
        found = read_examples(rows, valid=valid)
        made = fit_command(found, Config(), LearningOptions(), Path("mine"))
        assert made.startswith(f"roberta_hub.fit(table, {words}text='text', ")

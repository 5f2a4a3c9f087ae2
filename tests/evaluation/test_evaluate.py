"""What a task is, is seen from its files and said; what cannot be judged is refused by name."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from small_models import copied, small_roberta
from task_files import conll, rows_of, squad, write_jsonl

import roberta_hub
from roberta_hub import RobertaHubInterface, evaluate
from roberta_hub.errors import InputError, InputTypeError, UnknownNameError
from roberta_hub.evaluation.records import Evaluation, Evaluations

ROWS = "text,label\nA dog ran.,art\nGoal!,sport\nIt rains.,art\n"
PAIRS = "sentence1,sentence2,score\nA dog ran.,A dog.,4.5\nGoal!,It rains.,0\nOne.,Two.,2\n"
MINIMAL = [{"sentence_good": "The dogs run.", "sentence_bad": "The dogs runs."}]


def test_every_shape(model: RobertaHubInterface, beir: Path, tmp_path: Path) -> None:
    pytest.importorskip("pytrec_eval")
    (tmp_path / "rows.csv").write_text(ROWS)
    (tmp_path / "rows.tsv").write_text(ROWS.replace(",", "\t"))
    (tmp_path / "pairs.csv").write_text(PAIRS)
    write_jsonl(tmp_path / "pairs.jsonl", MINIMAL)
    write_jsonl(tmp_path / "grammar/one.jsonl", MINIMAL)
    squad(tmp_path / "dev.json", [["London"]])
    conll(tmp_path / "words.tsv")
    shapes = {
        "rows.csv": ("labels", "labelled texts (text, label)"),
        "rows.tsv": ("labels", "labelled texts (text, label)"),
        "pairs.csv": ("scores", "scored pairs (sentence1, sentence2, score)"),
        "pairs.jsonl": ("minimal_pairs", "minimal pairs"),
        "grammar": ("minimal_pairs", "minimal pairs"),
        "dev.json": ("answers", "questions about contexts"),
        "words.tsv": ("spans", "a word and its tag a line"),
        "beir": ("search", "a corpus with queries and judgements (qrels/test.tsv)"),
    }
    found: Any = evaluate(model, [tmp_path / name for name in shapes])
    assert isinstance(found, Evaluations) and len(found) == len(shapes)
    for one, (name, (kind, shape)) in zip(found, shapes.items(), strict=True):
        assert (one.task, one.kind, one.shape) == (str(tmp_path / name), kind, shape)
        assert one.rows and one.numbers and one.model == model.source
        again: Any = evaluate(model, str(tmp_path / name), kind=kind)
        assert again == one
        told = json.loads(json.dumps(one.to_dict(), allow_nan=False))
        assert told["numbers"] == one.numbers and told["kind"] == kind
        assert one.measure in str(one) and one.measure in one._repr_html_()
        assert f"| {one.measure} |" in one.to_markdown()
        assert repr(one) == str(one)
    frame = found.to_pandas()
    assert list(frame["kind"]) == [kind for kind, _ in shapes.values()]
    assert frame["accuracy"].notna().sum() == 4
    assert found[0].to_pandas()["accuracy"][0] == found[0]["accuracy"]
    lines = str(found).splitlines()
    assert lines[0] == f"{model.source} on 8 tasks" and lines[1].split()[0] == "task"
    assert len(lines) >= 10 and "<script" not in found._repr_html_()
    assert found.to_markdown().count("\n") == 3 + 8 and found[-2:] == found.tasks[-2:]
    with pytest.raises(UnknownNameError, match=r"no measure 'acuracy'; did you mean accuracy"):
        found[0]["acuracy"]


def test_parquet_and_frames(model: RobertaHubInterface, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame({"text": ["A dog.", "Goal!", None], "label": ["art", None, "art"]})
    frame.to_parquet(tmp_path / "rows.parquet")
    found: Any = evaluate(model, tmp_path / "rows.parquet")
    assert found.rows == 1
    assert found.notes == ("left out: 1 row without a label, 1 row without a text",)
    assert evaluate(model, frame).numbers == found.numbers


def test_numbers_are_labels_where_a_head_has_such_names(tmp_path: Path) -> None:
    roberta = small_roberta(heads={"same": 2}, labels={"same": ("0", "1")})
    table = {"sentence1": ["a", "b"], "sentence2": ["c", "d"], "label": [0, 1]}
    assert evaluate(roberta, table).kind == "labels"
    assert evaluate(roberta, table, kind="scores").kind == "scores"
    table["label"] = [0.5, 1]
    assert evaluate(roberta, table).kind == "scores"
    single = {"text": ["a", "b"], "label": [0, 2]}
    with pytest.raises(InputError, match=r"labels that head 'same' does not know: '2' \(1\)"):
        evaluate(roberta, single)
    with pytest.raises(InputError, match=r"single texts, and vectors are compared in pairs"):
        evaluate(roberta, single, kind="scores")


def test_labels_that_a_task_writes_otherwise(model: RobertaHubInterface, tmp_path: Path) -> None:
    whole = evaluate(model, {"text": ["a", "b"], "label": ["art", "war"]})
    table = {"text": ["a", "b"], "label": [0, 2]}
    with pytest.raises(
        InputError,
        match=r"'0' \(1\), '2' \(1\); it knows 'art', 'sport', 'war'; labels=\{'its label'",
    ):
        evaluate(model, table)
    names = {"0": "art", "2": "war"}
    assert evaluate(model, table, labels=names).numbers == whole.numbers
    words, _ = conll(tmp_path / "x.conll")
    text = (tmp_path / "x.conll").read_text().replace("-PER", "-person")
    (tmp_path / "y.conll").write_text(text)
    with pytest.raises(InputError, match=r"spans with labels .* does not know: 'person' \(\d+\); "):
        evaluate(model, tmp_path / "y.conll")
    mapped = evaluate(model, tmp_path / "y.conll", labels={"person": "PER"})
    assert mapped.numbers == evaluate(model, tmp_path / "x.conll").numbers and words


UNKNOWN = {
    "notes.txt": "Some text.\nAnd more.\n",
    "model.bin": "\0\1",
    "empty.txt": "",
    "page.html": "<p>one two</p>\n",
}


def test_integer_labels_of_pairs_are_mapped_and_not_measured_as_scores() -> None:
    """SNLI's numbers, whose -1 nobody labelled."""
    names = ("contradiction", "neutral", "entailment")
    roberta = small_roberta(heads={"mnli": 3}, labels={"mnli": names})
    table = {
        "premise": ["A dog ran.", "It rains.", "Goal!"],
        "hypothesis": ["An animal moved.", "It is dry.", "He scored."],
        "label": [0, 2, 1],
    }
    labels = {"0": "entailment", "1": "neutral", "2": "contradiction"}
    said = {**table, "label": [labels[str(number)] for number in table["label"]]}
    found: Any = evaluate(roberta, table, labels=labels)
    assert found.kind == "labels" and found.numbers == evaluate(roberta, said).numbers
    odd = {**table, "label": [0, -1, 1]}
    with pytest.raises(
        InputError, match=r"does not know: '-1' \(1\); .*; -1 mostly means that nob"
    ):
        evaluate(roberta, odd, labels=labels)
    kept = [{name: odd[name][i] for name in odd} for i in (0, 2)]
    assert evaluate(roberta, kept, labels=labels).kind == "labels"
    assert evaluate(roberta, odd).kind == "scores"  # as the guide says of pairs with numbers
    with pytest.raises(InputError, match="labels means nothing to a task of the kind 'scores'"):
        evaluate(roberta, table, labels=labels, kind="scores")


@pytest.mark.parametrize(
    "form", ["list", "columns", "pandas", "nested", "csv", "jsonl", "datasets"]
)
def test_questions_in_memory_are_measured_as_those_of_a_file(
    model: RobertaHubInterface, tmp_path: Path, form: str
) -> None:
    questions = squad(tmp_path / "dev.json", [["London"], ["1843", "in 1843"], ["Ada"]])
    wanted: Any = evaluate(model, tmp_path / "dev.json")
    rows = rows_of(questions)
    task: Any = rows
    if form == "columns":
        task = {name: [row[name] for row in rows] for name in rows[0]}
    elif form in ("pandas", "nested"):
        pandas = pytest.importorskip("pandas")
        task = pandas.DataFrame(rows)
        if form == "nested":  # as Parquet comes back
            numpy = pytest.importorskip("numpy")
            task["answers"] = [
                {name: numpy.array(own) for name, own in cell.items()} for cell in task["answers"]
            ]
    elif form == "datasets":
        task = pytest.importorskip("datasets").Dataset.from_list(rows)
    elif form in ("jsonl", "csv"):
        task = write_jsonl(tmp_path / "q.jsonl", rows)
    if form == "csv":
        task = tmp_path / "q.csv"
        wanted = evaluate(
            model,
            write_jsonl(
                tmp_path / "one.jsonl",
                [{**row, "answers": row["answers"]["text"][0]} for row in rows],
            ),
        )
        with open(task, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["question", "context", "answers"])
            writer.writerows(
                [row["question"], row["context"], row["answers"]["text"][0]] for row in rows
            )
    found: Any = evaluate(model, task)
    assert (found.kind, found.numbers, found.rows) == ("answers", wanted.numbers, 3)
    assert evaluate(model, task, kind="answers").numbers == wanted.numbers  # type: ignore[union-attr]


def test_questions_that_cannot_be_read(model: RobertaHubInterface) -> None:
    row = {"question": "Who?", "context": "Ada wrote.", "answers": "Bob"}
    with pytest.raises(InputError, match=r"task:1: answer 'Bob' does not stand at character -1"):
        evaluate(model, [row])
    with pytest.raises(InputError, match=r"task:1: nothing in the column 'answers'"):
        evaluate(model, [{**row, "answers": None}])
    with pytest.raises(UnknownNameError, match=r"task has no column 'question'"):
        evaluate(model, [{"text": "Who?"}], kind="answers")
    unanswerable: Any = evaluate(model, [row | {"answers": "Ada"}, row | {"answers": ""}])
    assert unanswerable.how.endswith("SQuAD 2.0")


@pytest.mark.parametrize("name", UNKNOWN)
def test_an_unknown_shape(model: RobertaHubInterface, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(UNKNOWN[name])
    with pytest.raises(InputError, match=rf"{name} is of no shape that is read: give a table"):
        evaluate(model, tmp_path / name)


@pytest.mark.system
def test_refused(model: RobertaHubInterface, tmp_path: Path) -> None:
    tiny = roberta_hub.load_model("roberta.tiny")
    squad(tmp_path / "dev.json", [["London"]])
    (tmp_path / "rows.csv").write_text(ROWS)
    conll(tmp_path / "x.conll")
    (tmp_path / "pairs.csv").write_text(PAIRS)
    write_jsonl(tmp_path / "pairs.jsonl", MINIMAL)
    (tmp_path / "folder").mkdir()
    (tmp_path / "list.json").write_text("[1, 2]")
    write_jsonl(tmp_path / "two/a.jsonl", MINIMAL)
    write_jsonl(tmp_path / "two/b.jsonl", [{"text": "a"}])
    write_jsonl(tmp_path / "odd.jsonl", [{"text": "Ada.", "spans": [[0, 99, "PER"]]}])
    write_jsonl(tmp_path / "mixed.jsonl", [{"tokens": ["a", "b"], "ner_tags": ["O"]}])
    write_jsonl(tmp_path / "numbers.jsonl", [{"tokens": ["a"], "ner_tags": [3]}])
    for roberta, task, more, said in (
        (tiny, "dev.json", {}, r"evaluate needs a span head, and this model has mnli .*load a mod"),
        (tiny, "x.conll", {}, r"evaluate needs a token head, and this model has mnli"),
        (model, "rows.csv", {"head": "squad"}, r"'squad' is for answer"),
        (model, "rows.csv", {"head": "stars"}, r"holds 'art', which is no number"),
        (model, "rows.csv", {"head": "stars", "kind": "labels"}, r"kind='scores' correlates"),
        (model, "rows.csv", {"kind": "search"}, r"is of no shape|no task of the kind 'search'"),
        (model, "rows.csv", {"kind": "minimal_pairs"}, r"has no columns sentence_good and"),
        (model, "rows.csv", {"text": "txet"}, r"no column 'txet'"),
        (model, "rows.csv", {"kind": "lables"}, r"kind is 'lables'; choose None, 'labels'"),
        (model, "folder", {}, r"folder is of no shape"),
        (model, "two", {}, r"two is of no shape"),
        (model, "folder", {"kind": "search"}, r"has no judgements"),
        (model, "list.json", {}, r"list.json is of no shape"),
        (model, "nothing.csv", {}, r"no such file"),
        (
            model,
            "rows.csv",
            {"split": "dev"},
            r"split means nothing to a task of the kind 'labels'",
        ),
        (
            model,
            "pairs.jsonl",
            {"head": "topic"},
            r"head means nothing .* 'minimal_pairs'; leave h",
        ),
        (model, "dev.json", {"labels": {"a": "b"}}, r"labels means nothing .* 'answers'"),
        (model, "x.conll", {"text": "word"}, r"x.conll has no column 'word'.* 1 \('"),
        (model, "pairs.csv", {"head": "topic", "kind": "scores"}, r"head 'topic' gives labels; s"),
        (model, "odd.jsonl", {}, r"odd.jsonl:1: a span .*\[0, 99, 'PER'\]"),
        (model, "mixed.jsonl", {}, r"mixed.jsonl:1: tokens and ner_tags are no lists of as many"),
        (model, "numbers.jsonl", {}, r"numbers.jsonl:1: 3 is no str; words and names of tags"),
    ):
        with pytest.raises((InputError, UnknownNameError), match=said):
            evaluate(roberta, tmp_path / task, **more)
    both = [tmp_path / "rows.csv", tmp_path / "pairs.jsonl"]  # each takes what it understands
    assert len(evaluate(model, both, head="topic")) == 2  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"an empty list; give a table"):
        evaluate(model, [])
    with pytest.raises(InputTypeError, match=r"labels is \['a'\]; give a dict"):
        evaluate(model, {"text": ["a"], "label": ["art"]}, labels=["a"])  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"no rows to judge; left out: 2 rows without a label"):
        evaluate(model, {"text": ["a", "b"], "label": [None, None]}, text="text", label="label")
    with pytest.raises(InputError, match=r"task:2: too long: 403 tokens > 64 .*truncate=True"):
        evaluate(model, {"text": ["a", "word " * 400], "label": ["art", "art"]})


def test_a_broken_row_is_an_error_and_not_left_out(
    model: RobertaHubInterface, tmp_path: Path
) -> None:
    (tmp_path / "rows.csv").write_text(ROWS + '"never closed,art\n')
    with pytest.raises(InputError, match=r"rows.csv:5"):
        evaluate(model, tmp_path / "rows.csv")
    (tmp_path / "rows.jsonl").write_text('{"text": 5, "label": "art"}\n{"text": "a b c"}\n')
    with pytest.raises(InputError, match=r"rows.jsonl:1: the column 'text' holds 5"):
        evaluate(model, tmp_path / "rows.jsonl", text="text", label="label")


def test_names_from_outside_stay_text(model: RobertaHubInterface) -> None:
    column = "<script>|`a`\x1b[31m"
    found: Any = evaluate(
        model, {column: ["a", "b"], "right": ["art", "war"]}, text=column, label="right"
    )
    assert "<script" not in found._repr_html_() and "\x1b" not in found._repr_html_()
    line = found.to_markdown().splitlines()[2]
    assert line.startswith("``asked: ") and line.endswith("``") and "\x1b" not in line


def test_a_damaged_model_is_not_measured(model: RobertaHubInterface, tmp_path: Path) -> None:
    """It would have an accuracy or F1 of 0, as a model that knows nothing."""
    broken = copied(model)
    with torch.no_grad():
        broken.model.encoder.sentence_encoder.layers[0].fc2.bias[0] = torch.nan
    with pytest.raises(InputError, match=r"layers.0.fc2.bias holds NaN or infinity; it is damag"):
        evaluate(broken, {"text": ["a"], "label": ["art"]})
    with torch.no_grad():  # finite, and too large for what it makes
        broken.model.encoder.sentence_encoder.layers[0].fc2.bias.fill_(3e38)
    squad(tmp_path / "dev.json", [["London"]])
    for task in (
        {"text": ["a", "b"], "label": ["art", "war"]},
        {"sentence1": ["a", "b"], "sentence2": ["c", "d"], "score": [1.5, 2]},
        {"good": ["a b"], "bad": ["b a"]},
        tmp_path / "dev.json",
    ):
        with pytest.raises(InputError, match=r"answers with nan, which cannot be measured"):
            evaluate(broken, task)


def test_words_that_are_cut_off_are_counted(model: RobertaHubInterface, tmp_path: Path) -> None:
    words = "".join(f"word{i} O\n" for i in range(80)) + "\nAda B-PER\nsings O\n"
    (tmp_path / "long.conll").write_text(words)
    with pytest.raises(InputError, match=r"long.conll:1: too long"):
        evaluate(model, tmp_path / "long.conll")
    (note,) = evaluate(model, tmp_path / "long.conll", truncate=True).notes  # type: ignore[union-attr]
    assert note.startswith("words that were cut off") and 40 < int(note.rpartition(": ")[2]) < 80


def test_long_texts_by_windows(model: RobertaHubInterface) -> None:
    table = {"text": ["a", "word " * 400], "label": ["art", "art"]}
    assert isinstance(evaluate(model, table, stride=8), Evaluation)
    cut = evaluate(model, table, truncate=True)
    assert cut.rows == 2


def test_a_model_by_its_path(model: RobertaHubInterface, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    table = {"text": ["a", "b"], "label": ["art", "war"]}
    found = evaluate(tmp_path / "model", table)
    assert found.model == str(tmp_path / "model")
    assert found.numbers == pytest.approx(evaluate(model, table).numbers)

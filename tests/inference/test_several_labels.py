"""A head answers as it learnt: one label, any of them, or a number; every way to ask shows it."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from shell.running import Run, runner
from small_models import randomise, small_roberta

from roberta_hub import RobertaHubInterface, load_model
from roberta_hub.errors import InputError, InputTypeError

TAGS = ("art", "news", "sport", "on, off")
THRESHOLDS = (0.5, 0.05, 0.95, 0.3)
TEXTS = ["Hello world!", "", "A longer sentence, with more words than others.", "can’t 🙂"]
LONG = " ".join(f"word {i} of many;" for i in range(20))


@pytest.fixture(scope="module")
def made() -> RobertaHubInterface:
    roberta = small_roberta(num_layers=2, dropout=0.0)
    for pooling in ("cls", "mean"):
        roberta.register_classification_head(
            pooling, labels=TAGS, pooling=pooling, kind="multi_label"
        )
    roberta.register_classification_head("topic", labels=TAGS)
    roberta.register_classification_head("grades", num_classes=2, kind="regression")
    randomise(roberta.model.classification_heads, 3, 0.7)
    roberta.thresholds["mean"] = THRESHOLDS
    roberta.default_head = "mean"
    return roberta.eval()


@pytest.fixture
def roberta(made: RobertaHubInterface) -> RobertaHubInterface:
    made.kinds.pop("topic", None)
    made.thresholds = {"mean": THRESHOLDS}
    return made


def probabilities(roberta: RobertaHubInterface, head: str, text: str) -> dict[str, float]:
    with torch.no_grad():
        logits = roberta.predict(head, roberta.encode(text), return_logits=True)[0]
    return dict(zip(roberta.head_labels(head), logits.sigmoid().tolist(), strict=True))


@pytest.mark.parametrize("head", ["cls", "mean"])
def test_a_head_of_several_labels_gives_those_over_their_thresholds(
    roberta: RobertaHubInterface, head: str
) -> None:
    least = dict(zip(TAGS, THRESHOLDS if head == "mean" else [0.5] * 4, strict=True))
    counts = set()
    for text, found in zip(TEXTS, roberta.classify(TEXTS, head), strict=True):
        wanted = probabilities(roberta, head, text)
        assert dict(found.scores) == pytest.approx(wanted, abs=1e-5)
        assert found.labels == tuple(n for n, p in found.scores.items() if p >= least[n])
        assert found.label == max(wanted, key=wanted.__getitem__)
        alone = roberta.classify(text, head)
        assert alone.labels == found.labels
        assert dict(alone.scores) == pytest.approx(dict(found.scores), abs=1e-5)
        assert roberta.classify(text, head, multi_label=True) == alone
        counts.add(found.labels)
    assert len(counts) > 1


def test_a_threshold_is_reached_at_its_own_value(roberta: RobertaHubInterface) -> None:
    scores = roberta.classify(TEXTS[0]).scores
    roberta.thresholds["mean"] = tuple(scores[label] for label in TAGS)
    assert roberta.classify(TEXTS[0]).labels == tuple(scores)
    roberta.thresholds["mean"] = tuple(min(1.0, scores[label] + 1e-6) for label in TAGS)
    none = roberta.classify(TEXTS[0])
    assert none.labels == () and none.label == next(iter(scores))


def test_the_caller_decides_where_he_says_it(roberta: RobertaHubInterface) -> None:
    one = roberta.classify(TEXTS[0], multi_label=False)
    assert one.labels is None and sum(one.scores.values()) == pytest.approx(1)
    many = roberta.classify(TEXTS[0], "topic", multi_label=True)
    assert dict(many.scores) == pytest.approx(probabilities(roberta, "topic", TEXTS[0]), abs=1e-5)
    assert many.labels == tuple(label for label, p in many.scores.items() if p >= 0.5)
    unknown = roberta.classify(TEXTS[0], "topic")
    roberta.kinds["topic"] = "single_label"
    assert roberta.classify(TEXTS[0], "topic") == unknown and unknown.labels is None
    for value in ("yes", 2, "None"):
        with pytest.raises(InputTypeError, match="multi_label is"):
            roberta.classify(TEXTS[0], multi_label=value)  # type: ignore[call-overload]


def test_numbers_stay_numbers(roberta: RobertaHubInterface) -> None:
    with torch.no_grad():
        wanted = roberta.predict("grades", roberta.encode(TEXTS[0]), return_logits=True)[0]
    found = roberta.classify(TEXTS[0], "grades")
    assert [found.scores["0"], found.scores["1"]] == pytest.approx(wanted.tolist(), abs=1e-5)
    whole = roberta.classify(TEXTS[0], "grades", multi_label=False)
    assert sum(whole.scores.values()) == pytest.approx(1)


def test_predict_gives_log_probabilities_of_what_the_head_learnt(
    roberta: RobertaHubInterface,
) -> None:
    ids = roberta.encode(TEXTS[0])
    logits = roberta.predict("mean", ids, return_logits=True)
    assert torch.equal(roberta.predict("mean", ids), torch.nn.functional.logsigmoid(logits))
    logits = roberta.predict("topic", ids, return_logits=True)
    assert torch.equal(roberta.predict("topic", ids), logits.log_softmax(-1))


def test_windows_average_their_logits(roberta: RobertaHubInterface) -> None:
    found = roberta.classify(LONG, stride=6)
    assert found == roberta.classify(LONG, stride=6, multi_label=True)
    assert found != roberta.classify(LONG, truncate=True)


@pytest.mark.parametrize(
    ("thresholds", "words"),
    [
        ((0.5,), r"1 thresholds \[0.5\] for 4 labels; give a list of 4 numbers from 0 to 1, one"),
        ((0.5, 0.5, 0.5, 1.1), r"head 'mean': threshold 1.1; give"),
        ((0.5, 0.5, 0.5, "x"), "threshold 'x'"),
        ({"art": 0.5}, "thresholds is {'art': 0.5}"),
        (None, None),
    ],
)
def test_thresholds_are_checked_when_they_are_used(
    roberta: RobertaHubInterface, thresholds: Any, words: str | None
) -> None:
    roberta.thresholds["mean"] = thresholds
    if words is None:
        assert roberta.classify(TEXTS[0]).labels is not None
        return
    for ask in (
        lambda: roberta.classify(TEXTS[0]),
        lambda: roberta.explain(TEXTS[0], "mean"),
    ):
        with pytest.raises(InputError, match=words):
            ask()


def test_kinds_are_checked_when_they_are_used(roberta: RobertaHubInterface) -> None:
    roberta.kinds["topic"] = "multilabel"  # type: ignore[assignment]
    with pytest.raises(InputError, match=r"head 'topic': kind is 'multilabel'; choose 'single_la"):
        roberta.classify(TEXTS[0], "topic")


def test_zero_shot_gives_the_labels_that_are_more_probable_than_not() -> None:
    nli = ("contradiction", "neutral", "entailment")
    roberta = small_roberta(heads={"nli": 3}, labels={"nli": nli}, num_layers=2)
    found = roberta.zero_shot(TEXTS, ["fun", "war", "art"], multi_label=True)
    for one in found:
        assert one.labels == tuple(label for label, p in one.scores.items() if p >= 0.5)
    assert roberta.zero_shot(TEXTS[0], ["fun", "war"]).labels is None


# ---- what people see ----


def test_the_bars_mark_the_labels(roberta: RobertaHubInterface) -> None:
    found = roberta.classify(TEXTS[0])
    assert found.labels and len(found.labels) < 4
    lines = str(found._display()).splitlines()
    assert lines[0] == str(found)
    for name, score in found.scores.items():
        (line,) = [line for line in lines[1:] if name in line]
        assert line.endswith("yes") == (name in found.labels) and f"{score:.2f}" in line
    marked = found._repr_html_().count("yes")
    assert marked == len(found.labels)
    several: Any = roberta.classify([TEXTS[0]] * 2)
    assert several._repr_html_().count("yes") == 2 * len(found.labels)


def test_explain_shows_the_fall_of_a_labels_own_probability(roberta: RobertaHubInterface) -> None:
    shown = roberta.explain(TEXTS[0], "mean").to_dict()
    assert shown["labels"] == list(roberta.classify(TEXTS[0]).labels or ())
    without = probabilities(roberta, "mean", "Hello world")[shown["label"]]
    last = shown["words"][-1]
    assert (last["word"], last["contribution"]) == ("!", pytest.approx(shown["score"] - without))


def test_the_card_says_it(roberta: RobertaHubInterface) -> None:
    card = str(roberta)
    assert "mean (art, news, sport, on, off; any of them, mean pooling)" in card
    assert "topic (art, news, sport, on, off);" in card
    assert "grades (0, 1; a number)" in card


# ---- the command, tables and lakes ----


@pytest.fixture(scope="module")
def folder(made: RobertaHubInterface, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made.thresholds = {"mean": THRESHOLDS}
    made.kinds.pop("topic", None)
    target = tmp_path_factory.mktemp("several") / "model"
    made.save(target)
    return target


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    monkeypatch.chdir(tmp_path)
    return runner(monkeypatch, capsys)


def lines_of(run: Run, *arguments: object) -> list[dict[str, Any]]:
    status, out, err = run("classify", *arguments, "-f", "jsonl")
    assert (status, err) == (0, "")
    return [json.loads(line) for line in out.splitlines()]


def test_the_command_answers_as_the_head_learnt(
    run: Run, folder: Path, roberta: RobertaHubInterface
) -> None:
    texts = [text for text in TEXTS if text]  # the shell notes an empty one
    found = lines_of(run, "-m", folder, *texts)
    for answer, wanted in zip(found, roberta.classify(texts), strict=True):
        assert list(answer) == ["text", "label", "score", "scores", "labels"]
        assert tuple(answer["labels"]) == wanted.labels
    (one,) = lines_of(run, "-m", folder, "--single-label", TEXTS[0])
    assert "labels" not in one and sum(one["scores"].values()) == pytest.approx(1)
    (other,) = lines_of(run, "-m", folder, "--head", "topic", TEXTS[0])
    assert list(other) == ["text", "label", "score", "scores"]
    (both,) = lines_of(run, "-m", folder, "--head", "topic", "--multi-label", TEXTS[0])
    assert set(both["labels"]) <= set(TAGS)


def test_tables_have_a_cell_of_labels(
    run: Run, folder: Path, roberta: RobertaHubInterface, tmp_path: Path
) -> None:
    wanted = [found.labels or () for found in roberta.classify(TEXTS)]
    for format, mark in (("csv", ","), ("tsv", "\t")):
        status, out, _ = run("classify", "-m", folder, *TEXTS, "-f", format)
        rows = list(csv.DictReader(out.splitlines(), delimiter=mark))
        assert status == 0 and [row["labels"] for row in rows] == [", ".join(w) for w in wanted]
    status, out, _ = run("classify", "-m", folder, TEXTS[0], "-f", "table")
    for name in TAGS:
        (line,) = [line for line in out.splitlines() if line.strip().startswith(name)]
        assert line.endswith("yes") == (name in wanted[0])
    Path("in.csv").write_text("text\n" + "\n".join(text.replace(",", "") for text in TEXTS[:1]))
    status, out, _ = run("classify", "-m", folder, "-i", "in.csv", "-f", "table")
    assert status == 0 and ", ".join(wanted[0])[:10] in out.splitlines()[1]
    table = pytest.importorskip("pyarrow.parquet")
    assert run("classify", "-m", folder, *TEXTS, "-o", "out.parquet")[0] == 0
    found = table.read_table("out.parquet")["labels"].to_pylist()
    assert found == [list(w) for w in wanted]


def test_a_first_answer_without_labels_keeps_the_columns_type(
    run: Run, folder: Path, roberta: RobertaHubInterface, tmp_path: Path
) -> None:
    table = pytest.importorskip("pyarrow.parquet")
    roberta.thresholds["mean"] = (1.0, 1.0, 1.0, 1.0)
    roberta.save(tmp_path / "strict")
    assert run("classify", "-m", tmp_path / "strict", *TEXTS, "-o", "none.parquet")[0] == 0
    found = table.read_table("none.parquet")
    assert found["labels"].to_pylist() == [[]] * 4
    assert str(found.schema.field("labels").type.value_type) == "string"


def test_lakes_have_a_column_of_labels(folder: Path, roberta: RobertaHubInterface) -> None:
    pytest.importorskip("pyarrow")
    from roberta_hub.scale import Verb

    wanted = [list(found.labels or ()) for found in roberta.classify(TEXTS)]
    verb = Verb("classify", str(folder), errors="column")
    found = verb({"text": [*TEXTS, None]})
    assert list(found["labels"]) == [*wanted, None]
    assert str(verb.schema().field("labels").type.value_type) == "string"
    assert "labels" not in verb.replace(multi_label=False).schema().names
    assert "labels" not in verb.replace(head="topic").schema().names


@pytest.mark.system
def test_an_export_says_it_beside_the_file(folder: Path, tmp_path: Path) -> None:
    roberta = load_model(folder).eval()
    done = roberta.export(tmp_path / "out", "torch", head="mean")
    assert done.difference is not None and done.difference < 1e-4
    about = json.loads((tmp_path / "out/config.json").read_text())
    assert about["problem_type"] == "multi_label_classification"
    assert about["roberta_hub_thresholds"] == list(THRESHOLDS)
    assert list(about["id2label"].values()) == list(TAGS)
    program = torch.export.load(tmp_path / "out/model.pt2").module()
    ids = roberta.encode(TEXTS[0]).unsqueeze(0)
    (logits,) = program(ids, torch.ones_like(ids))
    scores = roberta.classify(TEXTS[0]).scores
    assert logits[0].sigmoid().tolist() == pytest.approx([scores[t] for t in TAGS], abs=1e-5)
    done = roberta.export(tmp_path / "topic", "torch", head="topic", check=False)
    about = json.loads((tmp_path / "topic/config.json").read_text())
    assert not {"problem_type", "roberta_hub_thresholds"} & set(about)

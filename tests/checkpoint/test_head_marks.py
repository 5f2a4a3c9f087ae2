"""Files say of a head whether it is the model's own, its inputs, its name and its labels."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import forks
import pytest
import torch
from checkpoints import IDS, assert_refused, edit_json, fairseq_file, fairseq_state, outputs, small

from roberta_hub import RobertaHubInterface, load_model
from roberta_hub.checkpoint.fetch.catalogue import apply_head_names, find_record
from roberta_hub.checkpoint.fetch.records import MODELS
from roberta_hub.checkpoint.names.table import HEAD
from roberta_hub.errors import InputError
from roberta_hub.folder import Folder
from roberta_hub.formats.huggingface import read_huggingface

FORMATS = ("roberta_hub", "fairseq")
NLI = ("contradiction", "neutral", "entailment")
ODD = ("mnli_", "_cls", "my head", "настроение", "主题", "می\u200cخواهم", "ü", "a/b", "x" * 100)
"""Names that fairseq takes."""


def marked() -> RobertaHubInterface:
    roberta = small({"mnli": NLI, "mood": ("bad", "good")})
    roberta.default_head = "mood"
    roberta.inputs = {"mnli": "pair", "mood": "one"}
    return roberta


@pytest.mark.parametrize("format", FORMATS)
def test_own_head_and_inputs_come_back(tmp_path: Path, format: Any) -> None:
    marked().save(tmp_path, format)
    again = load_model(tmp_path).eval()
    assert again.default_head == "mood"
    assert again.inputs == {"mnli": "pair", "mood": "one"}
    assert set(again.classify(["a"])[0].scores) == {"bad", "good"}
    twice = load_model(tmp_path)  # from its twin
    assert (twice.default_head, twice.inputs) == (again.default_head, again.inputs)


@pytest.mark.parametrize("format", FORMATS)
def test_heads_that_are_gone_are_not_written(tmp_path: Path, format: Any) -> None:
    roberta = marked()
    del roberta.model.classification_heads["mood"]
    roberta.save(tmp_path, format)
    again = load_model(tmp_path)
    assert (again.default_head, again.inputs) == (None, {"mnli": "pair"})


@pytest.mark.parametrize(("head", "inputs"), [("mnli", "pair"), ("mood", "one")])
def test_hugging_face_holds_one_head_and_its_mark(tmp_path: Path, head: str, inputs: Any) -> None:
    marked().save(tmp_path, "huggingface", head=head)
    again = load_model(tmp_path).eval()
    assert again.inputs == {HEAD: inputs}
    wrong = ["a"] if inputs == "pair" else [("a", "b")]
    with pytest.raises(InputError, match=r"texts\[0\]: a"):
        again.classify(wrong)


def test_transformers_keeps_the_mark_and_does_not_mind_it(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    marked().save(tmp_path / "ours", "huggingface", head="mood")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        theirs = transformers.RobertaForSequenceClassification.from_pretrained(tmp_path / "ours")
    theirs.save_pretrained(tmp_path / "theirs")
    (tmp_path / "theirs/vocab.json").write_bytes((tmp_path / "ours/vocab.json").read_bytes())
    (tmp_path / "theirs/merges.txt").write_bytes((tmp_path / "ours/merges.txt").read_bytes())
    assert load_model(tmp_path / "theirs").inputs == {HEAD: "one"}


@pytest.mark.parametrize("format", FORMATS)
def test_an_older_version_reads_what_we_write(tmp_path: Path, format: Any) -> None:
    """config.json has the version that 0.1.0 reads, and all that it looks for."""
    marked().save(tmp_path, format)
    if format == "roberta_hub":
        about = json.loads((tmp_path / "config.json").read_text())
        assert about["version"] == 1
        assert {"model", "labels", "task", "init_token"} < set(about)
        for key in ("own_head", "inputs"):  # and we read files without them, as it wrote them
            about.pop(key)
        (tmp_path / "config.json").write_text(json.dumps(about))
    else:
        state = torch.load(tmp_path / "model.pt")  # weights_only
        for key in ("roberta_hub_own_head", "roberta_hub_inputs"):
            state.pop(key)
        torch.save(state, tmp_path / "model.pt")
    again = load_model(tmp_path)
    assert (again.default_head, again.inputs) == (None, {})
    assert again.head_labels("mood") == ("bad", "good")


@pytest.mark.parametrize(
    "change",
    [
        {"own_head": 5},
        {"own_head": ["mood"]},
        {"inputs": None},
        {"inputs": "pair"},
        {"inputs": [["mood", "one"], 3]},
        {"inputs": {"mood": "two"}},
        {"inputs": {"mood": ["one"]}},
        {"inputs": {"mood": None}},
    ],
    ids=str,
)
def test_our_own_config_damaged(tmp_path: Path, change: dict[str, Any]) -> None:
    marked().save(tmp_path)
    edit_json(tmp_path / "config.json", **change)
    assert_refused(tmp_path, "config.json")


@pytest.mark.parametrize("value", [5, "pair", {"mood": "two"}, [["mood", "one"]], {"mood": [1]}])
def test_a_strangers_marks_are_read_or_left(tmp_path: Path, value: Any) -> None:
    state = fairseq_state(small({"mood": ("bad", "good")}))
    state["roberta_hub_inputs"] = state["roberta_hub_own_head"] = value
    roberta = load_model(fairseq_file(tmp_path / "fairseq", state))
    assert roberta.inputs == {}
    assert set(roberta.classify(["a"])[0].scores) == {"0", "1"}
    small({"mood": ("bad", "good")}).save(tmp_path / "hf", "huggingface")
    edit_json(tmp_path / "hf/config.json", roberta_hub_inputs=value)
    found = load_model(tmp_path / "hf").inputs
    assert found == ({HEAD: "pair"} if value == "pair" else {})


# ---- the catalogue ----


def test_records_state_theirs() -> None:
    stated = {record.name: (record.default_head, dict(record.inputs)) for record in MODELS}
    learnt_with = {"bert": {"nsp": "pair"}, "albert": {"sop": "pair"}, "spanbert": {}}
    for name in [name for name in stated if name.partition(".")[0] in learnt_with]:
        assert stated.pop(name) == (None, learnt_with[name.partition(".")[0]])
    assert {name: found for name, found in stated.items() if found != (None, {})} == {
        "roberta.large.mnli": ("mnli", {"mnli": "pair"}),
        "roberta.tiny": ("mnli", {"mnli": "pair"}),
    }
    for record in MODELS:
        if record.name in stated:  # the others' heads are those that they learnt with
            assert (record.default_head is None) == (not record.labels)
        assert set(record.inputs) == set(record.labels)


@pytest.mark.parametrize("pretrained", [True, False])
def test_a_named_model_knows_them(pretrained: bool) -> None:
    tiny = load_model("roberta.tiny", pretrained=pretrained).eval()
    assert (tiny.default_head, tiny.inputs) == ("mnli", {"mnli": "pair"})
    with pytest.raises(InputError, match="zero_shot"):
        tiny.classify(["A dull film."])
    assert tiny.zero_shot(["A dull film."], ["fun", "boredom"])[0].label in ("fun", "boredom")


def test_the_second_source_too(tmp_path: Path) -> None:
    roberta = small({"x": tuple(label.upper() for label in NLI)})
    roberta.inputs = {"x": "pair"}
    roberta.save(tmp_path, "huggingface")
    checkpoint, record = read_huggingface(Folder(tmp_path)), find_record("roberta.large.mnli")
    assert record is not None
    apply_head_names(record, checkpoint)
    assert (checkpoint.default_head, checkpoint.known("mnli").inputs) == ("mnli", "pair")


# ---- names ----


@pytest.mark.system
@pytest.mark.parametrize("name", ODD)
def test_odd_names_are_good_names(tmp_path: Path, name: str) -> None:
    """A file of fairseq's, read, asked and saved in every format, and back."""
    roberta = small({name: ("bad", "good")})
    fairseq_file(tmp_path / "theirs", fairseq_state(roberta))
    roberta.save(tmp_path / "all", "fairseq")  # with its vocabulary and labels
    again = load_model(tmp_path / "theirs").eval()
    assert torch.equal(again.predict(name, IDS), roberta.predict(name, IDS))
    assert again.classify(["a"])[0].score == again.classify(["a"], head=name)[0].score
    for format in ("roberta_hub", "fairseq", "huggingface"):
        folder = tmp_path / format
        load_model(tmp_path / "all").save(folder, format)
        found = load_model(folder).eval()
        own = HEAD if format == "huggingface" else name
        assert list(found.model.classification_heads) == [own]
        assert found.head_labels(own) == ("bad", "good")
        for ours, wanted in zip(outputs(found, [own]), outputs(roberta, [name]), strict=True):
            torch.testing.assert_close(ours, wanted)
    roberta.register_token_head(f"{name[:90]} 2", 2)
    roberta.register_span_head(f"{name[:90]} 3")
    roberta.save(tmp_path / "three")
    assert load_model(tmp_path / "three").model.list_heads() == roberta.model.list_heads()


# ---- labels ----


def test_two_classes_of_one_label_stay_two(tmp_path: Path) -> None:
    """In Hugging Face's table, in ours, and in fairseq's file: the probabilities add up to 1."""
    roberta = small({"mood": ("good", "bad", "so-so")})
    for format in ("huggingface", "roberta_hub"):
        roberta.save(tmp_path / format, format)
    table = {"0": "good", "1": "bad", "2": "good"}
    edit_json(tmp_path / "huggingface/config.json", id2label=table)
    edit_json(tmp_path / "roberta_hub/config.json", labels={"mood": list(table.values())})
    state = fairseq_state(roberta)
    state["roberta_hub_labels"] = {"mood": list(table.values())}
    fairseq_file(tmp_path / "fairseq", state)
    for format in ("huggingface", "roberta_hub", "fairseq"):
        with pytest.warns(UserWarning, match=r"several classes of head .* the label 'good'"):
            found = load_model(tmp_path / format).eval()
        (answer,) = found.classify(["a"])
        assert set(answer.scores) == {"good (0)", "bad", "good (2)"}
        assert sum(answer.scores.values()) == pytest.approx(1)


def test_names_that_numbers_do_not_tell_apart(tmp_path: Path) -> None:
    small({"mood": ("a", "b", "c")}).save(tmp_path, "huggingface")
    edit_json(tmp_path / "config.json", id2label={"0": "a", "1": "a", "2": "a (0)"})
    with pytest.warns(UserWarning, match="several classes"):
        assert load_model(tmp_path).head_labels(HEAD) == ("0", "1", "2")


def test_labels_of_a_token_head_too(tmp_path: Path) -> None:
    roberta = small()
    roberta.register_token_head("ner", labels=["O", "B-X", "I-X"])
    roberta.save(tmp_path, "huggingface")
    edit_json(tmp_path / "config.json", id2label={"0": "O", "1": "X", "2": "X"})
    with pytest.warns(UserWarning, match="several classes of head"):
        labels = load_model(tmp_path).head_labels("token_classification_head")
    assert labels == ("O", "X (1)", "X (2)")


def test_the_warning_names_the_callers_line(tmp_path: Path) -> None:
    small({"mood": ("a", "b")}).save(tmp_path)
    edit_json(tmp_path / "config.json", labels={"mood": ["a", "a"]})
    code = f"import roberta_hub; roberta_hub.load_model({str(tmp_path)!r})"
    run = forks.run("-c", code, check=True)
    assert "UserWarning" in run.stderr and str(tmp_path) in run.stderr

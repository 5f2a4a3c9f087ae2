"""Folders say what a head reads, what it learnt and its thresholds, or the save is refused."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoints import IDS, assert_refused, edit_json, fairseq_file, fairseq_state, small

from roberta_hub import RobertaHubInterface, load_model
from roberta_hub.checkpoint.names.table import HEAD
from roberta_hub.errors import Advice, CheckpointError, InputError, InputTypeError
from roberta_hub.scale.models import LoadedModel
from roberta_hub.settings import HeadSettings

TEXTS = ["the", "hehe the"]


def pooled() -> RobertaHubInterface:
    """A head of each kind; "tags" reads means and has thresholds, "grade" means of length 1."""
    roberta = small({"mood": ("bad", "good")})
    roberta.register_classification_head(
        "tags", labels=["art", "news", "sport"], pooling="mean", kind="multi_label"
    )
    roberta.register_classification_head(
        "grade", 1, pooling="mean", normalize=True, kind="regression"
    )
    roberta.thresholds["tags"] = (0.5, 0.25, 1.0)
    roberta.kinds["mood"] = "single_label"
    roberta.default_head = "tags"
    return roberta.eval()


def poolings(roberta: RobertaHubInterface) -> dict[str, str]:
    return {name: head.pooling for name, head in roberta.model.classification_heads.items()}


def test_our_own_format_holds_all_of_it(tmp_path: Path) -> None:
    roberta = pooled()
    roberta.save(tmp_path)
    again = load_model(tmp_path).eval()
    assert poolings(again) == {"mood": "cls", "tags": "mean", "grade": "mean"}
    heads = again.model.classification_heads
    assert [name for name, head in heads.items() if head.normalize] == ["grade"]
    assert again.kinds == {"mood": "single_label", "tags": "multi_label", "grade": "regression"}
    assert again.thresholds == {"tags": (0.5, 0.25, 1.0)}
    for head in poolings(roberta):
        assert torch.equal(again.predict(head, IDS, True), roberta.predict(head, IDS, True))
    assert [p.scores for p in again.classify(TEXTS)] == [p.scores for p in roberta.classify(TEXTS)]
    again.save(tmp_path / "twice")
    one, other = (tmp_path / "config.json", tmp_path / "twice/config.json")
    assert one.read_bytes() == other.read_bytes()


def test_a_model_without_any_of_it_is_written_as_before(tmp_path: Path) -> None:
    small({"mood": ("bad", "good")}).save(tmp_path)
    about = json.loads((tmp_path / "config.json").read_text())
    assert about["version"] == 1 and "heads" not in about
    again = load_model(tmp_path)
    assert (again.kinds, again.thresholds, poolings(again)) == ({}, {}, {"mood": "cls"})


def test_versions_that_know_no_means_refuse_the_folder_and_read_all_others(tmp_path: Path) -> None:
    pooled().save(tmp_path / "means")
    assert json.loads((tmp_path / "means/config.json").read_text())["version"] == 2
    known = small({"mood": ("bad", "good")})
    known.kinds["mood"], known.thresholds["mood"] = "multi_label", (0.1, 0.2)
    known.save(tmp_path / "known")
    about = json.loads((tmp_path / "known/config.json").read_text())
    assert about["version"] == 1
    assert about["heads"] == {"mood": {"kind": "multi_label", "thresholds": [0.1, 0.2]}}


def test_what_is_known_of_a_head_goes_with_it(tmp_path: Path) -> None:
    roberta = pooled()
    roberta.register_classification_head("tags", 2)
    assert "tags" not in roberta.kinds and "tags" not in roberta.thresholds
    del roberta.model.classification_heads["grade"]
    roberta.save(tmp_path)
    about = json.loads((tmp_path / "config.json").read_text())
    assert about["heads"] == {"mood": {"kind": "single_label"}} and about["version"] == 1
    roberta.register_token_head("mood2", 2)
    del roberta.model.classification_heads["mood"]
    roberta.register_token_head("mood", 2)  # of another kind, by the same name
    assert roberta.kinds == {"grade": "regression"}


@pytest.mark.parametrize(
    ("heads", "words"),
    [
        (5, "'int' object has no attribute 'items'"),
        ([], "'list' object has no attribute 'items'"),
        ({"tags": None}, r"head 'tags': None is no dict of pooling, normalize, kind, thresholds"),
        ({"tags": {"pool": "mean"}}, "is no dict of pooling, normalize, kind, thresholds"),
        ({"tags": {"pooling": "max"}}, r"pooling is 'max'; choose 'cls'.* or 'mean'"),
        ({"tags": {"pooling": None}}, "pooling is None"),
        ({"tags": {"normalize": 1}}, "normalize is 1; give True or False"),
        ({"tags": {"kind": "several"}}, "kind is 'several'; choose 'single_label'"),
        ({"tags": {"kind": ["multi_label"]}}, "kind is"),
        ({"tags": {"thresholds": 0.5}}, "thresholds is 0.5; give one number from 0 to 1"),
        ({"tags": {"thresholds": [0.5, 0.5, 1.5]}}, "threshold 1.5"),
        ({"tags": {"thresholds": [0.5, 0.5, None]}}, "threshold None"),
        ({"tags": {"thresholds": [0.5, True, 0.5]}}, "threshold True"),
        ({"tags": {"thresholds": [0.5, float("nan"), 0.5]}}, "threshold nan"),
        ({"tags": {"thresholds": [0.5, 0.5]}}, r"2 thresholds \[0.5, 0.5\] for 3 labels"),
    ],
    ids=str,
)
def test_a_damaged_config(tmp_path: Path, heads: Any, words: str) -> None:
    pooled().save(tmp_path)
    edit_json(tmp_path / "config.json", heads=heads)
    assert_refused(tmp_path, "config.json")
    with pytest.raises(CheckpointError, match=words):
        load_model(tmp_path)


def test_settings_of_a_head_that_is_not_there_are_left(tmp_path: Path) -> None:
    pooled().save(tmp_path)
    about = json.loads((tmp_path / "config.json").read_text())
    edit_json(tmp_path / "config.json", heads={**about["heads"], "gone": {"kind": "regression"}})
    load_model(tmp_path).save(tmp_path / "again")
    assert json.loads((tmp_path / "again/config.json").read_text())["heads"] == about["heads"]


@pytest.mark.parametrize("thresholds", [(0.5, 0.5), "0.5", {"art": 0.5}, (0.5, -1, 0.5), 0.5])
def test_thresholds_that_cannot_be_are_not_written(tmp_path: Path, thresholds: Any) -> None:
    roberta = pooled()
    roberta.thresholds["tags"] = thresholds
    for act in (lambda: roberta.save(tmp_path / "it"), lambda: roberta.classify("the")):
        with pytest.raises(InputError, match=r"head 'tags': .* give a list of 3 numbers"):
            act()
    assert not (tmp_path / "it").exists()


def test_the_constructor_takes_and_checks_them() -> None:
    roberta = pooled()
    parts = (roberta.cfg, roberta.task, roberta.model)

    def made(**settings: Any) -> RobertaHubInterface:
        given = {"tags": HeadSettings(**settings), "mood": HeadSettings()}
        return RobertaHubInterface(*parts, bpe=roberta.bpe, head_settings=given)

    own = made(kind="multi_label", thresholds=[0, 1, 0.5], words="parts")
    assert own.kinds == {"tags": "multi_label"} and own.thresholds == {"tags": (0.0, 1.0, 0.5)}
    assert own.word_rules == {"tags": "parts"}
    wrong = {"kind": "many", "thresholds": [2], "words": "half", "pooling": "max", "normalize": 0}
    said = ("kind is 'many'", "threshold 2", "words is 'half'", "pooling is 'max'", "normalize is")
    for (name, value), words in zip(wrong.items(), said, strict=True):
        with pytest.raises(InputError, match=f"head 'tags': {words}"):
            made(**{name: value})
    for given, words in (
        ([], "is a list; pass a dict"),
        ({"a": {}}, "'a': its settings are a dict"),
    ):
        with pytest.raises(InputTypeError, match=words):
            RobertaHubInterface(*parts, bpe=roberta.bpe, head_settings=given)  # type: ignore[arg-type]


# ---- other libraries' formats ----


def test_formats_whose_classes_read_the_first_token_refuse_means(tmp_path: Path) -> None:
    roberta = pooled()
    for format, head in (("fairseq", None), ("huggingface", "tags"), ("huggingface", "grade")):
        with pytest.raises(
            CheckpointError, match=r"mean of all tokens, and .* reads <s>"
        ) as caught:
            roberta.save(tmp_path / "it", format, head=head)
        assert str(caught.value).endswith('or make a head of <s> by fit(..., pooling="cls")')
        assert "--to roberta_hub" in caught.value.in_shell()
    assert not (tmp_path / "it").exists()


@pytest.mark.parametrize("format", ["fairseq", "huggingface"])
def test_they_refuse_vectors_of_length_1(tmp_path: Path, format: Any) -> None:
    roberta = small({"mood": ("bad", "good")})
    roberta.register_classification_head("mood", 2, normalize=True)
    with pytest.raises(CheckpointError, match=r"'mood' reads vectors of length 1, and .* reads"):
        roberta.save(tmp_path / "it", format)
    roberta.save(tmp_path / "ours")
    assert json.loads((tmp_path / "ours/config.json").read_text())["version"] == 2


def test_a_head_of_the_first_token_is_written_alone_where_one_is(tmp_path: Path) -> None:
    roberta = pooled()
    with pytest.raises(CheckpointError, match="head 'tags' reads the mean of all tokens"):
        roberta.save(tmp_path, "huggingface")  # its default
    roberta.default_head = None
    with pytest.raises(CheckpointError, match="holds one classifier and this one has 3"):
        roberta.save(tmp_path, "huggingface")
    roberta.save(tmp_path, "huggingface", head="mood")
    again = load_model(tmp_path).eval()
    assert torch.equal(again.predict(HEAD, IDS), roberta.predict("mood", IDS))
    for name in ("tags", "grade"):
        del roberta.model.classification_heads[name]
    roberta.save(tmp_path / "fairseq", "fairseq")
    again = load_model(tmp_path / "fairseq").eval()
    assert torch.equal(again.predict("mood", IDS), roberta.predict("mood", IDS))
    assert again.kinds == {"mood": "single_label"}


KINDS = {
    "single_label": "single_label_classification",
    "multi_label": "multi_label_classification",
    "regression": "regression",
}


@pytest.mark.parametrize("kind", KINDS)
def test_hugging_faces_problem_type(tmp_path: Path, kind: Any) -> None:
    roberta = small({"mood": ("bad", "good")})
    roberta.kinds["mood"] = kind
    roberta.save(tmp_path, "huggingface")
    assert json.loads((tmp_path / "config.json").read_text())["problem_type"] == KINDS[kind]
    again = load_model(tmp_path).eval()
    assert again.kinds == {HEAD: kind}
    assert again.classify(TEXTS, multi_label=True) == roberta.classify(TEXTS, multi_label=True)
    roberta.kinds.clear()
    roberta.save(tmp_path, "huggingface")
    assert "problem_type" not in json.loads((tmp_path / "config.json").read_text())
    edit_json(tmp_path / "config.json", problem_type=None)  # as transformers writes it
    assert load_model(tmp_path).kinds == {}


@pytest.mark.parametrize("value", ["multi_label", "", 5, ["regression"], {}, True])
def test_another_problem_type_is_named(tmp_path: Path, value: Any) -> None:
    small({"mood": ("bad", "good")}).save(tmp_path / "head", "huggingface")
    edit_json(tmp_path / "head/config.json", problem_type=value)
    with pytest.raises(CheckpointError, match=r"problem_type in config\.json is .* null"):
        load_model(tmp_path / "head")
    small().save(tmp_path / "none", "huggingface")  # where there is no head it says nothing
    edit_json(tmp_path / "none/config.json", problem_type=value)
    assert load_model(tmp_path / "none").kinds == {}


def test_transformers_reads_and_keeps_the_kind(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    roberta = small({"mood": ("bad", "good")})
    roberta.kinds["mood"] = "multi_label"
    roberta.save(tmp_path / "ours", "huggingface")
    theirs = transformers.RobertaForSequenceClassification.from_pretrained(tmp_path / "ours")
    assert theirs.config.problem_type == "multi_label_classification"
    theirs.save_pretrained(tmp_path / "theirs")
    for name in ("vocab.json", "merges.txt"):
        (tmp_path / "theirs" / name).write_bytes((tmp_path / "ours" / name).read_bytes())
    again = load_model(tmp_path / "theirs").eval()
    assert again.kinds == {HEAD: "multi_label"}
    assert again.classify("the").labels is not None


@pytest.mark.parametrize("format", ["fairseq", "huggingface"])
def test_thresholds_that_are_lost_are_named_once(tmp_path: Path, format: Any) -> None:
    roberta = small({"mood": ("bad", "good")})
    roberta.kinds["mood"], roberta.thresholds["mood"] = "multi_label", (0.2, 0.5)
    with pytest.warns(Advice, match="no place for thresholds, so that head 'mood'") as caught:
        roberta.save(tmp_path, format)
    assert len(caught) == 1
    again = load_model(tmp_path)
    assert list(again.kinds.values()) == ["multi_label"] and again.thresholds == {}
    roberta.thresholds["mood"] = (0.5, 0.5)  # which is what they take
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        roberta.save(tmp_path, format)


@pytest.mark.parametrize("value", [5, "multi_label", {"mood": "many"}, {"mood": ["x"]}, {3: "x"}])
def test_a_strangers_kinds_are_read_or_left(tmp_path: Path, value: Any) -> None:
    state = fairseq_state(small({"mood": ("bad", "good")}))
    state["roberta_hub_kinds"] = value
    assert load_model(fairseq_file(tmp_path / "fairseq", state)).kinds == {}


# ---- who tells models apart ----


def test_a_lake_tells_apart_models_that_answer_otherwise() -> None:
    roberta = small({"mood": ("bad", "good")})
    digests = [LoadedModel(roberta).digest]
    roberta.kinds["mood"] = "multi_label"
    digests.append(LoadedModel(roberta).digest)
    roberta.thresholds["mood"] = (0.2, 0.5)
    digests.append(LoadedModel(roberta).digest)
    roberta.model.classification_heads["mood"].pooling = "mean"
    digests.append(LoadedModel(roberta).digest)
    roberta.model.classification_heads["mood"].normalize = True
    digests.append(LoadedModel(roberta).digest)
    assert len(set(digests)) == 5

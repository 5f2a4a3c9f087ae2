"""`verify` compares every answer that both give, and names what it compared."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from families import write_family
from peers_at_fault import POSITIONS, Service, copied, served, with_weights
from torch import Tensor

import roberta_hub
from roberta_hub import RobertaHubInterface, SentenceSettings
from roberta_hub.verification import peers
from roberta_hub.verification.records import Verification

pytest.importorskip("transformers")
pytestmark = pytest.mark.parity

LABELS = ["art", "sport", "law"]
TAGS = ["O", "B-PER", "I-PER"]


def named(found: Verification) -> list[str]:
    return [finding.name for finding in found.faults]


def with_head(kind: str, place: Path, head: Any, **sizes: Any) -> Path:
    """A model of transformers' own with a head, as its class saves it."""
    labels = dict(enumerate(TAGS if head == "tokens" else LABELS))
    if head in ("sentence", "tokens"):
        sizes = {"id2label": labels, "label2id": {n: i for i, n in labels.items()}, **sizes}
    raw = write_family(kind, place / "raw", head=head, max_position_embeddings=POSITIONS, **sizes)
    roberta_hub.load_model(raw).save(place / "model", format="huggingface")
    return place / "model"


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return with_head("roberta", tmp_path_factory.mktemp("classifier"), "sentence")


@pytest.fixture(scope="module")
def masked(folders: Any) -> Path:
    place: Path = folders("roberta")
    return place


def changed(part: str, by: float = 1.0) -> Callable[[dict[str, Tensor]], None]:
    """Change the first number of the tensors with a name."""

    def edit(weights: dict[str, Tensor]) -> None:
        names = [name for name in weights if part in name]
        assert names, sorted(weights)
        for name in names:
            weights[name] = weights[name].clone()
            weights[name].flatten()[0] += by

    return edit


# ---- folders of transformers ----


@pytest.mark.parametrize(
    ("kind", "head", "compared"),
    [
        ("roberta", "sentence", "labels of sentence_classification_head"),
        ("bert", "sentence", "labels of sentence_classification_head"),
        ("distilbert", "sentence", "labels of sentence_classification_head"),
        ("roberta", "tokens", "tags of token_classification_head"),
        ("roberta", "span", "spans of question_answering_head"),
        ("bert", "choice", "labels of sentence_classification_head"),
        ("bert", "pretraining", "labels of nsp"),
        ("bert", "pretraining", "masked words"),
        ("bert", "pretraining", "pooler"),
        ("albert", "pretraining", "labels of sop"),
        ("electra", "pretraining", "replaced tokens"),
        ("roberta", "lm", "masked words"),
        ("albert", "lm", "masked words"),
    ],
)
def test_a_sound_folder_of_each_class(tmp_path: Path, kind: str, head: str, compared: str) -> None:
    folder = with_head(kind, tmp_path, head)
    roberta = roberta_hub.load_model(folder)
    found = roberta_hub.verify(roberta, folder)
    assert found.ok and compared in found.compared, (str(found), found.compared)
    assert found.compared[:2] == ("ids", "hidden states")


def test_swapped_labels_are_found(classifier: Path, tmp_path: Path) -> None:
    swapped = {"id2label": {"0": "sport", "1": "art", "2": "law"}}
    peer = copied(classifier, tmp_path / "peer", config=swapped)
    found = roberta_hub.verify(classifier, peer)
    assert (named(found), found.ok, found.verdict) == (["labels"], False, "different")
    assert "exchanges labels: says 'sport' where our model says 'art' (100.0 %" in str(found)


def test_labels_in_another_order_with_their_weights_are_the_same(
    classifier: Path, tmp_path: Path
) -> None:
    def edit(weights: dict[str, Tensor]) -> None:
        for part in ("weight", "bias"):
            name = f"classifier.out_proj.{part}"
            weights[name] = weights[name][[2, 0, 1]].contiguous()

    peer = with_weights(classifier, tmp_path / "peer", edit)
    order = {"id2label": {"0": "law", "1": "art", "2": "sport"}}
    found = roberta_hub.verify(classifier, copied(peer, tmp_path / "named", config=order))
    assert found.ok and "labels of sentence_classification_head" in found.compared, str(found)


def test_labels_of_other_names(classifier: Path, tmp_path: Path) -> None:
    numbers = {"id2label": {str(i): f"LABEL_{i}" for i in range(3)}}
    found = roberta_hub.verify(classifier, copied(classifier, tmp_path / "peer", config=numbers))
    assert named(found) == ["labels"] and not found.ok
    assert "names the labels ['LABEL_0', 'LABEL_1', 'LABEL_2']" in str(found)


@pytest.mark.parametrize("part", ["classifier.out_proj.bias", "classifier.dense.weight"])
def test_another_head_of_a_folder(classifier: Path, tmp_path: Path, part: str) -> None:
    found = roberta_hub.verify(
        classifier, with_weights(classifier, tmp_path / "peer", changed(part))
    )
    assert (named(found), found.ok) == (["unknown"], False), str(found)
    assert found.first is not None
    assert found.first.name == "labels of sentence_classification_head"


def test_a_head_of_another_width(classifier: Path, tmp_path: Path) -> None:
    peer = with_head("roberta", tmp_path / "peer", "sentence", num_labels=5, id2label=None)
    found = roberta_hub.verify(classifier, peer)
    assert not found.ok and {"head", "labels"} & {*named(found)}, str(found)


def test_a_folder_that_lost_its_head(classifier: Path, tmp_path: Path) -> None:
    import transformers

    copied(classifier, tmp_path / "bare")
    transformers.AutoModel.from_pretrained(classifier).save_pretrained(tmp_path / "bare")
    found = roberta_hub.verify(classifier, tmp_path / "bare")
    assert (named(found), found.ok) == (["head"], False), str(found)
    assert "has no head, and our model has sentence_classification_head" in str(found)


def test_a_folder_whose_head_has_no_weights(classifier: Path, tmp_path: Path) -> None:
    def edit(weights: dict[str, Tensor]) -> None:
        for name in [name for name in weights if name.startswith("classifier.")]:
            del weights[name]

    found = roberta_hub.verify(classifier, with_weights(classifier, tmp_path / "peer", edit))
    assert (named(found), found.ok) == (["head"], False), str(found)
    assert "has no classifier.dense.bias and others among its weights" in str(found)


def test_probabilities_of_another_kind(classifier: Path, tmp_path: Path) -> None:
    kind = {"problem_type": "multi_label_classification"}
    found = roberta_hub.verify(classifier, copied(classifier, tmp_path / "peer", config=kind))
    assert named(found) == ["probabilities"], str(found)
    assert "makes a probability for each label by itself of the numbers" in str(found)


def test_another_bias_of_the_decoder(masked: Path, tmp_path: Path) -> None:
    def edit(weights: dict[str, Tensor]) -> None:
        weights["lm_head.bias"] = weights["lm_head.bias"].clone()
        weights["lm_head.bias"][40] += 50

    peer = with_weights(masked, tmp_path / "peer", edit)
    roberta, other = roberta_hub.load_model(masked), roberta_hub.load_model(peer)
    text = "The dog <mask> home."
    assert roberta.fill_mask(text, topk=1)[0][2] != other.fill_mask(text, topk=1)[0][2]
    found = roberta_hub.verify(roberta, peer)
    assert (named(found), found.ok) == (["unknown"], False), str(found)
    assert found.first is not None and found.first.name == "masked words"
    assert found.first.where.startswith("most probable is ")


def test_another_pooler(tmp_path: Path) -> None:
    folder = with_head("bert", tmp_path / "model", "pretraining")
    peer = with_weights(folder, tmp_path / "peer", changed("bert.pooler.dense.weight", 5))
    found = roberta_hub.verify(folder, peer)
    assert "pooler" in [stage.name for stage in found.stages if not stage.same], str(found)
    assert not found.ok


@pytest.mark.parametrize(
    ("head", "part", "stage"),
    [
        ("tokens", "classifier.weight", "tags of token_classification_head"),
        ("span", "qa_outputs.bias", "spans of question_answering_head"),
    ],
)
def test_other_tags_and_spans(tmp_path: Path, head: str, part: str, stage: str) -> None:
    folder = with_head("roberta", tmp_path / "model", head)
    found = roberta_hub.verify(folder, with_weights(folder, tmp_path / "peer", changed(part)))
    assert named(found) == ["unknown"] and found.first is not None and found.first.name == stage


def test_exchanged_tags(tmp_path: Path) -> None:
    folder = with_head("roberta", tmp_path / "model", "tokens")
    tags = {"id2label": {"0": "O", "1": "I-PER", "2": "B-PER"}}
    found = roberta_hub.verify(folder, copied(folder, tmp_path / "peer", config=tags))
    assert named(found) == ["labels"] and not found.ok, str(found)


def test_a_model_of_transformers_in_memory(classifier: Path) -> None:
    import transformers

    model = transformers.AutoModelForSequenceClassification.from_pretrained(classifier)
    found = roberta_hub.verify(classifier, model)
    assert found.ok and "labels of sentence_classification_head" in found.compared, str(found)
    model.config.id2label = {0: "law", 1: "sport", 2: "art"}
    assert named(roberta_hub.verify(classifier, model)) == ["labels"]
    body = transformers.AutoModel.from_pretrained(classifier)
    found = roberta_hub.verify(classifier, body)
    assert (
        found.ok and "answers as" in str(found) and ": the same hidden states, within" in str(found)
    )
    assert "labels of sentence_classification_head" in found.uncompared


def test_what_both_give_and_is_not_asked_forbids_the_same(
    folders: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folders("roberta", SentenceSettings(pooling="mean", normalize=True))
    there = peers.find_spec
    monkeypatch.setattr(
        peers, "find_spec", lambda name: None if name == "sentence_transformers" else there(name)
    )
    found = roberta_hub.verify(folder, folder)
    assert (found.ok, found.verdict, named(found)) == (False, "incomplete", []), str(found)
    assert "was not asked all that it and" in str(found)
    assert "not asked, vectors: not asked, though the peer gives it: sentence-transformers" in str(
        found
    )


# ---- exports ----


@pytest.fixture(scope="module")
def model(folders: Any) -> RobertaHubInterface:
    """A model with heads of several kinds."""
    torch.manual_seed(3)
    folder = folders("roberta", SentenceSettings(pooling="mean", normalize=True))
    roberta: RobertaHubInterface = roberta_hub.load_model(folder)
    nli = ["contradiction", "neutral", "entailment"]
    roberta.register_classification_head("mnli", labels=nli)
    roberta.inputs["mnli"] = "pair"
    roberta.register_classification_head("sentiment", labels=["bad", "good"])
    roberta.inputs["sentiment"] = "one"
    roberta.register_token_head("entities", labels=TAGS)
    roberta.register_span_head("squad")
    return roberta.eval()


def test_an_export_of_one_head_of_several(model: RobertaHubInterface, tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    model.export(tmp_path, head="sentiment", check=False)
    found = roberta_hub.verify(model, tmp_path / "model.onnx")
    assert found.ok and found.compared == ("ids", "labels of sentiment"), str(found)
    assert "labels of mnli" in found.uncompared and "masked words" in found.uncompared
    about = json.loads((tmp_path / "config.json").read_text())
    about["id2label"] = {"0": "good", "1": "bad"}
    (tmp_path / "config.json").write_text(json.dumps(about))
    found = roberta_hub.verify(model, tmp_path / "model.onnx")
    assert named(found) == ["labels"] and not found.ok, str(found)


def test_an_export_of_another_head(classifier: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    roberta = roberta_hub.load_model(classifier)
    other = roberta_hub.load_model(classifier)
    other.register_classification_head("else", labels=[*LABELS, "other"])
    other.export(tmp_path, head="else")
    found = roberta_hub.verify(roberta, tmp_path / "model.onnx")
    assert not found.ok and {"labels", "head"} & {*named(found)}, str(found)


# ---- models of ours ----


def test_a_model_with_heads_of_several_kinds(model: RobertaHubInterface) -> None:
    found = roberta_hub.verify(model, model)
    assert found.ok and found.compared == (
        "ids",
        "hidden states",
        "masked words",
        "labels of mnli",
        "labels of sentiment",
        "tags of entities",
        "spans of squad",
        "vectors",
    ), str(found)


def relabelled(roberta: RobertaHubInterface) -> None:
    roberta.labels["sentiment"] = ("good", "bad")


def other_sentiment(roberta: RobertaHubInterface) -> None:
    with torch.no_grad():
        roberta.model.classification_heads["sentiment"].out_proj.bias[0] += 1


def other_entities(roberta: RobertaHubInterface) -> None:
    with torch.no_grad():
        roberta.model.token_heads["entities"].out_proj.bias[0] += 1


def other_decoder(roberta: RobertaHubInterface) -> None:
    with torch.no_grad():
        roberta.model.encoder.lm_head.bias[40] += 50


def several_labels(roberta: RobertaHubInterface) -> None:
    roberta.kinds["sentiment"] = "multi_label"


def other_words(roberta: RobertaHubInterface) -> None:
    roberta.word_rules["entities"] = "parts"


@pytest.mark.parametrize(
    ("spoil", "name", "stage"),
    [
        (relabelled, "labels", "labels of sentiment"),
        (other_sentiment, "unknown", "labels of sentiment"),
        (other_entities, "unknown", "tags of entities"),
        (other_decoder, "unknown", "masked words"),
        (several_labels, "probabilities", "labels of sentiment"),
        (other_words, "words", "tags of entities"),
    ],
)
def test_models_in_memory(model: RobertaHubInterface, spoil: Any, name: str, stage: str) -> None:
    peer = copy.deepcopy(model)
    spoil(peer)
    found = roberta_hub.verify(model, peer)
    assert [(f.name, f.stage) for f in found.faults] == [(name, stage)], str(found)
    assert not found.ok


def test_thresholds_of_a_head(model: RobertaHubInterface) -> None:
    one, other = copy.deepcopy(model), copy.deepcopy(model)
    for each in (one, other):
        each.kinds["sentiment"] = "multi_label"
    other.thresholds["sentiment"] = (0.2, 0.5)
    assert named(roberta_hub.verify(one, other)) == ["thresholds"]


def test_what_only_our_head_decides_is_not_said_to_be_compared(
    classifier: Path, tmp_path: Path
) -> None:
    head = "sentence_classification_head"
    model = roberta_hub.load_model(classifier)
    model.reject_below[head] = 0.5
    found = roberta_hub.verify(model, classifier)
    assert found.ok and f"probabilities of {head}" in found.compared
    said = "the peer answers every text, and our model refuses some: reject_below"
    assert found.uncompared[f"labels of {head}"] == said
    first, *rest = str(found).splitlines()
    assert f"labels of {head}" not in first and f"not compared: labels of {head} ({said})" in (
        "\n".join(rest)
    )
    del model.reject_below[head]
    assert f"labels of {head}" in roberta_hub.verify(model, classifier).compared
    model.kinds[head], model.thresholds[head] = "multi_label", (0.2, 0.5, 0.5)
    with pytest.warns(roberta_hub.errors.Advice, match="thresholds"):
        model.save(tmp_path / "hf", format="huggingface")
    found = roberta_hub.verify(model, tmp_path / "hf")
    assert found.ok and f"probabilities of {head}" in found.compared
    assert "our model has thresholds" in found.uncompared[f"labels of {head}"]
    model.thresholds[head] = (0.5, 0.5, 0.5)
    assert f"labels of {head}" in roberta_hub.verify(model, tmp_path / "hf").compared


def test_two_heads_at_fault_are_both_named(model: RobertaHubInterface) -> None:
    peer = copy.deepcopy(model)
    other_sentiment(peer)
    other_entities(peer)
    found = roberta_hub.verify(model, peer)
    assert [f.stage for f in found.faults] == ["labels of sentiment", "tags of entities"]


# ---- what is said ----


def test_a_server_of_vectors_is_the_same_vectors(folders: Any, models: Any) -> None:
    folder = folders("roberta", SentenceSettings(pooling="mean", normalize=True))
    with served(Service(folder)) as root:
        found = roberta_hub.verify(models(folder), root)
    assert found.ok and found.compared == ("vectors",)
    assert f" does: the same vectors, within 1e-06, on {found.texts} texts" in str(found)
    assert "not compared: masked words (not given by the peer)" in str(found)
    assert found.to_dict()["compared"] == ["vectors"] and "**the same vectors**" in (
        found.to_markdown()
    )

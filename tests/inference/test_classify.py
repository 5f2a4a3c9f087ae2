"""classify() and zero_shot() against predict(), one text at a time."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from questions import LONG, NLI, TEXTS, TOPICS, ids_of
from torch import Tensor

from roberta_hub import Prediction, RobertaHubInterface
from roberta_hub.errors import UnknownNameError
from roberta_hub.text import Dictionary, Task


def log_probs(roberta: RobertaHubInterface, ids: Tensor, head: str = "mnli") -> Tensor:
    with torch.no_grad():
        return roberta.predict(head, ids)[0]


def assert_is(found: Prediction, labels: tuple[str, ...], values: list[float]) -> None:
    wanted = dict(zip(labels, values, strict=True))
    assert dict(found.scores) == pytest.approx(wanted, abs=1e-5)
    assert list(found.scores.values()) == sorted(found.scores.values(), reverse=True)
    assert found.label == next(iter(found.scores))
    assert found.score == found.scores[found.label] == max(found.scores.values())


@pytest.mark.parametrize("batch_tokens", [None, 9])
def test_a_batch_is_its_singles(roberta: RobertaHubInterface, batch_tokens: int | None) -> None:
    found = roberta.classify(TEXTS, batch_tokens=batch_tokens)
    assert len({p.score for p in found}) > 3  # the model tells texts apart
    for text, prediction in zip(TEXTS, found, strict=True):
        wanted = log_probs(roberta, ids_of(roberta, text), "topic").exp()
        assert_is(prediction, TOPICS, wanted.tolist())
    assert roberta.classify([]) == []


def test_a_regression_head_gives_its_value(roberta: RobertaHubInterface) -> None:
    for text, prediction in zip(TEXTS, roberta.classify(TEXTS, head="grade"), strict=True):
        with torch.no_grad():
            wanted = roberta.predict("grade", ids_of(roberta, text), return_logits=True).item()
        assert prediction.score == pytest.approx(wanted, abs=1e-5)
        assert prediction.scores == {"0": prediction.score}


def test_windows_vote_with_their_probabilities(roberta: RobertaHubInterface) -> None:
    ids, room, stride = ids_of(roberta, LONG), 46, 6
    inner = ids[1:-1]
    starts = [*range(0, len(inner) - room, room - stride), len(inner) - room]
    votes = [
        log_probs(roberta, torch.cat([ids[:1], inner[s : s + room], ids[-1:]]), "topic").exp()
        for s in starts
    ]
    (found,) = roberta.classify([LONG], stride=stride)
    assert_is(found, TOPICS, torch.stack(votes).mean(0).tolist())
    (cut,) = roberta.classify([LONG], truncate=True)
    wanted = log_probs(roberta, torch.cat([ids[:47], ids[-1:]]), "topic").exp()
    assert_is(cut, TOPICS, wanted.tolist())


def test_labels_come_with_the_head_or_from_fairseqs_dictionary_or_are_numbers(
    roberta: RobertaHubInterface,
) -> None:
    assert roberta.head_labels("mnli") == NLI
    assert roberta.head_labels("grade") == ("0",)
    labels = Dictionary.parse(b"pos 7\nneg 5\nmeh 1\n", "label/dict.txt", add_mask=True)
    task = Task(roberta.task.source_dictionary, labels)
    own = RobertaHubInterface(roberta.cfg, task, roberta.model)
    assert own.head_labels("mnli") == ("pos", "neg", "meh")
    bare = RobertaHubInterface(roberta.cfg, roberta.task, roberta.model)
    assert bare.head_labels("mnli") == ("0", "1", "2")
    assert set(bare.classify(["a"], "mnli")[0].scores) == {"0", "1", "2"}


def test_a_wrong_head_is_named_with_those_there_are(roberta: RobertaHubInterface) -> None:
    calls: list[Any] = [
        lambda: roberta.classify(["a"], head="nli"),
        lambda: roberta.zero_shot(["a"], ["x"], head="nli"),
        lambda: roberta.predict("nli", torch.tensor([0, 2])),
        lambda: roberta.head_labels("nli"),
    ]
    for call in calls:
        for builtin in (KeyError, ValueError):
            with pytest.raises(
                builtin, match=r"^no classification head 'nli'; this model has mnli, grade"
            ):
                call()
    with pytest.raises(UnknownNameError, match=r"; a pair of texts is a tuple: \(first, second\)"):
        roberta.classify("It rains.", "It is wet.")


# ---- zero shot ----

LABELS = ["travel", "food", "a {} sport"]


def hypothesis_log_probs(roberta: RobertaHubInterface, text: Any, label: str) -> Tensor:
    own = (text,) if isinstance(text, str) else text
    return log_probs(roberta, roberta.encode(*own, f"This example is {label}."))


@pytest.mark.parametrize("multi_label", [False, True])
def test_zero_shot_by_hand(roberta: RobertaHubInterface, multi_label: bool) -> None:
    found = roberta.zero_shot(TEXTS, LABELS, multi_label=multi_label)
    assert len(found) == len(TEXTS)
    for text, prediction in zip(TEXTS, found, strict=True):
        table = torch.stack([hypothesis_log_probs(roberta, text, label) for label in LABELS])
        if multi_label:
            wanted = table[:, [0, 2]].softmax(-1)[:, 1]  # entailment against contradiction
        else:
            with torch.no_grad():
                logits = [
                    roberta.predict(
                        "mnli",
                        roberta.encode(
                            *((text,) if isinstance(text, str) else text),
                            f"This example is {label}.",
                        ),
                        return_logits=True,
                    )[0, 2]
                    for label in LABELS
                ]
            wanted = torch.stack(logits).softmax(0)
            assert sum(prediction.scores.values()) == pytest.approx(1)
        assert_is(prediction, tuple(LABELS), wanted.tolist())
    assert roberta.zero_shot([], LABELS) == []


def test_a_head_with_two_classes_weighs_entailment_against_the_other(
    roberta: RobertaHubInterface,
) -> None:
    own = copy.deepcopy(roberta)
    own.register_classification_head("rte", 2, labels=["Entailment", "not_entailment"])
    own.eval()
    for prediction in own.zero_shot(["Hello"], ["x", "y"], head="rte", multi_label=True):
        for label, score in prediction.scores.items():
            ids = own.encode("Hello", f"This example is {label}.")
            assert score == pytest.approx(float(log_probs(own, ids, "rte")[0].exp()), abs=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"labels": []}, "at least one"),
        ({"labels": "food"}, "pass a list"),
        ({"labels": ["food", "food"]}, "different labels"),
        ({"hypothesis": "no place"}, r"'no place' has no \{\} for the label"),
        ({"head": "grade"}, "head 'grade' knows 0; .*needs a head with 'entailment'"),
    ],
)
def test_questions_that_cannot_be_put(
    roberta: RobertaHubInterface, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        roberta.zero_shot(["a"], **{"labels": ["x"], **arguments})


@pytest.mark.parametrize("verb", ["features", "classify", "score", "encode_batch"])
@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (b"bytes", "is (one|a) bytes"),
        (["a", "a", None], r"texts\[2\]: .*NoneType"),
        (["a", "a", ["no pair"]], r"texts\[2\]: .*list"),
        (["a", "a", ()], r"texts\[2\]: .*empty tuple"),
        (["a", "a", ("b", 3)], r"texts\[2\]: .*int"),
        (["a", "a", "lone \ud800"], r"texts\[2\]: "),
    ],
)
def test_texts_of_the_wrong_kind_are_named_by_their_place(
    roberta: RobertaHubInterface, verb: str, texts: Any, message: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=message) as caught:
        getattr(roberta, verb)(texts)
    assert isinstance(caught.value, ValueError if "lone" in str(texts[-1]) else TypeError)


def test_zero_shot_names_the_text_and_not_the_pair(roberta: RobertaHubInterface) -> None:
    for bad in (None, "lone \ud800"):
        with pytest.raises((TypeError, ValueError), match=r"texts\[1\]: "):
            roberta.zero_shot(["a", bad], ["x", "y", "z"])  # type: ignore[list-item]

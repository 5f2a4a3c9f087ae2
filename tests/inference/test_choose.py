"""choose() against the softmax over predict(), one option at a time."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from questions import LONG

from roberta_hub import RobertaHubInterface
from roberta_hub.errors import InputError, InputTypeError, UnknownNameError

CONTEXT = "Where do fish live?"
OPTIONS = ["in water", "on high trees, says the bird", "🙂"]


def scores(roberta: RobertaHubInterface, ids: list[torch.Tensor]) -> dict[str, float]:
    with torch.no_grad():
        values = [float(roberta.predict("grade", own, return_logits=True)) for own in ids]
    return dict(zip(OPTIONS, torch.tensor(values).softmax(0).tolist(), strict=True))


@pytest.mark.parametrize(
    ("task", "inputs"),
    [
        ("masked_lm", lambda r, o: r.encode(CONTEXT, o)),
        ("sentence_ranking", lambda r, o: r.encode(o, CONTEXT)),  # fairseq's RACE
        ("commonsense_qa", lambda r, o: r.encode(CONTEXT, o, no_separator=True)),
    ],
)
@pytest.mark.parametrize("batch_tokens", [None, 9])
def test_the_softmax_over_the_options(roberta, task, inputs, batch_tokens):
    before = roberta.task
    roberta.task = dataclasses.replace(before, name=task)
    try:
        found = roberta.choose(CONTEXT, OPTIONS, "grade", batch_tokens=batch_tokens)
        wanted = scores(roberta, [inputs(roberta, option) for option in OPTIONS])
    finally:
        roberta.task = before
    assert dict(found.scores) == pytest.approx(wanted, abs=1e-5)
    assert found.label == max(wanted, key=wanted.__getitem__)
    assert found.score == found.scores[found.label] > 1 / 3


def test_order_and_mode_do_not_matter(roberta):
    found = roberta.choose(CONTEXT, OPTIONS, "grade")
    roberta.train()
    again = roberta.choose(CONTEXT, OPTIONS[::-1], "grade")
    assert roberta.training
    assert dict(again.scores) == pytest.approx(dict(found.scores), abs=1e-6)
    assert roberta.choose(CONTEXT, ["alone"], "grade").score == pytest.approx(1.0)


def test_long_contexts(roberta):
    with pytest.raises(InputError, match=r"too long: .* tokens > 48"):
        roberta.choose(LONG, OPTIONS, "grade")
    for more in ({"truncate": True}, {"stride": 8}):
        found = roberta.choose(LONG, OPTIONS, "grade", **more)
        assert sum(found.scores.values()) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ("in water", InputError, "pass a list of texts"),
        ([], InputError, "at least one"),
        (["a", "b", "a"], InputError, "is there twice"),
        (["a", 5], InputTypeError, "an option is a int"),
        (["a", ["b"]], InputTypeError, "an option is a list"),
    ],
)
def test_options_that_cannot_be(roberta, options, error, words):
    with pytest.raises(error, match=words):
        roberta.choose(CONTEXT, options, "grade")


def test_heads_that_cannot_choose(roberta):
    with pytest.raises(InputError, match="head 'mnli' has 3 outputs; choose needs a head with one"):
        roberta.choose(CONTEXT, OPTIONS, "mnli")
    with pytest.raises(UnknownNameError, match="no classification head 'grad'; this model has"):
        roberta.choose(CONTEXT, OPTIONS, "grad")
    with pytest.raises(InputTypeError, match="context is a int"):
        roberta.choose(5, OPTIONS, "grade")

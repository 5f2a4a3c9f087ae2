"""Verbs that keep the mode say once when that mode makes their answers random."""

import copy
import gc
import pickle
import warnings
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from small_models import small_roberta
from torch import Tensor

from roberta_hub import RobertaHubInterface, collate_tokens


@pytest.mark.system
def test_extract_features_warns_once_of_each_interface_and_predict_on_its_own() -> None:
    roberta = small_roberta(heads={"mnli": 3}).train()
    ids = roberta.encode("Hello")
    with pytest.warns(
        UserWarning, match=r"extract_features runs with dropout on.*eval\(\)"
    ) as seen:
        roberta.extract_features(ids)
    assert seen[0].filename == __file__
    with pytest.warns(UserWarning, match=r"predict runs with dropout on") as seen:
        roberta.predict("mnli", ids)
    assert seen[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        roberta.extract_features(ids)
        roberta.predict("mnli", ids)
        copy.deepcopy(roberta).extract_features(ids)
        pickle.loads(pickle.dumps(roberta)).extract_features(ids)
        small_roberta().extract_features(ids)  # in eval mode
        calm = small_roberta(dropout=0.0, attention_dropout=0.0).train()
        calm.extract_features(ids)


def said(call: Callable[[], object]) -> list[str]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call()
        gc.collect()
    assert all(warning.filename == __file__ for warning in found)
    return [str(warning.message) for warning in found]


def steps(roberta: RobertaHubInterface, **options: bool) -> None:
    """A training loop as fairseq's users write it, without and with names for what is between."""
    batch = collate_tokens([roberta.encode(text) for text in ("Good.", "Bad, and long.")])
    optimizer = torch.optim.Adam(roberta.parameters(), lr=1e-3)
    for _ in range(2):
        optimizer.zero_grad()
        loss = F.nll_loss(roberta.predict("mood", batch, **options), torch.tensor([0, 1]))
        loss.backward()
        optimizer.step()
    scores = roberta.predict("mood", batch, **options)
    loss = scores[:, 0].sum() + roberta.predict("mood", batch[:1], **options).sum()
    del scores
    loss.backward()


@pytest.mark.parametrize("logits", [False, True])
def test_a_training_loop_is_not_told_to_call_eval(logits: bool) -> None:
    roberta = small_roberta(heads={"mood": 2}).train()
    assert said(lambda: steps(roberta, return_logits=logits)) == []
    for parameter in roberta.model.encoder.parameters():  # the head alone learns
        parameter.requires_grad = False
    assert said(lambda: steps(roberta, return_logits=logits)) == []
    with torch.no_grad():  # evaluation between epochs, and .eval() is forgotten
        (message,) = said(lambda: roberta.predict("mood", roberta.encode("Good.")))
    assert message == "predict runs with dropout on, so its answers are random; call .eval() first"


FORGOTTEN: dict[str, Callable[[Tensor], object]] = {
    "is thrown away": lambda scores: None,
    "is read": lambda scores: scores.argmax().item(),
    "is detached": lambda scores: scores.detach(),
    "is a loss that is only shown": lambda scores: float(scores.sum().detach()),
}


@pytest.mark.parametrize("use", FORGOTTEN)
def test_an_answer_from_which_nothing_is_learnt_is_random(use: str) -> None:
    """As a model is loaded, in train mode with gradients on."""
    roberta = small_roberta(heads={"mood": 2}).train()

    def ask() -> None:
        FORGOTTEN[use](roberta.predict("mood", roberta.encode("Good.")))

    (message,) = said(ask)
    assert "call .eval() first" in message
    assert said(ask) == []


def test_without_a_parameter_that_learns_it_is_said_at_once() -> None:
    roberta = small_roberta(heads={"mood": 2}).train().requires_grad_(False)
    with pytest.warns(UserWarning, match="predict runs with dropout on"):
        kept = roberta.predict("mood", roberta.encode("Good."))
    assert kept.shape == (1, 2)

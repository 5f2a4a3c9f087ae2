"""Eval mode for several at once: first in sets it, last out restores."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import weakref

import pytest
import torch
from small_models import small_model
from torch import nn

from roberta_hub.inference import mode
from roberta_hub.inference.mode import evaluating


def modes(model: nn.Module) -> list[bool]:
    return [module.training for module in model.modules()]


class Guest:
    """Somebody in another thread who is inside until told to leave."""

    def __init__(self, model: nn.Module) -> None:
        self._inside, self._leave = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._stay, args=(model,))
        self._thread.start()
        assert self._inside.wait(60)

    def _stay(self, model: nn.Module) -> None:
        with evaluating(model):
            self._inside.set()
            assert self._leave.wait(60)

    def leave(self) -> None:
        self._leave.set()
        self._thread.join()


@pytest.fixture
def model() -> nn.Module:
    found = small_model(dropout=0.1)
    found.encoder.sentence_encoder.layers[1].eval()
    return found


def test_the_last_one_out_restores(model: nn.Module) -> None:
    before = modes(model)
    first, second = Guest(model), Guest(model)
    first.leave()
    assert not any(modes(model))
    second.leave()
    assert modes(model) == before


def test_within_itself_and_after_an_error(model: nn.Module) -> None:
    before = modes(model)
    with pytest.raises(ValueError, match="inner"), evaluating(model):
        with pytest.raises(KeyError), evaluating(model):
            raise KeyError
        assert not any(modes(model)) and not torch.is_grad_enabled()
        raise ValueError("inner")
    assert modes(model) == before and torch.is_grad_enabled()


def test_models_that_share_modules(model: nn.Module) -> None:
    """A trainer evaluates a wrapper of the model that somebody else asks."""
    wrapper = nn.ModuleDict({"model": model, "more": nn.Dropout(0.5)})
    before = modes(wrapper)
    outer, inner = Guest(wrapper), Guest(model)
    outer.leave()
    assert not any(modes(model)) and wrapper["more"].training
    inner.leave()
    assert modes(wrapper) == before


def test_a_train_from_elsewhere_is_undone_for_the_next_one_and_kept(model: nn.Module) -> None:
    model.eval()
    with evaluating(model):
        model.train()
        with evaluating(model):
            assert not any(modes(model))
        assert not any(modes(model))
    assert all(modes(model))


def test_a_module_whose_eval_fails() -> None:
    class Stubborn(nn.Dropout):
        def train(self, mode: bool = True) -> Stubborn:
            if not mode:
                raise RuntimeError("no")
            return super().train(mode)

    model = nn.Sequential(nn.Dropout(), Stubborn())
    with pytest.raises(RuntimeError, match="no"), evaluating(model):
        pass
    assert all(modes(model))


def test_nothing_is_kept_of_a_model_and_nothing_is_on_it(model: nn.Module) -> None:
    before = pickle.dumps(model.eval())
    with evaluating(model):
        assert pickle.dumps(model) == before
        other = copy.deepcopy(model)
    with evaluating(other):
        pass
    assert not mode._users and not mode._training
    watched = weakref.ref(other)
    del other
    gc.collect()
    assert watched() is None


def test_gradients_are_each_thread_s_own(model: nn.Module) -> None:
    seen = []
    with evaluating(model):
        thread = threading.Thread(target=lambda: seen.append(torch.is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]

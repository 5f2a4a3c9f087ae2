"""Errors hold place and remedy as fields wherever they go; Python and a shell say their own."""

from __future__ import annotations

import concurrent.futures
import copy
import logging
import multiprocessing
import pickle
import time
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from small_models import small_roberta

from roberta_hub import errors
from roberta_hub.arguments import advise
from roberta_hub.errors import (
    InputError,
    LakeError,
    Place,
    Remedy,
    RobertaHubError,
    UnknownNameError,
    placed,
)
from roberta_hub.interface import RobertaHubInterface

CLASSES = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, RobertaHubError)
]
LONG = "word " * 60


def an_error(kind: type[RobertaHubError] = InputError) -> RobertaHubError:
    return kind("too long", place=Place("texts", 3), remedy=Remedy("pass x=1", "give --x"))


def raise_it() -> None:
    raise an_error(errors.CheckpointError)


@pytest.fixture(scope="module")
def roberta() -> RobertaHubInterface:
    return small_roberta(heads={"topic": 2, "nli": 3}, num_layers=1, max_positions=48)


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize(
    "sent", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))]
)
def test_fields_travel(kind: type[RobertaHubError], sent: Callable[[Any], Any]) -> None:
    found = sent(an_error(kind))
    assert type(found) is kind
    assert (found.what, found.place) == ("too long", Place("texts", 3))
    assert found.remedy == Remedy("pass x=1", "give --x")
    assert str(found) == found.args[0] == "texts[3]: too long; pass x=1"
    assert found.in_shell() == "texts[3]: too long; give --x"
    assert repr(found) == f"{kind.__name__}('texts[3]: too long; pass x=1')"


@pytest.mark.system
def test_fields_come_back_from_another_process() -> None:
    context = multiprocessing.get_context("spawn")
    with (
        concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool,
        pytest.raises(errors.CheckpointError) as caught,
    ):
        pool.submit(raise_it).result()
    assert caught.value.in_shell() == "texts[3]: too long; give --x"


def test_what_is_said_later_travels_too() -> None:
    error = LakeError("1 of 2 units have no file")
    error.report = ["a unit"]
    error.within("lake")
    found = pickle.loads(pickle.dumps(error))
    assert found.report == ["a unit"] and str(found) == found.args[0] == f"lake: {error.what}"


@pytest.mark.parametrize("kind", CLASSES)
def test_it_is_the_built_in_that_fits(kind: type[RobertaHubError]) -> None:
    (*_, fits) = [base for base in kind.__mro__ if base.__module__ == "builtins"][:1]
    with pytest.raises(fits, match=r"^texts\[3\]: too long; pass x=1$"):
        raise an_error(kind)
    with pytest.raises(kind) as caught:
        raise kind("no file") from OSError("cause")
    assert str(caught.value) == "no file" and isinstance(caught.value.__cause__, OSError)
    assert str(kind()) == ""


def test_a_key_error_shows_no_quotes(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        logging.error("%s", UnknownNameError("no 'x'"))
    assert caplog.messages == ["no 'x'"]


def test_places_are_translated_by_each_caller() -> None:
    def library(texts: list[str]) -> None:
        raise InputError("too long", place=Place("texts", len(texts) - 1))

    with (
        pytest.raises(InputError, match=r"^reviews\.csv:2: too long$") as caught,
        placed(lambda at: f"reviews.csv:{at.index}"),
        placed(lambda at: Place(at.argument, at.index // 3)),  # three pairs a text
    ):
        library([""] * 8)
    assert caught.value.args == ("reviews.csv:2: too long",)
    with pytest.raises(InputError, match=r"^line 4: too long$"), placed(lambda at: "never"):
        raise InputError("too long", place="line 4")
    with pytest.raises(ValueError, match=r"^not ours$"), placed(lambda at: "never"):
        raise ValueError("not ours")


def test_a_remedy_without_words_for_a_shell_is_left_out() -> None:
    error = InputError("odd", remedy=Remedy("pass x=1", ""))
    assert (str(error), error.in_shell()) == ("odd; pass x=1", "odd")
    assert InputError("odd", remedy=Remedy("mend it")).in_shell() == "odd; mend it"


def test_advice_has_both_words() -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        advise("odd", Remedy("pass x=1", "give --x"))
    (found,) = (pickle.loads(pickle.dumps(warning.message)) for warning in seen)
    assert isinstance(found, UserWarning)
    assert (str(found), found.in_shell()) == ("odd; pass x=1", "odd; give --x")


ITEMS: dict[str, tuple[Callable[[RobertaHubInterface], object], str]] = {
    "a text": (lambda r: r.classify(["a", LONG], "topic"), "texts[1]"),
    "of equals the first": (lambda r: r.embed(["a", LONG, "b", LONG]), "texts[1]"),
    "a pair": (lambda r: r.classify([("a", "b"), ("a", LONG)], "topic"), "texts[1]"),
    "a text with labels": (
        lambda r: r.zero_shot(["a", "b", LONG], ["x", "y"], head="nli"),
        "texts[2]",
    ),
    "windows of which none fits": (
        lambda r: r.features(["a", LONG, LONG], stride=47),
        "texts[1]",
    ),
    "windows that the hypothesis leaves no room": (
        lambda r: r.zero_shot(["a", LONG], ["x", LONG], head="nli", stride=20),
        "texts[1]",
    ),
    "one side": (lambda r: r.similarity(["a"], ["b", LONG]), "b[1]"),
    "a query": (lambda r: r.search(["a", LONG], ["b"]), "queries[1]"),
    "a corpus that is read": (lambda r: r.search("a", iter(["b", "c", LONG])), "corpus[2]"),
    "a mask": (lambda r: r.fill_mask(["a <mask>", "b"]), "masked_input[1]"),
    "half of a character": (lambda r: r.embed(["a", "\ud800"]), "texts[1]"),
    "no text": (lambda r: r.embed(["a", None]), "texts[1]"),
    "a text of one's own": (lambda r: r.explain(LONG, "topic"), "text"),
}


@pytest.mark.parametrize("name", ITEMS)
def test_the_callers_own_item_is_named(name: str, roberta: RobertaHubInterface) -> None:
    call, place = ITEMS[name]
    roberta.labels["nli"] = ("contradiction", "neutral", "entailment")
    with pytest.raises(RobertaHubError) as caught:
        call(roberta)
    assert str(caught.value.place) == place and str(caught.value).startswith(f"{place}: ")
    assert place not in caught.value.what


def test_explain_refuses_a_long_text_before_it_copies_it(roberta: RobertaHubInterface) -> None:
    """It reads a copy of the text without each of its words: of these 1.6 GB."""
    started = time.process_time()
    with pytest.raises(InputError, match=r"too long: [0-9]+ tokens > 48"):
        roberta.explain("🙂 " * 10_000, "topic")
    assert time.process_time() - started < 5

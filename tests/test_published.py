"""The published weights, with the answers that fairseq's documentation prints.

Needs a network: `-m network`.
"""

from __future__ import annotations

import pytest
import torch

import roberta_hub
from roberta_hub import RobertaHubInterface, collate_tokens

pytestmark = [pytest.mark.network, pytest.mark.timeout(3600)]


@pytest.fixture(autouse=True)
def _the_real_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TORCH_HOME", raising=False)


def load(name: str) -> RobertaHubInterface:
    return roberta_hub.load_model(name).eval()


def test_large_features() -> None:
    roberta = load("roberta.large")
    tokens = roberta.encode("Hello world!")
    assert tokens.tolist() == [0, 31414, 232, 328, 2]
    layers = roberta.extract_features(tokens, return_all_hiddens=True)
    assert len(layers) == 25
    assert torch.equal(layers[-1], roberta.extract_features(tokens))
    assert layers[-1].shape == (1, 5, 1024)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (
            "The first Star wars movie came out in <mask>",
            [(" 1977", 0.9504712224), (" 1978", 0.0099860569), (" 1979", 0.0095728869)],
        ),
        (
            "Vikram samvat calender is official in <mask>",
            [(" India", 0.21879), (" Delhi", 0.08547), (" Gujarat", 0.07556)],
        ),
        (
            "<mask> is the common currency of the European Union",
            [("Euro", 0.9456508159), ("euro", 0.0257488135), ("€", 0.0111807491)],
        ),
    ],
)
def test_large_fills_masks(text: str, wanted: list[tuple[str, float]]) -> None:
    found = load("roberta.large").fill_mask(text, topk=3)
    assert [word for _, _, word in found] == [word for word, _ in wanted]
    assert [p for _, p, _ in found] == pytest.approx([p for _, p in wanted], abs=2e-3)


def test_mnli_pairs() -> None:
    roberta = load("roberta.large.mnli")
    pairs = [
        ("Roberta is a heavily optimized version of BERT.", "Roberta is not very optimized."),
        ("Roberta is a heavily optimized version of BERT.", "Roberta is based on BERT."),
        ("potatoes are awesome.", "I like to run."),
        ("Mars is very far from earth.", "Mars is very close."),
    ]
    batch = collate_tokens([roberta.encode(*pair) for pair in pairs], pad_idx=1)
    assert roberta.predict("mnli", batch).argmax(dim=1).tolist() == [0, 2, 1, 0]
    assert [p.label for p in roberta.classify(pairs)] == [
        "contradiction",
        "entailment",
        "neutral",
        "contradiction",
    ]


def test_wsc() -> None:
    roberta = load("roberta.large.wsc")
    trophy = "The _trophy_ would not fit in the brown suitcase because [it] was too big."
    assert roberta.disambiguate_pronoun(trophy, candidates=["the brown suitcase"]) is True
    small = "The _trophy_ would not fit in the brown suitcase because [it] was too small."
    assert roberta.disambiguate_pronoun(small, candidates=["the brown suitcase"]) is False
    for verb, wanted in (("feared", "The city councilmen"), ("advocated", "demonstrators")):
        sentence = (
            f"The city councilmen refused the demonstrators a permit because [they] {verb} "
            "violence."
        )
        found = roberta.disambiguate_pronoun(sentence, ["The city councilmen", "demonstrators"])
        assert found == wanted

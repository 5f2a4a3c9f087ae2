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


# ---- RoBERTa's relatives ----


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("Hello world!", [0, 35378, 8999, 38, 2]),
        ("你好，世界", [0, 6, 124084, 4, 3221, 2]),
        ("नमस्ते दुनिया", [0, 68700, 97883, 29405, 2]),
        ("مرحبا بالعالم", [0, 665, 193478, 258, 1705, 77796, 2]),
        ("Bonjour le monde", [0, 84602, 95, 11146, 2]),
    ],
)
def test_xlm_rs_ids(text: str, ids: list[int]) -> None:
    """fairseq, examples/xlmr/README.md."""
    assert load("xlmr.base").encode(text).tolist() == ids


def test_xlm_r_larges_features() -> None:
    xlmr = load("xlmr.large")
    tokens = xlmr.encode("你好，世界")
    layers = xlmr.extract_features(tokens, return_all_hiddens=True)
    assert len(layers) == 25 and layers[-1].shape == (1, 6, 1024)
    assert torch.equal(layers[-1], xlmr.extract_features(tokens))
    assert xlmr.tokenizer.mask_idx == 250001


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        (
            "camembert",
            "Le camembert est <mask> :)",
            [(" délicieux", 0.49091), (" excellent", 0.10557), (" succulent", 0.03453)],
        ),
        (
            "gottbert-base",
            "Gott ist <mask> ! :)",
            [(" gut", 0.36421), (" überall", 0.06010), (" großartig", 0.03707)],
        ),
    ],
)
def test_camembert_and_gottbert_fill_masks(
    name: str, text: str, wanted: list[tuple[str, float]]
) -> None:
    """fairseq, examples/{camembert,gottbert}/README.md."""
    found = load(name).fill_mask(text, topk=3)
    assert [word for _, _, word in found] == [word for word, _ in wanted]
    assert [p for _, p, _ in found] == pytest.approx([p for _, p in wanted], abs=2e-3)


def test_camembert_features() -> None:
    camembert = load("camembert-base")
    tokens = camembert.encode("J'aime le camembert !")
    assert tokens.tolist() == [5, 121, 11, 660, 16, 730, 25543, 110, 83, 6]
    layers = camembert.extract_features(tokens, return_all_hiddens=True)
    assert len(layers) == 13 and layers[-1].shape == (1, 10, 768)


def test_alberts_ids_and_shapes() -> None:
    albert = load("albert-base-v2")
    tokens = albert.encode("Paris is a beautiful city")
    assert tokens.tolist() == [2, 1162, 25, 21, 1632, 136, 3]
    assert albert.extract_features(tokens).shape == (1, 7, 768)
    assert albert.features(["Paris is a beautiful city"], pooling="pooler").shape == (1, 768)


def test_berts_ids_and_a_mask() -> None:
    bert = load("google-bert/bert-base-uncased")
    assert bert.encode("Hello world!").tolist() == [101, 7592, 2088, 999, 102]
    ((_, _, word),) = bert.fill_mask("The capital of France is [MASK].", topk=1)
    assert word.strip() == "paris"
    assert load("bert-base-cased").encode("Hello world!").tolist() == [101, 8667, 1362, 106, 102]


def test_electra_smalls_encoders() -> None:
    for part in ("discriminator", "generator"):
        electra = load(f"google/electra-small-{part}")
        tokens = electra.encode("Hello world!")
        assert electra.extract_features(tokens).shape == (1, 5, 256)


def test_spanbert_is_cased_and_says_its_licence() -> None:
    with pytest.warns(roberta_hub.errors.LicenceWarning, match="CC-BY-NC"):
        spanbert = load("spanbert.base.cased")
    assert spanbert.encode("Hello world!").tolist() == [101, 8667, 1362, 106, 102]


def test_minilm_by_name() -> None:
    """The model card's vectors are of length 1; the first numbers are those of its mean vector."""
    minilm = load("sentence-transformers/all-MiniLM-L6-v2")
    (vector,) = minilm.embed(["Hello world!"])
    assert vector.norm().item() == pytest.approx(1.0, abs=1e-5)
    assert vector[:5].tolist() == pytest.approx(
        [-0.0204, 0.0253, -0.0006, 0.0116, -0.0380], abs=2e-4
    )

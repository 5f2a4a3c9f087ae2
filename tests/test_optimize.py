"""RobertaHubInterface.optimize leaves every verb's answers and the weights as they are.

The card says how near int8 is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from parity import peers
from small_models import assert_close, copied, randomise, small_roberta
from torch import nn

from roberta_hub import RobertaConfig, RobertaHubInterface, RobertaModel, load_model
from roberta_hub.fairseq_bridge import to_fairseq
from roberta_hub.model import matrices as quantize
from roberta_hub.text import Dictionary, Task

NLI = ("contradiction", "neutral", "entailment")
TEXTS: list[str | tuple[str, ...]] = [
    "Hello world!",
    "",
    "A longer sentence, with more words than the others have.",
    ("Hello", "world"),
    "can’t 🙂 naïve",
]
needs_int8 = pytest.mark.skipif(not quantize.can_int8(), reason="no VNNI")
needs_bfloat16 = pytest.mark.skipif(not quantize.has_operators("bfloat16"), reason="no bfloat16")


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def _any_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    """int8 and bfloat16 also run where they are slower."""
    monkeypatch.setattr(quantize, "missing_features", lambda dtype: None)


@pytest.fixture(scope="module")
def _made() -> RobertaHubInterface:
    return small_roberta(heads={"mnli": 3, "grade": 1, "topic": 3}, labels={"mnli": NLI})


@pytest.fixture
def plain(_made: RobertaHubInterface) -> RobertaHubInterface:
    return copied(_made)


def answers(roberta: RobertaHubInterface) -> list[torch.Tensor]:
    """What every verb says, as numbers."""
    found = [*roberta.features(TEXTS), roberta.features(TEXTS, layer=1, pooling="mean")]
    found.append(torch.tensor([list(p.scores.values()) for p in roberta.classify(TEXTS, "topic")]))
    found.append(torch.tensor([p.score for p in roberta.classify(TEXTS, head="grade")]))
    found.append(torch.tensor([p.score for p in roberta.zero_shot(["a", "b"], ["x", "y"])]))
    found.append(torch.tensor(roberta.score(["Hello world!", "a b"])))
    found.append(torch.tensor([p for _, p, _ in roberta.fill_mask("the <mask> one", topk=3)]))
    with torch.no_grad():
        ids = roberta.encode("Hello", "world")
        found.append(roberta.predict("mnli", ids))
        found.append(roberta.extract_features(ids))
        found.append(torch.stack(roberta.extract_features(ids, return_all_hiddens=True)))
        found.append(roberta.model(ids.unsqueeze(0))[0])
    return found


@pytest.mark.parametrize(
    "shape",
    [
        {},
        {"normalize_before": True},
        {"embedding_dim": 8},
        {"num_layers": 4, "num_unique_layers": 2},
    ],
    ids=["plain", "prenorm", "factorized", "shared layers"],
)
def test_every_verb_says_what_it_said(shape: dict[str, Any]) -> None:
    roberta = small_roberta(
        heads={"mnli": 3, "grade": 1, "topic": 3}, labels={"mnli": NLI}, **shape
    )
    before = answers(roberta)
    assert roberta.optimize() is roberta
    for ours, wanted in zip(answers(roberta), before, strict=True):
        assert_close(ours, wanted)


@pytest.mark.system
@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [
        pytest.param("int8", 0.1, marks=needs_int8),
        pytest.param("bfloat16", 0.1, marks=needs_bfloat16),
    ],
)
def test_quantized_features_are_near_and_the_same_in_any_batch(
    plain: RobertaHubInterface, dtype: Any, tolerance: float
) -> None:
    own = copied(plain).optimize(dtype)
    together, wanted = own.features(TEXTS), plain.features(TEXTS)
    for text, ours, theirs in zip(TEXTS, together, wanted, strict=True):
        assert_close(ours, theirs, tolerance)
        assert not torch.equal(ours, theirs)
        assert_close(own.features([text])[0], ours)
    assert_close(
        own.features(TEXTS, pooling="cls"), plain.features(TEXTS, pooling="cls"), tolerance
    )


@pytest.mark.system
def test_float32_at_the_size_of_base_within_2e_5() -> None:
    config = RobertaConfig()
    model = RobertaModel(config)
    roberta = RobertaHubInterface(config, Task(Dictionary.roberta()), model).eval()
    before = roberta.features(TEXTS)
    for ours, wanted in zip(roberta.optimize().features(TEXTS), before, strict=True):
        assert (ours - wanted).abs().max() < 2e-5
    assert roberta.optimized is not None and roberta.optimized.error < 2e-5


@pytest.mark.system
@needs_int8
@pytest.mark.parametrize("dtype", [None, "int8"])
@pytest.mark.parametrize("format", ["roberta_hub", "fairseq", "huggingface"])
def test_saving_saves_the_weights(
    plain: RobertaHubInterface, format: Any, dtype: Any, tmp_path: Path
) -> None:
    plain.save(tmp_path / "plain", format, head="mnli")
    own = copied(plain).optimize(dtype)
    own.features(TEXTS)
    own.save(tmp_path / "own", format, head="mnli")
    ours, wanted = (load_model(str(tmp_path / name)).model for name in ("own", "plain"))
    for (name, tensor), other in zip(
        ours.state_dict().items(), wanted.state_dict().values(), strict=True
    ):
        assert torch.equal(tensor, other), name


@pytest.mark.parametrize("dtype", [None, pytest.param("int8", marks=needs_int8)])
def test_training_goes_on(plain: RobertaHubInterface, dtype: Any) -> None:
    """An optimized model trains to the same weights, and its answers follow."""
    own = copied(plain).optimize(dtype)
    ids = own.encode("Hello world!")
    for roberta in (plain, own):
        roberta.train()
        torch.manual_seed(0)
        optimizer = torch.optim.SGD(roberta.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            roberta.model(ids.unsqueeze(0), classification_head_name="mnli")[0][
                0, 1
            ].neg().backward()
            optimizer.step()
            roberta.eval().classify(TEXTS, "topic")  # validation between steps
            roberta.train()
        roberta.eval()
    for ours, wanted in zip(own.parameters(), plain.parameters(), strict=True):
        assert torch.equal(ours, wanted)
    tolerance = 1e-5 if dtype is None else 0.1
    for ours, wanted in zip(own.features(TEXTS), plain.features(TEXTS), strict=True):
        assert_close(ours, wanted, tolerance)


def test_gradients_flow_where_they_are_asked_for(plain: RobertaHubInterface) -> None:
    features = plain.optimize().extract_features(plain.encode("Hello"))
    features.sum().backward()
    assert plain.model.encoder.sentence_encoder.layers[0].fc1.weight.grad is not None  # type: ignore[union-attr, index]


@needs_int8
def test_the_card_says_how_near(plain: RobertaHubInterface) -> None:
    assert "optimized" not in repr(plain)
    plain.optimize("int8")
    assert plain.optimized is not None
    found = re.search(
        r"optimized +int8: least cosine (0\.\d+), largest error (\S+) dev", repr(plain)
    )
    assert found is not None and 0.9 < float(found[1]) <= 1 and 0 < float(found[2]) < 1
    assert "optimized" in repr(copied(plain))
    assert re.search("optimized +float32, prepacked", repr(plain.optimize()))


@needs_int8
def test_the_accuracy_is_that_of_these_weights(plain: RobertaHubInterface) -> None:
    """Outlier channels cost accuracy, and show.

    Real models have them and random ones have not.
    """
    plain.optimize("int8")
    assert plain.optimized is not None
    without = plain.optimized.cosine
    with torch.no_grad():
        for layer in plain.model.encoder.sentence_encoder.layers:  # type: ignore[union-attr]
            layer.final_layer_norm.weight[3] *= 50  # type: ignore[union-attr, index, operator]
    plain.optimize("int8")
    assert plain.optimized.cosine < without


def test_modes_are_kept(plain: RobertaHubInterface) -> None:
    plain.train()
    plain.model.encoder.eval()  # type: ignore[union-attr]
    before = [module.training for module in plain.modules()]
    plain.optimize()
    assert [module.training for module in plain.modules()] == before


def test_a_model_without_an_lm_head() -> None:
    roberta = small_roberta()
    roberta.model.encoder.lm_head = None  # type: ignore[union-attr]
    before = roberta.features(TEXTS)
    for ours, wanted in zip(roberta.optimize().features(TEXTS), before, strict=True):
        assert_close(ours, wanted)


def test_outputs_longer_than_the_model_are_no_matter() -> None:
    small_roberta(max_positions=8).optimize()


def cast(roberta: RobertaHubInterface) -> None:
    roberta.half()


def other_weights(roberta: RobertaHubInterface) -> None:
    randomise(roberta.model, seed=9)


@pytest.mark.parametrize("change", [cast, other_weights], ids=lambda f: f.__name__)
def test_changes_after_it_are_followed(
    plain: RobertaHubInterface, change: Callable[[RobertaHubInterface], None]
) -> None:
    own = copied(plain).optimize()
    for roberta in (plain, own):
        change(roberta)
    for ours, wanted in zip(own.features(TEXTS), plain.features(TEXTS), strict=True):
        assert ours.dtype is wanted.dtype
        assert_close(ours.float(), wanted.float(), 1e-5 if ours.dtype is torch.float32 else 2e-2)


def test_bad_dtypes(plain: RobertaHubInterface) -> None:
    with pytest.raises(ValueError, match="dtype is 'int4'; choose None, 'int8' or 'bfloat16'"):
        plain.optimize("int4")  # type: ignore[arg-type]
    assert plain.optimized is None


def test_layers_with_more_in_them_are_refused(plain: RobertaHubInterface) -> None:
    layer = plain.model.encoder.sentence_encoder.layers[0]  # type: ignore[union-attr, index]
    torch.nn.utils.parametrizations.weight_norm(layer.fc1)  # type: ignore[arg-type]
    before = plain.features(TEXTS)
    with pytest.raises(ValueError, match="adapters, hooks, parametrizations"):
        plain.optimize()
    assert plain.optimized is None
    for ours, wanted in zip(plain.features(TEXTS), before, strict=True):
        assert torch.equal(ours, wanted)


def test_other_models_are_refused() -> None:
    class Theirs(nn.Module):
        def max_positions(self) -> int:
            return 48

    roberta = RobertaHubInterface(None, Task(Dictionary.roberta()), Theirs())
    with pytest.raises(TypeError, match=r"Theirs; turn it into ours with .*from_fairseq"):
        roberta.optimize()


@peers.needs_fairseq
def test_a_real_fairseq_model_is_refused() -> None:
    theirs = to_fairseq(small_roberta().model)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="from_fairseq"):
        RobertaHubInterface(None, Task(Dictionary.roberta()), theirs).optimize()


def test_without_the_operators_everything_still_runs(
    plain: RobertaHubInterface, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = answers(plain)
    monkeypatch.setattr(quantize, "has_operators", lambda what: False)
    for ours, wanted in zip(answers(plain.optimize()), before, strict=True):
        assert_close(ours, wanted)
    with pytest.raises(ValueError, match="torch has no int8"):
        plain.optimize("int8")

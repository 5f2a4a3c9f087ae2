"""A head that reads the mean of all tokens answers the same by every way through the model.

So does one that reads it at length 1.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from parity import peers
from small_models import PAD, assert_close, randomise, small_model, small_roberta
from torch import Tensor

from roberta_hub import RobertaHubInterface, RobertaModel, collate_tokens
from roberta_hub.errors import InputError, InputTypeError
from roberta_hub.export.check import answer_packed
from roberta_hub.export.graph import ExportedAnswer, Graph
from roberta_hub.fairseq_bridge import from_fairseq, to_fairseq
from roberta_hub.model import matrices
from roberta_hub.model.packing import pack, pack_sequences
from roberta_hub.train.config import Config
from roberta_hub.train.run import make_model
from roberta_hub.train.tasks.features import head_logits
from roberta_hub.train.tasks.training_task import Batch

TEXTS: list[str | tuple[str, ...]] = [
    "Hello world!",
    "",
    "A longer sentence, with more words than the others have.",
    ("Hello", "world"),
    "Hello world!",
    "can’t 🙂 naïve </s> <mask>",
]
LONG = " ".join(f"word {i} of many;" for i in range(20))
"""More than twice the 48 tokens of the small model."""


either = {"params": [False, True], "ids": ["as it is", "of length 1"]}


@pytest.fixture(scope="module", **either)
def model(request: pytest.FixtureRequest) -> RobertaModel:
    made = small_model(dropout=0.0)
    made.register_classification_head("topic", 3, pooling="mean", normalize=request.param)
    made.register_classification_head("first", 3)
    randomise(made.classification_heads, 3, 0.5)
    return made.eval()


@pytest.fixture(**either)
def roberta(request: pytest.FixtureRequest) -> RobertaHubInterface:
    made = small_roberta(dropout=0.0)
    labels, normalize = ["art", "news", "sport"], request.param
    made.register_classification_head("topic", labels=labels, pooling="mean", normalize=normalize)
    randomise(made.model.classification_heads, 3, 0.5)
    return made.eval()


def by_hand(model: RobertaModel, ids: Tensor, head: str = "topic") -> Tensor:
    """Logits of one sequence without padding, (T,) -> (K,), by the definition."""
    states = model(ids.unsqueeze(0), features_only=True)[0][0]
    vector = states.mean(0) if head == "topic" else states[0]
    module = model.classification_heads[head]
    vector = F.normalize(vector, dim=0) if module.normalize else vector
    return module.out_proj(torch.tanh(module.dense(vector)))


sequences = st.lists(st.lists(st.integers(2, 59), min_size=1, max_size=20), min_size=1, max_size=6)


@pytest.mark.system
@settings(max_examples=30)
@given(rows=sequences, left=st.booleans())
def test_packed_padded_traced_and_exported_are_the_definition(
    model: RobertaModel, rows: list[list[int]], left: bool
) -> None:
    ids = [torch.tensor(row) for row in rows]
    tokens = collate_tokens(ids, left_pad=left)
    with torch.no_grad():
        wanted = torch.stack([by_hand(model, row) for row in ids])
        found = model(tokens, classification_head_name="topic")[0]
        batch = Batch(pack_sequences(ids, padding_idx=PAD), {}, len(ids))
        trained = head_logits(model, batch, "topic")
        answer = ExportedAnswer("classification", "topic")
        mask = tokens.ne(PAD).long()
        exported = Graph(model, answer)(tokens.masked_fill(mask.eq(0), 7), mask)[0]
        checked = answer_packed(model, answer, tokens)[0]
        first = head_logits(model, batch, "first")
        assert_close(first, torch.stack([by_hand(model, row, "first") for row in ids]))
    for ours in (found, trained, exported, checked):
        assert_close(ours, wanted)


def test_rows_of_padding_are_zeros_before_the_head(model: RobertaModel) -> None:
    tokens = torch.tensor([[1, 1, 1], [0, 9, 2], [1, 1, 1], [0, 2, 1]])
    head = model.classification_heads["topic"]
    with torch.no_grad():
        wanted = head(torch.zeros(1, 1, 16))[0]
        for logits in (
            model(tokens, classification_head_name="topic")[0],
            answer_packed(model, ExportedAnswer("classification", "topic"), tokens)[0],
        ):
            assert_close(logits[0], wanted)
            assert_close(logits[2], wanted)
            assert_close(logits[3], by_hand(model, torch.tensor([0, 2])))
    nothing = pack(torch.full((2, 3), PAD), padding_idx=PAD)
    assert not nothing.mean_rows(torch.empty(0, 4)).any()


def test_gradients_are_those_of_the_padded_form(model: RobertaModel) -> None:
    ids = [torch.tensor([0, 5, 6, 7, 2]), torch.tensor([0, 2]), torch.tensor([0, 9, 2])]
    batch = Batch(pack_sequences(ids, padding_idx=PAD), {}, len(ids))
    weights = torch.randn(3, 3)
    found = []
    for logits in (
        head_logits(model, batch, "topic"),
        model(collate_tokens(ids), classification_head_name="topic")[0],
    ):
        model.zero_grad()
        (logits * weights).sum().backward()
        found.append({n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None})
    model.zero_grad()
    assert found[0].keys() == found[1].keys()
    for name, gradient in found[0].items():
        assert_close(gradient, found[1][name])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_a_mean_keeps_the_dtype(dtype: torch.dtype) -> None:
    batch = pack_sequences([torch.arange(3), torch.arange(9)], padding_idx=PAD)
    rows = torch.randn(12, 4, dtype=dtype)
    means = batch.mean_rows(rows)
    assert means.dtype == dtype
    wanted = torch.stack([rows[:3].double().mean(0), rows[3:].double().mean(0)])
    torch.testing.assert_close(means, wanted.to(dtype))


@pytest.mark.parametrize("batch_tokens", [None, 9])
def test_verbs_answer_a_batch_as_its_singles(
    roberta: RobertaHubInterface, batch_tokens: int | None
) -> None:
    found = roberta.classify(TEXTS, batch_tokens=batch_tokens)
    assert len({round(p.score, 4) for p in found}) > 3  # the head tells texts apart
    vectors = roberta.features(TEXTS, pooling="mean")
    head = roberta.model.classification_heads["topic"]
    for i, (text, prediction) in enumerate(zip(TEXTS, found, strict=True)):
        ids = roberta.encode(*((text,) if isinstance(text, str) else text))
        with torch.no_grad():
            assert_close(
                roberta.predict("topic", ids, return_logits=True)[0],
                head(vectors[i].view(1, 1, -1))[0],
            )
            wanted = roberta.predict("topic", ids)[0].exp().tolist()
        labels = roberta.head_labels("topic")
        assert dict(prediction.scores) == pytest.approx(
            dict(zip(labels, wanted, strict=True)), abs=1e-5
        )
        alone = roberta.classify([text])[0]
        assert dict(alone.scores) == pytest.approx(dict(prediction.scores), abs=1e-5)


def test_windows_vote_each_with_its_own_mean(roberta: RobertaHubInterface) -> None:
    ids, room, stride = roberta.encode(LONG), 46, 6
    inner = ids[1:-1]
    starts = [*range(0, len(inner) - room, room - stride), len(inner) - room]
    with torch.no_grad():
        votes = [
            roberta.predict("topic", torch.cat([ids[:1], inner[s : s + room], ids[-1:]]))[0].exp()
            for s in starts
        ]
    (found,) = roberta.classify([LONG], stride=stride)
    wanted = torch.stack(votes).mean(0).tolist()
    assert [found.scores[label] for label in ("art", "news", "sport")] == pytest.approx(
        wanted, abs=1e-5
    )


def scores(roberta: RobertaHubInterface) -> Tensor:
    labels = roberta.head_labels("topic")
    return torch.tensor([[p.scores[label] for label in labels] for p in roberta.classify(TEXTS)])


@pytest.mark.parametrize(
    "shape",
    [{}, {"normalize_before": True}, {"embedding_dim": 8}, {"num_layers": 1}],
    ids=["plain", "prenorm", "factorized", "one layer"],
)
def test_optimized(shape: dict[str, Any]) -> None:
    roberta = small_roberta(dropout=0.0, **shape)
    roberta.register_classification_head("topic", 3, pooling="mean")
    randomise(roberta.model.classification_heads, 3, 0.5)
    before = scores(roberta.eval())
    assert_close(scores(roberta.optimize()), before)


@pytest.mark.parametrize("dtype", ["int8", "bfloat16"])
def test_quantized(
    roberta: RobertaHubInterface, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not (matrices.can_int8() if dtype == "int8" else matrices.has_operators(dtype)):
        pytest.skip(f"no {dtype} here")
    monkeypatch.setattr(matrices, "missing_features", lambda dtype: None)
    before = scores(roberta)
    assert_close(scores(roberta.optimize(dtype)), before, 0.1)


def test_every_verb_that_asks_a_head_reads_the_mean(roberta: RobertaHubInterface) -> None:
    nli = ["contradiction", "neutral", "entailment"]
    roberta.register_classification_head("nli", labels=nli, pooling="mean")
    roberta.register_classification_head("race", 1, pooling="mean")
    randomise(roberta.model.classification_heads, 5, 0.5)
    with torch.no_grad():
        pair = roberta.encode("Hello", "This example is art.")
        logits = roberta.predict("nli", pair, return_logits=True)[0]
        found = roberta.zero_shot("Hello", ["art"], head="nli", multi_label=True)
        assert found.score == pytest.approx(float((logits[2] - logits[0]).sigmoid()), abs=1e-5)
        own = [
            float(roberta.predict("race", roberta.encode("Where?", option), return_logits=True))
            for option in ("in water", "in trees")
        ]
        wanted = torch.tensor(own).softmax(0).tolist()
        chosen = roberta.choose("Where?", ["in water", "in trees"], "race").scores
        assert [chosen["in water"], chosen["in trees"]] == pytest.approx(wanted, abs=1e-5)
        shown = roberta.explain("Hello world!", "topic").to_dict()
        assert shown["score"] == pytest.approx(roberta.classify("Hello world!", "topic").score)
        without = roberta.predict("topic", roberta.encode(" world!"))[0].exp()
        at = roberta.head_labels("topic").index(shown["label"])
        assert shown["words"][0]["contribution"] == pytest.approx(
            shown["score"] - float(without[at]), abs=1e-2
        )


@pytest.mark.system
def test_torch_compiles_and_exports_the_models_own_forward(model: RobertaModel) -> None:
    tokens = torch.tensor([[0, 5, 6, 2, 1, 1], [0, 9, 9, 9, 9, 2]])
    wanted = model(tokens, classification_head_name="topic")[0]
    program = torch.export.export(
        model, (tokens,), {"classification_head_name": "topic"}, strict=False
    )
    assert_close(program.module()(tokens, classification_head_name="topic")[0], wanted)


def test_a_changed_architecture_keeps_the_pooling(tmp_path: Any) -> None:
    roberta = small_roberta()
    roberta.register_classification_head("topic", 3, pooling="mean", normalize=True)
    roberta.save(tmp_path / "it")
    config = dataclasses.replace(
        Config(), model=str(tmp_path / "it"), architecture={"dropout": 0.3}
    )
    again = make_model(config)
    assert again.model.config.dropout == 0.3
    head = again.model.classification_heads["topic"]
    assert (head.pooling, head.normalize) == ("mean", True)


@pytest.mark.parametrize("pooling", ["max", "pooler", None, 5, ["mean"], ""])
def test_poolings_that_cannot_be(pooling: Any) -> None:
    roberta = small_roberta()
    with pytest.raises(InputError, match=r"head 'topic': pooling is .*; choose 'cls', .* 'mean'"):
        roberta.register_classification_head("topic", 2, pooling=pooling)
    assert roberta.model.list_heads() == "none"


@pytest.mark.parametrize("normalize", [None, 1, "yes", []])
def test_normalize_is_true_or_false(normalize: Any) -> None:
    roberta = small_roberta()
    with pytest.raises(InputError, match=r"head 'topic': normalize is .*; give True or False"):
        roberta.register_classification_head("topic", 2, normalize=normalize)
    assert roberta.model.list_heads() == "none"


def test_a_unit_vector_has_no_length(roberta: RobertaHubInterface) -> None:
    head = roberta.model.classification_heads["topic"]
    vectors = torch.randn(5, 1, head.dense.in_features)
    with torch.no_grad():
        same = torch.allclose(head(vectors), head(3 * vectors), atol=1e-5)
        assert same is head.normalize
        assert head(torch.zeros_like(vectors)).isfinite().all()


@peers.needs_fairseq
def test_fairseqs_own_model_reads_the_first_token() -> None:
    theirs = to_fairseq(small_roberta(heads={"topic": 2}))
    ours = RobertaHubInterface(None, theirs.task, theirs.model, bpe=theirs.bpe)
    with pytest.raises(InputTypeError, match=r"pooling='mean' is for heads of .*from_fairseq"):
        ours.register_classification_head("mood", 2, pooling="mean")
    with pytest.raises(InputTypeError, match=r"normalize=True is for heads of .*from_fairseq"):
        ours.register_classification_head("mood", 2, normalize=True)
    ours.register_classification_head("mood", 2, kind="multi_label")
    assert ours.kinds == {"mood": "multi_label"}
    assert from_fairseq(theirs).classify("Hello", "topic").label == (
        ours.eval().classify("Hello", "topic").label
    )

"""Dtypes, modes and shapes of the model's public `forward`, as fairseq's users call it."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from small_models import PAD, assert_close, small_model
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from roberta_hub import RobertaConfig, RobertaModel
from roberta_hub.model.activations import ACTIVATIONS

RIGHT = torch.tensor([[0, 5, 6, 7, 2], [0, 9, 2, 1, 1], [1, 1, 1, 1, 1]])
LEFT = torch.tensor([[0, 5, 6, 7, 2], [1, 1, 0, 9, 2], [1, 1, 1, 1, 1]])
REAL = RIGHT.ne(PAD)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.uint8, torch.int8])
def test_ids_of_any_integer_type(dtype: torch.dtype) -> None:
    model = small_model(heads={"topic": 2})
    for arguments in ({}, {"features_only": True}, {"classification_head_name": "topic"}):
        ours = model(RIGHT.to(dtype), **arguments)[0]
        assert torch.equal(ours, model(RIGHT, **arguments)[0])


@pytest.mark.parametrize(
    "tokens",
    [
        RIGHT.float(),
        RIGHT.bool(),
        RIGHT.unsqueeze(0),
        torch.tensor(0),
        RIGHT[:, :0],
        RIGHT.repeat(1, 9),
    ],
    ids=["float", "bool", "3-D", "0-D", "no columns", "too long"],
)
def test_unusable_ids_are_refused(tokens: Tensor) -> None:
    with pytest.raises((ValueError, TypeError)):
        small_model()(tokens)


@pytest.mark.parametrize(("bad", "where"), [(-1, "row 1, position 3"), (60, "row 1, position 3")])
def test_an_id_outside_the_vocabulary_is_named(bad: int, where: str) -> None:
    tokens = RIGHT.clone()
    tokens[1, 3] = bad
    with pytest.raises(ValueError, match=rf"{bad} at {where}.*0\.\.59"):
        small_model()(tokens)


@pytest.mark.parametrize("tokens", [RIGHT, LEFT], ids=["right", "left"])
def test_masked_tokens_select_logits(tokens: Tensor) -> None:
    model = small_model()
    masked = tokens.eq(9) | tokens.eq(6)
    logits = model(tokens)[0]
    assert logits.shape == (3, 5, 60)
    assert_close(model(tokens, masked_tokens=masked)[0], logits[masked])
    assert model(tokens, masked_tokens=torch.zeros_like(masked))[0].shape == (0, 60)
    one = model(tokens[0], masked_tokens=masked[:1])[0]  # ids without a dimension of the batch
    assert_close(one, logits[:1][masked[:1]])


def test_all_hiddens_are_time_first_and_end_in_the_features() -> None:
    model = small_model()
    features, extra = model(RIGHT, features_only=True, return_all_hiddens=True)
    states = extra["inner_states"]
    assert len(states) == 4 and {tuple(s.shape) for s in states} == {(5, 3, 16)}
    assert torch.equal(states[-1].transpose(0, 1), features)
    assert model(RIGHT, features_only=True)[1] == {"inner_states": None}


def test_prenorm_features_have_one_norm_more_than_the_last_state() -> None:
    model = small_model(normalize_before=True)
    features, extra = model(RIGHT, features_only=True, return_all_hiddens=True)
    last = extra["inner_states"][-1].transpose(0, 1)
    normed = model.encoder.sentence_encoder.layer_norm(last)
    assert_close(features[REAL], normed[REAL])
    assert not torch.allclose(features[REAL], last[REAL])
    assert not features[~REAL].any()


@pytest.mark.parametrize("tokens", [RIGHT, LEFT], ids=["right", "left"])
def test_a_head_reads_the_first_real_token(tokens: Tensor) -> None:
    model = small_model(heads={"topic": 3}).eval()
    answers = model(tokens, classification_head_name="topic")[0]
    assert answers.shape == (3, 3) and answers.isfinite().all()
    head = model.classification_heads["topic"]
    features = model(RIGHT, features_only=True)[0]
    assert_close(answers, head(features))
    with pytest.raises(KeyError, match="no classification head 'other'; this model has topic"):
        model(tokens, classification_head_name="other")


def test_token_embeddings_replace_the_lookup() -> None:
    for overrides in ({}, {"embedding_dim": 8}):
        model = small_model(**overrides)
        encoder = model.encoder.sentence_encoder
        own = encoder.embed_tokens(LEFT)
        if encoder.embed_projection is not None:
            own = encoder.embed_projection(own)
        wanted = model.encoder.extract_features(LEFT)[0]
        assert_close(model.encoder.extract_features(LEFT, token_embeddings=own)[0], wanted)
        leaf = own.detach().requires_grad_()
        other = model.encoder.extract_features(LEFT, token_embeddings=leaf)[0]
        other.square().sum().backward()
        assert leaf.grad is not None
        assert leaf.grad[LEFT.ne(PAD)].abs().sum(-1).min() > 0
        assert not leaf.grad[LEFT.eq(PAD)].any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_near_full(dtype: torch.dtype) -> None:
    model = small_model(heads={"topic": 2}).eval()
    wanted = model(RIGHT)[0]
    half = copy.deepcopy(model).to(dtype)
    assert half(RIGHT)[0].dtype is dtype
    tolerance = {torch.float16: 1e-2, torch.bfloat16: 6e-2}[dtype]
    assert_close(half(RIGHT)[0].float(), wanted, tolerance)
    assert half(RIGHT, classification_head_name="topic")[0].dtype is dtype
    half(LEFT, features_only=True)[0].float().square().sum().backward()
    assert all(p.grad.isfinite().all() for p in half.parameters() if p.grad is not None)
    probabilities = half.get_normalized_probs(half(RIGHT), log_probs=False)
    assert probabilities.dtype is torch.float32
    assert_close(probabilities.sum(-1), torch.ones(3, 5))


def test_autocast_is_near_full_precision() -> None:
    model = small_model(heads={"topic": 2})
    with torch.autocast("cpu", dtype=torch.bfloat16):
        features = model(LEFT, features_only=True)[0]
        answers = model(LEFT, classification_head_name="topic")[0]
        features.float().square().mean().backward()
    assert_close(features.float(), model(LEFT, features_only=True)[0], 6e-2)
    assert_close(answers.float(), model(LEFT, classification_head_name="topic")[0], 6e-2)
    assert model.encoder.sentence_encoder.embed_tokens.weight.grad is not None


def test_without_gradients_the_numbers_are_the_same() -> None:
    model = small_model()
    wanted = model(RIGHT)[0]
    with torch.inference_mode():
        assert torch.equal(model(RIGHT)[0], wanted)
    model.requires_grad_(False)
    plain = model(RIGHT)[0]
    assert torch.equal(plain, wanted) and not plain.requires_grad


def test_a_frozen_trunk_trains_its_head() -> None:
    model = small_model(heads={"topic": 2})
    model.encoder.requires_grad_(False)
    model(RIGHT, classification_head_name="topic")[0].sum().backward()
    assert all(p.grad is not None for p in model.classification_heads.parameters())
    assert all(p.grad is None for p in model.encoder.parameters())


def test_double_backward() -> None:
    """The gradient of a gradient agrees with differences of gradients."""
    model = small_model(num_layers=2).double()
    encoder = model.encoder.sentence_encoder
    own = encoder.embed_tokens(LEFT).detach()

    def slope(x: Tensor) -> Tensor:
        out = model.encoder.extract_features(LEFT, token_embeddings=x)[0]
        return torch.autograd.grad(out.pow(3).sum(), x, create_graph=True)[0].square().sum()

    with sdpa_kernel(SDPBackend.MATH):
        x = own.clone().requires_grad_()
        second = torch.autograd.grad(slope(x), x)[0]
        step = torch.randn(own.shape, generator=torch.Generator().manual_seed(0)).double()
        ahead, behind = (own + sign * 1e-6 * step for sign in (1, -1))
        change = (slope(ahead.requires_grad_()) - slope(behind.requires_grad_())).detach() / 2e-6
    assert float((second * step).sum()) == pytest.approx(float(change), rel=1e-4)
    assert second.abs().max() > 0


def test_dropout_is_drawn_in_training_only() -> None:
    for name in ("dropout", "attention_dropout", "activation_dropout", "pooler_dropout"):
        model = small_model(heads={"topic": 2}, **{name: 0.5})
        call: dict[str, Any] = {"classification_head_name": "topic"}
        assert not torch.equal(model(RIGHT, **call)[0], model(RIGHT, **call)[0]), name
        model.eval()
        assert torch.equal(model(RIGHT, **call)[0], model(RIGHT, **call)[0]), name


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_reach_layers_and_lm_head_and_are_pickled(name: str) -> None:
    model = small_model(activation_fn=name, pooler_activation_fn=name, heads={"topic": 2}).eval()
    encoder = model.encoder.sentence_encoder
    layer, x = encoder.layers[0], torch.randn(4, 16)
    assert_close(layer._feed_forward(x), layer.fc2(ACTIVATIONS[name](layer.fc1(x))))
    twin = pickle.loads(pickle.dumps(model))
    assert torch.equal(twin(RIGHT)[0], model(RIGHT)[0])
    other = small_model(activation_fn="tanh" if name in ("relu", "relu6") else "relu").eval()
    assert not torch.allclose(other(RIGHT)[0], model(RIGHT)[0], atol=1e-3)


def test_activations_are_what_their_names_say() -> None:
    x = torch.linspace(-3, 3, 13)
    wanted = {
        "gelu": x * 0.5 * (1 + torch.erf(x / 2**0.5)),
        "gelu_accurate": 0.5 * x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3))),
        "relu": x.clamp(min=0),
        "relu_squared": x.clamp(min=0) ** 2,
        "tanh": x.tanh(),
        "linear": x,
        "swish": x / (1 + (-x).exp()),
    }
    wanted["gelu_fast"] = wanted["gelu_accurate"]
    wanted |= {
        "quick_gelu": x / (1 + (-1.702 * x).exp()),
        "gelu_10": wanted["gelu"].clamp(-10, 10),
        "mish": x * torch.log1p(x.exp()).tanh(),
        "hardswish": x * (x + 3).clamp(0, 6) / 6,
        "laplace": 0.5 * (1 + torch.erf((x - 0.707107) / (0.282095 * 2**0.5))),
        "leaky_relu": torch.where(x > 0, x, 0.01 * x),
        "relu6": x.clamp(0, 6),
        "sigmoid": 1 / (1 + (-x).exp()),
        "sqrtsoftplus": torch.log1p(x.exp()) ** 0.5,
    }
    assert set(wanted) == set(ACTIVATIONS)
    for name, y in wanted.items():
        assert_close(ACTIVATIONS[name](x), y)
    with pytest.raises(ValueError, match="'gleu'; there are gelu"):
        small_model(activation_fn="gleu")


def test_tied_and_untied_output_matrices() -> None:
    tied, untied = small_model(), small_model(untie_weights=True)
    assert tied.encoder.lm_head is not None and untied.encoder.lm_head is not None
    assert tied.encoder.lm_head.weight is tied.encoder.sentence_encoder.embed_tokens.weight
    assert "encoder.lm_head.weight" in tied.state_dict()
    assert not torch.equal(
        untied.encoder.lm_head.weight, untied.encoder.sentence_encoder.embed_tokens.weight
    )
    twin = small_model(seed=9)
    twin.load_state_dict(tied.state_dict())
    twin.tie_weights()
    assert torch.equal(twin(RIGHT)[0], tied(RIGHT)[0])


def test_a_factorized_model_is_one_with_the_product_as_table() -> None:
    model = small_model(embedding_dim=8)
    encoder = model.encoder.sentence_encoder
    whole = small_model(untie_weights=True)
    state = {k: v for k, v in model.state_dict().items() if "embed_projection" not in k}
    assert encoder.embed_projection is not None
    projection = encoder.embed_projection.weight  # (C, E)
    table = state["encoder.sentence_encoder.embed_tokens.weight"] @ projection.T
    state["encoder.sentence_encoder.embed_tokens.weight"] = table
    state["encoder.lm_head.weight"] = table
    whole.load_state_dict(state)
    assert_close(model(LEFT)[0], whole(LEFT)[0])


def test_shared_layers_are_one_layer_applied_repeatedly() -> None:
    shared, whole = small_model(num_layers=4, num_unique_layers=2), small_model(num_layers=4)
    state = shared.state_dict()
    for name, tensor in whole.state_dict().items():
        parts = name.split(".")
        if "layers" in parts:
            place = parts.index("layers") + 1
            parts[place] = str(int(parts[place]) // 2)
        tensor.copy_(state[".".join(parts)])
    assert_close(shared(RIGHT)[0], whole(RIGHT)[0])


def test_spectral_norm_bounds_the_head() -> None:
    model = small_model(spectral_norm_heads=True, heads={"topic": 4})
    for _ in range(50):  # power iterations run in train mode
        model(RIGHT, classification_head_name="topic")
    model.eval()
    head = model.classification_heads["topic"]
    model(RIGHT, classification_head_name="topic")
    assert torch.linalg.matrix_norm(head.out_proj.weight, 2).item() == pytest.approx(1, abs=1e-3)
    assert {"weight_orig", "weight_u", "weight_v"} <= {
        name.split(".")[-1] for name in model.state_dict() if "topic.out_proj" in name
    }


def test_the_initial_weights_are_berts() -> None:
    model = RobertaModel(
        RobertaConfig(vocab_size=600, embed_dim=64, ffn_dim=128, num_layers=2, num_heads=4)
    )
    encoder = model.encoder.sentence_encoder
    assert not encoder.embed_tokens.weight[PAD].any()
    assert not encoder.embed_positions.weight[PAD].any()
    for name, p in encoder.named_parameters():
        if "norm" in name:
            assert torch.equal(p, torch.full_like(p, float(name.endswith("weight")))), name
        elif name.endswith("bias"):
            assert not p.any(), name
        else:
            assert float(p.detach().std()) == pytest.approx(0.02, rel=0.1), name


class Exported(nn.Module):
    """The padded form, as an exporter needs it: tokens in, logits out."""

    def __init__(self, model: RobertaModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor) -> Tensor:
        encoder = self.model.encoder.sentence_encoder
        return self.model.encoder.output_layer(encoder.finish(encoder.padded(tokens)[-1]))


@pytest.mark.system
def test_the_padded_form_is_exported_with_any_batch_and_length() -> None:
    model = small_model(num_layers=2).eval()
    batch, length = torch.export.Dim("batch", max=64), torch.export.Dim("length", max=20)
    program = torch.export.export(
        Exported(model), (RIGHT,), dynamic_shapes={"tokens": {0: batch, 1: length}}
    ).module()
    for tokens in (RIGHT, LEFT[:2, 1:], RIGHT.repeat(3, 3), torch.tensor([[0, 8, 9], [0, 2, 1]])):
        real = tokens.ne(PAD)
        assert_close(program(tokens)[real], model(tokens)[0][real])


def test_get_normalized_probs() -> None:
    model = small_model()
    output = model(RIGHT)
    logs = model.get_normalized_probs(output, log_probs=True, sample={"net_input": None})
    assert_close(logs.exp(), model.get_normalized_probs(output, log_probs=False))
    assert_close(logs.exp().sum(-1), torch.ones(3, 5))


# ---- heads ----


def test_registering_again_warns_where_sizes_change_and_replaces() -> None:
    model = small_model(heads={"topic": 2})
    with pytest.warns(
        UserWarning, match=r"re-registering head 'topic' with num_classes 3 \(prev: 2\)"
    ):
        model.register_classification_head("topic", 3)
    assert model(RIGHT, classification_head_name="topic")[0].shape == (3, 3)
    with pytest.warns(UserWarning, match=r"inner_dim 5 \(prev: 16\)"):
        model.register_classification_head("topic", 3, inner_dim=5)


@pytest.mark.filterwarnings("error")
def test_registering_the_same_sizes_again_is_silent() -> None:
    model = small_model(heads={"topic": 2})
    before = model.classification_heads["topic"]
    model.register_classification_head("topic", 2)
    assert model.classification_heads["topic"] is not before


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "a.b",
        "__init__",
        "__x__",
        "-x",
        "x ",
        "keys",
        "pop",
        "training",
        "forward",
        "\u200d",
        "a\u202eb",
        "x" * 200,
        None,
        3,
    ],
)
def test_names_that_cannot_be_part_of_a_parameters_name(name: Any) -> None:
    model = small_model()
    with pytest.raises(ValueError, match="cannot name a"):
        model.register_classification_head(name, 2)
    assert not len(model.classification_heads)


@pytest.mark.parametrize("classes", [None, 0, -1, 2.0, "2", True])
def test_sizes_that_no_head_can_have(classes: Any) -> None:
    with pytest.raises(ValueError, match=r"head 'topic': num_classes is .*at least 1"):
        small_model().register_classification_head("topic", classes)
    if classes is not None:
        with pytest.raises(ValueError, match=r"head 'topic': inner_dim is .*at least 1"):
            small_model().register_classification_head("topic", 2, inner_dim=classes)


def test_a_head_takes_the_models_mode_and_dtype() -> None:
    model = small_model(pooler_dropout=0.5).to(torch.bfloat16).eval()
    model.register_classification_head("topic", 2)
    head = model.classification_heads["topic"]
    assert not head.training and head.dense.weight.dtype is torch.bfloat16


def test_a_model_without_lm_head_says_so() -> None:
    model = small_model(lm_head=False, heads={"topic": 2})
    assert model(RIGHT, features_only=True)[0].shape == (3, 5, 16)
    assert model(RIGHT, classification_head_name="topic")[0].shape == (3, 2)
    with pytest.raises(ValueError, match=r"no language-model head.*masked-LM checkpoint"):
        model(RIGHT)
    model.tie_weights()  # nothing to tie
    assert not any("lm_head" in name for name in model.state_dict())

"""Each rule of `upgrade.py` and of the readers around it, on dicts as small as the rule allows."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from checkpoints import ENCODER, TABLE, fairseq_state, outputs, small
from torch import Tensor

from roberta_hub import RobertaHubError
from roberta_hub.formats.fairseq import read_state
from roberta_hub.formats.upgrade import (
    count_layers,
    is_post_norm_era,
    is_stale,
    prune,
    upgrade,
)
from roberta_hub.hub import build_model

LAYER = f"{ENCODER}layers."


def keys(*names: str) -> dict[str, Tensor]:
    return {name: torch.full((2, 2), float(i)) for i, name in enumerate(names)}


def read(weights: dict[str, Tensor], args: dict[str, Any] | None = None, **overrides: Any):
    defaults = {"encoder_attention_heads": 2}
    return read_state({"args": {**defaults, **(args or {})}, "model": weights}, "it", overrides)


def features(weights: dict[str, Tensor], **args: Any) -> Tensor:
    model = build_model(read(weights, args)).eval()
    with torch.no_grad():
        return model(torch.tensor([[0, 5, 9, 14, 2]]), features_only=True)[0]


@pytest.mark.parametrize(
    ("rule", "old", "new"),
    [
        ("U1", "decoder.lm_head.bias", "encoder.lm_head.bias"),
        ("U1", "decoder.sentence_encoder.embed_tokens.weight", TABLE),
        ("U1", "encoder.decoder.x", "encoder.decoder.x"),
        ("U2", f"{ENCODER}emb_layer_norm.weight", f"{ENCODER}layernorm_embedding.weight"),
        ("U3", f"{LAYER}7.layer_norms.0.bias", f"{LAYER}7.self_attn_layer_norm.bias"),
        ("U3", f"{LAYER}11.layer_norms.1.weight", f"{LAYER}11.final_layer_norm.weight"),
        (
            "U1-U3",
            "decoder.sentence_encoder.layers.0.layer_norms.0.bias",
            f"{LAYER}0.self_attn_layer_norm.bias",
        ),
    ],
)
def test_names_of_older_files(rule: str, old: str, new: str):
    given = keys(old)
    assert upgrade(given, source="it") == {new: given[old]}, rule
    assert list(given) == [old]  # pure: what was given stays


def test_upgrading_twice_is_upgrading_once():
    weights = keys("decoder.a", f"{LAYER}0.layer_norms.0.bias", f"{ENCODER}emb_layer_norm.bias")
    weights[f"{LAYER}0.self_attn.in_proj_weight"] = torch.randn(6, 2)
    once = upgrade(weights, source="it")
    assert upgrade(once, source="it") == once


@pytest.mark.parametrize(
    "pair",
    [
        ("decoder.a", "encoder.a"),
        (f"{ENCODER}emb_layer_norm.bias", f"{ENCODER}layernorm_embedding.bias"),
        (f"{LAYER}0.self_attn.in_proj_weight", f"{LAYER}0.self_attn.k_proj.weight"),
    ],
)
def test_two_tensors_for_one_place_are_refused(pair: tuple[str, str]):
    weights = {name: torch.zeros(3, 2) for name in pair}
    with pytest.raises(RobertaHubError, match="both"):
        upgrade(weights, source="it")


def test_u4_fused_projections_are_query_key_value_in_this_order():
    for kind, fused in (("weight", torch.arange(24.0).view(12, 2)), ("bias", torch.arange(12.0))):
        split = upgrade({f"{LAYER}0.self_attn.in_proj_{kind}": fused}, source="it")
        for i, part in enumerate("qkv"):
            got = split[f"{LAYER}0.self_attn.{part}_proj.{kind}"]
            assert torch.equal(got, fused[4 * i : 4 * i + 4])


@pytest.mark.parametrize("shape", [(), (0,), (0, 2), (4, 2), (5,)])
def test_u4_what_cannot_be_split_in_three_is_refused(shape: tuple[int, ...]):
    with pytest.raises(RobertaHubError, match="multiple of 3"):
        upgrade({f"{LAYER}0.self_attn.in_proj_weight": torch.zeros(shape)}, source="it")


@pytest.mark.parametrize("version", [None, 1.0, 3.0])
def test_u5_the_version_marker_may_be_missing_or_old(version: float | None):
    """Ours keeps the last LayerNorm of a pre-norm file without version.

    fairseq drops it, and then fails.
    """
    pre_norm = small(normalize_before=True, layernorm_embedding=False)
    weights = {k: v for k, v in pre_norm.model.state_dict().items() if not k.endswith(".version")}
    if version is not None:
        weights[f"{ENCODER}version"] = torch.tensor([version])
    checkpoint = read(weights, {"arch": "roberta_prenorm"})
    assert checkpoint.config.normalize_before
    assert checkpoint.weights[f"{ENCODER}version"].tolist() == [3.0]
    got = features(weights, arch="roberta_prenorm")
    torch.testing.assert_close(got, outputs(pre_norm)[0][:1], rtol=0, atol=1e-6)


def test_u6_and_u7_heads_are_what_the_file_has():
    roberta = small(heads={"mnli": "abc", "sst-2": "ab"})
    roberta.model.register_classification_head("wide", num_classes=1, inner_dim=5)
    checkpoint = read(dict(roberta.model.state_dict()))
    assert checkpoint.heads() == {"mnli": (3, 8), "sst-2": (2, 8), "wide": (1, 5)}
    assert set(build_model(checkpoint).classification_heads) == {"mnli", "sst-2", "wide"}
    assert read(dict(small().model.state_dict())).heads() == {}


def test_u8_data2vec_loses_its_teacher():
    weights = keys("encoder._ema.x", "encoder.regression_head.0.weight", "encoder.regression", "x")
    assert set(upgrade(weights, source="it")) == {"encoder.regression", "x"}
    model = dict(small().model.state_dict())
    plain = {name: t for name, t in model.items() if not name.startswith("encoder.lm_head.")}
    plain |= {"encoder._ema": torch.zeros(3), "encoder.regression_head.0.bias": torch.zeros(3)}
    checkpoint = read(plain)
    assert not checkpoint.config.lm_head
    torch.testing.assert_close(features(plain), features(model), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("keep", "order"), [("0,2", [0, 2]), ("2,0", [0, 2]), ("1", [1]), ("2,2,1", [1, 2])]
)
def test_u9_kept_layers_are_numbered_anew_in_ascending_order(keep: str, order: list[int]):
    weights = {**keys(*(f"{LAYER}{i}.fc1.bias" for i in range(3))), "encoder.x": torch.zeros(1)}
    pruned = prune(weights, [int(i) for i in keep.split(",")], "it")
    assert count_layers(pruned) == len(order)
    for new, old in enumerate(order):
        assert pruned[f"{LAYER}{new}.fc1.bias"] is weights[f"{LAYER}{old}.fc1.bias"]
    assert "encoder.x" in pruned


@pytest.mark.parametrize("keep", [[], [3], [-1], [0, 10**9]])
def test_u9_layers_that_are_not_there(keep: list[int]):
    weights = keys(*(f"{LAYER}{i}.fc1.bias" for i in range(3)))
    with pytest.raises(RobertaHubError, match=r"layers 0\.\.2"):
        prune(weights, keep, "it")


def test_u9_a_file_saved_after_pruning_is_not_pruned_again():
    model = small(num_layers=2).model.state_dict()
    for layers in ("0,1", "0,3", [1, 5]):
        assert read(dict(model), {"encoder_layers_to_keep": layers}).config.num_layers == 2
    assert read(dict(model), {}, encoder_layers_to_keep="1").config.num_layers == 1


def test_u9_odd_keys_beside_the_layers_stay():
    weights = keys(f"{LAYER}0.fc1.bias", f"{LAYER}x", f"{LAYER}x.y", f"{LAYER}99999.z")
    assert set(prune(weights, [0], "it")) == set(weights)


@pytest.mark.parametrize("name", ["in_proj", "out_proj", "fc1", "fc2"])
@pytest.mark.parametrize("kind", ["weight", "bias"])
def test_u10_stale_copies_are_never_read(name: str, kind: str):
    stale, live = f"{LAYER}3.{name}_{kind}", f"{LAYER}3.self_attn.{name}_{kind}"
    assert is_stale(stale)
    assert not is_stale(live)
    assert not is_stale(stale.replace("_" + kind, "." + kind))
    assert upgrade(keys(stale), source="it") == {}
    model = dict(small().model.state_dict())
    spoiled = {**model, stale.replace("3", "1"): torch.full((24, 8), float("nan"))}
    torch.testing.assert_close(features(spoiled), features(model), rtol=0, atol=0)


def test_u11_spectral_norm_heads_keep_their_raw_matrix():
    roberta = small(heads={"mnli": "abc"}, spectral_norm_heads=True)
    weights = dict(roberta.model.state_dict())
    assert "classification_heads.mnli.out_proj.weight_orig" in weights
    checkpoint = read(weights, {"spectral_norm_classification_head": True})
    assert checkpoint.heads() == {"mnli": (3, 8)}
    model = build_model(checkpoint).eval()
    ids = torch.tensor([[0, 5, 2]])
    with torch.no_grad():
        got = model(ids, classification_head_name="mnli")[0]
        expected = roberta.model(ids, classification_head_name="mnli")[0]
    torch.testing.assert_close(got, expected)


def test_u12_fused_layers_are_split_before_they_are_pruned():
    weights = dict(small(num_layers=3).model.state_dict())
    old = {
        name: t for name, t in weights.items() if ".self_attn." not in name or "out_proj" in name
    }
    for i in range(3):
        for kind in ("weight", "bias"):
            parts = [weights[f"{LAYER}{i}.self_attn.{part}_proj.{kind}"] for part in "qkv"]
            old[f"{LAYER}{i}.self_attn.in_proj_{kind}"] = torch.cat(parts)
    got = read(old, {}, encoder_layers_to_keep="0,2").weights
    expected = read(weights, {}, encoder_layers_to_keep="0,2").weights
    assert set(got) == set(expected)
    for name in got:
        assert torch.equal(got[name], expected[name])


def test_u13_old_files_are_post_norm_whatever_they_say():
    weights = dict(small().model.state_dict())
    old = {name.replace("encoder.", "decoder.", 1): tensor for name, tensor in weights.items()}
    emb = {name.replace("layernorm_embedding", "emb_layer_norm"): t for name, t in weights.items()}
    assert is_post_norm_era(old)
    assert is_post_norm_era(emb)
    assert not is_post_norm_era(weights)
    for file in (old, emb):
        checkpoint = read(file, {"encoder_normalize_before": True})
        assert not checkpoint.config.normalize_before
        got = features(file, encoder_normalize_before=True)
        torch.testing.assert_close(got, features(weights), rtol=0, atol=0)


@pytest.mark.parametrize("tied", ["missing", "the same", "equal", "different"])
def test_the_output_matrix_is_tied(tied: str):
    weights = dict(small().model.state_dict())
    table, name = weights[TABLE], "encoder.lm_head.weight"
    del weights[name]
    if tied != "missing":
        weights[name] = {"the same": table, "equal": table.clone(), "different": table + 1}[tied]
    if tied == "different":
        with pytest.raises(RobertaHubError, match="untie_weights_roberta=True"):
            read(weights)
        untied = build_model(read(weights, {}, untie_weights_roberta=True))
        assert torch.equal(untied.encoder.lm_head.weight, table + 1)
        return
    model = build_model(read(weights))
    assert model.encoder.lm_head.weight is model.encoder.sentence_encoder.embed_tokens.weight


@pytest.mark.parametrize(
    "other", [torch.zeros(3), torch.zeros(16, 8).half(), torch.zeros(16, 8).int()]
)
def test_an_output_matrix_of_another_kind(other: Tensor):
    weights = {**small().model.state_dict(), "encoder.lm_head.weight": other}
    with pytest.raises(RobertaHubError, match="output matrix"):
        read(weights)


def test_sizes_come_from_the_tensors_where_the_arguments_lack_or_lie():
    roberta = small(num_layers=3)
    state = fairseq_state(roberta)
    lying = {  # but for the layers, of which some would be lost without a word
        "encoder_embed_dim": 768,
        "max_positions": 512,
        "arch": "roberta_large",
    }
    for args in ({}, lying):
        config = read(dict(state["model"]), args).config
        assert (config.num_layers, config.embed_dim, config.max_positions) == (3, 8, 12)

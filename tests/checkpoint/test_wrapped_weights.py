"""Weights that wrappers renamed, that others quantized, and fairseq's without their arguments."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoints import fairseq_file, fairseq_state, small
from families import write_family
from safetensors.torch import load_file, save_file
from torch import Tensor

from roberta_hub import RobertaHubInterface, load_model
from roberta_hub.errors import Advice, CheckpointError

KINDS = ["gottbert", "bert", "albert", "electra", "distilbert"]
TEXT = "The dog is in the house."
IDS = torch.tensor([[0, 5, 9, 14, 2]])


def answer(folder: Path, **options: Any) -> Tensor:
    return vectors(load_model(folder, **options))


def vectors(roberta: RobertaHubInterface) -> Tensor:
    with torch.no_grad():
        return roberta.eval().extract_features(roberta.encode(TEXT))


def renamed(folder: Path, front: str = "", inside: str = "") -> None:
    """Put parts in front of the names of a folder's tensors, and before each `attention`."""
    path = folder / "model.safetensors"
    weights = {
        front + name.replace("attention.", f"{inside}attention."): tensor
        for name, tensor in load_file(path).items()
    }
    save_file(weights, path)


@pytest.mark.system
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("head", ["bare", "sentence"])
def test_wrappers_are_taken_off_with_a_note(kind: str, head: Any, tmp_path: Path):
    folder = write_family(kind, tmp_path, head=head)
    wanted = answer(folder)
    for front in ("module.", "model.", "backbone.", "module._orig_mod.", "model.backbone."):
        renamed(folder, front)
        with pytest.warns(Advice, match=front.split(".")[0]):
            assert torch.equal(answer(folder), wanted)
        write_family(kind, folder, head=head)
    renamed(folder, "_fsdp_wrapped_module.", "_fsdp_wrapped_module._checkpoint_wrapped_module.")
    with pytest.warns(Advice, match="_fsdp_wrapped_module"):
        assert torch.equal(answer(folder), wanted)


@pytest.mark.system
def test_real_wrappers(tmp_path: Path):
    transformers = pytest.importorskip("transformers")
    folder = write_family("bert", tmp_path, head="tokens")
    wanted = answer(folder)
    model = transformers.BertForTokenClassification.from_pretrained(folder)
    wrapped = torch.nn.DataParallel(torch.compile(model))
    torch.save(wrapped.state_dict(), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.warns(Advice, match=r"module\. and _orig_mod\. are taken off"):
        assert torch.equal(answer(folder), wanted)
    with pytest.warns(Advice, match="taken off"):  # from our copy too
        assert torch.equal(answer(folder), wanted)


def test_a_head_of_the_users_own_class_is_refused(tmp_path: Path):
    folder = write_family("bert", tmp_path, head="bare")
    renamed(folder, "backbone.")
    weights = load_file(folder / "model.safetensors")
    save_file({**weights, "classifier.weight": torch.ones(3, 32)}, folder / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"in 'backbone\.', and tensor 'classifier\.weight'"):
        load_model(folder)


def test_two_tensors_of_one_name_are_refused(tmp_path: Path):
    folder = write_family("bert", tmp_path, head="bare")
    weights = load_file(folder / "model.safetensors")
    name = "encoder.layer.0.output.dense.bias"
    weights[f"encoder._orig_mod.{name[8:]}"] = torch.ones(32)
    save_file(weights, folder / "model.safetensors")
    with pytest.raises(CheckpointError, match=f"and another tensor are both '{name}'"):
        load_model(folder)


@pytest.mark.parametrize("front", ["module.", "model.", "_orig_mod.", "module.model."])
def test_wrappers_of_fairseq(front: str, tmp_path: Path):
    roberta = small({"mnli": ("a", "b")})
    state = fairseq_state(roberta)
    state["model"] = {front + name: tensor for name, tensor in state["model"].items()}
    state["model"]["_float_tensor"] = torch.zeros(1)  # as its hub interface has
    path = fairseq_file(tmp_path, state)
    for _ in range(2):
        with pytest.warns(Advice, match="taken off the names"):
            again = load_model(path).eval()
        with torch.no_grad():
            wanted = roberta.predict("mnli", IDS)
            # Where a tensor begins in memory changes the last bit of a product.
            torch.testing.assert_close(again.predict("mnli", IDS), wanted, rtol=0, atol=1e-6)


def test_an_old_fairseq_file_in_a_wrapper_is_post_norm(tmp_path: Path):
    state = fairseq_state(small(), encoder_normalize_before=True)
    state["model"] = {
        f"module.decoder{name.removeprefix('encoder')}".replace(
            "layernorm_embedding", "emb_layer_norm"
        ): tensor
        for name, tensor in state["model"].items()
    }
    with pytest.warns(Advice, match="module"):
        roberta = load_model(fairseq_file(tmp_path, state)).eval()
    with torch.no_grad():
        wanted = small().extract_features(IDS)
        assert torch.equal(roberta.extract_features(IDS), wanted)


# ---- quantized ----


@pytest.mark.parametrize(
    ("who", "extra"),
    [
        ("bitsandbytes, in 4 bits", {".weight.quant_state.bitsandbytes__nf4": torch.uint8}),
        ("bitsandbytes, in 4 bits", {".weight.absmax": torch.uint8}),
        ("bitsandbytes, in 8 bits", {".SCB": torch.float32}),
        ("GPTQ", {".qweight": torch.int32, ".g_idx": torch.int32, ".scales": torch.float16}),
        ("AWQ", {".qweight": torch.int32, ".qzeros": torch.int32, ".scales": torch.float16}),
        ("fp8", {".weight": torch.float8_e4m3fn, ".weight_scale": torch.float32}),
        ("compressed-tensors", {".weight_packed": torch.int32}),
    ],
)
def test_quantized_weights_are_named(who: str, extra: dict[str, torch.dtype], tmp_path: Path):
    folder = write_family("bert", tmp_path, head="bare")
    weights = load_file(folder / "model.safetensors")
    layer = "encoder.layer.0.output.dense"
    for end, dtype in extra.items():
        weights[layer + end] = torch.ones(32, 48).to(dtype)
    save_file(weights, folder / "model.safetensors")
    with pytest.raises(CheckpointError, match=f"quantized by {who}[, ].*load the original"):
        load_model(folder)


# ---- fairseq's weights without arguments ----


def bare(folder: Path, roberta: RobertaHubInterface) -> Path:
    return fairseq_file(folder, {"model": dict(roberta.model.state_dict())})


def sized(**sizes: Any) -> RobertaHubInterface:
    return small(**{"vocab_size": 16, "max_positions": 12, **sizes})


def test_heads_that_nobody_says_are_asked_for(tmp_path: Path):
    roberta = sized(embed_dim=128, ffn_dim=64, num_heads=8, num_layers=1)  # not 128 // 64
    path = bare(tmp_path, roberta)
    with pytest.raises(CheckpointError, match=r"load_model\(path, encoder_attention_heads=8"):
        load_model(path)
    again = load_model(path, encoder_attention_heads=8, activation_fn="gelu").eval()
    with torch.no_grad():
        assert torch.equal(again.extract_features(IDS), roberta.extract_features(IDS))
    with pytest.warns(Advice, match="does not say its activation function; gelu is taken"):
        load_model(path, encoder_attention_heads=8)


@pytest.mark.system
@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("distilroberta", {"embed_dim": 768, "ffn_dim": 3072, "num_layers": 6, "num_heads": 12}),
        ("roberta-med-small", {"embed_dim": 512, "ffn_dim": 2048, "num_layers": 6, "num_heads": 8}),
    ],
)
def test_sizes_of_a_published_model_are_its(name: str, sizes: dict[str, int], tmp_path: Path):
    roberta = sized(**sizes)
    path = bare(tmp_path, roberta)
    with pytest.warns(Advice, match=f"those of {name}, .*: {sizes['num_heads']} heads"):
        again = load_model(path).eval()
    with torch.no_grad():
        assert torch.equal(again.extract_features(IDS), roberta.extract_features(IDS))
    other = load_model(path, encoder_attention_heads=4, activation_fn="relu")
    assert (other.model.config.num_heads, other.model.config.activation_fn) == (4, "relu")


@pytest.mark.parametrize(
    ("sizes", "heads"),
    [
        ((768, 3072, 12), 12),
        ((1024, 4096, 24), 16),
        ((2560, 10240, 36), 32),
        ((4096, 16384, 48), 32),
        ((1280, 5120, 16), 16),
    ],
)
def test_heads_of_every_published_size(sizes: tuple[int, int, int], heads: int):
    from roberta_hub.formats.fairseq_arguments import with_published_heads

    width, inside, layers = sizes
    body = "encoder.sentence_encoder."
    with torch.device("meta"):
        weights = {
            f"{body}embed_tokens.weight": torch.empty(9, width),
            f"{body}embed_positions.weight": torch.empty(9, width),
            **{f"{body}layers.{i}.fc1.weight": torch.empty(inside, width) for i in range(layers)},
        }
    with pytest.warns(Advice, match="does not say its number of attention heads"):
        found = with_published_heads({}, weights, {}, "it")
    assert found == {"encoder_attention_heads": heads, "activation_fn": "gelu"}


# ---- SetFit ----


def test_a_setfit_folder_names_its_head_and_the_remedy(tmp_path: Path):
    folder = write_family("minilm", tmp_path)
    wanted = answer(folder)
    (folder / "model_head.pkl").write_bytes(b"\x80\x04N.")
    with pytest.warns(Advice, match=r"model_head\.pkl is SetFit's head.*fit\(rows, model=path\)"):
        assert torch.equal(answer(folder), wanted)
    modules = [("", "Transformer"), ("1_Pooling", "Pooling")]
    kinds = [
        {"idx": i, "name": str(i), "path": at, "type": f"sentence_transformers.models.{kind}"}
        for i, (at, kind) in enumerate(modules)
    ]
    (folder / "modules.json").write_text(json.dumps(kinds))
    (folder / "1_Pooling").mkdir()
    pooling = {"word_embedding_dimension": 32, "pooling_mode_mean_tokens": True}
    (folder / "1_Pooling/config.json").write_text(json.dumps(pooling))
    with pytest.warns(Advice, match="no labels"):
        assert load_model(folder).embed([TEXT]).shape == (1, 32)

"""LoRA adapters: merged, left out, or refused; the sum is done here once more, by its formula."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from families import write_family
from safetensors.torch import load_file, save_file
from small_models import assert_close
from torch import Tensor

from roberta_hub import RobertaHubInterface, load_model
from roberta_hub.errors import CheckpointError, RobertaHubError

TEXT = "The dog is in the house."
PREFIX = "base_model.model."
LAYERS = {
    "gottbert": "roberta.encoder.layer.{}.attention.self.{}",
    "bert": "bert.encoder.layer.{}.attention.self.{}",
    "distilbert": "distilbert.transformer.layer.{}.attention.{}_lin",
    "albert": "albert.encoder.albert_layer_groups.{}.albert_layers.0.attention.{}",
}
NAMES = {"distilbert": ("q", "v")}
BIAS = {"gottbert": "roberta", "bert": "bert"}


def random(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def modules_of(kind: str) -> list[str]:
    layers = 1 if kind == "albert" else 2
    names = NAMES.get(kind, ("query", "value"))
    return [LAYERS[kind].format(i, name) for i in range(layers) for name in names]


def write_adapter(folder: Path, kind: str, base: Path | str, **changes: Any) -> dict[str, Tensor]:
    """Write adapter_config.json and adapter_model.safetensors of rank 4, as peft does."""
    about = {
        "peft_type": "LORA",
        "base_model_name_or_path": str(base),
        "task_type": None,
        "r": 4,
        "lora_alpha": 12,
        "bias": "none",
        "target_modules": ["query", "value"],
        "fan_in_fan_out": False,
        "lora_dropout": 0.1,
        "use_dora": False,
        "use_rslora": False,
        "rank_pattern": {},
        "alpha_pattern": {},
        "modules_to_save": None,
        "init_lora_weights": True,
        **changes,
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "adapter_config.json").write_text(json.dumps(about))
    weights: dict[str, Tensor] = {}
    for i, module in enumerate(modules_of(kind)):
        rank = next((r for end, r in about["rank_pattern"].items() if module.endswith(end)), 4)
        weights[f"{module}.lora_A.weight"] = random(rank, 32, seed=2 * i)
        weights[f"{module}.lora_B.weight"] = random(32, rank, seed=2 * i + 1)
    save_adapter(folder, weights)
    return weights


def save_adapter(folder: Path, weights: dict[str, Tensor]) -> None:
    named = {PREFIX + name: tensor for name, tensor in weights.items()}
    save_file(named, folder / "adapter_model.safetensors")


def summed(base: Path, folder: Path, weights: dict[str, Tensor], factor: Any) -> Path:
    """Write what the base is with the adapter in it, by the formula alone."""
    shutil.copytree(base, folder)
    theirs = load_file(folder / "model.safetensors")
    for name in weights:
        if name.endswith(".lora_A.weight"):
            module = name.removesuffix(".lora_A.weight")
            a, b = weights[name], weights[f"{module}.lora_B.weight"]
            number = factor(module) if callable(factor) else factor
            theirs[f"{module}.weight"] += number * (b @ a)
        elif ".lora_" not in name:
            theirs[name] = weights[name]
    save_file(theirs, folder / "model.safetensors")
    return folder


def vectors(roberta: RobertaHubInterface) -> Tensor:
    with torch.no_grad():
        return roberta.eval().extract_features(roberta.encode(TEXT))


@pytest.mark.parametrize("kind", LAYERS)
def test_alone_and_with_its_base(kind: str, tmp_path: Path):
    base = write_family(kind, tmp_path / "base")
    weights = write_adapter(tmp_path / "adapter", kind, base)
    wanted = vectors(load_model(summed(base, tmp_path / "sum", weights, 12 / 4)))
    plain = vectors(load_model(base))
    assert (wanted - plain).abs().max() > 0.1
    both = shutil.copytree(base, tmp_path / "both")
    write_adapter(both, kind, "somewhere/else")
    for folder in (tmp_path / "adapter", both):
        with pytest.raises(CheckpointError, match=r"holds a LoRA adapter of .*adapter=True merges"):
            load_model(folder)
        assert_close(vectors(load_model(folder, adapter=True)), wanted)
        assert torch.equal(vectors(load_model(folder, adapter=False)), plain)


@pytest.mark.parametrize("bias", ["none", "lora_only"])
def test_peft_in_a_state_dict(bias: str, tmp_path: Path):
    base = write_family("gottbert", tmp_path / "base")
    weights = write_adapter(tmp_path / "live", "gottbert", base, bias=bias)
    theirs = load_file(base / "model.safetensors")
    live = {
        PREFIX + name.replace(".weight", ".base_layer.weight").replace(".bias", ".base_layer.bias")
        if name.rpartition(".")[0] in modules_of("gottbert")
        else PREFIX + name: tensor
        for name, tensor in theirs.items()
    }
    live |= {
        PREFIX + name.replace(".weight", ".default.weight"): tensor
        for name, tensor in weights.items()
    }
    for name in base.iterdir():
        shutil.copy(name, tmp_path / "live")
    (tmp_path / "live/adapter_model.safetensors").unlink()
    save_file(live, tmp_path / "live/model.safetensors")
    wanted = vectors(load_model(summed(base, tmp_path / "sum", weights, 3.0)))
    assert_close(vectors(load_model(tmp_path / "live", adapter=True)), wanted)
    with pytest.raises(CheckpointError, match="LoRA adapter"):
        load_model(tmp_path / "live")
    if bias == "none":
        again = vectors(load_model(tmp_path / "live", adapter=False))
        assert torch.equal(again, vectors(load_model(base)))
    else:
        with pytest.raises(CheckpointError, match="bias is 'lora_only': the biases of the base"):
            load_model(tmp_path / "live", adapter=False)
    (tmp_path / "live/adapter_config.json").unlink()
    for options in ({}, {"adapter": False}):
        with pytest.raises(CheckpointError, match=r"holds no adapter_config\.json"):
            load_model(tmp_path / "live", **options)


@pytest.mark.parametrize(
    ("changes", "factor"),
    [
        ({"use_rslora": True}, 12 / math.sqrt(4)),
        ({"lora_alpha": 3, "r": 4}, 3 / 4),
        ({"fan_in_fan_out": True}, 12 / 4),  # peft takes it as False for a Linear
        (
            {"rank_pattern": {"query": 2}, "alpha_pattern": {"layer.1.attention.self.value": 5}},
            lambda name: 12 / 2 if "query" in name else 5 / 4 if "layer.1." in name else 12 / 4,
        ),
        (
            {"alpha_pattern": {"^query": 5, r"layer\.0\.attention.self.query": 2}},
            lambda name: 2 / 4 if name.endswith("layer.0.attention.self.query") else 12 / 4,
        ),
        ({"bias": "all", "inference_mode": True, "peft_version": "0.21.2"}, 12 / 4),
    ],
)
def test_scaling(changes: dict[str, Any], factor: Any, tmp_path: Path):
    base = write_family("bert", tmp_path / "base")
    weights = write_adapter(tmp_path / "adapter", "bert", base, **changes)
    if changes.get("bias"):
        norm = "bert.encoder.layer.0.output.LayerNorm.bias"
        query = "bert.encoder.layer.1.attention.self.query"
        weights |= {norm: random(32, seed=50), f"{query}.bias": random(32, seed=51)}
        written = {**weights, f"{query}.base_layer.bias": weights[f"{query}.bias"]}
        del written[f"{query}.bias"]
        save_adapter(tmp_path / "adapter", written)
    wanted = vectors(load_model(summed(base, tmp_path / "sum", weights, factor)))
    assert_close(vectors(load_model(tmp_path / "adapter", adapter=True)), wanted)


@pytest.mark.parametrize("kind", ["gottbert", "bert", "distilbert"])
@pytest.mark.parametrize(("task", "head"), [("SEQ_CLS", "sentence"), ("TOKEN_CLS", "tokens")])
def test_a_head_of_the_adapter(kind: str, task: str, head: Any, tmp_path: Path):
    """The base is a masked LM, or a model with another head of the same kind."""
    wanted_folder = write_family(kind, tmp_path / "wanted", head=head, num_labels=2)
    theirs = load_file(wanted_folder / "model.safetensors")
    saved = {n: t for n, t in theirs.items() if n.startswith("classifier.")}
    for begins in ["pretraining" if kind == "bert" else "lm", head]:
        if kind == "distilbert" and begins != head and task == "SEQ_CLS":
            continue  # peft does not save pre_classifier: nobody has it
        base = write_family(kind, tmp_path / f"base-{begins}", head=begins)
        adapter = tmp_path / f"adapter-{begins}"
        weights = write_adapter(adapter, kind, base, task_type=task, modules_to_save=["classifier"])
        save_adapter(adapter, {**weights, **saved})
        body = load_file(base / "model.safetensors")
        full = {n: body.get(n, t) if n not in saved else saved[n] for n, t in theirs.items()}
        target = tmp_path / f"full-{begins}"
        shutil.copytree(wanted_folder, target)
        save_file(full, target / "model.safetensors")
        wanted = load_model(summed(target, tmp_path / f"sum-{begins}", weights, 3.0)).eval()
        merged = load_model(adapter, adapter=True).eval()
        verb = "classify" if task == "SEQ_CLS" else "tag"
        assert [len(labels) for labels in merged.labels.values()] == [2]
        assert merged.labels == wanted.labels
        assert not merged.model.config.lm_head
        if verb == "classify":
            ours, right = merged.predict_proba([TEXT]), wanted.predict_proba([TEXT])
            assert_close(ours, right)
        assert_close(vectors(merged), vectors(wanted))
        assert merged.source.endswith(f"with the adapter {adapter}")


def test_a_head_that_nobody_has_is_refused(tmp_path: Path):
    base = write_family("bert", tmp_path / "base")
    write_adapter(tmp_path / "adapter", "bert", base, task_type="TOKEN_CLS")
    with pytest.raises(CheckpointError, match=r"for 'TOKEN_CLS', and neither it nor .* that head"):
        load_model(tmp_path / "adapter", adapter=True)


def test_labels_of_the_adapters_own_config(tmp_path: Path):
    base = write_family("gottbert", tmp_path / "base")
    adapter = tmp_path / "adapter"
    weights = write_adapter(adapter, "gottbert", base, task_type="TOKEN_CLS")
    head = {"classifier.weight": random(2, 32, seed=7), "classifier.bias": random(2, seed=8)}
    save_adapter(adapter, {**weights, **head})
    (adapter / "config.json").write_text(json.dumps({"id2label": {"0": "O", "1": "B-town"}}))
    roberta = load_model(adapter, adapter=True)
    assert list(roberta.labels.values()) == [("O", "B-town")]


def test_bases_of_our_format_and_of_fairseq(tmp_path: Path):
    base = write_family("gottbert", tmp_path / "base")
    weights = write_adapter(tmp_path / "adapter", "gottbert", base)
    wanted = vectors(load_model(summed(base, tmp_path / "sum", weights, 3.0)))
    for form in ("roberta_hub", "fairseq"):
        load_model(base).save(tmp_path / form, form)
        write_adapter(tmp_path / "adapter", "gottbert", tmp_path / form)
        assert_close(vectors(load_model(tmp_path / "adapter", adapter=True)), wanted)
        write_adapter(tmp_path / form, "gottbert", "x")
        with pytest.raises(CheckpointError, match="LoRA adapter of 'x'"):
            load_model(tmp_path / form)


def test_a_base_of_the_catalogue(tmp_path: Path):
    write_adapter(tmp_path, "gottbert", "roberta.tiny")
    plain = load_model(tmp_path, adapter=False)
    assert plain.source.startswith("roberta.tiny")
    weights = {
        f"roberta.encoder.layer.5.attention.self.query.lora_{part}.weight": random(*shape, seed=i)
        for i, (part, shape) in enumerate({"A": (4, 384), "B": (384, 4)}.items())
    }
    save_adapter(tmp_path, weights)
    merged = load_model(tmp_path, adapter=True)
    name = "encoder.sentence_encoder.layers.5.self_attn.q_proj.weight"
    a, b = weights.values()
    change = merged.model.state_dict()[name] - plain.model.state_dict()[name]
    assert_close(change, 3 * (b @ a), 1e-4)


def test_layers_are_left_out_after_the_sum(tmp_path: Path):
    base = write_family("gottbert", tmp_path / "base")
    weights = write_adapter(tmp_path / "adapter", "gottbert", base)
    options: dict[str, Any] = {"encoder_layers_to_keep": "1", "dropout": 0.25}
    wanted = load_model(summed(base, tmp_path / "sum", weights, 3.0), **options)
    found = load_model(tmp_path / "adapter", adapter=True, **options)
    assert_close(vectors(found), vectors(wanted))
    assert found.model.config.dropout == 0.25


def test_half_precision(tmp_path: Path):
    base = write_family("bert", tmp_path / "base")
    weights = write_adapter(tmp_path / "adapter", "bert", base)
    save_adapter(tmp_path / "adapter", {n: t.half() for n, t in weights.items()})
    halved = {n: t.half().float() for n, t in weights.items()}
    wanted = load_model(summed(base, tmp_path / "sum", halved, 3.0))
    found = load_model(tmp_path / "adapter", adapter=True)
    assert_close(vectors(found), vectors(wanted))
    model = load_model(tmp_path / "adapter", adapter=True, dtype="bfloat16").model
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}


def test_a_sentence_transformers_body(tmp_path: Path):
    base = write_family("minilm", tmp_path / "base")
    weights = write_adapter(tmp_path / "st", "bert", base, task_type="FEATURE_EXTRACTION")
    bare = {name.removeprefix("bert."): tensor for name, tensor in weights.items()}
    save_adapter(tmp_path / "st", bare)
    kinds = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
    modules = [
        {"idx": i, "name": str(i), "path": at, "type": f"sentence_transformers.models.{kind}"}
        for i, (at, kind) in enumerate(kinds)
    ]
    (tmp_path / "st/1_Pooling").mkdir()
    (tmp_path / "st/2_Normalize").mkdir()
    (tmp_path / "st/modules.json").write_text(json.dumps(modules))
    pooling = {"word_embedding_dimension": 32, "pooling_mode_cls_token": True}
    (tmp_path / "st/1_Pooling/config.json").write_text(json.dumps(pooling))
    summed(base, tmp_path / "sum", bare, 3.0)
    states = vectors(load_model(tmp_path / "sum"))[0, 0]
    found = load_model(tmp_path / "st", adapter=True).embed([TEXT])[0]
    assert_close(found, states / states.norm())


# ---- refused by name ----


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"peft_type": "IA3"}, "peft_type is 'IA3'"),
        ({"peft_type": None}, "peft_type is None"),
        ({"use_dora": True}, "use_dora is True"),
        ({"lora_bias": True}, "lora_bias is True"),
        ({"init_lora_weights": "pissa"}, "init_lora_weights 'pissa' changes the base"),
        ({"init_lora_weights": "loftq"}, "init_lora_weights 'loftq'"),
        ({"trainable_token_indices": [1]}, "trainable_token_indices is"),
        ({"target_parameters": ["x"]}, "target_parameters is"),
        ({"layer_replication": [[0, 1]]}, "layer_replication is"),
        ({"alora_invocation_tokens": [5]}, "alora_invocation_tokens is"),
        ({"something_new": 1}, "something_new is 1"),
        ({"task_type": "CAUSAL_LM"}, "task_type is 'CAUSAL_LM'"),
        ({"alpha_pattern": {"(a+)+$": 3}}, r"alpha_pattern has the expression"),
        ({"alpha_pattern": {".*query": 3}}, "alpha_pattern has the expression"),
        ({"lora_alpha": "x"}, "lora_alpha of .* is 'x'"),
        ({"r": 8}, "with r=8; they are not of one model"),
        ({"r": 0}, "r of .* is 0"),
        ({"revision": "v2"}, None),
    ],
)
def test_what_is_no_plain_lora(changes: dict[str, Any], match: str | None, tmp_path: Path):
    base = write_family("bert", tmp_path / "base")
    write_adapter(tmp_path / "adapter", "bert", base, **changes)
    if match is None:  # a folder has no revisions
        assert load_model(tmp_path / "adapter", adapter=True)
        return
    with pytest.raises(CheckpointError, match=match):
        load_model(tmp_path / "adapter", adapter=True)
    assert load_model(tmp_path / "adapter", adapter=False)


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("r", ("4.5", "4.0", '"4"', "true", "null", "-4", "NaN", "Infinity", "1e400", "[4]")),
        ("lora_alpha", ('"12"', "true", "null", "-12", "0", "NaN", "1e400", "1e300", "9" * 400)),
        ("use_rslora", ('"false"', "1", "[]")),
        ("rank_pattern", ('{"no": 4.5}', '{"no": null}', '{"no": true}', "[4]", "0", '"query"')),
        ("alpha_pattern", ('{"no": "4"}', '{"no": -1}', '{"no": [1]}', "[]", "false")),
        ("bias", ('["none"]', "0", "false")),
        ("task_type", ('["SEQ_CLS"]', '{"a": 1}', "5", '""')),
        ("init_lora_weights", ('["gaussian"]', "1", "0")),
        ("target_modules", ("[1, 2]", "5", '{"query": 1}', "[null]")),
        ("modules_to_save", ("[5]", "true")),
        ("layers_to_transform", ('["a"]', "1.5", "[true]")),
        ("lora_dropout", ('"0.1"', "2", "-1", "NaN")),
        ("fan_in_fan_out", ('"false"', "0")),
        ("inference_mode", ("1",)),
        ("auto_mapping", ("[]", '"a"')),
        ("base_model_name_or_path", ("5", "[]", '"a\\u0000b"', '"' + "a" * 5000 + '"')),
        ("revision", ("5", "[]")),
    ],
)
def test_values_that_cannot_be(key: str, values: tuple[str, ...], tmp_path: Path):
    """The file's own text: each is a sentence with the key, and none is merged as another."""
    folder = tmp_path / "adapter"
    write_adapter(folder, "bert", write_family("bert", tmp_path / "base"))
    file = folder / "adapter_config.json"
    about = json.loads(file.read_text())
    for value in values:
        file.write_text(json.dumps({**about, key: "HERE"}).replace('"HERE"', value))
        with pytest.raises(RobertaHubError) as error:
            load_model(folder, adapter=True)
        named = key in ("base_model_name_or_path", "revision")
        assert ("base" if named else f"{key} ") in str(error.value)


@pytest.mark.parametrize(
    ("name", "shape", "match"),
    [
        ("bert.encoder.layer.0.attention.self.query.lora_magnitude_vector", (32,), "not a plain"),
        ("bert.encoder.layer.9.attention.self.query.lora_A.weight", (4, 32), "base does not have"),
        ("bert.encoder.layer.0.attention.self.key.lora_A.weight", (4, 32), "lacks its lora_B"),
        ("bert.embeddings.word_embeddings.lora_embedding_A", (4, 9), "which the LM head shares"),
        ("bert.encoder.layer.0.attention.self.key.lora_A.other.weight", (4, 32), "not a plain"),
    ],
)
def test_tensors_that_have_no_place(name: str, shape: tuple[int, ...], match: str, tmp_path: Path):
    base = write_family("bert", tmp_path / "base")
    weights = write_adapter(tmp_path / "adapter", "bert", base)
    save_adapter(tmp_path / "adapter", {**weights, name: torch.ones(shape)})
    with pytest.raises(CheckpointError, match=match):
        load_model(tmp_path / "adapter", adapter=True)


def test_a_base_that_is_not_here(tmp_path: Path):
    for base, match in (
        ("no-such-base", "'no-such-base' is neither a folder here nor the name of a model"),
        ("", "names no base"),
    ):
        write_adapter(tmp_path, "bert", base)
        for adapter in (True, False):
            with pytest.raises(CheckpointError, match=f"{match}.*into the folder of the base"):
                load_model(tmp_path, adapter=adapter)
    write_adapter(tmp_path, "gottbert", "roberta.tiny", revision="v2")
    with pytest.raises(CheckpointError, match="revision='v2' is one of a model at Hugging Face"):
        load_model(tmp_path, adapter=True)


def test_an_adapter_that_is_not_there(tmp_path: Path):
    base = write_family("bert", tmp_path)
    with pytest.raises(CheckpointError, match=r"holds no adapter_config\.json"):
        load_model(base, adapter=True)
    assert load_model(base, adapter=False)


def test_an_adapter_of_an_adapter(tmp_path: Path):
    base = write_family("bert", tmp_path / "base")
    write_adapter(tmp_path / "first", "bert", base)
    write_adapter(tmp_path / "second", "bert", tmp_path / "first")
    with pytest.raises(CheckpointError, match="first holds a LoRA adapter"):
        load_model(tmp_path / "second", adapter=True)


def test_tokens_that_an_adapter_added(tmp_path: Path):
    """Its folder has the tokenizer and the whole table, as peft saves a table that grew."""
    base = write_family("bert", tmp_path / "base", head="tokens")
    adapter = tmp_path / "adapter"
    weights = write_adapter(adapter, "bert", base, task_type="TOKEN_CLS")
    name = "bert.embeddings.word_embeddings.weight"
    table = load_file(base / "model.safetensors")[name]
    save_adapter(adapter, {**weights, name: torch.cat([table, torch.ones(1, 32)])})
    for file in ("vocab.txt", "tokenizer_config.json"):
        shutil.copy(base / file, adapter / file)
    with open(adapter / "vocab.txt", "a", encoding="utf-8") as file:
        file.write("zebra\n")
    roberta = load_model(adapter, adapter=True)
    assert int(roberta.encode("zebra")[1]) == len(table)
    assert roberta.model.config.vocab_size == len(table) + 1

"""Directories of relatives: old spellings, files that are missing, heads, and what is refused."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoints import small
from safetensors.torch import load_file, save_file

import roberta_hub
from roberta_hub import RobertaConfig, RobertaModel
from roberta_hub.building import build
from roberta_hub.checkpoint.checkpoint import LM_WEIGHT, Checkpoint
from roberta_hub.errors import CheckpointError
from roberta_hub.folder import Folder
from roberta_hub.formats.fairseq import fairseq_state, read_state
from roberta_hub.formats.format import CheckpointSource
from roberta_hub.formats.huggingface import HUGGINGFACE, read_huggingface, write_huggingface
from roberta_hub.formats.ours import read_store, write_store
from roberta_hub.formats.source import resolve

SIZES: dict[str, Any] = {
    **{"vocab_size": 30, "embed_dim": 8, "ffn_dim": 12, "num_layers": 2, "num_heads": 2},
    **{"max_positions": 10, "padding_idx": 0, "num_segments": 2, "separator_idx": 3},
    "layer_norm_eps": 1e-12,
}
ALBERT = {"embedding_dim": 4, "project_sum": True, "num_unique_layers": 1}
KINDS: dict[str, dict[str, Any]] = {
    "bert": {},
    "albert": {**ALBERT, "activation_fn": "gelu_accurate"},
    "electra": {**ALBERT, "num_unique_layers": None, "pooler_activation_fn": "gelu"},
}
IDS = torch.tensor([[2, 7, 3, 9, 3], [2, 8, 3, 0, 0]])


def model_of(family: str, **fields: Any) -> RobertaModel:
    torch.manual_seed(0)
    if family == "electra":
        fields = {"lm_activation_fn": "gelu", **fields}
    model = RobertaModel(RobertaConfig(**{**SIZES, **KINDS[family], **fields}))
    return model.eval()


def checkpoint_of(model: RobertaModel, family: str) -> Checkpoint:
    weights = {name: tensor for name, tensor in model.state_dict().items() if name != LM_WEIGHT}
    return Checkpoint(config=model.config, weights=weights, source="a test", family=family)


def written(folder: Path, family: str = "bert", **fields: Any) -> Path:
    write_huggingface(checkpoint_of(model_of(family, **fields), family), folder, {})
    return folder


def rename(folder: Path, *pairs: tuple[str, str]) -> dict[str, torch.Tensor]:
    """Write the tensors anew, each name with these replacements."""
    weights = {}
    for name, tensor in load_file(folder / "model.safetensors").items():
        for old, new in pairs:
            name = name.replace(old, new)
        weights[name] = tensor.clone()
    (folder / "model.safetensors").unlink()
    save_file(weights, folder / "model.safetensors")
    return weights


def edit(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


# ---- how files are spelt ----


def test_an_archive_of_2019(tmp_path: Path) -> None:
    """`bert_config.json`, no family in it, gamma and beta, half precision in a pickle: SpanBERT."""
    plain = read_huggingface(Folder(written(tmp_path, lm_head=False)))
    weights = rename(tmp_path, ("Norm.weight", "Norm.gamma"), ("Norm.bias", "Norm.beta"))
    (tmp_path / "model.safetensors").unlink()
    torch.save({n: t.half() for n, t in weights.items()}, tmp_path / "pytorch_model.bin")
    about = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").unlink()
    for name in ("model_type", "architectures", "dtype", "pad_token_id", "layer_norm_eps"):
        del about[name]
    (tmp_path / "bert_config.json").write_text(json.dumps(about))
    source = resolve(tmp_path)
    assert source == CheckpointSource(format=HUGGINGFACE, folder=Folder(tmp_path))
    again = read_huggingface(Folder(tmp_path))
    assert again.family == "bert" and again.config == plain.config
    assert {tensor.dtype for tensor in again.weights.values()} == {torch.float32}
    for name, tensor in plain.weights.items():
        torch.testing.assert_close(again.weights[name], tensor, atol=1e-3, rtol=1e-3)
    half = read_huggingface(Folder(tmp_path), torch.float16)
    assert half.weights["encoder.sentence_encoder.embed_tokens.weight"].dtype == torch.float16


def test_bodies_alone_and_buffers(tmp_path: Path) -> None:
    """Without the prefix, and with the ids of positions that older files carry."""
    plain = read_huggingface(Folder(written(tmp_path, lm_head=False)))
    weights = rename(tmp_path, ("bert.", ""))
    weights["embeddings.position_ids"] = torch.arange(10)[None]
    weights["pooler.dense.weight"], weights["pooler.dense.bias"] = torch.eye(8), torch.ones(8)
    (tmp_path / "model.safetensors").unlink()
    save_file(weights, tmp_path / "model.safetensors")
    again = read_huggingface(Folder(tmp_path))
    assert {*again.weights} - {*plain.weights} == {"pooler.dense.weight", "pooler.dense.bias"}
    model = build(again, RobertaModel).eval()
    assert model.pooler is not None
    features = model(IDS, features_only=True)[0]
    assert torch.equal(model.pooler(features[:, 0]), torch.tanh(features[:, 0] + 1))


def test_two_names_of_one_bias(tmp_path: Path) -> None:
    plain = read_huggingface(Folder(written(tmp_path)))
    for name in ("cls.predictions.bias", "cls.predictions.decoder.bias"):
        rename(tmp_path, ("cls.predictions.bias", name))
        again = read_huggingface(Folder(tmp_path))
        bias = "encoder.lm_head.bias"
        assert torch.equal(again.weights[bias], plain.weights[bias])


def test_several_token_types_of_a_roberta_are_said(tmp_path: Path) -> None:
    small().save(tmp_path, "huggingface")
    weights = rename(tmp_path)
    name = "roberta.embeddings.token_type_embeddings.weight"
    weights[name] = torch.randn(2, 8)
    (tmp_path / "model.safetensors").unlink()
    save_file(weights, tmp_path / "model.safetensors")
    with pytest.warns(UserWarning, match="there are 2 token types, and every token gets the first"):
        found = read_huggingface(Folder(tmp_path)).weights[
            "encoder.sentence_encoder.embed_positions.weight"
        ]
    table = weights["roberta.embeddings.position_embeddings.weight"]
    assert torch.equal(found[2:], table[2:] + weights[name][0])


@pytest.mark.parametrize(
    "name", ["tf_model.h5", "bert_model.ckpt.index", "flax_model.msgpack", "saved_model.pb"]
)
@pytest.mark.parametrize("config", ["config.json", "bert_config.json"])
def test_files_of_other_frameworks(tmp_path: Path, name: str, config: str) -> None:
    (tmp_path / config).write_text(json.dumps({"model_type": "bert"}))
    (tmp_path / name).write_bytes(b"x")
    with pytest.raises(CheckpointError, match=rf"{name}.*only TensorFlow or Flax.*google-bert/"):
        roberta_hub.load_model(tmp_path)


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        ({"bert.embeddings.token_type_embeddings.weight": None}, "missing: .*segment_embeddings"),
        ({"bert.embeddings.token_type_embeddings.weight": (2, 9)}, r"shape \(2, 9\)"),
        ({"bert.embeddings.position_embeddings.weight": (7,)}, r"position embeddings have shape"),
        (
            {"bert.embeddings.position_embeddings.weight": (11, 8)},
            "max_position_embeddings in config.json",
        ),
        ({"bert.pooler.dense.weight": (8, 8)}, "pooler.dense.bias"),
        ({"cls.seq_relationship.weight": (2, 8)}, "'cls.seq_relationship.weight' has no place in"),
        ({"bert.encoder.layer.2.output.dense.weight": (8, 12)}, "no place in a BERT"),
        ({"classifier.weight": (3, 9), "classifier.bias": (3,)}, "out_proj.weight has shape"),
    ],
)
def test_tensors_that_cannot_be(tmp_path: Path, tensors: dict[str, Any], words: str) -> None:
    weights = rename(written(tmp_path))
    for name, shape in tensors.items():
        weights.pop(name, None)
        if shape is not None:
            weights[name] = torch.zeros(shape)
    (tmp_path / "model.safetensors").unlink()
    save_file(weights, tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match=words):
        build(read_huggingface(Folder(tmp_path)), RobertaModel)


@pytest.mark.parametrize("field", ["summary_type", "summary_use_proj", "summary_activation"])
def test_another_summary_is_refused_where_a_head_reads_it(tmp_path: Path, field: str) -> None:
    model = model_of("electra", lm_head=False)
    model.register_classification_head("choice", 1)
    write_huggingface(checkpoint_of(model, "electra"), tmp_path, {})
    edit(tmp_path, **{field: "last" if field != "summary_use_proj" else False})
    read_huggingface(Folder(tmp_path))  # a classifier does not read it
    rename(
        tmp_path,
        ("classifier.dense", "sequence_summary.summary"),
        ("classifier.out_proj", "classifier"),
    )
    edit(tmp_path, architectures=["ElectraForMultipleChoice"])
    with pytest.raises(CheckpointError, match=f"{field} is .* is read"):
        read_huggingface(Folder(tmp_path))


# ---- heads ----


def pretrained(family: str, **fields: Any) -> Checkpoint:
    """A model with the head of its family's second objective."""
    model = model_of(family, **fields)
    if family == "electra":
        model.add_replaced_head()
    else:
        model.add_pooler()
        model.register_classification_head({"bert": "nsp", "albert": "sop"}[family], 2)
    return checkpoint_of(model, family)


@pytest.mark.parametrize("family", KINDS)
def test_the_second_objective_stands_back_behind_a_head_of_ones_own(
    tmp_path: Path, family: str
) -> None:
    fields = {"lm_head": False} if family == "electra" else {}
    checkpoint = pretrained(family, **fields)
    write_huggingface(checkpoint, tmp_path / "first", {})
    about = json.loads((tmp_path / "first" / "config.json").read_text())
    assert about["architectures"][0].endswith("ForPreTraining") and "id2label" not in about
    again = read_huggingface(Folder(tmp_path / "first"))
    assert again.weights.keys() == checkpoint.weights.keys() and again.config == checkpoint.config
    if family != "electra":
        name = {"bert": "nsp", "albert": "sop"}[family]
        assert again.labels == {
            name: {"nsp": ("is_next", "not_next"), "sop": ("in_order", "swapped")}[name]
        }
        assert again.inputs == {name: "pair"} and again.task == "masked_lm"
    model = build(again, RobertaModel)
    model.register_classification_head("topic", 3)
    both = checkpoint_of(model, family)
    write_huggingface(both, tmp_path / "own", {})
    about = json.loads((tmp_path / "own" / "config.json").read_text())
    assert about["architectures"][0].endswith("ForSequenceClassification")
    second = {"bert": "nsp", "albert": "sop", "electra": "replaced_head"}[family]
    write_huggingface(both, tmp_path / "second", {}, second)
    about = json.loads((tmp_path / "second" / "config.json").read_text())
    assert about["architectures"][0].endswith("ForPreTraining")
    with pytest.raises(CheckpointError, match=rf"no head 'x' to save; there are .*{second}"):
        write_huggingface(both, tmp_path / "none", {}, "x")


def test_next_sentences_without_a_language_model(tmp_path: Path) -> None:
    write_huggingface(pretrained("bert", lm_head=False), tmp_path / "bert", {})
    about = json.loads((tmp_path / "bert" / "config.json").read_text())
    assert about["architectures"] == ["BertForNextSentencePrediction"]
    with pytest.raises(CheckpointError, match="no class of ALBERT with head 'sop' and no LM head"):
        write_huggingface(pretrained("albert", lm_head=False), tmp_path / "albert", {})
    discriminator = pretrained("electra", lm_head=False)
    discriminator.family = "xlm-roberta"
    with pytest.raises(CheckpointError, match="no class of XLM-RoBERTa with head 'replaced_head'"):
        write_huggingface(discriminator, tmp_path / "xlmr", {})


def test_a_discriminator_says_who_fills_masks() -> None:
    model = build(pretrained("electra", lm_head=False), RobertaModel)
    with pytest.raises(ValueError, match="of ELECTRA the generator, as google/electra-small-gen"):
        model(IDS)


def test_one_output_is_a_score(tmp_path: Path) -> None:
    model = model_of("bert", lm_head=False)
    model.register_classification_head("score", 1)
    write_huggingface(checkpoint_of(model, "bert"), tmp_path, {})
    again = build(read_huggingface(Folder(tmp_path)), RobertaModel).eval()
    features = again(IDS, features_only=True)[0]
    (found,), (wanted,) = again.classification_heads.values(), model.classification_heads.values()
    assert torch.equal(found(features), wanted(features)) and found(features).shape == (2, 1)


# ---- what formats cannot hold ----


@pytest.mark.parametrize(
    ("family", "fields", "words"),
    [
        ("bert", {"num_segments": 0}, "bert cannot express a model without segments"),
        ("bert", {**ALBERT}, "bert cannot express a projected sum of embeddings"),
        ("albert", {"project_sum": False}, "a factorized token embedding"),
        ("albert", {"project_sum": False, "embedding_dim": None}, "without a projection"),
        ("electra", {"embedding_dim": 8}, "a projected sum as wide as the layers"),
        ("electra", {"lm_activation_fn": "relu"}, "an LM head with 'relu'"),
        ("bert", {"lm_activation_fn": "relu"}, "an LM head with 'relu'"),
        ("bert", {"normalize_before": True}, "pre-norm layers"),
    ],
)
def test_what_a_class_cannot_express(
    tmp_path: Path, family: str, fields: dict[str, Any], words: str
) -> None:
    with pytest.raises(CheckpointError, match=rf"{words}.*save as '?.*roberta_hub'"):
        written(tmp_path / "model", family, **fields)
    assert not (tmp_path / "model").exists()


def test_relatives_of_one_class_are_not_another(tmp_path: Path) -> None:
    checkpoint = checkpoint_of(model_of("bert"), "xlm-roberta")
    with pytest.raises(CheckpointError, match="xlm-roberta cannot express segments; save as 'rob"):
        write_huggingface(checkpoint, tmp_path, {})
    checkpoint.family = "gpt2"
    with pytest.raises(CheckpointError, match="model_type is 'gpt2', this reads 'roberta'"):
        write_huggingface(checkpoint, tmp_path, {})


@pytest.mark.parametrize(
    ("family", "parts"),
    [
        ("bert", r"segment embeddings, padding with id 0, a pooler, LayerNorm eps 1e-12"),
        ("albert", r"segment embeddings, a projection of the summed embeddings, padding"),
        ("electra", r"segment.*projection.*padding with id 0, a discriminator's head"),
    ],
)
def test_fairseq_has_no_place_for(family: str, parts: str) -> None:
    with pytest.raises(CheckpointError, match=rf"fairseq's has no place for {parts}"):
        fairseq_state(pretrained(family))


def test_shared_layers_are_written_out_for_bert(tmp_path: Path) -> None:
    model = model_of("bert", num_unique_layers=1)
    write_huggingface(checkpoint_of(model, "bert"), tmp_path, {})
    again = read_huggingface(Folder(tmp_path))
    assert again.config.num_unique_layers is None
    torch.testing.assert_close(build(again, RobertaModel).eval()(IDS)[0], model(IDS)[0])
    write_huggingface(
        checkpoint_of(model_of("albert", num_unique_layers=None), "albert"), tmp_path, {}
    )
    assert read_huggingface(Folder(tmp_path)).config.num_unique_layers == 2


# ---- our own format, and fairseq's XL ----


def test_our_format_keeps_the_family(tmp_path: Path) -> None:
    checkpoint = pretrained("albert")
    write_store(checkpoint, tmp_path)
    again = read_store(Folder(tmp_path))
    assert again.family == "albert" and again.weights.keys() == checkpoint.weights.keys()
    assert build(again, RobertaModel).pooler is not None
    about = json.loads((tmp_path / "config.json").read_text())
    del about["family"]  # as 0.1.0 wrote it
    (tmp_path / "config.json").write_text(json.dumps(about))
    assert read_store(Folder(tmp_path)).family == "roberta"
    (tmp_path / "config.json").write_text(json.dumps(about | {"family": 5}))
    with pytest.raises(CheckpointError, match="family is 5, must be a name"):
        read_store(Folder(tmp_path))


@pytest.mark.parametrize("dropped", [(), ("layernorm_embedding",), ("encoder_normalize_before",)])
def test_fairseqs_xl_is_pre_norm_by_its_tensors(dropped: tuple[str, ...]) -> None:
    """Never post-norm by the age of its file, and whatever its arguments leave out."""
    roberta = small(normalize_before=True, layernorm_embedding=False)
    state = copy.deepcopy(fairseq_state(checkpoint_of(roberta.model, "xlm-roberta-xl")))
    for name in dropped:
        del state["cfg"]["model"][name]
    state["cfg"]["model"]["arch"] = state["cfg"]["model"]["_name"] = "roberta_xl"
    again = read_state(state, "model.pt", {})
    assert again.config.normalize_before and not again.config.layernorm_embedding
    assert again.family == "xlm-roberta-xl"
    ids = torch.tensor([[0, 5, 9, 2]])
    found = build(again, RobertaModel).eval()(ids)[0]
    assert torch.equal(found, roberta.model.eval()(ids)[0])

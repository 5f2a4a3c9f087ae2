"""Another family is one more table: BERT and ALBERT, written here, pass through the same engine.

Real transformers is the peer, with every parameter random. Both families count positions from 0.
They come twice: with one row of token types, which is folded, and with two rows and ALBERT's narrow
sum of embeddings, for which the model has places of their own.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from parity import peers
from torch import Tensor

from roberta_hub.building import build
from roberta_hub.checkpoint.checkpoint import HEADS, LM_WEIGHT, SPAN_HEADS, TOKEN_HEADS, Checkpoint
from roberta_hub.checkpoint.names.families import FAMILIES, family_of
from roberta_hub.checkpoint.names.roberta import ROBERTA
from roberta_hub.checkpoint.names.table import (
    HEAD,
    SPAN_HEAD,
    TOKEN_HEAD,
    HeadNames,
    NameTable,
)
from roberta_hub.errors import CheckpointError
from roberta_hub.folder import Folder
from roberta_hub.formats.huggingface import (
    parameter_names,
    read_huggingface,
    write_huggingface,
)
from roberta_hub.formats.huggingface_heads import heads_in
from roberta_hub.hub import RobertaModel

E = "encoder.sentence_encoder"


def heads(pooler: str) -> tuple[HeadNames, ...]:
    """BERT's and ALBERT's heads: a sentence's stands on the pooler, and so does a choice's."""
    pooled = {"dense": pooler, "out_proj": "classifier"}
    return (
        HeadNames(suffix="ForSequenceClassification", kind=HEADS, name=HEAD, modules=pooled),
        HeadNames(
            suffix="ForTokenClassification",
            kind=TOKEN_HEADS,
            name=TOKEN_HEAD,
            modules={"out_proj": "classifier"},
        ),
        HeadNames(
            suffix="ForQuestionAnswering",
            kind=SPAN_HEADS,
            name=SPAN_HEAD,
            modules={"out_proj": "qa_outputs"},
        ),
        HeadNames(suffix="ForMultipleChoice", kind=HEADS, name=HEAD, modules=pooled),
    )


BERT = NameTable(
    model_type="bert",
    title="BERT",
    class_prefix="Bert",
    prefix="bert.",
    body=ROBERTA.body,
    layer_prefix=ROBERTA.layer_prefix,
    layer=ROBERTA.layer,
    lm_head={
        "encoder.lm_head.dense": "cls.predictions.transform.dense",
        "encoder.lm_head.layer_norm": "cls.predictions.transform.LayerNorm",
        "encoder.lm_head.bias": "cls.predictions.bias",
        LM_WEIGHT: "cls.predictions.decoder.weight",
    },
    heads=heads("bert.pooler.dense"),
    doubles={"cls.predictions.decoder.bias": "cls.predictions.bias"},
    dropped=("bert.embeddings.position_ids", "bert.pooler."),
    folded="embeddings.token_type_embeddings.weight",
    positions_from_zero=True,
    fields=ROBERTA.fields,
    defaults={**ROBERTA.defaults, "pad_token_id": 0},
    fixed={
        "normalize_before": False,
        "layernorm_embedding": True,
        "pooler_activation_fn": "tanh",
    },
    only=ROBERTA.only,
)
ALBERT = dataclasses.replace(
    BERT,
    model_type="albert",
    title="ALBERT",
    class_prefix="Albert",
    prefix="albert.",
    layer_prefix="encoder.albert_layer_groups.{}.albert_layers.0.",
    layer={
        "self_attn.q_proj": "attention.query",
        "self_attn.k_proj": "attention.key",
        "self_attn.v_proj": "attention.value",
        "self_attn.out_proj": "attention.dense",
        "self_attn_layer_norm": "attention.LayerNorm",
        "fc1": "ffn",
        "fc2": "ffn_output",
        "final_layer_norm": "full_layer_layer_norm",
    },
    lm_head={
        "encoder.lm_head.dense": "predictions.dense",
        "encoder.lm_head.layer_norm": "predictions.LayerNorm",
        "encoder.lm_head.bias": "predictions.bias",
        LM_WEIGHT: "predictions.decoder.weight",
    },
    heads=heads("albert.pooler"),
    doubles={"predictions.decoder.bias": "predictions.bias"},
    # The product after the embeddings is the identity here: ours has no place for it yet.
    dropped=("albert.pooler.", "albert.encoder.embedding_hidden_mapping_in."),
    fields={
        **{a: b for a, b in ROBERTA.fields.items() if b != "pooler_dropout"},
        "classifier_dropout_prob": "pooler_dropout",
        "num_hidden_groups": "num_unique_layers",
    },
    defaults={
        **BERT.defaults,
        "hidden_act": "gelu_new",
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "classifier_dropout_prob": 0.1,
        "num_hidden_groups": 1,
    },
    only={**ROBERTA.only, "inner_group_num": 1},
)
SEGMENTS = {f"{E}.segment_embeddings.weight": "embeddings.token_type_embeddings.weight"}
BERT_PAIRS = dataclasses.replace(
    BERT,
    body={**BERT.body, **SEGMENTS},
    folded=None,
    fields={**BERT.fields, "type_vocab_size": "num_segments"},
    defaults={**BERT.defaults, "type_vocab_size": 2},
    fixed={**BERT.fixed, "separator_idx": 3},
)
ALBERT_PAIRS = dataclasses.replace(
    ALBERT,
    body={
        **BERT_PAIRS.body,
        f"{E}.embed_projection": "encoder.embedding_hidden_mapping_in",
    },
    dropped=("albert.pooler.",),
    folded=None,
    fields={
        **ALBERT.fields,
        "type_vocab_size": "num_segments",
        "embedding_size": "embedding_dim",
    },
    defaults={**ALBERT.defaults, "type_vocab_size": 2, "embedding_size": 128},
    fixed={**BERT_PAIRS.fixed, "project_sum": True},
)
SIZES = {
    "vocab_size": 30,
    "hidden_size": 8,
    "intermediate_size": 12,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "max_position_embeddings": 10,
    "type_vocab_size": 1,
    "num_labels": 3,
}
FAMILY_SIZES = {"Bert": {}, "Albert": {"num_hidden_groups": 2, "embedding_size": 8}}
NARROW = {"Bert": {}, "Albert": {"embedding_size": 6}}
IDS = torch.tensor([[2, 7, 11, 29, 3, 5, 6, 8, 9, 3], [2, 9, 7, 3, 0, 0, 0, 0, 0, 0]])
"""The first takes every position; 0 is padding."""
REAL = IDS.ne(0)
SECOND = torch.tensor([[0] * 5 + [1] * 5, [0] * 10]).bool()
"""What stands behind the first separator, 3."""
KINDS = {
    "ForMaskedLM": "encoder.lm_head.dense.weight",
    "ForSequenceClassification": f"{HEADS}{HEAD}.out_proj.weight",
    "ForTokenClassification": f"{TOKEN_HEADS}{TOKEN_HEAD}.out_proj.weight",
    "ForQuestionAnswering": f"{SPAN_HEADS}{SPAN_HEAD}.out_proj.weight",
    "ForMultipleChoice": f"{HEADS}{HEAD}.out_proj.weight",
}
"""The end of a class's name, and a parameter that it must bring."""


@pytest.fixture(autouse=True)
def families(monkeypatch: pytest.MonkeyPatch) -> None:
    for table in (BERT, ALBERT):
        monkeypatch.setitem(FAMILIES, table.model_type, table)


def peer(family: str, suffix: str, **sizes: int) -> Any:
    """A real model of transformers, every parameter random."""
    peers.hf_model()  # which makes transformers importable beside a broken torchaudio
    import transformers

    config = getattr(transformers, f"{family}Config")(**SIZES | FAMILY_SIZES[family] | sizes)
    if suffix == "ForQuestionAnswering":
        config.num_labels = 2
    model = getattr(transformers, family + suffix)(config)
    peers.randomise(model)
    if family == "Albert" and not sizes:
        product = model.base_model.encoder.embedding_hidden_mapping_in
        with torch.no_grad():
            product.weight.copy_(torch.eye(8))
            product.bias.zero_()
    return model.eval()


def compare(directory: Path, theirs: Any, suffix: str) -> Checkpoint:
    """Load a directory, and check that everything it computes is what the peer computes."""
    checkpoint = read_huggingface(Folder(directory))
    model = build(checkpoint, RobertaModel).eval()
    assert suffix == "Model" or KINDS[suffix] in model.state_dict()
    pairs = theirs.config.type_vocab_size > 1
    given = {"attention_mask": REAL.long(), "token_type_ids": SECOND.long() * pairs}
    with torch.no_grad():
        found = model(IDS, features_only=True)[0]
        assert_close(found[REAL], theirs.base_model(IDS, **given).last_hidden_state[REAL])
        if suffix == "ForMaskedLM":
            assert_close(model(IDS)[0][REAL], theirs(IDS, **given).logits[REAL])
        elif suffix == "ForSequenceClassification":
            assert_close(model.classification_heads[HEAD](found), theirs(IDS, **given).logits)
        elif suffix == "ForMultipleChoice":
            wanted = theirs(IDS[None], **{name: value[None] for name, value in given.items()})
            assert_close(model.classification_heads[HEAD](found).T, wanted.logits)
        elif suffix == "ForTokenClassification":
            found = model.token_heads[TOKEN_HEAD](found)
            assert_close(found[REAL], theirs(IDS, **given).logits[REAL])
        elif suffix == "ForQuestionAnswering":
            wanted = theirs(IDS, **given)
            found = model.span_heads[SPAN_HEAD](found)
            assert_close(found[REAL][:, 0], wanted.start_logits[REAL])
            assert_close(found[REAL][:, 1], wanted.end_logits[REAL])
    return checkpoint


def assert_close(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)


@peers.needs_transformers
@pytest.mark.parametrize("family", ["Bert", "Albert"])
@pytest.mark.parametrize("suffix", ["Model", *KINDS])
def test_another_family_reads_and_writes(tmp_path: Path, family: str, suffix: str) -> None:
    theirs = peer(family, suffix)
    theirs.save_pretrained(tmp_path / "theirs")
    checkpoint = compare(tmp_path / "theirs", theirs, suffix)
    assert checkpoint.family == family.lower()
    assert checkpoint.config.max_positions == 10
    first = checkpoint.weights[f"{E}.embed_positions.weight"][:1]
    assert torch.equal(first, torch.zeros_like(first))
    assert checkpoint.config.num_unique_layers == (2 if family == "Albert" else None)
    if suffix in ("Model", "ForMultipleChoice") or family == "Albert":
        return  # theirs has a pooler, or a product, that ours dropped
    write_huggingface(checkpoint, tmp_path / "ours", {})
    again, report = type(theirs).from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"]
    compare(tmp_path / "ours", again.eval(), suffix)


@peers.needs_transformers
@pytest.mark.parametrize("family", ["Bert", "Albert"])
@pytest.mark.parametrize("suffix", KINDS)
def test_segments_and_a_narrow_sum_have_places_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family: str, suffix: str
) -> None:
    for table in (BERT_PAIRS, ALBERT_PAIRS):
        monkeypatch.setitem(FAMILIES, table.model_type, table)
    theirs = peer(family, suffix, type_vocab_size=2, **NARROW[family])
    theirs.save_pretrained(tmp_path / "theirs")
    checkpoint = compare(tmp_path / "theirs", theirs, suffix)
    if suffix == "ForMultipleChoice":
        return
    write_huggingface(checkpoint, tmp_path / "ours", {})
    again, report = type(theirs).from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"]
    compare(tmp_path / "ours", again.eval(), suffix)


@peers.needs_transformers
def test_shared_layers_are_written_as_they_are(tmp_path: Path) -> None:
    theirs = peer("Albert", "ForMaskedLM")
    theirs.save_pretrained(tmp_path / "theirs")
    checkpoint = read_huggingface(Folder(tmp_path / "theirs"))
    write_huggingface(checkpoint, tmp_path / "ours", {})
    again = read_huggingface(Folder(tmp_path / "ours"))
    assert again.config == checkpoint.config
    assert again.weights.keys() == checkpoint.weights.keys()
    for name, tensor in checkpoint.weights.items():
        torch.testing.assert_close(again.weights[name], tensor, atol=0, rtol=0)


def test_a_module_that_two_heads_name_belongs_to_the_class_or_to_the_first_whole_head() -> None:
    keys = ["bert.pooler.dense.weight", "classifier.weight"]

    def first(keys: list[str], architectures: object) -> str:
        return heads_in(BERT, keys, architectures)[0].suffix

    assert first(keys, None) == "ForSequenceClassification"
    assert first(keys[1:], None) == "ForTokenClassification"
    assert first(keys, ["BertForTokenClassification"]) == "ForTokenClassification"
    assert first(keys, ["BertForMultipleChoice"]) == "ForMultipleChoice"
    assert first(keys, ["RobertaForMultipleChoice"]) == "ForSequenceClassification"
    masked = ["bert.pooler.dense.weight", "cls.predictions.bias"]
    assert first(masked, None) == "ForQuestionAnswering"  # whose names nothing else has


def test_no_name_stands_for_two_parameters() -> None:
    for table in FAMILIES.values():
        for head in table.heads:
            names = parameter_names(table, 3, [head])
            assert len(set(names.values())) == len(names)
            assert not set(names.values()) & set(table.doubles)


def test_an_unknown_family_is_answered_with_the_known_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CheckpointError, match=r"'gpt2', this reads 'roberta', .*'albert'"):
        family_of({"model_type": "gpt2"}, "x")
    monkeypatch.delitem(FAMILIES, "bert")
    with pytest.raises(CheckpointError, match=r"'bert', this reads .*'camembert', 'albert'"):
        family_of({"model_type": "bert"}, "x")


@peers.needs_transformers
def test_what_a_family_lacks_is_refused_in_its_name(tmp_path: Path) -> None:
    peer("Albert", "ForMaskedLM").save_pretrained(tmp_path)
    checkpoint = read_huggingface(Folder(tmp_path))
    pre_norm = dataclasses.replace(checkpoint.config, normalize_before=True)
    checkpoint.config = pre_norm
    with pytest.raises(CheckpointError, match="albert cannot express pre-norm layers"):
        write_huggingface(checkpoint, tmp_path / "ours", {})
    config = tmp_path / "config.json"
    config.write_text(config.read_text().replace('"inner_group_num": 1', '"inner_group_num": 2'))
    with pytest.raises(CheckpointError, match="inner_group_num is 2, and only 1 is read"):
        read_huggingface(Folder(tmp_path))

"""Every class of the family computes what transformers' computes, both ways, on random weights."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from families import DISTILBERT
from torch import Tensor

from roberta_hub.building import build
from roberta_hub.checkpoint.checkpoint import Checkpoint
from roberta_hub.checkpoint.names.table import HEAD, SPAN_HEAD, TOKEN_HEAD
from roberta_hub.errors import CheckpointError
from roberta_hub.folder import Folder
from roberta_hub.formats.huggingface import read_huggingface, write_huggingface
from roberta_hub.formats.ours import read_store, write_store
from roberta_hub.hub import RobertaModel

from . import peers

pytestmark = [pytest.mark.parity, peers.needs_transformers]
SIZES = {
    "vocab_size": 40,
    "hidden_size": 12,
    "intermediate_size": 20,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "num_labels": 3,
}
ROBERTA = {"max_position_embeddings": 12, "type_vocab_size": 1, "layer_norm_eps": 1e-5}
BERT = {"max_position_embeddings": 10}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "XLM-R": ("XLMRoberta", ROBERTA),
    "XLM-R XL": ("XLMRobertaXL", ROBERTA),
    "CamemBERT": ("Camembert", ROBERTA),
    "BERT": ("Bert", BERT),
    "ALBERT": ("Albert", {**BERT, "embedding_size": 6}),
    "ALBERT, 3 groups": ("Albert", {**BERT, "embedding_size": 12, "num_hidden_groups": 3}),
    "ELECTRA, E < C": ("Electra", {**BERT, "embedding_size": 6}),
    "ELECTRA, E = C": ("Electra", {**BERT, "embedding_size": 12}),
    "ELECTRA, E > C": ("Electra", {**BERT, "embedding_size": 18}),
    "DistilBERT": ("DistilBert", BERT),
}
COMMON = (
    "Model",
    "ForMaskedLM",
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForQuestionAnswering",
    "ForMultipleChoice",
)
OWN = {
    "Bert": ("ForPreTraining", "ForNextSentencePrediction"),
    "Albert": ("ForPreTraining",),
    "Electra": ("ForPreTraining",),
}
CASES = [
    (kind, suffix)
    for kind, (prefix, _) in KINDS.items()
    for suffix in (*COMMON, *OWN.get(prefix, ()))
]
POOLED = ("Bert", "Albert")


def is_roberta(prefix: str) -> bool:
    return prefix not in ("Bert", "Albert", "Electra", "DistilBert")


def batch(prefix: str) -> tuple[Tensor, Tensor, Tensor]:
    """Ids of a pair that takes every position, of a short pair and of a sentence; which are real;
    segments."""
    if is_roberta(prefix):
        ids = [[0, 7, 11, 29, 2, 2, 6, 8, 9, 2], [0, 9, 2, 2, 7, 2], [0, 3, 30, 2]]
        pad = 1
    else:
        ids = [[2, 7, 11, 29, 3, 5, 6, 8, 9, 3], [2, 9, 3, 7, 8, 3], [2, 1, 30, 3]]
        pad = 0
    tokens = torch.tensor([row + [pad] * (10 - len(row)) for row in ids])
    segments = torch.zeros_like(tokens)
    if not is_roberta(prefix):  # as its tokenizer says; RoBERTa's says 0 everywhere
        segments[0, 5:] = 1
        segments[1, 3:6] = 1
    return tokens, tokens.ne(pad), segments


def peer(kind: str, suffix: str, **settings: Any) -> Any:
    """A real model of transformers, every parameter random, in eval mode."""
    peers.hf_model()  # which makes transformers importable beside a broken torchaudio
    import transformers

    prefix, sizes = KINDS[kind]
    names = {**DISTILBERT, "hidden_act": "activation"} if prefix == "DistilBert" else {}
    given = {names.get(name, name): value for name, value in {**SIZES, **sizes, **settings}.items()}
    config = getattr(transformers, f"{prefix}Config")(**given)
    if suffix in ("ForQuestionAnswering", "ForPreTraining"):
        config.num_labels = 2
    model = getattr(transformers, prefix + suffix)(config)
    peers.randomise(model)
    return model.eval()


def assert_close(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)


def answers(model: RobertaModel, features: Tensor, suffix: str) -> list[Tensor]:
    """What our heads say, in the order of `wanted`."""
    classes, first = model.classification_heads, features[:, 0]
    if suffix == "Model":
        return [] if model.pooler is None else [model.pooler(first)]
    if suffix in ("ForSequenceClassification", "ForMultipleChoice"):
        return [classes[HEAD](features)]
    if suffix == "ForTokenClassification":
        return [model.token_heads[TOKEN_HEAD](features)]
    if suffix == "ForQuestionAnswering":
        return list(model.span_heads[SPAN_HEAD](features).unbind(-1))
    logits = [] if model.encoder.lm_head is None else [model.encoder.output_layer(features)]
    if model.replaced_head is not None:
        logits.append(model.replaced_head(features))
    return logits + [classes[name](features) for name in ("nsp", "sop") if name in classes]


def wanted(out: Any, suffix: str) -> list[Tensor]:
    if suffix == "Model":
        found = [out.pooler_output] if "pooler_output" in out else []
    elif suffix == "ForMultipleChoice":
        found = [out.logits.T]
    elif suffix == "ForQuestionAnswering":
        found = [out.start_logits, out.end_logits]
    elif suffix == "ForPreTraining":
        names = ("prediction_logits", "logits", "seq_relationship_logits", "sop_logits")
        found = [out[name] for name in names if name in out]
    else:
        found = [out.logits]
    return [part for part in found if part is not None]


def compare(model: RobertaModel, theirs: Any, suffix: str) -> None:
    """Hidden states, features and answers are the same on pairs and on right padding."""
    prefix = type(theirs).__name__.removesuffix(suffix)
    ids, real, segments = batch(prefix)
    given = {"attention_mask": real.long(), "token_type_ids": segments}
    if prefix == "DistilBert":
        del given["token_type_ids"]  # it has none
    with torch.no_grad():
        out = theirs.base_model(ids, **given, output_hidden_states=True)
        features, extra = model(ids, features_only=True, return_all_hiddens=True)
        assert_close(features[real], out.last_hidden_state[real])
        ours = [state.transpose(0, 1) for state in extra["inner_states"]]
        assert len(ours) == len(out.hidden_states) == 4
        # The last is theirs after the last LayerNorm, where there is one.
        for state, other in zip(ours[:-1], out.hidden_states[:-1], strict=True):
            assert_close(state[real], other[real])
        if suffix == "ForMultipleChoice":
            whole = theirs(ids[None], **{name: value[None] for name, value in given.items()})
        else:
            whole = theirs(ids, **given)
        found = answers(model, features, suffix)
        expected = wanted(whole, suffix)
        assert len(found) == len(expected) and (found or prefix in ("Electra", "DistilBert"))
        for answer, other in zip(found, expected, strict=True):
            assert answer.shape == other.shape
            if answer.shape[:2] == real.shape:
                answer, other = answer[real], other[real]
            assert_close(answer, other)


@pytest.mark.parametrize(("kind", "suffix"), CASES)
def test_both_ways(tmp_path: Path, kind: str, suffix: str) -> None:
    theirs = peer(kind, suffix)
    theirs.save_pretrained(tmp_path / "theirs")
    checkpoint = read_huggingface(Folder(tmp_path / "theirs"))
    assert checkpoint.family == theirs.config.model_type
    model = build(checkpoint, RobertaModel).eval()
    compare(model, theirs, suffix)
    write_store(checkpoint, tmp_path / "store")
    checkpoint = read_store(Folder(tmp_path / "store"))
    assert checkpoint.family == theirs.config.model_type
    compare(build(checkpoint, RobertaModel).eval(), theirs, suffix)
    write_huggingface(checkpoint, tmp_path / "ours", {})
    about = json.loads((tmp_path / "ours" / "config.json").read_text())
    again, report = written_class(about).from_pretrained(
        tmp_path / "ours", output_loading_info=True
    )
    unread = set(report["unexpected_keys"])
    if suffix == "ForMultipleChoice" and is_roberta(KINDS[kind][0]):
        # Their classifier reads the pooler through a copy of it, and AutoModel the pooler itself.
        unread -= {"roberta.pooler.dense.weight", "roberta.pooler.dense.bias"}
    assert not report["missing_keys"] and not unread
    if suffix == "ForMultipleChoice":  # which is a classifier with one output
        assert about["architectures"] == [f"{KINDS[kind][0]}ForSequenceClassification"]
        suffix = "ForSequenceClassification"
    assert type(again) is type(theirs) or suffix == "ForSequenceClassification"
    compare(model, again.eval(), suffix)
    assert again.config.pad_token_id == theirs.config.pad_token_id
    for name in ("max_position_embeddings", "type_vocab_size", "layer_norm_eps", "hidden_act"):
        assert getattr(again.config, name, None) == getattr(theirs.config, name, None), name


def written_class(about: dict[str, Any]) -> Any:
    import transformers

    return getattr(transformers, about["architectures"][0])


@pytest.fixture(scope="module")
def settings() -> Iterator[dict[str, dict[str, Any]]]:
    """What changes a model's numbers, by the kind to try it with."""
    yield {
        "hidden_act": {"hidden_act": "relu"},
        "untied": {"tie_word_embeddings": False},
        "eps": {"layer_norm_eps": 0.3},
        "sinusoids": {"sinusoidal_pos_embds": True},
    }


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *itertools.product(
            ["XLM-R XL", "BERT", "ALBERT", "ELECTRA, E < C"], ["hidden_act", "untied", "eps"]
        ),
        ("DistilBERT", "hidden_act"),
        ("DistilBERT", "untied"),
        ("DistilBERT", "sinusoids"),
    ],
)
def test_settings_reach_the_numbers(
    tmp_path: Path, settings: dict[str, dict[str, Any]], kind: str, name: str
) -> None:
    theirs = peer(kind, "ForMaskedLM", **settings[name])
    theirs.save_pretrained(tmp_path / "theirs")
    checkpoint = read_huggingface(Folder(tmp_path / "theirs"))
    compare(build(checkpoint, RobertaModel).eval(), theirs, "ForMaskedLM")
    write_huggingface(checkpoint, tmp_path / "ours", {})
    again, report = type(theirs).from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"]
    compare(build(checkpoint, RobertaModel).eval(), again.eval(), "ForMaskedLM")


def read(directory: Path, **changes: Any) -> Checkpoint:
    """Read a directory after its config.json was changed; None takes a field out."""
    path = directory / "config.json"
    about = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({name: value for name, value in about.items() if value is not None}))
    return read_huggingface(Folder(directory))


@pytest.mark.parametrize("kind", ["BERT", "ALBERT", "ELECTRA, E > C"])
def test_what_config_leaves_out_is_transformers_default(tmp_path: Path, kind: str) -> None:
    theirs = peer(kind, "ForSequenceClassification", **({"embedding_size": 128}))
    theirs.save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    about = json.loads(path.read_text())
    sizes = {"model_type", "architectures", *SIZES, "max_position_embeddings", "id2label"}
    path.write_text(json.dumps({name: about[name] for name in sizes if name in about}))
    checkpoint = read_huggingface(Folder(tmp_path))
    config = checkpoint.config
    again = type(theirs).from_pretrained(tmp_path).eval()
    compare(build(checkpoint, RobertaModel).eval(), again, "ForSequenceClassification")
    default = type(theirs.config)()
    assert config.layer_norm_eps == default.layer_norm_eps == 1e-12
    assert config.dropout == default.hidden_dropout_prob
    assert config.attention_dropout == default.attention_probs_dropout_prob
    assert config.pooler_dropout == 0.1
    assert (config.padding_idx, config.num_segments, config.separator_idx) == (0, 2, 3)
    assert (config.num_unique_layers, config.activation_fn) == (
        (1, "gelu_accurate") if kind == "ALBERT" else (None, "gelu")
    )


def test_what_distilbert_leaves_out_is_transformers_default(tmp_path: Path) -> None:
    theirs = peer("DistilBERT", "ForSequenceClassification")
    theirs.save_pretrained(tmp_path)
    fields = ("activation", "dropout", "attention_dropout", "seq_classif_dropout", "pad_token_id")
    checkpoint = read(tmp_path, **dict.fromkeys(fields))
    config, default = checkpoint.config, type(theirs.config)()
    compare(build(checkpoint, RobertaModel).eval(), theirs, "ForSequenceClassification")
    assert (config.dropout, config.attention_dropout) == (default.dropout, 0.1)
    assert config.pooler_dropout == default.seq_classif_dropout == 0.2
    assert (config.padding_idx, config.num_segments, config.activation_fn) == (0, 0, "gelu")
    assert (config.pooler_activation_fn, config.layer_norm_eps) == ("relu", 1e-12)
    for changes, words in (
        ({"pooler_activation_fn": "tanh"}, "cannot express pooler activation 'tanh'"),
        ({"layer_norm_eps": 1e-5}, "cannot express LayerNorm eps 1e-05"),
        ({"num_segments": 2, "separator_idx": 3}, "cannot express segments"),
    ):
        other = dataclasses.replace(checkpoint, config=dataclasses.replace(config, **changes))
        with pytest.raises(CheckpointError, match=words):
            write_huggingface(other, tmp_path / "refused", {})


@pytest.mark.parametrize(
    ("rows", "given", "found"), [(200, None, 102), (40, None, 3), (200, 7, 7), (103, None, 102)]
)
def test_the_separator_is_the_files_or_the_familys(
    tmp_path: Path, rows: int, given: int | None, found: int
) -> None:
    peer("BERT", "Model", vocab_size=rows).save_pretrained(tmp_path)
    checkpoint = read(tmp_path, sep_token_id=given)
    assert checkpoint.config.separator_idx == found
    write_huggingface(checkpoint, tmp_path / "ours", {})
    assert read_huggingface(Folder(tmp_path / "ours")).config == checkpoint.config


@pytest.mark.parametrize(
    "refused",
    [
        ("BERT", {"is_decoder": True}, "is_decoder is True, and only False is read"),
        ("BERT", {"add_cross_attention": True}, "add_cross_attention is True"),
        ("ELECTRA, E = C", {"position_embedding_type": "relative_key"}, "'relative_key', and only"),
        ("ALBERT", {"inner_group_num": 2}, "inner_group_num is 2, and only 1 is read"),
        ("ALBERT", {"num_hidden_groups": 2}, "num_unique_layers 2 does not divide num_layers 3"),
        ("BERT", {"hidden_act": "snake"}, "hidden_act 'snake' is not supported; there are gelu"),
        ("BERT", {"sep_token_id": 40}, r"separator_idx 40 is outside 0\.\.39"),
        ("BERT", {"type_vocab_size": 3}, "type_vocab_size in config.json is 3"),
        ("BERT", {"vocab_size": None}, "KeyError: 'vocab_size'"),
        (
            "ELECTRA, E < C",
            {"embedding_size": 12},
            "embedding_size in config.json is 12",
        ),
        ("ELECTRA, E = C", {"embedding_size": 6}, "embedding_size in config.json is 6"),
        ("XLM-R", {"model_type": "xlm"}, "model_type is 'xlm', this reads 'roberta'"),
        ("XLM-R", {"model_type": None}, "model_type is None, this reads 'roberta'"),
    ],
)
def test_configurations_that_are_refused(
    tmp_path: Path, refused: tuple[str, dict[str, Any], str]
) -> None:
    kind, changes, words = refused
    peer(kind, "Model").save_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match=words):
        build(read(tmp_path, **changes), RobertaModel)

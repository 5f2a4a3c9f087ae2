"""Segments, positions and the projected sum beside plain loops, and the configurations of them."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_models import PAD, PLAIN, assert_close, small_model
from torch import Tensor

from roberta_hub import RobertaConfig, RobertaModel, collate_tokens
from roberta_hub.building import build
from roberta_hub.checkpoint.checkpoint import Checkpoint
from roberta_hub.config import FAMILY_FIELDS
from roberta_hub.errors import CheckpointError, InputError
from roberta_hub.folder import Folder
from roberta_hub.formats.fairseq import fairseq_state
from roberta_hub.formats.ours import read_store, write_store
from roberta_hub.model.embeddings import packed_segments, padded_segments
from roberta_hub.model.packing import pack_sequences

SEP = 2
SEGMENTS: dict[str, Any] = {"num_segments": 2, "separator_idx": SEP}
FORMS: dict[str, dict[str, Any]] = {
    "segments": SEGMENTS,
    "one segment": {"num_segments": 1},
    "segments, factorized tokens": {**SEGMENTS, "embedding_dim": 8},
    "projected sum": {"embedding_dim": 8, "project_sum": True},
    "projected sum, wide": {**SEGMENTS, "embedding_dim": 24, "project_sum": True},
    "projected sum, untied": {"embedding_dim": 8, "project_sum": True, "untie_weights": True},
    "padding 0": {**SEGMENTS, "padding_idx": 0, "embedding_dim": 8, "project_sum": True},
}


def counted(ids: list[int]) -> list[int]:
    """The segment of each token, by a loop."""
    return [min(1, sum(token == SEP for token in ids[:i])) for i in range(len(ids))]


@given(st.lists(st.lists(st.integers(2, 5), max_size=7), min_size=1, max_size=5), st.integers(0, 9))
def test_segments_are_counted_within_each_sequence(texts: list[list[int]], seed: int) -> None:
    """Packed, and padded with the padding anywhere; no sequence hears of its neighbours."""
    for padding_idx in (0, 1):
        batch = pack_sequences([torch.tensor(t).long() for t in texts], padding_idx=padding_idx)
        packed = packed_segments(batch.ids, batch.positions, padding_idx=padding_idx, separator=SEP)
        if any(texts):
            assert packed.tolist() == [n for text in texts for n in counted(text)]
        generator = torch.Generator().manual_seed(seed)
        for text in texts:
            places = torch.randperm(9, generator=generator)[: len(text)].sort().values
            row = torch.full((1, 9), padding_idx)
            row[0, places] = torch.tensor(text).long()
            found = padded_segments(row, row.ne(padding_idx), separator=SEP)
            wanted = torch.zeros(1, 9).long()
            wanted[0, places] = torch.tensor(counted(text)).long()
            assert torch.equal(found, wanted)


def batches(pad: int) -> list[Tensor]:
    texts = [[3, 5, 2, 6, 7, 2], [3, 2], [3, 9, 2, 2, 8, 2, 9], [3, 5, 2, 6, 7, 2]]
    rows = [torch.tensor(text) for text in texts]
    inner = torch.tensor([[3, pad, 5, 2, pad, 7, 2], [pad, 3, 2, pad, 9, 2, pad], [pad] * 7])
    return [*(collate_tokens(rows, pad_idx=pad, left_pad=left) for left in (False, True)), inner]


@pytest.mark.parametrize("form", FORMS)
def test_packed_is_padded_with_the_same_gradients(form: str) -> None:
    model = small_model(**FORMS[form])
    encoder, pad = model.encoder.sentence_encoder, model.config.padding_idx
    for tokens in batches(pad):
        real = tokens.ne(pad)
        found = []
        for way in ("packed", "padded"):
            model.zero_grad()
            if way == "packed":
                states = encoder(tokens, return_all_hiddens=True)["encoder_states"]
                states = [state.transpose(0, 1) for state in states]
            else:
                states = encoder.padded(tokens)
            logits = model.encoder.output_layer(encoder.finish(states[-1])[real])
            sum((s[real] * s[real].detach()).sum() for s in states).add(
                logits.sin().sum()
            ).backward()
            grads = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
            found.append(([s.detach() for s in states], logits.detach(), grads))
        (states, logits, grads), (states2, logits2, grads2) = found
        for ours, wanted in zip([*states, logits], [*states2, logits2], strict=True):
            assert_close(ours, wanted)
        assert grads.keys() == grads2.keys()
        for name, wanted in grads2.items():
            assert_close(grads[name], wanted, 2e-5)


@pytest.mark.parametrize("form", FORMS)
def test_prepared_is_plain(form: str) -> None:
    model = small_model(**FORMS[form]).eval()
    encoder, head = model.encoder.sentence_encoder, model.encoder.lm_head
    assert head is not None
    for tokens in batches(model.config.padding_idx):
        with torch.no_grad():
            encoder.prepared = head.prepared = None
            wanted = model(tokens)[0]
            encoder.prepare(None)
            head.prepare(None)
            assert_close(model(tokens)[0], wanted)


@pytest.mark.parametrize("form", FORMS)
def test_the_embedding_output_is_the_sum_by_hand(form: str) -> None:
    """One token at a time, with the tables' own rows."""
    model = small_model(**FORMS[form])
    encoder, config = model.encoder.sentence_encoder, model.config
    ids = [3, 5, 2, 6, 7, 2]
    first = encoder.padded(torch.tensor([ids]))[0][0]
    for place, token in enumerate(ids):
        x = encoder.embed_tokens.weight[token]
        projection = encoder.embed_projection
        if projection is not None and not config.project_sum:
            x = projection.weight @ x
        x = x + encoder.embed_positions.weight[config.padding_idx + 1 + place]
        if encoder.segment_embeddings is not None:
            row = counted(ids)[place] if config.num_segments > 1 else 0
            x = x + encoder.segment_embeddings.weight[row]
        assert encoder.layernorm_embedding is not None
        x = encoder.layernorm_embedding(x)
        if projection is not None and config.project_sum:
            x = projection.weight @ x + projection.bias
        assert_close(first[place], x)


def test_token_embeddings_have_the_width_of_the_sum() -> None:
    model = small_model(embedding_dim=8, project_sum=True)
    encoder, tokens = model.encoder.sentence_encoder, torch.tensor([[0, 5, 2], [0, 2, PAD]])
    own = encoder.forward_embedding(tokens)[1]
    assert own.shape == (2, 3, 8)
    ours = model.encoder.extract_features(tokens, token_embeddings=own)[0]
    assert_close(ours, model.encoder.extract_features(tokens)[0])


def test_names_and_order_of_tensors_are_fairseqs() -> None:
    first = [
        "version",
        "embed_tokens.weight",
        "embed_positions.weight",
        "layernorm_embedding.weight",
        "layernorm_embedding.bias",
    ]
    plain = small_model().encoder.sentence_encoder
    assert list(plain.state_dict())[:5] == first
    assert plain.segment_embeddings is None and plain.embed_projection is None
    tiny = small_model(embedding_dim=8).encoder.sentence_encoder
    assert list(tiny.state_dict())[:6] == [*first[:2], "embed_projection.weight", *first[2:]]
    names = list(small_model(**FORMS["projected sum, wide"]).encoder.sentence_encoder.state_dict())
    assert names[2:6] == [
        "embed_projection.weight",
        "embed_projection.bias",
        "embed_positions.weight",
        "segment_embeddings.weight",
    ]


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"num_segments": 2}, "no separator_idx"),
        ({"num_segments": -1}, r"must lie in 0\.\."),
        ({"num_segments": 2, "separator_idx": 60}, "outside 0..59"),
        ({"num_segments": 2, "separator_idx": -1}, "outside 0..59"),
        ({"num_segments": 2, "separator_idx": PAD}, "is padding_idx"),
        ({"num_segments": True}, "must be of type int"),
        ({"project_sum": True}, "needs embedding_dim"),
        ({"project_sum": 1, "embedding_dim": 8}, "must be of type bool"),
    ],
)
def test_configurations_that_cannot_be(fields: dict[str, Any], match: str) -> None:
    with pytest.raises(InputError, match=match):
        RobertaConfig(**{**PLAIN, **fields})


@pytest.mark.parametrize("separator", [0, 2])
def test_a_configuration_survives_json(separator: int) -> None:
    """RoBERTa's gains no key; a relative's keeps its own, a separator of id 0 too."""
    assert not {*RobertaConfig().to_dict()} & {*FAMILY_FIELDS}
    config = RobertaConfig(
        embedding_dim=8, project_sum=True, num_segments=2, separator_idx=separator
    )
    values = json.loads(json.dumps(config.to_dict()))
    assert {*values} == {field.name for field in dataclasses.fields(config)}
    assert RobertaConfig(**values) == config


def checkpoint(model: RobertaModel) -> Checkpoint:
    weights = {n: t for n, t in model.state_dict().items() if n != "encoder.lm_head.weight"}
    return Checkpoint(config=model.config, weights=weights, source="a test")


@pytest.mark.parametrize("form", [name for name in FORMS if "untied" not in name])
def test_our_own_format_holds_every_form(form: str, tmp_path: Path) -> None:
    model = small_model(**FORMS[form]).eval()
    write_store(checkpoint(model), tmp_path)
    again = build(read_store(Folder(tmp_path)), RobertaModel).eval()
    assert again.config == model.config
    tokens = batches(model.config.padding_idx)[0]
    assert torch.equal(again(tokens)[0], model(tokens)[0])


@pytest.mark.parametrize("form", ["segments", "projected sum"])
def test_fairseq_and_huggingfaces_roberta_cannot_hold_them(form: str) -> None:
    with pytest.raises(CheckpointError, match=r"is no RoBERTa.*save as 'roberta_hub'"):
        fairseq_state(checkpoint(small_model(**FORMS[form])))


@pytest.mark.parametrize("kept", [None, [0, 2], []])
def test_a_file_with_layers_to_keep_goes_on_loading(kept: object, tmp_path: Path) -> None:
    """0.1.0 wrote the field, and nothing ever asked for it."""
    model = small_model().eval()
    write_store(checkpoint(model), tmp_path)
    about = json.loads((tmp_path / "config.json").read_text())
    assert "layers_to_keep" not in about["model"]
    about["model"]["layers_to_keep"] = kept
    (tmp_path / "config.json").write_text(json.dumps(about))
    again = build(read_store(Folder(tmp_path)), RobertaModel).eval()
    tokens = torch.tensor([[0, 5, 2]])
    assert torch.equal(again(tokens)[0], model(tokens)[0])

"""BERT's, ALBERT's and ELECTRA's encoders in ours, against real transformers with random weights.

Names and numbers are carried over by hand here: reading such files is not this module's matter.
"""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest
import torch
from torch import Tensor

from roberta_hub import RobertaConfig, RobertaModel
from roberta_hub.model.packing import pack, pack_sequences

from . import peers

pytestmark = [pytest.mark.parity, peers.needs_transformers]
TOLERANCE = 1e-5
PAD, CLS, SEP = 0, 3, 4
LENGTH = 24
"""Positions that a user may use; the last of them are used below."""
SIZES: dict[str, Any] = {
    "vocab_size": 70,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": LENGTH,
    "type_vocab_size": 2,
    "pad_token_id": PAD,
    "layer_norm_eps": 1e-12,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
E = "encoder.sentence_encoder."
LAYER = {
    "attention.self.query": "self_attn.q_proj",
    "attention.self.key": "self_attn.k_proj",
    "attention.self.value": "self_attn.v_proj",
    "attention.output.dense": "self_attn.out_proj",
    "attention.output.LayerNorm": "self_attn_layer_norm",
    "intermediate.dense": "fc1",
    "output.dense": "fc2",
    "output.LayerNorm": "final_layer_norm",
}
ALBERT_LAYER = {
    "attention.query": "self_attn.q_proj",
    "attention.key": "self_attn.k_proj",
    "attention.value": "self_attn.v_proj",
    "attention.dense": "self_attn.out_proj",
    "attention.LayerNorm": "self_attn_layer_norm",
    "ffn": "fc1",
    "ffn_output": "fc2",
    "full_layer_layer_norm": "final_layer_norm",
}
EMBEDDINGS = {
    "embeddings.word_embeddings": f"{E}embed_tokens",
    "embeddings.position_embeddings": f"{E}embed_positions",
    "embeddings.token_type_embeddings": f"{E}segment_embeddings",
    "embeddings.LayerNorm": f"{E}layernorm_embedding",
    "encoder.embedding_hidden_mapping_in": f"{E}embed_projection",
    "embeddings_project": f"{E}embed_projection",
}
HEADS = {
    "cls.predictions.transform.dense": "encoder.lm_head.dense",
    "cls.predictions.transform.LayerNorm": "encoder.lm_head.layer_norm",
    "cls.predictions.decoder": "encoder.lm_head",
    "predictions.dense": "encoder.lm_head.dense",
    "predictions.LayerNorm": "encoder.lm_head.layer_norm",
    "predictions.decoder": "encoder.lm_head",
    "generator_predictions.dense": "encoder.lm_head.dense",
    "generator_predictions.LayerNorm": "encoder.lm_head.layer_norm",
    "generator_lm_head": "encoder.lm_head",
}
COPIES = (".position_ids", ".token_type_ids", "predictions.bias")
"""Buffers, and a second name of the output bias."""


def our_name(theirs: str) -> str:
    module, _, kind = theirs.rpartition(".")
    bare = re.sub(r"^(bert|albert|electra)\.", "", module)
    if bare in HEADS:
        return f"{HEADS[bare]}.{kind}"
    if bare in EMBEDDINGS:
        return f"{EMBEDDINGS[bare]}.{kind}"
    if found := re.fullmatch(r"encoder\.layer\.(\d+)\.(.*)", bare):
        return f"{E}layers.{found[1]}.{LAYER[found[2]]}.{kind}"
    found = re.fullmatch(r"encoder\.albert_layer_groups\.(\d+)\.albert_layers\.0\.(.*)", bare)
    assert found is not None, theirs
    return f"{E}layers.{found[1]}.{ALBERT_LAYER[found[2]]}.{kind}"


def carried_over(theirs: Any, **family: Any) -> RobertaModel:
    """Our model with their numbers; tables that count from 0 get zero rows before."""
    about = theirs.config
    config = RobertaConfig(
        vocab_size=about.vocab_size,
        padding_idx=PAD,
        max_positions=LENGTH,
        embed_dim=about.hidden_size,
        ffn_dim=about.intermediate_size,
        num_layers=about.num_hidden_layers,
        num_heads=about.num_attention_heads,
        layer_norm_eps=about.layer_norm_eps,
        num_segments=2,
        separator_idx=SEP,
        **family,
    )
    model = RobertaModel(config).eval()
    weights = {
        our_name(name): tensor
        for name, tensor in theirs.state_dict().items()
        if not name.endswith(COPIES)
    }
    table = weights[f"{E}embed_positions.weight"]
    zeros = table.new_zeros(PAD + 1, table.size(1))
    weights[f"{E}embed_positions.weight"] = torch.cat([zeros, table])
    weights[f"{E}version"] = torch.tensor([3.0])
    model.load_state_dict(weights)  # strict: every tensor of theirs has a place, every place one
    return model


def library() -> Any:
    # As in `transformers_peer`: nothing here needs a torchaudio that may not fit this torch.
    sys.modules.setdefault("torchaudio", None)  # type: ignore[arg-type]
    import transformers

    return transformers


def bert() -> tuple[Any, RobertaModel]:
    transformers = library()
    theirs = transformers.BertForMaskedLM(transformers.BertConfig(**SIZES))
    peers.randomise(theirs.eval())
    return theirs, carried_over(theirs)


def albert(groups: int) -> tuple[Any, RobertaModel]:
    transformers = library()
    config = transformers.AlbertConfig(
        **SIZES, embedding_size=12, num_hidden_groups=groups, hidden_act="gelu_new"
    )
    theirs = transformers.AlbertForMaskedLM(config)
    peers.randomise(theirs.eval())
    return theirs, carried_over(
        theirs,
        embedding_dim=12,
        project_sum=True,
        num_unique_layers=groups,
        activation_fn="gelu_accurate",
    )


def electra(width: int) -> tuple[Any, RobertaModel]:
    transformers = library()
    config = transformers.ElectraConfig(**SIZES, embedding_size=width)
    theirs = transformers.ElectraForMaskedLM(config)
    peers.randomise(theirs.eval())
    factorized: dict[str, Any] = {"embedding_dim": width, "project_sum": True}
    return theirs, carried_over(theirs, **factorized if width != config.hidden_size else {})


FAMILIES = {
    "BERT": bert,
    "ALBERT, one group": lambda: albert(1),
    "ALBERT, three groups": lambda: albert(3),
    "ELECTRA, E < C": lambda: electra(12),
    "ELECTRA, E = C": lambda: electra(32),
    "ELECTRA, E > C": lambda: electra(48),
}


def texts(seed: int = 5) -> list[tuple[list[int], list[int]]]:
    """(ids, token_type_ids) of single sentences and of pairs; the longest fills all positions."""
    generator = torch.Generator().manual_seed(seed)
    made = []
    for first, second in ((3, 0), (0, 0), (5, 4), (LENGTH - 3 - 9, 9), (1, 7), (LENGTH - 2, 0)):
        a, b = (torch.randint(5, 70, (n,), generator=generator).tolist() for n in (first, second))
        ids, types = [CLS, *a, SEP], [0] * (first + 2)
        if second:
            ids, types = [*ids, *b, SEP], [*types, *[1] * (second + 1)]
        made.append((ids, types))
    return made


def batch() -> tuple[Tensor, Tensor]:
    rows, types = torch.full((len(texts()), LENGTH), PAD), torch.zeros(len(texts()), LENGTH).long()
    for row, kind, (ids, own) in zip(rows, types, texts(), strict=True):
        row[: len(ids)], kind[: len(ids)] = torch.tensor(ids), torch.tensor(own)
    return rows, types


def assert_close(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("family", FAMILIES)
def test_hidden_states_and_logits_are_those_of_transformers(family: str) -> None:
    theirs, ours = FAMILIES[family]()
    tokens, types = batch()
    real = tokens.ne(PAD)
    with torch.no_grad():
        out = theirs(tokens, real.long(), types, output_hidden_states=True)
        encoder = ours.encoder.sentence_encoder
        # ALBERT's first hidden state is that after the projection, as ours.
        packed = ours.encoder.extract_features(tokens, return_all_hiddens=True)[1]["inner_states"]
        assert packed is not None
        for way in ([state.transpose(0, 1) for state in packed], encoder.padded(tokens)):
            assert len(way) == len(out.hidden_states) == 4
            for state, wanted in zip(way, out.hidden_states, strict=True):
                assert_close(state[real], wanted[real])
        assert_close(ours(tokens)[0][real], out.logits[real])
        logits = ours.encoder.output_layer(encoder.finish(encoder.padded(tokens)[-1]))
        assert_close(logits[real], out.logits[real])


@pytest.mark.parametrize("family", FAMILIES)
def test_each_text_alone_and_prepared_is_the_same(family: str) -> None:
    theirs, ours = FAMILIES[family]()
    encoder, head = ours.encoder.sentence_encoder, ours.encoder.lm_head
    assert head is not None
    encoder.prepare(None)
    head.prepare(None)
    sequences = [torch.tensor(ids) for ids, _ in texts()]
    with torch.no_grad():
        packed = pack_sequences(sequences, padding_idx=PAD)
        assert encoder.prepared is not None and encoder.prepared.form() is not None
        *_, last = encoder.packed(packed)
        logits = torch.split(ours.encoder.output_layer(encoder.finish(last)), packed.lengths)
        for (ids, types), ours_now in zip(texts(), logits, strict=True):
            alone = torch.tensor([ids])
            wanted = theirs(alone, token_type_ids=torch.tensor([types])).logits[0]
            assert_close(ours_now, wanted)


def test_a_norm_of_1e_12_is_one_everywhere() -> None:
    """An epsilon of 1e-5 in any one norm would show, in the plain layers or in the prepared ones.

    All weights are shrunk, so that the variance under every norm is far below 1e-5.
    """
    theirs, ours = bert()
    with torch.no_grad():
        for model in (theirs, ours):
            for weight in model.parameters():
                weight.mul_(1e-3)
    tokens, types = batch()
    real = tokens.ne(PAD)
    encoder, head = ours.encoder.sentence_encoder, ours.encoder.lm_head
    assert head is not None
    with torch.no_grad():
        out = theirs(tokens, real.long(), types, output_hidden_states=True)
        wanted = [*(state[real] for state in out.hidden_states), out.logits[real]]
        for _ in ("plain", "prepared"):
            states = list(encoder.packed(pack(tokens, padding_idx=PAD)))
            logits = ours.encoder.output_layer(encoder.finish(states[-1]))
            for found, theirs_now in zip([*states, logits], wanted, strict=True):
                scale = float(theirs_now.abs().max())
                torch.testing.assert_close(found, theirs_now, atol=2e-6 * scale, rtol=0)
            encoder.prepare(None)
            head.prepare(None)

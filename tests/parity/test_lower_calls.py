"""What scripts reach for below the hub interface: the same calls on real fairseq and on ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from roberta_hub import load_model
from roberta_hub.errors import RobertaHubError

from . import peers

pytestmark = [pytest.mark.parity, peers.needs_fairseq]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """(real fairseq's hub interface, ours) of one checkpoint with RoBERTa's vocabulary."""
    folder = tmp_path_factory.mktemp("lower")
    peer = peers.fairseq_model(peers.dictionary(folder), heads={"topic": 3})
    peers.save_era(peer, folder, "plain")
    return peers.hub_interface(folder), load_model(folder).eval()


def same(theirs: Any, ours: Any) -> None:
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)


def test_dictionary(pair: tuple[Any, Any]) -> None:
    for call in (
        lambda d: d[-1],
        lambda d: d[-2],
        lambda d: d[len(d) + 5],
        lambda d: d.get_count(0),
        lambda d: d.get_count(len(d) - 1),
        lambda d: (d.bos(), d.pad(), d.eos(), d.unk(), d.nspecial, len(d)),
        lambda d: d.unk_string(True),
    ):
        assert call(pair[1].task.source_dictionary) == call(pair[0].task.source_dictionary)
    ours = pair[1].task.source_dictionary
    assert next(iter(ours)) == "<s>"
    with pytest.raises(RobertaHubError, match="-50266"):
        ours[-50266]


KINDS = ["letter", "silence", "_EOW", "wordpiece", "sentencepiece", "subword_nmt", "@@ ", "@@"]


@pytest.mark.parametrize("kind", [*KINDS, "none", None])
def test_kinds_of_subwords(kind: str | None) -> None:
    peers.real_fairseq()
    from fairseq.data import Dictionary as Theirs

    from roberta_hub.text import Dictionary

    line = "h e | l l o | <SIL> w_EOW or@@ ld _x \u2581y \u2581 | z@@"
    found = []
    for one in (Theirs(), Dictionary()):
        ids = one.encode_line(line)
        matrix = torch.stack([ids, ids.flip(0)])
        found.append((one.string(ids, kind), one.string(matrix, kind)))
    assert found[1] == found[0]


def test_an_unknown_kind_is_an_error_that_lists_them() -> None:
    from roberta_hub.text import Dictionary

    with pytest.raises(RobertaHubError, match="letter"):
        Dictionary().string([4], "syllable")


def test_bpe_bpe(pair: tuple[Any, Any]) -> None:
    theirs, ours = (hub.bpe.bpe for hub in pair)
    for text in ("Hello world!", "can’t 🙂 naïve", ""):
        assert ours.encode(text) == theirs.encode(text)
        assert ours.decode(ours.encode(text)) == theirs.decode(theirs.encode(text)) == text
    for word in ("Ġepipheny", "Hello", "x", "Ã©tÃ©"):
        assert ours.bpe(word) == theirs.bpe(word)
    assert ours.encoder == theirs.encoder
    assert ours.decoder == theirs.decoder
    assert ours.byte_encoder == theirs.byte_encoder
    assert ours.byte_decoder == theirs.byte_decoder
    assert ours.bpe_ranks == theirs.bpe_ranks
    with pytest.raises(RobertaHubError, match="no printable byte"):
        ours.bpe("two words")


def test_limits_and_arguments(pair: tuple[Any, Any]) -> None:
    theirs, ours = pair
    assert ours.task.max_positions() == theirs.task.max_positions()
    for call in (
        lambda hub: hub.model.max_positions(),
        lambda hub: hub.model.encoder.max_positions(),
        lambda hub: hub.model.encoder.sentence_encoder.max_positions(),
        lambda hub: hub.model.encoder.sentence_encoder.max_source_positions,
        lambda hub: hub.model.encoder.sentence_encoder.padding_idx,
        lambda hub: len(hub.model.encoder.sentence_encoder.layers),
    ):
        assert call(ours) == call(theirs)
    for name, value in vars(ours.model.args).items():
        if name not in ("_name", "load_checkpoint_heads"):
            assert getattr(theirs.model.args, name) == value, name


def test_a_task_that_states_a_limit(tmp_path: Path) -> None:
    """sentence_prediction's `max_positions()` is a number, masked_lm's None."""
    roberta = load_model("roberta.base", pretrained=False)
    assert roberta.task.max_positions() is None
    roberta.task = type(roberta.task)(roberta.task.source_dictionary, longest=512)
    assert roberta.task.max_positions() == 512


@pytest.mark.parametrize("all_hiddens", [False, True])
def test_every_key_of_the_encoder(pair: tuple[Any, Any], all_hiddens: bool) -> None:
    tokens = torch.tensor([[0, 31414, 232, 328, 2], [0, 31414, 2, 1, 1]])
    with torch.no_grad():
        theirs, ours = (
            hub.model.encoder.sentence_encoder(tokens, return_all_hiddens=all_hiddens)
            for hub in pair
        )
    assert ours.keys() == theirs.keys()
    real = tokens.ne(1).T
    for key in ("encoder_padding_mask", "encoder_embedding", "src_lengths", "src_tokens"):
        assert len(ours[key]) == len(theirs[key])
        for a, b in zip(ours[key], theirs[key], strict=True):
            assert (a.shape, a.dtype) == (b.shape, b.dtype)
            same(b, a)
    assert ours["fc_results"] == theirs["fc_results"]
    for key in ("encoder_out", "encoder_states"):
        for a, b in zip(ours[key], theirs[key], strict=True):
            same(b[real], a[real])


def test_forward_embedding(pair: tuple[Any, Any]) -> None:
    tokens = torch.tensor([[0, 31414, 232, 328, 2], [0, 31414, 2, 1, 1]])
    with torch.no_grad():
        theirs, ours = (
            hub.model.encoder.sentence_encoder.forward_embedding(tokens) for hub in pair
        )
        given = (hub.model.encoder.sentence_encoder for hub in pair)
        again = [encoder.forward_embedding(tokens, theirs[1] * 2)[0] for encoder in given]
    for a, b in zip(ours, theirs, strict=True):
        same(b, a)
    same(again[0], again[1])


def test_heads_and_probabilities(pair: tuple[Any, Any]) -> None:
    tokens = torch.tensor([[0, 31414, 232, 328, 2]])
    found = []
    with torch.no_grad():
        for hub in pair:
            features = hub.extract_features(tokens)
            encoder = hub.model.encoder
            out = hub.model(tokens)
            found.append(
                [
                    hub.model.classification_heads["topic"](features),
                    encoder.lm_head(features),
                    encoder.output_layer(features, masked_tokens=tokens.eq(232)),
                    encoder.extract_features(tokens)[0],
                    hub.model.get_normalized_probs(out, log_probs=True),
                    encoder.sentence_encoder.embed_tokens.weight,
                ]
            )
    for a, b in zip(*found, strict=True):
        same(a, b)

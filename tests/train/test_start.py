"""The informed start: frequencies, neighbours and places are there before the first update."""

import random

import pytest
import torch
from small_models import small_model

from roberta_hub.errors import InputError
from roberta_hub.model.packing import pack_sequences
from roberta_hub.train.tasks.initialization import (
    HEAD_OFFSETS,
    cooccurrence_embeddings,
    informed_start,
    rotation,
    sinusoids,
)
from roberta_hub.train.tasks.matching_heads import matching_heads

WORDS = 60


def stream(count=20000):
    """Sentences of a determiner, a noun and a verb.

    Ids 10-19 are nouns, 20-29 verbs, 30-31 determiners.
    """
    draw = random.Random(0)
    ids = []
    for _ in range(count // 4):
        ids += [draw.choice([30, 30, 31]), 10 + draw.randrange(10), 20 + draw.randrange(10), 2]
    return torch.tensor(ids, dtype=torch.int32)


def started(**sizes):
    model = small_model(
        **{"vocab_size": WORDS, "embed_dim": 64, "num_heads": 4, "max_positions": 40, **sizes}
    )
    torch.manual_seed(3)
    model.init_weights()
    informed_start(model, stream(), seed=1)
    return model


@pytest.mark.parametrize("width", [None, 16, 60])
def test_words_of_a_kind_are_alike(width):
    model = started(embedding_dim=width)
    rows = torch.nn.functional.normalize(model.encoder.sentence_encoder.embed_tokens.weight, dim=1)
    likeness = rows @ rows.t()
    nouns, verbs = slice(10, 20), slice(20, 30)
    within = (likeness[nouns, nouns].mean() + likeness[verbs, verbs].mean()) / 2
    assert within > 0.5 > likeness[nouns, verbs].mean() + 0.2


def test_the_first_loss_is_that_of_frequencies():
    model = started().eval()
    counts = torch.bincount(stream().long(), minlength=WORDS).float()
    bias = model.encoder.lm_head.bias.detach()
    assert torch.allclose(bias.softmax(0), counts / counts.sum(), atol=1e-3)


@pytest.mark.parametrize("sizes", [{}, {"embedding_dim": 16}, {"embed_dim": 60, "num_heads": 4}])
def test_heads_look_at_their_offsets(sizes):
    """Attention of the first layer, token by token, peaks where OFFSETS says.

    The words do not matter.
    """
    model = started(**sizes).eval()
    encoder = model.encoder.sentence_encoder
    ids = torch.randint(10, 30, (30,))
    batch = pack_sequences([ids], padding_idx=1)
    with torch.no_grad():
        x = encoder.embed(batch.ids, batch.positions)
        attention = encoder.layers[0].self_attn
        heads = [
            part.view(30, 4, -1).transpose(0, 1)
            for part in (attention.q_proj(x), attention.k_proj(x))
        ]
    # Where words fill all dimensions, places share theirs with them; by chance a head would hit 1
    # in 30.
    wanted = 0.8 if "embedding_dim" in sizes else 0.4
    scores = heads[0] @ heads[1].transpose(1, 2)  # (H, T, T)
    for offset, own in zip(HEAD_OFFSETS[0], scores, strict=True):
        inner = torch.arange(4, 26)
        hits = own.argmax(1)[inner].eq(inner + offset).float().mean()
        assert hits > wanted, (offset, float(hits))


@pytest.mark.parametrize("width", [32, 64, 96])
def test_a_projected_sum_starts_alike(width):
    """ALBERT's and ELECTRA's embeddings: words of a kind are alike, heads look at their offsets."""
    sizes = {"embed_dim": 64, "num_heads": 8, "embedding_dim": width, "project_sum": True}
    model = started(**sizes, num_segments=2, separator_idx=2, padding_idx=0).eval()
    encoder = model.encoder.sentence_encoder
    rows = torch.nn.functional.normalize(encoder.embed_tokens.weight, dim=1)
    likeness = rows @ rows.t()
    assert likeness[10:20, 10:20].mean() > 0.5 > likeness[10:20, 20:30].mean() + 0.2
    batch = pack_sequences([torch.randint(10, 30, (30,))], padding_idx=0)
    with torch.no_grad():
        x = encoder.embed(batch.ids, batch.positions)
        attention = encoder.layers[0].self_attn
        query, key = (
            part.view(30, 8, -1).transpose(0, 1)[: len(HEAD_OFFSETS[0])]
            for part in (attention.q_proj(x), attention.k_proj(x))
        )
    for offset, own in zip(HEAD_OFFSETS[0], query @ key.transpose(1, 2), strict=True):
        inner = torch.arange(4, 26)
        assert own.argmax(1)[inner].eq(inner + offset).float().mean() > 0.4, offset
    matching_heads(model, stream(400), seed=1)
    assert all(p.isfinite().all() for p in model.parameters())


def test_a_rotation_moves_every_place():
    frequencies = torch.tensor([1.5, 0.3, 0.02])
    places = sinusoids(50, frequencies)
    assert torch.allclose(places.norm(dim=1), torch.ones(50))
    for offset in (-3, -1, 0, 2):
        moved = places[10:40] @ rotation(frequencies, offset).t()
        assert torch.allclose(moved, places[10 + offset : 40 + offset], atol=1e-5)


def test_it_repeats_and_disturbs_nothing():
    state = torch.get_rng_state()
    first = started().state_dict()
    torch.set_rng_state(state)
    again = started().state_dict()
    assert all(torch.equal(first[name], again[name]) for name in first)
    model = small_model(vocab_size=WORDS)
    before = torch.get_rng_state()
    informed_start(model, stream(400), seed=1)
    assert torch.equal(before, torch.get_rng_state())


def test_words_that_the_text_lacks_stay_as_they_were():
    model = small_model(vocab_size=WORDS)
    weight = model.encoder.sentence_encoder.embed_tokens.weight
    before = weight.detach().clone()
    informed_start(model, stream(400), seed=1)
    used = torch.bincount(stream(400).long(), minlength=WORDS) > 0
    assert torch.equal(weight[~used], before[~used])
    assert not weight[used].eq(before[used]).all(1).any()
    assert cooccurrence_embeddings(stream(400), used.float(), 8)[~used].eq(0).all()


def test_odd_heads_and_shared_layers():
    odd = started(embed_dim=36, num_heads=4, embedding_dim=8)  # heads of 9
    shared = started(num_layers=4, num_unique_layers=2)
    for model in (odd, shared):
        assert all(p.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("width", [None, 32])
def test_matching_heads_look_for_the_same_word_elsewhere(width):
    """From each word the heads find its double, not itself.

    The text is a list of words, and the same words in another order.
    """
    model = small_model(
        vocab_size=WORDS, embed_dim=128, num_heads=2, max_positions=80, embedding_dim=width
    )
    torch.manual_seed(3)
    model.init_weights()
    informed_start(model, torch.randint(4, WORDS, (4000,)), seed=1)
    ids = torch.randint(4, WORDS, (400,))
    before = {name: p.clone() for name, p in model.named_parameters()}
    state = torch.get_rng_state()
    matching_heads(model, ids, seed=1)
    assert torch.equal(state, torch.get_rng_state())
    encoder = model.eval().encoder.sentence_encoder
    order = torch.randperm(20)
    words = torch.randperm(WORDS - 4)[:20] + 4
    batch = pack_sequences([torch.cat([words, words[order]])], padding_idx=1)
    with torch.no_grad():
        x = encoder.embed(batch.ids, batch.positions)
        attention = encoder.layers[0].self_attn
        query, key = attention.q_proj(x)[:, 64:], attention.k_proj(x)[:, 64:]  # the second head
    found = (query @ key.t())[:20].argmax(1)
    double = 20 + order.argsort()
    # By chance 1 in 40; words that fill all dimensions lose those of the places.
    assert found.eq(double).float().mean() > (0.5 if width is None else 0.8)
    # The first head, and everything that is no attention, is left as it was.
    assert torch.equal(
        attention.q_proj.weight[:64],
        before["encoder.sentence_encoder.layers.0.self_attn.q_proj.weight"][:64],
    )
    changed = {n for n, p in model.named_parameters() if not torch.equal(p, before[n])}
    assert changed and all("self_attn" in name for name in changed)


def test_matching_heads_need_room():
    with pytest.raises(InputError, match="4 dimensions"):
        matching_heads(small_model(vocab_size=WORDS, embed_dim=8, num_heads=4), stream(400), seed=1)

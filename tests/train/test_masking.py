"""What is masked: the shares, the units, by nothing but (seed, epoch, index)."""

import random

import pytest
import torch

from roberta_hub.errors import InputError, UnknownNameError
from roberta_hub.text.tokenizer import Tokenizer
from roberta_hub.train.data.masking import Maskable, Masking, mask, span_lengths
from roberta_hub.train.data.random_hash import uniform

TOKENIZER = Tokenizer.shipped()
MASKABLE = Maskable.of(TOKENIZER)
MASK = TOKENIZER.mask_idx
WORDS = [
    "unbelievable",
    "river",
    "stones",
    "counterrevolutionary",
    "in",
    "the",
    "epipheny",
    "Zürich",
]


def sequences(count, seed=0, words=40):
    draw = random.Random(seed)
    return [TOKENIZER.encode(" ".join(draw.choices(WORDS, k=words))) for _ in range(count)]


def masked(found, masking, seed=1, epoch=0, indices=None):
    indices = torch.arange(len(found)) if indices is None else torch.tensor(indices)
    lengths = tuple(map(len, found))
    return mask(torch.cat(found), lengths, indices, MASKABLE, masking, seed=seed, epoch=epoch)


@pytest.mark.parametrize("unit", ["token", "word", "span", "fairseq"])
@pytest.mark.parametrize("prob", [0.15, 0.4])
def test_shares(unit, prob):
    found = sequences(600)
    ids = torch.cat(found)
    seen, chosen = masked(found, Masking(prob=prob, unit=unit))
    candidates = torch.ones_like(chosen) if unit == "fairseq" else MASKABLE.text[ids]
    # Tokens of a word share its fate, so the spread is that of a few thousand words.
    assert chosen.sum() / candidates.sum() == pytest.approx(prob, rel=0.05)
    assert torch.equal(seen[~chosen], ids[~chosen])
    count = float(chosen.sum())
    assert float((seen[chosen] == MASK).sum()) / count == pytest.approx(0.8, abs=0.03)
    assert float((seen[chosen] == ids[chosen]).sum()) / count == pytest.approx(0.1, abs=0.03)


@pytest.mark.parametrize("unit", ["token", "word", "span"])
def test_specials_are_never_chosen_and_replace_nothing(unit):
    found = [torch.cat([a, b]) for a, b in zip(sequences(200), sequences(200, 1), strict=True)]
    seen, chosen = masked(found, Masking(prob=0.5, leave=0.0, random=1.0, unit=unit))
    special = ~MASKABLE.text
    assert not chosen[special[torch.cat(found)]].any()
    assert not special[seen[chosen]].any()
    assert len(seen[chosen].unique()) > 2000


def test_each_sequence_gets_its_share_exactly():
    """Not 15 % of the batch: of each sequence, rounded up or down."""
    found = sequences(100)
    _, chosen = masked(found, Masking())
    for ids, own in zip(found, chosen.split(list(map(len, found))), strict=True):
        assert abs(int(own.sum()) - 0.15 * (len(ids) - 2)) < 1


@pytest.mark.parametrize("unit", ["token", "word", "span", "fairseq"])
def test_a_mask_depends_on_seed_epoch_and_index_alone(unit):
    found = sequences(30)
    masking = Masking(unit=unit)
    seen, chosen = masked(found, masking)
    lengths = list(map(len, found))
    for i in random.Random(0).sample(range(30), 30):
        alone, which = masked([found[i]], masking, indices=[i])
        assert torch.equal(alone, seen.split(lengths)[i])
        assert torch.equal(which, chosen.split(lengths)[i])
    for other in ({"seed": 2}, {"epoch": 1}, {"indices": range(30, 60)}):
        assert not torch.equal(masked(found, masking, **other)[1], chosen)
    state = torch.get_rng_state()
    masked(found, masking)
    assert torch.equal(state, torch.get_rng_state())


def test_static_masks_take_turns():
    found = sequences(20)
    masks = [masked(found, Masking(copies=3), epoch=e)[0] for e in range(6)]
    assert all(torch.equal(masks[e], masks[e + 3]) for e in range(3))
    assert not torch.equal(masks[0], masks[1])
    dynamic = [masked(found, Masking(), epoch=e)[0] for e in range(4)]
    assert all(not torch.equal(dynamic[0], other) for other in dynamic[1:])


def test_whole_words():
    found = sequences(200)
    ids = torch.cat(found)
    _, chosen = masked(found, Masking(unit="word"))
    begins = MASKABLE.begins[ids] | (torch.cat([torch.tensor([2]), ids[:-1]]) == 0)
    word = begins.long().cumsum(0)
    counts = torch.bincount(word, chosen.double())
    sizes = torch.bincount(word)
    whole = (counts == 0) | (counts == sizes)
    assert whole.all() and (sizes[counts > 0] > 1).any()


def test_spans_of_words():
    found = sequences(300, words=100)
    seen, chosen = masked(found, Masking(unit="span"))
    lengths = list(map(len, found))
    runs, mixed = [], 0
    for ids, own, now in zip(found, chosen.split(lengths), seen.split(lengths), strict=True):
        begins = MASKABLE.begins[ids]
        run = 0
        for i in range(len(ids)):
            run = run + int(begins[i] or not run) if own[i] else 0
            if own[i] and (i + 1 == len(ids) or not own[i + 1]):
                runs.append(run)
        fates = now.eq(MASK)[own]
        mixed += bool(fates.any() and not fates.all())
    # SpanBERT's mean is 3.8 words; budgets and neighbours cut some, meetings lengthen others.
    assert 2.5 < sum(runs) / len(runs) < 4.2 and max(runs) >= 8
    # Of 15 words in about four spans, some span is no <mask> half of the time; words each on their
    # own nearly always.
    assert mixed < 0.75 * len(found)


def test_span_lengths_follow_the_geometric_distribution():
    lengths = span_lengths(torch.linspace(0, 1, 100001)[:-1], p=0.2, longest=10)
    share = torch.bincount(lengths, minlength=11)[1:] / 1e5
    wanted = torch.tensor([0.2 * 0.8**k for k in range(10)])
    assert torch.allclose(share, wanted / wanted.sum(), atol=1e-4)
    assert float((share * torch.arange(1, 11)).sum()) == pytest.approx(3.8, abs=0.01)


def test_random_numbers_are_uniform_and_independent():
    indices = torch.arange(100).repeat_interleave(100)
    places = torch.arange(100).repeat(100)
    numbers = torch.stack(
        [uniform(s, e, indices, places, k) for s in (0, 1) for e in (0, 1) for k in (0, 1)]
    )
    assert ((numbers >= 0) & (numbers < 1)).all()
    assert len(numbers.unique()) == numbers.numel()
    counts = torch.histc(numbers, 50, 0, 1)
    # chi-squared of 49 degrees of freedom: 95 is its 1 - 1e-4 quantile
    assert float(((counts - counts.mean()) ** 2 / counts.mean()).sum()) < 95
    neighbours = torch.corrcoef(numbers)
    assert (neighbours - torch.eye(8)).abs().max() < 0.04
    along = numbers[:, 1:] - 0.5, numbers[:, :-1] - 0.5
    assert abs(float((along[0] * along[1]).mean())) < 0.001


@pytest.mark.parametrize(
    "settings",
    [{}, {"leave": 0.0}, {"random": 0.0}, {"leave": 0.0, "random": 0.0}, {"prob": 0.5}],
)
def test_fairseq_number_for_number(settings):
    """The same tokens that fairseq 0.12.2 masks, in epochs as it counts them."""
    data = fairseq_data()
    found = sequences(20)
    masking = Masking(unit="fairseq", **settings)

    class Items(torch.utils.data.Dataset):
        def __getitem__(self, index):
            return found[index]

        def __len__(self):
            return len(found)

    for epoch in (1, 5):
        items = {
            targets: data.MaskTokensDataset(
                Items(),
                fairseq_dictionary(),
                pad_idx=1,
                mask_idx=MASK,
                return_masked_tokens=targets,
                seed=7,
                mask_prob=masking.prob,
                leave_unmasked_prob=masking.leave,
                random_token_prob=masking.random,
            )
            for targets in (False, True)
        }
        for dataset in items.values():
            dataset.set_epoch(epoch)
        seen, chosen = masked(found, masking, seed=7, epoch=epoch - 1)
        lengths = list(map(len, found))
        for i, (ours, own) in enumerate(
            zip(seen.split(lengths), chosen.split(lengths), strict=True)
        ):
            assert torch.equal(ours, items[False][i])
            assert torch.equal(own, items[True][i].ne(1))


def fairseq_data():
    from roberta_hub.fairseq_bridge import import_fairseq

    import_fairseq()
    from fairseq import data

    return data


def fairseq_dictionary():
    from fairseq.data import Dictionary

    dictionary = Dictionary()
    for symbol in TOKENIZER.dictionary.symbols[4:]:
        dictionary.add_symbol(symbol)
    return dictionary


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"prob": 0.0}, InputError, "between 0 and 1"),
        ({"leave": 0.6, "random": 0.6}, InputError, "their sum above 1"),
        ({"unit": "words"}, UnknownNameError, "did you mean word"),
        ({"span_max": 0}, InputError, "cannot be"),
        ({"copies": 0}, InputError, "at least 1"),
    ],
)
def test_settings_that_cannot_be(settings, error, words):
    with pytest.raises(error, match=words):
        Masking(**settings)


def test_sequences_without_text():
    """Nothing to choose: nothing is chosen, nothing fails."""
    empty = torch.tensor([0, 2])
    for unit in ("token", "word", "span"):
        seen, chosen = masked(
            [empty, TOKENIZER.encode("Hello"), empty], Masking(unit=unit, prob=0.9)
        )
        assert not chosen[[0, 1, 2, 4, 5]].any() or chosen.sum() <= 1
        seen, chosen = masked([empty], Masking(unit=unit))
        assert seen.tolist() == [0, 2] and not chosen.any()

"""Inputs of two segments: what the papers say of them holds of each pair of a text of our own."""

import random

import pytest
import torch

from roberta_hub.errors import InputError
from roberta_hub.text.layout import SequenceLayout
from roberta_hub.train.data.segment_pairs import PAIR_MODES, pair_segments

BOS, EOS = 0, 2
SIZE = 32


def text(documents=60, seed=0, longest=9):
    """A stream of documents whose sentences are numbered tokens, no two alike."""
    draw = random.Random(seed)
    word, stream, found = 10, [], []
    for _ in range(documents):
        document = []
        for _ in range(draw.randint(1, 8)):
            count = draw.randint(1, longest)
            document.append(list(range(word, word + count)))
            word += count
            stream += [*document[-1], EOS]
        stream.append(EOS)
        found.append(document)
    return torch.tensor(stream, dtype=torch.uint16), found


def layout(separators):
    return SequenceLayout(bos=BOS, pad=1, eos=EOS, unk=3, separators=separators)


def pairs_of(stream, mode, order, separators=2, size=SIZE):
    return pair_segments(
        stream,
        size,
        mode=mode,
        order=order,
        layout=layout(separators),
        keep_ends=separators == 2,
    )


def halves(ids, separators):
    """Both segments of a pair, without the ends of their lines."""
    assert ids[0] == BOS and ids[-1] == EOS
    parts = [[part for part in half if part != EOS] for half in layout(separators).split(ids)]
    assert len(parts) == 2 and all(parts)
    return parts


@pytest.mark.parametrize("separators", [1, 2])
@pytest.mark.parametrize("mode", PAIR_MODES)
def test_the_second_segment_follows_or_is_of_another_document(mode, separators):
    stream, documents = text()
    home = {w: k for k, document in enumerate(documents) for line in document for w in line}
    line_of = {w: tuple(s) for document in documents for s in document for w in s}
    pairs = pairs_of(stream, mode, False, separators)
    indices = list(range(len(pairs)))
    sequences, labels = pairs.inputs(indices, seed=5, epoch=2)
    assert [len(ids) for ids in sequences] == pairs.sizes(5, 2).tolist()
    assert max(map(len, sequences)) <= SIZE
    for ids, label in zip(sequences, labels.tolist(), strict=True):
        first, second = halves(ids.tolist(), separators)
        assert first == list(range(first[0], first[-1] + 1))
        assert second == list(range(second[0], second[-1] + 1))
        if label == 0:
            assert second[0] == first[-1] + 1 and home[first[0]] == home[second[-1]]
        else:
            assert home[first[0]] != home[second[0]] and home[second[0]] == home[second[-1]]
        assert second[0] == line_of[second[0]][0] and second[-1] == line_of[second[-1]][-1]
        if mode == "sentence_pair":
            assert tuple(first) == line_of[first[0]] and tuple(second) == line_of[second[0]]
    two = [k for k in indices if pairs.groups[1, k] - pairs.groups[0, k] > 1]
    share = sum(int(pairs.inputs(two, 5, epoch)[1].sum()) for epoch in range(20)) / len(two) / 20
    assert share == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("separators", [1, 2])
@pytest.mark.parametrize("mode", PAIR_MODES)
def test_segments_change_places(mode, separators):
    stream, documents = text()
    pairs = pairs_of(stream, mode, True, separators)
    sizes = pairs.sizes(7, 0).tolist()
    whole = [k for k, size in enumerate(sizes) if size]
    assert len(pairs) - len(whole) == sum(len(document) == 1 for document in documents)
    sequences, labels = pairs.inputs(whole, seed=7, epoch=0)
    assert [len(ids) for ids in sequences] == [sizes[k] for k in whole]
    for ids, label in zip(sequences, labels.tolist(), strict=True):
        first, second = halves(ids.tolist(), separators)
        if label:
            first, second = second, first
        assert second[0] == first[-1] + 1
    assert 0.3 < labels.float().mean() < 0.7


def test_every_sentence_is_in_a_group():
    for longest in (9, 40):  # 40: more than a pair holds
        stream, documents = text(longest=longest)
        pairs = pairs_of(stream, "segment_pair", True, 1)
        whole = [k for k, size in enumerate(pairs.sizes(0, 0)) if size]
        seen = {w for ids in pairs.inputs(whole, 0, 0)[0] for w in ids.tolist()}
        words = {w for document in documents for line in document for w in line}
        alone = {w for d in documents if len(d) == 1 for w in d[0] if len(d[0]) <= SIZE // 2}
        assert words - alone <= seen


def test_a_pair_is_a_function_of_seed_epoch_and_index():
    stream, _ = text()
    one, other = (pairs_of(stream, "segment_pair", False) for _ in range(2))
    batch, _ = one.inputs([4, 9, 1], 1, 3)
    alone = [other.inputs([k], 1, 3)[0][0] for k in (4, 9, 1)]
    assert all(map(torch.equal, batch, alone))
    every = range(len(one))

    def drawn(seed, epoch):
        return [ids.tolist() for ids in one.inputs(every, seed, epoch)[0]]

    assert drawn(1, 3) != drawn(1, 4) != drawn(2, 4)


def test_what_cannot_be_paired():
    stream, _ = text()

    def pairs(stream, size=SIZE, order=False):
        return pairs_of(stream, "segment_pair", order, size=size)

    with pytest.raises(InputError, match="block size 5 holds no two segments; give at least 6"):
        pairs(stream, 5)
    with pytest.raises(InputError, match=r"no document of this text has two; write a sentence a"):
        pairs(torch.tensor([10, EOS, EOS, 11, EOS, EOS]))
    one = torch.tensor([10, EOS, 11, EOS, EOS])
    with pytest.raises(InputError, match=r"this text has one; separate documents by empty lines"):
        pairs(one)
    assert len(pairs(one, order=True)) == 1

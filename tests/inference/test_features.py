"""features(): batch = singles, order kept, modes restored, long texts in windows."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from questions import LONG, TEXTS, ids_of, states_of
from small_models import assert_close, small_roberta
from torch import Tensor, nn

from roberta_hub import RobertaHubInterface
from roberta_hub.inference.batching import batches, deduplicate
from roberta_hub.inference.windows import fit_windows
from roberta_hub.text import SequenceLayout


@pytest.mark.parametrize("batch_tokens", [None, 1, 13, 40])
@pytest.mark.parametrize("layer", [-1, 0, 1, 3, -2])
def test_a_batch_is_its_singles_in_order(
    roberta: RobertaHubInterface, layer: int, batch_tokens: int | None
) -> None:
    found = roberta.features(TEXTS, layer=layer, batch_tokens=batch_tokens)
    assert len(found) == len(TEXTS)
    for text, ours in zip(TEXTS, found, strict=True):
        assert_close(ours, states_of(roberta, ids_of(roberta, text), layer))


@pytest.mark.system
@given(
    st.lists(st.text(max_size=12) | st.tuples(st.text(max_size=6), st.text(max_size=6)), max_size=8)
)
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_texts(roberta: RobertaHubInterface, texts: list[Any]) -> None:
    texts = [t for t in texts if len(ids_of(roberta, t)) <= roberta.max_positions]
    for text, ours in zip(texts, roberta.features(texts, batch_tokens=20), strict=True):
        assert_close(ours, states_of(roberta, ids_of(roberta, text)))


def test_prenorm_layers(roberta: RobertaHubInterface) -> None:
    """layer=-1 is the features, after the last norm; layer=L is the state before it."""
    prenorm = small_roberta(normalize_before=True)
    for layer in (-1, 3):
        for text, ours in zip(TEXTS, prenorm.features(TEXTS, layer=layer), strict=True):
            assert_close(ours, states_of(prenorm, ids_of(prenorm, text), layer))
    first, last = prenorm.features(["a"]), prenorm.features(["a"], layer=3)
    assert not torch.allclose(first[0], last[0])


@pytest.mark.parametrize("layer", [-1, 0, 2])
def test_pooling(roberta: RobertaHubInterface, layer: int) -> None:
    tokens = roberta.features(TEXTS, layer=layer)
    cls = roberta.features(TEXTS, layer=layer, pooling="cls")
    mean = roberta.features(TEXTS, layer=layer, pooling="mean")
    assert cls.shape == mean.shape == (len(TEXTS), 32)
    assert_close(cls, torch.stack([states[0] for states in tokens]))
    assert_close(mean, torch.stack([states.mean(0) for states in tokens]))


def test_means_of_a_batch_at_once(
    roberta: RobertaHubInterface, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU: texts of many windows, and their neighbours, are read one by one as before."""
    long = "the train was late again " * 30
    texts = ["a", "two words", "", long, "three short words", "a"]
    wanted = roberta.features(texts, pooling="mean", stride=4)
    monkeypatch.setattr("roberta_hub.inference.pooling.on_gpu", lambda x: True)
    torch.testing.assert_close(roberta.features(texts, pooling="mean", stride=4), wanted)
    for budget in (8, 32):
        found = roberta.features(texts, pooling="mean", stride=4, batch_tokens=budget)
        torch.testing.assert_close(found, wanted)


def test_no_texts(roberta: RobertaHubInterface) -> None:
    assert roberta.features([]) == []
    for pooling in ("cls", "mean"):
        assert roberta.features([], pooling=pooling).shape == (0, 32)  # type: ignore[call-overload]


def test_twice_the_same_text_gives_tensors_of_their_own(roberta: RobertaHubInterface) -> None:
    one, other = roberta.features(["Hello", "Hello"])
    one.zero_()
    assert other.any()


def test_a_kept_text_keeps_no_batch_alive(roberta: RobertaHubInterface) -> None:
    for states in roberta.features(["a", "b c d", "e f"]):
        assert states.untyped_storage().nbytes() == states.numel() * states.element_size()


def test_each_different_text_is_computed_once(roberta: RobertaHubInterface) -> None:
    rows = []
    embed = roberta.model.encoder.sentence_encoder.embed_tokens  # type: ignore[union-attr]
    hook = embed.register_forward_hook(lambda module, args, out: rows.append(len(out)))  # type: ignore[union-attr]
    try:
        roberta.features([*TEXTS, *reversed(TEXTS)])
    finally:
        hook.remove()
    assert sum(rows) == sum(len(ids_of(roberta, text)) for text in set(TEXTS))


# ---- modes and gradients ----


def modes(module: nn.Module) -> list[bool]:
    return [m.training for m in module.modules()]


def freeze_trunk(roberta: RobertaHubInterface) -> RobertaHubInterface:
    roberta.train()
    roberta.model.encoder.eval()  # type: ignore[union-attr]
    return roberta


@pytest.mark.system
@pytest.mark.parametrize(
    "prepare", [RobertaHubInterface.train, RobertaHubInterface.eval, freeze_trunk]
)
def test_every_modules_mode_is_restored_also_after_an_error(
    roberta: RobertaHubInterface, prepare: Any
) -> None:
    own = copy.deepcopy(roberta)
    wanted = own.eval().features(["Hello"])[0]
    before = modes(prepare(own))
    assert torch.equal(own.features(["Hello"])[0], wanted)  # without dropout in any mode
    assert modes(own) == before
    own.model.encoder.sentence_encoder.layers[1].fc1 = nn.Identity()  # type: ignore[union-attr, operator, index]
    with pytest.raises(RuntimeError):
        own.features(["Hello"])
    own.model.encoder.sentence_encoder.layers[1].fc1 = nn.Identity().train(before[0])  # type: ignore[union-attr, operator, index]
    after = modes(own)
    assert after[0] == before[0]
    assert (
        own.model.encoder.training
        == dict(zip(own.modules(), before, strict=False))[own.model.encoder]
    )  # type: ignore[union-attr, index]
    assert torch.is_grad_enabled()


def test_results_train_a_probe(roberta: RobertaHubInterface) -> None:
    vectors = roberta.features(TEXTS, pooling="mean")
    assert not vectors.requires_grad and not vectors.is_inference()
    probe = nn.Linear(32, 2)
    probe(vectors).square().sum().backward()
    assert probe.weight.grad is not None and probe.weight.grad.any()


@pytest.mark.system
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(roberta: RobertaHubInterface, dtype: torch.dtype) -> None:
    half = copy.deepcopy(roberta).to(dtype)
    for ours, wanted in zip(half.features(TEXTS), roberta.features(TEXTS), strict=True):
        assert ours.dtype is dtype
        assert_close(ours.float(), wanted, 6e-2)


# ---- long texts ----


def by_hand(roberta: RobertaHubInterface, text: str, stride: int) -> tuple[Tensor, Tensor]:
    """Token rows and mean `<s>` of windows that overlap by `stride`, from the definition."""
    ids = ids_of(roberta, text)
    inner, room = ids[1:-1], roberta.max_positions - 2
    starts = [*range(0, len(inner) - room, room - stride), len(inner) - room]
    outs = [states_of(roberta, torch.cat([ids[:1], inner[s : s + room], ids[-1:]])) for s in starts]
    rows = [outs[0][0]]
    for i in range(len(inner)):
        distances = {}
        for w, s in enumerate(starts):
            if s <= i < s + room:
                left = i - s if w else 10**6
                right = s + room - 1 - i if w < len(starts) - 1 else 10**6
                distances[w] = min(left, right)
        best = max(distances, key=lambda w: (distances[w], -w))
        rows.append(outs[best][1 + i - starts[best]])
    rows.append(outs[-1][-1])
    return torch.stack(rows), torch.stack([out[0] for out in outs]).mean(0)


@pytest.mark.parametrize("stride", [0, 1, 10, 45])
def test_windows_of_a_long_text(roberta: RobertaHubInterface, stride: int) -> None:
    rows, cls = by_hand(roberta, LONG, stride)
    texts = ["short", LONG, "short", LONG]
    found = roberta.features(texts, stride=stride)
    assert len(found[1]) == len(roberta.encode(LONG)) > 2 * 48
    assert_close(found[1], rows)
    assert torch.equal(found[1], found[3])
    assert_close(found[0], states_of(roberta, ids_of(roberta, "short")))
    assert_close(roberta.features(texts, stride=stride, pooling="cls")[1], cls)
    assert_close(roberta.features(texts, stride=stride, pooling="mean")[1], rows.mean(0))


def test_truncation(roberta: RobertaHubInterface) -> None:
    ids = ids_of(roberta, LONG)
    cut = torch.cat([ids[:47], ids[-1:]])
    assert_close(roberta.features([LONG], truncate=True)[0], states_of(roberta, cut))
    assert_close(
        roberta.features(["fits"], truncate=True)[0], states_of(roberta, roberta.encode("fits"))
    )


def test_too_long_names_the_callers_text(roberta: RobertaHubInterface) -> None:
    length = len(roberta.encode(LONG))
    for call in (roberta.features, roberta.classify, roberta.score):
        with pytest.raises(
            ValueError,
            match=rf"texts\[3\]: too long: {length} tokens > 48 .*word 0.*truncate.*stride",
        ):
            call(["same", "same", "same", LONG])  # type: ignore[operator]
    with pytest.raises(ValueError, match=r"texts\[1\]: too long"):
        roberta.zero_shot(["a", LONG], ["x", "y", "z"])
    with pytest.raises(ValueError, match=r"masked_input\[1\]: too long"):
        roberta.fill_mask(["a <mask>", LONG + " <mask>"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"truncate": True, "stride": 1}, "exclude each other"),
        ({"stride": -1}, "stride is -1"),
        ({"stride": 46}, "a stride of 46 must stay below"),
        ({"batch_tokens": 0}, "batch_tokens is 0"),
        ({"layer": 4}, r"layer 4: this model has 0 \(embeddings\) to 3"),
        ({"layer": -5}, "layer -5"),
        ({"pooling": "sum"}, "pooling is 'sum'; choose None, 'cls', 'mean', 'max' or 'pooler'"),
    ],
)
def test_options_that_cannot_be(
    roberta: RobertaHubInterface, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        roberta.features([LONG if "stride" in options else "a"], **options)


def test_a_typo_in_an_option_is_an_error(roberta: RobertaHubInterface) -> None:
    with pytest.raises(TypeError, match="trunkate"):
        roberta.features(["a"], trunkate=True)  # type: ignore[call-overload]


@pytest.mark.parametrize("progress", [True, False, None])
def test_the_bar_goes_to_stderr_and_only_if_wanted(
    roberta: RobertaHubInterface, progress: bool | None, capfd: pytest.CaptureFixture[str]
) -> None:
    roberta.features(TEXTS, progress=progress)
    out, err = capfd.readouterr()
    assert out == ""
    assert bool(err) == (progress is True)


# ---- what all verbs on lists stand on ----

LAYOUT = SequenceLayout(bos=0, pad=1, eos=2, unk=3)


@pytest.mark.system
@given(
    st.lists(st.lists(st.integers(3, 9), max_size=14), min_size=1, max_size=4),
    st.integers(11, 30),
    st.integers(0, 4),
)
@settings(max_examples=150, deadline=None)
def test_windows_cover_every_token_and_fit(
    sentences: list[list[int]], limit: int, stride: int
) -> None:
    ids = torch.tensor([0, *sentences[0], 2, *(i for s in sentences[1:] for i in [2, *s, 2])])
    others = len(ids) - max(map(len, sentences))
    if len(ids) > limit and limit - others <= stride:
        with pytest.raises(ValueError, match="stride"):
            fit_windows([ids], ["x"], limit, LAYOUT, stride=stride)
        return
    (windows,) = fit_windows([ids], ["x"], limit, LAYOUT, stride=stride)
    for own, columns in zip(windows.ids, windows.columns, strict=True):
        assert len(own) <= limit
        assert torch.equal(own, ids[columns])
        assert (own[0], own[-1]) == (0, 2) and own.eq(2).sum() == ids.eq(2).sum()
    if len(ids) <= limit:
        assert len(windows.ids) == 1
    assert torch.equal(windows.merge(list(windows.ids)), ids)  # so that every token is covered
    assert torch.equal(windows.merge(list(windows.columns)), torch.arange(len(ids)))


@given(
    st.lists(st.lists(st.integers(3, 9), max_size=14), min_size=1, max_size=4),
    st.integers(8, 30),
)
@settings(max_examples=150, deadline=None)
def test_truncation_keeps_the_beginnings_of_all_sentences(
    sentences: list[list[int]], limit: int
) -> None:
    ids = torch.tensor([0, *sentences[0], 2, *(i for s in sentences[1:] for i in [2, *s, 2])])
    specials = len(ids) - sum(map(len, sentences))
    room = limit - specials
    needed = 1 + sum(map(bool, sentences[1:]))  # a token of each sentence that is not empty
    if len(ids) > limit and room < needed:
        with pytest.raises(ValueError, match="no room"):
            fit_windows([ids], ["x"], limit, LAYOUT, truncate=True)
        return
    (windows,) = fit_windows([ids], ["x"], limit, LAYOUT, truncate=True)
    kept = list(windows.ids[0].tolist())
    assert len(kept) == min(len(ids), limit)
    # The level to which the longest are cut: no shorter sentence loses anything.
    level = max(
        n for n in range(limit + 1) if sum(min(len(s), n) for s in sentences) <= max(room, 0)
    )
    parts: list[list[int]] = []
    rest = kept[1:]
    for number in range(len(sentences)):
        end = rest.index(2)
        parts.append(rest[:end])
        rest = rest[end + 1 + (number < len(sentences) - 1) :]
    assert rest == []
    for part, sentence in zip(parts, sentences, strict=True):
        assert part == sentence[: len(part)]
        assert min(level, len(sentence)) <= len(part) <= level + 1


@given(st.lists(st.integers(1, 50), max_size=30), st.integers(1, 60), st.integers(1, 4))
def test_batches_hold_every_index_once_within_the_budget(
    lengths: list[int], budget: int, workers: int
) -> None:
    found = list(batches(lengths, budget, workers))
    assert sorted(i for batch in found for i in batch) == list(range(len(lengths)))
    for batch in found:
        assert len(batch) == 1 or sum(lengths[i] for i in batch) <= budget
    together = [found] if workers == 1 else [[batch] for batch in found]
    for some in together:  # longest first: in all, or in each batch where they run side by side
        order = [lengths[i] for batch in some for i in batch]
        assert order == sorted(order, reverse=True)
    firsts = [lengths[batch[0]] for batch in found]
    assert firsts == sorted(firsts, reverse=True)


@pytest.mark.parametrize("workers", [1, 2, 8])
def test_workers_get_as_many_batches_of_one_size(workers: int) -> None:
    rng = random.Random(workers)
    for texts in (24, 100, 333):
        lengths = [rng.randint(5, 80) for _ in range(texts)]
        sizes = [sum(lengths[i] for i in batch) for batch in batches(lengths, 512, workers)]
        loads = [sum(sizes[worker::workers]) for worker in range(workers)]
        assert max(loads) < 1.25 * sum(lengths) / workers
        assert max(sizes) - min(sizes) <= 160  # two of the longest


@pytest.mark.parametrize("workers", [2, 8])
def test_few_batches_are_equal_but_for_one_sequence(workers: int) -> None:
    rng = random.Random(workers)
    for texts in (workers * 8, workers * 16, workers * 24):
        lengths = [rng.randint(5, 120) for _ in range(texts)]
        found = list(batches(lengths, 512, workers))
        assert len(found) in range(workers, 4 * workers + 1, workers)
        sizes = [sum(lengths[i] for i in batch) for batch in found]
        last = lengths[found[sizes.index(max(sizes))][-1]]  # what was dealt last
        assert max(sizes) - min(sizes) <= last


def test_once_points_every_item_to_its_first_appearance() -> None:
    rng = random.Random(0)
    items = [rng.choice("abcdef") for _ in range(40)]
    firsts, which = deduplicate(items)
    assert [items[firsts[n]] for n in which] == items
    assert len({items[i] for i in firsts}) == len(firsts) == len(set(items))
    assert all(items.index(items[i]) == i for i in firsts)

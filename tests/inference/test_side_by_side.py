"""Batches side by side, and last layers that compute one row of each text, keep the numbers."""

import threading
import time
from collections.abc import Iterator

import pytest
import torch
from small_models import assert_close, small_roberta

from roberta_hub import RobertaHubInterface
from roberta_hub.inference.batching import Runner
from roberta_hub.inference.threads import can_spread, spread
from roberta_hub.model.packing import pack_sequences

TEXTS = [f"Sentence number {n} has {'very ' * (n % 7)}many words." for n in range(40)]


@pytest.fixture(autouse=True)
def _two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def roberta() -> RobertaHubInterface:
    return small_roberta(heads={"mnli": 3})


def test_the_same_answers_from_both_threads(
    roberta: RobertaHubInterface, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = roberta.features(TEXTS)
    names: set[str] = set()
    encoder = roberta.model.encoder.sentence_encoder
    packed = encoder.packed
    both = threading.Barrier(2)

    def watched(*args: object, **keywords: object) -> object:
        if threading.current_thread().name not in names:
            names.add(threading.current_thread().name)
            both.wait(120)  # else one may have done all before a busy machine runs the other
        assert torch.get_num_threads() == 1 and not torch.is_grad_enabled()
        return packed(*args, **keywords)

    roberta.optimize()
    monkeypatch.setattr(encoder, "packed", watched)
    found = roberta.features(TEXTS, batch_tokens=32)
    assert len(names) == 2 and threading.main_thread().name not in names
    assert torch.get_num_threads() == 2
    for ours, theirs in zip(found, wanted, strict=True):
        assert_close(ours, theirs, 2e-5)


@pytest.mark.system
@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize("pooling", [None, "cls", "mean"])
def test_features_can_be_trained_on_and_keep_no_graph(
    roberta: RobertaHubInterface, pooling: str | None, prepared: bool
) -> None:
    """Callers get no tensors that autograd refuses.

    Prepared layers run in inference mode, whose tensors are such.
    """
    if prepared:
        roberta.optimize()
    assert any(parameter.requires_grad for parameter in roberta.parameters())
    for texts in (TEXTS[:1], TEXTS):
        found = roberta.features(texts, pooling=pooling)
        x = found[0] if pooling is None else found
        assert not x.requires_grad and not x.is_inference()
        head = torch.nn.Linear(x.size(-1), 2)
        head(x).sum().backward()
        assert head.weight.grad is not None


def test_hooks_get_tensors_that_can_be_trained_on(roberta: RobertaHubInterface) -> None:
    seen: list[torch.Tensor] = []
    layer = roberta.optimize().model.encoder.sentence_encoder.layers[0]
    layer.register_forward_hook(lambda module, args, out: seen.append(out))
    roberta.features(TEXTS)
    assert seen and not any(states.is_inference() for states in seen)


@pytest.mark.system
@pytest.mark.parametrize(
    ("lengths", "cores"),
    [([30] * 40, 2), ([300, 300], 2), ([30] * 16, 1), ([500, 90], 1), ([512], 1), ([], 1)],
)
def test_cores_that_would_wait_share_each_batch(
    roberta: RobertaHubInterface, lengths: list[int], cores: int
) -> None:
    runner = Runner(model=roberta.eval().optimize().model, tokenizer=roberta.tokenizer)
    with torch.no_grad():
        assert runner._workers(lengths) == cores


def test_where_it_must_not(roberta: RobertaHubInterface) -> None:
    assert not can_spread(roberta.model)  # plain weights
    roberta.optimize()
    with torch.no_grad():
        roberta.eval()
        assert can_spread(roberta.model)
        hook = roberta.model.encoder.lm_head.register_forward_hook(lambda *_: None)
        assert not can_spread(roberta.model)
        hook.remove()
        with torch.autocast("cpu", torch.bfloat16):
            assert not can_spread(roberta.model)
        torch.set_num_threads(1)
        assert not can_spread(roberta.model)


def test_an_error_in_one_batch_is_raised_and_the_rest_is_not_begun() -> None:
    begun = []

    def work(number: int) -> int:
        begun.append(number)
        time.sleep(0.001)
        if number == 3:
            raise ValueError("three")
        return number

    with pytest.raises(ValueError, match="three"):
        for _ in spread(work, range(10_000)):
            pass
    assert len(begun) < 10_000
    assert torch.get_num_threads() == 2


def test_other_threads_keep_their_number_of_threads(roberta: RobertaHubInterface) -> None:
    roberta.optimize().features(TEXTS, batch_tokens=32)
    seen = []
    thread = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert seen == [2]


@pytest.mark.parametrize("dtype", [None, "plain"])
@pytest.mark.parametrize("normalize_before", [False, True])
def test_one_row_of_each_sequence(normalize_before: bool, dtype: str | None) -> None:
    roberta = small_roberta(normalize_before=normalize_before)
    encoder = roberta.eval().model.encoder.sentence_encoder
    if dtype is None:
        encoder.prepare(None)
    ids = [torch.randint(4, 50, (n,)) for n in (3, 3, 9, 5, 1)]
    batch = pack_sequences(ids, padding_idx=1)
    rows = batch.starts + torch.tensor([2, 0, 7, 1, 0])
    with torch.no_grad():
        *before, last = encoder.packed(batch)
        *again, picked = encoder.packed(batch, rows=rows)
    assert_close(picked, last[rows], 2e-6)
    assert all(map(torch.equal, before, again))


@pytest.mark.system
def test_verbs_ask_for_the_rows_they_read(
    roberta: RobertaHubInterface, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What classify, features, fill_mask and score say, beside the same with every row computed."""
    texts = [text.replace("many", "<mask>") for text in TEXTS]
    masks = [*texts, "<mask> and <mask>"]

    def all_of_it() -> list[torch.Tensor]:
        return [
            torch.tensor([p.score for p in roberta.classify(TEXTS, "mnli")]),
            roberta.features(TEXTS, pooling="cls"),
            torch.tensor([p for own in roberta.fill_mask(texts) for _, p, _ in own]),
            torch.tensor(roberta.score(TEXTS[:3])),
        ]

    shapes = []
    encoder = roberta.model.encoder.sentence_encoder
    packed, finish = encoder.packed, encoder.finish
    monkeypatch.setattr(encoder, "finish", lambda x: (shapes.append(len(x)), finish(x))[1])
    few = all_of_it()
    counted = sum(shapes)
    shapes.clear()
    monkeypatch.setattr(encoder, "packed", lambda batch, rows=None: packed(batch))
    monkeypatch.setattr(
        "roberta_hub.inference.batching.BatchStates.at", lambda self, rows: self.states[rows]
    )
    many = all_of_it()
    assert counted < sum(shapes) / 4
    for ours, wanted in zip(few, many, strict=True):
        assert_close(ours, wanted, 2e-6)
    assert len(roberta.fill_mask(masks[-1:])[0]) == 2  # two masks a text: every row is computed

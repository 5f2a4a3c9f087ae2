"""Many threads on one model: eval-mode answers, and every mode as it was afterwards."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from parity import peers
from questions import NLI
from small_models import assert_close, small_roberta

from roberta_hub import RobertaHubInterface
from roberta_hub.fairseq_bridge import to_fairseq
from roberta_hub.model import matrices as quantize

THREADS, ROUNDS = 8, 5
needs_int8 = pytest.mark.skipif(quantize.missing_features("int8") is not None, reason="no VNNI")
TEXTS = [f"Sentence number {n} has {'very ' * (n % 5)}many words." for n in range(6)]
PAIRS = [(text, "It rained.") for text in TEXTS]
MASKED = "The <mask> has many words."
DROPOUT = {"dropout": 0.1, "attention_dropout": 0.1}


def loaded(seed: int = 0) -> RobertaHubInterface:
    """As a load leaves it: in train mode, with dropout; but for one layer that somebody froze."""
    roberta = small_roberta(seed, heads={"mnli": 3}, labels={"mnli": NLI}, **DROPOUT).train()
    roberta.model.encoder.sentence_encoder.layers[1].eval()  # type: ignore[union-attr, index, operator]
    return roberta


def optimized() -> RobertaHubInterface:
    return loaded().optimize()


def theirs() -> RobertaHubInterface:
    ours = small_roberta(heads={"mnli": 3}, labels={"mnli": NLI}, **DROPOUT)
    model = to_fairseq(ours.model).train()  # type: ignore[arg-type]
    return RobertaHubInterface(ours.cfg, ours.task, model, labels={"mnli": NLI})


def answers(roberta: RobertaHubInterface) -> list[torch.Tensor]:
    """What some verbs say, our own and fairseq's, as numbers."""
    return [
        roberta.features(TEXTS[:2], pooling="mean"),
        torch.tensor([list(p.scores.values()) for p in roberta.classify(PAIRS, "mnli")]),
        torch.tensor([p.score for p in roberta.zero_shot(TEXTS[:1], ["x", "y"], head="mnli")]),
        torch.tensor([p for _, p, _ in roberta.fill_mask(MASKED, topk=3)]),
    ]


def modes(roberta: RobertaHubInterface) -> list[bool]:
    return [module.training for module in roberta.modules()]


def together(*works: Callable[[], object]) -> None:
    """Run all at once, each in a thread of its own, and raise what one raised."""
    barrier = threading.Barrier(len(works))

    def run(work: Callable[[], object]) -> None:
        barrier.wait()
        work()

    with ThreadPoolExecutor(len(works)) as pool:
        for future in [pool.submit(run, work) for work in works]:
            future.result()


@pytest.fixture(params=[1, 2])
def torch_threads(request: pytest.FixtureRequest) -> Iterator[int]:
    """Two: then batches of optimized models also run side by side."""
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.system
@pytest.mark.filterwarnings("ignore:extract_features runs with dropout on")
@pytest.mark.usefixtures("torch_threads")
@pytest.mark.parametrize(
    "make", [loaded, optimized, pytest.param(theirs, marks=peers.needs_fairseq)]
)
def test_eight_threads_say_what_one_says(make: Callable[[], RobertaHubInterface]) -> None:
    roberta = make()
    wanted, before = answers(roberta), modes(roberta)
    ids = roberta.encode(TEXTS[0])
    found: list[list[torch.Tensor]] = []
    done = threading.Event()

    def ask() -> None:
        for _ in range(ROUNDS):
            found.append(answers(roberta))

    def extract() -> None:
        """fairseq's verb keeps mode and gradients: it disturbs no mode that it meets."""
        while not done.is_set():
            features = roberta.extract_features(ids)
            assert features.requires_grad and features.isfinite().all()
            with torch.no_grad():
                assert not roberta.extract_features(ids).requires_grad

    beside = threading.Thread(target=extract)
    beside.start()
    try:
        together(*[ask] * THREADS)
    finally:
        done.set()
        beside.join()
    assert len(found) == ROUNDS * THREADS
    for own in found:
        for ours, single in zip(own, wanted, strict=True):
            assert_close(ours, single, 2e-5)
    assert modes(roberta) == before


@pytest.mark.system
@pytest.mark.usefixtures("torch_threads")
@pytest.mark.parametrize("make", [loaded, optimized])
def test_training_beside_verbs(make: Callable[[], RobertaHubInterface]) -> None:
    """Answers follow the weights; nothing dies, and what is left answers as its plain twin does."""
    roberta = make()
    before, losses = modes(roberta), []
    done = threading.Event()
    optimizer = torch.optim.AdamW(roberta.parameters(), lr=1e-3)
    tokens = torch.stack([roberta.encode(TEXTS[0])] * 2)

    def train() -> None:
        while not done.is_set():
            optimizer.zero_grad()
            logits = roberta.predict("mnli", tokens, return_logits=True)
            loss = torch.nn.functional.cross_entropy(logits, torch.tensor([0, 0]))
            loss.backward()
            optimizer.step()
            losses.append(loss.item())

    def ask() -> None:
        for _ in range(3):
            assert all(answer.isfinite().all() for answer in answers(roberta))

    roberta._warned = frozenset({"predict"})
    trainer = threading.Thread(target=train)
    trainer.start()
    try:
        together(*[ask] * 4)
    finally:
        done.set()
        trainer.join()
    assert losses and all(math.isfinite(loss) for loss in losses)
    assert modes(roberta) == before
    if roberta.optimized is not None:
        ours = answers(roberta)
        roberta.model.encoder.sentence_encoder.prepared = None  # type: ignore[union-attr]
        roberta.model.encoder.lm_head.prepared = None  # type: ignore[union-attr]
        for prepared, plain in zip(ours, answers(roberta), strict=True):
            assert_close(prepared, plain, 2e-5)


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(None, 2e-5), pytest.param("int8", 0.1, marks=needs_int8)]
)
def test_optimize_in_eight_threads(dtype: Any, tolerance: float) -> None:
    """One at a time, each compared with plain features; verbs beside it say what they said."""
    roberta = loaded()
    wanted, errors = answers(roberta), []

    def optimize() -> None:
        own = RobertaHubInterface(roberta.cfg, roberta.task, roberta.model)
        for _ in range(2):
            own.optimize(dtype)
            assert own.optimized is not None
            errors.append(own.optimized.error)

    def ask() -> None:
        for _ in range(3):
            for ours, single in zip(answers(roberta), wanted, strict=True):
                assert_close(ours, single, tolerance)

    together(*[optimize] * 4, *[ask] * 4)
    # No error at all in int8 would mean that a form was compared with itself.
    assert len(set(errors)) == 1 and (dtype is None or errors[0] > 1e-4), errors


def test_a_form_is_made_once_for_all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    roberta = optimized().eval()
    encoder: Any = roberta.model.encoder.sentence_encoder
    prepared, made = encoder.prepared, []
    make = prepared.make
    monkeypatch.setattr(prepared, "make", lambda *about: (made.append(1), make(*about))[1])
    prepared._made = None
    forms: list[object] = []

    def ask() -> None:
        with torch.no_grad():
            forms.append(prepared.form())

    together(*[ask] * THREADS)
    assert len(made) == 1
    assert all(form is forms[0] and form is not None for form in forms)


def test_threads_that_begin_meanwhile_get_their_number_of_threads() -> None:
    """`torch.set_num_threads` in a worker is not for them."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        roberta = small_roberta().optimize()
        roberta.features(TEXTS * 8, batch_tokens=32)
        seen: list[int] = []

        def ask() -> None:
            seen.append(torch.get_num_threads())
            for _ in range(3):
                roberta.features(TEXTS * 8, batch_tokens=32)
            seen.append(torch.get_num_threads())

        for _ in range(6):
            together(*[ask] * 4)
        assert set(seen) == {2}
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_modes_asked_for_meanwhile() -> None:
    """`train()` from elsewhere is kept: loading says it, and a trainer in each epoch."""
    roberta = loaded().eval()
    inside, out = threading.Event(), threading.Event()

    def ask() -> None:
        def wait(_: object, __: object) -> None:
            inside.set()
            assert out.wait(60)

        handle = roberta.model.encoder.sentence_encoder.embed_tokens.register_forward_pre_hook(wait)  # type: ignore[union-attr, operator]
        roberta.features(TEXTS[:1])
        handle.remove()

    thread = threading.Thread(target=ask)
    thread.start()
    assert inside.wait(60)
    roberta.train()
    out.set()
    thread.join()
    assert all(modes(roberta))


@pytest.mark.system
def test_sixteen_threads_cut_texts_each_its_own_way() -> None:
    """What one call says of truncation or windows reaches no other call."""
    roberta = small_roberta().eval()
    texts = [f"{n} " + "many words and more " * (n % 19) for n in range(640)]
    ways: list[Any] = [{"truncate": True}, {"stride": 4}, {"truncate": True, "batch_tokens": 40}]

    def ask(number: int) -> torch.Tensor:
        part = texts[number * 5 : number * 5 + 5]
        return roberta.features(part, pooling="mean", progress=False, **ways[number % 3])

    calls = range(len(texts) // 5)
    alone = [ask(number) for number in calls]
    assert not torch.allclose(alone[3], roberta.features(texts[15:20], pooling="mean", stride=4))
    with ThreadPoolExecutor(16) as pool:
        for found, wanted in zip(pool.map(ask, calls), alone, strict=True):
            assert_close(found, wanted)

"""Every verb on a GPU, beside the CPU on the same weights.

Skipped where there is none. `ROBERTA_HUB_TEST_DEVICE=cpu` runs the file there all the same, to try
the file itself.
"""

from __future__ import annotations

import copy
import math
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from small_models import small_roberta
from test_family_matrix import (
    CLASSES,
    CONTEXT,
    DISCRIMINATORS,
    LANGUAGE,
    QUESTION,
    TEXTS,
    with_heads,
)
from test_family_matrix import made as family
from torch import Tensor, nn

import roberta_hub
from roberta_hub import RobertaHubInterface

DEVICE = os.environ.get("ROBERTA_HUB_TEST_DEVICE", "cuda")
pytestmark = [
    pytest.mark.skipif(DEVICE == "cuda" and not torch.cuda.is_available(), reason="no GPU"),
    pytest.mark.filterwarnings("ignore"),
]
LABELS = ["art", "news", "sport"]
SENTENCES = [text for text in TEXTS if isinstance(text, str) and text]
MANY = [" ".join(SENTENCES[i % 3 :][: 1 + i % 2]) for i in range(40)]
LONG = " ".join(["The train from Hamburg was late, so we had coffee."] * 12)
Verb = Callable[[RobertaHubInterface], Any]

VERBS: dict[str, Verb] = {
    "features": lambda r: r.features(TEXTS),
    "features of many": lambda r: r.features(MANY, pooling="mean"),
    "features, a layer": lambda r: r.features(TEXTS, layer=1),
    "features in windows": lambda r: r.features([LONG, "a"], stride=8),
    "features, max": lambda r: r.features(TEXTS, pooling="max", normalize=True),
    "extract_features": lambda r: r.extract_features(r.encode("The train was late.")),
    "extract_features, all": lambda r: r.extract_features(
        roberta_hub.collate_tokens(r.encode_batch(TEXTS), pad_idx=r.tokenizer.layout.pad),
        return_all_hiddens=True,
    ),
    "embed": lambda r: r.embed(SENTENCES),
    "similarity": lambda r: r.similarity(SENTENCES, r.embed(SENTENCES[:2])),
    "search": lambda r: [hit.score for hit in r.search(SENTENCES[0], MANY, topk=4)],
    "classify": lambda r: r.classify(TEXTS, "topic"),
    "classify, several": lambda r: r.classify(TEXTS, "topic", multi_label=True),
    "predict_proba": lambda r: r.predict_proba(TEXTS, "topic"),
    "predict": lambda r: r.predict("topic", r.encode("The train was late.")),
    "zero_shot": lambda r: r.zero_shot(SENTENCES, LABELS, head="nli"),
    "tag": lambda r: r.tag(SENTENCES, "ner"),
    "answer": lambda r: r.answer(QUESTION, CONTEXT, "squad"),
    "choose": lambda r: r.choose(SENTENCES[0], LABELS, "option"),
    "rank": lambda r: [hit.score for hit in r.rank("a", SENTENCES, head="option")],
    "explain": lambda r: r.explain("The train was late.", "topic").to_dict(),
    "attention": lambda r: r.model.encoder.sentence_encoder.attention_weights(
        r.encode("The train was late.").to(r.device)
    ),
}
LANGUAGE_VERBS: dict[str, Verb] = {
    "fill_mask": lambda r: [p for _, p, _ in r.fill_mask("The train was <mask>.")],
    "fill_mask of many": lambda r: [
        p for text in r.fill_mask(["The <mask> was late.", "a <mask>"]) for _, p, _ in text
    ],
    "score": lambda r: r.score(["The train was late.", ("He was right.", "She was wrong.")]),
    "pronoun": lambda r: r.disambiguate_pronoun(
        "The trophy would not fit in the suitcase because [it] was too big.",
        ["the trophy", "the suitcase"],
    ),
}


def numbers(answer: Any) -> Iterator[float]:
    """Every number of an answer, in order."""
    if isinstance(answer, Tensor):
        yield from answer.detach().float().cpu().flatten().tolist()
    elif isinstance(answer, (bool, int, float)):
        yield float(answer)
    elif isinstance(answer, dict):
        for key in sorted(answer, key=str):
            yield from numbers(answer[key])
    elif isinstance(answer, (list, tuple)):
        for part in answer:
            yield from numbers(part)
    elif hasattr(answer, "scores"):
        yield from (answer.scores[name] for name in sorted(answer.scores))
    elif hasattr(answer, "score"):
        yield answer.score


def gap(one: Any, other: Any) -> float:
    """Largest difference between the numbers of two answers; infinite where they are not alike."""
    mine, theirs = list(numbers(one)), list(numbers(other))
    if len(mine) != len(theirs) or not all(map(math.isfinite, mine)):
        return math.inf
    return max((abs(a - b) for a, b in zip(mine, theirs, strict=True)), default=0.0)


@pytest.fixture(scope="module", params=CLASSES)
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, RobertaHubInterface, RobertaHubInterface]:
    """A model of each class on the CPU, and its copy on the GPU."""
    case = family(request.param, tmp_path_factory.mktemp(request.param) / "model")
    on_cpu = with_heads(case.ours)
    return request.param, on_cpu, copy.deepcopy(on_cpu).to(DEVICE)


def verbs_of(name: str) -> dict[str, Verb]:
    more = {"replaced": lambda r: r.replaced(SENTENCES)} if name in DISCRIMINATORS else {}
    return VERBS | (LANGUAGE_VERBS if name in LANGUAGE else {}) | more


def check(name: str, mine: RobertaHubInterface, other: RobertaHubInterface, most: float) -> None:
    wrong = {}
    for verb, call in verbs_of(name).items():
        with torch.no_grad():
            difference = gap(call(mine), call(other))
        if not difference <= most:
            wrong[verb] = difference
    assert wrong == {}


def test_in_float32(pair: tuple[str, RobertaHubInterface, RobertaHubInterface]) -> None:
    name, on_cpu, on_gpu = pair
    check(name, on_gpu, on_cpu, 2e-4)


def test_optimize_keeps_the_answers(
    pair: tuple[str, RobertaHubInterface, RobertaHubInterface],
) -> None:
    name, on_cpu, on_gpu = pair
    check(name, copy.deepcopy(on_gpu).optimize(), on_cpu, 2e-4)


@pytest.mark.parametrize("how", ["to", "optimize"])
def test_in_bfloat16(pair: tuple[str, RobertaHubInterface, RobertaHubInterface], how: str) -> None:
    """Rounded to 8 bits: cosines of vectors stay above .99, and no verb fails."""
    name, on_cpu, on_gpu = pair
    half = copy.deepcopy(on_gpu)
    half = half.to(torch.bfloat16) if how == "to" else half.optimize("bfloat16")
    for call in verbs_of(name).values():
        with torch.no_grad():
            assert all(map(math.isfinite, numbers(call(half))))
    wanted, found = on_cpu.features(TEXTS), half.features(TEXTS)
    for one, other in zip(wanted, found, strict=True):
        cosines = nn.functional.cosine_similarity(one, other.float().cpu(), dim=1)
        assert cosines.min() > 0.99


def test_vectors_stay_on_the_gpu() -> None:
    roberta = small_roberta().eval().to(DEVICE)
    for found in (
        roberta.features("Hello world!"),
        roberta.features(["a", "b"], pooling="mean"),
        roberta.extract_features(roberta.encode("Hello")),
        roberta.embed(["a", "b"]),
    ):
        assert found.device.type == torch.device(DEVICE).type
    assert roberta.encode("Hello").device.type == "cpu"


def test_threads_share_a_model() -> None:
    roberta = small_roberta().eval().to(DEVICE)
    wanted, found = roberta.features(MANY, pooling="mean"), {}

    def work(k: int) -> None:
        found[k] = roberta.features(MANY, pooling="mean", batch_tokens=64 * (k + 1))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(gap(found[k], wanted) for k in range(4)) < 2e-4


def test_ids_out_of_range_leave_the_gpu_usable() -> None:
    """A GPU that fails on an id fails on everything after it."""
    roberta = small_roberta().eval().to(DEVICE)
    with pytest.raises(roberta_hub.errors.InputError, match="outside the vocabulary"):
        roberta.extract_features(torch.tensor([[0, 10**6, 2]]))
    assert roberta.features("a").isfinite().all()


def test_saved_from_the_gpu(tmp_path: Path) -> None:
    roberta = small_roberta(heads={"topic": 2}).eval().to(DEVICE)
    for format in ("roberta_hub", "fairseq"):
        roberta.save(tmp_path / format, format=format)
        again = roberta_hub.load_model(tmp_path / format, device=DEVICE).eval()
        assert gap(again.features("a"), roberta.features("a")) == 0
        again = roberta_hub.load_model(tmp_path / format).eval()
        assert gap(again.features("a"), roberta.features("a")) < 2e-4


def test_bundled_model_in_every_dtype() -> None:
    texts = ["I loved every minute of it.", "What a waste of time."]
    wanted = roberta_hub.load_model("roberta.tiny").eval()
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        roberta = roberta_hub.load_model("roberta.tiny", device=DEVICE, dtype=dtype).eval()
        found = roberta.zero_shot(texts, ["positive", "negative"])
        best = [answer.label for answer in wanted.zero_shot(texts, ["positive", "negative"])]
        assert [answer.label for answer in found] == best
        cosines = nn.functional.cosine_similarity(
            wanted.embed(texts), roberta.embed(texts).float().cpu()
        )
        assert cosines.min() > 0.995

"""embed(): pooled as the settings say, whatever the text; similarity() beside its plain twin."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from questions import LONG, TEXTS, ids_of, states_of
from small_models import assert_close
from torch import Tensor, nn

from roberta_hub import RobertaHubError, RobertaHubInterface, SentenceSettings
from roberta_hub.inference.windows import keep_as_tokenizers, keep_evenly
from roberta_hub.settings import POOLINGS

PLAIN: dict[str, Callable[[Tensor], Tensor]] = {
    "cls": lambda states: states[0],
    "max": lambda states: states.max(0).values,
    "mean": lambda states: states.sum(0) / len(states),
    "mean_sqrt_len": lambda states: states.sum(0) / math.sqrt(len(states)),
    "weighted_mean": lambda states: (
        sum((i + 1) * row for i, row in enumerate(states)) / sum(range(1, len(states) + 1))
    ),
    "last_token": lambda states: states[len(states) - 1],
}
OWN = [name for name in POOLINGS if name != "pooler"]
"""Poolings that need no weights."""


def with_settings(roberta: RobertaHubInterface, **settings: Any) -> RobertaHubInterface:
    """The same model, told how to make vectors."""
    told = copy.copy(roberta)
    told.sentence = SentenceSettings(**settings)
    return told


def vector_of(roberta: RobertaHubInterface, ids: Tensor, *pooling: str) -> Tensor:
    states = states_of(roberta, ids)
    return torch.cat([PLAIN[name](states) for name in pooling])


# ---- pooling ----


def test_a_model_without_settings_takes_the_mean(roberta: RobertaHubInterface) -> None:
    assert roberta.sentence is None
    vectors = roberta.embed(TEXTS)
    assert vectors.shape == (len(TEXTS), 32)
    assert torch.equal(vectors, roberta.features(TEXTS, pooling="mean"))
    assert_close(vectors[2], vector_of(roberta, ids_of(roberta, TEXTS[2]), "mean"))
    assert torch.equal(roberta.embed("Hello world!"), vectors[0])
    assert roberta.embed([]).shape == (0, 32)


@pytest.mark.parametrize(
    "pooling", [*((name,) for name in OWN), ("mean", "cls"), ("cls", "max", "mean_sqrt_len")]
)
@pytest.mark.parametrize("normalize", [False, True])
def test_every_pooling(
    roberta: RobertaHubInterface, pooling: tuple[str, ...], normalize: bool
) -> None:
    told = with_settings(roberta, pooling=pooling, normalize=normalize)
    wanted = torch.stack([vector_of(roberta, ids_of(roberta, text), *pooling) for text in TEXTS])
    wanted = wanted / wanted.norm(dim=1, keepdim=True) if normalize else wanted
    for batch_tokens in (None, 13):
        assert_close(told.embed(TEXTS, batch_tokens=batch_tokens), wanted)
    assert told.embed([]).shape == (0, 32 * len(pooling))


@pytest.mark.parametrize("normalize", [False, True])
def test_the_first_numbers_of_a_vector(roberta: RobertaHubInterface, normalize: bool) -> None:
    told = with_settings(roberta, pooling=("cls", "mean"), normalize=normalize)
    wanted = told.embed(TEXTS)[:, :40]
    wanted = wanted / wanted.norm(dim=1, keepdim=True) if normalize else wanted
    found = told.embed(TEXTS, truncate_dim=40)
    assert_close(found, wanted)
    assert found.untyped_storage().nbytes() == found.nbytes  # the rest is not kept in memory
    assert torch.equal(told.embed(TEXTS, truncate_dim=64), told.embed(TEXTS))
    assert told.embed([], truncate_dim=5).shape == (0, 5)
    for wrong in (0, 65, -1, 3.5, "8", True):
        with pytest.raises(ValueError, match=r"truncate_dim is .*have 64 numbers; keep 1 to 64"):
            told.embed(TEXTS, truncate_dim=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("pooling", OWN)
def test_windows_count_each_token_once(roberta: RobertaHubInterface, pooling: str) -> None:
    told = with_settings(roberta, pooling=pooling, max_length=20)
    vectors = told.embed(["Hello", LONG], stride=4)
    assert_close(vectors[0], vector_of(roberta, ids_of(roberta, "Hello"), pooling))
    ids = ids_of(roberta, LONG)
    runs = told._sentence_runner(stride=4)[1].fit_windows([ids], [LONG])[0]
    states = [states_of(roberta, window) for window in runs.ids]
    assert len(states) > 3
    if pooling == "cls":
        assert_close(vectors[1], torch.stack([own[0] for own in states]).mean(0))
    else:
        assert_close(vectors[1], PLAIN[pooling](runs.merge(states)))


@pytest.mark.parametrize("pooling", ["cls", "mean", "max", None])
def test_features_normalized(roberta: RobertaHubInterface, pooling: Any) -> None:
    plain = roberta.features(TEXTS, pooling=pooling)
    found = roberta.features(TEXTS, pooling=pooling, normalize=True)
    for ours, whole in zip(found, plain, strict=True):
        assert_close(ours, whole / whole.norm(dim=-1, keepdim=True))


class Pooler(nn.Module):
    """What BERT has and RoBERTa has not."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Linear(32, 32)

    def forward(self, first: Tensor) -> Tensor:
        return torch.tanh(self.dense(first))


def test_the_pooler(roberta: RobertaHubInterface) -> None:
    with pytest.raises(ValueError, match=r"no pooler.*'cls', 'mean' or 'max'"):
        roberta.features(TEXTS, pooling="pooler")
    own = copy.deepcopy(roberta)
    own.model.pooler = Pooler()
    first = roberta.features([*TEXTS, "Hello"], pooling="cls")
    pooled = own.features([*TEXTS, "Hello"], pooling="pooler")
    assert_close(pooled, own.model.pooler(first))
    assert not pooled.requires_grad
    windows = own.features([LONG, "Hello"], pooling="pooler", stride=4)
    assert_close(windows[1], pooled[-1])
    with pytest.raises(ValueError, match="leave layer out"):
        own.features(TEXTS, pooling="pooler", layer=1)


# ---- the limit ----


def test_longer_than_the_limit_is_an_error(roberta: RobertaHubInterface) -> None:
    told = with_settings(roberta, max_length=12)
    with pytest.raises(
        ValueError, match=r"texts\[1\]: .* \d+ tokens > 12 \('word 0.*truncate=True"
    ):
        told.embed(["Hello", LONG])
    assert told.features([LONG], truncate=True)[0].shape == (48, 32)  # the model's own limit
    wide = with_settings(roberta, max_length=5000)
    with pytest.raises(ValueError, match="tokens > 48 "):
        wide.embed(LONG)


def test_a_cut_keeps_the_specials(roberta: RobertaHubInterface) -> None:
    told = with_settings(roberta, max_length=12)
    ids = ids_of(roberta, LONG)
    cut = torch.cat([ids[:11], ids[-1:]])
    assert_close(told.embed(LONG, truncate=True), vector_of(roberta, cut, "mean"))


def test_a_pair_is_cut_as_tokenizers_cuts_it() -> None:
    tokenizers = pytest.importorskip("tokenizers", "0.23.3")
    splitter = tokenizers.pre_tokenizers.Whitespace()
    peer = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1, "?": 2}, "?"))
    peer.pre_tokenizer = splitter
    odd = 0
    for room in range(2, 12):
        peer.enable_truncation(room, strategy="longest_first")
        for first in range(1, 13):
            for second in range(max(1, room + 1 - first), 13):
                found = peer.encode("a " * first, "b " * second).ids
                wanted = [found.count(0), found.count(1)]
                assert keep_as_tokenizers([first, second], room) == wanted
                odd += keep_evenly([first, second], room) != wanted
    assert odd > 20  # by one token


# ---- prompts and lower case ----

PROMPTS = {"query": "query: ", "passage": "passage: ", "nothing": ""}


def test_prompts(roberta: RobertaHubInterface) -> None:
    told = with_settings(roberta, prompts=PROMPTS, default_prompt="passage")
    texts = ["Hello", ("Hello", "world")]
    asked = roberta.embed(["query: Hello", ("query: Hello", "world")])
    assert torch.equal(told.embed(texts, prompt_name="query"), asked)
    assert torch.equal(told.embed(texts, "query: "), asked)
    assert torch.equal(told.embed(texts, prompt=""), roberta.embed(texts))
    assert torch.equal(told.embed(texts, prompt_name="nothing"), roberta.embed(texts))
    default = roberta.embed(["passage: Hello", ("passage: Hello", "world")])
    assert torch.equal(told.embed(texts), default)
    assert torch.equal(
        told.similarity(texts, default).diagonal(), told.similarity(texts, texts).diagonal()
    )
    assert torch.equal(roberta.embed(texts, prompt="query: "), asked)  # any model takes one


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"prompt_name": "qury"}, KeyError, "'qury'; this model has query, passage, nothing"),
        ({"prompt": "query"}, ValueError, "say prompt_name='query' for its text 'query: '"),
        ({"prompt": "a", "prompt_name": "query"}, ValueError, "one of the two"),
        ({"prompt": ["query: "]}, TypeError, "prompt is a list"),
        ({"prompt_name": 3}, TypeError, "prompt_name is a int"),
        ({"normalize_embeddings": True}, TypeError, "normalize_embeddings"),
    ],
)
def test_prompts_that_cannot_be(
    roberta: RobertaHubInterface, given: Any, error: type[Exception], says: str
) -> None:
    told = with_settings(roberta, prompts=PROMPTS)
    with pytest.raises(error, match=says) as raised:
        told.embed(["Hello"], **given)
    assert isinstance(raised.value, RobertaHubError)


def test_lower_case_comes_before_the_tokenizer(roberta: RobertaHubInterface) -> None:
    told = with_settings(roberta, lower_case=True, prompts={"query": "Query: "})
    texts: list[Any] = ["Hello WORLD", ("ΑΣ ÉTÉ", "B")]
    # A capital sigma by itself: not the letter that str.lower has at the end of a word.
    assert torch.equal(told.embed(texts), roberta.embed(["hello world", ("ασ été", "b")]))
    asked = told.embed("Hello", prompt_name="query")
    assert torch.equal(asked, roberta.embed("query: hello"))


# ---- settings ----


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"pooling": "middle"}, "pooling is .*choose of cls, max, mean, mean_sqrt_len"),
        ({"pooling": ()}, "one or more"),
        ({"pooling": {"cls"}}, "one or more"),
        ({"normalize": 1}, "normalize is 1"),
        ({"lower_case": "no"}, "lower_case is 'no'"),
        ({"max_length": 0}, "max_length is 0"),
        ({"max_length": 2.0}, "max_length is 2.0"),
        ({"max_length": True}, "max_length is True"),
        ({"prompts": ["query: "]}, "prompts is"),
        ({"prompts": {"query": 3}}, "prompts is"),
        ({"default_prompt": "query"}, "none of the prompts: there are none"),
        ({"default_prompt": ["query"]}, "none of the prompts"),
        ({"similarity": "dot product"}, "choose cosine, dot, euclidean, manhattan"),
    ],
)
def test_settings_that_cannot_be(given: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        SentenceSettings(**given)


def test_settings_are_no_dict(roberta: RobertaHubInterface) -> None:
    with pytest.raises(TypeError, match="pass SentenceSettings"):
        RobertaHubInterface(roberta.cfg, roberta.task, roberta.model, sentence={})  # type: ignore[arg-type]


def test_the_card_says_it(roberta: RobertaHubInterface) -> None:
    told = with_settings(
        roberta, normalize=True, max_length=40, prompts=PROMPTS, default_prompt="query"
    )
    line = "sentences     mean pooling, normalized, at most 40 tokens, prompts query, passage"
    assert f"{line} (default query)" in str(told)
    assert "sentences" not in str(roberta)


# ---- similarity ----

NAIVE: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cosine": lambda a, b: F.cosine_similarity(a, b, dim=0),
    "dot": lambda a, b: a.dot(b),
    "euclidean": lambda a, b: -(a - b).pow(2).sum().sqrt(),
    "manhattan": lambda a, b: -(a - b).abs().sum(),
}


@pytest.mark.parametrize("similarity", NAIVE)
def test_every_similarity(roberta: RobertaHubInterface, similarity: str) -> None:
    told = with_settings(roberta, similarity=similarity)
    a, b = told.embed(TEXTS[:4]), told.embed(TEXTS[2:])
    wanted = torch.stack([torch.stack([NAIVE[similarity](x, y) for y in b]) for x in a])
    assert_close(told.similarity(TEXTS[:4], TEXTS[2:]), wanted)
    assert_close(told.similarity(a, b.numpy()), wanted)
    assert_close(told.similarity("Hello world!", b), wanted[:1])
    assert_close(told.similarity(a, b[1]), wanted[:, 1:2])
    assert told.similarity([], b).shape == (0, len(b))


@pytest.mark.parametrize(
    ("other", "error", "says"),
    [
        (torch.zeros(2, 5), ValueError, "width 32 and b of width 5"),
        (torch.zeros(2, 2, 32), ValueError, r"b has shape \(2, 2, 32\)"),
        (torch.zeros(2, 32, dtype=torch.long), TypeError, "b holds torch.int64"),
        (np.full((3, 32), np.nan), ValueError, r"b\[0\] holds NaN"),
        (3, TypeError, "b is a int"),
        ([b"Hello"], TypeError, r"b\[0\]"),
    ],
)
def test_what_compares_with_nothing(
    roberta: RobertaHubInterface, other: Any, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says) as raised:
        roberta.similarity(["Hello"], other)
    assert isinstance(raised.value, RobertaHubError)

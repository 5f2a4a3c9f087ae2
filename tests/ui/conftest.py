"""What the tests of the page share: the hostile strings, a model with a head of every kind."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from shell.running import write_model

import roberta_hub
from roberta_hub import RobertaHubInterface

sys.path.insert(0, str(Path(__file__).parents[1] / "show"))


@pytest.fixture(scope="session")
def tiny() -> RobertaHubInterface:
    return roberta_hub.load_model()


@pytest.fixture(scope="session")
def every_head(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small model of random weights."""
    return write_model(tmp_path_factory.mktemp("ui") / "every-head")

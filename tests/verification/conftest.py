"""Random models of each kind, written and loaded once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from peers_at_fault import folder_of

import roberta_hub
from roberta_hub import RobertaHubInterface, SentenceSettings


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """From a kind of `families.KINDS` and settings of vectors to a folder of Hugging Face's."""
    made: dict[str, Path] = {}

    def folder(kind: str, sentence: SentenceSettings | None = None, **sizes: int) -> Path:
        name = f"{kind} {sentence} {sizes}"
        if name not in made:
            made[name] = folder_of(kind, tmp_path_factory.mktemp(kind), sentence, **sizes)
        return made[name]

    return folder


@pytest.fixture(scope="session")
def models() -> Callable[[Path], RobertaHubInterface]:
    """From a folder to the model in it, which a test leaves as it is."""
    loaded: dict[Path, RobertaHubInterface] = {}

    def model(folder: Path) -> RobertaHubInterface:
        if folder not in loaded:
            loaded[folder] = roberta_hub.load_model(folder)
        return loaded[folder]

    return model

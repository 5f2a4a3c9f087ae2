"""A cache of its own for every test here, and a server that misbehaves as told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from archives import GOOD, PATH
from server import Server, body

from roberta_hub.checkpoint.fetch import download, http


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Waking a second thread takes longer than these models do, much longer on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in (
        download.OFFLINE_ENV,
        http.MIRROR_ENV,
        download.ENDPOINT_ENV,
        "PYTORCH_FAIRSEQ_CACHE",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setattr(torch.hub, "_hub_dir", None)
    monkeypatch.setattr(http, "BACKOFF_SECONDS", 0.01)
    return tmp_path / "torch" / "hub" / "checkpoints" / "roberta_hub"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with Server() as running:
        running.plan[PATH] = [body(GOOD)]
        monkeypatch.setenv(http.MIRROR_ENV, running.url)
        monkeypatch.setenv(download.ENDPOINT_ENV, running.url)
        yield running

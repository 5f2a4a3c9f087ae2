"""Pickles are read only with a torch that can protect us from them."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch
from checkpoints import assert_refused, fairseq_file, small

import roberta_hub


@pytest.mark.parametrize("version", ["2.5.1+cu121", "1.13.0"])
def test_too_old_a_torch_reads_no_pickle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
):
    monkeypatch.setattr(torch, "__version__", version)
    path = fairseq_file(tmp_path)
    assert_refused(path, "CVE-2025-32434", version)
    small().save(tmp_path / "ours")
    roberta_hub.load_model(tmp_path / "ours")


def test_a_torch_with_a_known_hole_warns_and_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = fairseq_file(tmp_path)
    monkeypatch.setattr(torch, "__version__", "2.9.1")
    with pytest.warns(UserWarning, match=r"CVE-2026-24747.*model\.pt"):
        roberta_hub.load_model(path)
    monkeypatch.setattr(torch, "__version__", "2.10.0a0+git")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        roberta_hub.load_model(path)

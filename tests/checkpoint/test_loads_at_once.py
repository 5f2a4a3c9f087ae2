"""Loads in many threads at once: torch's list of allowed classes is one for the whole process."""

from __future__ import annotations

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from checkpoints import assert_refused, fairseq_file, fairseq_state, small

from roberta_hub import load_model
from roberta_hub.checkpoint.fetch.cache import cache_root
from roberta_hub.checkpoint.untrusted.unpickle import load_pickle

THREADS, LOADS = 8, 96


@pytest.mark.system
@pytest.mark.parametrize("twin", [False, True])
def test_a_good_file_loads_in_every_thread(tmp_path: Path, twin: bool) -> None:
    state = fairseq_state(small())
    state["args"] = state.pop(
        "args"
    )  # after the weights: a class is looked up when others are done
    path = fairseq_file(tmp_path, state)
    allowed = set(torch.serialization.get_safe_globals())
    wanted = load_model(str(path), twin=False).model.state_dict()
    barrier = threading.Barrier(THREADS)

    def load(_: int) -> None:
        barrier.wait()
        found = load_model(str(path), twin=twin).model.state_dict()
        assert found.keys() == wanted.keys()
        assert all(torch.equal(found[name], tensor) for name, tensor in wanted.items())

    with ThreadPoolExecutor(THREADS) as pool:
        for future in [pool.submit(load, number) for number in range(LOADS)]:
            future.result()
    assert set(torch.serialization.get_safe_globals()) == allowed
    assert (cache_root() / "twins").exists() == twin


@pytest.mark.system
def test_pickles_are_read_in_every_thread(tmp_path: Path) -> None:
    """The same without what goes before and after it, so that all are in torch's reader at once."""
    path = fairseq_file(tmp_path)
    barrier = threading.Barrier(THREADS)

    def load(_: int) -> set[str]:
        barrier.wait()
        return set(load_pickle(path))

    with ThreadPoolExecutor(THREADS) as pool:
        assert all("args" in found for found in pool.map(load, range(LOADS)))


def test_no_message_passes_on_torch_s_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which is to switch its protection off."""
    path = fairseq_file(tmp_path)
    for advice in (
        "Weights only load failed. This file can still be loaded, to do so you have two options",
        "Unsupported: please use `torch.serialization.add_safe_globals`",
        "Re-running `torch.load` with `weights_only` set to `False` will likely succeed",
    ):

        def fail(*_: object, advice: str = advice, **__: object) -> None:
            raise pickle.UnpicklingError(advice)

        monkeypatch.setattr(torch, "load", fail)
        message = assert_refused(path, "not a readable PyTorch checkpoint")
        assert advice[:12] not in message, message

"""A child made by `fork` computes with one thread where its parent had a model.

Loading a model starts torch's threads. `fork` copies none of them, and the child's first operator
on several threads would wait for them without an end. One thread needs no other.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass

import torch

from roberta_hub.errors import Advice, InputError, Remedy

_SPAWN = Remedy(
    'start processes with multiprocessing.get_context("spawn"), which gives each threads of its '
    "own, or call torch.set_num_threads(1) in the parent before it loads a model"
)


@dataclass
class _Process:
    """What this process knows of itself."""

    made: bool = False
    """Whether it made a model."""
    forked: int = 0
    """Threads of its parent, which it has not; 0: it has all of its own."""
    warned: bool = False


_process = _Process()


def model_made() -> None:
    """Note that this process makes a model, and that its children have one thread."""
    _process.made = True


def _one_thread() -> None:
    if _process.made and (threads := torch.get_num_threads()) > 1:
        torch.set_num_threads(1)
        _process.forked, _process.warned = threads, False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_one_thread)


def check_threads() -> None:
    """Warn, once, of the one thread of a forked child; refuse more, which would hang."""
    if not _process.forked:
        return
    if (threads := torch.get_num_threads()) > 1:
        raise InputError(
            f"torch.set_num_threads({threads}) in a child that was forked from a process with a "
            "model: torch would wait for threads that only the parent has",
            remedy=_SPAWN,
        )
    if not _process.warned:
        _process.warned = True
        warnings.warn(
            Advice(
                "this process was forked from one with a model, whose "
                f"{_process.forked} threads torch does not have here: it computes with one",
                _SPAWN,
            ),
            stacklevel=2,
        )

"""Keeps torch's operators on the calling thread while compiled layers use the others.

Between compiled layers an operator of a few rows takes microseconds. Shared by OpenMP's threads it
ends when the last of them comes, and on a busy machine that takes milliseconds.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import torch


class _Caller(threading.local):
    threads: int | None = None
    """Threads that this one may use for compiled code inside `serial`; None: outside."""


_caller = _Caller()


def num_threads() -> int:
    """Threads for compiled code: torch's number, also inside `serial`.

    Example:
        >>> with serial():
        ...     inside = num_threads()
        >>> inside == num_threads() == torch.get_num_threads()
        True
    """
    return torch.get_num_threads() if _caller.threads is None else _caller.threads


@contextmanager
def serial() -> Iterator[None]:
    """Run torch's operators on one thread inside, in the calling thread alone.

    `torch.set_num_threads` would also change the number of other threads. Does nothing where
    torch's OpenMP cannot be reached.

    Example:
        >>> with serial():
        ...     torch.get_num_threads()
        1
    """
    threads, library = torch.get_num_threads(), openmp()
    if threads == 1 or library is None:
        yield
        return
    mkl = getattr(library, "MKL_Set_Num_Threads_Local", None)
    _caller.threads = threads
    library.omp_set_num_threads(1)
    before = 0 if mkl is None else mkl(1)  # MKL has a number of its own once torch's is set
    try:
        yield
    finally:
        library.omp_set_num_threads(threads)
        if mkl is not None:
            mkl(before)
        _caller.threads = None


@lru_cache(maxsize=1)
def openmp() -> ctypes.CDLL | None:
    """The library through which torch's OpenMP is reached; None if that is not so here."""
    # Torch's library is loaded and exports the symbols of its dependencies.
    try:
        library = ctypes.CDLL(str(Path(torch.__file__).with_name("lib") / "libtorch_cpu.so"))
        _ = library.omp_set_num_threads, library.omp_get_num_places
    except (OSError, AttributeError):
        return None
    return library

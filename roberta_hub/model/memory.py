"""Keeps a process small: caches have a bound, and freed memory goes back to the system."""

from __future__ import annotations

import ctypes
import os
import sys

CACHE_CAPACITY = "128"
"""A step multiplies matrices of 9 shapes and, where attention is in bfloat16, of 6 for each length.
Every layer meets them again: if they were more than are kept, each would compile them again, half a
millisecond apiece."""


def limit_caches() -> None:
    """Bound what oneDNN and torch's layer over it keep of products on a CPU.

    They compile code for each product of other sizes, and by default keep 1,024 of them, each up to
    a few megabytes: over ragged batches some gigabytes, and hardly one is needed again. After 800
    batches of roberta.tiny prepared by oneDNN the process had grown by 747 MB in float32, 667 in
    bfloat16 and 395 in int8; with this bound by some 195, 124 and 76, in the same time (Zen 4).

    Both read their variable when the process first multiplies by oneDNN; a value that is set
    already stays.
    """
    for name in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
        os.environ.setdefault(name, CACHE_CAPACITY)


def return_freed_memory() -> None:
    """Give what was freed back to the system, where glibc allocates.

    glibc keeps freed blocks for the next allocation. After the weights of roberta.large were laid
    out by `optimize()` 0.9 GB were kept so, and after `optimize("auto")` 4.1 of 6.0 GB.
    """
    if sys.platform != "linux":
        return
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError):  # musl has no such function
        return

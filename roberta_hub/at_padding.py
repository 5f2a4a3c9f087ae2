"""Says what hidden states at padding are in this process: zeros, or what fairseq computes there.

Nothing is computed on padding, unless a script runs that was written for fairseq: it may average
over whole rows.
"""

from __future__ import annotations

_computed = False


def compute_states() -> None:
    """Let padded batches have fairseq's states at padding from now on, in this process."""
    global _computed
    _computed = True


def states_are_computed() -> bool:
    """Whether padded batches have fairseq's states at padding.

    Example:
        >>> states_are_computed()
        False
    """
    return _computed

"""Tells the version, which `roberta_hub/__init__.py` holds, to modules that it imports."""

from __future__ import annotations

import sys


def version() -> str:
    """Return the version of the package that is imported.

    Example:
        >>> import roberta_hub
        >>> version() == roberta_hub.__version__
        True
    """
    found: str = sys.modules["roberta_hub"].__version__
    return found

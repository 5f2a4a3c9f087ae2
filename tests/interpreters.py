"""Finds interpreters that have packages which the tests' own has not."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest


def interpreter(name: str, module: str) -> str:
    """A Python that has an engine: the one that tools/lake_environments.py made, or this one."""
    place = os.environ.get("ROBERTA_HUB_LAKES")
    if place and (Path(place) / name / "built").exists():
        return str(Path(place).absolute() / name / "bin" / "python")
    parent = module.partition(".")[0]  # where it is not there, to look inside is an error
    if importlib.util.find_spec(parent) and importlib.util.find_spec(module):
        return sys.executable
    pytest.skip(f"no {module} here, and no $ROBERTA_HUB_LAKES/{name}: `make lakes` sets it up")

"""Tests draw the same in every run: what the system's entropy gives, no seed brings back."""

import ast
import random
from pathlib import Path

import hypothesis
import pytest
import torch

TESTS = Path(__file__).resolve().parents[1]
FRESH = {"urandom", "SystemRandom", "secrets", "getrandom", "uuid1", "uuid4"}
SEEDED = {"Random", "default_rng", "RandomState"}
"""Fresh where nothing is handed over."""


def faults(source: str) -> list[str]:
    """Lines that draw what no seed brings back."""
    found = []
    for node in ast.walk(ast.parse(source)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or "", *(alias.name for alias in node.names)]
        elif isinstance(node, ast.Attribute):
            names = [node.attr]
        elif isinstance(node, ast.Call) and not node.args and not node.keywords:
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            found += [f"line {node.lineno}: {name}() without a seed"] if name in SEEDED else []
        found += [f"line {node.lineno}: {name}" for name in names if name in FRESH]
    return found


@pytest.mark.system
def test_every_random_input_has_a_seed() -> None:
    found = {
        str(path.relative_to(TESTS)): faults(path.read_text(encoding="utf-8"))
        for path in sorted(TESTS.rglob("*.py"))
    }
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    ("source", "fresh"),
    [
        ("import os\nos.urandom(3)", True),
        ("from os import urandom", True),
        ("import secrets", True),
        ("import random\nrandom.SystemRandom().random()", True),
        ("import random\nrandom.Random().random()", True),
        ("import numpy as np\nnp.random.default_rng()", True),
        ("import random\nrandom.Random(3).random()", False),
        ("import random\nrandom.Random(name)", False),
        ("import torch\ntorch.rand(3)", False),  # seeded before every test
    ],
)
def test_fresh_draws_are_seen(source: str, fresh: bool) -> None:
    assert bool(faults(source)) == fresh


@pytest.mark.parametrize("number", [1, 2])
def test_every_test_begins_with_the_same_seed(number: int) -> None:
    drawn = random.random(), float(torch.rand(()))
    random.seed(0)
    torch.manual_seed(0)
    assert drawn == (random.random(), float(torch.rand(())))
    assert hypothesis.settings.default is not None and hypothesis.settings.default.derandomize

"""What the fuzzer feeds makes readers raise nothing but a RobertaHubError.

Each target gets a second, and the same every time.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from fuzz.fuzz_readers import NAMES
from fuzz.mutate import mutated
from fuzz.targets import TARGETS, survive

INPUTS = {
    **{"dictionary": 5000, "safetensors": 3000, "archive": 800},
    **{"checkpoint": 300, "config": 400, "twin": 300},
}
"""About a second each."""


def test_the_fuzzer_knows_every_target() -> None:
    assert set(NAMES) == set(TARGETS) == set(INPUTS)


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_are_accepted(name: str, tmp_path: Path) -> None:
    """Else mutation would only ever reach the first check."""
    for seed in TARGETS[name].seeds():
        assert survive(TARGETS[name], seed, tmp_path)


def feed(name: str, count: int, folder: Path) -> None:
    rng, target = random.Random(name), TARGETS[name]
    seeds = target.seeds()
    accepted = 0
    for number in range(count):
        data = rng.choice(seeds)
        for _ in range(rng.choice((1, 1, 1, 3))):
            data = mutated(name, data, rng)
        try:
            accepted += survive(target, data, folder)
        except Exception as error:
            (folder / "offending").write_bytes(data)
            raise AssertionError(f"input {number}, {folder / 'offending'}: {error!r}") from error
    # Mutants that are all refused, or all read, would have missed the interesting lines.
    assert 0 < accepted < count


@pytest.mark.system
@pytest.mark.parametrize("name", TARGETS)
def test_no_mutant_crashes_a_reader(name: str, tmp_path: Path) -> None:
    feed(name, INPUTS[name], tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", TARGETS)
def test_many_mutants(name: str, tmp_path: Path) -> None:
    feed(name, 30 * INPUTS[name], tmp_path)

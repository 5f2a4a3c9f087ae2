"""The fuzzer would notice: a reader with a bug is caught, and mutants keep their structure."""

from __future__ import annotations

import json
import pickletools
import random
import tarfile
from pathlib import Path

import pytest

from fuzz import seeds
from fuzz.mutate import change_header, change_json, change_pickle, change_tar
from fuzz.targets import Target, survive
from roberta_hub.errors import VocabularyError


def test_what_counts_as_a_crash(tmp_path: Path) -> None:
    def refuses(data: bytes, folder: Path) -> None:
        raise VocabularyError("no")

    def crashes(data: bytes, folder: Path) -> None:
        raise KeyError("no")

    assert not survive(Target(refuses, list, ()), b"", tmp_path)
    assert survive(Target(lambda data, folder: None, list, ()), b"", tmp_path)
    with pytest.raises(KeyError):
        survive(Target(crashes, list, ()), b"", tmp_path)


@pytest.mark.parametrize("number", range(20))
def test_mutants_get_past_the_first_check(number: int) -> None:
    rng = random.Random(number)
    json.loads(change_json(seeds.configs()[0], rng))
    file = change_header(seeds.safetensors()[0], rng)
    length = int.from_bytes(file[:8], "little")
    json.loads(file[8 : 8 + length])
    pickled = change_pickle(seeds.checkpoints()[-1], rng)
    assert list(pickletools.genops(pickled[1:] + b".")), "an operation was cut"
    block = change_tar(seeds.archives()[1], rng)[1:513]
    assert int(block[148:154], 8) == tarfile.calc_chksums(block)[0]

"""A damaged .gz among the data is an error that names it."""

import gzip
import random
from pathlib import Path

import pytest

from roberta_hub.errors import InputError
from roberta_hub.rows.lines import lines


def test_a_damaged_gz_is_named(tmp_path: Path) -> None:
    path, draw = tmp_path / "text.gz", random.Random(0)
    good = gzip.compress(bytes(draw.randrange(97, 123) for _ in range(5000)), mtime=0)
    for place in range(10, len(good), 37):
        damaged = bytearray(good)
        damaged[place] ^= 0xFF
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=r"text\.gz"):
            list(lines(path))

from collections.abc import Iterator

import pytest

from attacks.bench import Bench


@pytest.fixture(scope="session")
def bench() -> Iterator[Bench]:
    opened = Bench()
    yield opened
    opened.close()

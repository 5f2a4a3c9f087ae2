"""One small model for all questions, with RoBERTa's own vocabulary."""

from collections.abc import Iterator

import pytest
import torch
from questions import NLI, TOPICS
from small_models import small_roberta

from roberta_hub import RobertaHubInterface


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Matrices this small are quickest on one thread, and leave the other tests their cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def _shared_model() -> RobertaHubInterface:
    made = small_roberta(
        heads={"mnli": 3, "grade": 1, "topic": 3}, labels={"mnli": NLI, "topic": TOPICS}
    )
    made.default_head = "topic"
    return made


@pytest.fixture
def roberta(_shared_model: RobertaHubInterface) -> Iterator[RobertaHubInterface]:
    """In eval mode; for all tests, so that none may change its weights, which is checked."""
    before = [p._version for p in _shared_model.parameters()]
    yield _shared_model.eval()
    assert [p._version for p in _shared_model.parameters()] == before

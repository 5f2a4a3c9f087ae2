"""Fixtures of the text room's tests."""

import pytest
from bpe_twin import Twin

from roberta_hub.text.bpe import GPT2BPE
from roberta_hub.text.tokenizer import Tokenizer


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    return Tokenizer.shipped()


@pytest.fixture(scope="session")
def twin() -> Twin:
    bpe = GPT2BPE.shipped()
    return Twin(bpe.merges(), {bpe.token_bytes(i): i for i in range(50_256)})

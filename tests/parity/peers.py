"""The peers in one place: real fairseq 0.12.2 and real transformers, making small seeded things.

Nothing here is roberta_hub's: each function drives a peer through the peer's own machinery, so
that a test has something to compare with. Sizes are tiny unless a test asks for more.
"""

import importlib.util

import pytest

from .eras import save_era
from .fairseq_peer import (
    ERAS,
    FULL,
    TINY,
    Era,
    Peer,
    fairseq_loads_its_own_files,
    fairseq_model,
    hub_interface,
    randomise,
    real_fairseq,
)
from .training import continue_training, preprocess, train, training_words
from .transformers_peer import hf_model, save_hf
from .vocabularies import dictionary, original_bpe, shipped_tokens, toy_tokens, write_bpe

needs_fairseq = pytest.mark.skipif(
    importlib.util.find_spec("fairseq") is None, reason="pip install --no-deps fairseq==0.12.2"
)
needs_transformers = pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None, reason="pip install transformers"
)

__all__ = [
    "ERAS",
    "FULL",
    "TINY",
    "Era",
    "Peer",
    "continue_training",
    "dictionary",
    "fairseq_loads_its_own_files",
    "fairseq_model",
    "hf_model",
    "hub_interface",
    "needs_fairseq",
    "needs_transformers",
    "original_bpe",
    "preprocess",
    "randomise",
    "real_fairseq",
    "save_era",
    "save_hf",
    "shipped_tokens",
    "toy_tokens",
    "train",
    "training_words",
    "write_bpe",
]

"""Reads the RoBERTa vocabulary that ships with the package from one file, and checks it first.

`roberta.vocab` is 300,514 bytes of unsigned 16-bit little-endian numbers:

    50,000 x 2   the merges in rank order: the GPT-2 ids of the left and the right part
    50,257       the GPT-2 id of RoBERTa id 4, 5, …, 50260 (fairseq's frequency order)

GPT-2 ids 0-255 are the single bytes, 256 + k is what merge k forms, 50256 is `<|endoftext|>`; the
bytes of a token are therefore the concatenation of its parts. `tools/build_vocabulary.py` writes
the file; `NOTICE` says whose tables these are.
"""

from __future__ import annotations

import functools
import hashlib
import struct
from importlib import resources
from typing import NamedTuple

from roberta_hub.errors import VocabularyError

FILE_NAME = "roberta.vocab"
SHA256 = "c3f74db7e2a8e8170ab8ddc6d18dd4a7fa6b9fbd46bf35debda3f423ae224e46"
NUM_MERGES = 50_000
NUM_TOKENS = 50_257


class Gpt2Vocabulary(NamedTuple):
    """The merges and the token order of `roberta.vocab`, as GPT-2 ids.

    Flat, as 50,000 pairs would set off the garbage collector: a tenth of a second.
    """

    left: tuple[int, ...]
    right: tuple[int, ...]
    order: tuple[int, ...]


@functools.lru_cache(maxsize=1)
def shipped_vocabulary() -> Gpt2Vocabulary:
    """Read the shipped merges and RoBERTa's order of the tokens; another file's digest is refused.

    Example:
        >>> vocabulary = shipped_vocabulary()
        >>> vocabulary.left[0], vocabulary.right[0]  # 'Ġ' + 't'
        (220, 83)
        >>> vocabulary.order[:3]  # '.', ' the', ','
        (13, 262, 11)
    """
    data = resources.files(__name__).joinpath(FILE_NAME).read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    if digest != SHA256:
        raise VocabularyError(
            f"the shipped vocabulary {FILE_NAME} is damaged: sha256 {digest}, expected {SHA256}; "
            "reinstall roberta_hub"
        )
    numbers = struct.unpack(f"<{2 * NUM_MERGES + NUM_TOKENS}H", data)
    merges = 2 * NUM_MERGES
    return Gpt2Vocabulary(numbers[0:merges:2], numbers[1:merges:2], numbers[merges:])

"""Knows texts again: in any case, spacing, Unicode form and order of a pair, by a short digest."""

from __future__ import annotations

import base64
import hashlib
import unicodedata
from collections.abc import Iterable, Sequence, Set

from roberta_hub.text.tokenizer import Text

DIGEST_LENGTH = 8
"""Characters of a digest, of 6 bytes: 100,000 texts take one of 100,000 others for known in four
of 100,000 cases."""
MOST_DIGESTS = 1_000_000
"""Digests that a model's file keeps: 8 MB, which a config.json may have."""
LEARNT_KEY = "roberta_hub_learnt"
"""Their key in files of other programs."""


def folded(text: str) -> str:
    """Make what is equal for texts that differ in case, white space and Unicode form only.

    Example:
        >>> folded("Cafe\u0301  NOIR") == folded("Caf\u00e9 noir")
        True
    """
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return " ".join(plain.split())


def text_key(text: Text) -> tuple[str, ...]:
    """Make what is equal for texts that say the same; the sentences of a pair have no order.

    Example:
        >>> text_key(("Wet.", "It  RAINS.")) == text_key(("It rains.", "wet."))
        True
    """
    parts = (text,) if isinstance(text, str) else text
    return tuple(sorted(map(folded, parts)))


def digest(text: Text) -> str:
    """Compute a short digest of a text's key.

    Example:
        >>> digest("It rains."), digest("it  rains.") == digest("It rains.")
        ('YHWyNCkY', True)
    """
    return base64.b64encode(key_hash(text, 6)).decode()


def key_hash(text: Text, size: int) -> bytes:
    """Hash a text's key to so many bytes.

    Example:
        >>> key_hash("It rains.", 16) == key_hash("it  RAINS.", 16)
        True
    """
    joined = "\0".join(text_key(text)).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(joined, digest_size=size).digest()


def new_texts(texts: Sequence[Text], learnt: Set[str]) -> list[int]:
    """Number the texts that are not among the digests of a model's training texts.

    Example:
        >>> new_texts(["It rains.", "It snows."], {digest("it rains.")})
        [1]
    """
    return [i for i, text in enumerate(texts) if not learnt or digest(text) not in learnt]


def pack(digests: Iterable[str]) -> str:
    """Write digests as one str, the same for the same texts; of more than a million the first."""
    return "".join(sorted(digests)[:MOST_DIGESTS])


def unpack(packed: object) -> frozenset[str]:
    """Read what `pack` wrote; nothing of anything else.

    Example:
        >>> sorted(unpack(pack({"YHWyNCkY", "AAAAAAAA"}))), unpack(None)
        (['AAAAAAAA', 'YHWyNCkY'], frozenset())
    """
    if not isinstance(packed, str):
        return frozenset()
    return frozenset(packed[i : i + DIGEST_LENGTH] for i in range(0, len(packed), DIGEST_LENGTH))

"""Reads and checks GPT-2's tables: printable bytes, ids and merges, and the files of both."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from roberta_hub.errors import VocabularyError
from roberta_hub.files import read_bytes
from roberta_hub.folder import Folder

MAX_TABLE_BYTES = 20 << 20
"""Largest file of tables; the largest of RoBERTa's kind have 2 MB."""
MAX_ID = 1 << 24
"""Upper bound of token ids, exclusive."""
MAX_WORK = 20_000_000
"""Sum of the squared token lengths, to which the time of `check_merges` is proportional; GPT-2's is
2.5 million."""


def _byte_picture() -> list[int]:
    """GPT-2's printable character for each byte, and the order in which the bytes are numbered."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return printable + [byte for byte in range(256) if byte not in printable]


BYTE_ORDER = bytes(_byte_picture())
"""The bytes in the order of their GPT-2 ids: printable Latin-1 first, then the 68 others."""
_PICTURES = {byte: byte if i < 188 else 256 + i - 188 for i, byte in enumerate(BYTE_ORDER)}
_BYTES = {chr(picture): byte for byte, picture in _PICTURES.items()}


def printable(token: bytes) -> str:
    """Show the bytes of a token as GPT-2's files do, one visible character a byte.

    Example:
        >>> printable(b" had"), printable("é".encode())
        ('Ġhad', 'Ã©')
    """
    return token.decode("latin-1").translate(_PICTURES)


def from_printable(picture: str) -> bytes:
    """Undo `printable`; KeyError: a character that represents no byte.

    Example:
        >>> from_printable("Ġhad")
        b' had'
    """
    return bytes([_BYTES[character] for character in picture])


def merge_within(token: bytes, ranks: Mapping[bytes, int]) -> list[bytes]:
    """Merge the bytes of `token` as far as earlier merges lead: two parts in a sound table.

    `ranks` are the places of the merged tokens in the list of merges, that of `token` among them.

    Example:
        >>> merge_within(b" the", {b" t": 0, b"he": 2, b" the": 5})
        [b' t', b'he']
    """
    parts = [token[i : i + 1] for i in range(len(token))]
    limit = ranks[token]
    while len(parts) > 2:
        candidates = [ranks.get(a + b, limit) for a, b in pairwise(parts)]
        best = min(candidates)
        if best == limit:
            break
        i = candidates.index(best)
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
    return parts


def _read_text(path: Path) -> str:
    try:
        return read_bytes(path, MAX_TABLE_BYTES, VocabularyError, "table").decode()
    except UnicodeDecodeError as error:
        raise VocabularyError(f"{path} is not UTF-8 at byte {error.start}") from None


def read_encoder(path: Path) -> dict[bytes, int]:
    """Read fairseq's `gpt2_encoder_json`: from printable token to id."""
    ids = {}
    for token, number in (
        Folder(path.parent).json(path.name, VocabularyError, MAX_TABLE_BYTES).items()
    ):
        if type(number) is not int:
            raise VocabularyError(f"{path}: the id of {token!r} is {number!r}, not a whole number")
        try:
            ids[from_printable(token)] = number
        except KeyError as error:
            raise VocabularyError(f"{path}: {token!r} holds {error}, which is no byte") from None
    return ids


def read_merges(path: Path) -> list[tuple[bytes, bytes]]:
    """Read fairseq's `gpt2_vocab_bpe`: a version line, then the two parts of one merge a line."""
    merges = []
    lines = _read_text(path).replace("\r\n", "\n").removesuffix("\n").split("\n")
    for number, line in enumerate(lines[1:], start=2):
        try:
            left, right = map(from_printable, line.split(" "))
        except (KeyError, ValueError):
            raise VocabularyError(f"{path}, line {number}: {line[:80]!r} is no merge") from None
        merges.append((left, right))
    return merges


def ids_file(ids: Mapping[str, int]) -> bytes:
    """Write what `read_encoder` reads: encoder.json and Hugging Face's vocab.json have this form.

    Example:
        >>> ids_file({"a": 0, "b": 1, "ab": 2})
        b'{"a": 0, "b": 1, "ab": 2}'
    """
    return json.dumps(ids, ensure_ascii=False).encode()


def merges_file(merges: Sequence[str]) -> bytes:
    r"""Write what `read_merges` reads: vocab.bpe and Hugging Face's merges.txt have this form.

    Example:
        >>> merges_file(["a b"])
        b'#version: 0.2\na b\n'
    """
    return "\n".join(["#version: 0.2", *merges, ""]).encode()


def check_merges(merges: Sequence[tuple[bytes, bytes]]) -> None:
    """Refuse merges that tiktoken, which knows tokens and not pairs, would apply differently.

    Where the earlier merges always turn a token's bytes into exactly the two listed parts, no other
    pair of neighbours can spell it when its turn comes, and merging by token equals merging by
    pair.
    """
    ranks = {left + right: rank for rank, (left, right) in enumerate(merges)}
    if len(ranks) != len(merges):
        raise VocabularyError("two merges form the same token")
    if sum(len(token) ** 2 for token in ranks) > MAX_WORK:
        raise VocabularyError(f"its {len(ranks):,} tokens are too long to be pieces of words")
    for rank, (left, right) in enumerate(merges):
        if merge_within(left + right, ranks) != [left, right]:
            raise VocabularyError(
                f"merge {rank + 1}, {printable(left)!r} + {printable(right)!r}, cannot follow from "
                "those before it"
            )


def check_ids(tokens: Sequence[bytes], ids: Mapping[bytes, int]) -> None:
    """Raise VocabularyError for missing, duplicate or too large ids."""
    missing = next((token for token in tokens if token not in ids), None)
    if missing is not None:
        raise VocabularyError(f"token {printable(missing)!r} has no id")
    if len(set(ids.values())) != len(ids):
        raise VocabularyError("two tokens share one id")
    outside = next((i for i in ids.values() if not 0 <= i < MAX_ID), None)
    if outside is not None:
        raise VocabularyError(f"id {outside} is outside 0..{MAX_ID - 1}")

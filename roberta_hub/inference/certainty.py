"""Says how certain an answer is, by which a head refuses texts that no label fits.

Legend: n texts, K labels.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Sequence
from functools import lru_cache

import torch
from torch import Tensor

from roberta_hub.settings import piece_bits

KNOWN_POWER = 2.0
"""How much known pieces count beside the probability; results/reject.md has what others reach."""


def certainties(probabilities: Tensor, ids: Sequence[Tensor], pieces: str | None) -> Tensor:
    """Divide the squared share of known pieces by how many labels an answer wavers between.

    That number is the perplexity of the probabilities: 1 where one label has all of it, K where all
    have the same. A softmax is also sure of texts that are unlike all it has learnt, such as noise
    and other languages, which their pieces tell.

    Args:
        probabilities: of each label. Shape: (n, K)
        ids: the pieces of each text, with specials.
        pieces: packed ids of the pieces that the head has learnt; None: unknown.
    """
    sure: Tensor = torch.special.entr(probabilities.double()).sum(-1).neg().exp()
    return sure if pieces is None else sure * known_shares(ids, pieces).to(sure) ** KNOWN_POWER


def known_shares(ids: Sequence[Tensor], pieces: str) -> Tensor:
    """Compute the share of each text's pieces that are known, specials included: (n,).

    Example:
        >>> known_shares([torch.tensor([0, 5, 6, 2])], pack_pieces([[0, 5, 7, 2]])).tolist()
        [0.75]
    """
    known = unpack_pieces(pieces)
    found = [known[own[own < len(known)]].sum() / max(len(own), 1) for own in ids]
    return torch.stack(found) if found else torch.empty(0)


def pack_pieces(texts: Iterable[Iterable[int] | Tensor]) -> str:
    """Write which ids occur in texts as one short str.

    Example:
        >>> unpack_pieces(pack_pieces([[1, 3], [3]])).tolist()[:5]
        [False, True, False, True, False]
    """
    there = sorted({int(i) for own in texts for i in own})
    bits = bytearray((there[-1] if there else 0) // 8 + 1)
    for i in there:
        bits[i // 8] |= 1 << i % 8
    return base64.b64encode(zlib.compress(bytes(bits), 9)).decode()


@lru_cache(maxsize=8)
def unpack_pieces(packed: str) -> Tensor:
    """Read what `pack_pieces` wrote: whether each id occurs, (ids,)."""
    raw = torch.frombuffer(bytearray(piece_bits(packed)), dtype=torch.uint8)
    places = torch.arange(8 * len(raw))
    return raw[places // 8] >> (places % 8) & 1 == 1

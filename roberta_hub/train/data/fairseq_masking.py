"""Masks tokens by fairseq 0.12.2's own draws, number for number."""

from __future__ import annotations

import torch
from torch import Tensor

from roberta_hub.errors import MissingExtraError
from roberta_hub.extras import install


def fairseq_mask(
    ids: Tensor,
    lengths: tuple[int, ...],
    indices: Tensor,
    *,
    mask_idx: int,
    drawn: Tensor,
    prob: float,
    leave: float,
    random: float,
    seed: int,
    epoch: int,
) -> tuple[Tensor, Tensor]:
    """Mask each sequence as fairseq's `MaskTokensDataset` does, by the same draws in its order.

    There every token is a candidate, `<s>` and `</s>` among them, and every id but the four special
    symbols may replace one, `<mask>` and fillers among them. fairseq counts epochs from 1.

    Args:
        ids: sequences laid end to end. Shape: (N,)
        lengths: tokens of each sequence.
        indices: each sequence's number in the data. Shape: (B,)
        mask_idx: id of `<mask>`.
        drawn: which ids may replace others. Bool (V,)
        prob: share of the tokens that is guessed.
        leave: of the chosen, the share that stays as it is.
        random: of the chosen, the share that another token replaces.
        seed: of the run.
        epoch: counted from 0.
    """
    try:
        import numpy as np
    except ImportError:
        raise MissingExtraError(
            f"task.options.unit=fairseq needs numpy: {install('train')}"
        ) from None
    seen, chosen = ids.clone(), torch.zeros(len(ids), dtype=torch.bool)
    weights = drawn.numpy().astype(float)
    weights /= weights.sum()
    either = leave + random
    for part, taken, index in zip(
        torch.split(seen, list(lengths)),
        torch.split(chosen, list(lengths)),
        indices.tolist(),
        strict=True,
    ):
        size = len(part)
        source = np.random.RandomState(int(hash((seed, epoch + 1, index)) % 1e6))
        count = int(prob * size + source.rand())
        picked = np.zeros(size, dtype=bool)
        picked[source.choice(size, count, replace=False)] = True
        taken[:] = torch.from_numpy(picked.copy())
        other = picked & (source.rand(size) < either) if either else np.zeros(size, dtype=bool)
        if leave and random:
            stays = other & (source.rand(size) < leave / either)
        else:
            stays = other if leave else np.zeros(size, dtype=bool)
        changes = other & ~stays
        part[torch.from_numpy(picked & ~stays)] = mask_idx
        if changes.any():
            words = source.choice(len(weights), int(changes.sum()), p=weights)
            part[torch.from_numpy(changes)] = torch.from_numpy(words)
    return seen, chosen

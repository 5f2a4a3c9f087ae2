"""Pseudo-log-likelihood of texts (Salazar et al. 2020)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from roberta_hub.inference.batching import BatchStates, check_lm_head, lm_logits
from roberta_hub.inference.verb_model import VerbModel
from roberta_hub.inference.windows import Windows
from roberta_hub.model.packing import PackedBatch
from roberta_hub.text.tokenizer import Text


def score(model: VerbModel, texts: Sequence[Text]) -> list[float]:
    """Return the sum over tokens of log P(token | all others). See `RobertaHubInterface.score`."""
    runner = model.runner
    check_lm_head(runner.model, "score")
    tokenizer = runner.tokenizer
    windows, _, which = runner.encode(texts)
    specials = torch.tensor([tokenizer.bos, tokenizer.eos])
    copies = _MaskedCopies(tokenizer.mask_idx)
    owners: list[int] = []
    for owner, text in enumerate(windows):
        places = _masked_places(text, specials)
        copies.places += places
        owners += [owner] * len(places)

    def answer(rows: BatchStates) -> list[float]:
        logits = lm_logits(runner.model, rows.at(masks(rows.batch)), len(tokenizer))
        wanted = torch.tensor([copies.target(i) for i in rows.indices], device=logits.device)
        found: list[float] = (
            logits.log_softmax(-1).gather(1, wanted.unsqueeze(1)).squeeze(1).tolist()
        )
        return found

    def masks(batch: PackedBatch) -> Tensor:
        """Find the masked place of each sequence: (B,)."""
        return batch.ids.eq(tokenizer.mask_idx).nonzero().squeeze(1)

    totals = [0.0] * len(windows)
    for owner, value in zip(owners, runner.run(copies, answer, pick=masks), strict=True):
        totals[owner] += value
    return [totals[n] for n in which]


class _MaskedCopies(Sequence[Tensor]):
    """Copies of each text with one token masked, for each of its tokens.

    Copies are made on access: T x T ids are many.
    """

    def __init__(self, mask_idx: int) -> None:
        self.places: list[tuple[Tensor, int]] = []
        self.mask_idx = mask_idx

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, i: Any) -> Any:
        ids, column = self.places[i]
        copy = ids.clone()
        copy[column] = self.mask_idx
        return copy

    def target(self, i: int) -> int:
        """Return the masked id of copy i."""
        ids, column = self.places[i]
        return int(ids[column])


def _masked_places(text: Windows, specials: Tensor) -> list[tuple[Tensor, int]]:
    """(window, column) of each token but specials, where it is farthest from a cut."""
    places = []
    for w, (window, columns) in enumerate(zip(text.ids, text.columns, strict=True)):
        mine = ~torch.isin(window, specials)
        if len(text.ids) > 1:
            mine &= text.best[columns] == w
        places += [(window, column) for column in mine.nonzero().squeeze(1).tolist()]
    return places

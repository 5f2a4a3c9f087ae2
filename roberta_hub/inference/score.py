"""How natural a text is: pseudo-log-likelihood (Salazar et al. 2020)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from roberta_hub.inference.batching import Rows, Runner, lm_logits
from roberta_hub.inference.windows import Windows
from roberta_hub.text.tokenizer import Text


def score(runner: Runner, texts: Sequence[Text]) -> list[float]:
    """The sum over tokens of log P(token | all others). See `RobertaHubInterface.score`."""
    tokenizer = runner.tokenizer
    windows, _, which = runner.encode(texts)
    masked: list[Tensor] = []
    targets: list[int] = []
    owners: list[int] = []
    specials = torch.tensor([tokenizer.bos, tokenizer.eos])
    for owner, text in enumerate(windows):
        for window, column in _masked_places(text, specials):
            copy = window.clone()
            targets.append(int(copy[column]))
            copy[column] = tokenizer.mask_idx
            masked.append(copy)
            owners.append(owner)

    def answer(rows: Rows) -> list[float]:
        places = rows.batch.ids.eq(tokenizer.mask_idx)  # one in each sequence
        logits = lm_logits(runner.model, rows.states[places])
        wanted = torch.tensor([targets[i] for i in rows.indices], device=logits.device)
        found: list[float] = (
            logits.log_softmax(-1).gather(1, wanted.unsqueeze(1)).squeeze(1).tolist()
        )
        return found

    totals = [0.0] * len(windows)
    for owner, value in zip(owners, runner.run(masked, answer), strict=True):
        totals[owner] += value
    return [totals[n] for n in which]


def _masked_places(text: Windows, specials: Tensor) -> list[tuple[Tensor, int]]:
    """(window, column) of every token but the specials, each in the window where it stands best."""
    places = []
    for w, (window, columns) in enumerate(zip(text.ids, text.columns, strict=True)):
        mine = ~torch.isin(window, specials)
        if len(text.ids) > 1:
            mine &= text.best[columns] == w
        places += [(window, column) for column in mine.nonzero().squeeze(1).tolist()]
    return places

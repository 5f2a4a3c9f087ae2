"""Replaced-token detection with ELECTRA's discriminator (Clark et al. 2020)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from roberta_hub.errors import InputError
from roberta_hub.inference.batching import BatchStates, Reading, Runner
from roberta_hub.inference.windows import Windows
from roberta_hub.text.tokenizer import Text


def replaced(runner: Runner, texts: Sequence[Text]) -> list[list[float]]:
    """Probabilities that pieces were replaced. See `RobertaHubInterface.replaced`."""
    head = discriminator(runner.model)
    windows, _, which = runner.encode(texts)
    layout = runner.tokenizer.layout
    specials = torch.tensor(sorted(layout.begins | layout.ends))

    def read(rows: BatchStates) -> list[Tensor]:
        logits: Tensor = head(rows.states)
        probabilities = logits.float().sigmoid().flatten().cpu()  # (N,)
        return [part.clone() for part in rows.split(probabilities)]

    def merge(text: Windows, parts: list[Tensor]) -> list[float]:
        merged = text.merge(parts)  # (T,), or fewer if truncated
        pieces: list[float] = merged[~torch.isin(text.merge(text.ids), specials)].tolist()
        return pieces

    found = runner.run_windows(windows, Reading(read=read, merge=merge))
    return [list(found[n]) for n in which]


def discriminator(model: nn.Module) -> nn.Module:
    """Return the head for replaced-token detection."""
    head: nn.Module | None = getattr(model, "replaced_head", None)
    if head is None:
        raise InputError(
            "this model has no head that tells replaced tokens; ELECTRA's discriminators have one: "
            "load electra.small.discriminator, or a larger one"
        )
    return head

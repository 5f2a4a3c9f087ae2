"""score(): every token masked in turn, by hand."""

from __future__ import annotations

import pytest
import torch
from questions import LONG, TEXTS, ids_of, log_probs_of
from torch import Tensor

from roberta_hub import RobertaHubInterface


def by_hand(roberta: RobertaHubInterface, ids: Tensor, columns: range | None = None) -> float:
    total = 0.0
    for i in columns or range(len(ids)):
        if int(ids[i]) in (0, 2):
            continue
        masked = ids.clone()
        masked[i] = roberta.task.mask_idx
        total += float(log_probs_of(roberta, masked)[i, ids[i]])
    return total


@pytest.mark.parametrize("batch_tokens", [None, 1, 30])
def test_every_token_masked_in_turn(roberta: RobertaHubInterface, batch_tokens: int | None) -> None:
    found = roberta.score(TEXTS, batch_tokens=batch_tokens)
    for text, ours in zip(TEXTS, found, strict=True):
        assert isinstance(ours, float)
        assert ours == pytest.approx(by_hand(roberta, ids_of(roberta, text)), abs=1e-3)
    assert found[1] == 0.0  # of no tokens
    assert roberta.score([]) == []


@pytest.mark.system
def test_a_long_text_scores_each_token_where_it_stands_best(roberta: RobertaHubInterface) -> None:
    ids, room = ids_of(roberta, LONG), 46
    inner = ids[1:-1]
    starts = [*range(0, len(inner) - room, room), len(inner) - room]  # stride 0
    wanted, done = 0.0, 0
    for w, s in enumerate(starts):
        window = torch.cat([ids[:1], inner[s : s + room], ids[-1:]])
        # Only the last two windows overlap; the token belongs to where it stands farther from a
        # cut.
        if w < len(starts) - 2:
            end = s + room
        elif w == len(starts) - 2:
            overlap = s + room - starts[-1]
            end = s + room - overlap // 2  # at equal distance the earlier window keeps it
        else:
            end = len(inner)
        wanted += by_hand(roberta, window, range(1 + done - s, 1 + end - s))
        done = end
    assert roberta.score([LONG], stride=0) == [pytest.approx(wanted, abs=1e-3)]
    cut = torch.cat([ids[:47], ids[-1:]])
    assert roberta.score([LONG], truncate=True) == [pytest.approx(by_hand(roberta, cut), abs=1e-3)]

"""Losses of fine-tuning as fairseq's own criteria compute them, with their gradients."""

from __future__ import annotations

from argparse import Namespace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from roberta_hub.train.tasks.multiple_choice import ChoiceObjective
from roberta_hub.train.tasks.pronouns import PronounObjective, query_wins

from . import peers

pytestmark = [pytest.mark.parity, peers.needs_fairseq]


@pytest.mark.parametrize(
    ("cross_entropy", "alpha", "beta"), [(True, 1.0, 0.0), (False, 1.0, 0.0), (False, 5.0, 0.4)]
)
def test_wsc_and_winogrande(cross_entropy: bool, alpha: float, beta: float) -> None:
    """Ragged candidates, and examples whose query is wrong, which teach nothing."""
    peers.real_fairseq()
    from fairseq.examples.roberta.wsc.wsc_criterion import WSCCriterion

    table = -4 * torch.rand(6, 4, generator=torch.Generator().manual_seed(1))
    counts, right = [1, 3, 2, 1, 3, 2], torch.tensor([True, True, False, True, False, True])
    for row, count in zip(table, counts, strict=True):
        row[1 + count :] = -torch.inf
    ours, theirs = table.clone().requires_grad_(), table.clone().requires_grad_()
    batch: Any = SimpleNamespace(targets={"labels": right})
    loss = PronounObjective(cross_entropy, alpha, beta).loss(ours, batch)
    args = Namespace(wsc_cross_entropy=cross_entropy, wsc_margin_alpha=alpha, wsc_margin_beta=beta)
    wanted = sum(
        WSCCriterion.get_loss(SimpleNamespace(args=args), row[:1], row[1 : 1 + count])
        for row, count, label in zip(theirs, counts, right, strict=True)
        if label
    )
    torch.testing.assert_close(loss.total, wanted)
    loss.total.backward()  # type: ignore[no-untyped-call]
    wanted.backward()
    torch.testing.assert_close(ours.grad, theirs.grad)
    answers = [bool((row[0] >= row[1 : 1 + n]).all()) for row, n in zip(table, counts, strict=True)]
    assert query_wins(table).tolist() == answers and len(set(answers)) == 2


def test_sentence_ranking() -> None:
    """The score of one option after the other, as fairseq runs them."""
    peers.real_fairseq()
    from fairseq.criterions.sentence_ranking import SentenceRankingCriterion

    generator = torch.Generator().manual_seed(1)
    scores, labels = torch.randn(5, 4, generator=generator), torch.tensor([0, 3, 1, 1, 2])
    batch: Any = SimpleNamespace(targets={"labels": labels})
    found = ChoiceObjective("head").loss(scores, batch)

    class Scores(torch.nn.Module):
        """A model whose answer is its input."""

        classification_heads = ("head",)

        def forward(self, option: torch.Tensor, classification_head_name: str) -> Any:
            return option, None

        def get_targets(self, sample: Any, net_output: Any) -> torch.Tensor:
            return sample["target"]

    inputs = {f"net_input{k + 1}": {"option": scores[:, k : k + 1]} for k in range(4)}
    criterion = SentenceRankingCriterion(SimpleNamespace(target_dictionary=None), "head", None, 4)
    loss, size, logs = criterion(Scores(), {**inputs, "target": labels, "ntokens": 0})
    torch.testing.assert_close(found.total, loss)
    assert (int(found.logs["correct"]), size) == (int(logs["ncorrect"]), 5)

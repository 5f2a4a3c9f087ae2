"""Trains a model to guess each token of a span from the two tokens next to it.

SpanBERT's second objective (Joshi et al. 2020, section 3.2): for the token at place i of the span
from s to e, y = f(x[s - 1], x[e + 1], p[i - s]), where x are the encoder's features, p learned
vectors, and f two layers with GELU and LayerNorm; y predicts the token as the masked LM does.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from roberta_hub.model.heads import init_bert
from roberta_hub.model.roberta import Roberta
from roberta_hub.train.tasks.cross_entropy import linear_cross_entropy

LONGEST_SPAN = 20
"""Tokens of a span that are guessed; later ones are left to the masked LM, as in SpanBERT's code
(facebookresearch/SpanBERT, `max_targets`)."""
PLACE_WIDTH = 200
"""Width of a place's vector (Joshi et al. 2020, section 4.2)."""


class SpanBoundary(nn.Module):
    """The two layers, the vectors of places, and a bias; the output matrix is the LM head's.

    It is trained with the model, and is not saved with it. Legend: C width of the model, W of the
    output matrix, V vocabulary, K tokens to guess.
    """

    def __init__(self, roberta: Roberta) -> None:
        super().__init__()
        head, config = roberta.encoder.lm_head, roberta.config
        assert head is not None  # the masked LM has asked for it
        width = head.dense.out_features
        self.places = nn.Embedding(LONGEST_SPAN, PLACE_WIDTH)
        self.dense = nn.Linear(2 * config.embed_dim + PLACE_WIDTH, width)
        self.dense_norm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.output = nn.Linear(width, width)
        self.output_norm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.bias = nn.Parameter(torch.zeros_like(head.bias))
        for part in (self.places, self.dense, self.output):
            init_bert(part)
        self.begin(roberta)

    @torch.no_grad()
    def begin(self, roberta: Roberta) -> None:
        """Begin with the LM head's bias, which knows how frequent tokens are."""
        head = roberta.encoder.lm_head
        assert head is not None
        self.bias.copy_(head.bias)

    def forward(self, roberta: Roberta, sides: Tensor, places: Tensor, wanted: Tensor) -> Tensor:
        """Sum the cross-entropy of the tokens: ().

        Args:
            roberta: the model, whose output matrix is used.
            sides: features of the tokens to the left and right of each span. Shape: (2, K, C)
            places: of the tokens in their spans, from 0. Shape: (K,)
            wanted: their ids. Shape: (K,)
        """
        left, right = sides
        x = torch.cat([left, right, self.places(places).to(left.dtype)], 1)
        x = self.dense_norm(F.gelu(self.dense(x)))
        x = self.output_norm(F.gelu(self.output(x)))
        projection, head = roberta.encoder.factor(), roberta.encoder.lm_head
        assert head is not None
        rows = x if projection is None else x @ projection
        return linear_cross_entropy(rows, head.weight, self.bias, wanted)


def boundary_targets(ids: Tensor, lengths: tuple[int, ...], chosen: Tensor) -> dict[str, Tensor]:
    """Find the spans of a packed batch, and the tokens next to them.

    A span is a run of chosen tokens, so that masked spans that touch are one; one that begins or
    ends its sequence lacks a neighbour, and is left out. SpanBERT's code does both.

    Args:
        ids: before anything was masked. Shape: (N,)
        lengths: tokens of each sequence.
        chosen: which tokens are guessed, bool. Shape: (N,)

    Example:
        >>> chosen = torch.tensor([False, True, True, False, False, True, False])
        >>> found = boundary_targets(torch.tensor([0, 7, 8, 9, 2, 5, 2]), (7,), chosen)
        >>> found["boundary_sides"], found["boundary_places"], found["boundary_ids"]
        (tensor([[0, 0, 4],
                [3, 3, 6]]), tensor([0, 1, 0]), tensor([7, 8, 5]))
    """
    sequence = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    padded = F.pad(chosen.long(), (1, 1))
    step = padded.diff()
    begins, ends = step.eq(1).nonzero()[:, 0], step.eq(-1).nonzero()[:, 0]  # (R,) runs
    inside = begins.gt(0) & ends.lt(len(ids))
    begins, ends = begins[inside], ends[inside]
    one = sequence[begins - 1].eq(sequence[ends])
    begins, ends = begins[one], ends[one]
    counts = (ends - begins).clamp(max=LONGEST_SPAN)
    run = torch.repeat_interleave(counts)
    places = torch.arange(len(run)) - (counts.cumsum(0) - counts)[run]
    return {
        "boundary_sides": torch.stack([begins[run] - 1, ends[run]]),
        "boundary_places": places,
        "boundary_ids": ids[begins[run] + places],
    }

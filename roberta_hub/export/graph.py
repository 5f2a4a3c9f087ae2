"""Module for export: ids and mask of a padded batch in, one answer out.

Shapes: B rows, T columns, C embed_dim, K classes, V vocabulary. What is answered of a token, and
what is pooled over tokens, is 0 at padding; a row of padding alone has a class and a pooler vector
all the same, of zeros.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from roberta_hub.arguments import one_of
from roberta_hub.errors import InputError, Remedy
from roberta_hub.inference.batching import check_lm_head
from roberta_hub.model.heads import padded_mean, pooling_of
from roberta_hub.model.known_head import kind_of_head, unknown_head
from roberta_hub.model.roberta import Roberta
from roberta_hub.settings import Pooling

Output = Literal["features", "logits"]
AnswerKind = Literal[
    "features", "pooled", "language", "classification", "token", "span", "replaced"
]
REPLACED_HEAD_NAME = "replaced_head"
"""Name of the head of ELECTRA's discriminators."""
_OUTPUTS: dict[AnswerKind, tuple[str, ...]] = {
    "features": ("last_hidden_state",),
    "pooled": ("sentence_embedding",),
    # optimum reads the last two of a span head.
    "span": ("logits", "start_logits", "end_logits"),
}
"""Names of outputs, as in optimum and sentence-transformers; others are `logits`."""


@dataclass(frozen=True)
class ExportedAnswer:
    """The answer of a model to export.

    Example:
        >>> ExportedAnswer("classification", "mnli").outputs
        ('logits',)
    """

    kind: AnswerKind
    """Features (B, T, C), pooled ones (B, C), LM logits (B, T, V); of a head for sentences (B, K),
    tokens (B, T, K), spans (B, T, 2), replaced tokens (B, T)."""
    name: str = ""
    """Name of the head, or of the pooling."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the outputs."""
        return _OUTPUTS.get(self.kind, ("logits",))


def find_answer(
    model: Roberta, head: str | None, output: Output | None, pooling: Pooling | None
) -> ExportedAnswer:
    """Find the answer to export."""
    one_of("output", output, (None, "features", "logits"))
    one_of("pooling", pooling, (None, "cls", "mean", "max", "pooler"))
    if pooling is not None and (head is not None or output == "logits"):
        raise InputError(
            f"pooling is {pooling!r}, which makes vectors of features; leave head and output out"
        )
    if head is not None:
        if output == "features":
            raise InputError("a head makes logits, and output is 'features'; leave one of both out")
        return ExportedAnswer(_kind_of_head(model, head), head)
    if output == "logits":
        if model.encoder.lm_head is None and model.replaced_head is not None:
            raise InputError(
                "this discriminator has no language-model head",
                remedy=Remedy(
                    f"head={REPLACED_HEAD_NAME!r} exports the one that judges its tokens",
                    f"--head {REPLACED_HEAD_NAME} exports the one that judges its tokens",
                ),
            )
        check_lm_head(model, "output 'logits'")
        return ExportedAnswer("language")
    if pooling == "pooler" and model.pooler is None:
        raise InputError("this model has no pooler; pooling takes 'cls', 'mean' or 'max'")
    return ExportedAnswer("features") if pooling is None else ExportedAnswer("pooled", pooling)


def _kind_of_head(model: Roberta, head: object) -> AnswerKind:
    kind = kind_of_head(model, head) if isinstance(head, str) else None
    if kind is not None:
        return kind
    more = () if model.replaced_head is None else (REPLACED_HEAD_NAME,)
    if head not in more:
        raise unknown_head(model, head, None, more)
    return "replaced"


def head_of(model: Roberta, answer: ExportedAnswer) -> nn.Module | None:
    """Return the head that makes the answer; None for features, pooled or not."""
    if answer.kind == "language":
        return model.encoder.lm_head
    if answer.kind == "replaced":
        return model.replaced_head
    if answer.kind == "pooled" and answer.name == "pooler":
        return model.pooler
    if answer.kind in ("features", "pooled"):
        return None
    heads: nn.ModuleDict = getattr(model, f"{answer.kind}_heads")
    return heads[answer.name]


class Graph(nn.Module):
    """One answer of a model, with the inputs of transformers.

    Padding is where `attention_mask` is 0, on either side. `token_type_ids` are an input of models
    with segments, which are then not derived from the ids.
    """

    def __init__(self, model: Roberta, answer: ExportedAnswer) -> None:
        super().__init__()
        # Only the parts needed: torch.export keeps the weights of every submodule.
        self.encoder = model.transformer
        self.head = head_of(model, answer)
        self.answer = answer
        self._over_tokens = self.head is not None and pooling_of(self.head) == "mean"
        self._factor = model.encoder.factor  # of the LM head, read where it is called

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs."""
        segments = ("token_type_ids",) * (self.encoder.separator_idx is not None)
        return ("input_ids", "attention_mask", *segments)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """Answer a padded batch.

        Args:
            input_ids: int64. Shape: (B, T)
            attention_mask: 0 at padding, int64. Shape: (B, T)
            token_type_ids: segments, int64; None: the ids tell them. Shape: (B, T)
        """
        encoder = self.encoder
        ids = torch.where(attention_mask.ne(0), input_ids, encoder.padding_idx)
        real = ids.ne(encoder.padding_idx)
        states = encoder.padded(ids, segments=token_type_ids)[-1]
        features = encoder.finish(states) * real.unsqueeze(-1)  # (B, T, C)
        if self.answer.kind == "features":
            return (features,)
        if self.answer.kind in ("pooled", "classification"):
            return (self._of_sequences(features, real),)
        return self._of_tokens(features, real)

    def _of_sequences(self, features: Tensor, real: Tensor) -> Tensor:
        """(B, T, C) -> (B, *)."""
        if self.answer.name in ("mean", "max") and self.answer.kind == "pooled":
            filled = real.any(1, keepdim=True)  # (B, 1)
            if self.answer.name == "mean":
                return padded_mean(features, real)
            lowest = features.masked_fill(~real.unsqueeze(-1), torch.finfo(features.dtype).min)
            return lowest.amax(1) * filled
        if self.answer.kind == "classification" and self._over_tokens:
            return self._through(features, real)
        rows = torch.arange(real.size(0), device=real.device)
        first = features[rows, real.int().argmax(1)]  # (B, C)
        if self.answer.kind == "classification":
            return self._through(first.unsqueeze(1))
        return first if self.answer.name == "cls" else self._through(first)

    def _of_tokens(self, features: Tensor, real: Tensor) -> tuple[Tensor, ...]:
        """(B, T, C) -> (B, T, *)."""
        if self.answer.kind == "language":
            logits = self._through(features, None, self._factor())
        else:
            logits = self._through(features)
        padding = ~real if self.answer.kind == "replaced" else ~real.unsqueeze(-1)
        logits = logits.masked_fill(padding, 0)
        return (logits, logits[..., 0], logits[..., 1]) if self.answer.kind == "span" else (logits,)

    def _through(self, x: Tensor, *more: Tensor | None) -> Tensor:
        assert self.head is not None
        made: Tensor = self.head(x, *more)
        return made

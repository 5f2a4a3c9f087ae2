"""Heads: masked LM, classification, tokens and spans; BERT's pooler; ELECTRA's discriminator."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from roberta_hub.model.activations import activation
from roberta_hub.model.matrices import Dtype, prepare_matrix, prepare_norm
from roberta_hub.model.prepared import Prepared, is_plain
from roberta_hub.settings import HeadPooling


def init_bert(module: nn.Module) -> None:
    """Set matrices to N(0, 0.02), biases and the row of padding to 0 (Devlin et al. 2019).

    fairseq's `init_bert_params`; other modules stay as they are.
    """
    if isinstance(module, (nn.Linear, nn.Embedding)):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
    if isinstance(module, nn.Embedding) and module.padding_idx is not None:
        nn.init.zeros_(module.weight[module.padding_idx])


class LMHead(nn.Module):
    """Masked-LM head: dense, activation, LayerNorm, output matrix.

    The output matrix is usually the embedding (tied weights). `width` is C, or E where the sum of
    the embeddings is projected (ALBERT, ELECTRA).
    """

    def __init__(
        self,
        embed_dim: int,
        vocab_size: int,
        *,
        width: int,
        activation_fn: str,
        eps: float,
        weight: Tensor | None,
    ) -> None:
        super().__init__()
        self.dense = nn.Linear(embed_dim, width)
        self.activation_fn = activation(activation_fn)
        self.layer_norm = nn.LayerNorm(width, eps=eps)
        self.weight = nn.Linear(width, vocab_size, bias=False).weight if weight is None else weight
        self.bias = nn.Parameter(torch.zeros(vocab_size))
        self.prepared: Prepared[PreparedLMHead] | None = None

    def prepare(self, dtype: Dtype | None) -> None:
        """Run on prepared matrices from now on, unless the plain ones are needed."""
        self.prepared = Prepared(self, prepare_lm_head, dtype)

    def forward(
        self,
        features: Tensor,
        masked_tokens: Tensor | None = None,
        projection: Tensor | None = None,
    ) -> Tensor:
        """Logits over the vocabulary."""
        if masked_tokens is not None:
            features = features[masked_tokens]
        prepared = self.prepared  # read once: another thread may be in `optimize`
        form = None if prepared is None else prepared.form()
        if form is not None:
            rows = form(features.flatten(0, -2), projection)
            return rows.to(features.dtype).view(*features.shape[:-1], rows.size(1))
        return F.linear(self.rows(features, projection), self.weight, self.bias)

    def rows(self, features: Tensor, projection: Tensor | None = None) -> Tensor:
        """Input of the output matrix: (*, C) -> (*, width).

        With a `projection`, (*, C) -> (*, E).
        """
        x: Tensor = self.layer_norm(self.activation_fn(self.dense(features)))
        return x if projection is None else x @ projection


class PreparedLMHead:
    """The same head for inference, on prepared matrices; `LMHead.forward` is its plain twin."""

    def __init__(self, head: LMHead, dtype: Dtype | None) -> None:
        self.dense = prepare_matrix(head.dense.weight, head.dense.bias, dtype, head.activation_fn)
        self.layer_norm = prepare_norm(head.layer_norm)
        self.output = prepare_matrix(head.weight, head.bias, dtype)

    def __call__(self, rows: Tensor, projection: Tensor | None) -> Tensor:
        """(N, C) -> (N, V); see `LMHead.forward`."""
        x = self.layer_norm(self.dense(rows))
        return self.output(x if projection is None else x @ projection.to(x.dtype))


_FORWARDS: dict[type[nn.Module], object] = {
    kind: kind.forward for kind in (LMHead, nn.Linear, nn.LayerNorm)
}
"""The classes and forwards that `PreparedLMHead` replaces."""


def prepare_lm_head(head: LMHead, dtype: Dtype | None) -> PreparedLMHead | None:
    """Return the prepared form; None where a part is of another kind, say an adapter."""
    return PreparedLMHead(head, dtype) if is_plain(head, _FORWARDS) else None


class ClassificationHead(nn.Module):
    """Sentence classification on the first token `<s>`, or on the mean of all tokens.

    The vector may get length 1, as that of a sentence encoder. Then dropout, dense, activation,
    dropout, output.
    """

    def __init__(
        self,
        embed_dim: int,
        inner_dim: int,
        num_classes: int,
        *,
        activation_fn: str,
        dropout: float,
        spectral_norm: bool = False,
        pooling: HeadPooling = "cls",
        normalize: bool = False,
    ) -> None:
        super().__init__()
        self.pooling, self.normalize = pooling, normalize
        self.dense = nn.Linear(embed_dim, inner_dim)
        self.activation_fn = activation(activation_fn)
        self.dropout = nn.Dropout(dropout)
        self.out_proj = nn.Linear(inner_dim, num_classes)
        if spectral_norm:
            # The older function, whose names weight_orig, weight_u, weight_v fairseq's files use.
            self.out_proj = torch.nn.utils.spectral_norm(self.out_proj)

    def forward(self, features: Tensor, real: Tensor | None = None) -> Tensor:
        """Logits from the features of whole sequences: (B, T, C) -> (B, num_classes).

        Vectors that are pooled already are sequences of one token, (B, 1, C).

        Args:
            features: where `real` is given, zeros at padding. Shape: (B, T, C)
            real: True at tokens that are no padding; None: there is none. Shape: (B, T)
        """
        x = self.dropout(self.read(features, real))
        x = self.dropout(self.activation_fn(self.dense(x)))
        logits: Tensor = self.out_proj(x)
        return logits

    def read(self, features: Tensor, real: Tensor | None = None) -> Tensor:
        """Make the vector that the dense layer reads: (B, T, C) -> (B, C); see `forward`."""
        x = padded_mean(features, real) if self.pooling == "mean" else features[:, 0, :]
        return F.normalize(x, dim=-1) if self.normalize else x


def pooling_of(head: nn.Module) -> HeadPooling:
    """Pooling of a classification head; "cls" for fairseq's and a caller's own."""
    pooling: HeadPooling = getattr(head, "pooling", "cls")  # of a wrapped head too
    return pooling


def normalizes(head: nn.Module) -> bool:
    """Whether a classification head normalizes its input; fairseq's do not."""
    normalize: bool = getattr(head, "normalize", False)
    return normalize


def padded_mean(features: Tensor, real: Tensor | None = None) -> Tensor:
    """Average the features of each sequence's tokens: (B, T, C) -> (B, C), zeros where it has none.

    `PackedBatch.mean_rows` does it to packed rows.

    Args:
        features: zeros at padding. Shape: (B, T, C)
        real: True at tokens that are no padding; None: there is none. Shape: (B, T)
    """
    if real is None:
        return features.mean(1)
    return features.sum(1) / real.sum(1, keepdim=True).clamp(min=1)


class Pooler(nn.Module):
    """Makes one vector of a sequence from its first token: dense, tanh (Devlin et al. 2019).

    BERT and ALBERT learned with it which sentences follow each other; SimCSE makes sentence vectors
    with RoBERTa's (Gao et al. 2021).
    """

    def __init__(self, embed_dim: int) -> None:
        super().__init__()
        self.dense = nn.Linear(embed_dim, embed_dim)
        init_bert(self.dense)

    def forward(self, first: Tensor) -> Tensor:
        """Pooled vectors from the features of first tokens: (*, C) -> (*, C)."""
        return torch.tanh(self.dense(first))


class ReplacedTokenHead(nn.Module):
    """Judges of each token whether it was replaced: dense, activation, one output.

    The head of ELECTRA's discriminators (Clark et al. 2020, section 3).
    """

    def __init__(self, embed_dim: int, *, activation_fn: str) -> None:
        super().__init__()
        self.dense = nn.Linear(embed_dim, embed_dim)
        self.activation_fn = activation(activation_fn)
        self.out_proj = nn.Linear(embed_dim, 1)
        for part in (self.dense, self.out_proj):
            init_bert(part)

    def forward(self, features: Tensor) -> Tensor:
        """Logits of having been replaced, the sigmoid of which is a probability: (*, C) -> (*)."""
        logits: Tensor = self.out_proj(self.activation_fn(self.dense(features)))
        return logits.squeeze(-1)


class TokenHead(nn.Module):
    """Token classification on every token: dropout, output (Devlin et al. 2019, section 5.3)."""

    def __init__(self, embed_dim: int, num_classes: int, *, dropout: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.out_proj = nn.Linear(embed_dim, num_classes)
        init_bert(self.out_proj)

    def forward(self, features: Tensor) -> Tensor:
        """Logits of each token: (*, C) -> (*, num_classes)."""
        logits: Tensor = self.out_proj(self.dropout(features))
        return logits


class SpanHead(nn.Module):
    """Where an answer starts and ends: two numbers a token (Devlin et al. 2019, section 4.2)."""

    def __init__(self, embed_dim: int) -> None:
        super().__init__()
        self.out_proj = nn.Linear(embed_dim, 2)
        init_bert(self.out_proj)

    def forward(self, features: Tensor) -> Tensor:
        """Logits of being the first and the last token of the answer: (*, C) -> (*, 2)."""
        logits: Tensor = self.out_proj(features)
        return logits

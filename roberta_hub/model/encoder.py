"""Runs embeddings and Transformer layers (Vaswani et al. 2017; Liu et al. 2019).

The same layers run on a packed batch (N, C) and on a padded one (B, T, C); only the `attend`
function differs. Parameter names are fairseq's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import repeat
from typing import Any

import torch
from torch import Tensor, nn

from roberta_hub.at_padding import states_are_computed
from roberta_hub.config import RobertaConfig
from roberta_hub.errors import InputError
from roberta_hub.model import embeddings
from roberta_hub.model.attention import (
    Attend,
    one_row_attention,
    packed_attention,
    padded_attention,
    plain_attention,
    some_rows_attention,
    time_first_attention,
)
from roberta_hub.model.compiled import CompiledRun
from roberta_hub.model.dropout import FairseqDropout, probability_of
from roberta_hub.model.embeddings import EmbeddingModules, packed_segments, padded_segments
from roberta_hub.model.forks import check_threads, model_made
from roberta_hub.model.layer import PreparedLayer, TransformerLayer, prepare_layers
from roberta_hub.model.matrices import Dtype
from roberta_hub.model.packing import (
    PackedBatch,
    PaddedBatch,
    check_tokens,
    pack,
    pack_sequences,
)
from roberta_hub.model.prepared import Prepared, has_forward_hooks

LayerCall = tuple[Attend, Tensor | None]
"""Arguments of a layer: attention function, and rows to compute, None for all."""


class TransformerEncoder(nn.Module):
    """Embeddings of tokens and positions, then layers; fairseq's `encoder.sentence_encoder`."""

    dropout = probability_of("dropout_module")

    version: Tensor
    embed_tokens: nn.Embedding
    embed_projection: nn.Linear | None
    embed_positions: nn.Embedding
    segment_embeddings: nn.Embedding | None
    layernorm_embedding: nn.LayerNorm | None
    quant_noise: nn.Linear | None

    def __init__(self, config: RobertaConfig) -> None:
        super().__init__()
        model_made()
        c, eps = config.embed_dim, config.layer_norm_eps
        self.vocab_size = config.vocab_size
        self.padding_idx = config.padding_idx
        self.max_source_positions = config.max_positions
        self.num_layers = config.num_layers
        self.layerdrop = config.layerdrop
        self.dropout_module = FairseqDropout(config.dropout)
        self.project_sum = config.project_sum
        # Only with two or more segments.
        self.separator_idx = config.separator_idx if config.num_segments > 1 else None
        self.register_buffer("version", torch.Tensor([3]))  # fairseq's marker for these key names
        for name, table in embeddings.embedding_modules(config)._asdict().items():
            setattr(self, name, table)  # directly on this module, as in fairseq's files
        self.layers = nn.ModuleList(
            TransformerLayer(
                c,
                config.ffn_dim,
                config.num_heads,
                activation_fn=config.activation_fn,
                dropout=config.dropout,
                attention_dropout=config.attention_dropout,
                activation_dropout=config.activation_dropout,
                normalize_before=config.normalize_before,
                eps=eps,
            )
            for _ in range(config.num_unique_layers or config.num_layers)
        )
        self.layer_norm = nn.LayerNorm(c, eps=eps) if config.normalize_before else None
        self.prepared: Prepared[list[PreparedLayer]] | None = None

    def max_positions(self) -> int:
        """Longest sequence in tokens."""
        return self.max_source_positions

    def prepare(self, dtype: Dtype | None) -> None:
        """Run packed batches on prepared layers from now on, where possible."""
        self.prepared = Prepared(self.layers, prepare_layers, dtype)

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        return_all_hiddens: bool = False,
        token_embeddings: Tensor | None = None,
    ) -> dict[str, list[Any]]:
        """Encode a padded batch; fairseq's signature and result.

        Args:
            src_tokens: ids, padding anywhere. Shape: (B, T)
            src_lengths: accepted for fairseq's trainer, not needed.
            return_all_hiddens: also the embedding output and every layer's.
            token_embeddings: used instead of the embedding lookup. Shape: (B, T, C)
        """
        rows, hiddens, batch = self.encode(src_tokens, return_all_hiddens, token_embeddings)
        return {
            "encoder_out": [batch.unpack(rows).transpose(0, 1)],
            "encoder_padding_mask": [src_tokens.eq(self.padding_idx)],
            "encoder_embedding": [self._embed_tokens(src_tokens, token_embeddings)],
            "encoder_states": [batch.unpack(state).transpose(0, 1) for state in hiddens],
            "fc_results": [None for _ in hiddens[1:]],
            "src_tokens": [],
            "src_lengths": [src_tokens.ne(self.padding_idx).sum(1, True, dtype=torch.int32)],
        }

    def forward_embedding(
        self, src_tokens: Tensor, token_embedding: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Input of the first layer, and the token embeddings alone: (B, T, C) both.

        Args:
            src_tokens: ids, padding anywhere. Shape: (B, T)
            token_embedding: used instead of the embedding lookup. Shape: (B, T, C)
        """
        x = self._embed_padded(src_tokens, src_tokens.ne(self.padding_idx), token_embedding)
        return x, self._embed_tokens(src_tokens, token_embedding)

    def encode(
        self,
        src_tokens: Tensor,
        return_all_hiddens: bool = False,
        token_embeddings: Tensor | None = None,
        *,
        padding: bool = True,
    ) -> tuple[Tensor, list[Tensor], PackedBatch | PaddedBatch]:
        """Encode a padded batch (B, T) into packed rows.

        Under torch.compile or torch.export a model in eval mode computes on every slot instead,
        since the shapes of packed rows depend on the data. In train mode rows stay packed:
        otherwise dropout would be drawn for padding. Forward hooks of this module and those below
        get what fairseq's get: every slot, tokens (B, T, C) and layers (T, B, C).

        Args:
            src_tokens: ids, padding anywhere. Shape: (B, T)
            return_all_hiddens: also the embedding output and every layer's.
            token_embeddings: used instead of the embedding lookup. Shape: (B, T, C)
            padding: whether anybody reads the states at padding.
        """
        tokens = check_tokens(
            src_tokens, vocab_size=self.vocab_size, max_positions=self.max_source_positions
        )
        computed = padding and states_are_computed()
        if torch.compiler.is_compiling():
            if not self.training and not computed:
                every = self.padded(tokens, token_embeddings)
                real = PaddedBatch(tokens.ne(self.padding_idx))
                return self.finish(every[-1]), every if return_all_hiddens else [], real
            if not torch.compiler.is_dynamo_compiling():  # torch.export; torch.compile continues
                raise InputError("torch.export takes a model in eval mode; call model.eval() first")
        if has_forward_hooks(self.modules()) or (
            computed and bool(tokens.eq(self.padding_idx).any())
        ):
            return self._time_first(tokens, return_all_hiddens, token_embeddings)
        batch = pack(tokens, padding_idx=self.padding_idx)
        if token_embeddings is not None:
            token_embeddings = token_embeddings.flatten(0, 1)
            if batch.slots is not None:
                token_embeddings = token_embeddings[batch.slots]
        states = self.packed(batch, token_embeddings)
        hiddens = list(states) if return_all_hiddens else []
        return self.finish(hiddens[-1] if hiddens else _last(states)), hiddens, batch

    def _time_first(
        self, tokens: Tensor, every: bool, token_embeddings: Tensor | None
    ) -> tuple[Tensor, list[Tensor], PaddedBatch]:
        """`encode` on every slot, in the layout in which hooks of fairseq's scripts read it."""
        real = tokens.ne(self.padding_idx)
        x = self._embed_padded(tokens, real, token_embeddings) * real.unsqueeze(-1)
        states = self._run(x.transpose(0, 1), partial(time_first_attention, real=real))
        hiddens = list(states) if every else []
        features = self.finish(hiddens[-1] if hiddens else _last(states)).transpose(0, 1)
        batch = PaddedBatch(real, states_are_computed())
        return features, [state.transpose(0, 1) for state in hiddens], batch

    def packed(
        self,
        batch: PackedBatch,
        token_embeddings: Tensor | None = None,
        rows: Tensor | None = None,
    ) -> Iterator[Tensor]:
        """Yield the embedding output, then each layer's, of a packed batch: L+1 times (N, C).

        `finish` the last one for the features. With `rows`, one of each
        sequence (none empty), the last layer computes only those: (B, C).
        """
        prepared = self.prepared  # read once: another thread may be in `optimize`
        if prepared is not None and prepared.owner is not self.layers:  # replaced since
            self.prepare(prepared.dtype)
            prepared = self.prepared
        layers = None if prepared is None else prepared.form()
        compiled = layers is not None and layers[0].compiled_for(len(batch.ids)) is not None
        x = self._embed_packed(batch, token_embeddings, compiled=compiled)
        attend = partial(packed_attention, batch=batch)
        last = None if rows is None else (partial(one_row_attention, batch=batch), rows)
        if layers is None:
            return self._run(x, attend, last)
        return self._run_prepared(x, layers, attend, last, batch.lengths)

    def features_at(self, batch: PackedBatch, rows: Tensor) -> Tensor:
        """Features of some tokens of a packed batch, for training: (M, C).

        The last layer computes only those rows. Runs the plain layers.

        Args:
            batch: the sequences.
            rows: distinct rows of tokens; for first tokens pass `batch.starts` itself (fastest).
                Shape: (M,)
        """
        last = partial(some_rows_attention, batch=batch, rows=rows)
        if rows is batch.starts and all(batch.lengths):
            last = partial(one_row_attention, batch=batch)
        attend = partial(packed_attention, batch=batch)
        return self.finish(_last(self._run(self._embed_packed(batch), attend, (last, rows))))

    def padded(
        self,
        tokens: Tensor,
        token_embeddings: Tensor | None = None,
        segments: Tensor | None = None,
    ) -> list[Tensor]:
        """Padded equivalent of `packed`: the same L+1 states, computed on every slot, (B, T, C).

        No shape depends on the data, so torch.export traces this form. `segments`, (B, T),
        replace those derived from separators.
        """
        real = tokens.ne(self.padding_idx)
        attend = partial(padded_attention, real=real)
        mask = real.unsqueeze(-1)
        x = self._embed_padded(tokens, real, token_embeddings, segments) * mask
        return [state * mask for state in self._run(x, attend)]

    def attention_weights(self, ids: Tensor) -> Tensor:
        """Attention weights of each layer and head.

        The other methods do not keep these. Runs the plain layers, without prepared matrices.

        Args:
            ids: of one sequence, without padding. Shape: (T,)
        """
        kept: list[Tensor] = []
        batch = pack_sequences([ids], padding_idx=self.padding_idx, device=self.version.device)
        deque(self._run(self._embed_packed(batch), partial(plain_attention, kept=kept)), maxlen=0)
        return torch.stack(kept)

    def embed(
        self,
        ids: Tensor,
        positions: Tensor,
        token_embeddings: Tensor | None = None,
        segments: Tensor | None = None,
    ) -> Tensor:
        """Input of the first layer: (*,) -> (*, C); see `embeddings.embed`."""
        return embeddings.embed(
            self._embeddings,
            self._embed_tokens(ids, token_embeddings),
            positions,
            segments,
            project_sum=self.project_sum,
            dropout=self.dropout_module.active,
        )

    def _embed_packed(
        self, batch: PackedBatch, token_embeddings: Tensor | None = None, *, compiled: bool = False
    ) -> Tensor:
        check_threads()
        segments = None
        if self.separator_idx is not None:
            segments = packed_segments(
                batch.ids,
                batch.positions,
                padding_idx=self.padding_idx,
                separator=self.separator_idx,
            )
        if compiled and not (self.training or self.dropout_module.training):
            tokens = batch.ids if token_embeddings is None else token_embeddings
            x = embeddings.embed_compiled(self._embeddings, tokens, batch.positions, segments)
            if x is not None:
                return x
        return self.embed(batch.ids, batch.positions, token_embeddings, segments)

    def _embed_padded(
        self,
        tokens: Tensor,
        real: Tensor,
        token_embeddings: Tensor | None,
        segments: Tensor | None = None,
    ) -> Tensor:
        check_threads()
        positions = real.long().cumsum(1) * real + self.padding_idx
        if segments is None and self.separator_idx is not None:
            segments = padded_segments(tokens, real, separator=self.separator_idx)
        return self.embed(tokens, positions, token_embeddings, segments)

    def _embed_tokens(self, ids: Tensor, token_embeddings: Tensor | None) -> Tensor:
        if token_embeddings is not None:
            return token_embeddings
        return embeddings.embed_tokens(self._embeddings, ids, project_sum=self.project_sum)

    @property
    def _embeddings(self) -> EmbeddingModules:
        """The current modules: a caller may have replaced them."""
        return EmbeddingModules(*(getattr(self, name) for name in EmbeddingModules._fields))

    def finish(self, x: Tensor) -> Tensor:
        """Features from the last hidden state: adds a LayerNorm in pre-norm models."""
        return x if self.layer_norm is None else self.layer_norm(x)

    def _run(self, x: Tensor, attend: Attend, last: LayerCall | None = None) -> Iterator[Tensor]:
        yield x
        group = self.num_layers // len(self.layers)
        # Drawn for every layer at once, as fairseq's LayerDropModuleList does.
        draws = (
            torch.empty(self.num_layers).uniform_() if self.training and self.layerdrop else None
        )
        for i in range(self.num_layers):
            how, rows = self._layer_call(i, attend, last)
            if draws is None or draws[i] > self.layerdrop:
                x = self.layers[i // group](x, how, rows)
                yield x
            elif rows is not None:
                x = x[rows]
                yield x

    def _run_prepared(
        self,
        x: Tensor,
        layers: Sequence[PreparedLayer],
        attend: Attend,
        last: LayerCall | None,
        lengths: Sequence[int],
    ) -> Iterator[Tensor]:
        yield x
        dtype, group = x.dtype, self.num_layers // len(layers)
        if x.device.type == "cpu":
            x = x.float()
        if not len(x):  # no rows: nothing to compute or prepare
            yield from repeat(x.to(dtype), self.num_layers)
            return
        forms = [layer.compiled_for(len(x)) for layer in layers]
        there = [form for form in forms if form is not None]
        run = CompiledRun(there, lengths, last and last[1]) if there else None
        for i in range(self.num_layers):
            index, (how, rows) = i // group, self._layer_call(i, attend, last)
            form = forms[index]
            if run is not None and form is not None:
                x = run(form, x, rows is not None)
            else:
                x = layers[index](x, how, rows)
            yield x.to(dtype)

    def _layer_call(self, i: int, attend: Attend, last: LayerCall | None) -> LayerCall:
        """Arguments of layer `i`."""
        return (attend, None) if last is None or i < self.num_layers - 1 else last


def _last(states: Iterator[Tensor]) -> Tensor:
    for state in states:
        last = state  # keeps one state alive at a time, not L+1
    return last

"""Holds the RoBERTa model (Liu et al. 2019) under fairseq's parameter names and signature."""

from __future__ import annotations

import logging
import warnings
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from roberta_hub.arguments import advise, kind_of, short_repr
from roberta_hub.at_padding import states_are_computed
from roberta_hub.config import (
    MAX_SIZE,
    ReadOnlyArguments,
    RobertaConfig,
    check_head_name,
)
from roberta_hub.errors import InputError, InputTypeError
from roberta_hub.keywords import check_assigned
from roberta_hub.model.encoder import TransformerEncoder
from roberta_hub.model.heads import (
    ClassificationHead,
    LMHead,
    Pooler,
    ReplacedTokenHead,
    SpanHead,
    TokenHead,
    init_bert,
    pooling_of,
)
from roberta_hub.model.known_head import VERBS, heads_of, known_head, list_heads
from roberta_hub.model.packing import PackedBatch, PaddedBatch
from roberta_hub.model.prepared import has_forward_hooks
from roberta_hub.model.sentence_layers import make_layers
from roberta_hub.settings import HeadPooling, SentenceLayer, check_normalize, check_pooling

logger = logging.getLogger("roberta_hub")
Extra = dict[str, "list[Tensor] | None"]
Head = TypeVar("Head", bound=nn.Module)


class RobertaEncoder(nn.Module):
    """The sentence encoder and the language-model head on top of it."""

    def __init__(self, config: RobertaConfig) -> None:
        super().__init__()
        self.sentence_encoder = TransformerEncoder(config)
        tied = None if config.untie_weights else self.sentence_encoder.embed_tokens.weight
        self.lm_head: LMHead | None = None
        if config.lm_head:
            self.lm_head = LMHead(
                config.embed_dim,
                config.vocab_size,
                width=config.sum_dim,
                activation_fn=config.lm_activation,
                eps=config.layer_norm_eps,
                weight=tied,
            )
        self._tied = tied is not None

    def forward(
        self,
        src_tokens: Tensor,
        features_only: bool = False,
        return_all_hiddens: bool = False,
        masked_tokens: Tensor | None = None,
        *,
        padding: bool = True,
    ) -> tuple[Tensor, Extra]:
        """LM logits (B, T, V), or features (B, T, C); see `Roberta.forward`."""
        if has_forward_hooks((self.sentence_encoder, *self._head_modules())):
            return self._as_called(src_tokens, features_only, return_all_hiddens, masked_tokens)
        rows, hiddens, batch = self.sentence_encoder.encode(
            src_tokens, return_all_hiddens, padding=padding
        )
        states = [batch.unpack(state).transpose(0, 1) for state in hiddens]
        extra: Extra = {"inner_states": states if return_all_hiddens else None}
        if features_only:
            return batch.unpack(rows), extra
        if masked_tokens is not None:
            _check_mask(masked_tokens, src_tokens)
            return self.output_layer(batch.unpack(rows), masked_tokens), extra
        return batch.unpack(self.output_layer(rows)), extra

    def _as_called(
        self,
        src_tokens: Tensor,
        features_only: bool,
        return_all_hiddens: bool,
        masked_tokens: Tensor | None,
    ) -> tuple[Tensor, Extra]:
        """`forward` by calls of the modules, whose hooks get what fairseq's get."""
        x, extra = self.extract_features(src_tokens, return_all_hiddens)
        if features_only:
            return x, extra
        if masked_tokens is not None:
            _check_mask(masked_tokens, src_tokens)
            return self.output_layer(x, masked_tokens), extra
        real = src_tokens.ne(self.sentence_encoder.padding_idx)
        return PaddedBatch(real, states_are_computed()).unpack(self.output_layer(x)), extra

    def _head_modules(self) -> Iterable[nn.Module]:
        return () if self.lm_head is None else self.lm_head.modules()

    def extract_features(
        self,
        src_tokens: Tensor,
        return_all_hiddens: bool = False,
        token_embeddings: Tensor | None = None,
    ) -> tuple[Tensor, Extra]:
        """Features (B, T, C), and under "inner_states" the L+1 hidden states (T, B, C) if asked."""
        out = self.sentence_encoder(
            src_tokens, return_all_hiddens=return_all_hiddens, token_embeddings=token_embeddings
        )
        states = out["encoder_states"] if return_all_hiddens else None
        return out["encoder_out"][0].transpose(0, 1), {"inner_states": states}

    def output_layer(self, features: Tensor, masked_tokens: Tensor | None = None) -> Tensor:
        """LM logits of features (*, C): (*, V), or (M, V) for M masked tokens."""
        if self.lm_head is None:
            raise InputError(
                "this checkpoint has no language-model head; load a masked-LM checkpoint for "
                "fill_mask, score and LM logits (of ELECTRA the generator, as "
                "google/electra-small-generator is)"
            )
        logits: Tensor = self.lm_head(features, masked_tokens, self.factor())
        return logits

    def factor(self) -> Tensor | None:
        """Return the projection (C, E) before a factorized output matrix of the LM head."""
        encoder = self.sentence_encoder
        if encoder.embed_projection is None or encoder.project_sum or not self._tied:
            return None
        return encoder.embed_projection.weight

    def max_positions(self) -> int:
        """Longest sequence in tokens."""
        return self.sentence_encoder.max_positions()


def _check_mask(masked_tokens: Tensor, src_tokens: Tensor) -> None:
    """Refuse a mask that is not one of the tokens'."""
    shape = src_tokens.shape if src_tokens.dim() > 1 else (1, *src_tokens.shape)
    if masked_tokens.dtype != torch.bool or masked_tokens.shape != shape:
        raise InputError(
            f"masked_tokens has shape {tuple(masked_tokens.shape)} and dtype "
            f"{masked_tokens.dtype}; pass a bool mask of the tokens' shape, {tuple(shape)}"
        )


_OWN = ("config", "pooler", "replaced_head", "sentence_layers")
"""Attributes that are set, where they are no modules."""


class Roberta(nn.Module):
    """RoBERTa: an encoder, a language-model head, and any number of further heads.

    Further heads answer for sentences, tokens and spans. Weights are random until a checkpoint is
    loaded; N(0, 0.02) as in BERT.

    Example:
        >>> import torch
        >>> sizes = dict(vocab_size=50, embed_dim=8, ffn_dim=16, num_layers=2, num_heads=2)
        >>> model = Roberta(RobertaConfig(**sizes))
        >>> logits, extra = model(torch.tensor([[0, 5, 2], [0, 2, 1]]), return_all_hiddens=True)
        >>> logits.shape, len(extra["inner_states"])
        (torch.Size([2, 3, 50]), 3)
    """

    def __init__(self, config: RobertaConfig) -> None:
        if not isinstance(config, RobertaConfig):
            raise InputTypeError(f"config is a {kind_of(config)}; pass a RobertaConfig")
        super().__init__()
        self.config = config
        self.encoder = RobertaEncoder(config)
        self.classification_heads = nn.ModuleDict()
        self.token_heads = nn.ModuleDict()
        self.span_heads = nn.ModuleDict()
        self.pooler: Pooler | None = None
        self.replaced_head: ReplacedTokenHead | None = None
        self.sentence_layers: nn.ModuleList | None = None
        self.init_weights()

    if not TYPE_CHECKING:  # a type checker sees the class as it is

        def __setattr__(self, name: str, value: object) -> None:
            """Set an attribute; refuse what would change nothing, as an interface does."""
            if name not in _OWN and not isinstance(value, (nn.Module, Tensor)):
                check_assigned(self, name, _OWN)
            super().__setattr__(name, value)

    @property
    def transformer(self) -> TransformerEncoder:
        """Embeddings and layers: fairseq's `encoder.sentence_encoder`."""
        return self.encoder.sentence_encoder

    def features(self, batch: PackedBatch, rows: Tensor | None = None) -> Tensor:
        """Compute the features of a packed batch, with gradients where they are on: (N, C).

        Args:
            batch: the tokens.
            rows: which of them get features, see `TransformerEncoder.features_at`; None: all.
                Shape: (M)
        """
        if rows is not None:
            return self.transformer.features_at(batch, rows)
        states = deque(self.transformer.packed(batch), maxlen=1)  # one is alive at a time
        return self.transformer.finish(states.pop())

    @property
    def args(self) -> ReadOnlyArguments:
        """The model's arguments under fairseq's names, to read; setting one is an error."""
        return self.config.model

    def _load_from_state_dict(self, state_dict: dict[str, Tensor], prefix: str, *rest: Any) -> None:
        """Take a checkpoint with other heads, as fairseq's `upgrade_state_dict_named` does.

        A head that the checkpoint lacks keeps its weights; one that the model lacks, or has in
        another size, is left out.
        """
        for kind in VERBS:
            _fit_heads(state_dict, f"{prefix}{kind}_heads.", heads_of(self, kind))
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def tie_weights(self) -> None:
        """Make the token embedding the LM head's output matrix again, after assigning tensors."""
        if self.encoder.lm_head is not None and not self.config.untie_weights:
            self.encoder.lm_head.weight = self.transformer.embed_tokens.weight

    def init_weights(self) -> None:
        """Set matrices to N(0, 0.02), biases and padding rows to 0, as fairseq does.

        Devlin et al. 2019. As there, an output matrix of the LM head's own and classification
        heads, which are added later, keep what `nn.Linear` starts from.
        """
        self.encoder.apply(init_bert)
        projection = self.transformer.embed_projection
        if projection is not None and not self.config.project_sum:
            # Tokens come out as large as unfactorized ones; positions would drown smaller ones.
            nn.init.normal_(projection.weight, std=projection.in_features**-0.5)

    def forward(
        self,
        src_tokens: Tensor,
        features_only: bool = False,
        return_all_hiddens: bool = False,
        classification_head_name: str | None = None,
        masked_tokens: Tensor | None = None,
        src_lengths: Tensor | None = None,
    ) -> tuple[Tensor, Extra]:
        """Run the model on a padded batch (fairseq `RobertaModel.forward`).

        Inside, only real tokens are computed. torch.compile and torch.export, which want shapes
        that do not depend on the data, get the padded form of a model in eval mode: the same
        numbers, without the check of ids against the vocabulary. Call `model.eval()` before either;
        a compiled model in train mode keeps packing, with breaks in its graph.

        Args:
            src_tokens: ids, padded anywhere. Shape: (B, T)
            features_only: stop before the LM head.
            return_all_hiddens: put the hidden states into the second result.
            classification_head_name: answer with this head instead of the LM head.
            masked_tokens: bool mask (B, T); LM logits of these M tokens only.
            src_lengths: accepted for fairseq's trainer, not needed.

        Returns:
            (x, {"inner_states": L+1 states (T, B, C) or None}), where x is LM logits (B, T, V) or
            (M, V), features (B, T, C), or class logits (B, num_classes). Features, states and LM
            logits are zeros at padding, and fairseq's there under `as_fairseq`.
        """
        features_only = features_only or classification_head_name is not None
        more = {}
        if states_are_computed() and classification_head_name is not None:
            more["padding"] = return_all_hiddens  # else nobody reads what is there
        x, extra = self.encoder(
            src_tokens, features_only, return_all_hiddens, masked_tokens, **more
        )
        if classification_head_name is not None:
            head = self.head(classification_head_name)
            if pooling_of(head) == "mean":
                real = src_tokens.view(-1, src_tokens.size(-1)).ne(self.config.padding_idx)
                return head(x, real), extra
            x = head(x[self.first_tokens(src_tokens)].unsqueeze(1))
        return x, extra

    def first_tokens(self, src_tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Index each row's first real token, whatever the padding: rows (B,), columns (B,).

        Args:
            src_tokens: padded ids. Shape: (B, T)
        """
        rows = src_tokens.view(-1, src_tokens.size(-1))
        columns = rows.ne(self.config.padding_idx).int().argmax(1)
        return torch.arange(rows.size(0), device=rows.device), columns

    def head(self, name: str) -> nn.Module:
        """Return a classification head.

        Args:
            name: the head's name.

        Raises:
            UnknownNameError: there is no such head; the message lists those there are.
        """
        return known_head(self, name)

    def list_heads(self) -> str:
        """List all heads for a message: "mnli, ner (token), squad (span)", or "none"."""
        return list_heads(self)

    def register_classification_head(
        self,
        name: str,
        num_classes: int | None = None,
        inner_dim: int | None = None,
        *,
        pooling: HeadPooling = "cls",
        normalize: bool = False,
    ) -> None:
        """Add a randomly initialized classification head, replacing one of the same name.

        In a model with segments and a pooler its dense layer starts as the pooler's (Devlin et al.
        2019).

        Args:
            name: any without a dot.
            num_classes: outputs; 1 for regression.
            inner_dim: width of the dense layer; `embed_dim` if None.
            pooling: what the head reads: "cls", the features of `<s>`, or "mean", the mean of those
                of all tokens.
            normalize: whether what it reads gets length 1.

        Raises:
            InputError: an invalid name, size or pooling.
        """
        self._check_vacant(name, self.classification_heads)
        check_pooling(name, pooling)
        check_normalize(name, normalize)
        inner_dim = self.config.embed_dim if inner_dim is None else inner_dim
        for what, size in (("num_classes", num_classes), ("inner_dim", inner_dim)):
            _check_size(name, what, size)
        assert num_classes is not None  # checked by the loop
        old = dict(self.classification_heads.items()).get(name)
        if isinstance(old, ClassificationHead):
            was = (old.out_proj.out_features, old.dense.out_features)
            if was != (num_classes, inner_dim):
                warnings.warn(
                    f"re-registering head {name!r} with num_classes {num_classes} (prev: {was[0]}) "
                    f"and inner_dim {inner_dim} (prev: {was[1]})",
                    stacklevel=2,
                )
        head = ClassificationHead(
            self.config.embed_dim,
            inner_dim,
            num_classes,
            activation_fn=self.config.pooler_activation_fn,
            dropout=self.config.pooler_dropout,
            spectral_norm=self.config.spectral_norm_heads,
            pooling=pooling,
            normalize=normalize,
        )
        # RoBERTa was not pre-trained to tell pairs, and its heads start from random weights.
        pretrained = self.pooler is not None and self.config.num_segments > 0
        if pretrained and inner_dim == self.config.embed_dim:
            # As in BERT: initialize the head with the pre-trained pooler.
            assert self.pooler is not None
            head.dense.load_state_dict(self.pooler.dense.state_dict())
        self.classification_heads[name] = self._like_us(head)

    def register_token_head(self, name: str, num_classes: int | None) -> None:
        """Add a randomly initialized head that labels every token, replacing one of the same name.

        It is stored in `token_heads[name]`; its dropout is the configuration's `pooler_dropout`.

        Args:
            name: any without a dot; of no other kind of head.
            num_classes: labels, "O" included.

        Raises:
            InputError: an invalid name or size.

        Example:
            >>> import torch
            >>> sizes = dict(vocab_size=50, embed_dim=8, ffn_dim=16, num_layers=1, num_heads=2)
            >>> model = Roberta(RobertaConfig(**sizes))
            >>> model.register_token_head("ner", 3)
            >>> model.token_heads["ner"](torch.zeros(7, 8)).shape
            torch.Size([7, 3])
        """
        self._check_vacant(name, self.token_heads)
        _check_size(name, "num_classes", num_classes)
        assert num_classes is not None  # checked by `_check_size`
        head = TokenHead(self.config.embed_dim, num_classes, dropout=self.config.pooler_dropout)
        self.token_heads[name] = self._like_us(head)

    def register_span_head(self, name: str) -> None:
        """Add a random head for start and end of an answer, replacing one of the same name.

        It is stored in `span_heads[name]`.

        Args:
            name: any without a dot; of no other kind of head.

        Raises:
            InputError: an invalid name.
        """
        self._check_vacant(name, self.span_heads)
        self.span_heads[name] = self._like_us(SpanHead(self.config.embed_dim))

    def add_pooler(self) -> None:
        """Add a random pooler in place of the one there is.

        It is stored in `pooler`, and maps the features of first tokens, (*, C) -> (*, C).
        """
        self.pooler = self._like_us(Pooler(self.config.embed_dim))

    def add_replaced_head(self) -> None:
        """Add a random head that judges which tokens were replaced, ELECTRA's discriminator's.

        It is stored in `replaced_head`, and maps features (*, C) to logits (*), with the layers'
        activation.
        """
        head = ReplacedTokenHead(self.config.embed_dim, activation_fn=self.config.activation_fn)
        self.replaced_head = self._like_us(head)

    def add_sentence_layers(
        self, specs: Sequence[SentenceLayer], shapes: Mapping[str, Sequence[int]], width: int
    ) -> None:
        """Add layers over pooled vectors, with random weights, in place of those there are.

        They are stored in `sentence_layers`, and `embed` runs vectors through them.

        Args:
            specs: the layers, in order.
            shapes: of their weights, by name in a state dict.
            width: of the pooled vectors.

        Raises:
            InputError: a matrix is missing, or does not fit.
        """
        self.sentence_layers = self._like_us(make_layers(specs, shapes, width))

    def _check_vacant(self, name: str, heads: nn.ModuleDict) -> None:
        """Refuse a name that no head can have, or that a head of another kind has."""
        check_head_name(name)
        if name not in heads and hasattr(heads, name):
            raise InputError(
                f"{name!r} cannot name a head: nn.ModuleDict has an attribute {name!r}"
            )
        for others in (self.classification_heads, self.token_heads, self.span_heads):
            if others is not heads and name in others:
                raise InputError(
                    f"{name!r} names a head of another kind; this model has {self.list_heads()}; "
                    "choose another name"
                )

    def _like_us(self, head: Head) -> Head:
        like = self.transformer.embed_positions.weight
        # In the model's mode: otherwise a head added after .eval() would apply dropout.
        return head.to(like.device, like.dtype).train(self.training)

    def get_normalized_probs(
        self, net_output: tuple[Tensor, object], log_probs: bool, sample: object = None
    ) -> Tensor:
        """Compute (log-)probabilities of `forward`'s result, in float32 whatever the model's dtype.

        Args:
            net_output: what `forward` returned.
            log_probs: whether logarithms are wanted.
            sample: fairseq's third argument; it changes nothing.
        """
        logits = net_output[0].float()
        return F.log_softmax(logits, dim=-1) if log_probs else F.softmax(logits, dim=-1)

    def max_positions(self) -> int:
        """Longest sequence in tokens, `<s>` and `</s>` included."""
        return self.encoder.max_positions()

    @property
    def supported_targets(self) -> set[str]:
        """What fairseq's masked-LM task asks of a model."""
        return {"self"}


def _fit_heads(state: dict[str, Tensor], prefix: str, heads: nn.ModuleDict) -> None:
    """Give a state dict the heads of a model; a head with some keys alone stays an error."""
    theirs: dict[str, list[str]] = {}
    for key in filter(lambda key: key.startswith(prefix), state):
        theirs.setdefault(key[len(prefix) :].partition(".")[0], []).append(key)
    for name, head in heads.items():
        ours = head.state_dict(prefix=f"{prefix}{name}.")
        keys = theirs.pop(name, [])
        if not keys:
            logger.info("head %s is not in the checkpoint, and keeps its weights", name)
            state.update(ours)
        elif any(key in ours and ours[key].shape != state[key].shape for key in keys):
            advise(f"head {name!r} of the checkpoint is left out: this model's has another size")
            for key in keys:
                del state[key]
            state.update(ours)
    for name, keys in theirs.items():
        advise(
            f"head {short_repr(name)} of the checkpoint is left out: this model has no such head"
        )
        for key in keys:
            del state[key]


def add_classification_head(
    model: nn.Module,
    name: str,
    num_classes: int | None,
    inner_dim: int | None,
    pooling: HeadPooling = "cls",
    normalize: bool = False,
) -> None:
    """Add a head to a model, ours or fairseq's, whose heads read `<s>` alone."""
    if pooling == "cls" and not normalize:
        model.register_classification_head(name, num_classes, inner_dim)  # type: ignore[operator]
    else:
        said = f"pooling={pooling!r}" if pooling != "cls" else "normalize=True"
        ours = require_roberta(model, f"{said} is for heads of")
        ours.register_classification_head(
            name, num_classes, inner_dim, pooling=pooling, normalize=normalize
        )


def require_roberta(model: object, what: str) -> Roberta:
    """Check that a model is a `Roberta`, and return it."""
    if not isinstance(model, Roberta):
        raise InputTypeError(
            f"{what} roberta_hub models, this is a "
            f"{type(model).__module__}.{type(model).__name__}; turn it into ours with "
            "roberta_hub.fairseq_bridge.from_fairseq"
        )
    return model


def _check_size(name: str, what: str, size: object) -> None:
    if not isinstance(size, int) or isinstance(size, bool) or not 1 <= size <= MAX_SIZE:
        limit = f", and at most {MAX_SIZE:,}" if isinstance(size, int) and size > MAX_SIZE else ""
        several = isinstance(size, (list, tuple))
        hint = "; names of classes are labels=[...]" if several and what == "num_classes" else limit
        kind = "" if type(size) is int or size is None else "a whole number, "
        said = f"{what} is {short_repr(size)}, must be {kind}at least 1{hint}"
        raise InputError(f"head {name!r}: {said}")

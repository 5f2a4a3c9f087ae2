"""Defines the numbers that make a RoBERTa, in `torch.nn` words.

The config stops at the model: layers take plain values.
"""

from __future__ import annotations

import dataclasses
from argparse import Namespace
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from roberta_hub.arguments import short_repr
from roberta_hub.errors import InputError, UnknownAttributeError, UnknownNameError
from roberta_hub.keywords import frozen, names_others

MAX_SIZE = 1_000_000_000
"""Largest width, vocabulary or length: more is a damaged file, and would overflow in torch."""
MAX_LAYERS = 1000
"""Most layers; building this many takes a second."""

FAMILY_FIELDS = ("project_sum", "num_segments", "separator_idx")
"""Fields for RoBERTa's relatives, which 0.1.0 does not know."""


@frozen(
    "the model is built: load_model takes fairseq's arguments as keywords, and RobertaConfig makes "
    "a model of another size"
)
@dataclass(frozen=True, kw_only=True)
class RobertaConfig:
    """Architecture of a RoBERTa encoder, by default of `roberta.base` (Liu et al. 2019, table 9).

    Example:
        >>> RobertaConfig().head_dim
        64
        >>> RobertaConfig(embed_dim=100, num_heads=12)
        Traceback (most recent call last):
        ...
        roberta_hub.errors.InputError: embed_dim 100 is not a multiple of num_heads 12
    """

    vocab_size: int = 50265
    """Rows of the embedding table: 4 specials, 50,257 BPE units, 3 fillers, `<mask>`."""
    padding_idx: int = 1
    """Id of `<pad>`; positions of real tokens start at `padding_idx + 1`."""
    max_positions: int = 512
    """Longest sequence in tokens, `<s>` and `</s>` included. The table holds `padding_idx + 1` more
    rows."""
    embed_dim: int = 768
    """C, the width of the residual stream."""
    ffn_dim: int = 3072
    """Width inside the feed-forward block."""
    num_layers: int = 12
    """L, how many times a layer is applied."""
    num_heads: int = 12
    """H, attention heads; each has `embed_dim // num_heads` dimensions."""
    embedding_dim: int | None = None
    """E, the width of a factorized token embedding, which is projected to `embed_dim` (Lan et al.
    2020, section 3.1); None: not factorized."""
    project_sum: bool = False
    """With `embedding_dim`: the sum of all embeddings and its LayerNorm have width E, and the sum
    is projected with a bias; the LM head works at width E (ALBERT, ELECTRA)."""
    num_segments: int = 0
    """Rows of the segment table (BERT: 2); 0: there is none. A token's segment is the number of
    separators before it, at most 1."""
    separator_idx: int | None = None
    """Id of the separator that ends a segment (BERT's `[SEP]`); required if `num_segments` > 1."""
    num_unique_layers: int | None = None
    """Cross-layer sharing: this many layers hold weights, applied in equal consecutive groups;
    None: no sharing."""
    activation_fn: str = "gelu"
    """Activation of the feed-forward block."""
    lm_activation_fn: str | None = None
    """Activation of the LM head: Hugging Face's is "gelu" whatever the layers have; None:
    `activation_fn`, as in fairseq."""
    pooler_activation_fn: str = "tanh"
    """Activation of the classification heads."""
    dropout: float = 0.1
    """On the embeddings and on each block's output."""
    attention_dropout: float = 0.1
    """On attention probabilities."""
    activation_dropout: float = 0.0
    """Between the two feed-forward matrices."""
    pooler_dropout: float = 0.0
    """On both sides of a classification head's dense layer."""
    layerdrop: float = 0.0
    """Probability that a whole layer is skipped in training (Fan et al. 2019)."""
    normalize_before: bool = False
    """Pre-norm layers with a final LayerNorm, instead of RoBERTa's post-norm."""
    layernorm_embedding: bool = True
    """LayerNorm on the embeddings; fairseq's `roberta_prenorm` has none."""
    layer_norm_eps: float = 1e-5
    """Epsilon of every LayerNorm; fairseq knows only 1e-5."""
    untie_weights: bool = False
    """The LM head has its own output matrix instead of the token embedding."""
    lm_head: bool = True
    """Whether there is a language-model head; some Hugging Face checkpoints have none."""
    quant_noise_pq: float = 0.0
    """Above 0: the model was trained with quantization noise and has a linear after its
    embeddings."""
    spectral_norm_heads: bool = False
    """Spectral normalization on each classification head's output layer."""

    def __post_init__(self) -> None:
        self._check_types()
        for name in ("vocab_size", "max_positions", "embed_dim", "ffn_dim", "num_heads"):
            if not 1 <= getattr(self, name) <= MAX_SIZE:
                raise InputError(
                    f"{name} is {short_repr(getattr(self, name))}, must lie in 1..{MAX_SIZE:,}"
                )
        if self.embedding_dim is not None and not 1 <= self.embedding_dim <= MAX_SIZE:
            raise InputError(
                f"embedding_dim is {short_repr(self.embedding_dim)}, must lie in 1..{MAX_SIZE:,}"
            )
        if not 0.0 <= self.layer_norm_eps < 1.0:
            raise InputError(
                f"layer_norm_eps is {short_repr(self.layer_norm_eps)}, must lie in 0..1"
            )
        if self.embed_dim % self.num_heads:
            raise InputError(
                f"embed_dim {self.embed_dim} is not a multiple of num_heads {self.num_heads}"
            )
        if not 0 <= self.padding_idx < self.vocab_size:
            raise InputError(
                f"padding_idx {short_repr(self.padding_idx)} is outside 0..{self.vocab_size - 1}"
            )
        self._check_segments()
        if self.project_sum and self.embedding_dim is None:
            raise InputError("project_sum needs embedding_dim, the width of the sum")
        unique = self.num_unique_layers
        if unique is not None and (not 1 <= unique <= self.num_layers or self.num_layers % unique):
            raise InputError(
                f"num_unique_layers {short_repr(unique)} does not divide num_layers "
                f"{short_repr(self.num_layers)}"
            )
        if not 1 <= self.num_layers <= MAX_LAYERS:
            raise InputError(
                f"num_layers is {short_repr(self.num_layers)}, must lie in 1..{MAX_LAYERS:,}"
            )
        for name in (
            "dropout",
            "attention_dropout",
            "activation_dropout",
            "pooler_dropout",
            "layerdrop",
        ):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise InputError(
                    f"{name} is {short_repr(getattr(self, name))}, a probability is in 0..1"
                )

    def _check_segments(self) -> None:
        """Check that a segment table has a separator, which is a token and no padding."""
        if not 0 <= self.num_segments <= MAX_SIZE:
            raise InputError(
                f"num_segments is {short_repr(self.num_segments)}, must lie in 0..{MAX_SIZE:,}"
            )
        if self.separator_idx is None:
            if self.num_segments > 1:
                raise InputError(
                    f"num_segments is {self.num_segments} and there is no separator_idx; give the "
                    "id of the token that ends a segment"
                )
        elif not 0 <= self.separator_idx < self.vocab_size:
            raise InputError(
                f"separator_idx {short_repr(self.separator_idx)} is outside "
                f"0..{self.vocab_size - 1}"
            )
        elif self.separator_idx == self.padding_idx:
            raise InputError(f"separator_idx {self.separator_idx} is padding_idx; give another")

    def _check_types(self) -> None:
        """Configurations come from files, where a size may be a string and a switch a number."""
        for field in dataclasses.fields(self):
            value, names = getattr(self, field.name), str(field.type).split(" | ")
            if value is None and "None" in names:
                continue
            kind = names[0]
            if type(value).__name__ != kind and not (kind == "float" and type(value) is int):
                raise InputError(
                    f"{field.name} is {short_repr(value)}, must be of type {field.type}"
                )

    @property
    def head_dim(self) -> int:
        """Dimensions of one attention head."""
        return self.embed_dim // self.num_heads

    @property
    def sum_dim(self) -> int:
        """Width of the sum of embeddings and of the LM head: C, or E with `project_sum`."""
        if self.project_sum and self.embedding_dim is not None:
            return self.embedding_dim
        return self.embed_dim

    @property
    def lm_activation(self) -> str:
        """The LM head's activation function, by name."""
        return self.lm_activation_fn or self.activation_fn

    @property
    def model(self) -> ReadOnlyArguments:
        """The same under fairseq's names, as `cfg.model` and `cfg["model"]` have it there.

        Example:
            >>> cfg = RobertaConfig()
            >>> cfg.model.encoder_layers, cfg["model"]["max_positions"]
            (12, 512)
        """
        return ReadOnlyArguments(fairseq_arguments(self))

    def __getitem__(self, section: str) -> ReadOnlyArguments:
        if section != "model":
            raise UnknownNameError(_unknown_section(section, f"cfg[{short_repr(section)}]"))
        return self.model

    if not TYPE_CHECKING:  # a type checker sees the fields

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("__"):
                raise AttributeError(name)  # of Python's protocols
            raise UnknownAttributeError(_unknown_section(name, f"cfg.{name}"))

    def to_dict(self) -> dict[str, object]:
        """Plain values for a JSON file; `RobertaConfig(**d)` restores it.

        `FAMILY_FIELDS` are left out where they have their defaults: 0.1.0 then reads the file, and
        the states of its training runs still agree with this configuration.
        """
        values = dataclasses.asdict(self)
        for field in dataclasses.fields(self):
            if field.name in FAMILY_FIELDS and values[field.name] == field.default:
                del values[field.name]
        return values


FAIRSEQ_FIELDS = {
    "encoder_embed_dim": "embed_dim",
    "encoder_ffn_embed_dim": "ffn_dim",
    "encoder_layers": "num_layers",
    "encoder_attention_heads": "num_heads",
    "max_positions": "max_positions",
    "activation_fn": "activation_fn",
    "pooler_activation_fn": "pooler_activation_fn",
    "dropout": "dropout",
    "attention_dropout": "attention_dropout",
    "activation_dropout": "activation_dropout",
    "pooler_dropout": "pooler_dropout",
    "encoder_layerdrop": "layerdrop",
    "encoder_normalize_before": "normalize_before",
    "layernorm_embedding": "layernorm_embedding",
    "untie_weights_roberta": "untie_weights",
    "spectral_norm_classification_head": "spectral_norm_heads",
    "quant_noise_pq": "quant_noise_pq",
}
"""fairseq's argument -> ours, one row a field, used both ways."""
FAIRSEQ_ACTIVATIONS = frozenset(
    ["relu", "relu_squared", "gelu", "gelu_fast", "gelu_accurate", "tanh", "linear", "swish"]
)
"""The activation functions that fairseq has a name for (`fairseq/utils.py get_activation_fn`)."""


def fairseq_arguments(config: RobertaConfig) -> dict[str, object]:
    """Return all arguments of fairseq's RoBERTa: its users can override only what is there.

    Example:
        >>> fairseq_arguments(RobertaConfig())["encoder_embed_dim"]
        768
    """
    arch = "roberta_prenorm" if config.normalize_before else "roberta_base"
    return {theirs: getattr(config, ours) for theirs, ours in FAIRSEQ_FIELDS.items()} | {
        "_name": arch,
        "arch": arch,
        "encoder_layers_to_keep": None,
        "load_checkpoint_heads": True,  # else fairseq drops the heads with a warning
        "quant_noise_pq_block_size": 8,
        "quant_noise_scalar": 0.0,
        "no_token_positional_embeddings": False,
        "encoder_learned_pos": True,
        "no_scale_embedding": True,
        "adaptive_input": False,
    }


@names_others
class ReadOnlyArguments(Namespace):
    """Arguments under fairseq's names, to read by attribute and by key: nothing follows a change.

    Example:
        >>> arguments = ReadOnlyArguments({"encoder_layers": 12})
        >>> arguments.encoder_layers, arguments["encoder_layers"], arguments.get("dropout", 0.1)
        (12, 12, 0.1)
    """

    def __init__(self, arguments: Mapping[str, object]) -> None:
        vars(self).update(arguments)

    def __setattr__(self, name: str, value: object) -> None:
        raise InputError(
            f"args.{name} = {short_repr(value)} would change nothing: the model is built; "
            "load_model takes fairseq's arguments as keywords, and RobertaConfig makes a model of "
            "another size"
        )

    __setitem__ = __setattr__

    def __getitem__(self, name: str) -> Any:
        if name not in self:
            raise UnknownNameError(f"no argument {short_repr(name)}; there are {', '.join(self)}")
        return vars(self)[name]

    def __iter__(self) -> Iterator[str]:
        return iter(vars(self))

    def __len__(self) -> int:
        return len(vars(self))

    def keys(self) -> list[str]:
        """Names of all arguments."""
        return list(self)

    def items(self) -> list[tuple[str, Any]]:
        """Names and values of all arguments."""
        return list(vars(self).items())

    def get(self, name: str, default: object = None) -> Any:
        """Value of an argument."""
        return vars(self).get(name, default)


SECTIONS = {
    "task": "roberta.task has the dictionaries",
    "bpe": "roberta.bpe cuts texts",
    "tokenizer": "RoBERTa has no tokenizer before its BPE",
    "criterion": "roberta-hub train has the losses",
    "optimizer": "roberta-hub train has the optimizer",
    "lr_scheduler": "roberta-hub train has the schedule",
}
"""Sections of fairseq's configuration other than `model`, each with what replaces it here."""


def _unknown_section(name: object, spelled: str) -> str:
    """Say where a configuration has what fairseq's has under another name."""
    if name in FAIRSEQ_FIELDS:
        return f"no {spelled}; fairseq's arguments are in cfg.model.{name} and roberta.args.{name}"
    advice = SECTIONS.get(str(name), "cfg.model has fairseq's arguments, help(cfg) our fields")
    return f"no {spelled}: the configuration is a RobertaConfig, of the model alone; {advice}"


TINY = RobertaConfig(embed_dim=384, embedding_dim=256, ffn_dim=1536, num_layers=6, num_heads=12)
"""roberta.tiny: 24 M parameters, in the package."""
BASE = RobertaConfig()
"""roberta.base: 125 M parameters."""
LARGE = RobertaConfig(num_layers=24, embed_dim=1024, ffn_dim=4096, num_heads=16)
"""roberta.large: 355 M parameters."""


MAX_HEAD_NAME = 100
"""Characters."""
_JOINERS = dict.fromkeys(map(ord, "\u200c\u200d"))
"""Not printable, yet parts of words in Persian and in India's scripts."""


def check_head_name(name: object) -> str:
    """Return a head name that can be part of a parameter name; the error says which can.

    Names in every script are good, as in fairseq. What a file from elsewhere could do harm with is
    not: dots, which cut parameter names, names of Python's own, and what cannot be seen.

    Example:
        >>> check_head_name("mnli"), check_head_name("my head"), check_head_name("主题")
        ('mnli', 'my head', '主题')
    """
    if not isinstance(name, str) or not _can_name(name):
        raise InputError(
            f"{short_repr(name)} cannot name a classification head: use 1 to {MAX_HEAD_NAME} "
            "printable characters without '.', not __so__, beginning with no '-' and no space, "
            "ending with no space"
        )
    return name


def _can_name(name: str) -> bool:
    seen = name[: MAX_HEAD_NAME + 1].translate(_JOINERS)
    return (
        len(name) <= MAX_HEAD_NAME
        and seen.strip() != ""
        and seen.isprintable()
        and "." not in name
        and name == name.strip()
        and not name.startswith("-")
        and not (name.startswith("__") and name.endswith("__"))
    )

"""A checkpoint in memory: configuration, weights and heads, the same for every format."""

from __future__ import annotations

import dataclasses
import re
import warnings
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Any, TypeVar, get_args

from torch import Tensor

from roberta_hub.config import RobertaConfig, check_head_name
from roberta_hub.errors import CheckpointError, InputError
from roberta_hub.files import read_bytes
from roberta_hub.folder import Folder
from roberta_hub.settings import (
    Head,
    Inputs,
    SentenceSettings,
    ZeroShotSettings,
    check_head,
    column,
    with_columns,
)

EMBEDDING = "encoder.sentence_encoder.embed_tokens.weight"
PROJECTION = "encoder.sentence_encoder.embed_projection.weight"
POSITIONS = "encoder.sentence_encoder.embed_positions.weight"
SEGMENTS = "encoder.sentence_encoder.segment_embeddings.weight"
LM_WEIGHT = "encoder.lm_head.weight"
VERSION_KEY = "encoder.sentence_encoder.version"
LAYER = "encoder.sentence_encoder.layers."
HEADS = "classification_heads."
TOKEN_HEADS = "token_heads."
SPAN_HEADS = "span_heads."
POOLER = "pooler."
"""Prefix of the pooler's parameters (BERT, ALBERT, and RoBERTa's kinds where the file has it)."""
REPLACED_HEAD = "replaced_head."
"""Prefix of the parameters of the discriminator's head (ELECTRA)."""
PRUNING = "encoder_layers_to_keep"
"""fairseq's argument that changes how many layers a checkpoint has."""

MAX_DICTIONARY_BYTES = 32 << 20
"""Maximum size of a dict.txt; RoBERTa's has 0.6 MB, one of a million words 15."""
MAX_HEADS = 1000
"""Maximum number of heads of one kind; a file with more counts as an attack."""

Size = TypeVar("Size")


class _Listed(dict[str, Any]):
    """One fact of a checkpoint's heads as it is read, which `dataclasses.replace` passes on."""


@dataclass(kw_only=True)
class Checkpoint:
    """One model's configuration, weights under fairseq's names, vocabulary and labels."""

    config: RobertaConfig
    weights: dict[str, Tensor]
    source: str
    """Path, for messages."""
    dictionary: bytes | None = None
    """A fairseq dict.txt without `<mask>`; None: the shipped RoBERTa dictionary."""
    label_dictionary: bytes | None = None
    """fairseq's label/dict.txt of a sentence_prediction task."""
    known_heads: dict[str, Head] = field(default_factory=dict)
    """What is known of heads, by name; the weights say which heads there are."""
    labels: InitVar[Mapping[str, tuple[str, ...]] | None] = None
    """Class names of heads, which `known_heads` takes up and gives."""
    inputs: InitVar[Mapping[str, Inputs] | None] = None
    """What heads were trained on, likewise."""
    default_head: str | None = None
    """The head that the model was last trained for, if known."""
    task: str = "masked_lm"
    """fairseq's name of the task it was trained on."""
    init_token: int | None = None
    """Id that the wsc task put before each sentence, if any."""
    finite: bool = False
    """Whether the weights are known to contain neither NaN nor infinity."""
    family: str = "roberta"
    """`model_type` of its family at Hugging Face."""
    parts: tuple[str, ...] = ()
    """Without weights: which of `POOLER` and `REPLACED_HEAD` the model has. Otherwise inferred from
    the tensors."""
    sentence: SentenceSettings | None = None
    """Pooling of sentence embeddings, if known."""
    zero_shot: ZeroShotSettings | None = None
    """Zero-shot method, if known; only our format stores it."""
    learnt: frozenset[str] = frozenset()
    """Digests of the texts that `fit` trained it on; see `text/learnt.py`."""

    def __post_init__(
        self,
        labels: Mapping[str, tuple[str, ...]] | None,
        inputs: Mapping[str, Inputs] | None,
    ) -> None:
        given = {"labels": labels or {}, "inputs": inputs or {}}
        new = {fact: table for fact, table in given.items() if not isinstance(table, _Listed)}
        self.known_heads = with_columns(self.known_heads, **new)

    def heads(self) -> dict[str, tuple[int, int]]:
        """Read (num_classes, inner_dim) of every classification head off the tensors."""
        sizes: dict[str, tuple[int, int]] = {}
        for name in sorted(
            {_head_of(key, HEADS, self.source) for key in self.weights if key.startswith(HEADS)}
        ):
            dense = self.weights.get(f"{HEADS}{name}.dense.weight")
            out = self.weights.get(f"{HEADS}{name}.out_proj.weight")
            if out is None:  # spectral norm keeps the raw matrix under another name
                out = self.weights.get(f"{HEADS}{name}.out_proj.weight_orig")
            # An empty matrix may claim a billion rows at no cost, and each would get a label.
            sound = (m is not None and m.dim() == 2 and m.numel() > 0 for m in (dense, out))
            if dense is None or out is None or not all(sound):
                raise CheckpointError(
                    f"{self.source}: classification head {name!r} lacks its dense or out_proj "
                    "matrix"
                )
            sizes[name] = (out.size(0), dense.size(0))
        return self._check_count(sizes)

    def token_heads(self) -> dict[str, int]:
        """Read num_classes of every token head off the tensors."""
        return self._outputs(TOKEN_HEADS, "token")

    def span_heads(self) -> dict[str, int]:
        """Read the number of outputs of every span head, which is 2, off the tensors."""
        found = self._outputs(SPAN_HEADS, "span")
        for name, outputs in found.items():
            if outputs != 2:
                raise CheckpointError(
                    f"{self.source}: span head {name!r} has {outputs} outputs, must have 2"
                )
        return found

    def has(self, part: str) -> bool:
        """Whether the model has a `POOLER` or a `REPLACED_HEAD`."""
        return part in self.parts or any(name.startswith(part) for name in self.weights)

    def known(self, head: str) -> Head:
        """What is known of a head."""
        return self.known_heads.get(head, Head())

    def _outputs(self, prefix: str, kind: str) -> dict[str, int]:
        sizes: dict[str, int] = {}
        keys = [key for key in self.weights if key.startswith(prefix)]
        for name in sorted({_head_of(key, prefix, self.source) for key in keys}):
            out = self.weights.get(f"{prefix}{name}.out_proj.weight")
            if out is None or out.dim() != 2 or not out.numel():
                raise CheckpointError(
                    f"{self.source}: {kind} head {name!r} lacks its out_proj matrix"
                )
            sizes[name] = out.size(0)
        return self._check_count(sizes)

    def _check_count(self, sizes: dict[str, Size]) -> dict[str, Size]:
        if len(sizes) > MAX_HEADS:
            raise CheckpointError(f"{self.source}: {len(sizes)} heads, the limit is {MAX_HEADS}")
        return sizes


def _listed(fact: str) -> property:
    return property(lambda checkpoint: _Listed(column(checkpoint.known_heads, fact)))


def check_counts(checkpoint: Checkpoint, path: object) -> None:
    """Refuse facts for each label that are more or fewer than the labels of their head."""
    for head, (count, _) in checkpoint.heads().items():
        try:
            check_head(head, checkpoint.known(head), count)
        except InputError as error:
            raise CheckpointError(f"{path}: {error}; restore the file") from None


for _fact in ("labels", "inputs"):
    setattr(Checkpoint, _fact, _listed(_fact))


def _head_of(key: str, prefix: str, source: str) -> str:
    name = re.sub(r"\.(dense|out_proj)\.(weight|bias|weight_orig|weight_u|weight_v)$", "", key)
    try:
        return check_head_name(name[len(prefix) :])
    except InputError as error:
        raise CheckpointError(f"{source}: parameter {key[:120]!r}: {error}") from None


def distinct_labels(labels: Sequence[str], head: str, source: str) -> tuple[str, ...]:
    """Make duplicate labels distinct by appending class numbers.

    Otherwise classes with one label would be merged, and probabilities would not sum to 1.

    Example:
        >>> import warnings
        >>> warnings.simplefilter("ignore")
        >>> distinct_labels(["good", "bad", "good"], "topic", "model.pt")
        ('good (0)', 'bad', 'good (2)')
    """
    counts = Counter(labels)
    if len(counts) == len(labels):
        return tuple(labels)
    twice = [label for label, count in counts.items() if count > 1]
    found = tuple(f"{la} ({i})" if counts[la] > 1 else la for i, la in enumerate(labels))
    if len(set(found)) != len(found):  # the new name is another class's label
        found = tuple(map(str, range(len(labels))))
    shown = ", ".join(repr(label[:40]) for label in twice[:5])
    warnings.warn(
        f"{source}: several classes of head {head!r} have the label {shown}; they are told apart "
        f"by their numbers: {', '.join(found[:20])[:300]}",
        stacklevel=5,
    )
    return found


def plain_inputs(value: Any) -> dict[str, Inputs]:
    """Keep only the valid entries of a file's table of head inputs."""
    items = value.items() if isinstance(value, dict) else ()
    known = get_args(Inputs)
    return {head: given for head, given in items if isinstance(head, str) and given in known}


def read_dictionary(folder: Folder, name: str) -> bytes | None:
    """Read the bytes of a dictionary file; None if there is none."""
    if not folder.is_file(name):
        return None
    return read_bytes(folder / name, MAX_DICTIONARY_BYTES, CheckpointError, "dictionary")


def expand(
    config: RobertaConfig, weights: dict[str, Tensor], known: Container[str] = ()
) -> tuple[RobertaConfig, dict[str, Tensor]]:
    """Expand our extensions of the architecture, for formats that lack them.

    Factorized token embeddings are multiplied out, shared layers are repeated for each use.
    Segments and a projected sum of embeddings stay: a format that has neither must refuse them.
    """
    weights = dict(weights)
    whole = expanded_config(config, known)
    if whole.embedding_dim != config.embedding_dim:
        table = weights[EMBEDDING] @ weights.pop(PROJECTION).T  # (V, E) @ (E, C)
        if not config.untie_weights and config.lm_head:
            weights[LM_WEIGHT] = table
        weights[EMBEDDING] = table
    unique = config.num_unique_layers
    if unique is not None and whole.num_unique_layers is None:
        group = config.num_layers // unique
        shared = {name: weights.pop(name) for name in list(weights) if name.startswith(LAYER)}
        for name, tensor in shared.items():
            index, rest = name[len(LAYER) :].split(".", 1)
            for use in range(int(index) * group, (int(index) + 1) * group):
                weights[f"{LAYER}{use}.{rest}"] = tensor
    return whole, weights


def expanded_config(config: RobertaConfig, known: Container[str] = ()) -> RobertaConfig:
    """Configuration of the model that `expand` returns."""
    factorized = config.embedding_dim is not None and not config.project_sum
    if factorized and "embedding_dim" not in known:
        config = dataclasses.replace(config, embedding_dim=None)
    if "num_unique_layers" not in known:
        config = dataclasses.replace(config, num_unique_layers=None)
    return config

"""Says what a family's table holds: its names in Hugging Face's directories, beside ours.

A table is read both ways. Rows of parameters name either one tensor ("... .weight") or a module,
which stands for its weight and its bias.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

HEAD = "sentence_classification_head"
"""What the one classifier of a Hugging Face model is called here; it has no name there."""
TOKEN_HEAD = "token_classification_head"
"""What its token classifier is called here."""
SPAN_HEAD = "question_answering_head"
"""What its head for question answering is called here."""


@dataclass(frozen=True, kw_only=True)
class HeadNames:
    """The parameters of one kind of head, and the class that transformers saves it from."""

    suffix: str
    """The end of the class's name: "ForTokenClassification"."""
    kind: str
    """What our names of such heads begin with: `HEADS`, `TOKEN_HEADS` or `SPAN_HEADS`."""
    name: str
    """What the head is called here when it has no other name."""
    modules: Mapping[str, str]
    """Our module in the head ("out_proj") -> theirs, in full ("classifier")."""


@dataclass(frozen=True, kw_only=True)
class NameTable:
    """One family's names; every mapping has our name on the left unless it says otherwise."""

    model_type: str
    """What config.json calls the family: "roberta"."""
    title: str
    """What messages call it: "RoBERTa"."""
    class_prefix: str
    """What the names of its classes begin with: "Roberta", as in `RobertaForMaskedLM`."""

    # ---- parameters ----

    prefix: str
    """What names of the body begin with ("roberta."), unless the bare body was saved."""
    body: Mapping[str, str]
    """Embeddings and whatever else belongs to the body, `prefix` left out on the right."""
    layer_prefix: str
    """Below `prefix`, what the names of layer {} begin with: "encoder.layer.{}."."""
    layer: Mapping[str, str]
    """One layer; layers that share weights are one."""
    lm_head: Mapping[str, str]
    """The LM head."""
    heads: tuple[HeadNames, ...]
    """Every other head. Two may name the same module; see `huggingface_heads.heads_in`."""
    doubles: Mapping[str, str] = field(default_factory=dict)
    """A second name of theirs for a tensor -> the first. transformers keeps both for a bias that
    it ties; where both lie in a file the second holds."""
    dropped: tuple[str, ...] = ()
    """Beginnings of names of theirs that are read and mean nothing to our model."""
    folded: str | None = None
    """A table with one row, which every token adds: it is added to the positions. Below `prefix`;
    None: there is none."""
    positions_from_zero: bool = False
    """Whether the first token has row 0 of their position table; in ours and in RoBERTa's it has
    row `padding_idx + 1`."""

    # ---- settings ----

    fields: Mapping[str, str]
    """config.json's field -> ours. `max_positions`, `activation_fn`, `untie_weights` and
    `pooler_dropout` have another meaning there, see `huggingface_config`."""
    defaults: Mapping[str, object]
    """config.json's field -> what transformers takes when it is not there; without a default a
    field is required."""
    fixed: Mapping[str, object]
    """Our field -> its value in every model of the family, where that is not `RobertaConfig`'s
    to choose. A model with another value cannot be written as this family."""
    only: Mapping[str, object]
    """config.json's field -> the one value that is read; any other makes another architecture."""

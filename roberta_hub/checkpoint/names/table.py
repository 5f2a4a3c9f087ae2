"""Tables of parameter names: Hugging Face's of a family, with ours.

A table is read both ways. Rows of parameters name either one tensor ("... .weight") or a module,
for both weight and bias.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from roberta_hub.checkpoint.checkpoint import REPLACED_HEAD
from roberta_hub.settings import DEFAULT_HEAD

HEAD = DEFAULT_HEAD
"""What the one classifier of a Hugging Face model is called here; it has no name there."""
TOKEN_HEAD = "token_classification_head"
"""What its token classifier is called here."""
SPAN_HEAD = "question_answering_head"
"""What its head for question answering is called here."""
REPLACED = "replaced_head"
"""What `save(head=...)` calls a discriminator's head."""


@dataclass(frozen=True, kw_only=True)
class HeadNames:
    """The parameters of one kind of head, and the class that transformers saves it from."""

    suffix: str
    """The end of the class's name: "ForTokenClassification"."""
    kind: str
    """What our names of such heads begin with: `HEADS`, `TOKEN_HEADS`, `SPAN_HEADS` or
    `REPLACED_HEAD`, of which a model has one and no name."""
    name: str
    """What the head is called here when it has no other name."""
    modules: Mapping[str, str]
    """Our module in the head ("out_proj") -> theirs, in full ("classifier")."""
    labels: tuple[str, ...] = ()
    """Names of the classes of a head that the model was pre-trained with, which keeps its name;
    (): the file says them."""
    lm_head: bool | None = None
    """Whether the class has an LM head too; None: it makes no difference."""
    only: Mapping[str, object] = field(default_factory=dict)
    """config.json's field -> the one value with which the head is ours; transformers' default."""

    @property
    def begin(self) -> str:
        """What our names of the head's parameters begin with: "token_heads.ner."."""
        return self.kind if self.kind == REPLACED_HEAD else f"{self.kind}{self.name}."


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
    pooler: str | None = None
    """The pooler's dense layer, in full: "bert.pooler.dense". Heads may name it as theirs; None:
    the family has none, or none that anything was trained with."""
    doubles: Mapping[str, str] = field(default_factory=dict)
    """A second name of theirs for a tensor -> the first. transformers keeps both for a bias that
    it ties; if a file has both, the second counts."""
    dropped: tuple[str, ...] = ()
    """Beginnings of names of theirs that are read and mean nothing to our model."""
    folded: str | None = None
    """A table whose first row every token adds: it is added to the positions. RoBERTa's tokenizers
    give every token type 0, those of a second sentence too. Below `prefix`; None: there is none."""
    positions_from_zero: bool = False
    """Whether the first token has row 0 of their position table; in ours and in RoBERTa's it has
    row `padding_idx + 1`."""

    # ---- settings ----

    fields: Mapping[str, str]
    """config.json's field -> ours. `max_positions`, `activation_fn`, `untie_weights`,
    `pooler_dropout` and `embedding_dim` have another meaning there, see `huggingface_config`."""
    defaults: Mapping[str, object]
    """config.json's field -> what transformers takes when it is not there; without a default a
    field is required."""
    second_names: Mapping[str, str] = field(default_factory=dict)
    """config.json's field -> the field that it is another name of."""
    fixed: Mapping[str, object]
    """Our field -> its value in every model of the family, where that is not `RobertaConfig`'s
    to choose. A model with another value cannot be written as this family."""
    only: Mapping[str, object]
    """config.json's field -> the one value that is read; any other makes another architecture."""
    separators: tuple[int, ...] = ()
    """Ids that may end a segment where config.json has no `sep_token_id`: the first of them that is
    in the vocabulary. A tokenizer knows better (`hub.read_tokenizer`)."""
    projects_equal: bool = False
    """Whether the embedding sum is projected even if it is as wide as the layers."""

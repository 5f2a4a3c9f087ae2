"""Names the parameters of models that are a RoBERTa in all but their names: data2vec, pre-norm."""

from __future__ import annotations

import dataclasses

from roberta_hub.checkpoint.names.roberta import ROBERTA
from roberta_hub.checkpoint.names.table import HeadNames, NameTable


def _named(model_type: str, title: str, class_prefix: str, prefix: str) -> NameTable:
    """Return RoBERTa's table with other names of the family and of its body."""

    def renamed(name: str) -> str:
        return prefix + name.removeprefix("roberta.") if name.startswith("roberta.") else name

    def head(names: HeadNames) -> HeadNames:
        modules = {ours: renamed(theirs) for ours, theirs in names.modules.items()}
        return dataclasses.replace(names, modules=modules)

    return dataclasses.replace(
        ROBERTA,
        model_type=model_type,
        title=title,
        class_prefix=class_prefix,
        prefix=prefix,
        heads=tuple(map(head, ROBERTA.heads)),
        dropped=tuple(map(renamed, ROBERTA.dropped)),
        pooler=f"{prefix}pooler.dense",
    )


DATA2VEC_TEXT = _named("data2vec-text", "data2vec", "Data2VecText", "data2vec_text.")
"""data2vec for text (Baevski et al. 2022): RoBERTa's layers, trained to predict a teacher's."""
_PRENORM = _named(
    "roberta-prelayernorm",
    "RoBERTa-PreLayerNorm",
    "RobertaPreLayerNorm",
    "roberta_prelayernorm.",
)
ROBERTA_PRELAYERNORM = dataclasses.replace(
    _PRENORM,
    body={**_PRENORM.body, "encoder.sentence_encoder.layer_norm": "LayerNorm"},
    layer={
        **_PRENORM.layer,
        "self_attn_layer_norm": "attention.LayerNorm",
        "final_layer_norm": "intermediate.LayerNorm",
    },
    fixed={**_PRENORM.fixed, "normalize_before": True},
)
"""fairseq's `encoder_normalize_before` with a LayerNorm on the embeddings too."""

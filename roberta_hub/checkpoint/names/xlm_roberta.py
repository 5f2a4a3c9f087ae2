"""Names the parameters of RoBERTa's relatives in other languages: XLM-R, its XL, CamemBERT.

GottBERT is `model_type: roberta`.
"""

from __future__ import annotations

import dataclasses

from roberta_hub.checkpoint.names.roberta import ROBERTA

_NORM = "encoder.sentence_encoder.layernorm_embedding"

XLM_ROBERTA = dataclasses.replace(
    ROBERTA, model_type="xlm-roberta", title="XLM-RoBERTa", class_prefix="XLMRoberta"
)
"""XLM-R: RoBERTa with another vocabulary."""
CAMEMBERT = dataclasses.replace(
    ROBERTA, model_type="camembert", title="CamemBERT", class_prefix="Camembert"
)
"""CamemBERT: RoBERTa with another vocabulary."""
XLM_ROBERTA_XL = dataclasses.replace(
    ROBERTA,
    model_type="xlm-roberta-xl",
    title="XLM-RoBERTa-XL",
    class_prefix="XLMRobertaXL",
    body={
        **{ours: theirs for ours, theirs in ROBERTA.body.items() if ours != _NORM},
        "encoder.sentence_encoder.layer_norm": "encoder.LayerNorm",
    },
    layer={
        **ROBERTA.layer,
        "self_attn_layer_norm": "attention.self_attn_layer_norm",
        "final_layer_norm": "LayerNorm",
    },
    defaults={**ROBERTA.defaults, "layer_norm_eps": 1e-5},
    fixed={**ROBERTA.fixed, "normalize_before": True, "layernorm_embedding": False},
)
"""XLM-R XL and XXL: pre-norm layers with a last LayerNorm, and none on the embeddings."""

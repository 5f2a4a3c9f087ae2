"""Names an ELECTRA's parameters and settings as transformers does (`model_type: electra`).

A generator has an LM head, a discriminator a head that judges every token: was it replaced?
"""

from __future__ import annotations

from roberta_hub.checkpoint.checkpoint import HEADS, LM_WEIGHT, REPLACED_HEAD
from roberta_hub.checkpoint.names.bert import BERT
from roberta_hub.checkpoint.names.roberta import ROBERTA, SPANS, TOKENS
from roberta_hub.checkpoint.names.table import HEAD, REPLACED, HeadNames, NameTable

ELECTRA = NameTable(
    model_type="electra",
    title="ELECTRA",
    class_prefix="Electra",
    prefix="electra.",
    body={**BERT.body, "encoder.sentence_encoder.embed_projection": "embeddings_project"},
    layer_prefix=ROBERTA.layer_prefix,
    layer=ROBERTA.layer,
    lm_head={
        "encoder.lm_head.dense": "generator_predictions.dense",
        "encoder.lm_head.layer_norm": "generator_predictions.LayerNorm",
        "encoder.lm_head.bias": "generator_lm_head.bias",
        LM_WEIGHT: "generator_lm_head.weight",
    },
    heads=(
        HeadNames(
            suffix="ForSequenceClassification",
            kind=HEADS,
            name=HEAD,
            modules={"dense": "classifier.dense", "out_proj": "classifier.out_proj"},
        ),
        TOKENS,
        SPANS,
        HeadNames(
            suffix="ForMultipleChoice",
            kind=HEADS,
            name=HEAD,
            modules={"dense": "sequence_summary.summary", "out_proj": "classifier"},
            only={
                "summary_type": "first",
                "summary_use_proj": True,
                "summary_activation": "gelu",
            },
        ),
        HeadNames(
            suffix="ForPreTraining",
            kind=REPLACED_HEAD,
            name=REPLACED,
            modules={
                "dense": "discriminator_predictions.dense",
                "out_proj": "discriminator_predictions.dense_prediction",
            },
        ),
    ),
    dropped=("electra.embeddings.position_ids", "electra.embeddings.token_type_ids"),
    positions_from_zero=True,
    fields={**BERT.fields, "embedding_size": "embedding_dim"},
    defaults={**BERT.defaults, "embedding_size": 128},
    fixed={
        **BERT.fixed,
        "pooler_activation_fn": "gelu",
        "lm_activation_fn": "gelu",  # of generators, whatever hidden_act says
    },
    only=BERT.only,
    separators=BERT.separators,
)
"""ELECTRA, whose sum of embeddings may be narrower than the layers, as wide, or wider."""

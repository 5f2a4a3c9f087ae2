"""Names an ALBERT's parameters and settings as transformers does (`model_type: albert`)."""

from __future__ import annotations

from roberta_hub.checkpoint.checkpoint import HEADS, LM_WEIGHT
from roberta_hub.checkpoint.names.bert import BERT
from roberta_hub.checkpoint.names.roberta import SPANS, TOKENS
from roberta_hub.checkpoint.names.table import HEAD, HeadNames, NameTable

SENTENCE_ORDER = "sop"
"""Our name of ALBERT's pre-trained head: are two sentences in order?"""
_POOLED = {"dense": "albert.pooler", "out_proj": "classifier"}

ALBERT = NameTable(
    model_type="albert",
    title="ALBERT",
    class_prefix="Albert",
    prefix="albert.",
    body={
        **BERT.body,
        "encoder.sentence_encoder.embed_projection": "encoder.embedding_hidden_mapping_in",
    },
    # Layers share weights in groups; a group that holds several layers is refused.
    layer_prefix="encoder.albert_layer_groups.{}.albert_layers.0.",
    layer={
        "self_attn.q_proj": "attention.query",
        "self_attn.k_proj": "attention.key",
        "self_attn.v_proj": "attention.value",
        "self_attn.out_proj": "attention.dense",
        "self_attn_layer_norm": "attention.LayerNorm",
        "fc1": "ffn",
        "fc2": "ffn_output",
        "final_layer_norm": "full_layer_layer_norm",
    },
    lm_head={
        "encoder.lm_head.dense": "predictions.dense",
        "encoder.lm_head.layer_norm": "predictions.LayerNorm",
        "encoder.lm_head.bias": "predictions.bias",
        LM_WEIGHT: "predictions.decoder.weight",
    },
    heads=(
        HeadNames(suffix="ForSequenceClassification", kind=HEADS, name=HEAD, modules=_POOLED),
        TOKENS,
        SPANS,
        HeadNames(suffix="ForMultipleChoice", kind=HEADS, name=HEAD, modules=_POOLED),
        HeadNames(
            suffix="ForPreTraining",
            kind=HEADS,
            name=SENTENCE_ORDER,
            modules={"dense": "albert.pooler", "out_proj": "sop_classifier.classifier"},
            labels=("in_order", "swapped"),
            lm_head=True,
        ),
    ),
    pooler="albert.pooler",
    doubles={"predictions.decoder.bias": "predictions.bias"},
    dropped=("albert.embeddings.position_ids", "albert.embeddings.token_type_ids"),
    positions_from_zero=True,
    fields={
        **{theirs: ours for theirs, ours in BERT.fields.items() if theirs != "classifier_dropout"},
        "classifier_dropout_prob": "pooler_dropout",
        "num_hidden_groups": "num_unique_layers",
        "embedding_size": "embedding_dim",
    },
    defaults={
        **BERT.defaults,
        "hidden_act": "gelu_new",
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "classifier_dropout_prob": 0.1,
        "num_hidden_groups": 1,
        "embedding_size": 128,
    },
    fixed=BERT.fixed,
    only={**BERT.only, "inner_group_num": 1},
    separators=(3,),
    projects_equal=True,
)
"""ALBERT: a narrow sum of embeddings, projected, and layers that share weights."""

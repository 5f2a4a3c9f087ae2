"""Names a RoBERTa's parameters and settings as transformers does (`model_type: roberta`)."""

from __future__ import annotations

from roberta_hub.checkpoint.checkpoint import HEADS, LM_WEIGHT, SPAN_HEADS, TOKEN_HEADS
from roberta_hub.checkpoint.names.table import (
    HEAD,
    SPAN_HEAD,
    TOKEN_HEAD,
    HeadNames,
    NameTable,
)

_ENCODER = "encoder.sentence_encoder"

TOKENS = HeadNames(
    suffix="ForTokenClassification",
    kind=TOKEN_HEADS,
    name=TOKEN_HEAD,
    modules={"out_proj": "classifier"},
)
"""Every family's head for token classification."""
SPANS = HeadNames(
    suffix="ForQuestionAnswering",
    kind=SPAN_HEADS,
    name=SPAN_HEAD,
    modules={"out_proj": "qa_outputs"},
)
"""Every family's head for question answering."""

ROBERTA = NameTable(
    model_type="roberta",
    title="RoBERTa",
    class_prefix="Roberta",
    prefix="roberta.",
    body={
        f"{_ENCODER}.embed_tokens.weight": "embeddings.word_embeddings.weight",
        f"{_ENCODER}.embed_positions.weight": "embeddings.position_embeddings.weight",
        f"{_ENCODER}.layernorm_embedding": "embeddings.LayerNorm",
    },
    layer_prefix="encoder.layer.{}.",
    layer={
        "self_attn.q_proj": "attention.self.query",
        "self_attn.k_proj": "attention.self.key",
        "self_attn.v_proj": "attention.self.value",
        "self_attn.out_proj": "attention.output.dense",
        "self_attn_layer_norm": "attention.output.LayerNorm",
        "fc1": "intermediate.dense",
        "fc2": "output.dense",
        "final_layer_norm": "output.LayerNorm",
    },
    lm_head={
        "encoder.lm_head.dense": "lm_head.dense",
        "encoder.lm_head.layer_norm": "lm_head.layer_norm",
        "encoder.lm_head.bias": "lm_head.bias",
        LM_WEIGHT: "lm_head.decoder.weight",
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
        # A classification head with one output, whose dense layer is transformers' pooler.
        HeadNames(
            suffix="ForMultipleChoice",
            kind=HEADS,
            name=HEAD,
            modules={"dense": "roberta.pooler.dense", "out_proj": "classifier"},
        ),
    ),
    doubles={"lm_head.decoder.bias": "lm_head.bias"},
    dropped=(
        "roberta.embeddings.position_ids",
        "roberta.embeddings.token_type_ids",
    ),
    pooler="roberta.pooler.dense",
    folded="embeddings.token_type_embeddings.weight",
    fields={
        "vocab_size": "vocab_size",
        "max_position_embeddings": "max_positions",
        "hidden_size": "embed_dim",
        "intermediate_size": "ffn_dim",
        "num_hidden_layers": "num_layers",
        "num_attention_heads": "num_heads",
        "hidden_act": "activation_fn",
        "hidden_dropout_prob": "dropout",
        "attention_probs_dropout_prob": "attention_dropout",
        "classifier_dropout": "pooler_dropout",
        "layer_norm_eps": "layer_norm_eps",
        "tie_word_embeddings": "untie_weights",
        "pad_token_id": "padding_idx",
    },
    defaults={
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1,
        "attention_probs_dropout_prob": 0.1,
        "classifier_dropout": None,
        "layer_norm_eps": 1e-12,
        "tie_word_embeddings": True,
        "pad_token_id": 1,
    },
    fixed={
        "normalize_before": False,
        "layernorm_embedding": True,
        "pooler_activation_fn": "tanh",
        "lm_activation_fn": "gelu",  # whatever hidden_act says
    },
    only={
        "is_decoder": False,
        "add_cross_attention": False,
        "position_embedding_type": "absolute",
    },
)
"""RoBERTa and GottBERT, distilroberta."""

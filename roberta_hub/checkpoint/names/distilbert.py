"""Names a DistilBERT's parameters and settings as transformers does (`model_type: distilbert`)."""

from __future__ import annotations

from roberta_hub.checkpoint.checkpoint import HEADS, LM_WEIGHT
from roberta_hub.checkpoint.names.bert import BERT
from roberta_hub.checkpoint.names.roberta import ROBERTA, SPANS, TOKENS
from roberta_hub.checkpoint.names.table import HEAD, HeadNames, NameTable

_CLASSIFIER = {"dense": "pre_classifier", "out_proj": "classifier"}

DISTILBERT = NameTable(
    model_type="distilbert",
    title="DistilBERT",
    class_prefix="DistilBert",
    prefix="distilbert.",
    body=ROBERTA.body,
    layer_prefix="transformer.layer.{}.",
    layer={
        "self_attn.q_proj": "attention.q_lin",
        "self_attn.k_proj": "attention.k_lin",
        "self_attn.v_proj": "attention.v_lin",
        "self_attn.out_proj": "attention.out_lin",
        "self_attn_layer_norm": "sa_layer_norm",
        "fc1": "ffn.lin1",
        "fc2": "ffn.lin2",
        "final_layer_norm": "output_layer_norm",
    },
    lm_head={
        "encoder.lm_head.dense": "vocab_transform",
        "encoder.lm_head.layer_norm": "vocab_layer_norm",
        "encoder.lm_head.bias": "vocab_projector.bias",
        LM_WEIGHT: "vocab_projector.weight",
    },
    heads=(
        HeadNames(suffix="ForSequenceClassification", kind=HEADS, name=HEAD, modules=_CLASSIFIER),
        TOKENS,
        SPANS,
        HeadNames(suffix="ForMultipleChoice", kind=HEADS, name=HEAD, modules=_CLASSIFIER),
    ),
    dropped=("distilbert.embeddings.position_ids",),
    positions_from_zero=True,
    # Whether positions began as sinusoids (sinusoidal_pos_embds), their table is in the file. The
    # dropout of the head for questions (qa_dropout) is one that no head for spans has here.
    fields={
        "vocab_size": "vocab_size",
        "max_position_embeddings": "max_positions",
        "dim": "embed_dim",
        "hidden_dim": "ffn_dim",
        "n_layers": "num_layers",
        "n_heads": "num_heads",
        "activation": "activation_fn",
        "dropout": "dropout",
        "attention_dropout": "attention_dropout",
        "seq_classif_dropout": "pooler_dropout",
        "tie_word_embeddings": "untie_weights",
        "pad_token_id": "padding_idx",
    },
    second_names={
        "hidden_size": "dim",
        "num_attention_heads": "n_heads",
        "num_hidden_layers": "n_layers",
    },
    defaults={
        "activation": "gelu",
        "dropout": 0.1,
        "attention_dropout": 0.1,
        "seq_classif_dropout": 0.2,
        "tie_word_embeddings": True,
        "pad_token_id": 0,
    },
    fixed={
        "normalize_before": False,
        "layernorm_embedding": True,
        "layer_norm_eps": 1e-12,
        "pooler_activation_fn": "relu",
    },
    only=BERT.only,
)
"""DistilBERT: BERT's layers and vocabulary, no segments, no pooler, a classifier with a ReLU."""

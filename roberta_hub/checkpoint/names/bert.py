"""Names a BERT's parameters and settings as transformers does (`model_type: bert`)."""

from __future__ import annotations

from roberta_hub.checkpoint.checkpoint import HEADS, LM_WEIGHT, SEGMENTS
from roberta_hub.checkpoint.names.roberta import ROBERTA, SPANS, TOKENS
from roberta_hub.checkpoint.names.table import HEAD, HeadNames, NameTable

NEXT_SENTENCE = "nsp"
"""Our name of the head of BERT's pre-training: does one sentence follow the other?"""
_POOLED = {"dense": "bert.pooler.dense", "out_proj": "classifier"}
_FOLLOWS = {"dense": "bert.pooler.dense", "out_proj": "cls.seq_relationship"}
_FOLLOWING = ("is_next", "not_next")

BERT = NameTable(
    model_type="bert",
    title="BERT",
    class_prefix="Bert",
    prefix="bert.",
    body={
        **ROBERTA.body,
        SEGMENTS: "embeddings.token_type_embeddings.weight",
    },
    layer_prefix=ROBERTA.layer_prefix,
    layer=ROBERTA.layer,
    lm_head={
        "encoder.lm_head.dense": "cls.predictions.transform.dense",
        "encoder.lm_head.layer_norm": "cls.predictions.transform.LayerNorm",
        "encoder.lm_head.bias": "cls.predictions.bias",
        LM_WEIGHT: "cls.predictions.decoder.weight",
    },
    heads=(
        HeadNames(suffix="ForSequenceClassification", kind=HEADS, name=HEAD, modules=_POOLED),
        TOKENS,
        SPANS,
        HeadNames(suffix="ForMultipleChoice", kind=HEADS, name=HEAD, modules=_POOLED),
        HeadNames(
            suffix="ForPreTraining",
            kind=HEADS,
            name=NEXT_SENTENCE,
            modules=_FOLLOWS,
            labels=_FOLLOWING,
            lm_head=True,
        ),
        HeadNames(
            suffix="ForNextSentencePrediction",
            kind=HEADS,
            name=NEXT_SENTENCE,
            modules=_FOLLOWS,
            labels=_FOLLOWING,
            lm_head=False,
        ),
    ),
    pooler="bert.pooler.dense",
    doubles={"cls.predictions.decoder.bias": "cls.predictions.bias"},
    dropped=("bert.embeddings.position_ids", "bert.embeddings.token_type_ids"),
    positions_from_zero=True,
    fields={**ROBERTA.fields, "type_vocab_size": "num_segments"},
    defaults={**ROBERTA.defaults, "pad_token_id": 0, "type_vocab_size": 2},
    fixed={
        "normalize_before": False,
        "layernorm_embedding": True,
        "pooler_activation_fn": "tanh",
    },
    only=ROBERTA.only,
    # Google's vocabularies have [SEP] at 102, custom ones usually after [PAD], [UNK] and [CLS].
    separators=(102, 3),
)
"""BERT, and what has its layers: SpanBERT, MiniLM, BGE, E5."""

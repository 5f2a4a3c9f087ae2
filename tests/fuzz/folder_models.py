"""Random models of every family as transformers writes them."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers
from families import DISTILBERT, randomise
from transformers.activations import ACT2FN

from .folder_tokenizers import Vocabulary

PREFIXES = {
    "roberta": "Roberta",
    "xlm-roberta": "XLMRoberta",
    "xlm-roberta-xl": "XLMRobertaXL",
    "camembert": "Camembert",
    "bert": "Bert",
    "albert": "Albert",
    "electra": "Electra",
    "distilbert": "DistilBert",
}
ENGINES = {
    "roberta": ("bytes",),
    "xlm-roberta": ("xlmr",),
    "xlm-roberta-xl": ("xlmr",),
    "camembert": ("camembert",),
    "bert": ("wordpiece", "wordpiece", "wordpiece", "xlmr", "bytes"),
    "albert": ("albert", "albert", "albert", "wordpiece"),
    "electra": ("wordpiece",),
    "distilbert": ("wordpiece",),
}
"""A BERT may have another's vocabulary, as E5 and Chinese ALBERTs do."""
SUFFIXES = {
    "lm": "ForMaskedLM",
    "bare": "Model",
    "sentence": "ForSequenceClassification",
    "tokens": "ForTokenClassification",
    "span": "ForQuestionAnswering",
    "choice": "ForMultipleChoice",
    "pretraining": "ForPreTraining",
    "next": "ForNextSentencePrediction",
}
HEADS = ("lm", "bare", "bare", "sentence", "sentence", "tokens", "span", "choice")
OWN_HEADS = {
    "bert": ("pretraining", "next"),
    "albert": ("pretraining",),
    "electra": ("pretraining",),
}
ACTIVATIONS = tuple(name for name in ACT2FN if name not in ("prelu", "xielu"))
NAMES = (
    ["neg", "pos"],
    ["contradiction", "neutral", "entailment"],
    ["ENTAILMENT", "NEUTRAL", "CONTRADICTION"],
    ["not_entailment", "entailment"],
    ["très bien", "负面", "O", "so so"],
    ["0", "1", "2"],
    ["a", "b", "c", "d", "e"],
)
TAGS = (
    ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"],
    ["B-PER", "I-PER", "O", "B-LOC"],
    ["PER", "O", "LOC", "MISC", "ORG"],
    ["NOUN", "VERB", "X"],
    ["0", "1", "2"],
)
OLDER = {
    "position_embedding_type": "absolute",
    "gradient_checkpointing": False,
    "torch_dtype": "float32",
    "output_past": True,
    "directionality": "bidi",
    "pooler_fc_size": 768,
    "pooler_type": "first_token_transform",
    "finetuning_task": "sst2",
    "language": "english",
    "architectures_of_whom": None,
    "_name_or_path": "somebody/something",
    "use_cache": True,
    "transformers_version": "4.6.0.dev0",
    "num_memory_blocks": 0,
    "net_structure_type": 0,
    "gap_size": 0,
    "down_scale_factor": 1,
    "output_attentions": False,
    "pruned_heads": {},
    "torchscript": False,
    "use_bfloat16": False,
    "tokenizer_name": "x",
}
"""What people's config.json hold besides."""


@dataclass
class Model:
    """A model in a folder, and what was chosen for it."""

    family: str
    head: str
    peer: Any
    """transformers' own, in eval mode and float32."""
    limit: int
    """Longest sequence in tokens."""
    width: int
    labels: list[str] = field(default_factory=list)
    about: dict[str, Any] = field(default_factory=dict)


def write_model(
    draw: random.Random, family: str, head: str, vocabulary: Vocabulary, folder: Path
) -> Model:
    """Write config.json and weights beside a tokenizer."""
    about: dict[str, Any] = {}
    heads = draw.choice((1, 2, 4))
    width = heads * draw.choice((8, 10, 16))
    positions = draw.randint(24, 66)
    pad = vocabulary.ids["pad"]
    is_roberta = family in ("roberta", "xlm-roberta", "xlm-roberta-xl", "camembert")
    sizes: dict[str, Any] = {
        "vocab_size": vocabulary.rows + (draw.choice((0, 0, 0, 1, 7, 20))),
        "hidden_size": width,
        "intermediate_size": draw.choice((16, 30, 48)),
        "num_hidden_layers": draw.choice((1, 2, 3)),
        "num_attention_heads": heads,
        "max_position_embeddings": positions,
        "hidden_act": "gelu" if draw.random() < 0.5 else draw.choice(ACTIVATIONS),
        "pad_token_id": pad,
        "layer_norm_eps": draw.choice((1e-12, 1e-5, 1e-3)),
    }
    sizes["type_vocab_size"] = draw.choice((1, 1, 2)) if is_roberta else draw.choice((2, 2, 1))
    for role in ("bos", "eos"):
        if draw.random() < 0.5 and vocabulary.ids[role] is not None:
            sizes[f"{role}_token_id"] = vocabulary.ids[role]
    if family in ("albert", "electra"):
        sizes["embedding_size"] = draw.choice((width, 8, 12, 20))
    if family == "albert" and draw.random() < 0.3:
        sizes |= {"num_hidden_layers": 4, "num_hidden_groups": 2}
    if family == "distilbert":
        for name in ("layer_norm_eps", "type_vocab_size"):
            del sizes[name]
        sizes["activation"] = sizes.pop("hidden_act")
        sizes["sinusoidal_pos_embds"] = draw.random() < 0.3
        sizes = {DISTILBERT.get(name, name): value for name, value in sizes.items()}
    elif draw.random() < 0.3:
        name = "classifier_dropout_prob" if family == "albert" else "classifier_dropout"
        sizes[name] = 0.3
    if head in ("lm", "pretraining") and draw.random() < 0.2:
        sizes["tie_word_embeddings"] = False
    labels: list[str] = []
    if head in ("sentence", "tokens"):
        labels = _labels(draw, head, sizes)
    about |= sizes
    prefix = PREFIXES[family]
    config = getattr(transformers, f"{prefix}Config")(**sizes)
    torch.manual_seed(draw.randrange(1 << 30))
    name = prefix + SUFFIXES[head]
    options = {}
    if head == "bare" and family not in ("electra", "distilbert") and draw.random() < 0.2:
        options["add_pooling_layer"] = False
    peer = getattr(transformers, name)(config, **options)
    randomise(peer, draw.randrange(1 << 30), draw.choice((0.1, 0.15, 0.3)))
    if head in ("sentence", "tokens"):
        with torch.no_grad():
            for parameter in list(peer.parameters())[-2:]:
                parameter.mul_(draw.choice((1, 8)))
    dtype = draw.choice((None, None, None, None, torch.float16, torch.bfloat16))
    if dtype is not None:
        peer.to(dtype)
    about |= {"class": name, "dtype": str(dtype), "options": options}
    _save(draw, peer, folder, about)
    path = folder / "config.json"
    written = json.loads(path.read_text(encoding="utf-8"))
    for key, value in OLDER.items():
        if draw.random() < 0.08:
            written.setdefault(key, value)
            about[key] = value
    path.write_text(json.dumps(written, ensure_ascii=False), encoding="utf-8")
    limit = positions - pad - 1 if is_roberta else positions
    peer = peer.float().eval()
    return Model(family, head, peer, limit, width, labels, about)


def _labels(draw: random.Random, head: str, sizes: dict[str, Any]) -> list[str]:
    kind = draw.random()
    if kind < 0.2:
        sizes["num_labels"] = draw.choice((1, 2, 3) if head == "sentence" else (2, 5))
        labels = [f"LABEL_{i}" for i in range(sizes["num_labels"])]
    else:
        labels = list(draw.choice(NAMES if head == "sentence" else TAGS))
        if head == "sentence" and kind < 0.3:
            labels = labels[:1]
        if draw.random() < 0.3:
            draw.shuffle(labels)
        sizes["id2label"] = dict(enumerate(labels))
        sizes["label2id"] = {name: i for i, name in enumerate(labels)}
    if head == "sentence" and draw.random() < 0.5:
        kinds = ("multi_label_classification", "regression", "single_label_classification")
        sizes["problem_type"] = draw.choice(kinds[: 2 if len(labels) == 1 else 3])
    return labels


def _save(draw: random.Random, peer: Any, folder: Path, about: dict[str, Any]) -> None:
    """safetensors, shards of it, or a pickle as version 4 wrote it."""
    kind = draw.choice(("safetensors", "safetensors", "shards", "pickle"))
    about["weights"] = kind
    if kind == "pickle":
        peer.config.architectures = [type(peer).__name__]
        peer.config.save_pretrained(folder)
        torch.save(peer.state_dict(), folder / "pytorch_model.bin")
    else:
        size = "20KB" if kind == "shards" else "5GB"
        peer.save_pretrained(folder, max_shard_size=size)

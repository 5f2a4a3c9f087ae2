"""What the tests of exports share: models of every family with every head, and their answers."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import torch
from families import Head, write_family
from small_models import randomise, small_roberta
from torch import Tensor

import roberta_hub
from roberta_hub import RobertaHubInterface
from roberta_hub.export.check import RunInputs
from roberta_hub.export.graph import REPLACED_HEAD_NAME, ExportedAnswer, Graph

FAMILIES: dict[str, tuple[str, Head]] = {
    "roberta": ("roberta", "lm"),
    "gottbert": ("gottbert", "lm"),
    "xlm-roberta": ("xlm-roberta", "lm"),
    "xlm-roberta-xl": ("xlm-roberta-xl", "lm"),
    "camembert": ("camembert", "lm"),
    "bert": ("bert", "pretraining"),
    "e5": ("e5", "bare"),
    "albert": ("albert", "pretraining"),
    "albert-groups": ("albert-groups", "lm"),
    "electra-discriminator": ("electra", "pretraining"),
    "electra-generator": ("electra-wide", "lm"),
}
"""By a name of ours: the kind of `families.py`, and the head it is written with."""
FACTORIZED = "roberta.tiny's form"
"""Beside the families: tokens whose table is narrower than the layers."""


def made(name: str, folder: Path) -> RobertaHubInterface:
    """A tiny random model of a family with a head of each kind, in eval mode."""
    if name == FACTORIZED:
        roberta = small_roberta(num_layers=2, embedding_dim=8)
    else:
        kind, head = FAMILIES[name]
        pytest.importorskip("sentencepiece")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            roberta = roberta_hub.load_model(write_family(kind, folder, head=head))
    roberta.register_classification_head("topic", labels=["art", "news", "sport"])
    roberta.register_classification_head("mood", labels=["bad", "good"], pooling="mean")
    roberta.register_token_head("ner", labels=["O", "B-PER", "I-PER"])
    roberta.register_span_head("squad")
    for heads in ("classification_heads", "token_heads", "span_heads"):
        randomise(getattr(roberta.model, heads), seed=3, std=0.3)
    return roberta.eval()


def answers(roberta: RobertaHubInterface) -> Iterator[ExportedAnswer]:
    """Every answer that a model has."""
    model = roberta.model
    yield ExportedAnswer("features")
    for pooling in ("cls", "mean", "max", *("pooler",) * (model.pooler is not None)):
        yield ExportedAnswer("pooled", pooling)
    if model.encoder.lm_head is not None:
        yield ExportedAnswer("language")
    yield ExportedAnswer("classification", "topic")
    yield ExportedAnswer("classification", "mood")  # of the mean of all tokens
    yield ExportedAnswer("token", "ner")
    yield ExportedAnswer("span", "squad")
    if model.replaced_head is not None:
        yield ExportedAnswer("replaced", REPLACED_HEAD_NAME)


def asked(answer: ExportedAnswer) -> dict[str, str]:
    """The arguments of `export` that mean an answer."""
    if answer.kind == "pooled":
        return {"pooling": answer.name}
    if answer.kind == "language":
        return {"output": "logits"}
    return {"head": answer.name} if answer.name else {}


def untraced(graph: Graph) -> RunInputs:
    """Run a module as it is, without gradients."""

    def run(inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        with torch.no_grad():
            return dict(zip(graph.answer.outputs, graph(*inputs.values()), strict=True))

    return run


def padded(roberta: RobertaHubInterface, texts: list[str], side: str) -> dict[str, Tensor]:
    """Ids and mask of texts, padded on one side, with 7 where there is padding: a mask decides."""
    rows = roberta.encode_batch(texts)
    width = max(map(len, rows))
    ids = torch.full((len(rows), width), 7)
    mask = torch.zeros_like(ids)
    for i, row in enumerate(rows):
        place = slice(0, len(row)) if side == "right" else slice(width - len(row), width)
        ids[i, place], mask[i, place] = row, 1
    return {"input_ids": ids, "attention_mask": mask}

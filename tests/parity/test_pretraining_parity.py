"""Losses and gradients of pre-training on pairs, as transformers' ForPreTraining classes have them.

The batch is ours; the padded batch that they get has the same ids, types and labels.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from families import SENTENCES, write_family
from torch.nn.utils.rnn import pad_sequence

from roberta_hub.checkpoint.names.families import FAMILIES
from roberta_hub.train.config import compose
from roberta_hub.train.run import make_task

pytestmark = pytest.mark.parity

LINES = SENTENCES[:12]
QUESTIONS = {"bert": "next_sentence", "albert": "sentence_order"}


def task_of(family: str, mode: str, folder: Path) -> Any:
    """A pre-training task of a tiny model that transformers wrote, without dropout."""
    none = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    if family == "albert":
        none["classifier_dropout_prob"] = 0.0
    write_family(family, folder / "model", head="pretraining", **none)
    documents = ["\n".join(LINES[k : k + 4]) for k in range(0, len(LINES), 4)]
    (folder / "text.txt").write_text("\n\n".join(documents) + "\n")
    lines = [
        "pretrain=base",
        "pretrained=true",
        f"model={folder}/model",
        f"data.train={folder}/text.txt",
        f"output={folder}/run",
        f"task.options={{sentences: {mode}, objectives: [{QUESTIONS[family]}]}}",
        "loop.precision=no",
        "loop.progress=false",
    ]
    return make_task(compose(lines))


@pytest.mark.parametrize("mode", ["segment_pair", "sentence_pair"])
@pytest.mark.parametrize("family", QUESTIONS)
def test_losses_and_gradients(family: str, mode: str, tmp_path: Path) -> None:
    transformers: Any = pytest.importorskip("transformers")
    task = task_of(family, mode, tmp_path)
    kind = getattr(transformers, f"{family.capitalize()}ForPreTraining")
    theirs = kind.from_pretrained(tmp_path / "model").train()
    module, asked = task.module.train(), set()
    for epoch in range(3):
        batch = task.batch(range(len(task.lengths(epoch))), epoch)
        module.zero_grad()
        theirs.zero_grad()
        loss = module(batch)
        (loss.total / batch.count).backward()

        labels = torch.full_like(batch.packed.ids, -100)
        labels[batch.targets["rows"]] = batch.targets["ids"]
        parts = batch.packed.lengths
        padding = module.roberta.config.padding_idx
        ids = pad_sequence(batch.packed.ids.split(parts), True, padding)
        wanted = pad_sequence(labels.split(parts), True, -100)
        segments = batch.targets["segments"]
        asked |= set(segments.tolist())
        sentence = "next_sentence_label" if family == "bert" else "sentence_order_label"
        out = theirs(
            ids,
            attention_mask=ids.ne(padding).long(),
            token_type_ids=task.interface.tokenizer.layout.segments(ids),
            labels=wanted,
            **{sentence: segments},
        )
        out.loss.backward()
        torch.testing.assert_close(loss.total / batch.count, out.loss, atol=1e-5, rtol=1e-5)
        compare_gradients(module.roberta, theirs, family)
    assert asked == {0, 1}


def compare_gradients(ours: Any, theirs: Any, family: str) -> None:
    """Every parameter's gradient, by the names of both."""
    table = FAMILIES[family]
    pairs = dict(table.lm_head)
    (head,) = [h for h in table.heads if h.suffix == "ForPreTraining"]
    for part, name in head.modules.items():
        pairs[f"classification_heads.{head.name}.{part}"] = name
    for part, name in table.body.items():
        pairs[part] = table.prefix + name
    for layer in range(ours.config.num_unique_layers or ours.config.num_layers):
        for part, name in table.layer.items():
            own = f"encoder.sentence_encoder.layers.{layer}.{part}"
            pairs[own] = table.prefix + table.layer_prefix.format(layer) + name
    mine = {name: p.grad for name, p in ours.named_parameters(remove_duplicate=False)}
    others = {name: p.grad for name, p in theirs.named_parameters(remove_duplicate=False)}
    compared = set()
    for name, gradient in mine.items():
        stem, _, last = name.rpartition(".")
        their = pairs.get(name) or (f"{pairs[stem]}.{last}" if stem in pairs else None)
        if their is None or their not in others:
            continue
        other = others[their]
        assert gradient is not None and other is not None, name
        if "embed_positions" in name:
            gradient = gradient[ours.config.padding_idx + 1 :][: len(other)]
        assert (gradient - other).abs().max() < 1e-5, name
        compared.add(name)
    left = {name for name in mine if name not in compared and not name.startswith("pooler")}
    assert not left

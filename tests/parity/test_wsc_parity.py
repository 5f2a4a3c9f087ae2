"""Pronouns as fairseq's own wsc task sets them up.

The same ids, the same masked span, the same scores.
"""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from roberta_hub import load_model
from roberta_hub.inference.batching import Runner
from roberta_hub.inference.pronouns import parse, span_scores, with_candidate

from . import peers

pytestmark = [pytest.mark.parity, peers.needs_fairseq]

CASES = [
    (
        "The _trophy_ would not fit in the brown suitcase because [it] was too big.",
        "the brown suitcase",
    ),
    ("[It] rained, so the match was off.", "The match"),
    ("Sam pulled up a chair because [he] wanted to sit.", "Sam"),
    ("Ann asked Bea whether the keys were [hers].", "Bea's"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wsc")
    peers.dictionary(folder)
    peers.save_era(peers.fairseq_model(folder), folder, "args", task="wsc", init_token=None)
    return folder


def wsc_task(interface: object, init_token: int | None) -> object:
    """fairseq's task around its own dictionary and BPE, without the data it wants to load."""
    peers.real_fairseq()
    from fairseq.examples.roberta.wsc.wsc_task import WSCTask

    task = WSCTask.__new__(WSCTask)
    task.vocab = interface.task.source_dictionary  # type: ignore[attr-defined]
    task.bpe, task.tokenizer = interface.bpe, None  # type: ignore[attr-defined]
    task.args = Namespace(init_token=init_token)
    return task


@pytest.mark.parametrize(("sentence", "candidate"), CASES)
@pytest.mark.parametrize("init_token", [None, 0])
def test_ids_spans_and_scores(
    folder: Path, sentence: str, candidate: str, init_token: int | None
) -> None:
    ours = load_model(folder).eval()
    assert (ours.task.name, ours.task.init_token) == ("wsc", None)
    theirs = peers.hub_interface(folder, task="masked_lm")
    schema = parse(sentence)
    lead = " " if schema.before.endswith(" ") else ""
    trail = " " if schema.after.startswith(" ") else ""
    wanted, mask = wsc_task(theirs, init_token).binarize_with_mask(  # type: ignore[attr-defined]
        candidate, schema.before.rstrip(), schema.after.lstrip(), lead, trail
    )
    ids, start, end = with_candidate(
        ours.tokenizer, schema, candidate, init_token=init_token is not None
    )
    assert ids.tolist() == wanted.tolist()
    span = mask.nonzero().squeeze(1).tolist()
    if init_token is not None:
        span = span[:-1]  # fairseq counts <s> twice there, and masks one token too many
    assert list(range(start, end)) == span
    with torch.no_grad():
        hidden = wanted.clone()
        hidden[start:end] = theirs.task.mask_idx
        logits = theirs.model(hidden.unsqueeze(0))[0][0]
        expected = F.log_softmax(logits, -1)[range(start, end), wanted[start:end]].mean()
    runner = Runner(model=ours.model, tokenizer=ours.tokenizer)
    (score,) = span_scores(runner, schema, [candidate], init_token=init_token is not None)
    assert score == pytest.approx(float(expected), abs=1e-5)

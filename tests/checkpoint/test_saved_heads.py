"""Heads for tokens and spans in files: what is kept, what is refused, and what is damaged."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch
from checkpoints import IDS, fairseq_file, fairseq_state, small
from safetensors.torch import load_file, save_file

from roberta_hub import RobertaHubInterface, load_model
from roberta_hub.errors import CheckpointError

TAGS = ("O", "B-PER", "I-PER")


def with_heads() -> RobertaHubInterface:
    roberta = small({"mnli": ("no", "yes")})
    torch.manual_seed(1)
    roberta.register_token_head("ner", labels=TAGS)
    roberta.register_token_head("pos", num_classes=4)
    roberta.register_span_head("squad")
    return roberta


def logits(roberta: RobertaHubInterface) -> dict[str, torch.Tensor]:
    with torch.no_grad():
        features = roberta.extract_features(IDS)
        heads = {**roberta.model.token_heads, **roberta.model.span_heads}
        return {name: head(features) for name, head in heads.items()}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_our_format_keeps_all_kinds(tmp_path, dtype):
    roberta = with_heads().to(dtype)
    roberta.save(tmp_path)
    again = load_model(tmp_path, dtype=dtype).eval()
    assert again.model.list_heads() == "mnli, ner (token), pos (token), squad (span)"
    assert again.labels == {"mnli": ("no", "yes"), "ner": TAGS}
    before, after = logits(roberta), logits(again)
    assert list(before) == list(after)
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_the_others_say_what_they_cannot_hold(tmp_path):
    roberta = with_heads()
    with pytest.raises(
        CheckpointError, match=r"cannot hold ner \(token\), pos \(token\), squad \(sp"
    ):
        roberta.save(tmp_path, "fairseq")
    with pytest.raises(CheckpointError, match=r"has 4; .* among mnli, ner, pos, squad"):
        roberta.save(tmp_path, "huggingface")
    assert not list(tmp_path.iterdir())
    # As the message says: without them it can be saved.
    for heads in (roberta.model.token_heads, roberta.model.span_heads):
        heads.clear()
    roberta.save(tmp_path, "fairseq")
    assert load_model(tmp_path).labels == {"mnli": ("no", "yes")}


@pytest.mark.parametrize("head", ["ner", "pos", "squad"])
def test_hugging_face_holds_the_one_that_is_asked_for(tmp_path, head):
    roberta = with_heads()
    roberta.save(tmp_path, "huggingface", head=head)
    ((name, found),) = logits(load_model(tmp_path).eval()).items()
    kind = "question_answering" if head == "squad" else "token_classification"
    assert name == f"{kind}_head"
    torch.testing.assert_close(found, logits(roberta)[head], atol=1e-5, rtol=1e-4)
    architecture = json.loads((tmp_path / "config.json").read_text())["architectures"]
    assert architecture == [
        "RobertaForQuestionAnswering" if head == "squad" else "RobertaForTokenClassification"
    ]


def spoilt(folder: Path, **changes: torch.Tensor | None) -> Path:
    """A saved model whose heads' tensors are replaced, or gone; "__" in a name is a dot."""
    with_heads().save(folder)
    file = folder / "model.safetensors"
    weights = {name: tensor.clone() for name, tensor in load_file(file).items()}
    for name, tensor in changes.items():
        weights.pop(name.replace("__", "."), None)
        if tensor is not None:
            weights[name.replace("__", ".")] = tensor
    file.unlink()  # it is mapped: replaced, never rewritten
    save_file(weights, file)
    return folder


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"token_heads__ner__out_proj__weight": None},
            "token head 'ner' lacks its out_proj matrix",
        ),
        ({"token_heads__ner__out_proj__bias": None}, "token_heads.ner.out_proj.bias"),
        ({"token_heads__ner__out_proj__weight": torch.zeros(3)}, "token head 'ner' lacks"),
        (
            {"token_heads__ner__out_proj__weight": torch.zeros(3, 5)},
            "token_heads.ner.out_proj.weight",
        ),
        ({"token_heads__ner__out_proj__weight": torch.zeros(10**9, 0)}, "token head 'ner' lacks"),
        (
            {
                "span_heads__squad__out_proj__weight": torch.zeros(3, 8),
                "span_heads__squad__out_proj__bias": torch.zeros(3),
            },
            "span head 'squad' has 3 outputs, must have 2",
        ),
        (
            {
                "span_heads__ner__out_proj__weight": torch.zeros(2, 8),
                "span_heads__ner__out_proj__bias": torch.zeros(2),
            },
            "'ner' names a head of another kind",
        ),
        (
            {"token_heads__a b__out_proj__weight": torch.zeros(2, 8)},
            "token_heads.a b.out_proj.bias",
        ),
        (
            {"token_heads__a\tb__out_proj__weight": torch.zeros(2, 8)},
            r"token_heads.a\tb.out_proj.weight",
        ),
        ({"token_heads__keys__out_proj__weight": torch.zeros(2, 8)}, "'keys'"),
    ],
)
def test_damaged_heads(tmp_path, changes, words):
    with pytest.raises(CheckpointError) as caught:
        load_model(spoilt(tmp_path, **changes))
    assert words in str(caught.value) and str(tmp_path) in str(caught.value)


def test_more_heads_than_any_model_has(tmp_path):
    many = {f"token_heads__h{i}__out_proj__weight": torch.zeros(1, 8) for i in range(1001)}
    with pytest.raises(CheckpointError, match="1003 heads, the limit is 1000"):
        load_model(spoilt(tmp_path, **many))


def test_a_fairseq_file_with_our_heads_is_read(tmp_path):
    """Nobody writes them there, but a state dict is a state dict."""
    roberta = with_heads()
    fairseq_file(tmp_path, fairseq_state(roberta))
    again = load_model(tmp_path).eval()
    before, after = logits(roberta), logits(again)
    assert all(torch.equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize("init_token", [None, 0])
@pytest.mark.parametrize("format", ["roberta_hub", "fairseq"])
def test_whether_pronouns_are_asked_about_with_a_first_token_is_kept(tmp_path, format, init_token):
    roberta = small()
    roberta.task = dataclasses.replace(roberta.task, name="wsc", init_token=init_token)
    roberta.save(tmp_path, format)
    again = load_model(tmp_path).task
    assert (again.name, again.init_token) == ("wsc", init_token)

"""Heads for tokens and spans stay in our format, and fairseq's refuses them.

transformers gives the same numbers.
"""

import pytest
import torch
from small_models import small_roberta

import roberta_hub
from roberta_hub.errors import CheckpointError
from roberta_hub.train.tasks.trained_head import seeded

pytestmark = pytest.mark.parity

TEXTS = ["Ada met Bo in Oslo.", "Nobody.", "A longer sentence, to make the batch ragged."]


def with_heads(*kinds):
    roberta = small_roberta(heads={"topic": 2}, labels={"topic": ("art", "sport")})
    with seeded(4):
        if "token" in kinds:
            roberta.register_token_head("ner", 3, labels=("O", "B-PER", "I-PER"))
        if "span" in kinds:
            roberta.register_span_head("squad")
    return roberta.eval()


def test_our_format_keeps_every_head(tmp_path):
    roberta = with_heads("token", "span")
    roberta.save(tmp_path)
    again = roberta_hub.load_model(tmp_path).eval()
    assert again.head_labels("ner") == ("O", "B-PER", "I-PER")
    assert again.tag(TEXTS, "ner") == roberta.tag(TEXTS, "ner")
    question = ("Who met Bo?", "Ada met Bo in Oslo.", "squad")
    assert again.answer(*question) == roberta.answer(*question)
    for name, tensor in roberta.model.state_dict().items():
        assert torch.equal(tensor, again.model.state_dict()[name]), name


@pytest.mark.parametrize(
    ("kind", "name", "architecture"),
    [
        ("token", "ner", "RobertaForTokenClassification"),
        ("span", "squad", "RobertaForQuestionAnswering"),
    ],
)
def test_transformers_gives_the_same_numbers(tmp_path, kind, name, architecture):
    import transformers

    roberta = with_heads(kind)
    roberta.save(tmp_path, format="huggingface", head=name)
    theirs = getattr(transformers, architecture).from_pretrained(tmp_path).eval()
    tokens = roberta_hub.collate_tokens(roberta.encode_batch(TEXTS))
    real = tokens.ne(1)
    with torch.no_grad():
        features = roberta.extract_features(tokens)
        ours = getattr(roberta.model, f"{kind}_heads")[name](features)
        out = theirs(input_ids=tokens, attention_mask=real.long())
    wanted = out.logits if kind == "token" else torch.stack([out.start_logits, out.end_logits], -1)
    torch.testing.assert_close(ours[real], wanted[real], atol=1e-5, rtol=0)
    again = roberta_hub.load_model(tmp_path).eval()
    heads = getattr(again.model, f"{kind}_heads")
    assert len(heads) == 1
    if kind == "token":
        assert theirs.config.id2label == {0: "O", 1: "B-PER", 2: "I-PER"}
        assert again.head_labels(next(iter(heads))) == ("O", "B-PER", "I-PER")


@pytest.mark.parametrize("kind", ["token", "span"])
def test_fairseq_has_no_such_heads(tmp_path, kind):
    with pytest.raises(CheckpointError, match=r"\((token|span)\).*'huggingface'"):
        with_heads(kind).save(tmp_path, format="fairseq")
    assert not list(tmp_path.iterdir())

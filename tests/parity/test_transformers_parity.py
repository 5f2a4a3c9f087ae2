"""The same numbers as real transformers, on directories that it wrote and that we write."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from roberta_hub import RobertaConfig, RobertaHubInterface, RobertaModel, load_model
from roberta_hub.errors import CheckpointError
from roberta_hub.text import Dictionary, Task

from . import peers

pytestmark = [pytest.mark.parity, peers.needs_transformers]
TOLERANCE = 1e-5
FULL_VOCABULARY = {"vocab_size": 50265}
TEXTS = ["Hello world!", "It was a great day", "", "one, two, three, four, five, six, seven"]


def assert_close(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours.float(), theirs.float(), atol=TOLERANCE, rtol=0)


def batch(ours: RobertaHubInterface) -> Tensor:
    from roberta_hub import collate_tokens

    return collate_tokens(ours.encode_batch(TEXTS), pad_idx=1)


def compare(ours: RobertaHubInterface, theirs: Any) -> None:
    tokens = batch(ours)
    real = tokens.ne(1)
    with torch.no_grad():
        out = theirs(input_ids=tokens, attention_mask=real.long(), output_hidden_states=True)
        for state, wanted in zip(
            ours.extract_features(tokens, return_all_hiddens=True), out.hidden_states, strict=True
        ):
            assert_close(state[real], wanted[real])
        if "MaskedLM" in type(theirs).__name__:
            assert_close(ours.model(tokens)[0][real], out.logits[real])
        else:
            logits = ours.predict("sentence_classification_head", tokens, return_logits=True)
            assert_close(logits, out.logits)


@pytest.mark.parametrize("weights", ["safetensors", "bin"])
@pytest.mark.parametrize(
    "config",
    [{}, {"layer_norm_eps": 1e-12}, {"hidden_act": "gelu_new"}, {"tie_word_embeddings": False}],
    ids=str,
)
def test_masked_lm_directories(tmp_path: Path, weights: Any, config: dict[str, Any]) -> None:
    theirs = peers.hf_model("mlm", **FULL_VOCABULARY, **config)
    compare(load_model(peers.save_hf(theirs, tmp_path, weights)).eval(), theirs)


ACTIVATIONS = (
    "gelu",
    "gelu_new",
    "gelu_fast",
    "gelu_pytorch_tanh",
    "gelu_python",
    "gelu_python_tanh",
    "gelu_accurate",
    "gelu_10",
    "quick_gelu",
    "relu",
    "relu2",
    "relu6",
    "leaky_relu",
    "silu",
    "swish",
    "hardswish",
    "mish",
    "tanh",
    "sigmoid",
    "linear",
    "laplace",
    "sqrtsoftplus",
)
LEARNT_ACTIVATIONS = {"prelu", "xielu"}
"""Those of transformers that have parameters of their own, which no layer has here."""


def test_no_activation_of_transformers_is_left_out() -> None:
    from transformers.activations import ACT2FN

    assert set(ACT2FN) - LEARNT_ACTIVATIONS <= set(ACTIVATIONS)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_every_activation_both_ways(tmp_path: Path, name: str) -> None:
    """transformers' LM head is the exact GELU whatever `hidden_act` says."""
    import transformers

    theirs = peers.hf_model("mlm", **FULL_VOCABULARY, hidden_act=name)
    ours = load_model(peers.save_hf(theirs, tmp_path / "theirs")).eval()
    compare(ours, theirs)
    ours.save(tmp_path / "ours", format="huggingface")
    compare(ours, transformers.RobertaForMaskedLM.from_pretrained(tmp_path / "ours").eval())
    ours.save(tmp_path / "store")
    again = load_model(tmp_path / "store").eval()
    assert_close(again.model(batch(ours))[0], ours.model(batch(ours))[0])


def test_formats_that_cannot_hold_an_lm_head_of_its_own(tmp_path: Path) -> None:
    """fairseq's LM head has the layers' activation, Hugging Face's is always GELU."""
    theirs = peers.hf_model("mlm", **FULL_VOCABULARY, hidden_act="relu")
    ours = load_model(peers.save_hf(theirs, tmp_path / "theirs"))
    with pytest.raises(CheckpointError, match="LM head with 'gelu' on layers with 'relu'"):
        ours.save(tmp_path / "fairseq", format="fairseq")
    like_fairseq = RobertaConfig(vocab_size=50265, embed_dim=8, num_heads=2, activation_fn="relu")
    model = RobertaModel(dataclasses.replace(like_fairseq, num_layers=1))
    ours = RobertaHubInterface(model.config, Task(Dictionary.roberta()), model)
    with pytest.raises(CheckpointError, match="LM head with 'relu'"):
        ours.save(tmp_path / "hf", format="huggingface")


@pytest.mark.parametrize("weights", ["safetensors", "bin"])
def test_classifier_directories_bring_their_label_names(tmp_path: Path, weights: Any) -> None:
    names = {0: "bad", 1: "good", 2: "so-so"}
    theirs = peers.hf_model("cls", **FULL_VOCABULARY, num_labels=3, id2label=names)
    ours = load_model(peers.save_hf(theirs, tmp_path, weights)).eval()
    compare(ours, theirs)
    assert set(ours.classify(["x"], "sentence_classification_head")[0].scores) == set(
        names.values()
    )
    with pytest.raises(ValueError, match="language-model head"):
        ours.fill_mask("a <mask>")
    with pytest.raises(ValueError, match="language-model head"):
        ours.score(["a b"])


def test_sharded_directories(tmp_path: Path) -> None:
    theirs = peers.hf_model("mlm", **FULL_VOCABULARY)
    theirs.save_pretrained(tmp_path, max_shard_size="4MB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    compare(load_model(tmp_path).eval(), theirs)


def test_a_bare_encoder(tmp_path: Path) -> None:
    theirs = peers.hf_model("mlm", **FULL_VOCABULARY).roberta
    theirs.save_pretrained(tmp_path)
    ours = load_model(tmp_path).eval()
    tokens = batch(ours)
    with torch.no_grad():
        wanted = theirs(input_ids=tokens, attention_mask=tokens.ne(1).long()).last_hidden_state
        assert_close(ours.extract_features(tokens)[tokens.ne(1)], wanted[tokens.ne(1)])


def our_model(tmp_path: Path, **config: Any) -> RobertaHubInterface:
    """A model of ours with every parameter random."""
    theirs = peers.hf_model("mlm", **FULL_VOCABULARY, **config)
    ours = load_model(peers.save_hf(theirs, tmp_path / "start"))
    return ours.eval()


def test_transformers_loads_what_we_write(tmp_path: Path) -> None:
    import transformers

    ours = our_model(tmp_path)
    ours.save(tmp_path / "lm", format="huggingface")
    compare(ours, transformers.RobertaForMaskedLM.from_pretrained(tmp_path / "lm").eval())
    ours.register_classification_head("topic", num_classes=2, labels=["art", "sport"])
    peers.randomise(ours.model, seed=3)
    ours.save(tmp_path / "both", format="huggingface")
    theirs = transformers.RobertaForSequenceClassification.from_pretrained(tmp_path / "both").eval()
    assert theirs.config.id2label == {0: "art", 1: "sport"}
    tokens = batch(ours)
    with torch.no_grad():
        wanted = theirs(input_ids=tokens, attention_mask=tokens.ne(1).long()).logits
        assert_close(ours.predict("topic", tokens, return_logits=True), wanted)
    # Both heads are in the file: nothing is lost.
    compare(ours, transformers.RobertaForMaskedLM.from_pretrained(tmp_path / "both").eval())


def test_transformers_builds_the_same_tokenizer_from_our_files(tmp_path: Path) -> None:
    import transformers

    ours = our_model(tmp_path)
    ours.save(tmp_path / "hf", format="huggingface")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    for text in [*TEXTS, "can’t 🙂 naïve", "  spaces  ", "日本語"]:
        assert theirs(text)["input_ids"] == ours.encode(text).tolist()
        assert theirs(text, "b")["input_ids"] == ours.encode(text, "b").tolist()
    # And back: the vocabulary is read from the directory, whichever files are there.
    theirs.save_pretrained(tmp_path / "hf2")
    for folder in ("hf", "hf2"):
        for name in ("config.json", "model.safetensors"):
            target = tmp_path / folder / name
            if not target.exists():
                target.write_bytes((tmp_path / "hf" / name).read_bytes())
        again = load_model(tmp_path / folder)
        assert again.task.source_dictionary.symbols == ours.task.source_dictionary.symbols


def test_a_vocabulary_of_its_own(tmp_path: Path) -> None:
    """A byte-level BPE that somebody trained with tokenizers, with other ids than RoBERTa's."""
    import tokenizers
    import transformers

    trained = tokenizers.ByteLevelBPETokenizer()
    specials = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    text = ["the cat sat on the mat and the hat", "a bat in a hat, that cat"] * 20
    trained.train_from_iterator(text, vocab_size=300, special_tokens=specials, show_progress=False)
    size = trained.get_vocab_size()
    ids = trained.get_vocab()
    theirs = peers.hf_model("mlm", vocab_size=size)
    peers.save_hf(theirs, tmp_path)
    trained.save_model(str(tmp_path))
    ours = load_model(tmp_path).eval()
    expected = transformers.RobertaTokenizer.from_pretrained(tmp_path)
    assert ours.task.mask_idx == ids["<mask>"] == 4
    for sentence in ("the cat sat", "that bat, héllo", ""):
        assert ours.encode(sentence).tolist() == expected(sentence)["input_ids"]
        assert ours.decode(ours.encode(sentence)) == sentence
    compare(ours, theirs)


WORDS = {
    "encoder.sentence_encoder.": "roberta.",
    "embed_tokens": "embeddings.word_embeddings",
    "embed_positions": "embeddings.position_embeddings",
    "layernorm_embedding": "embeddings.LayerNorm",
    "layers.": "encoder.layer.",
    "self_attn_layer_norm": "attention.output.LayerNorm",
    "final_layer_norm": "output.LayerNorm",
    "self_attn.q_proj": "attention.self.query",
    "self_attn.k_proj": "attention.self.key",
    "self_attn.v_proj": "attention.self.value",
    "self_attn.out_proj": "attention.output.dense",
    "fc1": "intermediate.dense",
    "fc2": "output.dense",
    "encoder.lm_head.weight": "lm_head.decoder.weight",
    "encoder.lm_head.": "lm_head.",
    "classification_heads.sentence_classification_head.": "classifier.",
}
"""Ours -> transformers'; told here once more, so that the table which loads weights is not its own
judge."""


def their_name(name: str) -> str:
    for ours, theirs in WORDS.items():
        name = name.replace(ours, theirs)
    return name


@pytest.mark.parametrize(
    ("kind", "config"),
    [("mlm", {}), ("mlm", {"tie_word_embeddings": False}), ("cls", {"num_labels": 3})],
    ids=str,
)
def test_gradients(tmp_path: Path, kind: Any, config: dict[str, Any]) -> None:
    """Every parameter's gradient, and none is left over on either side."""
    theirs = peers.hf_model(kind, **FULL_VOCABULARY, **config)
    ours = load_model(peers.save_hf(theirs, tmp_path)).eval()
    tokens = batch(ours)
    real = tokens.ne(1)
    wanted = theirs(input_ids=tokens, attention_mask=real.long()).logits
    if kind == "mlm":
        found, wanted = ours.model(tokens)[0][real], wanted[real]
    else:
        found = ours.predict("sentence_classification_head", tokens, return_logits=True)
    for logits in (found, wanted):
        logits.log_softmax(-1)[:, min(7, logits.shape[1] - 1)].mean().backward()
    expected = {name: p.grad for name, p in theirs.named_parameters() if p.grad is not None}
    for name, parameter in ours.model.named_parameters():
        grad = parameter.grad
        if grad is None:  # an LM head beside a classification head
            assert their_name(name) not in expected, name
            continue
        other = "lm_head.decoder.bias" if "lm_head.decoder.bias" in expected else "lm_head.bias"
        peer = expected.pop(other if name == "encoder.lm_head.bias" else their_name(name))
        if name.endswith("embed_tokens.weight"):  # transformers' padding row gets some through ties
            grad, peer = (x[torch.arange(len(x)) != 1] for x in (grad, peer))
        if name.endswith("embed_positions.weight"):  # in which ours has the token type's row too
            types = expected.pop("roberta.embeddings.token_type_embeddings.weight")
            assert_close(grad.sum(0, keepdim=True), types)
        scale = max(1.0, float(peer.abs().max()))
        torch.testing.assert_close(grad, peer, atol=TOLERANCE * scale, rtol=1e-4, msg=name)
        assert peer.any(), name
    assert not expected


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("large", [False, True])
def test_full_sizes(tmp_path: Path, large: bool) -> None:
    base = {
        "hidden_size": 768,
        "intermediate_size": 3072,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
    }
    big = {
        "hidden_size": 1024,
        "intermediate_size": 4096,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
    }
    theirs = peers.hf_model(
        "mlm", std=0.02, max_position_embeddings=514, **FULL_VOCABULARY, **(big if large else base)
    )
    compare(load_model(peers.save_hf(theirs, tmp_path)).eval(), theirs)

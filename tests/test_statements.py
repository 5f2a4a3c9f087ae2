"""Statements that people copy for RoBERTa's relatives, on small random models of each class.

What is published cannot be downloaded here, so transformers' own answers on the same weights are
the witness; the published answers themselves wait in test_published.py.
"""

from __future__ import annotations

import lzma
import tarfile
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoint.server import Server, body
from families import theirs, write_family
from small_models import take_any_shape

import roberta_hub
from roberta_hub import CamembertModel, load_model
from roberta_hub.checkpoint.fetch import download, http

transformers = pytest.importorskip("transformers")

TOLERANCE = 1e-5


def hidden(folder: Path, tokens: torch.Tensor) -> Any:
    """What transformers' model of a directory computes: every hidden state, and the rest."""
    model, segments = theirs(folder), {}
    if model.config.pad_token_id == 0:  # it has segments: the second begins behind `[SEP]`
        ends = tokens.eq(tokens[-1]).long()
        segments = {"token_type_ids": (ends.cumsum(0) - ends).clamp(max=1)[None]}
    with torch.no_grad():
        return model(tokens[None], output_hidden_states=True, **segments)


def assert_states(roberta: roberta_hub.RobertaHubInterface, folder: Path, tokens: Any) -> None:
    states = roberta.extract_features(tokens, return_all_hiddens=True)
    wanted = hidden(folder, tokens).hidden_states
    for state, other in zip(states, wanted, strict=True):
        torch.testing.assert_close(state, other, atol=TOLERANCE, rtol=0)


# ---- BERT beside RoBERTa ----


def test_bert_beside_roberta_on_one_sentence(tmp_path: Path) -> None:
    bert = load_model(write_family("bert", tmp_path / "bert")).eval()
    roberta = load_model("roberta.tiny").eval()
    sentence = "The train from Hamburg was late."
    for model, begin, end in ((bert, "[CLS]", "[SEP]"), (roberta, "<s>", "</s>")):
        tokens = model.encode(sentence)
        pieces = model.tokenizer.pieces(tokens)
        assert (pieces[0], pieces[-1]) == (begin, end)
        assert len(pieces) == len(model.tokenize(sentence)) + 2
        assert model.extract_features(tokens).shape[:2] == (1, len(tokens))
    own = transformers.BertTokenizer.from_pretrained(tmp_path / "bert")
    assert bert.encode(sentence).tolist() == own(sentence)["input_ids"]
    assert_states(bert, tmp_path / "bert", bert.encode(sentence))
    filled = [bert.fill_mask(f"The {mask} was late.") for mask in ("[MASK]", "<mask>")]
    assert len(filled[0]) == 5 and filled[0] == filled[1]


# ---- ELECTRA's two encoders ----


def test_electra_smalls_discriminator_and_generator_as_encoders(tmp_path: Path) -> None:
    text = "The quick brown dog barked at the old letter box."
    for part, head in (("discriminator", "pretraining"), ("generator", "lm")):
        folder = write_family("electra", tmp_path / part, head=head)
        electra = load_model(folder).eval()
        tokens = electra.encode(text)
        assert_states(electra, folder, tokens)
        (features,) = electra.features([text])
        torch.testing.assert_close(features, electra.extract_features(tokens)[0])
        if part == "discriminator":
            with pytest.raises(roberta_hub.RobertaHubError, match="generator"):
                electra.fill_mask("The <mask> barked.")
            logits = hidden(folder, tokens).logits[0]
            assert electra.replaced(text) == pytest.approx(
                logits.sigmoid()[1:-1].tolist(), abs=TOLERANCE
            )
        else:
            assert len(electra.fill_mask("The <mask> barked.", topk=3)) == 3


# ---- SpanBERT answers ----


@pytest.mark.parametrize("question", ["Who barked at the letter box?", "Where is the train?"])
def test_spanbert_answers_a_question(tmp_path: Path, question: str) -> None:
    folder = write_family("bert-cased", tmp_path, head="span", max_position_embeddings=128)
    (folder / "tokenizer_config.json").unlink()  # as in its repositories
    with pytest.warns(UserWarning, match="case"):
        spanbert = load_model(folder).eval()
    context = "Mary's dog (a brown one) barked at the old letter box, and the train was late."
    assert "M" in spanbert.tokenize(context)[0]  # its case is kept
    tokens = spanbert.encode(question, context)
    start, end = (scores[0] for scores in hidden(folder, tokens)[:2])
    first = len(spanbert.encode(question))
    spans = {
        (float(start[i] + end[j]), i - first, j - first)
        for i in range(first, len(tokens) - 1)
        for j in range(i, min(i + 30, len(tokens) - 1))
    }
    best, left, right = max(spans)
    found = spanbert.answer(question, context)
    if best > float(start[0] + end[0]):
        offsets = spanbert.offsets(context)
        assert (found.start, found.end) == (offsets[left][0], offsets[right][1])
        assert found.text == context[found.start : found.end]
    else:
        assert found.text == ""


# ---- ALBERT ----


def test_alberts_hidden_states_and_pooled_vector(tmp_path: Path) -> None:
    folder = write_family("albert", tmp_path, head="bare")
    albert = load_model(folder).eval()
    text = "Paris is a big city"
    tokens = albert.encode(text)
    assert albert.extract_features(tokens).shape == (1, len(tokens), 32)
    assert_states(albert, folder, tokens)
    pooled = albert.features([text], pooling="pooler")
    assert pooled.shape == (1, 32)
    wanted = hidden(folder, tokens).pooler_output
    torch.testing.assert_close(pooled, wanted, atol=TOLERANCE, rtol=0)


# ---- XLM-R's README ----

XLMR_README = {
    "Hello world!": [0, 35378, 8999, 38, 2],
    "你好，世界": [0, 6, 124084, 4, 3221, 2],
    "नमस्ते दुनिया": [0, 68700, 97883, 29405, 2],
    "مرحبا بالعالم": [0, 665, 193478, 258, 1705, 77796, 2],
    "Bonjour le monde": [0, 84602, 95, 11146, 2],
}
"""fairseq, examples/xlmr/README.md."""


@pytest.mark.system
def test_the_five_sentences_of_xlm_rs_readme(shared: Path, tmp_path: Path) -> None:
    packed = shared / "vocab" / "xlmr.model.xz"
    if not packed.is_file():
        pytest.skip("no vocab/xlmr.model.xz in the shared folder")
    pytest.importorskip("sentencepiece")
    (tmp_path / "sentencepiece.bpe.model").write_bytes(lzma.decompress(packed.read_bytes()))
    small = {"encoder_layers": 1, "encoder_embed_dim": 8, "encoder_ffn_embed_dim": 8}
    xlmr = load_model(
        "xlmr.large", pretrained=False, vocabulary=tmp_path, encoder_attention_heads=2, **small
    ).eval()
    for text, ids in XLMR_README.items():
        assert xlmr.encode(text).tolist() == ids
        # The vocabulary's own map writes the Chinese comma as an ASCII one.
        assert xlmr.decode(torch.tensor(ids)) == text.replace("，", ",")
    assert xlmr.task.mask_idx == 250001
    assert len(xlmr.fill_mask("Bonjour le <mask>", topk=3)) == 3
    assert xlmr.extract_features(xlmr.encode("你好，世界")).shape == (1, 6, 8)


# ---- CamemBERT, as its README has it ----


def test_camembert_model_from_pretrained(tmp_path: Path) -> None:
    folder = write_family("camembert", tmp_path)
    camembert = CamembertModel.from_pretrained(folder)
    camembert.eval()
    filled = camembert.fill_mask("Le camembert est <mask> :)", topk=3)
    assert len(filled) == 3 and all(text.endswith(" :)") for text, _, _ in filled)
    tokens = camembert.encode("J'aime le camembert !")
    assert (int(tokens[0]), int(tokens[-1])) == (5, 6)
    assert camembert.decode(tokens) == "J'aime le camembert !"
    assert_states(camembert, folder, tokens)


# ---- by name, from a server ----


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setattr(torch.hub, "_hub_dir", None)
    take_any_shape(monkeypatch)
    with Server() as running:
        monkeypatch.setenv(http.MIRROR_ENV, running.url)
        monkeypatch.setenv(download.ENDPOINT_ENV, running.url)
        yield running


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("bert-base-uncased", "bert"),
        ("albert-base-v2", "albert"),
        ("google/electra-small-generator", "electra"),
        ("sentence-transformers/all-MiniLM-L6-v2", "minilm"),
    ],
)
def test_a_name_of_hugging_face_loads_with_its_texts(
    server: Server, tmp_path: Path, name: str, kind: str
) -> None:
    folder = write_family(kind, tmp_path / "theirs")
    owner = {"bert-base-uncased": "google-bert/", "albert-base-v2": "albert/"}.get(name, "")
    for path in folder.iterdir():
        server.plan[f"/{owner}{name}/resolve/main/{path.name}"] = [body(path.read_bytes())]
    roberta = load_model(name, progress=False).eval()
    by_path = load_model(folder).eval()
    text = "She reads the news, every morning."
    tokens = roberta.encode(text)
    assert tokens.tolist() == by_path.encode(text).tolist()
    assert torch.equal(roberta.extract_features(tokens), by_path.extract_features(tokens))
    assert roberta.family == by_path.family


def test_an_archive_of_fairseqs_hub_loads_by_name(server: Server, tmp_path: Path) -> None:
    xlmr = load_model(write_family("xlm-roberta", tmp_path / "hf")).eval()
    xlmr.save(tmp_path / "xlmr.base", format="fairseq")
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as file:
        file.add(tmp_path / "xlmr.base", arcname="xlmr.base")
    server.plan["/xlmr.base.tar.gz"] = [body((tmp_path / "a.tar.gz").read_bytes())]
    by_name = roberta_hub.XLMRModel.from_pretrained("xlmr.base", progress=False).eval()
    tokens = xlmr.encode("Le train de Paris était en retard.")
    assert by_name.encode("Le train de Paris était en retard.").tolist() == tokens.tolist()
    torch.testing.assert_close(by_name.extract_features(tokens), xlmr.extract_features(tokens))
    assert by_name.family == "xlm-roberta"


def test_a_bert_body_with_xlmrs_vocabulary_has_one_segment(tmp_path: Path) -> None:
    """multilingual-e5-small's kind: transformers' tokenizer of XLM-R gives no token types."""
    folder = write_family("e5", tmp_path / "e5")
    pair = ("The dog barked.", "It was late.")
    inputs = transformers.AutoTokenizer.from_pretrained(folder)(*pair, return_tensors="pt")
    body = transformers.AutoModel.from_pretrained(folder).eval()
    with torch.no_grad():
        expected = body(**inputs).last_hidden_state[0]
    roberta = load_model(folder).eval()
    assert roberta.encode(*pair).tolist() == inputs["input_ids"][0].tolist()
    torch.testing.assert_close(roberta.features([pair])[0], expected, atol=1e-5, rtol=0)
    for format in ("roberta_hub", "huggingface"):
        roberta.save(tmp_path / format, format=format)
        again = load_model(tmp_path / format).eval()
        torch.testing.assert_close(again.features([pair])[0], expected, atol=1e-5, rtol=0)

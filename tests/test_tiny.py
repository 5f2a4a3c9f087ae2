"""The model in the package: there at once, offline, sensible, and the same in the peers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from parity import peers

import roberta_hub
from roberta_hub import collate_tokens
from roberta_hub.checkpoint.fetch.catalogue import bundled_path, find_record

ROOT = Path(__file__).resolve().parents[1]
FOLDER = bundled_path(find_record("roberta.tiny"))
CLOZE = {  # sentences of our own, which no training set holds
    "He put his hat on the table and left <mask> room.": " the",
    "They have lived in this town for many <mask>.": " years",
    "It was too dark <mask> see anything.": " to",
    "She was one <mask> the first to arrive.": " of",
    "I do not know <mask> he did that.": " why",
    "The film was directed <mask> a young woman from Ohio.": " by",
    "He was born <mask> a small village near the sea.": " in",
    "We waited, but nobody came to open <mask> door.": " the",
    "She <mask> born in 1950.": " was",
    "The city has a population <mask> 20,000 people.": " of",
    "You can pay now <mask> you can pay later.": " or",
    "The old man and <mask> dog walked along the river.": " his",
}


@pytest.fixture(scope="module")
def tiny():
    return roberta_hub.load_model().eval()


def test_it_keeps_no_digests_of_its_training_pairs_and_a_page_says_so():
    """So `evaluate` cannot note them; with digests the page and its card must say another thing."""
    page = " ".join((ROOT / "docs/guides/evaluate.md").read_text("utf-8").split())
    none = not roberta_hub.load_model().learnt
    assert none == ("`roberta.tiny`, downloaded models and those of `train` have none" in page)


def test_small_enough_to_ship():
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) <= 50_000_000
    assert {"LICENSE", "MODEL_CARD.md", "NOTICE", "config.json", "model.safetensors"} <= {
        path.name for path in FOLDER.iterdir()
    }


def test_it_is_the_default_and_in_float32(tiny):
    assert "roberta.tiny" in repr(tiny)
    assert next(tiny.model.parameters()).dtype == torch.float32
    assert tiny.head_labels("mnli") == ("contradiction", "neutral", "entailment")


def test_vectors_are_of_texts_behind_a_blank(tiny):
    """Without it a first word in lower case would be the middle of a word."""
    texts = ["yesterday it rained", "Yesterday it rained.", "stocks fell"]
    vectors = tiny.embed(texts)
    bare = tiny.embed(texts, prompt="")
    behind = tiny.embed([f" {text}" for text in texts], prompt="")
    assert torch.equal(vectors, behind)
    assert not torch.equal(vectors, bare)
    capital = vectors @ vectors[1]
    [hit] = tiny.search(texts[0], [texts[1]])
    assert hit.score == pytest.approx(capital[0].item(), abs=1e-5)
    assert capital[0] > bare[0] @ bare[1] and capital[0] > 0.9 > capital[2]


@pytest.mark.system
def test_sentence_transformers_puts_the_blank_too(tiny, tmp_path):
    """Up to 5.3 it strips texts, and the blank with them."""
    library = pytest.importorskip("sentence_transformers", minversion="5.4")
    tiny.save(tmp_path, format="huggingface")
    texts = ["yesterday it rained", "stocks fell"]
    theirs = library.SentenceTransformer(str(tmp_path), device="cpu").encode(texts)
    torch.testing.assert_close(tiny.embed(texts), torch.from_numpy(theirs), atol=1e-5, rtol=0)


@pytest.mark.system
def test_through_torch_hub_without_a_socket(tmp_path):
    """In a process that cannot connect, from nothing to an answer."""
    code = (
        "import socket, torch\n"
        "def refuse(*a, **k): raise AssertionError('a socket')\n"
        "socket.socket.connect = refuse\n"
        f"roberta = torch.hub.load({str(ROOT)!r}, 'roberta_tiny', source='local').eval()\n"
        "print(roberta.fill_mask('She was one <mask> the first to arrive.', topk=5))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "TORCH_HOME": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    assert "' of'" in done.stdout
    assert not list(tmp_path.rglob("*.safetensors"))


def test_it_fills_masks_with_sensible_words(tiny):
    found = tiny.fill_mask(list(CLOZE), topk=5)
    hits = [
        word in [w for _, _, w in guesses]
        for guesses, word in zip(found, CLOZE.values(), strict=True)
    ]
    # Unigram frequencies would hit five of the twelve: "the", "of", "in", "to" and "the" again.
    assert sum(hits) >= 9, [text for text, hit in zip(CLOZE, hits, strict=True) if not hit]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_its_scores_are_those_of_the_model_card(tiny, shared, monkeypatch):
    """The evaluation sets again: what benchmarks/results/tiny.json says, to half a point."""
    import json

    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    from lib import answers

    monkeypatch.setattr(answers, "SHARED", shared)
    said = json.loads((ROOT / "benchmarks/results/tiny.json").read_text())
    for name in ("mnli_dev_matched", "snli_dev"):
        score = answers.entailment(tiny, f"{name}.tsv.xz").value
        assert score == pytest.approx(said[name][0], abs=5e-3)
    assert answers.similar(tiny, None).value == pytest.approx(said["sts_b_test"][0], abs=5e-3)
    top5 = answers.masked_words(tiny).more["top5"]
    assert top5 == pytest.approx(said["books"]["top5"], abs=5e-3) and top5 > 0.35


@pytest.mark.system
@pytest.mark.parametrize("format", ["fairseq", "huggingface"])
def test_the_peers_give_its_numbers(tiny, tmp_path, format):
    """Its factorized embedding leaves multiplied out: float32 rounds that once more."""
    tiny.save(tmp_path, format=format)
    tokens = collate_tokens(tiny.encode_batch(list(CLOZE)))
    real = tokens.ne(1)
    with torch.no_grad():
        logits, _ = tiny.model(tokens)
        mnli = tiny.predict("mnli", tokens)
        if format == "fairseq":
            theirs = peers.hub_interface(tmp_path, stock=True)
            wanted, _ = theirs.model(tokens)
            wanted_mnli = theirs.predict("mnli", tokens)
        else:
            import transformers

            inputs = {"input_ids": tokens, "attention_mask": real.long()}
            lm = transformers.RobertaForMaskedLM.from_pretrained(tmp_path).eval()
            head = transformers.RobertaForSequenceClassification.from_pretrained(tmp_path).eval()
            wanted = lm(**inputs).logits
            wanted_mnli = head(**inputs).logits.log_softmax(-1)
    torch.testing.assert_close(logits[real], wanted[real], atol=5e-5, rtol=0)
    torch.testing.assert_close(mnli, wanted_mnli, atol=1e-5, rtol=0)


@pytest.mark.system
def test_it_goes_on_training(tmp_path):
    """A newcomer's first command: a head on a dozen sentences."""
    rows = [("A fine film.", "good"), ("A dull film.", "bad"), ("I loved it.", "good")] * 6
    (tmp_path / "x.tsv").write_text(
        "sentence\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows)
    )
    from roberta_hub.train import train
    from roberta_hub.train.config import compose

    settings = [
        "finetune=sst_2",
        "model=roberta.tiny",
        f"data.train={tmp_path}/x.tsv",
        "data.format=tsv",
        f"output={tmp_path}/run",
        "optimizer.lr=1e-3",
        "optimizer.warmup_updates=2",
        "optimizer.total_updates=null",
        "loop.max_updates=12",
        "loop.progress=false",
    ]
    roberta = train(compose(settings)).eval()
    assert [p.label for p in roberta.classify(["A dull film.", "I loved it."], head="sst_2")] == [
        "bad",
        "good",
    ]
    # What was learnt last is what answers, here and wherever the model is loaded again.
    roberta.save(tmp_path / "saved")
    for model in (roberta, roberta_hub.load_model(tmp_path / "saved").eval()):
        assert [p.label for p in model.classify(["A dull film.", "I loved it."])] == ["bad", "good"]
        assert model.inputs == {"mnli": "pair", "sst_2": "one"}
        assert model.zero_shot(["A dull film."], ["film", "food"])[0].label == "film"
    assert roberta.head_labels("mnli") == ("contradiction", "neutral", "entailment")

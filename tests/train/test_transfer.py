"""A trained encoder gets another vocabulary: the layers read the same words as before."""

from pathlib import Path

import pytest
import torch
from families import write_family
from small_models import small_roberta
from torch.testing import assert_close

import roberta_hub
from roberta_hub.errors import InputError
from roberta_hub.text.tokenizer import Tokenizer
from tools.transfer import mean_vectors, spellings, transfer

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def shipped() -> Tokenizer:
    return Tokenizer.shipped()


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_family("bert", tmp_path_factory.mktemp("donor"))


def ones(tokenizer: Tokenizer) -> torch.Tensor:
    return torch.ones(len(tokenizer))


def test_its_own_vocabulary_changes_nothing(shipped):
    donor = small_roberta(embed_dim=16, num_layers=2, max_positions=30)
    model = transfer(donor, shipped, ones(shipped)).eval()
    text = "Hello world! The teachers walked home, and nobody knew why."
    assert_close(model.features(text), donor.features(text), atol=1e-5, rtol=1e-5)
    known = [len(row) for row in spellings(shipped, shipped)]
    assert sum(n == 1 for n in known) > 49_500  # the rest are parts of characters


def test_words_of_bert_are_read_as_before(bert, shipped):
    donor = roberta_hub.load_model(bert).eval()
    model = transfer(donor, shipped, ones(shipped)).eval()
    text = "The dog was late and they why the book was brown"
    ids = shipped.ids_of(text).tolist()
    words = donor.tokenizer.tokenize(text)
    spelt = dict(enumerate(spellings(donor.tokenizer, shipped)))
    assert [donor.tokenizer.pieces(spelt[i]) for i in ids] == [[word] for word in words]
    # Segments are given up, the first one lies in the positions; epsilons differ.
    assert_close(model.features(text), donor.features(text), atol=1e-4, rtol=1e-3)


def test_pieces_are_spelt_in_the_donors(bert, shipped):
    donor = roberta_hub.load_model(bert).tokenizer
    table = list(spellings(donor, shipped))

    def spelt(piece: str) -> list[str]:
        return donor.pieces(table[shipped.pieces().index(piece)])

    assert spelt("Ġdog") == ["dog"]
    assert spelt("Dog") == ["dog"]  # a capital begins a word
    assert spelt("ing") == ["##ing"]  # goes on with one
    assert spelt("Ġsleeping") == ["sleeping"]
    assert spelt("!") == ["!"]
    assert spelt("ness") == ["##ness"]
    assert table[shipped.bos] == [] and table[shipped.mask_idx] == []


def test_special_words_stay_special(bert, shipped):
    donor = roberta_hub.load_model(bert)
    rows, old = mean_vectors(donor, shipped), donor.tokenizer.layout
    table = donor.model.transformer.embed_tokens.weight.detach()
    new = shipped.layout
    for ours, theirs in ((new.bos, old.bos), (new.eos, old.eos), (new.mask, old.mask)):
        assert torch.equal(rows[ours], table[theirs])
    (dogs,) = [i for i, p in enumerate(shipped.pieces()) if p == "Ġdogs"]
    pieces = donor.tokenizer.ids_of("dogs")
    assert_close(rows[dogs], table[pieces].mean(0))


def test_factors_keep_what_occurs(bert, shipped):
    donor = roberta_hub.load_model(bert).eval()
    text = "the dog barked at the old letter box, and nobody knew why"
    frequencies = torch.bincount(shipped.ids_of(text), minlength=len(shipped)).float()
    whole = transfer(donor, shipped, frequencies).eval().features(text)
    errors = []
    for width in (4, 16, 32):
        model = transfer(donor, shipped, frequencies, embedding_dim=width).eval()
        assert model.cfg.embedding_dim == width
        errors.append(float((model.features(text) - whole).norm() / whole.norm()))
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 1e-4  # the full width loses nothing


def test_the_lm_head_begins_with_frequencies(bert, shipped):
    donor = roberta_hub.load_model(bert)
    frequencies = torch.ones(len(shipped))
    frequencies[shipped.ids_of(" the")] = 1e6
    model = transfer(donor, shipped, frequencies).eval()
    assert model.fill_mask("I saw <mask> dog", topk=1)[0][2] == " the"


def test_it_saves_and_loads(bert, shipped, tmp_path):
    model = transfer(roberta_hub.load_model(bert), shipped, ones(shipped), embedding_dim=8).eval()
    model.save(tmp_path / "begin")
    again = roberta_hub.load_model(tmp_path / "begin").eval()
    assert again.encode("Hello world!").tolist() == [0, 31414, 232, 328, 2]
    assert torch.equal(again.features("Hello world!"), model.features("Hello world!"))


def test_donors_that_cannot_be(bert, shipped, tmp_path):
    donor = roberta_hub.load_model(bert)
    with pytest.raises(InputError, match=r"shape \(7,\), the vocabulary has 50265 words"):
        transfer(donor, shipped, torch.ones(7))
    with pytest.raises(InputError, match="factorized or its layers are pre-norm"):
        transfer(small_roberta(embedding_dim=8), shipped, ones(shipped))

"""Checkpoints that real fairseq-train wrote, and fairseq-train going on from ours."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from roberta_hub import RobertaModel, load_model
from roberta_hub.formats.upgrade import is_stale

from . import peers

pytestmark = [pytest.mark.parity, peers.needs_fairseq]


@pytest.fixture(scope="module")
def masked_lm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return peers.train(tmp_path_factory.mktemp("masked_lm"), "masked_lm")


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return peers.train(tmp_path_factory.mktemp("classifier"), "sentence_prediction")


def tokens(size: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    batch = torch.randint(4, size - 1, (3, 9), generator=generator)
    batch[:, 0] = 0
    batch[1, 5:] = 1
    return batch


def test_a_trained_masked_lm_gives_the_same_logits(masked_lm: Path) -> None:
    ours = load_model(masked_lm, checkpoint_file="checkpoint_last.pt").eval()
    theirs = peers.hub_interface(masked_lm, checkpoint="checkpoint_last.pt")
    batch = tokens(len(ours.task.source_dictionary))
    with torch.no_grad():
        mine, wanted = ours.model(batch)[0], theirs.model(batch)[0]
    real = batch.ne(1)
    torch.testing.assert_close(mine[real], wanted[real], atol=1e-5, rtol=0)


def test_the_stale_copies_are_there_and_are_not_read(masked_lm: Path) -> None:
    """U10: 0.12.2 writes a second copy of each layer, which training leaves behind."""
    with peers.fairseq_loads_its_own_files():
        state = torch.load(masked_lm / "checkpoint_last.pt", weights_only=True)
    stale = {name: tensor for name, tensor in state["model"].items() if is_stale(name)}
    assert len(stale) == 8 * 2
    live = state["model"]["encoder.sentence_encoder.layers.0.fc1.weight"]
    assert not torch.equal(stale["encoder.sentence_encoder.layers.0.fc1_weight"], live)
    ours = load_model(masked_lm, checkpoint_file="checkpoint_last.pt")
    assert torch.equal(ours.model.encoder.sentence_encoder.layers[0].fc1.weight, live)


def test_a_trained_classifier_predicts_the_same_and_knows_its_labels(classifier: Path) -> None:
    """The README's own recipe for a fine-tuned model, label_fn included."""
    ours = RobertaModel.from_pretrained(
        str(classifier), checkpoint_file="checkpoint_last.pt", data_name_or_path="."
    ).eval()
    theirs = peers.hub_interface(classifier, checkpoint="checkpoint_last.pt")
    batch = tokens(len(ours.task.source_dictionary))
    head = "sentence_classification_head"
    with torch.no_grad():
        mine, wanted = ours.predict(head, batch), theirs.predict(head, batch)
    torch.testing.assert_close(mine, wanted, atol=1e-5, rtol=0)
    dictionary = ours.task.label_dictionary
    assert dictionary.symbols == theirs.task.label_dictionary.symbols
    label = dictionary.string([int(mine[0].argmax()) + dictionary.nspecial])
    prediction = ours.classify(["1 2 3"], head)[0]
    assert label in {"neg", "pos"} == set(prediction.scores)
    assert ours.head_labels(head) == tuple(dictionary.symbols[4:6])


def test_fairseq_trains_on_from_what_we_save(masked_lm: Path, tmp_path: Path) -> None:
    """Stock fairseq, without any help in reading: the same losses as from its own file."""
    ours = load_model(masked_lm, checkpoint_file="checkpoint_last.pt")
    ours.save(tmp_path / "ours", format="fairseq")
    from_ours = peers.continue_training(tmp_path / "ours" / "model.pt", masked_lm, stock=True)
    from_theirs = peers.continue_training(masked_lm / "checkpoint_last.pt", masked_lm)
    assert len(from_ours) == 4
    assert from_ours == pytest.approx(from_theirs, abs=2e-3)  # fairseq logs three decimals
    resumed = peers.continue_training(
        tmp_path / "ours" / "model.pt", masked_lm, updates=2, reset=False, stock=True
    )
    assert len(resumed) == 2


def test_stock_fairseq_loads_what_we_save_without_help(classifier: Path, tmp_path: Path) -> None:
    """fairseq refuses its own files on today's torch and loads ours.

    Ours hold no class that weights_only objects to.
    """
    ours = load_model(classifier, checkpoint_file="checkpoint_last.pt").eval()
    ours.save(tmp_path, format="fairseq")
    theirs = peers.hub_interface(tmp_path, stock=True)
    batch = tokens(len(ours.task.source_dictionary))
    head = "sentence_classification_head"
    with torch.no_grad():
        torch.testing.assert_close(
            theirs.predict(head, batch), ours.predict(head, batch), atol=1e-5, rtol=0
        )
    again = load_model(tmp_path)
    assert again.head_labels(head) == ours.head_labels(head)
    assert again.task.name == "sentence_prediction"
    with pytest.raises(Exception, match=r"weights_only|Unsupported"):
        peers.hub_interface(classifier, checkpoint="checkpoint_last.pt", stock=True)

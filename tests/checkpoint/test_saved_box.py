"""A model with several heads leaves for formats that hold fewer, and a note says which."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest
from checkpoints import small

from roberta_hub import RobertaHubInterface, load_model
from roberta_hub.errors import Advice, CheckpointError


def three(default: str | None = "mnli") -> RobertaHubInterface:
    roberta = small({"mnli": ("no", "maybe", "yes"), "mood": ("bad", "good")})
    roberta.register_token_head("names", labels=["O", "B-PER"])
    roberta.default_head = default
    return roberta


def heads_in(folder: Path) -> list[str]:
    model = load_model(folder).model
    return [*model.classification_heads, *model.token_heads]


@pytest.mark.parametrize(
    ("head", "suffix", "left", "labels"),
    [
        (None, "SequenceClassification", "'mood', 'names'", ["no", "maybe", "yes"]),
        ("mood", "SequenceClassification", "'mnli', 'names'", ["bad", "good"]),
        ("names", "TokenClassification", "'mnli', 'mood'", ["O", "B-PER"]),
    ],
)
def test_for_transformers(
    head: str | None, suffix: str, left: str, labels: list[str], tmp_path: Path
) -> None:
    with pytest.warns(Advice, match=f"gets head '{head or 'mnli'}' .* without {left}"):
        three().save(tmp_path, format="huggingface", head=head)
    about = json.loads((tmp_path / "config.json").read_text())
    assert about["architectures"] == [f"RobertaFor{suffix}"]
    assert [*about["id2label"].values()] == labels
    assert len(heads_in(tmp_path)) == 1


@pytest.mark.parametrize(
    ("head", "kept", "left"),
    [(None, ["mnli", "mood"], "'names'"), ("mood", ["mood"], "'mnli', 'names'")],
)
def test_for_fairseq(head: str | None, kept: list[str], left: str, tmp_path: Path) -> None:
    with pytest.warns(Advice, match=f"without {left}"):
        three().save(tmp_path, format="fairseq", head=head)
    assert heads_in(tmp_path) == kept
    assert load_model(tmp_path).default_head == kept[0]


@pytest.mark.parametrize(("head", "words"), [("names", "tokens or spans"), ("no", "of that name")])
def test_heads_that_fairseq_cannot_hold(head: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=words):
        three().save(tmp_path, format="fairseq", head=head)


@pytest.mark.parametrize("format", ["huggingface", "fairseq"])
def test_without_a_head_of_its_own_it_is_refused(format: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"mnli.*mood.*names|cannot hold names"):
        three(default=None).save(tmp_path, format=format)  # type: ignore[arg-type]
    assert not any(tmp_path.iterdir())


def test_our_own_format_holds_all_without_a_note(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        three().save(tmp_path)
    assert heads_in(tmp_path) == ["mnli", "mood", "names"]


@pytest.mark.system
@pytest.mark.filterwarnings("ignore::roberta_hub.errors.Advice")
@pytest.mark.parametrize("format", ["huggingface", "fairseq"])
def test_the_box_leaves_with_mnli(format: str, tmp_path: Path) -> None:
    tiny = load_model().eval()
    tiny.save(tmp_path, format=format)  # type: ignore[arg-type]
    again, pair = load_model(tmp_path).eval(), [("A dog ran.", "An animal moved.")]
    expected = tiny.classify(pair)[0].score
    assert again.classify(pair)[0].score == pytest.approx(expected, abs=1e-5)

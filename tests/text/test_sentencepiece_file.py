"""The reader of `.model` files keeps what changes ids, and the writer writes the same model."""

from __future__ import annotations

import dataclasses
import lzma
import os
from pathlib import Path

import pytest

spm = pytest.importorskip("sentencepiece")

import sentencepiece_toys  # noqa: E402

from roberta_hub.errors import VocabularyError  # noqa: E402
from roberta_hub.text import sentencepiece_file  # noqa: E402
from roberta_hub.text.character_map import check_character_map  # noqa: E402
from roberta_hub.text.sentencepiece_file import (  # noqa: E402
    CONTROL,
    NORMAL,
    UNKNOWN,
    USER_DEFINED,
    model_of,
    parse_model,
    read_model,
)

SHARED = Path(os.environ.get("ROBERTA_HUB_SHARED", Path(__file__).parents[3] / "shared"))
XLMR = SHARED / "vocab" / "xlmr.model.xz"


def library(data: bytes) -> spm.SentencePieceProcessor:
    return spm.SentencePieceProcessor(model_proto=data)


@pytest.mark.parametrize("kind", sentencepiece_toys.KINDS)
def test_a_model_written_anew_gives_the_same_ids(kind: str) -> None:
    data = sentencepiece_toys.trained(kind)
    model = parse_model(data, "toy.model")
    ours, theirs = library(model.serialized()), library(data)
    assert parse_model(model.serialized(), "again") == model
    assert ours.get_piece_size() == theirs.get_piece_size() == len(model.texts)
    for number, text in enumerate(model.texts):
        assert theirs.id_to_piece(number) == text
        assert theirs.get_score(number) == model.scores[number]
        assert theirs.is_control(number) == (model.kinds[number] == CONTROL)
    texts = [*sentencepiece_toys.lines(300), "a\0b ﬁ \u200b x", "1,000 (£5) <s>", "\ud7ff😀", ""]
    assert ours.encode(texts) == theirs.encode(texts)
    assert ours.unk_id() == theirs.unk_id() == model.unknown


@pytest.mark.parametrize(
    "setting",
    [
        {"add_dummy_prefix": False},
        {"remove_extra_whitespaces": False},
        {"normalization_rule_name": "identity"},
        {"normalization_rule_name": "nfkc_cf"},
        {"normalization_rule_name": "nmt_nfkc_cf", "user_defined_symbols": ["<sep>", "foo"]},
        {"model_type": "bpe"},
        {"split_digits": True, "allow_whitespace_only_pieces": True},
    ],
    ids=str,
)
def test_every_setting_that_changes_ids_is_kept(setting: dict[str, object], tmp_path: Path) -> None:
    prefix = str(tmp_path / "toy")
    spm.SentencePieceTrainer.train(
        sentence_iterator=sentencepiece_toys.lines(500),
        model_prefix=prefix,
        vocab_size=300,
        hard_vocab_limit=False,
        num_threads=1,
        num_sub_iterations=1,
        minloglevel=2,
        **setting,
    )
    model = read_model(prefix + ".model")
    ours, theirs = library(model.serialized()), spm.SentencePieceProcessor(prefix + ".model")
    texts = ["  a  ÀB ﬁ\t ", "foo<sep> foobar", "12 34", *sentencepiece_toys.lines(100)]
    assert ours.encode(texts) == theirs.encode(texts)
    assert ours.normalize(texts) == theirs.normalize(texts)


def test_other_orders_and_forms_of_fields_are_read() -> None:
    """A protocol buffer may have its fields in any order, and defaults written out."""
    data = sentencepiece_toys.trained("unigram")
    model = parse_model(data, "toy")
    plain = b"\n\x0a\n\x01J\x15\0\0\x80\xbf\x18\x01"  # NORMAL, written out
    turned = b"\n\x0a\x18\x01\x15\0\0\x80\xbf\n\x01K"  # kind, score, text
    bare = b"\n\x03\n\x01Q"  # no score
    found = parse_model(data + plain + turned + bare, "longer")
    assert found.texts[len(model.texts) :] == ("J", "K", "Q")
    assert found.scores[-3:].tolist() == [-1.0, -1.0, 0.0]
    assert set(found.kinds[-3:]) == {NORMAL}


def test_special_names_are_taken_from_texts() -> None:
    """A user's own `<mask>` would be cut out of every text: it becomes a control piece."""
    kinds = bytes([UNKNOWN, USER_DEFINED, NORMAL, NORMAL])
    model = model_of(["<unk>", "<mask>", "a", "</s>"], [0.0] * 4, kinds)
    assert model.with_controls({"<mask>", "</s>", "<unk>"}).kinds == bytes(
        [UNKNOWN, CONTROL, NORMAL, CONTROL]
    )


def test_maps_of_the_library_are_sound() -> None:
    for name in ("nfkc", "nmt_nfkc", "nfkc_cf", "nmt_nfkc_cf"):
        model = sentencepiece_toys.with_rules(name)
        check_character_map(parse_model(model, name).character_map)


def test_a_denormalizer_stays_in_the_file() -> None:
    model = parse_model(sentencepiece_toys.trained("unigram"), "toy")
    changed = dataclasses.replace(model, denormalizer=model.character_map)
    assert parse_model(changed.serialized(), "again") == changed


@pytest.mark.parametrize(
    ("texts", "scores", "reason"),
    [
        (["<unk>", "a"], [0.0, float("nan")], "score nan"),
        (["<unk>", "a"], [0.0, 1e300], "score|32 bits"),
        (["<unk>", ""], [0.0, 0.0], "0 bytes"),
        (["<unk>", "\ud800"], [0.0, 0.0], "not UTF-8"),
        (["<unk>", "a\0"], [0.0, 0.0], r"U\+0000"),
    ],
)
def test_pieces_from_elsewhere_are_checked(
    texts: list[str], scores: list[float], reason: str
) -> None:
    with pytest.raises(VocabularyError, match=reason):
        model_of(texts, scores, bytes([UNKNOWN, NORMAL]))


def test_the_limit_of_pieces_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentencepiece_file, "MAX_PIECES", 100)
    with pytest.raises(VocabularyError, match="more than 100 pieces"):
        parse_model(sentencepiece_toys.trained("unigram"), "toy")


def test_the_file_is_named_in_errors(tmp_path: Path) -> None:
    with pytest.raises(VocabularyError, match=r"no\.model cannot be read: No such file"):
        read_model(tmp_path / "no.model")


@pytest.mark.system
@pytest.mark.skipif(not XLMR.is_file(), reason="needs the shared folder")
def test_xlm_r_comes_back_byte_for_byte() -> None:
    """But for the settings of its training."""
    data = lzma.decompress(XLMR.read_bytes())
    model = parse_model(data, "xlmr.model")
    assert len(model.texts) == 250_000 and model.texts[:4] == ("<unk>", "<s>", "</s>", ",")
    assert max(map(len, model.texts)) == 16
    assert max(len(text.encode()) for text in model.texts) == 48
    assert not any("▁" in text[1:] for text in model.texts)
    written = model.serialized()
    first = data.index(b"\x12")  # the pieces come first in both
    assert written[:first] == data[:first]
    assert model.character_map in written
    assert parse_model(written, "again") == model

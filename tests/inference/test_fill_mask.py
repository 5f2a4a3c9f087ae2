"""fill_mask(): fairseq's tuples, with the right probabilities and without specials."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from families import write_family
from questions import LONG, log_probs_of
from small_models import small_roberta
from torch import Tensor

from roberta_hub import RobertaHubInterface, load_model
from roberta_hub.errors import InputError

MASK = 50264
SPECIALS = [0, 1, 2, 3, 50260, 50261, 50262, 50263, 50264]
"""`<s> <pad> </s> <unk>`, <|endoftext|>, the fillers and `<mask>`."""


def masked_ids(roberta: RobertaHubInterface, text: str) -> Tensor:
    """Text pieces and masks put together by hand; the space before a mask is the mask's."""
    ids: list[int] = [0]
    for i, span in enumerate(text.split("<mask>")):
        ids += [MASK] * (i > 0) + roberta.encode(span.rstrip())[1:-1].tolist()
    return torch.tensor([*ids, 2])


def probabilities(roberta: RobertaHubInterface, text: str) -> Tensor:
    """At each mask, over the whole vocabulary: (masks, V)"""
    ids = masked_ids(roberta, text)
    return log_probs_of(roberta, ids)[ids.eq(MASK)].exp()


def ranked(row: Tensor, topk: int) -> tuple[list[int], list[float]]:
    row = row.clone()
    row[SPECIALS] = -1
    values, ids = row.topk(topk)
    return ids.tolist(), values.tolist()


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        ("The capital is <mask>.", "The capital is", "."),
        ("<mask> is here", "", " is here"),
        ("word<mask>word", "word", "word"),
        ("two  <mask> spaces", "two ", " spaces"),
        ("can’t 🙂 <mask>", "can’t 🙂", ""),
        ("<mask>", "", ""),
    ],
)
def test_the_words_of_one_mask(
    roberta: RobertaHubInterface, text: str, before: str, after: str
) -> None:
    found = roberta.fill_mask(text, topk=7)
    ids, values = ranked(probabilities(roberta, text)[0], 7)
    assert [token for _, _, token in found] == [roberta.tokenizer.decode_id(i) for i in ids]
    assert [value for _, value, _ in found] == pytest.approx(values, rel=1e-3)
    assert [filled for filled, _, _ in found] == [before + token + after for _, _, token in found]
    assert len(roberta.fill_mask(text)) == 5


def test_specials_are_left_out_even_if_most_probable(roberta: RobertaHubInterface) -> None:
    """fairseq lost them from the list and gave their probabilities to others."""
    own = copy.deepcopy(roberta)
    with torch.no_grad():
        own.model.encoder.lm_head.bias[SPECIALS] += 30  # type: ignore[union-attr, index]
    text = "a <mask> b"
    row = probabilities(own, text)[0]
    assert set(row.topk(len(SPECIALS)).indices.tolist()) == set(SPECIALS)
    found = own.fill_mask(text, topk=3)
    ids, values = ranked(row, 3)
    assert [token for _, _, token in found] == [own.tokenizer.decode_id(i) for i in ids]
    assert [value for _, value, _ in found] == pytest.approx(values, rel=1e-3)
    assert sum(values) < 0.01  # the mass is the specials', and stays theirs


@pytest.mark.system
def test_all_probabilities_and_those_of_the_specials_add_up_to_one(
    roberta: RobertaHubInterface,
) -> None:
    words = int(roberta.tokenizer.words.sum())
    assert words == 50265 - len(SPECIALS)
    found = roberta.fill_mask("a <mask> b", topk=words)
    row = probabilities(roberta, "a <mask> b")[0]
    assert len(found) == words
    total = sum(value for _, value, _ in found) + float(row[SPECIALS].sum())
    assert total == pytest.approx(1, abs=1e-4)


def test_several_masks_are_filled_one_at_a_time(roberta: RobertaHubInterface) -> None:
    text = "A <mask> and<mask> <mask>."
    found = roberta.fill_mask(text, topk=2)
    rows = probabilities(roberta, text)
    assert len(found) == len(rows) == 3
    for number, (own, row) in enumerate(zip(found, rows, strict=True)):
        ids, values = ranked(row, 2)
        assert [value for _, value, _ in own] == pytest.approx(values, rel=1e-3)
        for (filled, _, token), i in zip(own, ids, strict=True):
            assert token == roberta.tokenizer.decode_id(i)
            assert filled.count("<mask>") == 2
            spots = ["A", " and", " ", "."]
            spots[number] = spots[number].removesuffix(" ")
            masks = [" <mask>" if n == 0 else "<mask>" for n in range(3)]
            masks[number] = token
            assert filled == spots[0] + masks[0] + spots[1] + masks[1] + spots[2] + masks[2] + "."


def test_a_list_gives_a_list_of_singles(roberta: RobertaHubInterface) -> None:
    texts = ["a <mask>", "<mask> and <mask>", "a longer text with a <mask> in it", "a <mask>"]
    found = roberta.fill_mask(texts, topk=3, batch_tokens=12)
    assert isinstance(found, list) and len(found) == 4
    for text, own in zip(texts, found, strict=True):
        alone = roberta.fill_mask(text, topk=3)
        flat, wanted = (
            [row for mask in result for row in mask] if text.count("<mask>") > 1 else result
            for result in (own, alone)
        )
        assert [(f, t) for f, _, t in flat] == [(f, t) for f, _, t in wanted]
        assert [p for _, p, _ in flat] == pytest.approx([p for _, p, _ in wanted], rel=1e-3)
    assert roberta.fill_mask([]) == []
    assert roberta.fill_mask(["a <mask>"])[0][0] == roberta.fill_mask("a <mask>")[0]


@pytest.mark.parametrize(("text", "space"), [("It is <mask>.", " "), ("<mask> it is", "")])
def test_targets(roberta: RobertaHubInterface, text: str, space: str) -> None:
    words = ["good", " bad", "the"]
    found = roberta.fill_mask(text, targets=words)
    row = probabilities(roberta, text)[0]
    wanted = {}
    for word in words:
        text = word if word.startswith(" ") else space + word  # its own blank stays
        (i,) = roberta.encode(text)[1:-1].tolist()
        wanted[text] = float(row[i])
    assert {token: value for _, value, token in found} == pytest.approx(wanted, rel=1e-3)
    values = [value for _, value, _ in found]
    assert values == sorted(values, reverse=True)


@pytest.mark.system
@pytest.mark.parametrize("text", ["It is <mask>.", "<mask> it is", "un<mask>", "<mask> or <mask>"])
@pytest.mark.parametrize("kind", ["roberta", "bert", "bert-cased", "xlm-roberta", "gottbert"])
def test_what_is_found_keeps_its_probability_as_a_target(
    roberta: RobertaHubInterface, tmp_path: Path, kind: str, text: str
) -> None:
    """Alone, in a list, and after a copy: also endings, and parts of characters."""
    if kind != "roberta":
        roberta = load_model(write_family(kind, tmp_path)).eval()
    many = min(300, int(roberta.tokenizer.words.sum()))
    found = roberta.fill_mask(text, topk=many)
    masks: Any = found if text.count("<mask>") > 1 else [found]
    for number, mask in enumerate(masks):
        words = [word for _, _, word in mask]
        for targets in (words, (word for word in words), pickle.loads(pickle.dumps(words))):
            again: Any = roberta.fill_mask(text, targets=targets)
            again = again[number] if len(masks) > 1 else again
            assert {word.piece: p for _, p, word in again} == pytest.approx(
                {word.piece: p for _, p, word in mask}
            )
        for filled, p, word in mask[:: many // 7]:
            ((text_again, p_again, word_again),) = (
                roberta.fill_mask(text, targets=[word])[number]
                if len(masks) > 1
                else roberta.fill_mask(text, targets=[word])
            )
            assert (text_again, word_again) == (filled, word)
            assert p_again == pytest.approx(p)


def test_berts_endings_are_targets(tmp_path: Path) -> None:
    roberta = load_model(write_family("bert", tmp_path)).eval()
    ids = roberta.tokenizer.encode_masked("the house<mask> are old")
    row = log_probs_of(roberta, ids)[ids.eq(roberta.tokenizer.mask_idx)][0].exp()
    found = roberta.fill_mask("the house<mask> are old", targets=["##s", "s", "##ing", " house"])
    names = roberta.tokenizer.ids_of_pieces
    assert {word.piece: p for _, p, word in found} == pytest.approx(
        {name: float(row[names[name]]) for name in ("##s", "s", "##ing", "house")}
    )
    assert "the houses are old" in [text for text, _, _ in found]
    for special in ("[MASK]", "[CLS]", "##qqqq"):
        with pytest.raises(InputError, match="pieces"):
            roberta.fill_mask("the <mask>", targets=[special])


def test_a_word_of_another_model_is_read_as_a_text(
    roberta: RobertaHubInterface, tmp_path: Path
) -> None:
    other = load_model(write_family("bert", tmp_path)).eval()
    ((_, _, word),) = other.fill_mask("the <mask>", targets=["house"])
    assert word.piece == "house" and word == " house"
    ((_, _, ours),) = roberta.fill_mask("the <mask>", targets=[word])
    assert ours.piece == "Ġhouse" and ours == " house"


def test_a_target_need_be_one_piece_only_where_a_mask_asks_for_it(
    roberta: RobertaHubInterface,
) -> None:
    """ "Berlin" is Ber + lin where a text begins with it, and one piece after a space."""
    found = roberta.fill_mask("I live in <mask>.", targets=["Berlin", "terrible"])
    row = probabilities(roberta, "I live in <mask>.")[0]
    ids = [int(roberta.encode(f" {word}")[1]) for word in ("Berlin", "terrible")]
    wanted = sorted((float(row[i]) for i in ids), reverse=True)
    assert [value for _, value, _ in found] == pytest.approx(wanted, rel=1e-3)
    for text in ("<mask> is big.", "I live in <mask>. <mask> is big. (<mask>)"):
        with pytest.raises(InputError, match="'Berlin' is 2 pieces without a space before it"):
            roberta.fill_mask(text, targets=["Berlin"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"masked_input": "no mask"},
            r"masked_input\[0\]: 'no mask' has no mask: please add one <mask>",
        ),
        ({"masked_input": ["a <mask>", "none"]}, r"masked_input\[1\]: 'none' has no mask"),
        ({"topk": 0}, "topk is 0; choose 1 to 50256"),
        ({"topk": 50257}, "topk is 50257; choose 1 to 50256"),
        ({"topk": 2.0}, r"topk is 2\.0"),
        ({"targets": []}, "pass a list of words"),
        ({"targets": "good"}, "pass a list of words"),
        ({"targets": ["unbelievability"]}, r"'unbelievability' is \d pieces.*score"),
        ({"targets": [""]}, "'' is "),
    ],
)
def test_questions_that_cannot_be_put(
    roberta: RobertaHubInterface, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        roberta.fill_mask(**{"masked_input": "a <mask>", **arguments})


@pytest.mark.parametrize("text", [None, 3, ("a <mask>", "pair")])
def test_only_str_has_a_mask(roberta: RobertaHubInterface, text: Any) -> None:
    with pytest.raises(
        TypeError, match=rf"masked_input\[0\]: (missing \()?a {type(text).__name__}"
    ):
        roberta.fill_mask([text])


def test_a_mask_in_a_long_text_is_read_in_its_best_window(roberta: RobertaHubInterface) -> None:
    text = "<mask> " + LONG + " <mask>"
    found = roberta.fill_mask(text, topk=2, stride=4)
    ids = masked_ids(roberta, text)
    first = torch.cat([ids[:47], ids[-1:]])
    last = torch.cat([ids[:1], ids[-47:]])
    for own, window, column in ((found[0], first, 1), (found[1], last, -2)):
        _, values = ranked(log_probs_of(roberta, window)[column].exp(), 2)
        assert [value for _, value, _ in own] == pytest.approx(values, rel=1e-3)
    assert found[0][0][0].endswith("<mask>") and found[1][0][0].startswith("<mask>")
    with pytest.raises(ValueError, match="too long"):
        roberta.fill_mask(text)
    with pytest.raises(ValueError, match=r"truncation cut off a <mask>.*stride"):
        roberta.fill_mask(text, truncate=True)


def test_a_model_without_lm_head_says_so() -> None:
    roberta = small_roberta(lm_head=False)
    for call in (lambda: roberta.fill_mask("a <mask>"), lambda: roberta.score(["a"])):
        with pytest.raises(
            ValueError, match=r"no language-model head; load a masked-LM checkpoint"
        ):
            call()
    assert roberta.features(["a"])[0].shape == (3, 32)


def test_the_mode_and_gradients_of_the_caller_come_back(roberta: RobertaHubInterface) -> None:
    own = copy.deepcopy(roberta)
    wanted = own.fill_mask("a <mask>")
    assert own.train().fill_mask("a <mask>") == wanted
    assert own.training and own.model.training and torch.is_grad_enabled()
    with pytest.raises(ValueError, match="no mask"):
        own.fill_mask("a")
    assert own.model.training

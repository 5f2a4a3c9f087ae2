"""`fill_mask` in the situations of transformers' tests of its pipeline, which answers beside it.

The situations are those of tests/pipelines/test_pipelines_fill_mask.py of huggingface/transformers;
their models come from a network, and those here are small and random. The pipeline lists special
tokens among its words and `fill_mask` never does, so they are left out of its answers.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from families import write_family

from roberta_hub import RobertaHubInterface, load_model
from roberta_hub.errors import InputError, InputTypeError
from roberta_hub.inference.fill_mask import FoundWord

pytestmark = pytest.mark.parity
transformers = pytest.importorskip("transformers")
pytest.importorskip("sentencepiece")

KINDS = [
    "roberta",
    "bert",
    "bert-cased",
    "distilbert",
    "electra",
    "xlm-roberta",
    "camembert",
    "albert",
]
BEFORE = ["This is a {}", "My name is {}", "The largest city in France is {}", "{} test", "{}"]
"""Texts of their tests, and a mask where a text begins."""


@pytest.fixture(scope="module", params=KINDS)
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """(the pipeline, ours) of one folder."""
    transformers.utils.logging.disable_progress_bar()
    folder = write_family(request.param, tmp_path_factory.mktemp(request.param), head="lm")
    ours = load_model(folder).eval()
    if request.param == "roberta":  # its files are in the package
        ours.save(folder / "whole", format="huggingface")
        folder = folder / "whole"
    return transformers.pipeline("fill-mask", model=str(folder), device="cpu"), ours


def words_of(pipeline: Any, ours: RobertaHubInterface, text: str, **options: Any) -> list[Any]:
    """For each mask (piece, score, words of the whole text) of the pipeline, without specials."""
    written = text.format(*[pipeline.tokenizer.mask_token] * text.count("{}"))
    found = pipeline(written, **options)
    masks = [found] if isinstance(found[0], dict) else found
    words = ours.tokenizer.words
    return [
        [
            (
                pipeline.tokenizer.convert_ids_to_tokens(row["token"]),
                pytest.approx(row["score"], abs=1e-6),
                bare(row["sequence"], pipeline),
            )
            for row in mask
            if words[row["token"]]
        ]
        for mask in masks
    ]


def ours_of(pipeline: Any, ours: RobertaHubInterface, text: str, **options: Any) -> list[Any]:
    count = text.count("{}")
    found: Any = ours.fill_mask(text.format(*["<mask>"] * count), **options)
    masks = [found] if count == 1 else found
    return [[(word.piece, p, bare(t, pipeline)) for t, p, word in mask] for mask in masks]


def bare(text: str, pipeline: Any) -> str:
    """A text without blanks, controls and capitals, which its tokenizer may not give back."""
    specials = [re.escape(token) for token in [*pipeline.tokenizer.all_special_tokens, "<mask>"]]
    return re.sub("|".join([*specials, r"\s", "##", "\ufffd"]), "", text).lower()


def sorted_by_score(rows: list[Any]) -> list[Any]:
    return sorted(rows, key=lambda row: row[0])


@pytest.mark.parametrize("text", BEFORE)
def test_the_most_probable_words(both: Any, text: str) -> None:
    pipeline, ours = both
    many = min(len(ours.tokenizer), 700)
    (wanted,) = words_of(pipeline, ours, text, top_k=many)
    for topk in (1, 2, 5, 100):
        assert ours_of(pipeline, ours, text, topk=topk) == [wanted[:topk]]
    (whole,) = ours_of(pipeline, ours, text, topk=len(wanted))
    assert sorted_by_score(whole) == sorted_by_score(wanted)


def test_several_masks(both: Any) -> None:
    pipeline, ours = both
    for text in ("My name is {} {}", "This is a {} {} {}"):
        wanted = words_of(pipeline, ours, text, top_k=40)
        for topk in (1, 2):
            found = ours_of(pipeline, ours, text, topk=topk)
            assert [[row[:2] for row in mask] for mask in found] == [
                [row[:2] for row in mask[:topk]] for mask in wanted
            ]
            assert len(found) == text.count("{}")


def test_lists(both: Any) -> None:
    """One text in a list is a list of one here; the pipeline forgets the list."""
    pipeline, ours = both
    texts = ["This is a <mask>", "Another <mask> great test."]
    found = ours.fill_mask(texts)
    assert len(found) == 2 and ours.fill_mask(texts[:1])[0] == ours.fill_mask(texts[0])
    for text, own in zip(texts, found, strict=True):
        (wanted,) = words_of(pipeline, ours, text.replace("<mask>", "{}"), top_k=40)
        assert [(w.piece, p) for _, p, w in own] == [row[:2] for row in wanted[:5]]


def test_targets(both: Any) -> None:
    """Words of the vocabulary by their names in it, in a list, twice, and what was found again."""
    pipeline, ours = both
    names = sorted(name for name in pipeline.tokenizer.get_vocab() if is_word(name, ours))
    for targets in (names[:2], names[:3], names[-3:], names[5:50:9]):
        (wanted,) = words_of(pipeline, ours, "This is a {}", targets=targets, top_k=len(targets))
        given = found_words(ours, targets)
        (found,) = ours_of(pipeline, ours, "This is a {}", targets=given)
        assert sorted_by_score(found) == sorted_by_score(wanted)
        assert [row[1] for row in found] == sorted((row[1] for row in found), reverse=True)
        again = [word for _, _, word in ours.fill_mask("This is a <mask>", targets=given)]
        assert ours_of(pipeline, ours, "This is a {}", targets=again) == [found]


def is_word(name: str, ours: RobertaHubInterface) -> bool:
    number = ours.tokenizer.ids_of_pieces.get(name)
    return number is not None and bool(ours.tokenizer.words[number])


def found_words(ours: RobertaHubInterface, names: list[str]) -> list[Any]:
    """The words of these names as `fill_mask` finds them."""
    ids = ours.tokenizer.ids_of_pieces
    return [FoundWord(ours.tokenizer.decode_id(ids[name]), name) for name in names]


def test_a_target_that_is_named_twice_is_answered_once(both: Any) -> None:
    """Also where two spellings are one piece: there is no more to rank."""
    pipeline, ours = both
    names = sorted(name for name in pipeline.tokenizer.get_vocab() if is_word(name, ours))[:3]
    targets = found_words(ours, [names[0], names[1], names[0], names[2], names[1]])
    theirs = pipeline(
        f"My name is {pipeline.tokenizer.mask_token}", targets=[t.piece for t in targets], top_k=10
    )
    found = ours.fill_mask("My name is <mask>", targets=targets, topk=10)
    assert len(found) == len(theirs) == 3
    assert [p for _, p, _ in found] == pytest.approx([row["score"] for row in theirs], abs=1e-6)
    two = ours.fill_mask("a <mask> or <mask>", targets=targets)
    assert [len(mask) for mask in two] == [3, 3]  # type: ignore[arg-type]


def test_spaces_before_targets(tmp_path: Path) -> None:
    """ " Patrick" is one piece; " Teven" is more: the first of them there, and refused here."""
    ours = load_model("roberta.tiny").eval()
    ours.save(tmp_path, format="huggingface")
    pipeline = transformers.pipeline("fill-mask", model=str(tmp_path), device="cpu")
    targets = [" Patrick", " Clara", " Te"]
    theirs = pipeline("My name is <mask>", targets=[" Patrick", " Clara", " Teven"], top_k=3)
    found = ours.fill_mask("My name is <mask>", targets=targets, topk=3)
    assert [(word, p) for _, p, word in found] == [
        (row["token_str"], pytest.approx(row["score"], rel=1e-4)) for row in theirs
    ]
    assert [text for text, _, _ in found] == [row["sequence"] for row in theirs]
    without = ours.fill_mask("My name is <mask>", targets=[t.strip() for t in targets])
    assert without == found  # a word gets the blank that the mask has
    with pytest.raises(InputError, match=r"' Teven' is 2 pieces after a space, \['ĠTe', 'ven'\]"):
        ours.fill_mask("My name is <mask>", targets=[" Patrick", " Teven"])


@pytest.mark.parametrize("targets", [[""], [], "", ["  "]])
def test_targets_that_are_none(both: Any, targets: Any) -> None:
    pipeline, ours = both
    with pytest.raises(InputError, match="target"):
        ours.fill_mask("This is a <mask>", targets=targets)
    if targets != ["  "]:
        with pytest.raises(ValueError):
            pipeline(f"This is a {pipeline.tokenizer.mask_token}", targets=targets)


def test_texts_without_a_mask(both: Any) -> None:
    pipeline, ours = both
    with pytest.raises(Exception, match="No mask_token"):
        pipeline("This is")
    with pytest.raises(InputError, match="'This is' has no mask"):
        ours.fill_mask("This is")
    with pytest.raises(ValueError):
        pipeline([None])
    with pytest.raises(InputTypeError, match=r"\[0\]: missing \(a NoneType\)"):
        ours.fill_mask([None])  # type: ignore[list-item]


def test_a_long_text_is_cut(both: Any) -> None:
    """By `truncate=True`, as by the pipeline's tokenizer_kwargs; without it both refuse."""
    pipeline, ours = both
    text = "This is a {}" + " and the train was late" * 200
    limit = {"truncation": True, "max_length": ours.max_positions}
    (wanted,) = words_of(pipeline, ours, text, top_k=40, tokenizer_kwargs=limit)
    (found,) = ours_of(pipeline, ours, text, topk=5, truncate=True)
    assert [row[:2] for row in found] == [row[:2] for row in wanted[:5]]
    with pytest.raises(InputError, match=f"too long: .* > {ours.max_positions}"):
        ours.fill_mask(text.format("<mask>"))


def test_half_precision(tmp_path: Path) -> None:
    """Probabilities are float32's, whatever the weights are."""
    folder = write_family("distilbert", tmp_path)
    ours = load_model(folder, dtype=torch.float16).eval()
    pipeline = transformers.pipeline("fill-mask", model=str(folder), dtype=torch.float16)
    text = "Paris is the [MASK] of France."
    wanted = {row["token_str"]: row["score"] for row in pipeline(text, top_k=100)}
    for _, p, word in ours.fill_mask(text, topk=5):
        name = word.piece
        assert p == pytest.approx(wanted[name], rel=2e-2)

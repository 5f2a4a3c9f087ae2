"""The tabs of a model: which there are, that their examples answer well, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hostile_strings import hostile_strings
from small_models import small_roberta

import roberta_hub
from roberta_hub import RobertaHubInterface
from roberta_hub.errors import InputError
from roberta_hub.ui.blocks import reply
from roberta_hub.ui.tabs import MAX_CHARACTERS, MAX_COMPARED, MAX_LINES, Tab, tabs

pytest.importorskip("html5lib", reason="no html5lib; pip install '.[test]'")
from test_markup import parsed, text_of

SHOWN = {
    "fill_mask": "Fill a mask",
    "zero_shot": "Label",
    "explain": "Two texts",
    "similarity": "Compare",
    "search": "Search",
    "tokens": "Tokens",
}
BEST = {
    "fill_mask": ["years", "University", "by"],
    "zero_shot": ["sports", "billing", "delivery"],
    "explain": ["contradiction", "entailment"],
    "similarity": [[1, 0, 3, 2], [1, 0, 3, 2]],
    "search": ["The museum opens at nine.", "Dogs are not allowed."],
    "tokens": [9, 13],
}
"""The right answer of each example: of `similarity` the nearest other line of each."""


def best_of(name: str, found: Any) -> Any:
    if name == "fill_mask":
        return found[0][2].strip()
    if name == "explain":
        return found.to_dict()["label"]
    if name == "similarity":
        return (found - 2 * found.new_ones(len(found)).diag()).argmax(1).tolist()
    if name == "search":
        return found[0].text
    return len(found.to_dict()["pieces"]) if name == "tokens" else found.label


def share_of(name: str, found: Any) -> float:
    """How sure the answer is; 1 where there is no doubt about it."""
    if name == "fill_mask":
        return float(found[0][1])
    if name == "explain":
        return float(found.to_dict()["score"])
    return float(found.score) if name == "zero_shot" else 1.0


def test_the_model_in_the_package_has_six_tabs(tiny: RobertaHubInterface) -> None:
    assert {tab.name: tab.title for tab in tabs(tiny)} == SHOWN == {k: SHOWN[k] for k in BEST}


def test_every_example_answers_well(tiny: RobertaHubInterface) -> None:
    for tab in tabs(tiny):
        assert len(tab.examples) == len(BEST[tab.name]) >= 2
        for example, best in zip(tab.examples, BEST[tab.name], strict=True):
            found = tab.asked(example).answer(tiny)
            assert best_of(tab.name, found) == best, (tab.name, example, found)
            assert share_of(tab.name, found) >= 0.5, (tab.name, example, found)


def test_a_tab_is_there_where_the_model_has_the_head(every_head: Path) -> None:
    roberta = roberta_hub.load_model(every_head)
    found = {tab.name: tab for tab in tabs(roberta)}
    assert list(found) == [
        "fill_mask",
        "zero_shot",
        *("explain: nli", "explain: race", "explain: topic"),
        *("similarity", "search", "tag", "answer", "tokens"),
    ]
    assert len(found["explain: topic"].fields) == 1  # trained on single texts
    assert [part.needed for part in found["explain: nli"].fields] == [True, True]
    assert [part.needed for part in found["explain: race"].fields] == [True, False]
    assert "expect poor answers" in found["search"].says
    for tab in found.values():
        for example in tab.examples:
            tab.draw(call := tab.asked(example), call.answer(roberta))
    roberta.model.encoder.lm_head = None
    del roberta.model.classification_heads["nli"]
    assert not {"fill_mask", "zero_shot"} & {tab.name for tab in tabs(roberta)}


def test_several_heads_have_a_tab_each(every_head: Path) -> None:
    roberta = roberta_hub.load_model(every_head)
    roberta.register_token_head("pos", labels=["NOUN", "VERB"])
    found = {tab.title: tab for tab in tabs(roberta)}
    call = found["Entities: pos"].asked(("A dog ran.",))
    assert call.shell("m") == "roberta-hub tag -m m --head pos 'A dog ran.'"
    assert {span.label for span in call.answer(roberta)} <= {"NOUN", "VERB"}


@pytest.mark.parametrize(
    ("labels", "examples"),
    [
        (["bad", "very_good"], ["This is bad.", "This is very good."]),
        (["плохо", "хорошо"], ["This is плохо.", "This is хорошо."]),
        (["LABEL_0", "LABEL_1"], ["A text of your own."]),
    ],
)
def test_a_page_opens_on_the_head_that_was_taught(
    labels: list[str], examples: list[str], tmp_path: Path
) -> None:
    """As `roberta-hub ui -m mine` does."""
    mine = small_roberta()
    mine.register_classification_head("topic", len(labels), labels=labels)
    nli = ("contradiction", "neutral", "entailment")
    mine.register_classification_head("nli", 3, labels=nli)
    mine.save(tmp_path / "mine")
    roberta = roberta_hub.load_model(tmp_path / "mine")
    first, *others = tabs(roberta)
    assert first.head == "topic" and [text for text, *_ in first.examples] == examples
    assert {tab.name for tab in others} >= {"fill_mask", "tokens"}
    call = first.asked(first.examples[0])
    assert call.answer(roberta).to_dict()["label"] in labels


def test_a_page_opens_on_the_only_head_whatever_its_kind() -> None:
    tagger = small_roberta()
    tagger.register_token_head("pos", labels=["NOUN", "VERB"])
    assert tabs(tagger)[0].head == "pos"


def tab_of(roberta: RobertaHubInterface, name: str) -> Tab:
    return next(tab for tab in tabs(roberta) if tab.name == name)


@pytest.mark.parametrize(
    ("name", "values", "said"),
    [
        ("fill_mask", ("no mask",), "has no mask: please add one <mask> token"),
        ("fill_mask", (" \n",), '"Text with <mask>" is empty; write something into it'),
        ("fill_mask", ("a <mask> " + "b " * 600,), "In Python: pass truncate=True to cut it"),
        ("zero_shot", ("text", ""), '"Labels, with commas between them" is empty'),
        ("zero_shot", ("text", " , "), "there is no label; write different ones"),
        ("zero_shot", ("text", "a,a"), "the label 'a' is there twice"),
        ("explain", ("a", ""), '"Second text" is empty'),
        ("similarity", ("a\n" * (MAX_COMPARED + 1),), f"at most {MAX_COMPARED} are compared"),
        ("similarity", ("a\n\n" + "b " * 400,), "line 2: "),
        ("search", ("q", "a\n" * (MAX_LINES + 1)), f"at most {MAX_LINES} are searched"),
        ("search", ("q", "a\n" + "b " * 400), "line 2: "),
        ("search", ("b " * 400, "a"), "tokens"),
        ("tokens", ("a" * (MAX_CHARACTERS + 1),), "20,001 characters, and the page takes 20,000"),
        ("tokens", ("a\ud800",), "half of a surrogate pair"),
    ],
)
def test_what_cannot_be_answered_is_a_sentence(
    tiny: RobertaHubInterface, name: str, values: tuple[str, ...], said: str
) -> None:
    tab = tab_of(tiny, name)
    html, python, shell = reply(tab, "roberta.tiny", tiny, values)
    shown = text_of(parsed(html))
    assert said in shown and (python, shell) == ("", ""), shown
    assert "Traceback" not in shown and "texts[" not in shown and "corpus[" not in shown


@pytest.mark.system
def test_hostile_texts_stay_texts(every_head: Path) -> None:
    roberta = roberta_hub.load_model(every_head)
    for tab in tabs(roberta):
        for text in [*hostile_strings(32), "a" * 10_000, "🙂" * 10_000, "$(rm -rf ~)"]:
            given = text + " <mask>" if tab.name == "fill_mask" else text
            html, python, shell = reply(tab, "m", roberta, (given,) * len(tab.fields))
            parsed(html).itertext()
            if python:
                compile(python, "copied", "exec")
                assert shell.replace("\n", "").isprintable()


def test_labels_with_signs_of_a_list_are_quoted(tiny: RobertaHubInterface) -> None:
    call = tab_of(tiny, "zero_shot").asked(("t", 'say "no"\nit\'s,$x'))
    assert call.given[1] == ("labels", ['say "no"', "it's", "$x"])
    assert call.command is not None and call.command.flags[1] == '"say ""no""",it\'s,$x'


def test_a_long_text_is_refused_before_the_model_reads_it(tiny: RobertaHubInterface) -> None:
    with pytest.raises(InputError, match="reads files of any length"):
        tab_of(tiny, "tokens").asked(("a" * 1_000_000,))

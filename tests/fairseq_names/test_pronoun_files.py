"""Files of WSC and Winogrande, as the loops of fairseq's READMEs read them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from roberta_hub.errors import InputError
from roberta_hub.fairseq_names.pronoun_files import (
    convert_sentence_to_json,
    extended_noun_chunks,
    filter_noun_chunks,
    find_span,
    find_token,
    jsonl_iterator,
    winogrande_jsonl_iterator,
)

BLANK = pytest.importorskip("spacy").blank("en")
TROPHY = "The trophy would not fit in the suitcase because it was too big."


def row(text: str = TROPHY, query: str = "The trophy", place: int = 9, **more: Any) -> str:
    target = {"span1_text": query, "span2_text": "it", "span2_index": place, "span1_index": 0}
    target |= more.pop("target", {})
    return json.dumps({"text": text, "target": target, **more})


def write(folder: Path, *rows: str) -> Path:
    (folder / "val.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return folder / "val.jsonl"


def test_marks_for_disambiguate_pronoun(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        row(label=True),
        row(query="the suitcase.", label=False),
        row(place=8),  # some are one too low; a test set has no labels
        row(query="The\ntrophy"),
        row("It rained. Ann said it.", "Ann", 4, label=True, target={"span2_text": "it."}),
    )
    assert list(jsonl_iterator(path, eval=True)) == [
        ("_The trophy_ would not fit in the suitcase because [it] was too big.", True),
        ("The trophy would not fit in _the suitcase_ because [it] was too big.", False),
        ("_The trophy_ would not fit in the suitcase because [it] was too big.", None),
        ("It rained. _Ann_ said [it].", True),
    ]
    assert len(list(jsonl_iterator(str(path), positive_only=True, eval=True))) == 3
    marked = next(jsonl_iterator(path, eval=True))[0]
    assert convert_sentence_to_json(marked)["text"] == TROPHY


ODD = {
    "not JSON: ": "{",
    "a JSON list, not an object": "[1]",
    "a row of WSC has 'text' and 'target'": "{}",
    "'it' does not stand at word 2": row(place=2),
    "the query 'A dog' does not stand in the text": row(query="A dog"),
    "the query 'rop' does not stand": row(query="rop"),
}


@pytest.mark.parametrize("said", ODD)
def test_a_row_that_cannot_be_read_has_its_place(said: str, tmp_path: Path) -> None:
    path = write(tmp_path, row(), ODD[said])
    with pytest.raises(InputError) as error:
        list(jsonl_iterator(path, eval=True))
    assert str(error.value).startswith(f"{path}:2: {said}")


def test_winogrande(tmp_path: Path) -> None:
    example = {"sentence": "The _ fits.", "option1": "key", "option2": "lock", "answer": "2"}
    path = write(tmp_path, json.dumps(example), json.dumps({**example, "answer": "1"}))
    rows = list(winogrande_jsonl_iterator(path))
    assert rows == [("The _ fits.", (4, 5), "lock", "key"), ("The _ fits.", (4, 5), "key", "lock")]
    assert {row[2] for row in winogrande_jsonl_iterator(path, eval=True)} == {"key"}
    with pytest.raises(InputError, match="a row of Winogrande"):
        list(winogrande_jsonl_iterator(write(tmp_path, "{}")))


def test_spans_of_a_parsed_sentence() -> None:
    from spacy.tokens import Doc

    words = ["the", "big", "dog", "saw", "Ann", "Lee", "and", "her"]
    kinds = ["DET", "ADJ", "NOUN", "VERB", "PROPN", "PROPN", "CCONJ", "PRON"]
    heads = [2, 2, 3, 3, 5, 3, 5, 5]
    deps = ["det", "amod", "nsubj", "ROOT", "compound", "dobj", "cc", "conj"]
    doc = Doc(BLANK.vocab, words=words, pos=kinds, heads=heads, deps=deps)
    chunks = extended_noun_chunks(doc)
    assert [span.text for span in chunks] == ["the big dog", "dog", "Ann Lee", "her"]
    kept = filter_noun_chunks(chunks, exclude_pronouns=True, exclude_query="The Big Dog")
    assert [span.text for span in kept] == ["Ann Lee"]
    exact = filter_noun_chunks(chunks, exclude_query="Dog", exact_match=True)
    assert [span.text for span in exact] == ["the big dog", "Ann Lee", "her"]
    assert find_token(doc, 4).text == "big" and find_token(doc, 5) is None
    assert find_span(doc, "ann LEE", start=2).start == 4
    assert find_span(doc, "the big", start=1) is None and find_span(doc, "do") is None

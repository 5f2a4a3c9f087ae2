"""Words, choices, questions and pronouns out of the published sets' layouts.

What cannot be read of them is an error.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from learning import jsonl, table, tsv

from roberta_hub.errors import InputError
from roberta_hub.train.data.multiple_choice import read_choices
from roberta_hub.train.data.pronouns import read_pronouns
from roberta_hub.train.data.questions import read_questions
from roberta_hub.train.data.tagged_words import read_words


def test_conll(tmp_path):
    path = tmp_path / "x.txt"
    path.write_text(
        "-DOCSTART- -X- O O\n\nAda NNP I-NP B-PER\nsings VB O O\n\n\n. . O O\n", encoding="utf-8"
    )
    found = read_words(path)
    assert [e.words for e in found] == [("Ada", "sings"), (".",)]
    assert [e.tags for e in found] == [("B-PER", "O"), ("O",)]
    assert [e.where for e in found] == [f"{path}:3", f"{path}:7"]
    path.write_text("New York\tB-LOC\n\t\nis\tO")  # WNUT: tabs, and lines of them between sentences
    assert [e.words for e in read_words(path, "conll")] == [("New York",), ("is",)]


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_words_in_lists(tmp_path, suffix):
    rows = [{"w": ["Ada", "sings"], "t": ["PER", "O"]}]
    (found,) = read_words(
        table(tmp_path / f"x.{suffix}", rows), columns={"words": "w", "tags": "t"}
    )
    assert (found.words, found.tags) == (("Ada", "sings"), ("PER", "O"))


RACE: dict[str, Any] = {
    "article": " One\nday,  two. ",
    "questions": ["He _ it, _ .", "Why?"],
    "options": [["saw", "met"], ["So.", "No."]],
    "answers": ["B", "A"],
}


def test_race(tmp_path):
    """A folder of one JSON object a file; the option stands for `_`, else behind the question."""
    for level in ("high", "middle"):
        (tmp_path / level).mkdir()
        jsonl(tmp_path / level / "1.txt", [RACE])
    found = read_choices(tmp_path, "race")
    assert len(found) == 4 and found[0].context == "One day,  two."
    assert found[0].options == ("He saw it, saw .", "He met it, met .") and found[0].answer == 1
    assert found[1].options == ("Why? So.", "Why? No.") and found[1].answer == 0
    assert found[3].where == f"{tmp_path}/middle/1.txt:1, question 1"


CHOICES = [{"label": "A", "text": "a pond"}, {"label": "B", "text": "a tree"}]
COMMONSENSE: dict[str, Any] = {
    "question": {"stem": "Where is a fish?", "choices": CHOICES},
    "answerKey": "A",
}


def test_commonsense_qa(tmp_path):
    (found,) = read_choices(jsonl(tmp_path / "x.jsonl", [COMMONSENSE]), "commonsense_qa")
    assert found.context == "Q: Where is a fish?"
    assert (found.options, found.answer) == (("A: a pond", "A: a tree"), 0)


@pytest.mark.parametrize("answer", [1, "1", "four"])
def test_choices_in_a_table(tmp_path, answer):
    row = {"q": "2 + 2?", "a": "five", "b": "four", "y": answer}
    columns = {"context": "q", "options": ["a", "b"], "answer": "y"}
    for suffix in ("tsv", "jsonl", "parquet"):
        (found,) = read_choices(table(tmp_path / f"x.{suffix}", [row]), columns=columns)
        assert (found.context, found.options, found.answer) == ("2 + 2?", ("five", "four"), 1)
    listed = [{"context": "2 + 2?", "options": ["five", "four"], "answer": answer}]
    assert read_choices(jsonl(tmp_path / "y.jsonl", listed))[0].answer == 1


CONTEXT = "It was Ada, said Ada."


def squad(path: Path, **changes: Any) -> Path:
    answers = [{"text": "Ada", "answer_start": 7}, {"text": "said Ada", "answer_start": 12}]
    qa = {"id": "q7", "question": "Who?", "answers": answers, **changes}
    article = {"title": "", "paragraphs": [{"context": CONTEXT, "qas": [qa]}]}
    path.write_text(json.dumps({"version": "2.0", "data": [article]}))
    return path


def test_squad(tmp_path):
    (found,) = read_questions(squad(tmp_path / "x.json"))
    assert (found.question, found.context) == ("Who?", CONTEXT)
    assert found.answers == ((7, "Ada"), (12, "said Ada"))
    assert found.where.endswith("x.json:question q7")
    (none,) = read_questions(squad(tmp_path / "x.json", is_impossible=True, answers=[]))
    assert none.answers == ()


@pytest.mark.parametrize(
    ("given", "answers"),
    [
        ("Ada", ((7, "Ada"),)),
        ("", ()),
        ([], ()),
        (["Ada", "It"], ((7, "Ada"), (0, "It"))),
        ({"text": ["Ada"], "answer_start": [17]}, ((17, "Ada"),)),
        ({"text": [], "answer_start": []}, ()),
    ],
)
def test_questions_in_a_table(tmp_path, given, answers):
    row = {"question": "Who?", "passage": CONTEXT, "answers": given}
    suffixes = ["jsonl"] if not given else ["jsonl", "parquet"]
    for suffix in [*suffixes, *(["tsv"] if isinstance(given, str) else [])]:
        path = table(tmp_path / f"x.{suffix}", [row])
        (found,) = read_questions(path, columns={"context": "passage"})
        assert found.answers == answers


def wsc(**changes: Any) -> dict[str, Any]:
    target = {"span1_text": "the cup,", "span1_index": 3, "span2_text": "it", "span2_index": 6}
    row = {"text": 'Ada filled the cup, then saw it. "Oh."', "target": target | changes}
    return row | {"label": False, "candidates": ["Ada"]}


@pytest.mark.parametrize(("word", "place"), [("it", 6), ("it", 5), ("it.", 6)])
def test_wsc(tmp_path, word, place):
    """An index that is one too low, and punctuation of the sentence, as fairseq takes them."""
    row = wsc(span2_text=word, span2_index=place)
    (found,) = read_pronouns(jsonl(tmp_path / "x.jsonl", [row]), "wsc")
    assert (found.before, found.pronoun) == ("Ada filled the cup, then saw ", "it")
    assert (found.after, found.query) == ('. "Oh."', "the cup")
    assert (found.candidates, found.label) == (("Ada",), False)


def winogrande(**changes: Any) -> dict[str, Any]:
    row = {"sentence": "Ada saw Bo, but _ hid.", "option1": "Ada", "option2": "Bo", "answer": "2"}
    return row | changes


def test_winogrande(tmp_path):
    rows = [winogrande(), winogrande(answer=1)]
    two, one = read_pronouns(jsonl(tmp_path / "x.jsonl", rows), "winogrande")
    assert (two.before, two.after) == ("Ada saw Bo, but ", " hid.")
    assert (two.query, two.candidates, two.label) == ("Bo", ("Ada",), True)
    assert (one.query, one.candidates, one.label) == ("Ada", ("Bo",), True)


GAP = "ID Text Pronoun Pronoun-offset A A-offset A-coref B B-offset B-coref URL"


def gap(path: Path, a: str = "FALSE", b: str = "TRUE", offset: str = "12") -> Path:
    row = ["1", "Ada saw Bo. He hid.", "He", offset, "Ada", "0", a, "Bo", "8", b, "-"]
    return tsv(path, GAP.split(), [row])


@pytest.mark.parametrize(
    ("a", "b", "query", "label"),
    [
        ("FALSE", "TRUE", "Bo", True),
        ("TRUE", "FALSE", "Ada", True),
        ("FALSE", "FALSE", "Ada", False),
    ],
)
def test_gap(tmp_path, a, b, query, label):
    (found,) = read_pronouns(gap(tmp_path / "x.tsv", a, b), "gap")
    assert (found.before, found.pronoun, found.after) == ("Ada saw Bo. ", "He", " hid.")
    assert (found.query, found.label) == (query, label)
    assert {found.query, *found.candidates} == {"Ada", "Bo"}


@pytest.mark.parametrize(
    ("read", "row", "words"),
    [
        (read_words, [{"words": ["A"], "tags": []}], ":1: 1 words and 0 tags"),
        (
            read_words,
            [{"words": "A", "tags": ["O"]}],
            ":1: the column 'words' holds 'A', not a list",
        ),
        (
            read_choices,
            [{"context": "A", "options": ["b"], "answer": 1}],
            ":1: answer 1 is none of 1",
        ),
        (
            read_choices,
            [{"context": "A", "options": ["b"], "answer": "-1"}],
            ":1: answer '-1' is none of",
        ),
        (
            read_questions,
            [{"question": "A", "context": "b", "answers": "c"}],
            ":1: answer 'c' does not stand at character -1",
        ),
        (
            read_questions,
            [{"question": "A", "context": "b", "answers": {"text": ["b"], "answer_start": []}}],
            ":1: 1 answers and 0 starts",
        ),
    ],
)
def test_bad_rows_of_tables(tmp_path, read, row, words):
    path = jsonl(tmp_path / "bad.jsonl", row)
    with pytest.raises(InputError) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}{words}")


@pytest.mark.parametrize(
    ("read", "format", "row", "words"),
    [
        (
            read_choices,
            "race",
            RACE | {"answers": ["AB", "A"]},
            "x:1, question 0: answer 'AB' is none of A, B",
        ),
        (
            read_choices,
            "race",
            RACE | {"answers": ["A", "C"]},
            "x:1, question 1: answer 'C' is none",
        ),
        (
            read_choices,
            "race",
            RACE | {"answers": ["A"]},
            "x:1: questions, options and answers differ",
        ),
        (
            read_choices,
            "race",
            RACE | {"options": None},
            "x:1: has no lists 'answers' and 'options'",
        ),
        (
            read_choices,
            "commonsense_qa",
            COMMONSENSE | {"answerKey": "E"},
            "x:1: not CommonsenseQA",
        ),
        (read_choices, "commonsense_qa", {"answerKey": "E"}, "x:1: not CommonsenseQA: KeyError"),
        (read_pronouns, "wsc", {"text": "A"}, "x:1: has no 'target'"),
        (
            read_pronouns,
            "wsc",
            wsc(span2_index=99),
            "x:1: span2_index 99 is outside the text of 8 words",
        ),
        (read_pronouns, "wsc", wsc(span2_index=2), "x:1: 'it' does not stand at word 2"),
        (
            read_pronouns,
            "wsc",
            wsc(span2_text="t", span2_index=6),
            "x:1: 't' does not stand at word 6",
        ),
        (read_pronouns, "wsc", wsc() | {"label": 1}, "x:1: label 1 is neither true nor false"),
        (read_pronouns, "winogrande", winogrande(sentence="none"), "x:1: needs one '_'"),
        (
            read_pronouns,
            "winogrande",
            winogrande(answer="3"),
            "x:1: needs one '_' and the answer 1 or 2",
        ),
    ],
)
def test_bad_rows_of_layouts(tmp_path, read, format, row, words):
    path = jsonl(tmp_path / "x", [row])
    with pytest.raises(InputError) as caught:
        read(path, format)
    assert words in str(caught.value) and str(tmp_path) in str(caught.value)


@pytest.mark.parametrize(
    ("read", "format", "text", "words"),
    [
        (read_words, "conll", b"Ada O\nalone\n", "x:2: 'alone' is not a word and a label"),
        (read_questions, "squad", b'{"data": [{}]}', "x: not in SQuAD's layout: KeyError"),
        (read_questions, "squad", b'{"data": 1}', "x: not in SQuAD's layout: TypeError"),
        (read_questions, "squad", b"{", "x:1: not JSON"),
    ],
)
def test_bad_files(tmp_path, read, format, text, words):
    (tmp_path / "x").write_bytes(text)
    with pytest.raises(InputError) as caught:
        read(tmp_path / "x", format)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "answer", [{"text": "Ada", "answer_start": 8}, {"text": "", "answer_start": 0}]
)
def test_a_squad_answer_that_is_not_where_it_should_be(tmp_path, answer):
    with pytest.raises(InputError, match=r"question q7: answer .* does not stand at character"):
        read_questions(squad(tmp_path / "x.json", answers=[answer]))


def test_a_gap_pronoun_that_is_not_where_it_should_be(tmp_path):
    with pytest.raises(InputError, match=r"x\.tsv:2: 'He' does not stand at character 13"):
        read_pronouns(gap(tmp_path / "x.tsv", offset="13"), "gap")


def test_a_word_keeps_its_no_break_space(tmp_path):
    path = tmp_path / "x"
    path.write_text("10\u00a0000 x B-NUM\nmen  O\n")
    assert read_words(path, "conll")[0].words == ("10\u00a0000", "men")


@pytest.mark.parametrize("name", ["w.ndjson", "w.JSONL", "w.jsonl.gz"])
def test_words_in_json_lines_whatever_their_ending(tmp_path, name):
    row = b'{"words": ["Ada", "ran"], "tags": ["B-PER", "O"]}\n'
    (tmp_path / name).write_bytes(gzip.compress(row) if name.endswith("gz") else row)
    assert read_words(tmp_path / name)[0].words == ("Ada", "ran")

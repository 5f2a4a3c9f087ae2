"""A word and its tag a line: which column is which, by what the columns hold, for every verb."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from small_models import small_roberta

import roberta_hub
from roberta_hub.errors import InputError, UnknownNameError
from roberta_hub.rows.left_out import LeftOut
from roberta_hub.train.data.conll import is_conll, text_of
from roberta_hub.train.data.tagged_words import read_words
from roberta_hub.train.fitting.span_layouts import span_table
from roberta_hub.train.fitting.spans import checked

GERMEVAL = """\
#\thttp://de.wikipedia.org/wiki/Beispiel [2009-10-17]
1\tAda\tB-PER\tO
2\tsah\tO\tO
3\tFC\tB-ORG\tO
4\tRom\tI-ORG\tB-LOC

#\thttp://de.wikipedia.org/wiki/Anderes [2009-10-18]
1\tEr\tO\tO
2\tging\tO\tO
"""
FLAT = GERMEVAL.replace("B-LOC", "O")
CONLLU = """\
# sent_id = 1
# text = dámelo ya
1-2\tdámelo\t_\t_\t_\t_\t_\t_\t_\t_
1\tda\tdar\tVERB\t_\tMood=Imp\t0\troot\t_\t_
2\tlo\tél\tPRON\t_\t_\t1\tobj\t_\t_
2.1\tluego\tluego\tADV\t_\t_\t_\t_\t1:advmod\t_
3\tya\tya\tADV\t_\t_\t1\tadvmod\t_\tSpaceAfter=No

# newpar
# text = Sí
1\tSí\tsí\tINTJ\t_\t_\t0\troot\t_\t_
"""
PLUS = "# global.columns = ID FORM UPOS X:NER\n1\tAda\tPROPN\tB-PER\n2\tsings\tVERB\tO\n"
UNER = "# text = Ada sings\n1\tAda\tB-PER\t-\t-\n2\tsings\tO\t-\t-\n"
MIT = "B-ACTOR\ttom\nI-ACTOR\thanks\nO\tmovies\n\nO\tshow\nB-YEAR\t1994\nO\tfilms\n"
ONTONOTES = """\
#begin document (bc/x/00/x_0000); part 000
bc/x/00/x_0000   0   0     In   IN  (TOP(S(PP*  -  -  -  A         *   (ARG*    -
bc/x/00/x_0000   0   1    New  NNP       (NP*   -  -  -  A     (GPE*       *    -
bc/x/00/x_0000   0   2   York  NNP        *))   -  -  -  A         *)      *)   -
bc/x/00/x_0000   0   3    Bob  NNP        *))   -  -  -  A  (PERSON)     (V*)  (1)

bc/x/00/x_0000   0   0    Yes   UH      (TOP*)  -  -  -  A         *   -

#end document
"""
NEW = [(("In", "New", "York", "Bob"), ("O", "B-GPE", "I-GPE", "B-PERSON")), (("Yes",), ("O",))]
NUMBERED = "x/1 0 0 Ada NNP B-PER\nx/1 0 1 sings VBZ O\n\nx/1 0 0 In IN O\nx/1 0 1 Rome NNP B-LOC\n"
ADA: list[Any] = [(("Ada", "sings"), ("B-PER", "O"))]
BOTH: list[Any] = [*ADA, (("In", "Rome"), ("O", "B-LOC"))]
SHORT: list[Any] = [*ADA, (("Bob", "came"), ("B-PER", "O"))]
LAYOUTS: dict[str, tuple[str, str, list[Any]]] = {
    "GermEval": (FLAT, "(columns 2 and 3)", [
        (("Ada", "sah", "FC", "Rom"), ("B-PER", "O", "B-ORG", "I-ORG")),
        (("Er", "ging"), ("O", "O")),
    ]),
    "CoNLL-U": (CONLLU, "(columns 2 and 4)", [
        (("da", "lo", "ya"), ("VERB", "PRON", "ADV")),
        (("Sí",), ("INTJ",)),
    ]),
    "CoNLL-U Plus": (PLUS, "(columns 2 and 4)", ADA),
    "Universal NER": (UNER, "(columns 2 and 3)", ADA),
    "MIT's .bio": (MIT, "(columns 2 and 1)", [
        (("tom", "hanks", "movies"), ("B-ACTOR", "I-ACTOR", "O")),
        (("show", "1994", "films"), ("O", "B-YEAR", "O")),
    ]),
    "OntoNotes": (ONTONOTES, "(columns 4 and 11)", NEW),
    "OntoNotes, no header": (ONTONOTES.split("\n", 1)[1], "(columns 4 and 11)", NEW),
    "OntoNotes' columns with BIO": (NUMBERED, "(columns 4 and 6)", BOTH),
    "CoNLL 2003": (
        "-DOCSTART- -X- -X- O\n\nAda NNP B-NP B-PER\nsings VBZ B-VP O\n\n"
        "-DOCSTART- -X- -X- O\nIn IN B-PP O\nRome NNP B-NP B-LOC\n", "a line", BOTH),
    "names of sentences": ("a1 Ada B-PER\na1 sings O\n\na2 In O\na2 Rome B-LOC\n", "3)", BOTH),
    "numbers alone part": ("1 Ada B-PER\n2 sings O\n1 Bob B-PER\n2 came O\n", "2 and 3)", SHORT),
    "the tag before the last": ("Ada\tB-PER\tNNP\nsings\tO\tVBZ\n", "(columns 1 and 2)", ADA),
    "a header": ("token\ttag\nAda\tB-PER\nsings\tO\n\nBob\tB-PER\ncame\tO\n", "a line", SHORT),
    "comments": ("# id 7\n# text = Ada sings\nAda B-PER\n# odd\nsings O\n", "a line", ADA),
    "small tags": ("Ada b-PER\nsings o\n\nBob B-PER\ncame o\n", "a line", SHORT),
    "ends and blanks": (
        "\ufeffAda\tB-PER\t\r\nsings\tO\t\t\r\n \t \r\nIn\tO\r\nRome\tB-LOC", "a line", BOTH),
    "words of digits": ("5 B-NR\n5 I-NR\n\n4 B-NR\nok O\n", "a line", [
        (("5", "5"), ("B-NR", "I-NR")), (("4", "ok"), ("B-NR", "O")),
    ]),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYOUTS)
def test_columns_by_what_they_hold(tmp_path: Path, name: str) -> None:
    text, said, wanted = LAYOUTS[name]
    path = tmp_path / "x.txt"
    path.write_text(text, encoding="utf-8", newline="")
    assert is_conll(path)
    assert [(one.words, one.tags) for one in read_words(path)] == wanted
    found = span_table(path)
    assert found is not None and found.layout.endswith(said)
    assert [row.text for row in found.read()] == [" ".join(words) for words, _ in wanted]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (GERMEVAL, 'columns 3 and 4 could each hold the tags.*; say which with label="3"'),
        ("Ada B-X B-Y\nis O O\n", 'columns 2 and 3 could each hold the tags.*label="2"'),
        ("1 Ada ada N _\n2 sang sing V A0\n", 'no column is known to hold the tags.*label="N"'),
        (
            "N Ada B-P\nV sings O\nN Bob B-P\nN Eve B-P\nV came O\nN now O\n",
            r"columns 1 and 2 could each hold the words.* 2 \('Ada', 'sings'\).*text=\"1\"",
        ),
    ],
)
def test_columns_that_could_be_meant_are_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "x.conll"
    path.write_text(text)
    for read in (span_table, lambda path: roberta_hub.evaluate(tagging(), path)):
        with pytest.raises(InputError, match=said):
            read(path)
    with pytest.raises(InputError, match=r"say which with data\.columns\.(tags|words)=[123N]$"):
        read_words(path, "conll")


def test_named_columns_are_taken(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    path.write_text(GERMEVAL)
    outer, inner = (span_table(path, label=label) for label in ("3", "4"))
    assert outer is not None and inner is not None
    assert [len(row.spans) for row in outer.read()] == [2, 0]
    assert [row.spans for row in inner.read()] == [[[11, 14, "LOC"]], []]
    (first, _) = read_words(path, "conll", {"tags": 4, "words": "2"})
    assert first.tags == ("O", "O", "O", "B-LOC")
    path.write_text(PLUS)
    found = span_table(path, label="UPOS")
    assert found is not None
    assert [row.spans for row in found.read()] == [[[0, 3, "PROPN"], [4, 9, "VERB"]]]
    with pytest.raises(UnknownNameError, match=r"has no column 'XPOS'.*FORM \('Ada', 'sings'\)"):
        span_table(path, label="XPOS")
    with pytest.raises(InputError, match="column 2 cannot be both the word and its tag"):
        span_table(path, "2", "2")


def test_a_column_of_sentences_is_named_in_training(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    path.write_text("Sentence #\tWord\tTag\ns1\tAda\tB-PER\n\tsings\tO\ns2\tBob\tB-PER\n")
    assert not is_conll(path)
    found = span_table(path)
    assert found is not None and [row.text for row in found.read()] == ["Ada sings", "Bob"]
    with pytest.raises(InputError, match=r"a column says which sentence a word is in"):
        read_words(path, "conll")


@pytest.mark.parametrize(
    "text",
    [
        "Send me an e-mail\n",
        "It was a fine day.\nNobody came O\n",
        "text\tlabel\nFine.\tgood\nDull.\tbad\n",
        "1\t2\n3\t4\n",
    ],
)
def test_other_files_are_no_words_with_tags(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.txt").write_text(text)
    assert not is_conll(tmp_path / "x.txt")


# ---- characters ----

ADA_MET = "Ada met Bob in Rome"
SPELLED = ["B-P", "I-P", "I-P", *["O"] * 5, "B-P", "I-P", "I-P", *["O"] * 4, "B-L", *["I-L"] * 3]
CHINESE = (
    "我 O\n在 O\n上 B-LOC\n海 I-LOC\n， O\n你 O\n呢 O\n？ O\n\n他 O\n去 O\n北 B-LOC\n京 I-LOC\n"
)


def lines_of(between: str) -> str:
    return "".join(f"{c}{between}{tag}\n" for c, tag in zip(ADA_MET, SPELLED, strict=True))


@pytest.mark.parametrize("between", [" ", "\t", " _ _ "])
def test_characters_are_joined_to_words(tmp_path: Path, between: str) -> None:
    path = tmp_path / "x.txt"
    path.write_text(lines_of(between))
    found = span_table(path)
    assert found is not None and found.layout.startswith("a character and its tag a line")
    (row,) = checked(found.read(), LeftOut())
    assert (row.text, row.spans) == (ADA_MET, ((0, 3, "P"), (8, 11, "P"), (15, 19, "L")))
    said = "each line is a character, not a word; write a word a line, or JSONL"
    for read in (read_words, lambda path: roberta_hub.evaluate(tagging(), path)):
        with pytest.raises(InputError, match=said):
            read(path)


def test_characters_without_blanks_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("".join(line + "\n" for line in lines_of("\t").split("\n") if line[:1] > " "))
    with pytest.raises(InputError, match="a character, not a word, and none is the blank between"):
        read_words(path)


def test_characters_of_a_script_without_blanks(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text(CHINESE)
    found = span_table(path)
    assert found is not None
    rows = checked(found.read(), LeftOut())
    assert [(row.text, row.spans) for row in rows] == [
        ("我在上海，你呢？", ((2, 4, "LOC"),)),
        ("他去北京", ((2, 4, "LOC"),)),
    ]
    assert read_words(path)[1].words == ("他", "去", "北", "京")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["in", "New", "York", "."], "in New York ."),
        (["今天", "去", "iPhone", "店", "。"], "今天去 iPhone 店。"),
        (["ไป", "โรม"], "ไปโรม"),
        (["A", "d", "a", " ", "m"], "Ada m"),
        (["서울", "은"], "서울 은"),
        (["a", "b"], "a b"),
    ],
)
def test_words_are_written_as_their_script_writes_them(words: list[str], text: str) -> None:
    found, places = text_of(words, spaced=False)
    assert found == text and [found[a:b] for a, b in places] == words
    spaced, places = text_of(words)
    assert spaced == " ".join(words) and [spaced[a:b] for a, b in places] == words


# ---- verbs ----


def tagging() -> Any:
    roberta = small_roberta()
    roberta.register_token_head("ner", labels=["O", "B-PER", "I-PER", "B-LOC", "I-LOC"])
    with torch.no_grad():
        bias = torch.tensor([-9.0, 9.0, -9.0, -9.0, -9.0])
        roberta.model.token_heads["ner"].out_proj.bias.copy_(bias)
    return roberta


def test_evaluate_asks_the_words_and_not_the_numbers(tmp_path: Path) -> None:
    """The head calls every word PER, so precision is the share of PER among the file's words."""
    path = tmp_path / "x.txt"
    path.write_text(UNER)
    found = roberta_hub.evaluate(tagging(), path)
    assert found.rows == 1 and found.shape.endswith("(columns 2 and 3)")
    assert (found.numbers["precision"], found.numbers["recall"]) == (0.5, 1.0)
    path.write_text("# text = Ada sings\nAda B-PER\nsings O\n")
    assert roberta_hub.evaluate(tagging(), path).numbers["precision"] == 0.5
    path.write_text(NUMBERED.replace("LOC", "PER"))
    found = roberta_hub.evaluate(tagging(), path, text="4", label="6")
    assert (found.numbers["precision"], found.rows) == (0.5, 2)


def test_compare_names_what_measures_spans(tmp_path: Path) -> None:
    (tmp_path / "x.conll").write_text("Ada B-PER\nsings O\n")
    with pytest.raises(InputError, match=r"x\.conll: a word and its tag a line; compare asks"):
        roberta_hub.compare(tagging(), tagging(), tmp_path / "x.conll")

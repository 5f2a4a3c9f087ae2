"""Every layout is read as written; a row that cannot be is an error with file and line."""

from __future__ import annotations

import gzip
import lzma
from typing import Any

import pytest
from learning import jsonl, table

from roberta_hub.errors import InputError, UnknownNameError
from roberta_hub.train.data.multiple_choice import read_choices
from roberta_hub.train.data.pronouns import read_pronouns
from roberta_hub.train.data.questions import read_questions
from roberta_hub.train.data.sentences import GLUE_LAYOUTS, read_sentences
from roberta_hub.train.data.tagged_words import read_words

PAIRS = [{"text": 'A "good" film.', "more": "So it is.", "stars": "5"}]
PAIRS += [{"text": " naïve 🙂 ", "more": "No.", "stars": "1"}]
COLUMNS = {"sentence": "text", "sentence2": "more", "label": "stars"}


@pytest.mark.parametrize("suffix", ["tsv", "jsonl", "parquet"])
def test_tables_with_columns_of_any_name(tmp_path, suffix):
    path = table(tmp_path / f"x.{suffix}", PAIRS)
    found = read_sentences(path, columns=COLUMNS)
    assert [e.text for e in found] == [(row["text"], row["more"]) for row in PAIRS]
    assert [e.labels for e in found] == [("5",), ("1",)]
    first = 2 if suffix == "tsv" else 1  # its header is a line
    assert [e.where for e in found] == [f"{path}:{first}", f"{path}:{first + 1}"]
    single = read_sentences(path, suffix, {"sentence": "text", "label": "stars"})
    assert [e.text for e in single] == [row["text"] for row in PAIRS]


@pytest.mark.parametrize(("suffix", "module"), [("gz", gzip), ("xz", lzma)])
def test_compressed_tables(tmp_path, suffix, module):
    plain = table(tmp_path / "x.tsv", PAIRS)
    packed = tmp_path / f"y.tsv.{suffix}"
    packed.write_bytes(module.compress(plain.read_bytes()))
    texts = [e.text for e in read_sentences(packed, columns=COLUMNS)]
    assert texts == [e.text for e in read_sentences(plain, columns=COLUMNS)]
    packed.write_bytes(packed.read_bytes()[:-9])
    with pytest.raises(InputError, match=rf"y\.tsv\.{suffix}: cannot be read"):
        read_sentences(packed, columns=COLUMNS)


def test_a_byte_order_mark_and_the_line_ends_of_windows(tmp_path):
    path = tmp_path / "x.tsv"
    path.write_bytes("\ufeffsentence\tlabel\r\nA\u2028b.\tyes\r\n".encode())
    (found,) = read_sentences(path)
    assert (found.text, found.labels) == ("A\u2028b.", ("yes",))


@pytest.mark.parametrize(
    ("value", "label"), [(1, "1"), (True, "true"), ("a b", "a b"), (0.5, "0.5")]
)
def test_labels_of_json(tmp_path, value, label):
    (found,) = read_sentences(jsonl(tmp_path / "x.jsonl", [{"sentence": "A", "label": value}]))
    assert found.labels == (label,)


@pytest.mark.parametrize("suffix", ["tsv", "jsonl", "parquet"])
def test_many_labels(tmp_path, suffix):
    lists = [["cat", "dog"], [], ["cow"]]
    values: list[Any] = lists if suffix != "tsv" else ["cat, dog", "", "cow"]
    path = table(tmp_path / f"x.{suffix}", [{"sentence": "A", "label": v} for v in values])
    assert [e.labels for e in read_sentences(path, separator=",")] == [tuple(x) for x in lists]
    with pytest.raises(
        InputError, match="the label is empty" if suffix == "tsv" else "multi_label"
    ):
        read_sentences(path)


# ---- GLUE: a header, a row, and what is read of it. Columns as in its files of 2018. ----

ROWS: dict[str, tuple[str, list[str], Any, str]] = {
    "mnli": (
        "index promptID pairID genre b1 b2 p1 p2 sentence1 sentence2 label1 gold_label",
        [*"0123456", "7", "It rains.", "It is wet.", "neutral", "entailment"],
        ("It rains.", "It is wet."),
        "entailment",
    ),
    "qnli": (
        "index question sentence label",
        ["0", "Who?", "Ada.", "not_entailment"],
        ("Who?", "Ada."),
        "not_entailment",
    ),
    "qqp": (
        "id qid1 qid2 question1 question2 is_duplicate",
        ["0", "1", "2", "Who?", "Which man?", "1"],
        ("Who?", "Which man?"),
        "duplicate",
    ),
    "rte": (
        "index sentence1 sentence2 label",
        ["0", "It rains.", "It is wet.", "entailment"],
        ("It rains.", "It is wet."),
        "entailment",
    ),
    "sst_2": ("sentence label", ["fine ", "1"], "fine ", "positive"),
    "mrpc": (
        "Quality #1ID #2ID #1String #2String",
        ["1", "10", "11", 'He said "no".', 'He said "nay".'],
        ('He said "no".', 'He said "nay".'),
        "paraphrase",
    ),
    "cola": ("", ["ab12", "0", "*", "Sings he."], "Sings he.", "unacceptable"),
    "sts_b": (
        "index genre filename year old_index source1 source2 sentence1 sentence2 score",
        [*"0123456", "A man.", "A woman.", "2.500"],
        ("A man.", "A woman."),
        "2.500",
    ),
}


@pytest.mark.parametrize("name", list(GLUE_LAYOUTS))
def test_glue(tmp_path, name):
    header, row, text, label = ROWS[name]
    path = tmp_path / "train.tsv"
    path.write_text("".join("\t".join(cells) + "\n" for cells in (header.split(), row) if cells))
    (found,) = read_sentences(path, name)
    assert (found.text, found.labels) == (text, (label,))
    assert found.where == f"{path}:{2 if header else 1}"
    names = GLUE_LAYOUTS[name].labels
    assert names is None or label in names
    if name == "mnli":  # its dev sets have labels of five people before the last column
        path.write_text(f"{header}\n" + "\t".join([*row[:-1], *"wxyz", "contradiction"]))
        assert read_sentences(path, name)[0].labels == ("contradiction",)
        assert names == ("contradiction", "neutral", "entailment")  # roberta.large.mnli's order


def test_rows_of_qqp_that_fairseq_leaves_out(tmp_path):
    header, row, _, _ = ROWS["qqp"]
    rows = [row, row[:4], [*row, "more"], row]
    path = tmp_path / "train.tsv"
    path.write_text("".join("\t".join(cells) + "\n" for cells in (header.split(), *rows)))
    with pytest.warns(UserWarning, match="left out 2 rows .* the first is line 3"):
        assert len(read_sentences(path, "qqp")) == 2


# ---- what cannot be read ----

GOOD = {"sentence": "A", "label": "x"}


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([GOOD, {"sentence": "A"}], ":2: no column 'label'; there are sentence"),
        ([{"sentence": None, "label": "x"}], ": holds no examples"),
        ([{"sentence": 5, "label": "x"}], ":1: the column 'sentence' holds 5, a int, not a text"),
        ([GOOD, {"sentence": "A", "label": ""}], ":2: the label is empty"),
        ([GOOD, ["A", "x"]], ":2: a JSON list, not an object"),
        ([], ": holds no examples"),
    ],
)
def test_bad_rows_of_tables(tmp_path, rows, words):
    path = jsonl(tmp_path / "bad.jsonl", rows)
    with pytest.raises(InputError) as caught:
        read_sentences(path)
    assert str(caught.value).startswith(f"{path}{words}")


@pytest.mark.parametrize(
    ("format", "text", "words"),
    [
        ("tsv", b"a\ta\n", "x:1: two columns have the same name"),
        ("tsv", b"sentence\tlabel\nA\n", "x:2: 1 fields, the header has 2"),
        ("tsv", b"sentence\tlabel\n\xff\tx\n", "x:2: not UTF-8"),
        ("jsonl", b"{}\n{", "x:1: no column 'sentence'"),
        ("jsonl", b"\n{", "x:2: not JSON"),
        ("jsonl", b"[" * 100_000, "x:1: not JSON"),
        ("parquet", b"PAR1 no", "x: not a readable Parquet file"),
        ("rte", b"h\n0\tA\n", "x:2: 2 fields, the layout has more"),
        ("rte", b"h\n0\tA\tB\tmaybe\n", "x:2: label 'maybe'; there are not_entailment"),
        ("rte", b"h\n", "x: holds no examples"),
    ],
)
def test_bad_files(tmp_path, format, text, words):
    (tmp_path / "x").write_bytes(text)
    with pytest.raises(InputError) as caught:
        read_sentences(tmp_path / "x", format)
    assert words in str(caught.value)


@pytest.mark.parametrize("read", [read_sentences, read_words, read_choices, read_questions])
def test_names_that_are_not_known(tmp_path, read):
    path = jsonl(tmp_path / "x.jsonl", [{}])
    with pytest.raises(UnknownNameError, match=r"data\.format is 'jsnol'; did you mean jsonl"):
        read(path, "jsnol")
    with pytest.raises(UnknownNameError, match=r"no role data\.columns\.colour; there are"):
        read(path, columns={"colour": "x"})
    with pytest.raises(InputError, match=r"gone\.jsonl: no such file"):
        read(tmp_path / "gone.jsonl")


def test_a_name_that_does_not_say_what_the_file_is(tmp_path):
    path = tmp_path / "x.data"
    path.write_text("A")
    for read in (read_sentences, read_choices, read_questions):
        with pytest.raises(InputError, match=r"set data\.format to tsv, jsonl, parquet"):
            read(path)
    with pytest.raises(UnknownNameError, match="there are wsc, winogrande, gap"):
        read_pronouns(path)


def test_a_column_called_sentence2_makes_pairs(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("sentence,sentence2,label\nIt rains.,It is wet.,yes\nIt rains.,It is dry.,no\n")
    assert read_sentences(path)[1].text == ("It rains.", "It is dry.")
    named = read_sentences(path, columns={"sentence": "sentence", "label": "label"})
    assert named[1].text == "It rains."

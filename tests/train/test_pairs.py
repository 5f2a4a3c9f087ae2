"""Tables of pairs are read, or refused with the row and what is wrong with it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from learning import jsonl, parquet, tsv

from roberta_hub.errors import InputError, UnknownNameError
from roberta_hub.train.data.pairs import read_pairs

ROWS = [
    {"sentence": "A dog runs.", "sentence2": "An animal moves.", "sentence3": "A dog sleeps."},
    {"sentence": 'The "old" one', "sentence2": "An aged one", "sentence3": ""},
]


@pytest.mark.parametrize("suffix", ["tsv", "jsonl", "parquet", "tsv.gz"])
def test_triples_of_any_table(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"x.{suffix}"
    if suffix == "parquet":
        parquet(path, ROWS)
    elif suffix == "jsonl":
        jsonl(path, [ROWS[0], {**ROWS[1], "sentence3": None}])
    else:
        plain = tsv(tmp_path / "x.tsv", list(ROWS[0]), [list(row.values()) for row in ROWS])
        if suffix != "tsv":
            path.write_bytes(gzip.compress(plain.read_bytes()))
    found = read_pairs(path)
    assert [pair.texts for pair in found] == [
        tuple(ROWS[0].values()),
        ('The "old" one', "An aged one"),
    ]
    assert [pair.score for pair in found] == [None, None]


def test_scores_and_named_columns(tmp_path: Path) -> None:
    path = tsv(tmp_path / "x.tsv", ("a", "b", "gold"), [("Yes", "No", "0"), ("Yes", "Yes!", 4.75)])
    columns = {"sentence": "a", "sentence2": "b", "score": "gold"}
    found = read_pairs(path, columns=columns)
    assert [(pair.texts, pair.score) for pair in found] == [
        (("Yes", "No"), 0.0),
        (("Yes", "Yes!"), 4.75),
    ]
    assert found[1].where == f"{path}:3"
    assert read_pairs(path, columns={"sentence": "a", "sentence2": "b"})[0].score is None


def test_single_sentences(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("One sentence.\n\n  \nAnother\tone.\n")
    assert [(p.texts, p.where) for p in read_pairs(path)] == [
        (("One sentence.",), f"{path}:1"),
        (("Another\tone.",), f"{path}:4"),
    ]
    other = path.rename(tmp_path / "x.lines")
    assert len(read_pairs(other, "txt")) == 2
    table = tsv(tmp_path / "x.tsv", ("sentence",), [("One",), ("Two",)])
    assert [pair.texts for pair in read_pairs(table)] == [("One",), ("Two",)]


HEAD = "sentence\tsentence2\tsentence3\n"
SCORED = "sentence\tsentence2\tscore\n"


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.tsv", "", "a.tsv: holds no examples"),
        ("a.tsv", HEAD, "a.tsv: holds no examples"),
        ("a.tsv", HEAD + "a\tb\n", "a.tsv:2: 2 fields, the header has 3"),
        ("a.tsv", HEAD + "\tb\tc\n", "a.tsv: holds no examples"),
        ("a.tsv", HEAD + "  \tb\tc\n", "a.tsv:2: nothing in the column 'sentence'"),
        ("a.tsv", HEAD + "a\t  \tc\n", "a.tsv:2: nothing in the column 'sentence2'"),
        ("a.tsv", HEAD + "a\tb\tb\n", "a.tsv:2: the hard negative is its positive itself: 'b'"),
        ("a.tsv", HEAD + "a\tb\ta\n", "a.tsv:2: the hard negative is the sentence itself: 'a'"),
        ("a.tsv", "text\tother\na\tb\n", "a.tsv:2: no column 'sentence'; there are text, other"),
        ("a.tsv", "sentence\tsentence\na\tb\n", "a.tsv:1: two columns have the same name"),
        ("a.tsv", "sentence\tsentence3\na\tb\n", "a.tsv:2: column 'sentence3' without a second"),
        ("a.tsv", "sentence\tscore\na\t1\n", "a.tsv:2: column 'score' without a second sentence"),
        ("a.tsv", SCORED + "a\tb\t\n", "a.tsv:2: score '' is no number"),
        ("a.tsv", SCORED + "a\tb\tfour\n", "a.tsv:2: score 'four' is no number"),
        ("a.tsv", SCORED + "a\tb\tnan\n", "a.tsv:2: score 'nan' is no number"),
        ("a.tsv", SCORED + "a\tb\t1e39\n", "a.tsv:2: score '1e39' is no number"),
        ("a.tsv", SCORED + "a\tb\t1\nc\td\t1.0\n", "every score is 1, which orders nothing"),
        (
            "a.tsv",
            "sentence\tsentence2\tsentence3\tscore\na\tb\tc\t1\n",
            "a.tsv:2: a hard negative and a score",
        ),
        (
            "a.jsonl",
            [{"sentence": "a", "sentence2": 7}],
            "a.jsonl:1: the column 'sentence2' holds 7",
        ),
        ("a.jsonl", [{"sentence": "a", "sentence2": None}], "a.jsonl: holds no examples"),
        (
            "a.jsonl",
            [{"sentence": "a", "sentence2": "b", "sentence3": ["c"]}],
            "a.jsonl:1: the column 'sentence3' holds",
        ),
        (
            "a.jsonl",
            [{"sentence": "a", "sentence2": "b", "score": True}],
            "a.jsonl:1: score 'True' is no number",
        ),
        ("a.jsonl", [{"text": "a"}], "a.jsonl:1: no column 'sentence'; there are text"),
        (
            "a.jsonl",
            [{"sentence": "a"}, {"sentence": "c", "sentence2": "d"}],
            "a.jsonl:2: column 'sentence2' is not in the rows before",
        ),
        ("a.jsonl", "[1]\n", "a.jsonl:1: a JSON list, not an object"),
        ("a.txt", "\n \n", "a.txt: holds no examples"),
        ("a.pairs", HEAD, "a.pairs: its name does not say what it is"),
    ],
)
def test_a_row_that_cannot_be_used(tmp_path: Path, name: str, content: Any, words: str) -> None:
    path = tmp_path / name
    if isinstance(content, list):
        content = "".join(json.dumps(row) + "\n" for row in content)
    path.write_text(content)
    with pytest.raises(InputError) as error:
        read_pairs(path)
    assert words in str(error.value)


def test_roles_and_formats_that_are_none(tmp_path: Path) -> None:
    path = tsv(tmp_path / "a.tsv", ("sentence", "sentence2"), [("a", "b")])
    with pytest.raises(UnknownNameError, match=r"no role data\.columns\.positive"):
        read_pairs(path, columns={"positive": "sentence2"})
    with pytest.raises(UnknownNameError, match=r"data\.format is 'mnli'; there are tsv"):
        read_pairs(path, "mnli")
    with pytest.raises(InputError, match="no column 'gold'; there are sentence, sentence2"):
        read_pairs(path, columns={"score": "gold"})

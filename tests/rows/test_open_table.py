"""Tables of every kind are read as they were written, and what cannot be read says file and row."""

from __future__ import annotations

import csv
import gzip
import io
import json
import lzma
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roberta_hub.errors import InputError, MissingExtraError, UnknownNameError
from roberta_hub.rows.lines import lines
from roberta_hub.rows.tables import FORMATS, open_table

ROWS = [
    {"text": 'He said "no", twice.', "label": "bad"},
    {"text": "naïve 🙂\u2028 two\nlines", "label": "good"},
    {"text": " spaces ", "label": ""},
]


def written(path: Path, rows: list[dict[str, Any]], **options: Any) -> Path:
    """A table as Python's csv, json and pyarrow write it."""
    if path.suffix == ".parquet":
        arrow = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet").write_table(arrow.Table.from_pylist(rows), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]), **options)
            writer.writeheader()
            writer.writerows(rows)
    return path


def read(path: Path, format: str | None = None) -> list[dict[str, Any]]:
    return [row.values for row in open_table(path, format).rows()]


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_each_format_gives_the_same_rows(tmp_path: Path, suffix: str) -> None:
    path = written(tmp_path / f"x.{suffix}", ROWS)
    table = open_table(path)
    assert table.columns == ["text", "label"]
    for _ in range(2):  # it can be read again
        assert [row.values for row in table.rows()] == ROWS
    first = next(table.rows())
    assert first.where == f"{path}:{2 if suffix == 'csv' else 1}"


def test_the_line_of_a_row_is_where_it_begins(tmp_path: Path) -> None:
    path = written(tmp_path / "x.csv", ROWS)
    assert [row.number for row in open_table(path).rows()] == [2, 3, 5]


# Python's csv writes a CR without quotes where lines end with LF: no reader gets that back.
@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(
        st.lists(
            st.text(
                st.characters(blacklist_categories=("Cs",), blacklist_characters="\0\r"), max_size=8
            ),
            min_size=2,
            max_size=2,
        ),
        min_size=1,
        max_size=6,
    ),
    separator=st.sampled_from(",;\t"),
    end=st.sampled_from(["\n", "\r\n"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    mark=st.booleans(),
)
def test_what_csv_writes_is_read(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[list[str]],
    separator: str,
    end: str,
    quoting: int,
    mark: bool,
) -> None:
    path = tmp_path_factory.mktemp("csv") / "x.csv"
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=separator, lineterminator=end, quoting=quoting)
    writer.writerows([["a", "b"], *rows])
    path.write_bytes((b"\xef\xbb\xbf" if mark else b"") + text.getvalue().encode())
    assert read(path) == [dict(zip("ab", row, strict=True)) for row in rows]


@pytest.mark.parametrize(("suffix", "module"), [("gz", gzip), ("xz", lzma)])
def test_compressed(tmp_path: Path, suffix: str, module: Any) -> None:
    path = tmp_path / f"x.csv.{suffix}"
    path.write_bytes(module.compress(written(tmp_path / "x.csv", ROWS).read_bytes()))
    assert read(path) == ROWS


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        # As GLUE's files are: a quote is a character.
        ('text\tlabel\nHe said "no".\t0\n"No" is "no"\t1\n', ['He said "no".', '"No" is "no"']),
        ('text\tlabel\n"Good."\t0\n', ['"Good."']),
        (
            'text\tlabel\n"A ""good"" one."\t0\nHe said "no".\t1\n',
            ['"A ""good"" one."', 'He said "no".'],
        ),
        # As csv.writer(delimiter="\t") and spreadsheets write them.
        ('text\tlabel\n"A ""good"" one."\t0\nFine.\t1\n', ['A "good" one.', "Fine."]),
        ('"text"\t"label"\n"Good."\t"0"\n', ["Good."]),
    ],
)
def test_quotes_in_a_tsv(tmp_path: Path, text: str, rows: list[str]) -> None:
    (tmp_path / "x.tsv").write_text(text)
    assert [row["text"] for row in read(tmp_path / "x.tsv")] == rows


def test_names_that_are_missing_or_have_spaces(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(",text, label\n0,A,x\n\n1,B,y\n\n")
    assert read(tmp_path / "x.csv")[1] == {"column 1": "1", "text": "B", "label": "y"}


def test_a_name_in_capitals_and_other_endings(tmp_path: Path) -> None:
    (tmp_path / "X.CSV").write_text("text\nA\n")
    (tmp_path / "x.ndjson").write_text('{"text": "A"}\n')
    (tmp_path / "x.data").write_text("text\nA\n")
    assert read(tmp_path / "X.CSV") == read(tmp_path / "x.ndjson") == [{"text": "A"}]
    assert read(tmp_path / "x.data", "csv") == [{"text": "A"}]


def test_an_unknown_column_lists_all_with_two_rows(tmp_path: Path) -> None:
    table = open_table(written(tmp_path / "x.csv", ROWS))
    assert table.check("label") == "label"
    with pytest.raises(UnknownNameError) as caught:
        table.check("txt")
    assert str(caught.value) == (
        f"{tmp_path}/x.csv has no column 'txt'; did you mean text? Its columns, with two rows: "
        r"""text ('He said "no", twice.', 'naïve 🙂\u2028 two\nlines'); label ('bad', 'good')"""
    )


BAD = {
    "no file": ("gone.csv", None, "gone.csv: no such file"),
    "a name that says nothing": ("x.dat", b"a\n", "there are tsv, jsonl, parquet, csv"),
    "a workbook": ("x.xlsx", b"PK\x03\x04", "save the sheet as CSV UTF-8"),
    "a workbook called csv": ("x.csv", b"PK\x03\x04\xff", "x.csv:1: not UTF-8 but a zip or Excel"),
    "a list of JSON": ("x.json", b"[{}]", "write an object a line, as .jsonl"),
    "a list of JSON called jsonl": (
        "x.jsonl",
        b'[{"a": 1}]',
        "x.jsonl:1: a JSON list, not an object",
    ),
    "UTF-16": ("x.csv", "a,b\n".encode("utf-16"), "x.csv:1: not UTF-8 but UTF-16; save it as"),
    "Latin-1": ("x.csv", b"a,b\n1,2\ncaf\xe9,1\n", "x.csv:3: not UTF-8"),
    "a NUL": ("x.csv", b"a,b\nc\0,1\n", "x.csv:2: "),
    "too few fields": ("x.csv", b"a,b\n1,2\n\n3\n", "x.csv:4: 1 fields, the header has 2"),
    "a comment above the header": (
        "x.csv",
        b"# export of 2024\ntext,label\nA film.,good\n",
        "x.csv:1: '# export of 2024' seems to be a title, and line 2 the header",
    ),
    "a title above the header": (
        "x.csv",
        b"Quarterly report,,\nid,text,label\n1,A film.,good\n",
        "x.csv:1: 'Quarterly report,,' seems to be a title, and line 2 the header",
    ),
    "a title above a TSV": (
        "x.tsv",
        b"Quarterly report\ntext\tlabel\nA film.\tgood\n",
        "x.tsv:1: 'Quarterly report' seems to be a title, and line 2 the header",
    ),
    "bars between the names": (
        "x.csv",
        b"text|label\nA film.|good\n",
        "x.csv:1: the names of the columns are separated by '|'; a CSV's separators are the comma,",
    ),
    "a cell that is missing": (
        "x.csv",
        b"a,b\n1\n",
        "x.csv:2: 1 fields, the header has 2; a cell is missing",
    ),
    "a comma without quotes": ("x.csv", b"a,b\nNo, no.,1\n", "x.csv:2: 3 fields, the header has 2"),
    "a tab in a TSV": ("x.tsv", b"a\tb\nx\ty\tz\n", "x.tsv:2: 3 fields, the header has 2"),
    "a quote that is not doubled": (
        "x.csv",
        b'a,b\n"He "x" b",1\n',
        "x.csv:2: text follows a closing",
    ),
    "a quote never closed": ("x.csv", b'a,b\n1,2\n"x,1\ny,2\n', "x.csv:3: a quote opens here"),
    "CR alone": ("x.csv", b"a,b\rc,1\rd,2", "x.csv:1: a line ends with CR alone"),
    "one name twice": ("x.csv", b"a,b,a\n1,2,3\n", "x.csv:1: two columns have the same name, 'a'"),
    "half an object": ("x.jsonl", b'{"a": 1}\n{"a"', "x.jsonl:2: not JSON"),
    "no Parquet": ("x.parquet", b"PAR1 no", "x.parquet: not a readable Parquet file"),
    "damaged gzip": ("x.csv.gz", gzip.compress(b"a,b\n" * 99)[:-9], "x.csv.gz: cannot be read"),
    "no gzip": ("x.csv.gz", b"a,b\n1,2\n", "x.csv.gz: cannot be read"),
}


@pytest.mark.parametrize(("name", "content", "words"), BAD.values(), ids=BAD)
def test_bad_tables(tmp_path: Path, name: str, content: bytes | None, words: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError) as caught:
        read(tmp_path / name)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_folder_and_an_unknown_format(tmp_path: Path) -> None:
    (tmp_path / "x.csv").mkdir()
    with pytest.raises(InputError, match="a folder, not a file"):
        open_table(tmp_path / "x.csv")
    with pytest.raises(UnknownNameError, match="format is 'cvs'; did you mean csv"):
        open_table(tmp_path / "x.csv", "cvs")


@pytest.mark.parametrize("suffix", FORMATS)
def test_an_empty_table_has_no_rows(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"x.{suffix}"
    if suffix == "parquet":
        arrow = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet").write_table(arrow.table({}), path)
    else:
        path.write_text("")
    assert read(path) == []
    with pytest.raises(UnknownNameError, match=r"has no column 'text'\. It is empty"):
        open_table(path).check("text")


def test_parquet_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.parquet").write_bytes(b"")
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"Parquet needs pyarrow .*\[tables\]"):
        open_table(tmp_path / "x.parquet")


@pytest.mark.system
def test_rows_stream(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    with path.open("w") as file:
        file.write("text,label\n" + "some words of a review,good\n" * 200_000)  # 5 MB
    rows = open_table(path).rows()
    next(rows)
    tracemalloc.start()
    assert sum(1 for _ in rows) == 199_999
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 300_000


@pytest.mark.parametrize("sign", [";", ",", "\t", "|"])
def test_excels_line_about_the_separator(tmp_path: Path, sign: str) -> None:
    path = tmp_path / "x.csv"
    path.write_text(f"sep={sign}\r\ntext{sign}label\r\nA film.{sign}good\r\n")
    table = open_table(path)
    assert table.columns == ["text", "label"]
    rows = [(row.number, row.values) for row in table.rows()]
    assert rows == [(3, {"text": "A film.", "label": "good"})]


def many(word: str) -> list[dict[str, Any]]:
    return [{"text": f"{word} {i:05d}", "label": "a"} for i in range(20_000)]


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "parquet"])
def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path: Path, suffix: str) -> None:
    """Rows of the old file and of the new one would make one table."""
    path = tmp_path / f"rows.{suffix}"
    options = {"delimiter": "\t"} if suffix == "tsv" else {}
    table = open_table(written(path, many("old"), **options))
    rows = table.rows()
    assert next(rows).text("text") == "old 00000"
    with path.open("r+b") as file:  # in its place, as an editor or `>` writes
        file.write(written(tmp_path / f"new.{suffix}", many("new"), **options).read_bytes())
    with pytest.raises(InputError, match=rf"rows\.{suffix}: it changed while it was read"):
        for _ in rows:
            pass
    with pytest.raises(InputError, match="it changed while it was read"):  # its header was another
        list(table.rows())
    assert len(list(open_table(path).rows())) == 20_000


def test_a_file_that_grows_while_it_is_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text("old\n" * 20_000)
    found = lines(path)
    assert next(found) == (1, "old")
    with path.open("a") as file:
        file.write("new\n")
    with pytest.raises(InputError, match=r"log\.txt: it changed while it was read"):
        for _ in found:
            pass


def test_a_file_that_is_replaced_while_it_is_read_is_read_to_its_end(tmp_path: Path) -> None:
    """What is open stays what it was where another file takes its name."""
    path = tmp_path / "log.txt"
    path.write_text("old\n" * 20_000)
    found = lines(path)
    assert next(found) == (1, "old")
    (tmp_path / "new").write_text("new\n" * 20_000)
    (tmp_path / "new").rename(path)
    assert {text for _, text in found} == {"old"}

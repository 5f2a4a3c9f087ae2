"""Lines come as they were written, however the bytes are cut, and a long one takes no memory."""

from __future__ import annotations

import gzip
import io
import tracemalloc
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roberta_hub.errors import InputError
from roberta_hub.rows.columns import table_line
from roberta_hub.rows.delimited import csv_header, delimited_rows, row_ends
from roberta_hub.rows.lines import blocks, decoded, lines, split_lines
from roberta_hub.rows.values import Fault


@given(st.binary(max_size=80).map(lambda data: data.replace(b"x", b"\n")), st.integers(1, 9))
def test_blocks_of_any_size_have_the_same_lines(data: bytes, size: int) -> None:
    found = list(chain.from_iterable(split_lines(blocks(io.BytesIO(data).read, size))))
    assert b"".join(line for line in found if isinstance(line, bytes)) == data
    assert all(isinstance(line, bytes) and line.count(b"\n") <= 1 for line in found)
    assert all(isinstance(line, bytes) and line.endswith(b"\n") for line in found[:-1])


def test_a_line_that_is_too_long_is_at_fault_and_the_next_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("roberta_hub.rows.lines.MAX_ROW_BYTES", 10)
    data = b"ab\n" + b"x" * 50 + b"\ncd\n" + b"y" * 50
    for size in (1, 7, 200):
        found = list(chain.from_iterable(split_lines(blocks(io.BytesIO(data).read, size))))
        assert [isinstance(line, Fault) for line in found] == [False, True, False, True]
        assert (found[0], found[2]) == (b"ab\n", b"cd\n")
    assert "more than 10 bytes" in found[3].why  # type: ignore[union-attr]


def test_it_is_said_before_the_line_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe may write for ever."""
    monkeypatch.setattr("roberta_hub.rows.lines.MAX_ROW_BYTES", 100)

    def endless() -> chain[bytes]:
        return chain.from_iterable([b"x" * 10] for _ in iter(int, 1))

    first = next(line for found in split_lines(endless()) for line in found)
    assert isinstance(first, Fault)


@pytest.mark.parametrize("name", ["x.csv.gz", "x.jsonl.gz", "x.txt.gz"])
def test_a_small_gz_of_one_line_fills_no_memory(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from roberta_hub.rows.tables import open_table
    from roberta_hub.shell.reading import Parts, open_source

    monkeypatch.setattr("roberta_hub.rows.lines.MAX_ROW_BYTES", 1_000_000)
    path = tmp_path / name
    path.write_bytes(gzip.compress(b"text\n" * name.startswith("x.csv") + b"a" * 100_000_000))
    tracemalloc.start()
    with pytest.raises(InputError, match=r"gz:[12]: a line of more than 1,000,000 bytes"):
        if name == "x.txt.gz":
            list(open_source(str(path), (), Parts()).items)
        else:
            list(open_table(path).rows())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5_000_000


def test_only_lf_ends_a_line_and_its_cr_is_no_part_of_it(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_bytes("\ufeffa\u2028b\r\n\r\nc\x0b\x85d".encode())
    assert list(lines(path)) == [(1, "a\u2028b"), (2, ""), (3, "c\x0b\x85d")]
    path.write_bytes(b"a\ncaf\xe9\n")
    with pytest.raises(InputError, match=r"x\.txt:2: not UTF-8: .*0xe9"):
        list(lines(path))


def test_what_is_no_text_is_named_on_the_first_line_only() -> None:
    for begin, words in (
        ("a".encode("utf-16"), "UTF-16"),
        (b"PK\x03\x04\xff", "a zip or Excel file"),
        (b"PAR1\xff", "a Parquet file"),
        (b"\x1f\x8b\xff", "gzip"),
    ):
        first, second = decoded(begin, 1), decoded(begin, 2)
        assert isinstance(first, Fault) and words in first.why
        assert isinstance(second, Fault) and words not in second.why


@pytest.mark.parametrize(
    ("text", "columns", "begin"),
    [
        ("a,b\n1,2\n", ("a", "b"), 1),
        ("\n\na,b\n1,2\n", ("a", "b"), 3),
        ('"a\nc",b\n1,2\n', ("a\nc", "b"), 2),
        ("sep=;\na;b\n1;2\n", ("a", "b"), 2),
        ("a , \n1,2\n", ("a", "column 2"), 1),
    ],
)
def test_rows_begin_behind_the_header(text: str, columns: tuple[str, ...], begin: int) -> None:
    data = text.encode()
    every = [line + b"\n" for line in data.split(b"\n")[:-1]]
    header = csv_header(every, "x.csv")
    assert (header.columns, header.lines) == (columns, begin)
    rows = list(delimited_rows(every[begin:], header, begin + 1))
    assert rows == [(begin + 1, dict(zip(columns, "12", strict=True)))]
    assert len(row_ends(b"".join(every[begin:]), header.separator)[0]) == 1


def test_behind_a_row_at_fault_reading_goes_on() -> None:
    header = csv_header([b"a,b\n"], "x.csv")
    given: list[bytes | Fault] = [b"1,2\n", b"3\n", b'"x"y,4\n', b"\xff,5\n", b"\0,6\n"]
    given += [Fault("a line of more than 9 bytes"), b"7,8\n", b'"9\n', b'x",0\n', b"8,9"]
    found = list(delimited_rows(given, header, 2))
    assert [number for number, _ in found] == [2, 3, 4, 5, 6, 7, 8, 9, 11]
    good = [values for _, values in found if not isinstance(values, Fault)]
    assert [list(row.values()) for row in good] == [
        ["1", "2"],
        ["7", "8"],
        ["9\nx", "0"],
        ["8", "9"],
    ]
    faults = [values.why for _, values in found if isinstance(values, Fault)]
    words = (
        "1 fields",
        "text follows a closing",
        "not UTF-8",
        "a NUL",
        "a line of more than 9 bytes",
    )
    assert all(word in why for word, why in zip(words, faults, strict=True))


@pytest.mark.parametrize("text", ["a,b\n1,2\n3,4\n", "sep=;\na;b\n1;2\n3;4\n", '"a",b\n1,2\n3,4'])
def test_a_pipe_is_read_once(text: str) -> None:
    """The header takes its own lines and no more, so that the rows follow in the same iterator."""
    every = chain.from_iterable(split_lines([text.encode()]))
    header = csv_header(every, "standard input")
    rows = list(delimited_rows(every, header, header.lines + 1))
    first = header.lines + 1
    assert rows == [(first, {"a": "1", "b": "2"}), (first + 1, {"a": "3", "b": "4"})]


def test_a_line_with_a_carriage_return_is_no_header() -> None:
    assert table_line("id,text\rmore") is None and table_line("id,text") == ("csv", "text")

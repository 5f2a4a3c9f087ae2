"""Units cover every row of a file once and in order, wherever they are cut."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

from roberta_hub.errors import InputError, UnknownNameError  # noqa: E402
from roberta_hub.rows.formats import Missing  # noqa: E402
from roberta_hub.rows.values import Fault  # noqa: E402
from roberta_hub.scale import reading as reading_module  # noqa: E402
from roberta_hub.scale import units as units_module  # noqa: E402
from roberta_hub.scale.reading import RowBatch, read_unit  # noqa: E402
from roberta_hub.scale.source_schema import find_schema  # noqa: E402
from roberta_hub.scale.sources import find_source  # noqa: E402
from roberta_hub.scale.units import WorkUnit, plan_units, row_cuts  # noqa: E402

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), max_size=20)
FEW = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks and batches of a few bytes and rows, so that small files have many."""
    monkeypatch.setattr(units_module, "SCAN_BYTES", 37)
    monkeypatch.setattr(reading_module, "SCAN_BYTES", 29)
    monkeypatch.setattr(reading_module, "BATCH_ROWS", 4)


def all_rows(path: Path, unit_rows: int) -> tuple[list[WorkUnit], list[list[RowBatch]]]:
    source = find_source(path)
    layout = find_schema(source, ("text",), None)
    units = plan_units(source, layout, unit_rows)
    return units, [list(read_unit(source, layout, unit)) for unit in units]


def texts_of(batches: list[list[RowBatch]]) -> list[Any]:
    """The texts of all rows; None: missing."""
    texts = [text for unit in batches for batch in unit for text in batch.texts]
    return [None if isinstance(text, Missing) else text for text in texts]


@FEW
@given(st.lists(TEXT, min_size=1, max_size=40), st.integers(1, 12), st.booleans(), st.booleans())
def test_jsonl(tmp_path: Path, texts: list[str], unit_rows: int, end: bool, mark: bool) -> None:
    path = tmp_path / "in.jsonl"
    lines = [json.dumps({"text": text}, ensure_ascii=False) for text in texts]
    data = "\n".join(lines) + ("\n" if end else "")
    path.write_bytes((b"\xef\xbb\xbf" if mark else b"") + data.encode())
    units, found = all_rows(path, unit_rows)
    assert texts_of(found) == texts
    assert [unit.rows for unit in units[:-1]] == [unit_rows] * (len(units) - 1)
    numbers = [n for unit in found for batch in unit for n in batch.numbers]
    assert numbers == list(range(1, len(texts) + 1))
    assert all(len(batch.texts) == 4 for unit in found for batch in unit[:-1])


@FEW
@given(
    st.lists(TEXT.filter(bool), min_size=1, max_size=40),
    st.integers(1, 12),
    st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([",", ";", "\t"]),
)
def test_csv(
    tmp_path: Path, texts: list[str], unit_rows: int, quoting: int, end: str, separator: str
) -> None:
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator=end, delimiter=separator, quoting=quoting)
    writer.writerow(["id", "text"])
    writer.writerows(enumerate(texts))
    path = tmp_path / "in.csv"
    path.write_bytes(out.getvalue().encode())
    units, found = all_rows(path, unit_rows)
    assert texts_of(found) == texts
    assert sum(unit.rows for unit in units) == len(texts)
    kept = [n for unit in found for batch in unit for n in batch.kept.column("id").to_pylist()]
    assert kept == [str(n) for n in range(len(texts))]
    lines = out.getvalue().encode().split(b"\n")
    for unit, batches in zip(units, found, strict=True):
        assert batches[0].numbers[0] == unit.first
        assert lines[unit.first - 1].lstrip(b'"').split(separator.encode())[0].strip(b'"').isdigit()


@pytest.mark.system
@settings(FEW, max_examples=300)
@given(st.text(st.sampled_from('aa,,"""\n\n\r'), max_size=60), st.integers(1, 5))
def test_a_bad_row_of_a_csv_leaves_its_neighbours_alone(
    tmp_path: Path, body: str, unit_rows: int
) -> None:
    """Cuts fall where Python's csv ends a row, whatever is wrong with rows before."""
    path = tmp_path / "in.csv"
    path.write_bytes(b"id,text\n" + body.encode())
    reader = csv.reader(io.StringIO(body, newline="\n"), strict=True)
    wanted: list[tuple[int, Any]] = []
    while True:
        number = reader.line_num + 2
        try:
            if cells := next(reader):
                wanted.append((number, (cells[1] or None) if len(cells) == 2 else Fault))
        except StopIteration:
            break
        except csv.Error as error:
            if "unexpected end" in str(error):
                with pytest.raises(InputError, match=rf"in\.csv:{number}: a quote opens in this"):
                    all_rows(path, unit_rows)
                return
            wanted.append((number, Fault))
    units, found = all_rows(path, unit_rows)
    batches = [batch for unit in found for batch in unit]
    texts = [Fault if isinstance(text, Fault) else text for text in texts_of(found)]
    numbers = [n for batch in batches for n in batch.numbers]
    assert list(zip(numbers, texts, strict=True)) == wanted
    assert [unit.start for unit in units[1:]] == [unit.stop for unit in units[:-1]]
    kept = [row for batch in batches for row in batch.kept.column("text").to_pylist()]
    assert kept == [None if text is Fault else text or "" for text in texts]


@FEW
@given(st.lists(st.integers(0, 9), max_size=12), st.integers(1, 12))
def test_parquet(tmp_path: Path, groups: list[int], unit_rows: int) -> None:
    path = tmp_path / "in.parquet"
    schema = pa.schema([("text", pa.string())])
    texts = [str(n) for n in range(sum(groups))]
    with pq.ParquetWriter(path, schema) as writer:
        start = 0
        for count in groups:
            writer.write_table(pa.table({"text": texts[start : start + count]}, schema=schema))
            start += count
    units, found = all_rows(path, unit_rows)
    assert texts_of(found) == texts
    assert sum(unit.rows for unit in units) == len(texts)
    assert all(unit.rows <= 2 * unit_rows for unit in units)


@given(st.lists(st.integers(0, 30), max_size=30), st.integers(1, 40))
def test_row_cuts_cover_all_rows(groups: list[int], unit_rows: int) -> None:
    ends = row_cuts(groups, unit_rows)
    assert ends == sorted(set(ends))
    assert (ends[-1] if ends else 0) == sum(groups)
    assert all(end - start <= 2 * unit_rows for start, end in zip([0, *ends], ends, strict=False))


def test_text_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    for data, said in (
        (b"", "no header"),
        (b"a,a\n1,2\n", "two columns have the same name, 'a'"),
        ("text\na\n".encode("utf-16"), "UTF-16"),
        (b'id,text\n1,a\n2,"open\n3,c\n', r"in\.csv:3: a quote opens in this row"),
        (b"id,text\r1,a\r2,b\r", r"in\.csv:1: a line ends with CR alone"),
    ):
        path.write_bytes(data)
        with pytest.raises(InputError, match=said):
            all_rows(path, 10)
    path.write_bytes(b"id,text\n1,a\n2,\xff\n3\n\n4,b\n")
    _, found = all_rows(path, 10)
    texts = texts_of(found)
    assert (texts[0], texts[3]) == ("a", "b")
    assert [isinstance(text, Fault) for text in texts] == [False, True, True, False]
    assert [n for unit in found for batch in unit for n in batch.numbers] == [2, 3, 4, 6]


def test_jsonl_columns_have_the_type_of_the_first_rows(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    rows = [
        {"text": "a", "n": n, "x": 0.5, "b": True, "deep": {"k": [n]}, "none": None}
        for n in range(1000)
    ]
    odd = [{"text": "b", "n": "no"}, {"text": "c", "n": 2**70}, {"text": "d", "new": 1}]
    odd += [{"text": "e", "x": 1}, {"text": "\ud800"}, {}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows + odd))
    source = find_source(path)
    layout = find_schema(source, ("text",), None)
    kinds = dict(zip(layout.keep.names, map(str, layout.keep.types), strict=True))
    assert kinds == {
        **{"text": "string", "n": "int64", "x": "double", "b": "bool"},
        **{"deep": "string", "none": "string"},
    }
    (unit,) = plan_units(source, layout, 5000)
    batches = list(read_unit(source, layout, unit))
    kept = pa.concat_tables([batch.kept for batch in batches])
    assert kept.column("deep")[3].as_py() == '{"k": [3]}'
    texts = texts_of([batches])[1000:]
    assert [isinstance(text, Fault) for text in texts] == [True, True, True, False, True, False]
    assert "holds 'no', and int64" in texts[0].why and "'new'" in texts[2].why
    assert texts[5] is None
    narrow = find_schema(source, ("text",), ["n"])
    assert texts_of([list(read_unit(source, narrow, unit))])[1002] == "d"


def test_a_file_that_changed_since_it_was_planned(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text('{"text": "a"}\n')
    source = find_source(path)
    layout = find_schema(source, (), None)
    (unit,) = plan_units(source, layout, 10)
    path.write_text('{"text": "ab"}\n')
    with pytest.raises(InputError, match="not the file that was planned"):
        list(read_unit(source, layout, unit))


def test_a_column_of_texts_that_a_whole_file_lacks_is_no_null(tmp_path: Path) -> None:
    (tmp_path / "0.jsonl").write_text("\n")
    (tmp_path / "1.jsonl").write_text('{"text": "a", "id": 1}\n{"id": 2}\n')
    source = find_source(tmp_path)
    layout = find_schema(source, (), ["id"])
    units = plan_units(source, layout, 10)
    assert texts_of([list(read_unit(source, layout, unit)) for unit in units]) == ["a", None]
    (tmp_path / "2.jsonl").write_text('{"txt": "a", "id": 1}\n')
    with pytest.raises(UnknownNameError, match=r"2\.jsonl has no column 'text'; did you mean txt"):
        plan_units(find_source(tmp_path), layout, 10)


def test_whole_numbers_that_a_double_does_not_hold(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    numbers = ["1.5", str(2**53 + 1), "1" + "0" * 400, "7"]
    path.write_text("".join(f'{{"text": "a", "x": {number}}}\n' for number in numbers))
    _, found = all_rows(path, 10)
    assert [isinstance(text, Fault) for text in texts_of(found)] == [False, True, True, False]
    assert found[0][0].kept.column("x").to_pylist() == [1.5, None, None, 7.0]


def test_parquet_that_lies_or_repeats_itself(tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    raw = pa.array([b"\xff", b"ok", None], pa.binary())
    pq.write_table(pa.table({"text": raw.view(pa.string())}), path)
    source = find_source(path)
    layout = find_schema(source, (), [])
    (unit,) = plan_units(source, layout, 10)
    (batch,) = read_unit(source, layout, unit)
    assert isinstance(batch.texts[0], Fault) and texts_of([[batch]])[1:] == ["ok", None]
    assert len(batch.kept) == 3  # of no columns
    columns = [pa.array(["a"]), pa.array([1]), pa.array([2])]
    pq.write_table(pa.Table.from_arrays(columns, names=["text", "x", "x"]), path)
    with pytest.raises(InputError, match="two columns have the same name, 'x'"):
        find_schema(find_source(path), (), None)
    assert find_schema(find_source(path), (), ["text"]).keep.names == ["text"]


def test_links_show_a_file_once(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.csv").write_text("text\na\n")
    (folder / "loop").symlink_to(folder)
    (folder / "same.csv").symlink_to(folder / "a.csv")
    (tmp_path / "link").symlink_to(folder)
    assert [file.path for file in find_source(folder).files] == [f"{folder}/a.csv"]
    assert [file.path for file in find_source(tmp_path / "link").files] == [
        f"{tmp_path}/link/a.csv"
    ]
    os.rename(os.fsencode(folder / "a.csv"), os.fsencode(folder) + b"/\xff.csv")
    with pytest.raises(InputError, match="name is not UTF-8"):
        find_source(folder)


def test_patterns_and_folders(tmp_path: Path) -> None:
    for name in ("a/1.csv", "a/2.csv", "a/b/3.csv", "a/_x/4.csv", "a/.y.csv", "c/5.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("text\na\n")

    def names(pattern: str) -> list[str]:
        return [Path(file.path).name[0] for file in find_source(f"{tmp_path}/{pattern}").files]

    assert names("a") == ["1", "2", "3"]
    assert names("a/*.csv") == [".", "1", "2"]
    assert names("a/?.csv") == names("a/[12].csv") == ["1", "2"]
    assert sorted(names("*/*.csv")) == [".", "1", "2", "5"]
    assert sorted(names("a/**/[1-5].csv")) == ["1", "2", "3", "4"]
    assert [file.path for file in find_source([tmp_path / "a/1.csv", tmp_path / "c"]).files] == [
        f"{tmp_path}/a/1.csv",
        f"{tmp_path}/c/5.csv",
    ]
    (tmp_path / "odd[1].csv").write_text("text\na\n")
    assert len(find_source(tmp_path / "odd[1].csv").files) == 1


@pytest.mark.parametrize("format", ["csv", "jsonl", "parquet"])
def test_a_file_that_changes_while_a_unit_is_read_is_refused(tmp_path: Path, format: str) -> None:
    """Rows of the old file and of the new one would make one unit."""
    path = tmp_path / f"in.{format}"

    def write(word: str) -> None:
        texts = [f"{word} {i:04d}" for i in range(5000)]
        if format == "parquet":
            pq.write_table(pa.table({"text": texts}), path, row_group_size=500, compression="none")
        elif format == "jsonl":
            path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
        else:
            path.write_text("".join(f"{text}\n" for text in ["text", *texts]))

    write("old")
    source = find_source(path)
    layout = find_schema(source, ("text",), None)
    (unit,) = plan_units(source, layout, 100_000)
    batches = read_unit(source, layout, unit)
    assert next(batches).texts[0] == "old 0000"
    write("new")
    with pytest.raises(InputError, match=f"in.{format}: not the file that was planned"):
        for _ in batches:
            pass

"""A lake from plan to one file: what is refused, repaired, counted and named. Units run in here."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import resource
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

from lakes import TEXT, bytes_of, pairs, parts, read_lake, write_model, write_rows  # noqa: E402

import roberta_hub  # noqa: E402
from roberta_hub.errors import InputError, LakeError, RobertaHubError, UnknownNameError  # noqa: E402
from roberta_hub.hub import load_model  # noqa: E402
from roberta_hub.scale import Verb, lake, status  # noqa: E402
from roberta_hub.scale.plan import SAME_ANSWERS  # noqa: E402
from roberta_hub.shell.main import main  # noqa: E402

ROWS, UNIT = 90, 20
pytestmark = pytest.mark.usefixtures("ran")
FORMATS = ("parquet", "jsonl", "csv")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def verb(model: Path) -> Verb:
    return Verb("classify", model, text=TEXT, head="mnli", threads=1)


@pytest.fixture(scope="module")
def wanted(model: Path) -> list[Any]:
    roberta = load_model(model)
    return roberta.classify([(r["premise"], r["hypothesis"]) for r in pairs(ROWS)], "mnli")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "in.parquet", pairs(ROWS))


@pytest.mark.parametrize("format", FORMATS)
def test_rows_ids_order_labels_and_scores(
    format: str, tmp_path: Path, verb: Verb, wanted: list[Any]
) -> None:
    rows = pairs(ROWS)
    (tmp_path / "in").mkdir()
    write_rows(tmp_path / "in" / f"a.{format}", rows[:35])
    write_rows(tmp_path / "in" / f"b.{format}", rows[35:])
    report = lake(tmp_path / "in", tmp_path / "out", verb, unit_rows=UNIT)
    found = read_lake(tmp_path / "out")
    assert (report.rows, report.units, report.left, report.faults) == (ROWS, 5, 0, 0)
    assert [int(row["id"]) for row in found] == list(range(ROWS))
    assert [row["premise"] for row in found] == [row["premise"] for row in rows]
    assert [row["label"] for row in found] == [p.label for p in wanted]
    assert [row["score"] for row in found] == pytest.approx([p.score for p in wanted], abs=1e-6)
    assert {path.name[:11] for path in parts(tmp_path / "out")} == {
        f"part-{n:06}" for n in range(5)
    }


def test_the_same_call_goes_on_and_makes_the_same_bytes(
    tmp_path: Path, source: Path, verb: Verb, ran: list[int]
) -> None:
    lake(source, tmp_path / "clean", verb, unit_rows=UNIT)
    for part in ((2, 3), (1, 3), (3, 3)):
        assert not (tmp_path / "out" / "_SUCCESS").exists()
        report = lake(source, tmp_path / "out", verb, unit_rows=UNIT, part=part)
    assert report.left == 0
    assert bytes_of(tmp_path / "out") == bytes_of(tmp_path / "clean")
    ran.clear()
    assert lake(source, tmp_path / "out", verb, unit_rows=UNIT).rows == ROWS
    parts(tmp_path / "out")[2].unlink()
    assert lake(source, tmp_path / "out", verb, unit_rows=UNIT).rows == ROWS
    assert ran == [2]
    assert bytes_of(tmp_path / "out") == bytes_of(tmp_path / "clean")


@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize("damage", ["cut", "empty", "another unit's", "not Parquet"])
def test_a_damaged_file_is_noticed_and_made_again(
    damage: str, finished: bool, tmp_path: Path, source: Path, verb: Verb, ran: list[int]
) -> None:
    out = tmp_path / "out"
    lake(source, out, verb, unit_rows=UNIT)
    clean, (first, second, *_) = bytes_of(out), parts(out)
    if not finished:
        (out / "_SUCCESS").unlink()
    if damage == "another unit's":
        shutil.copy(first, second)
    else:
        data = {"cut": clean[second.name][:-100], "empty": b"", "not Parquet": b"x" * 5000}[damage]
        second.write_bytes(data)
    ran.clear()
    assert lake(source, out, verb, unit_rows=UNIT).rows == ROWS
    assert ran == [1]
    assert bytes_of(out) == clean


def test_what_differs_is_named_and_nothing_touched(
    tmp_path: Path, source: Path, verb: Verb, ran: list[int]
) -> None:
    out = tmp_path / "out"
    lake(source, out, verb, unit_rows=UNIT)
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in out.iterdir()}
    ran.clear()
    other = write_model(tmp_path / "other", seed=1)
    moved = tmp_path / "moved"
    shutil.copytree(verb.model, moved)
    assert lake(source, out, verb.replace(model=moved), unit_rows=UNIT).rows == ROWS
    for changed, word in (
        (verb.replace(model=other), "model"),
        (verb.replace(head="race"), "head"),
        (verb.replace(truncate=True), "truncate"),
        (verb.replace(optimize="float32"), "optimize"),
        (verb.replace(dtype="bfloat16"), "model"),
        (verb.replace(threads=2), "threads: it was 1 and is 2"),
        (verb.replace(text=TEXT[::-1]), "columns with the texts"),
        (verb.replace(errors="column"), "errors"),
    ):
        with pytest.raises(InputError, match=word):
            lake(source, out, changed, unit_rows=UNIT)
    with pytest.raises(InputError, match="unit_rows: it was 20 and is 21"):
        lake(source, out, verb, unit_rows=21)
    with pytest.raises(InputError, match="columns to keep"):
        lake(source, out, verb, unit_rows=UNIT, keep=["id"])
    os.utime(source, ns=(1, 1))
    with pytest.raises(InputError, match=r"in\.parquet changed since"):
        lake(source, out, verb, unit_rows=UNIT)
    more = write_rows(tmp_path / "more.parquet", pairs(3))
    with pytest.raises(InputError, match=r"in\.parquet is gone|more\.parquet is new"):
        lake(more, out, verb, unit_rows=UNIT)
    assert ran == []
    after = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in out.iterdir()}
    assert after == before


def test_threads_are_those_of_the_plan_unless_given(
    tmp_path: Path, source: Path, verb: Verb
) -> None:
    free = verb.replace(threads=None)
    lake(source, tmp_path / "out", free, unit_rows=UNIT, workers=1, part=(1, 2))
    lake(source, tmp_path / "out", free, unit_rows=UNIT, workers=64)
    assert status(tmp_path / "out").finished


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("one_file", [False, True])
def test_rows_without_an_answer_are_named_at_the_end_and_all_others_answered(
    format: str, one_file: bool, tmp_path: Path, verb: Verb, wanted: list[Any], ran: list[int]
) -> None:
    """One empty cell, or one long text, costs no other row its answer, and is never silent."""
    rows = pairs(ROWS)
    rows[47]["premise"] = "long " * 60
    rows[50]["hypothesis"] = None if format != "csv" else ""
    rows[51]["hypothesis"] = "NaN"
    source = write_rows(tmp_path / f"in.{format}", rows)
    out = tmp_path / ("one.parquet" if one_file else "out")
    header = format == "csv"
    for _ in range(2):  # the same call again does nothing, and says the same
        with pytest.raises(LakeError) as caught:
            lake(source, out, verb, unit_rows=UNIT)
        report: Any = caught.value.report
        said = str(caught.value)
        assert said.startswith(
            f"2 rows of {ROWS} without an answer (1 without a text), all others "
        )
        assert f"in.{format}:{48 + header}: too long: " in said
        assert f"in.{format}:{51 + header}: nothing in the column 'hypothesis'" in said
        assert (report.rows, report.faults, report.missing, report.words) == (ROWS, 2, 1, 1)
        assert (report.left, len(report.failed)) == (0, 0)
        assert "; 2 rows without an answer, 1 of them without a text; 1 row whose text" in (
            str(report)
        )
    assert sorted(ran) == list(range(5))
    assert status(out).finished
    found = pq.read_table(out).to_pylist() if one_file else read_lake(out)
    assert [n for n, row in enumerate(found) if row["label"] is None] == [47, 50]
    labels = [row["label"] for n, row in enumerate(found) if n not in (47, 50, 51)]
    assert labels == [p.label for n, p in enumerate(wanted) if n not in (47, 50, 51)]
    again = tmp_path / ("again.parquet" if one_file else "again")
    report = lake(source, again, verb, unit_rows=UNIT, errors="column")
    assert (report.faults, report.missing, report.words) == (2, 1, 1)
    found = pq.read_table(again).to_pylist() if one_file else read_lake(again)
    assert [n for n, row in enumerate(found) if row["error"] is not None] == [47, 50]
    assert found[50]["error"] == "nothing in the column 'hypothesis'"


@pytest.mark.parametrize("ending", ["csv.gz", "jsonl.gz", "csv.xz", "JSONL.XZ"])
def test_a_compressed_file_of_a_folder_is_one_unit(
    ending: str, tmp_path: Path, verb: Verb, wanted: list[Any]
) -> None:
    rows = pairs(ROWS)
    plain, packing = ending.lower().split(".")
    pack = {"gz": gzip.compress, "xz": lzma.compress}[packing]
    folder = tmp_path / "in"
    folder.mkdir()
    first = write_rows(folder / f"a.{plain}", rows[:35]).read_bytes()
    second = write_rows(folder / f"b.{plain}", rows[35:]).read_bytes()
    (folder / f"b.{plain}").unlink()
    (folder / f"b.{ending}").write_bytes(pack(second))
    (folder / f"0.{ending}").write_bytes(pack(b""))
    report = lake(folder, tmp_path / "out", verb, unit_rows=UNIT)
    assert (report.rows, report.units) == (ROWS, 3)  # 20 and 15 rows, and one file of 55
    found = read_lake(tmp_path / "out")
    assert [int(row["id"]) for row in found] == list(range(ROWS))
    assert [row["label"] for row in found] == [p.label for p in wanted]
    (folder / f"a.{plain}").write_bytes(first)
    (folder / f"b.{ending}").write_bytes(pack(second)[:-9])
    with pytest.raises(InputError, match=rf"b\.{ending}: cannot be read"):
        lake(folder, tmp_path / "cut", verb, unit_rows=UNIT)


@pytest.mark.parametrize("format", FORMATS)
def test_bad_rows_stand_beside_their_error(format: str, tmp_path: Path, verb: Verb) -> None:
    rows = pairs(50)
    rows[7]["premise"] = "long " * 60
    rows[9]["hypothesis"] = None if format != "csv" else ""
    source = write_rows(tmp_path / f"in.{format}", rows)
    if format == "jsonl":
        lines = source.read_text().splitlines()
        lines[20], lines[21] = "{broken", '["a list"]'
        lines[22] = json.dumps({"premise": 5, "hypothesis": "a", "id": "no number"})
        source.write_text("\n".join(lines))
    if format == "csv":
        source.write_text(source.read_text() + '1,2\n3,4,5,6\n7,"a"b,c\n8,5" a,b\n')
    report = lake(source, tmp_path / "out", verb, unit_rows=UNIT, errors="column", keep=["id"])
    found = read_lake(tmp_path / "out")
    wrong = {n: row["error"] for n, row in enumerate(found) if row["error"] is not None}
    bad = {"parquet": [7, 9], "jsonl": [7, 9, 20, 21, 22], "csv": [7, 9, 50, 51, 52]}[format]
    assert sorted(wrong) == bad
    assert report.faults == len(bad)
    assert all(found[n]["label"] is None and found[n]["score"] is None for n in bad)
    assert "too long" in wrong[7]
    assert list(found[0]) == ["id", "label", "score", "error"]
    if format == "csv":
        assert "2 fields, the header has 3" in wrong[50] and "closing quote" in wrong[52]
        assert [row["id"] for row in found[50:]] == [None, None, None, "8"]
    assert wrong[9] == "nothing in the column 'hypothesis'"
    if format == "jsonl":
        said = ("not JSON", "a JSON list", "'premise' holds 5, a int, not a text")
        assert [word in wrong[n] for n, word in enumerate(said, 20)] == [True] * 3
        assert [found[n]["id"] for n in (19, 20, 22)] == ["19", None, "no number"]


def test_one_file_is_put_together_at_the_end(
    tmp_path: Path, source: Path, verb: Verb, ran: list[int]
) -> None:
    one = tmp_path / "one.parquet"
    one.write_bytes(b"older")
    lake(source, one, verb, unit_rows=UNIT, part=(1, 2))
    assert one.read_bytes() == b"older"
    assert lake(source, one, verb, unit_rows=UNIT).rows == ROWS
    table = pq.read_table(one)
    assert table.column("id").to_pylist() == list(range(ROWS))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.parquet", "one.parquet"]
    ran.clear()
    assert status(one).finished
    assert lake(source, one, verb, unit_rows=UNIT).rows == ROWS
    assert ran == []
    lake(source, one, verb.replace(truncate=True), unit_rows=UNIT)
    assert len(ran) == 5


@pytest.mark.parametrize("format", ["parquet", "jsonl", "csv"])
def test_a_source_without_rows_gives_a_file_with_the_columns(
    format: str, tmp_path: Path, verb: Verb
) -> None:
    source = tmp_path / f"in.{format}"
    if format == "parquet":
        pq.write_table(pa.table({name: pa.array([], pa.string()) for name in TEXT}), source)
    else:
        source.write_text("premise,hypothesis\n" if format == "csv" else "")
    assert lake(source, tmp_path / "out", verb).rows == 0
    (part,) = parts(tmp_path / "out")
    assert pq.read_table(part).column_names == [*TEXT, "label", "score"]


def test_every_way_to_write_text_in_arrow(tmp_path: Path, model: Path) -> None:
    texts = ["a dog ran", None, "some animal slept", "a dog ran"]
    plain = pa.array(texts)
    kinds = {
        "string": plain,
        "large_string": plain.cast(pa.large_string()),
        "string_view": plain.cast(pa.string_view()),
        "dictionary": plain.dictionary_encode(),
    }
    verb = Verb("embed", model, text="text", threads=1, errors="column")
    answers = []
    for name, column in kinds.items():
        source = tmp_path / f"{name}.parquet"
        pq.write_table(pa.table({"text": column}), source)
        lake(source, tmp_path / name, verb)
        answers.append(pq.read_table(parts(tmp_path / name)[0]))
    assert all(found.equals(answers[0]) for found in answers)
    assert answers[0].schema.field("text").type == pa.string()
    assert answers[0].schema.field("vector").type == pa.list_(pa.float32(), 32)
    assert [row is None for row in answers[0]["vector"].to_pylist()] == [False, True, False, False]


def test_what_cannot_be_a_lake(tmp_path: Path, source: Path, verb: Verb) -> None:
    out = tmp_path / "out"
    (tmp_path / "several").mkdir()
    write_rows(tmp_path / "several" / "a.parquet", pairs(3))
    write_rows(tmp_path / "several" / "b.jsonl", pairs(3))
    (tmp_path / "in.txt").write_text("a\n")
    (tmp_path / "in.jsonl.gz").write_bytes(b"no gzip")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 no")
    (tmp_path / "empty").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "other.csv").write_text("x")
    linked = tmp_path / "link"
    linked.symlink_to(tmp_path / "alone")
    (tmp_path / "alone").mkdir()
    write_rows(tmp_path / "alone" / "a.parquet", pairs(3))
    number = tmp_path / "number.parquet"
    pq.write_table(pa.table({"premise": [1], "hypothesis": ["a"]}), number)
    for given, target, error, said in (
        (tmp_path / "no.parquet", out, InputError, "no such file"),
        (tmp_path / "*.orc", out, InputError, "no file matches"),
        (tmp_path / "in.txt", out, InputError, r"\.parquet, \.jsonl and \.csv"),
        (tmp_path / "in.jsonl.gz", out, InputError, "in.jsonl.gz: cannot be read"),
        (tmp_path / "bad.parquet", out, InputError, "bad.parquet: cannot be read"),
        (tmp_path / "several", out, InputError, "one format"),
        (tmp_path / "empty", out, InputError, "no files"),
        (number, out, InputError, "the column 'premise' holds int64"),
        (source, tmp_path / "full", InputError, "holds 'other.csv' and no plan"),
        (source, source, InputError, "holds the source"),
        (tmp_path, tmp_path / "out", InputError, r"\.parquet, \.jsonl and \.csv"),
        (tmp_path / "several", tmp_path / "several" / "out", InputError, "one format"),
        ([], out, InputError, "source"),
        ("nowhere://x/y", out, InputError, "nowhere"),
        (source, tmp_path / "no" / "one.parquet", InputError, "no such folder"),
        (tmp_path / "in.p*", tmp_path / "in.pq", InputError, "is inside the source"),
        (linked, tmp_path / "alone" / "out", InputError, "is inside the source"),
        (tmp_path / "alone", linked / "out", InputError, "is inside the source"),
    ):
        with pytest.raises(error, match=said):
            lake(given, target, verb)
    with pytest.raises(UnknownNameError, match="no column 'hypothesi'; did you mean hypothesis"):
        lake(source, out, verb.replace(text=("premise", "hypothesi")))
    with pytest.raises(UnknownNameError, match="no column 'key'"):
        lake(source, out, verb, keep=["key"])
    pq.write_table(pa.table({**{name: ["a"] for name in TEXT}, "label": [1]}), number)
    with pytest.raises(InputError, match="'label' already"):
        lake(number, out, verb)
    assert not out.exists()
    lake(number, out, verb.replace(prefix="predicted_"))
    assert pq.read_table(parts(out)[0]).column_names[2:] == [
        "label",
        "predicted_label",
        "predicted_score",
    ]


@pytest.mark.system
def test_hostile_arguments(tmp_path: Path, source: Path, verb: Verb) -> None:
    values: list[Any] = [None, -1, 0, 1e30, float("nan"), "", "a\0b", b"x", [], (), {}, 1j]
    values += [object(), "\ud800", True, [None], lambda: None]
    for name in ("source", "target", "verb", "engine", "workers", "unit_rows", "keep", "errors"):
        for value in values:
            given = {"source": source, "target": tmp_path / "out", "verb": verb, name: value}
            shutil.rmtree(tmp_path / "out", ignore_errors=True)
            try:
                lake(**given)
            except RobertaHubError as error:
                assert len(str(error)) > 10
    for name in ("part", "time_limit", "attempts", "address"):
        for value in values:
            shutil.rmtree(tmp_path / "out", ignore_errors=True)
            try:
                lake(source, tmp_path / "out", verb, **{name: value})
            except RobertaHubError as error:
                assert len(str(error)) > 10


def test_columns_that_some_files_have_are_null_in_the_others(tmp_path: Path, verb: Verb) -> None:
    rows = pairs(6)
    folder = tmp_path / "in"
    folder.mkdir()
    write_rows(folder / "a.parquet", [{**row, "old": "x", "void": None} for row in rows[:2]])
    write_rows(folder / "b.parquet", [{**row, "new": 1.5, "void": 7} for row in rows[2:4]])
    write_rows(folder / "c.parquet", [{**row, "void": None} for row in rows[4:]])
    assert lake(folder, tmp_path / "all", verb).rows == 6
    found = read_lake(tmp_path / "all")
    names = ["id", *TEXT, "old", "void", "new"]
    assert list(found[0])[: len(names)] == names
    assert [row["id"] for row in found] == list(range(6))
    assert [(row["old"], row["void"], row["new"]) for row in found[::2]] == [
        ("x", None, None),
        (None, 7, 1.5),
        (None, None, None),
    ]
    assert not lake(folder, tmp_path / "all", verb).done
    lake(folder, tmp_path / "some", verb, keep=["new"])
    assert [row["new"] for row in read_lake(tmp_path / "some")] == [
        None,
        None,
        1.5,
        1.5,
        None,
        None,
    ]
    with pytest.raises(UnknownNameError, match="no column 'nwe'; did you mean new"):
        lake(folder, tmp_path / "none", verb, keep=["nwe"])


def test_two_types_of_a_column_are_refused_with_both_files(tmp_path: Path, verb: Verb) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for name, stars in zip("abc", (None, 1, "two"), strict=True):
        write_rows(folder / f"{name}.parquet", [{**pairs(1)[0], "stars": stars}])
    with pytest.raises(
        InputError,
        match=r"/c\.parquet: the column 'stars' holds string, and int64 in .*/b\.parquet; write",
    ):
        lake(folder, tmp_path / "out", verb)
    assert not (tmp_path / "out").exists()
    assert lake(folder, tmp_path / "out", verb, keep=["id"]).rows == 3


@pytest.mark.parametrize("format", FORMATS)
def test_what_folders_name_are_columns(format: str, tmp_path: Path, verb: Verb) -> None:
    rows, places = pairs(4), ("=2020/land=DE", "=2021/land=a%2Fb", "=2021/land=", "=-3/land=x=y")
    for row, place in zip(rows, places, strict=True):
        folder = tmp_path / f"run=1/in/year{place}/zip=01"
        folder.mkdir(parents=True)
        write_rows(folder / f"part.{format}", [row])
    nothing = tmp_path / "run=1/in/year=2020/land=__HIVE_DEFAULT_PARTITION__"
    nothing.mkdir()
    write_rows(nothing / f"part.{format}", [rows[0]])
    wanted = {(-3, "x=y", "01"), (2020, "DE", "01"), (2020, None, None), (2021, "", "01")}
    wanted |= {(2021, "a/b", "01")}
    root = tmp_path / "run=1/in"
    for number, source in enumerate((root, f"{root}/**/*.{format}", f"{root}/year=*/**/p*")):
        target = tmp_path / f"out{number}"
        assert lake(source, target, verb).rows == 5
        found = read_lake(target)
        assert {(row["year"], row["land"], row["zip"]) for row in found} == wanted
        assert list(found[0])[:3] == ["id", *TEXT] and "run" not in found[0]
        assert not lake(source, target, verb).done
    lake(root, tmp_path / "year", verb, keep=["year"])
    assert list(read_lake(tmp_path / "year")[0]) == ["year", *verb.schema().names]
    lake(root / "year=2020/land=DE", tmp_path / "below", verb)
    assert {"year", "land"} & read_lake(tmp_path / "below")[0].keys() == set()
    write_rows(root / f"year=2020/land=DE/more.{format}", [{**rows[0], "zip": "7"}])
    if format == "parquet":  # text files have the columns of the first
        with pytest.raises(
            InputError, match=r"'zip' is a column of the files, and a folder's name"
        ):
            lake(root, tmp_path / "clash", verb)
        assert lake(root, tmp_path / "clash", verb, keep=["id"]).rows == 6


def test_a_nul_is_the_fault_of_its_row_as_for_a_verb(
    tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = pairs(5)
    rows[2]["hypothesis"] = "a\0b"
    source = write_rows(tmp_path / "in.csv", rows)
    asked = ["classify", "-m", str(model), "--head", "mnli", "-i", str(source)]
    asked += ["-c", "premise,hypothesis"]
    for errors in ("raise", "column"):
        said, found = [], []
        for target in (tmp_path / f"{errors}.parquet", tmp_path / f"{errors}/"):
            if not target.suffix:
                target.mkdir()
            status = main([*asked, "-o", str(target), "--errors", errors])
            said.append((status, capsys.readouterr().err.splitlines()[-1]))
            path = target if target.suffix else parts(target)[0]
            found.append(pq.read_table(path).to_pylist())
        assert [row["id"] for row in found[0]] == [row["id"] for row in found[1]]
        assert [row.get("error") for row in found[0]] == [row.get("error") for row in found[1]]
        if errors == "raise":
            assert said[0] == said[1] and f"{source}:4: holds a NUL" in said[0][1]
        else:
            assert "holds a NUL" in found[0][2]["error"] and said[0][0] == said[1][0] == 0


def test_a_full_disk_stops_with_a_sentence_and_the_same_call_goes_on(
    tmp_path: Path, source: Path, verb: Verb
) -> None:
    wide = verb.replace(prefix="x" * 2000)  # names in the footer: a file of more than the limit
    lake(source, tmp_path / "out", wide, unit_rows=UNIT, part=(1, 5))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(InputError, match=r"the same call goes on: .*File too large"):
            lake(source, tmp_path / "out", wide, unit_rows=UNIT)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert len(bytes_of(tmp_path / "out")) == 1
    assert lake(source, tmp_path / "out", wide, unit_rows=UNIT).rows == ROWS


@pytest.mark.system
def test_the_shell_reaches_a_lake(
    tmp_path: Path, source: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "out") + "/"
    common = ["classify", "-m", str(model), "--head", "mnli", "-c", "premise,hypothesis"]
    common += ["--unit-rows", str(UNIT)]
    assert main([*common, "-i", str(source), "-o", out, "--keep", "id", "--part", "1/2"]) == 0
    assert main(["classify", "-o", out, "--status"]) == 0
    assert "3 of 5 units done, 2 left" in capsys.readouterr().out
    assert main(["zero-shot", "-o", out, "--status"]) == 0  # without --labels
    assert main([*common, "-i", str(source), "-o", out, "--keep", "id"]) == 0
    assert "5 of 5 units, 90 rows" in capsys.readouterr().err
    assert list(read_lake(tmp_path / "out")[0]) == ["id", "label", "score", "scores"]
    assert main([*common, "-i", str(source), "-o", out]) == 1
    assert "What differs is the columns to keep" in capsys.readouterr().err
    one = tmp_path / "one.parquet"
    assert main([*common, "-i", str(tmp_path / "in*.parquet"), "-o", str(one)]) == 0
    assert pq.read_table(one).num_rows == ROWS
    for wrong in (["-f", "csv"], ["--part", "3/2"], ["--engine", "dask"], ["a text"]):
        with pytest.raises(SystemExit) as end:
            main([*common, "-i", str(source), "-o", out, *wrong])
        assert end.value.code == 2
    capsys.readouterr()
    rows = pairs(30)
    rows[4]["premise"] = "long " * 60
    bad = write_rows(tmp_path / "bad.jsonl", rows)
    assert main([*common, "-i", str(bad), "-o", str(tmp_path / "bad") + "/"]) == 1
    said = capsys.readouterr().err
    assert "bad.jsonl:5:" in said and "--errors column" in said and "--truncate" in said


@pytest.mark.parametrize("target", ["out", "out.parquet"])
def test_int8_vectors_have_the_ranges_of_a_sample(
    tmp_path: Path, source: Path, model: Path, target: str
) -> None:
    texts = [row["premise"] for row in pairs(ROWS)]
    roberta = load_model(model)
    wanted = roberta.embed(texts, dtype="int8", truncate_dim=9)
    verb = Verb("embed", model, text="premise", vectors="int8", truncate_dim=9, threads=1)
    with pytest.raises(InputError, match="int8 vectors need ranges"):
        verb({"premise": texts})
    place = tmp_path / target
    report = lake(source, place, verb, unit_rows=UNIT)
    assert report.rows == ROWS and lake(source, place, verb, unit_rows=UNIT).done == ()
    first = place if target.endswith("parquet") else next(place.glob("part-*.parquet"))
    field = pq.read_schema(first).field("vector")
    assert field.type == pa.list_(pa.int8(), 9)
    rows = read_lake(place) if target == "out" else pq.read_table(place).to_pylist()
    vectors = np.array([row["vector"] for row in rows], dtype="int8")
    distance = np.abs(vectors - wanted.numpy().astype(int)).max()
    assert distance <= 1  # rounding of another batch
    hits = roberta.search(texts[3], vectors, 1, ranges=place, truncate_dim=9)
    assert texts[hits[0].index] == texts[3]
    one = roberta.embed(texts[3], dtype="int8", truncate_dim=9, ranges=place)
    assert np.abs(one.numpy() - vectors[3].astype(int)).max() <= 1
    if target == "out":
        others = (
            ({"vectors": "binary"}, "vectors: it was 'int8' and is 'binary'"),
            ({"truncate_dim": 8}, "truncate_dim"),
            ({"ranges": [[0.0] * 9, [1.0] * 9]}, "the ranges of int8 vectors"),
        )
        for changes, says in others:
            with pytest.raises(InputError, match=says):
                lake(source, place, verb.replace(**changes), unit_rows=UNIT)


def test_bits_in_a_lake(model: Path) -> None:
    texts = [row["premise"] for row in pairs(5)]
    for vectors, kind in (("binary", pa.int8()), ("ubinary", pa.uint8())):
        found = Verb("embed", model, vectors=vectors)(pa.table({"text": texts}))
        assert found.schema.field("vector").type == pa.list_(kind, 4)
        assert found["vector"].to_pylist() == load_model(model).embed(texts, dtype=vectors).tolist()
    with pytest.raises(InputError, match="which embed makes; features has"):
        Verb("features", model, pooling="mean", vectors="binary")


@pytest.mark.parametrize(
    ("begun_by", "resumes"), [("0.3.0.dev0", True), ("0.3.0", True), ("0.2.0", False)]
)
def test_a_lake_of_another_version_resumes_where_both_answer_alike(
    begun_by: str,
    resumes: bool,
    tmp_path: Path,
    source: Path,
    verb: Verb,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert roberta_hub.__version__ in SAME_ANSWERS
    clean = lake(source, tmp_path / "clean", verb, unit_rows=UNIT)
    rows = read_lake(tmp_path / "clean")
    for target in (tmp_path / "out", tmp_path / "one.parquet"):
        with monkeypatch.context() as before:
            before.setattr(roberta_hub, "__version__", begun_by)
            lake(source, target, verb, unit_rows=UNIT, part=(1, 2))
        if resumes:
            assert lake(source, target, verb, unit_rows=UNIT).rows == clean.rows == ROWS
            assert rows == (read_lake(target) or pq.read_table(target).to_pylist())
            assert lake(source, target, verb, unit_rows=UNIT).done == ()
        else:
            with pytest.raises(InputError, match=r"the version of roberta_hub: it was '0\.2\.0'"):
                lake(source, target, verb, unit_rows=UNIT)

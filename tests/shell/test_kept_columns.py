"""A verb on a table keeps the table's columns beside its answers, in every format."""

from __future__ import annotations

import csv
import io
import json
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from shell.running import Run, runner, write_model

from roberta_hub.rows.tables import open_table

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
FORMATS = ("csv", "tsv", "jsonl", "parquet")
ROWS: list[dict[str, Any]] = [
    {"id": "007", "n": "1.10", "review": "A dog ran.", "note": 'a "b", c\nd'},
    {"id": "008", "n": "NA", "review": "Goal!", "note": ""},
    {"id": "é\u2028", "n": "1e3", "review": "naïve 🙂", "note": "\r "},
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("kept") / "model")


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    folder: Path,
) -> Run:
    monkeypatch.chdir(tmp_path)
    plain = runner(monkeypatch, capsys)
    return lambda verb, *given, **more: plain(verb, "-m", folder, *given, **more)


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        rows = [
            {k: str(v).replace("\n", " ").replace("\r", "") for k, v in row.items()} for row in rows
        ]
        with path.open("w", newline="") as file:
            tab = "\t" if path.suffix == ".tsv" else ","
            writer = csv.DictWriter(file, list(rows[0]), delimiter=tab, quoting=csv.QUOTE_ALL)
            writer.writeheader()
            writer.writerows(rows)
    return path


def values(path: Path) -> list[dict[str, Any]]:
    return [row.values for row in open_table(path).rows()]


@pytest.mark.system
@pytest.mark.parametrize("target", FORMATS)
@pytest.mark.parametrize("source", FORMATS)
def test_every_column_comes_through_as_it_was(
    run: Run, tmp_path: Path, source: str, target: str
) -> None:
    path = write(tmp_path / f"in.{source}", ROWS)
    before = values(path)
    assert run("classify", "-i", path.name, "-c", "review", "-o", f"out.{target}")[0] == 0
    found = values(tmp_path / f"out.{target}")
    assert list(found[0])[:6] == ["id", "n", "review", "note", "label", "score"]
    assert [{name: row[name] for name in ROWS[0]} for row in found] == before
    assert all(row["label"] in ("art", "sport") for row in found)


@pytest.mark.system
@pytest.mark.parametrize("target", FORMATS)
def test_names_all_and_none(run: Run, tmp_path: Path, target: str) -> None:
    write(tmp_path / "in.csv", ROWS)
    for keep, names in (
        ("all", list(ROWS[0])),
        ("note,id", ["note", "id"]),
        ("none", []),
    ):
        out = f"{keep}.{target}"
        assert run("classify", "-i", "in.csv", "-c", "review", "-o", out, "--keep", keep)[0] == 0
        assert [n for n in values(tmp_path / out)[0] if n in ROWS[0]] == names
    status, _, err = run("classify", "-i", "in.csv", "-c", "review", "--keep", "nota")
    assert status == 2 and "did you mean note" in err
    (tmp_path / "all.csv").write_text("text,all,none\na,b,c\n")
    _, out, _ = run("tokens", "-i", "all.csv", "-f", "csv", "--keep", '"all"')
    assert out.startswith("all,tokens,ids\nb,")


def test_types_of_parquet_and_json_stay(run: Run, tmp_path: Path) -> None:
    rows = {
        "text": ["a", "b", "c"],
        "day": [date(2020, 1, 2), None, date(2021, 1, 2)],
        "price": [Decimal("1.10"), None, Decimal("-2.00")],
        "deep": [{"k": [1, None]}, None, {"k": []}],
        "x": [0.1, float("nan"), 1e300],
        "big": [2**60 + 1, None, -1],
        "is": [True, False, None],
    }
    before = pa.table(rows)
    pq.write_table(before, tmp_path / "in.parquet")
    assert run("tokens", "-i", "in.parquet", "-o", "out.parquet")[0] == 0
    found = pq.read_table(tmp_path / "out.parquet").select(list(rows))
    assert found.schema.equals(before.schema)
    assert str(found.to_pylist()) == str(before.to_pylist())  # NaN is not NaN
    assert run("tokens", "-i", "in.parquet", "-o", "out.jsonl")[0] == 0
    first, second, third = values(tmp_path / "out.jsonl")
    assert (first["day"], first["price"], first["deep"]) == ("2020-01-02", "1.10", {"k": [1, None]})
    assert (second["x"], third["x"], first["big"]) == (None, 1e300, 2**60 + 1)
    assert run("tokens", "-i", "out.jsonl", "--keep", "x,is,big", "-o", "again.parquet")[0] == 0
    kinds = [str(field.type) for field in pq.read_schema(tmp_path / "again.parquet")][:3]
    assert kinds == ["double", "bool", "int64"]
    _, out, _ = run("tokens", "-i", "in.parquet", "-f", "csv")
    (row, *_) = csv.DictReader(io.StringIO(out))
    assert (row["deep"], row["is"], row["day"]) == ('{"k": [1, null]}', "true", "2020-01-02")
    pq.write_table(pa.table({"text": ["a"], "raw": [b"\xff"]}), tmp_path / "raw.parquet")
    assert run("tokens", "-i", "raw.parquet", "-o", "raw.parquet.out", "-f", "parquet")[0] == 0
    status, _, err = run("tokens", "-i", "raw.parquet", "-f", "csv")
    assert status == 1 and "'raw' holds binary" in err and "--keep text keeps all but it" in err


def test_objects_of_other_keys(run: Run, tmp_path: Path) -> None:
    """JSONL keeps what each object has; a table of columns takes those of the first objects."""
    rows = [{"text": f"t{i}", "n": i} for i in range(200)]
    rows[150] |= {"late": True}
    write(tmp_path / "in.jsonl", rows)
    assert run("tokens", "-i", "in.jsonl", "-o", "out.jsonl")[0] == 0
    found = values(tmp_path / "out.jsonl")
    assert found[150]["late"] is True and "late" not in found[149]
    status, _, err = run("tokens", "-i", "in.jsonl", "-o", "out.parquet")
    assert status == 1 and "in.jsonl:151: a column 'late' that the first rows have not" in err
    found = values(tmp_path / "out.parquet")
    assert found[150]["tokens"] is None and found[150]["n"] == 150 and len(found) == 200
    assert run("tokens", "-i", "in.jsonl", "-o", "out.csv", "--keep", "text,n")[0] == 0
    stdin = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    status, out, _ = run("tokens", "-c", "text", stdin=stdin)
    assert status == 0 and json.loads(out.splitlines()[150])["late"] is True


@pytest.mark.parametrize("target", FORMATS)
def test_a_clash_of_names_is_told_before_anything_is_done(
    run: Run, tmp_path: Path, target: str
) -> None:
    write(tmp_path / "in.csv", [{"id": "1", "text": "a", "label": "art"}])
    status, out, err = run("classify", "-i", "in.csv", "-o", f"out.{target}")
    assert (status, out) == (1, "") and not (tmp_path / f"out.{target}").exists()
    assert "the table has a column 'label' already" in err
    assert "--keep id,text keeps all but it, --keep none no column" in err
    assert run("classify", "-i", "in.csv", "-o", f"out.{target}", "--keep", "id,text")[0] == 0
    assert list(values(tmp_path / f"out.{target}")[0])[:3] == ["id", "text", "label"]
    write(tmp_path / "scores.csv", [{"text": "a", "scores": "b", "scores.art": "c", "error": "d"}])
    words = "'scores.art'" if target in ("csv", "tsv") else "'scores'"
    status, _, err = run("classify", "-i", "scores.csv", "-o", f"new.{target}")
    assert status == 1 and words in err and not (tmp_path / f"new.{target}").exists()
    given = ("-i", "scores.csv", "-o", f"new.{target}", "--keep", "error", "--errors", "column")
    status, _, err = run("classify", *given)
    assert status == 1 and "'error'" in err


def test_a_later_object_with_the_name_of_an_answer_is_told(run: Run, tmp_path: Path) -> None:
    write(tmp_path / "in.jsonl", [{"text": "a"}] * 200 + [{"text": "b", "label": "mine"}])
    status, _, err = run("classify", "-i", "in.jsonl", "-o", "out.jsonl")
    assert status == 1 and "'label' already" in err and "in.jsonl:201" in err
    assert not (tmp_path / "out.jsonl").exists()


def test_a_table_for_eyes_and_vectors_have_no_other_columns(run: Run, tmp_path: Path) -> None:
    write(tmp_path / "in.csv", [{"id": "1", "text": "a", "label": "art"}])
    status, out, err = run("classify", "-i", "in.csv", "-f", "table")
    assert (status, err) == (0, "") and out.split("\n")[0].split() == ["text", "label", "score"]
    assert run("embed", "-i", "in.csv", "-o", "x.npy")[0] == 0
    for wrong, words in (
        (("classify", "-i", "in.csv", "-f", "table"), "table holds none"),
        (("embed", "-i", "in.csv", "-o", "x.npy"), "npy holds none"),
        (("classify", "a"), "there is no table"),
        (("similar", "a", "-i", "in.csv"), "hits have a place"),
    ):
        status, _, err = run(*wrong, "--keep", "id")
        assert status == 2 and words in err


def test_an_answer_of_several_rows_repeats_the_columns(run: Run, tmp_path: Path) -> None:
    write(tmp_path / "in.csv", [{"id": "7", "text": "A <mask>."}, {"id": "8", "text": ""}])
    status, out, _ = run("fill-mask", "-i", "in.csv", "-k", 2, "-f", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert status == 1 and [row["id"] for row in rows] == ["7", "7", "8"]
    assert rows[2]["words.word"] == "" and rows[0]["words.word"]


@pytest.mark.system
@pytest.mark.parametrize("verb", ["classify", "embed", "score", "tag", "tokens", "features"])
@pytest.mark.parametrize("target", ["csv", "jsonl", "parquet", "npy"])
def test_rows_without_a_text_at_the_begin_have_every_column(
    run: Run, tmp_path: Path, verb: str, target: str
) -> None:
    """The columns of an answer are known all the same: 40 rows are more than the first window."""
    vectors = verb in ("embed", "features")
    if (target == "csv" and vectors) or (target == "npy" and not vectors):
        pytest.skip("no such file of answers")
    write(tmp_path / "in.csv", [{"id": "1", "text": ""}] * 40 + [{"id": "2", "text": "Goal!"}])
    options = ("--pooling", "mean") if verb == "features" else ()
    status, _, err = run(verb, "-i", "in.csv", "-o", f"out.{target}", *options)
    assert status == 1 and "40 rows of 41 without an answer (40 without a text)" in err
    assert "in.csv:2: nothing in the column 'text'; " in err and "; and 35 more; " in err
    if target == "npy":
        matrix = pytest.importorskip("numpy").load(tmp_path / "out.npy")
        assert [bool(row.all()) for row in matrix != matrix] == [True] * 40 + [False]
        return
    found = values(tmp_path / f"out.{target}")
    assert len(found) == 41 and {tuple(row) for row in found} == {tuple(found[-1])}
    name = next(n for n in found[-1] if n not in ("id", "text"))
    assert [bool(row[name]) for row in found[:40]] == [False] * 40
    write(tmp_path / "hole.csv", [{"id": "1", "text": ""}])
    assert run(verb, "-i", "hole.csv", "-o", f"none.{target}", *options)[0] == 1
    assert list(values(tmp_path / f"none.{target}")[0]) == list(found[0])


def test_similar_counts_the_rows_that_it_leaves_out(run: Run, tmp_path: Path) -> None:
    texts = ["", "number one", "", "", "number two", "number three", ""]
    write(tmp_path / "in.csv", [{"id": str(i), "text": text} for i, text in enumerate(texts)])
    status, out, err = run("similar", "number", "-i", "in.csv", "-k", 3)
    assert status == 1 and "4 rows of 7 without an answer (4 without a text)" in err
    hits = json.loads(out)["hits"]
    assert {hit["index"] for hit in hits} == {1, 4, 5}
    assert all(hit["text"] == texts[hit["index"]] for hit in hits)

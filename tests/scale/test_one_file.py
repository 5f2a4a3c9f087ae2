"""What a disk does to a lake outside of its units: the plan, the notes, the one file at the end."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

from lakes import TEXT, pairs, parts, write_model, write_rows  # noqa: E402

from roberta_hub.errors import InputError  # noqa: E402
from roberta_hub.scale import Verb, lake, status  # noqa: E402

ROWS, UNIT = 90, 20
pytestmark = pytest.mark.usefixtures("ran")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def verb(model: Path) -> Verb:
    return Verb("classify", model, text=TEXT, head="mnli", threads=1)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "in.parquet", pairs(ROWS))


def test_a_disk_full_outside_of_units_leaves_no_half_file(
    tmp_path: Path, source: Path, verb: Verb
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    one = tmp_path / "one.parquet"
    lake(source, one, verb, unit_rows=UNIT, part=(1, 2))
    report = lake(source, one, verb, unit_rows=UNIT, part=(1, 2))
    assert (report.left, report.rows) == (2, 54)
    lake(source, one, verb, unit_rows=UNIT)
    largest = one.stat().st_size
    one.unlink()
    lake(source, one, verb, unit_rows=UNIT, part=(1, 2))
    lake(source, one, verb, unit_rows=UNIT, part=(2, 4))
    for target, limit in ((tmp_path / "out", 100), (one, largest - 1)):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        try:
            with pytest.raises(InputError, match=r"the same call goes on once it can: .*too large"):
                lake(source, target, verb, unit_rows=UNIT)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert not (tmp_path / "out" / "_plan.json").exists() or target == one
        assert lake(source, target, verb, unit_rows=UNIT).rows == ROWS
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"in.parquet", "one.parquet", "out"}
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="Not a directory"):
        lake(source, tmp_path / "file" / "out", verb, unit_rows=UNIT)


def test_a_merge_that_is_killed_or_reads_a_damaged_file(
    tmp_path: Path, source: Path, verb: Verb, ran: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, units = tmp_path / "one.parquet", tmp_path / "one.parquet.units"
    lake(source, one, verb, unit_rows=UNIT, part=(1, 2))
    damaged = parts(units)[0]
    whole = damaged.read_bytes()
    footer = pq.read_metadata(damaged)
    column = footer.row_group(footer.num_row_groups - 1).column(0)
    last = column.dictionary_page_offset + column.total_compressed_size - 1
    damaged.write_bytes(whole[:last] + bytes([whole[last] ^ 1]) + whole[last + 1 :])
    with pytest.raises(InputError, match=r"is damaged: .*; remove it, and the same call"):
        lake(source, one, verb, unit_rows=UNIT)
    assert not one.exists()
    damaged.unlink()
    (units / "_manifest.json").write_text('{"fi')

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("roberta_hub.scale.merge.discard", killed)
        with pytest.raises(KeyboardInterrupt):
            lake(source, one, verb, unit_rows=UNIT)
    parts(units)[0].unlink()
    (tmp_path / ".one.parquet.killed.tmp").write_bytes(b"x")
    ran.clear()
    assert lake(source, one, verb, unit_rows=UNIT).rows == ROWS
    assert ran == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.parquet", "one.parquet"]
    assert pq.read_table(one)["id"].to_pylist() == list(range(ROWS))


def test_a_finished_one_file_says_how_many_units_it_was(
    tmp_path: Path, source: Path, verb: Verb
) -> None:
    one = tmp_path / "one.parquet"
    first = lake(source, one, verb, unit_rows=UNIT)
    assert str(first).startswith(f"{one}: 5 of 5 units, 90 rows; 5 units in ")
    again = lake(source, one, verb, unit_rows=UNIT)
    assert str(again) == f"{one}: 5 of 5 units, 90 rows; 0 units in 0 s, 0 rows/s"
    assert str(status(one)) == f"{one}: 5 of 5 units done, 0 left, finished"

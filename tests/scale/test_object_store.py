"""Lakes in an object store: moto's S3 on loopback, behind a proxy that breaks uploads half-way."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cutting import CuttingProxy
from engines import HERE, helper, interpreter, surroundings
from small_models import small_roberta

from roberta_hub.errors import InputError, LakeError

pytestmark = pytest.mark.system

pa = pytest.importorskip("pyarrow")
fs = pytest.importorskip("pyarrow.fs")
pq = pytest.importorskip("pyarrow.parquet")

from roberta_hub.scale import Verb, lake, status  # noqa: E402

ROWS, UNIT = 60, 15


class Store:
    """A bucket, as lakes see it through the proxy, and as it is."""

    def __init__(self, address: tuple[str, int], proxy: CuttingProxy) -> None:
        self.proxy = proxy
        query = "scheme=http&region=us-east-1&allow_bucket_creation=true&endpoint_override="
        self._form = f"s3://key:secret@lake/{{}}?{query}{proxy.address}"
        direct = self._form.replace(proxy.address, "{}:{}".format(*address))
        self.system, _ = fs.FileSystem.from_uri(direct.format(""))
        self.system.create_dir("lake")

    def uri(self, path: str) -> str:
        return self._form.format(path)

    def put(self, path: str, data: bytes) -> None:
        with self.system.open_output_stream(f"lake/{path}") as stream:
            stream.write(data)

    def read(self, folder: str) -> list[bytes]:
        """What the files of answers hold, in the order of their units."""
        return [self.system.open_input_file(path).readall() for path in self.names(folder)]

    def names(self, folder: str) -> list[str]:
        found = self.system.get_file_info(fs.FileSelector(f"lake/{folder}", allow_not_found=True))
        return sorted(info.path for info in found if info.base_name.startswith("part-"))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    log = tmp_path_factory.mktemp("store") / "log"
    with helper(interpreter("moto", "moto"), "store.py", log) as address:
        upstream = (address[0], address[1])
        with CuttingProxy(upstream) as proxy:
            yield Store(upstream, proxy)


@pytest.fixture(scope="module")
def verb(tmp_path_factory: pytest.TempPathFactory) -> Verb:
    folder = tmp_path_factory.mktemp("model")
    small_roberta(heads={"mnli": 3}, labels={"mnli": ("no", "maybe", "yes")}).save(folder)
    return Verb("classify", folder, text=("premise", "hypothesis"), threads=1)


def pairs(rows: int) -> bytes:
    table = pa.table(
        {
            "id": list(range(rows)),
            "premise": [f"A dog ran {n} miles." for n in range(rows)],
            "hypothesis": [f"Some animal was at {n % 7}." for n in range(rows)],
        }
    )
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


@pytest.fixture(scope="module")
def on_disk(store: Store, verb: Verb, tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """What comes of the source on a disk; the source itself is put into the store, too."""
    folder = tmp_path_factory.mktemp("disk")
    (folder / "in").mkdir()
    (folder / "in" / "a.parquet").write_bytes(pairs(ROWS))
    store.put("in/a.parquet", pairs(ROWS))
    lake(folder / "in", folder / "out", verb, unit_rows=UNIT, workers=1)
    found = [path.read_bytes() for path in sorted((folder / "out").glob("part-*"))]
    assert len(found) == ROWS // UNIT
    return found


def run(store: Store, target: str, verb: Verb, **told: Any) -> Any:
    told = {"unit_rows": UNIT, "workers": 1, **told}
    return lake(store.uri("in"), store.uri(target), verb, **told)


def test_a_store_is_as_good_as_a_disk(store: Store, verb: Verb, on_disk: list[bytes]) -> None:
    report = run(store, "clean", verb)
    assert (report.rows, report.left) == (ROWS, 0)
    assert store.read("clean") == on_disk
    assert status(store.uri("clean")).finished

    store.proxy.requests.clear()
    assert not run(store, "clean", verb).done  # again: nothing is done, and little is asked
    assert store.proxy.requests["PUT"] == 0
    assert store.proxy.requests["GET"] + store.proxy.requests["HEAD"] < 40


def test_an_upload_that_breaks_once_is_tried_again(
    store: Store, verb: Verb, on_disk: list[bytes]
) -> None:
    store.proxy.cuts = 2
    run(store, "once", verb)
    assert store.proxy.cuts == 0
    assert store.read("once") == on_disk


def test_uploads_that_break_half_way_leave_nothing_and_are_resumed(
    store: Store, verb: Verb, on_disk: list[bytes]
) -> None:
    """Parts of an upload may lie in the store; no file is seen before it is whole."""
    run(store, "broken", verb, part=(1, 2))
    assert len(store.names("broken")) == 2
    store.proxy.cuts = 10**6
    try:
        with pytest.raises(LakeError, match=r"2 of 4 units have no file.*part-"):
            run(store, "broken", verb)
    finally:
        store.proxy.cuts = 0
    assert store.proxy.was_cut.is_set()
    assert len(store.names("broken")) == 2
    assert set(store.read("broken")) <= set(on_disk)
    assert len(run(store, "broken", verb).done) == 2
    assert store.read("broken") == on_disk


def test_a_driver_killed_in_the_middle_of_an_upload_is_resumed(
    store: Store, verb: Verb, on_disk: list[bytes], tmp_path: Path
) -> None:
    proxy = store.proxy
    proxy.was_cut.clear()
    proxy.cuts, proxy.stall = 1, 120.0
    told = {"source": store.uri("in"), "target": store.uri("killed"), "model": verb.model}
    told |= {"unit_rows": UNIT, "workers": 1}
    with open(tmp_path / "log", "w") as log:
        driver = subprocess.Popen(
            [sys.executable, str(HERE / "drive.py"), json.dumps(told)],
            env=surroundings(),
            stdout=log,
            stderr=log,
        )
        try:
            assert proxy.was_cut.wait(240), (tmp_path / "log").read_text()
        finally:
            driver.kill()
            driver.wait()
            proxy.cuts, proxy.stall = 0, 0.0
            proxy.release.set()
    assert store.read("killed") == []
    assert len(run(store, "killed", verb).done) == len(on_disk)
    assert store.read("killed") == on_disk


def test_a_changed_source_and_other_options_are_refused(
    store: Store, verb: Verb, on_disk: list[bytes]
) -> None:
    run(store, "refused", verb, part=(1, 4))
    before = store.names("refused")
    with pytest.raises(InputError, match="unit_rows"):
        run(store, "refused", verb, unit_rows=UNIT + 1)
    with pytest.raises(InputError, match="prefix"):
        run(store, "refused", verb.replace(prefix="of_"))
    store.put("in/b.parquet", pairs(3))
    try:
        with pytest.raises(InputError, match=r"b\.parquet is new"):
            run(store, "refused", verb)
    finally:
        store.system.delete_file("lake/in/b.parquet")
    assert store.names("refused") == before


def test_credentials_stay_out_of_errors_and_files(store: Store, verb: Verb) -> None:
    with pytest.raises(InputError) as raised:
        lake(store.uri("nothing"), store.uri("out"), verb)
    assert "secret" not in str(raised.value)
    for name in ("_plan.json", "_manifest.json"):
        assert b"secret" not in store.system.open_input_file(f"lake/clean/{name}").readall()


@pytest.mark.slow
def test_more_files_than_a_listing_shows_at_once(store: Store, verb: Verb) -> None:
    """S3 lists 1,000 names a request."""
    rows = 1_030
    store.put("many/a.parquet", pairs(rows))
    report = lake(store.uri("many"), store.uri("parts"), verb, unit_rows=1, workers=1)
    assert (report.rows, report.units, report.left) == (rows, rows, 0)
    assert len(store.names("parts")) == rows
    store.proxy.requests.clear()
    assert not lake(store.uri("many"), store.uri("parts"), verb, unit_rows=1, workers=1).done
    assert store.proxy.requests["GET"] + store.proxy.requests["HEAD"] < 40

"""An index in an object store: moto's S3 on loopback, found by the environment alone."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from engines import helper, interpreter

pytest.importorskip("lancedb")
pytest.importorskip("pyarrow.fs")

import forks
import pyarrow.fs as fs
from indexing.indexed import rows_of, sentences, write_csv, write_encoder

import roberta_hub
from roberta_hub.errors import InputError

pytestmark = [pytest.mark.system, pytest.mark.usefixtures("ran")]
ROWS = 40
FOLDER = "s3://lake/vectors"


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A bucket; what pyarrow and LanceDB need to find it is in the environment."""
    with helper(interpreter("moto", "moto"), "store.py", tmp_path / "log") as (host, port):
        for name, value in {
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
            "AWS_ALLOW_HTTP": "true",  # LanceDB's
        }.items():
            monkeypatch.setenv(name, value)
        found, _ = fs.FileSystem.from_uri("s3://lake?allow_bucket_creation=true")
        found.create_dir("lake")
        yield found


def names(system: Any, folder: str) -> list[str]:
    found = system.get_file_info(fs.FileSelector(f"lake/{folder}", allow_not_found=True))
    return sorted(info.base_name for info in found)


def test_a_store_is_as_good_as_a_disk(system: Any, tmp_path: Path) -> None:
    encoder = write_encoder(tmp_path / "encoder")
    texts = [*sentences(ROWS - 1), sentences(1)[0].upper()]  # the last is a duplicate
    for name, part, first in (("a", texts, 0), ("b", ["a lute"], ROWS)):
        local = write_csv(tmp_path / f"{name}.csv", part, first)
        with system.open_output_stream(f"lake/in/{name}.csv") as stream:
            stream.write(local.read_bytes())
    given: dict[str, Any] = {"key": "id", "model": encoder, "unit_rows": 15}
    target, on_disk = f"{FOLDER}/t.lance", tmp_path / "t.lance"
    with pytest.raises(InputError, match="no index there"):
        roberta_hub.open_index(target)
    for source in ("a.csv", "b.csv", "b.csv"):
        found = roberta_hub.index(f"s3://lake/in/{source}", target, **given)
        its = roberta_hub.index(tmp_path / source, on_disk, **given)
        assert (found.rows, found.taken) == (its.rows, its.taken)
    assert names(system, "vectors") == ["t.lance"]  # the parts are gone

    index, local_index = roberta_hub.open_index(target), roberta_hub.open_index(on_disk)
    assert index.table.to_arrow().sort_by("_number")["id"].to_pylist() == [
        key for key, _ in rows_of(on_disk)
    ]
    for words in (False, True):
        mine, theirs = (each.search("a lute", 5, words=words) for each in (index, local_index))
        assert [(hit.index, hit.text, hit.row) for hit in mine] == [
            (hit.index, hit.text, hit.row) for hit in theirs
        ]
    for by in ("words", "vectors"):
        one, other = (roberta_hub.duplicates(where, by=by) for where in (target, on_disk))
        assert (one.group, one.equal) == (other.group, other.equal)
    assert one.equal == 1

    given_words = ["similar", "a lute", "-i", target, "-k", "1", "--words", "-f", "jsonl"]
    told = forks.run("-m", "roberta_hub", *given_words, cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    assert '"a lute"' in told.stdout
    assert io.StringIO(told.stdout).readline().count(f'"index": {ROWS}') == 1

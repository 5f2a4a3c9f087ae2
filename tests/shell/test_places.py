"""Answers go where they are told to, and an error names the user's file, the cause and a remedy."""

from __future__ import annotations

import gzip
import os
import random
import resource
import stat
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import forks
import pytest

import roberta_hub
from roberta_hub.errors import CheckpointError
from roberta_hub.files import publishing

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(os.name != "posix", reason="names, modes and disks of POSIX"),
]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def command(folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """`roberta-hub tokens` in a folder."""
    done = forks.run("-m", "roberta_hub", "tokens", *arguments, cwd=folder, env=ENVIRONMENT)
    assert "Traceback" not in done.stderr
    return done


# ---- names ----


@pytest.mark.parametrize("name", [249 * "a" + ".jsonl", 83 * "語" + ".jsonl"])
def test_a_name_as_long_as_the_disk_takes(tmp_path: Path, name: str) -> None:
    assert len(name.encode()) == 255
    done = command(tmp_path, "one text", "-o", name)
    assert (done.returncode, done.stderr) == (0, "")
    assert os.listdir(tmp_path) == [name] and "one" in (tmp_path / name).read_text()


def test_a_name_that_the_disk_refuses_is_the_users(tmp_path: Path) -> None:
    name = 250 * "a" + ".jsonl"
    done = command(tmp_path, "one text", "-o", name)
    assert done.returncode == 1
    assert done.stderr == f"roberta-hub: {name}: File name too long\n"


def test_a_folder_of_a_model_as_long_as_the_disk_takes(tmp_path: Path) -> None:
    rows = [{"text": f"{word} film {i}", "label": word} for i in range(6) for word in ("a", "b")]
    output = tmp_path / (255 * "m")
    with pytest.warns(UserWarning):
        roberta_hub.fit(rows, output=output, epochs=1, progress=False)
    assert os.listdir(tmp_path) == [output.name]
    roberta_hub.load_model(output)


@pytest.mark.parametrize("name", ["T.CSV.GZ", "t.Csv.gz"])
def test_capitals_in_the_name_of_a_compressed_table(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(gzip.compress(b"text\nHello\n"))
    done = command(tmp_path, "-i", name)
    assert done.returncode == 0 and '"Hello"' in done.stdout, done.stderr


def test_capitals_in_the_name_of_a_compressed_text(tmp_path: Path) -> None:
    (tmp_path / "T.TXT.GZ").write_bytes(gzip.compress(b"Hello\n"))
    done = command(tmp_path, "-i", "T.TXT.GZ")
    assert done.returncode == 0 and '"Hello"' in done.stdout, done.stderr


# ---- who may read ----


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("private", [0o600, 0o640, 0o444])
def test_a_file_stays_as_private_as_it_was(tmp_path: Path, private: int) -> None:
    out = tmp_path / "out.jsonl"
    out.write_text("old")
    out.chmod(private)
    assert command(tmp_path, "one text", "-o", "out.jsonl").returncode == 0
    assert mode(out) == private and "one" in out.read_text()
    before = os.umask(0o027)
    try:
        assert command(tmp_path, "one text", "-o", "new.jsonl").returncode == 0
    finally:
        os.umask(before)
    assert mode(tmp_path / "new.jsonl") in (0o640, 0o644)  # the umask's


def test_what_is_being_written_is_as_private(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    out.write_text("old")
    out.chmod(0o600)
    with publishing(out) as new:
        new.write_text("new")
        assert mode(new) == 0o600
    assert mode(out) == 0o600


def test_a_saved_model_stays_as_private_as_it_was(tmp_path: Path) -> None:
    roberta = roberta_hub.load_model("roberta.tiny")
    roberta.save(tmp_path / "mine")
    for path in (tmp_path / "mine").iterdir():
        path.chmod(0o600)
    roberta.save(tmp_path / "mine")
    assert {mode(path) for path in (tmp_path / "mine").iterdir()} == {0o600}


# ---- standard output ----


def typed(folder: Path, line: str) -> subprocess.CompletedProcess[str]:
    line = line.replace("roberta-hub", f'"{sys.executable}" -m roberta_hub')
    return subprocess.run(
        ["sh", "-c", line], capture_output=True, text=True, cwd=folder, env=ENVIRONMENT
    )


@pytest.mark.parametrize("line", ["tokens 'one text'", "--version", "models", "tokens --help"])
def test_standard_output_that_is_closed_is_an_error(tmp_path: Path, line: str) -> None:
    done = typed(tmp_path, f"roberta-hub {line} >&-")
    assert done.returncode == 1
    assert done.stderr == "roberta-hub: standard output: it is closed\n"


def test_standard_output_that_is_closed_and_not_needed(tmp_path: Path) -> None:
    done = typed(tmp_path, "roberta-hub tokens 'one text' -o out.jsonl >&-")
    assert (done.returncode, done.stderr) == (0, "")
    assert "one" in (tmp_path / "out.jsonl").read_text()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_standard_output_that_is_full(tmp_path: Path) -> None:
    done = typed(tmp_path, "roberta-hub tokens 'one text' > /dev/full")
    assert done.returncode == 1
    assert done.stderr == "roberta-hub: standard output: No space left on device\n"


# ---- folders and disks that refuse ----


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 kB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a mount is refused; the limit of a file's size is tried in its place")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.fixture
def long(tmp_path: Path) -> Path:
    path = tmp_path / "long.txt"
    draw = random.Random(0)
    path.write_text("".join(f"{draw.random()} {draw.random()}\n" for _ in range(3000)))
    return path


@pytest.mark.parametrize("name", ["out.jsonl", "out.csv", "out.parquet", "out.txt"])
def test_a_full_disk(full: Path, long: Path, name: str) -> None:
    (full / name).write_text("old")
    done = command(full, "-i", long, "-o", name)
    assert done.returncode == 1
    assert done.stderr == (
        f"roberta-hub: {full / name} cannot be written: No space left on device; the file that was "
        "there is as it was. Free some room, or give -o on another disk\n"
    )
    assert os.listdir(full) == [name] and (full / name).read_text() == "old"


LIMITED = """
import resource, runpy, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
sys.argv[0] = "roberta-hub"
runpy.run_module("roberta_hub", run_name="__main__")
"""


def test_a_file_larger_than_it_may_be(tmp_path: Path, long: Path) -> None:
    arguments = ["tokens", "-i", long, "-o", "out.jsonl"]
    done = forks.run("-c", LIMITED, *arguments, cwd=tmp_path, env=ENVIRONMENT)
    assert done.returncode == 1
    assert done.stderr == (
        f"roberta-hub: {tmp_path / 'out.jsonl'} cannot be written: File too large; nothing is left"
        ". Free some room, or give -o on another disk\n"
    )
    assert os.listdir(tmp_path) == ["long.txt"]
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


WITHOUT_POWERS = """
import ctypes, runpy, sys
# root without capabilities: modes of files and folders hold for it
header = (ctypes.c_uint32 * 2)(0x20080522, 0)
assert ctypes.CDLL(None).capset(header, (ctypes.c_uint32 * 6)()) == 0
sys.argv[0] = "roberta-hub"
runpy.run_module("roberta_hub", run_name="__main__")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="capabilities of Linux")
def test_a_file_that_may_be_written_in_a_folder_that_may_not(tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir()
    out = folder / "out.jsonl"
    out.write_text("old")
    folder.chmod(0o555)
    arguments = ["tokens", "one text", "-o", out]
    done = forks.run("-c", WITHOUT_POWERS, *arguments, cwd=tmp_path, env=ENVIRONMENT)
    assert done.returncode == 1
    assert done.stderr == (
        f"roberta-hub: {out} cannot be written: Permission denied. It is put into {folder} "
        "whole at the end, where nothing new may be made; without -o, "
        f"> {out} writes into the file that is there\n"
    )
    assert os.listdir(folder) == ["out.jsonl"] and out.read_text() == "old"
    folder.chmod(0o755)


def test_a_link_to_nothing(tmp_path: Path) -> None:
    (tmp_path / "out.jsonl").symlink_to("/nowhere/answers.jsonl")
    done = command(tmp_path, "one text", "-o", "out.jsonl")
    assert done.returncode == 1
    assert done.stderr == (
        "roberta-hub: out.jsonl is a link to /nowhere/answers.jsonl, and there is no folder "
        "/nowhere\n"
    )
    (tmp_path / "there.jsonl").symlink_to(tmp_path / "answers.jsonl")
    assert command(tmp_path, "one text", "-o", "there.jsonl").returncode == 0
    assert (tmp_path / "there.jsonl").is_symlink()
    assert "one" in (tmp_path / "answers.jsonl").read_text()


def test_a_full_disk_of_a_model(full: Path) -> None:
    """No sentence names what is hidden, or a number of an error."""
    roberta = roberta_hub.load_model("roberta.tiny")
    rows = [{"text": f"{word} film {i}", "label": word} for i in range(6) for word in ("a", "b")]
    calls = {
        "saved": lambda output: roberta.save(output),
        "made": lambda output: roberta_hub.fit(rows, output=output, epochs=1, progress=False),
    }
    for name, call in calls.items():
        with pytest.raises(CheckpointError) as caught, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call(full / name)
        said = str(caught.value)
        assert said.startswith(f"{full / name}: cannot be written (No space left on device)"), said
        assert "/." not in said and "Errno" not in said
        assert os.listdir(full) == []

"""The command between other processes: it streams, keeps little, and ends well when told to."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO

import forks
import pytest
from shell.running import write_model

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(os.name != "posix", reason="signals and pipes of POSIX"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("pipes") / "model")


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def started(folder: Path, tmp_path: Path, *arguments: str) -> forks.Process:
    """`classify` with pipes on all sides, of bytes."""
    command = ["-m", "roberta_hub", "classify", "-m", folder, *arguments]
    pipes = {"stdin": forks.PIPE, "stdout": forks.PIPE, "stderr": forks.PIPE}
    return forks.start(*command, **pipes, cwd=tmp_path, env=environment(), text=False)


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_yes_into_head_ends_at_once(folder: Path, tmp_path: Path) -> None:
    script = f'yes text | "{sys.executable}" -m roberta_hub classify -m "{folder}" | head -3'
    done = subprocess.run(
        ["bash", "-c", f"{script}; echo ${{PIPESTATUS[1]}}"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment(),
    )
    *lines, status = done.stdout.splitlines()
    assert [json.loads(line)["text"] for line in lines] == ["text"] * 3
    assert (status, done.stderr) == ("0", "")


def test_each_line_is_answered_as_it_comes_and_memory_stays_flat(
    folder: Path, tmp_path: Path
) -> None:
    psutil = pytest.importorskip("psutil")
    with started(folder, tmp_path) as process:
        assert process.stdin is not None and process.stdout is not None
        for text in ("one", "two"):  # nothing more comes until it is answered
            process.stdin.write(text.encode() + b"\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["text"] == text
        pipe = process.stdin
        feeder = threading.Thread(target=feed, args=(pipe, 60_000), daemon=True)
        feeder.start()
        sizes, count = [], 0
        for line in process.stdout:
            count += 1
            if count % 6_000 == 0:
                sizes.append(psutil.Process(process.pid).memory_info().rss)
            last = line
        assert process.wait() == 0
        assert json.loads(last)["text"] == "text 2"  # 59,999 % 7
        assert count == 60_000
        assert max(sizes[3:]) - sizes[2] < 12 << 20, sizes


def feed(pipe: IO[bytes], count: int) -> None:
    lines = "".join(f"text {i % 7}\n" for i in range(7000)).encode()
    for _ in range(count // 7000):
        pipe.write(lines)
    pipe.write(lines[: 7 * (count % 7000)])
    pipe.close()


def begun(folder: Path) -> bool:
    """Whether a part of the answers is written."""
    return any(path.stat().st_size for path in folder.iterdir() if path.name != "out.csv")


SIGNALS = [(signal.SIGINT, 130), (signal.SIGTERM, -15), (signal.SIGHUP, -1)]
"""Signals, and the status that the command ends with; a shell calls -15 143, and -1 129."""


@pytest.mark.parametrize(("sent", "status"), SIGNALS)
def test_a_signal_in_a_long_run_leaves_no_file(
    folder: Path, tmp_path: Path, sent: signal.Signals, status: int
) -> None:
    (tmp_path / "out.csv").write_text("old")
    with started(folder, tmp_path, "-o", "out.csv") as process:
        assert process.stdin is not None and process.stderr is not None
        process.stdin.write(b"text\n" * 1000)
        process.stdin.flush()
        while not begun(tmp_path) and process.poll() is None:
            time.sleep(0.1)
        process.send_signal(sent)
        assert process.wait() == status
        said = process.stderr.read().decode()
    assert said == ("roberta-hub: interrupted\n" if sent == signal.SIGINT else "")
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]
    assert (tmp_path / "out.csv").read_text() == "old"


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_a_closed_end_is_no_fault(tmp_path: Path) -> None:
    command = f'"{sys.executable}" -m roberta_hub'
    for line in (
        f"{command} --help | true; echo ${{PIPESTATUS[0]}}",
        f"{command} zero-shot --help | head -1 >&2; echo ${{PIPESTATUS[0]}}",
        f"{command} --version >&-; test $? = 1; echo $?",
        f"{command} paint 2>&-; test $? = 2; echo $?",
    ):
        done = subprocess.run(
            ["bash", "-c", line], capture_output=True, text=True, env=environment()
        )
        assert done.stdout == "0\n", (line, done)
        assert "Exception" not in done.stderr and "Error" not in done.stderr


WAYS = {
    "standard output": 'say -o /dev/stdout; echo "rc $?"',
    "a descriptor": 'say -o /dev/fd/3 3>&1; echo "rc $?"',
    "a link to it": 'ln -s /dev/stdout link; say -o link -f jsonl; echo "rc $?"',
    "the process's own name of it": 'say -o /proc/self/fd/1; echo "rc $?"',
    "a command": 'say -o >(cat >&4); echo "rc $?"; while ! grep -q text "$0"; do sleep .1; done',
}


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize(
    ("way", "redirection"),
    [("standard output", ">"), ("standard output", "|"), *((way, ">>") for way in WAYS)],
)
def test_what_others_write_to_the_same_output_stays(
    folder: Path, tmp_path: Path, way: str, redirection: str
) -> None:
    """A rename over the file behind standard output would lose the lines around the answers."""
    script = f'say() {{ "{sys.executable}" -m roberta_hub tokens -m "{folder}" "a b" "$@"; }}\n'
    into = "| cat > all.txt" if redirection == "|" else f"{redirection} all.txt"
    script += f"{{ exec 4>&1; echo before; {WAYS[way]}; echo after; }} {into}\nwait"
    (tmp_path / "all.txt").write_text("first\n")
    done = subprocess.run(
        ["bash", "-c", script, "all.txt"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment(),
        timeout=120,
    )
    lines = (tmp_path / "all.txt").read_text().splitlines()
    first = ["first"] if redirection == ">>" else []
    assert (done.stdout, done.stderr) == ("", "")
    assert [line for line in lines if "tokens" not in line] == [*first, "before", "rc 0", "after"]
    assert [json.loads(line)["text"] for line in lines if "tokens" in line] == ["a b"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize("format", ["parquet", "npy"])
def test_a_binary_format_goes_through_a_pipe(folder: Path, tmp_path: Path, format: str) -> None:
    parquet, numpy = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("numpy")
    command = f'"{sys.executable}" -m roberta_hub embed -m "{folder}" a b -f {format}'
    line = f"{command} -o /dev/stdout | cat > x; {command} -o y.{format}; cmp x y.{format}"
    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, cwd=tmp_path, env=environment()
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    read = {"parquet": parquet.read_table, "npy": numpy.load}[format]
    assert len(read(tmp_path / "x")) == 2


def test_a_descriptor_that_is_not_open_is_a_sentence(folder: Path, tmp_path: Path) -> None:
    with started(folder, tmp_path, "-o", "/dev/fd/87", "a") as process:
        assert process.wait() == 1
        assert process.stderr is not None
        said = process.stderr.read().decode()
    assert said.startswith("roberta-hub: /dev/fd/87: no file is open there")

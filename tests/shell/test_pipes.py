"""The command between other processes: it streams, keeps little, and ends well when told to."""

from __future__ import annotations

import gzip
import io
import json
import lzma
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


# ---- tables in pipes ----

REVIEWS = [{"review_id": "7", "review": "A dog ran."}, {"review_id": "8", "review": "Goal!"}]


def table_bytes(format: str, packing: str) -> bytes:
    if format == "parquet":
        parquet = pytest.importorskip("pyarrow.parquet")
        buffer = io.BytesIO()
        parquet.write_table(pytest.importorskip("pyarrow").Table.from_pylist(REVIEWS), buffer)
        data = buffer.getvalue()
    elif format == "jsonl":
        data = "".join(json.dumps(row) + "\n" for row in REVIEWS).encode()
    else:
        tab = "," if format == "csv" else "\t"
        rows = [list(REVIEWS[0]), *(list(row.values()) for row in REVIEWS)]
        data = "".join(tab.join(row) + "\n" for row in rows).encode()
    return {"plain": bytes, "gz": gzip.compress, "xz": lzma.compress}[packing](data)


def sent(folder: Path, tmp_path: Path, data: bytes, *arguments: str) -> tuple[int, str, str]:
    """Send bytes to `tokens` through a pipe: (status, standard output, standard error)."""
    command = ["-m", "roberta_hub", "tokens", "-m", folder, *arguments]
    pipes = {"stdin": forks.PIPE, "stdout": forks.PIPE, "stderr": forks.PIPE}
    with forks.start(*command, **pipes, cwd=tmp_path, env=environment(), text=False) as process:
        out, err = process.communicate(data)
        return process.wait(), out.decode(), err.decode()


@pytest.mark.parametrize("packing", ["plain", "gz", "xz"])
@pytest.mark.parametrize("format", ["csv", "tsv", "jsonl", "parquet"])
def test_a_table_comes_through_a_pipe(
    folder: Path, tmp_path: Path, format: str, packing: str
) -> None:
    data = table_bytes(format, packing)
    given = ("-i", "-", "--input-format", format, "-c", "review")
    status, out, err = sent(folder, tmp_path, data, *given)
    assert (status, err) == (0, "")
    rows = [json.loads(line) for line in out.splitlines()]
    assert [{name: row[name] for name in REVIEWS[0]} for row in rows] == REVIEWS
    assert [list(row)[2:] for row in rows] == [["tokens", "ids"]] * 2
    (tmp_path / "table").write_bytes(data)  # and from a file whose name says nothing
    if packing == "plain":
        given = ("-i", "table", "--input-format", format, "-c", "review")
        assert sent(folder, tmp_path, b"", *given) == (0, out, "")


def test_lines_come_compressed_where_the_command_says_so(folder: Path, tmp_path: Path) -> None:
    status, out, _ = sent(folder, tmp_path, gzip.compress(b"a\nb\n"), "--input-format", "lines")
    assert status == 0 and [json.loads(line)["text"] for line in out.splitlines()] == ["a", "b"]
    status, _, err = sent(folder, tmp_path, gzip.compress(b"a\nb\n"))
    assert status == 1 and "not UTF-8 but gzip; -i - --input-format lines" in err
    status, _, err = sent(folder, tmp_path, table_bytes("parquet", "plain"))
    assert status == 1 and "not UTF-8 but a Parquet file; -i - --input-format parquet" in err
    given = ("--input-format", "csv", "-c", "review")
    status, _, err = sent(folder, tmp_path, table_bytes("csv", "gz")[:-9], *given)
    assert status == 1 and "standard input: cannot be read" in err


HEADERS = {
    b"review_id,review\n7,A dog ran.\n": "--input-format csv --text review",
    b"id;text\n7;a\n": "--input-format csv --text text",
    b"premise\thypothesis\na\tb\n": "--input-format tsv --text NAME",
    b'{"body": "a"}\n{"body": "b"}\n': "--input-format jsonl --text body",
}
TEXTS = [b"Hello, world\n", b"text\n", b"Well, I like it, a lot.\n", b"a,b\n1,2\n", b"{}\n", b"\n"]


def test_lines_stay_lines_and_a_header_is_noted(folder: Path, tmp_path: Path) -> None:
    for data, words in HEADERS.items():
        status, out, err = sent(folder, tmp_path, data)
        assert status == 0 and len(out.splitlines()) == data.count(b"\n")
        assert err.startswith("roberta-hub: note: standard input:1 looks like ")
        assert f"-i - {words} reads a table from a pipe\n" in err and err.count("\n") == 1
    for data in TEXTS:
        assert "looks like" not in sent(folder, tmp_path, data)[2]
    (tmp_path / "x.txt").write_bytes(b"review_id,review\n7,A dog ran.\n")
    _, _, err = sent(folder, tmp_path, b"", "-i", "x.txt")
    assert "-i x.txt --input-format csv --text review reads a table\n" in err


def test_a_row_of_a_piped_table_is_answered_as_it_comes(folder: Path, tmp_path: Path) -> None:
    for format, lines in (
        ("csv", [b"id,text\n1,one\n", b"2,two\n"]),
        ("jsonl", [b'{"text": "one"}\n', b'{"text": "two"}\n']),
    ):
        given = ("-i", "-", "--input-format", format, "-c", "text")
        with started(folder, tmp_path, *given) as process:
            assert process.stdin is not None and process.stdout is not None
            for line, text in zip(lines, ("one", "two"), strict=True):
                process.stdin.write(line)
                process.stdin.flush()
                assert json.loads(process.stdout.readline())["text"] == text
            process.stdin.close()
            assert process.wait() == 0


# ---- one limit for every source ----

BOMB_BYTES = 600_000_000
"""Of one line, which gzip packs to 583 kB."""
RSS_KB = 580 << 10
"""Most memory of a process that refuses it, beyond that of one which imports torch: 220 MB for the
CPU, 500 MB with CUDA's libraries."""
MEASURE = """
import os, subprocess, sys
process = subprocess.Popen([sys.executable, *sys.argv[1:]], stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(process.pid, 0)
print(os.waitstatus_to_exitcode(status), usage.ru_maxrss)
"""
"""Runs Python and prints its status and its most memory in kB.

The process between is small: a child's
most memory is at least that of the process which starts it."""


@pytest.fixture(scope="module")
def of_torch() -> int:
    """Memory of a process that imports torch, in kB."""
    words = [sys.executable, "-c", MEASURE, "-c", "import torch"]
    return int(subprocess.run(words, capture_output=True, text=True).stdout.split()[1])


@pytest.fixture(scope="module")
def bombs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small files of huge lines, rows and cells."""
    work = tmp_path_factory.mktemp("bombs")
    line = b"x" * 1_000_000

    def pack(name: str, begin: bytes, block: bytes, count: int = 130) -> None:
        with gzip.open(work / name, "wb", 9) as file:
            file.write(begin)
            for _ in range(count):
                file.write(block)

    pack("line.txt.gz", b"", line, count=BOMB_BYTES // len(line))
    assert (work / "line.txt.gz").stat().st_size < 600_000
    pack("object.jsonl.gz", b'{"text": "', line)
    pack("open.csv.gz", b'text\n"', b"x" * 999_999 + b"\n")
    pack("cells.csv.gz", b'text\n"\n', b'","\n' * 250_000)
    pack("squad.json.gz", b'{"data": [\n', b'"' + b"x" * 999_997 + b'",\n')
    return work


NEVER_CLOSED = "a quote opens here that is never closed"
BOMBS = [
    ("line.txt.gz", "file", "a line of more than 100,000,000 bytes"),
    ("line.txt.gz", "pipe", "a line of more than 100,000,000 bytes"),
    ("object.jsonl.gz", "lake", "more than 100,000,000 bytes"),
    ("object.jsonl.gz", "fit", "a line of more than 100,000,000 bytes"),
    ("open.csv.gz", "file", NEVER_CLOSED),
    ("cells.csv.gz", "file", NEVER_CLOSED),
    ("cells.csv.gz", "lake", "a row of more than 100,000,000 bytes"),
    ("squad.json.gz", "train", "more than 100,000,000 bytes in one JSON value"),
]
"""A file, what reads it, and what is said of it."""


@pytest.mark.parametrize(("name", "way", "words"), BOMBS)
def test_a_small_file_of_a_huge_row_takes_little_memory(
    folder: Path, tmp_path: Path, bombs: Path, of_torch: int, name: str, way: str, words: str
) -> None:
    path = str(bombs / name)
    arguments = {
        "file": ["tokens", "-m", str(folder), "-i", path, "-o", "out.jsonl"],
        "pipe": ["tokens", "-m", str(folder), "--input-format", "lines", "-o", "out.jsonl"],
        "lake": ["classify", "-m", str(folder), "-i", path, "-c", "text", "-o", "out/"],
        "fit": ["fit", path, "--text", "text", "--label", "text"],
        "train": ["train", "finetune=squad", f"model={folder}", f"data.train={path}"],
    }[way]
    with open(path, "rb") as stdin:
        done = subprocess.run(
            [sys.executable, "-c", MEASURE, "-m", "roberta_hub", *arguments],
            stdin=stdin,
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=environment(),
        )
    *_, status, peak = done.stdout.split()
    print(f"{name} {way}: {int(peak) >> 10} MB")
    assert status == "1" and words in done.stderr, done.stderr
    assert not (tmp_path / "out.jsonl").exists()
    assert int(peak) - of_torch < RSS_KB, f"{int(peak) >> 10} MB: {done.stderr}"

"""What people see in a terminal: captures of a pty of 80 columns."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import forks
import pytest
from shell.running import write_model

from roberta_hub.shell.drawing import Page, width_of

pytestmark = pytest.mark.system

ROOT = Path(__file__).resolve().parents[2]
pytest.importorskip("pty")
SCRIPT = """
import json, os, sys
from roberta_hub.shell.main import main
for number, (arguments, environment, encoding) in enumerate(json.loads(sys.argv[1])):
    for name in ("NO_COLOR", "COLUMNS", "TERM"):
        os.environ.pop(name, None)
    os.environ.update(environment)
    sys.stdout.reconfigure(encoding=encoding)
    print(f"== {number}", flush=True)
    status = main([*arguments, "--truncate"])
    assert status == 0, status
"""
WIDE = "漢字とひらがなの文章はとても幅が広いので表の列が揃うかどうかを確かめる必要がある。"
EVIL = "a\x1b[31mred\x07 \x9b2J text"


def capture(runs: list[tuple[list[str], dict[str, str], str]], columns: int = 80) -> list[str]:
    """What a terminal of so many columns gets from each run; all share one process."""
    import fcntl
    import pty
    import struct
    import termios

    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = forks.start("-c", SCRIPT, json.dumps(runs), stdout=slave, stderr=slave)
    os.close(slave)
    seen = b""
    while True:
        try:
            block = os.read(master, 65536)
        except OSError:  # the other end is closed
            break
        if not block:
            break
        seen += block
    os.close(master)
    assert process.wait(60) == 0, seen.decode()
    text = seen.decode().replace("\r\n", "\n")
    return re.split(r"^== \d+\n", text, flags=re.MULTILINE)[1:]


def plain(text: str) -> str:
    return re.sub(r"\x1b\[\d*m", "", text)


def place(line: str, part: str) -> int:
    """The column of a terminal in which a part of a line begins."""
    return width_of(line[: line.rindex(part)])


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("terminal")
    model = str(write_model(folder / "model"))
    table, corpus = str(folder / "x.jsonl"), str(folder / "corpus.txt")
    texts = ["Goal!", WIDE, "cafe\u0301 🙂 ok", EVIL, "A long text, " * 9]
    Path(table).write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    Path(corpus).write_text(f"{WIDE}\nGoal!\n{EVIL}\n")
    utf8: tuple[dict[str, str], str] = ({"TERM": "xterm"}, "utf-8")
    runs = {
        "lines": (["classify", "-m", model, "-i", table], *utf8),
        "block": (["classify", "-m", model, "Goal!", WIDE], *utf8),
        "zero-shot": (["zero-shot", "-m", model, "Goal!", "--labels", "art,sport"], *utf8),
        "pair": (["classify", "-m", model, "--head", "nli", "--pair", "a", EVIL], *utf8),
        "fill-mask": (["fill-mask", "-m", model, "A <mask>.", "-k", "3"], *utf8),
        "masks": (["fill-mask", "-m", model, "<mask> and <mask>", "-k", "2"], *utf8),
        "similar": (["similar", "-m", model, "a", EVIL, "-i", corpus], *utf8),
        "tag": (["tag", "-m", model, "Ada wrote it in London."], *utf8),
        "answer": (["answer", "-m", model, "--pair", "Who?", "Ada wrote it."], *utf8),
        "choose": (
            ["choose", "-m", model, "Where?", "--options", f"here,{WIDE}", "--head", "race"],
            *utf8,
        ),
        "score": (["score", "-m", model, "-i", table], *utf8),
        "embed": (["embed", "-m", model, "-i", table], *utf8),
        "features": (["features", "-m", model, "-i", table], *utf8),
        "tokens": (["tokens", "-m", model, "naïve 漢"], *utf8),
        "no colours": (["classify", "-m", model, "-i", table], {"NO_COLOR": "1"}, "utf-8"),
        "dumb": (["classify", "-m", model, "Goal!"], {"TERM": "dumb"}, "utf-8"),
        "ascii": (["classify", "-m", model, "-i", table], {"NO_COLOR": "1"}, "ascii"),
        "narrow": (["classify", "-m", model, "-i", table], {"COLUMNS": "40"}, "utf-8"),
        "csv": (["classify", "-m", model, "-i", table, "-f", "csv"], *utf8),
        "jsonl": (["classify", "-m", model, "-i", table, "-f", "jsonl"], *utf8),
    }
    return dict(zip(runs, capture(list(runs.values())), strict=True))


NOT_DRAWN = ("csv", "jsonl")


def test_nothing_is_wider_than_the_terminal(seen: dict[str, str]) -> None:
    for name, text in seen.items():
        if name not in NOT_DRAWN:
            most = 40 if name == "narrow" else 80
            assert max(map(width_of, plain(text).splitlines())) <= most, text


def test_nothing_from_a_text_reaches_the_terminal(seen: dict[str, str]) -> None:
    for name, text in seen.items():
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", plain(text)), name
    assert r"a\x1b[31mred\x07 \x9b2J text" in plain(seen["lines"])
    assert "\\u001b[31mred\\u0007 \\u009b2J" in seen["jsonl"]


def test_columns_stand_below_each_other(seen: dict[str, str]) -> None:
    title, *rows = plain(seen["lines"]).splitlines()
    assert title.split() == ["text", "label", "score"] and len(rows) == 5
    assert {place(row, re.findall(r"0\.\d\d", row)[-1]) for row in rows} == {place(title, "score")}
    labels = {place(row, re.findall(r"art|sport", row)[-1]) for row in rows}
    assert labels == {place(title, "label")}
    _, *rows = plain(seen["score"]).splitlines()
    assert len({width_of(row) for row in rows}) == 1  # numbers end in one column


def test_a_bar_is_as_long_as_its_number(seen: dict[str, str]) -> None:
    for name in ("lines", "block", "zero-shot", "pair", "choose", "tag"):
        bars = re.findall(r"(\d\.\d\d)  ([█▏▎▍▌▋▊▉]*)", plain(seen[name]))
        assert bars, name
        for number, bar in bars:
            eighths = sum(8 if c == "█" else "▏▎▍▌▋▊▉".index(c) + 1 for c in bar)
            assert eighths / 160 == pytest.approx(float(number), abs=0.009)
    assert "#" in seen["ascii"] and seen["ascii"].isascii()


def test_colours_are_for_terminals_that_show_them(seen: dict[str, str]) -> None:
    assert "\x1b[1m" in seen["lines"] and "\x1b[36m" in seen["lines"]
    for name in ("no colours", "dumb", "ascii", "csv", "jsonl"):
        assert "\x1b" not in seen[name]
    assert plain(seen["lines"]) == seen["no colours"]


def test_a_block_has_its_text_and_every_label(seen: dict[str, str]) -> None:
    first, second = plain(seen["block"]).strip().split("\n\n")
    assert first.splitlines()[0] == "Goal!"
    assert {line.split()[0] for line in first.splitlines()[1:]} == {"art", "sport"}
    assert second.startswith("漢字") and second.splitlines()[0].endswith("…")
    assert plain(seen["pair"]).splitlines()[0] == "a"
    assert len(plain(seen["masks"]).splitlines()) == 5
    assert "<s>" in seen["tokens"] and "</s>" in seen["tokens"]
    assert plain(seen["similar"]).count("Goal!") == 2


def test_a_page_that_is_no_terminal_has_no_colours() -> None:
    import io

    stream = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    page = Page(stream)
    page.lines(("text", "label"), [("naïve 漢", "x")])
    page.flush()
    written = stream.buffer.getvalue()  # type: ignore[attr-defined]
    assert b"\x1b" not in written and "naïve \\u6f22".encode("latin-1") in written

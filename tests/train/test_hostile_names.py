r"""Names of columns, files, labels and folders stay names in what `fit` writes, shows and says."""

from __future__ import annotations

import csv
import html.parser
import os
from pathlib import Path
from typing import Any

import pytest

import roberta_hub
from roberta_hub.errors import InputError, RobertaHubError
from roberta_hub.rows.tables import open_table

pytestmark = pytest.mark.skipif(os.name != "posix", reason="names that POSIX takes")

EVIL = "x\n```\n# Broken\n<script>alert(1)</script>\x1b[31m\u202e ````` $x^2$ `y`"
"""A name that closes a fence, opens a heading and a tag, colours a terminal, turns text around."""
HEADINGS = ["Data", "Scores", "How it was made"]


def table(folder: Path, text: str, label: str, spans: bool = False) -> Path:
    path = folder / f"{EVIL.replace('/', ' ')}.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([text, label])
        for number in range(30):
            word = ("good", "bad")[number % 2]
            writer.writerow([f"a {word} film {number}", f"[[2, 6, '{word}']]" if spans else word])
    return path


def tokens(path: Path) -> list[Any]:
    """A page as CommonMark's own parser reads it."""
    markdown = pytest.importorskip("markdown_it").MarkdownIt("commonmark")
    found: list[Any] = markdown.parse(path.read_text(encoding="utf-8"))
    return found


def headings(page: list[Any]) -> list[str]:
    return [page[i + 1].content for i, token in enumerate(page) if token.type == "heading_open"]


def flat(page: list[Any]) -> list[str]:
    return [inner.type for token in page for inner in (token, *(token.children or ()))]


def check(folder: Path, wanted: list[str]) -> str:
    page = tokens(folder / "README.md")
    first, *others = headings(page)
    assert others == wanted and "Broken" in first
    kinds = flat(page)
    # The mark in the first line is the one comment that the page has.
    assert kinds.count("html_block") == 1 and "html_inline" not in kinds, kinds
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert all(c.isprintable() or c == "\n" for c in text)
    return text


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    folder = tmp_path_factory.mktemp("evil")
    path = table(folder, EVIL, f"label {EVIL}")
    output = folder / EVIL.replace("/", " ")
    with pytest.warns(UserWarning) as found:
        mine = roberta_hub.fit(
            path,
            text=EVIL,
            label=f"label {EVIL}",
            output=output,
            epochs=1,
            minutes=0.1,
            progress=False,
        )
    for one in found:
        assert "\x1b" not in str(one.message) and "\n" not in str(one.message)
    return mine, output


@pytest.mark.system
def test_the_page_of_a_classifier(made: tuple[Any, Path]) -> None:
    text = check(made[1], HEADINGS)
    assert "\\x1b[31m" in text and "\\u202e" in text


@pytest.mark.system
def test_the_page_of_a_tagger(tmp_path: Path) -> None:
    rows = [
        {EVIL: f"a {word} film {number}", f"label {EVIL}": [[2, 2 + len(word), f"{word} <b>`"]]}
        for number in range(30)
        for word in ("good", "bad")
    ]
    output = tmp_path / EVIL.replace("/", " ")
    with pytest.warns(UserWarning):
        roberta_hub.fit(
            rows, text=EVIL, label=f"label {EVIL}", output=output, epochs=1, progress=False
        )
    check(output, ["Data", "Scores on the rows that were held out", "How it was made"])


class Tags(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        self.found.add(tag)


@pytest.mark.system
def test_what_is_shown(made: tuple[Any, Path], tmp_path: Path) -> None:
    fitted = made[0].fitted
    tags = Tags()
    tags.feed(fitted._repr_html_())
    assert tags.found <= {"div", "span", "table", "tr", "td", "img"}
    both = (fitted, made[0])
    for shown in (*map(str, both), *map(repr, both), *(one._repr_html_() for one in both)):
        assert "\x1b" not in shown and "\u202e" not in shown
    fitted.png(tmp_path / "fitted.png")
    assert (tmp_path / "fitted.png").read_bytes().startswith(b"\x89PNG")


def test_errors_name_files_and_columns_as_text(tmp_path: Path) -> None:
    path = table(tmp_path, EVIL, "label")
    bad = tmp_path / "bad\x1b]0;title\x07\n.csv"
    bad.write_text('text,label\n"open\n')
    calls = [
        lambda: roberta_hub.fit(path, text="nosuch", label="label"),
        lambda: list(open_table(bad).rows()),
        lambda: open_table(tmp_path / "none\x1b[31m.csv"),
        lambda: next(open_table(path).rows()).text("nosuch"),
        lambda: roberta_hub.load_model(tmp_path / "none\x1b[31m"),
    ]
    for call in calls:
        with pytest.raises(RobertaHubError) as caught:
            call()
        for said in (str(caught.value), caught.value.in_shell(), repr(caught.value)):
            assert "\x1b" not in said and "\x07" not in said and "\u202e" not in said, said
    with pytest.raises(InputError, match=r"bad\\x1b\]0;title\\x07\\n\.csv:2"):
        list(open_table(bad).rows())

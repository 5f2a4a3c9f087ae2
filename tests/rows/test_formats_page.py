"""docs/reference/tables.md says of each format what the readers' own record says."""

from __future__ import annotations

from pathlib import Path

from roberta_hub.rows.formats import LOOKS_MISSING, ROW_FORMATS, RowFormat
from roberta_hub.rows.lines import MAX_ROW_BYTES

PAGE = (Path(__file__).resolve().parents[2] / "docs/reference/tables.md").read_text("utf-8")


def line(found: RowFormat) -> str:
    files = ", ".join(f".{ending}" if ending[0] != "a" else ending for ending in found.endings)
    cells = [found.name, files or "", found.row, found.values, found.missing, found.null]
    return f"| {' | '.join(cells)} |"


def test_the_table_is_the_record() -> None:
    begin = PAGE.index("| format |")
    table = PAGE[begin : PAGE.index("\n\n", begin)].splitlines()
    assert table[2:] == [line(found) for found in ROW_FORMATS.values()]


def test_the_limit_and_the_words_are_those_of_the_readers() -> None:
    assert f"{MAX_ROW_BYTES // 1_000_000} MB" in PAGE
    said = PAGE[PAGE.index("words that look missing") :].partition("\n\n")[0]
    assert {word for word in LOOKS_MISSING if f"`{word}`" in said} == LOOKS_MISSING

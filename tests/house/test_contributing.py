"""CONTRIBUTING.md shows the code that is there."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"\]\(([\w/.]+\.py)\):\n\n```python\n(.*?)```", PAGE, re.DOTALL)


def shown(code: str) -> list[str]:
    """The lines, as deep as the least indented of them."""
    return textwrap.dedent(code).rstrip().splitlines()


def test_the_taste_has_ten_examples() -> None:
    assert len(EXAMPLES) == 10 == len(re.findall(r"^\*\*\d+\. ", PAGE, re.MULTILINE))
    assert PAGE.count("```python") == 10


@pytest.mark.parametrize(("file", "code"), EXAMPLES)
def test_an_example_is_in_its_file(file: str, code: str) -> None:
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    wanted = shown(code)
    starts = range(len(lines) - len(wanted) + 1)
    assert any(shown("\n".join(lines[i : i + len(wanted)])) == wanted for i in starts), file


def test_what_the_page_names_is_there() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^ {4}make ([\w-]+)|`make ([\w-]+)`", PAGE, re.MULTILINE):
        assert re.search(f"^{''.join(target)}:", makefile, re.MULTILINE), target
    for path in re.findall(r"\]\(([^)#:]+)\)|`((?:tests|benchmarks)/[\w/.]+)`", PAGE):
        assert (ROOT / "".join(path)).exists(), path


def test_the_rooms_and_their_tests_are_there() -> None:
    table = PAGE.split("is seen by")[1].split("\n\n")[0]
    rows = re.findall(r"^\| (.+?) \| (.+) \|$", table, re.MULTILINE)
    assert len(rows) > 8
    for changed, seen in rows:
        for name in re.findall(r"`([^`]+)`", changed):
            assert (ROOT / "roberta_hub" / name).exists() or (ROOT / name).exists(), name
        for name in re.findall(r"`([^`]+)`", seen):
            assert name.startswith("make ") or (ROOT / "tests" / name).exists(), name

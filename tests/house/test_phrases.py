"""Pages, docstrings and messages use the field's words: the list is in CONTRIBUTING.md."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_messages import said as messages

ROOT = Path(__file__).resolve().parents[2]
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PHRASES = re.findall(
    r"^\| ([^|]+?) \| [^|]+ \|$", CONTRIBUTING.partition("| not |")[2].partition("\n\n")[0], re.M
)

IN_MESSAGES = {
    "small letters": "a key in saved training states",
    "without a word": "of explain: a text from which a word is taken",
    "stands in": "a test of hostile models expects it",
    "stand in": "sentences stand in order, and text stands in a text",
    "lies in": "a test of tokenizer.json expects it",
    "are told": "labels are told apart",
}
"""Phrases that messages have all the same, and why."""


@functools.cache
def said() -> tuple[tuple[str, str], ...]:
    """Every page and every docstring, with its place; read once for all phrases."""
    return (*pages(), *docstrings())


@functools.cache
def every_message() -> tuple[tuple[str, str], ...]:
    return tuple(messages())


def pages() -> Iterator[tuple[str, str]]:
    """What pages say, without their code."""
    files = [ROOT / "README.md", ROOT / "SECURITY.md", *(ROOT / "docs").rglob("*.md")]
    for path in [*files, ROOT / "roberta_hub/models/tiny/MODEL_CARD.md"]:
        text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.S)
        yield path.name, text


def docstrings() -> Iterator[tuple[str, str]]:
    for path in (ROOT / "roberta_hub").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                name = getattr(node, "name", "the module")
                yield f"{path.relative_to(ROOT)}: {name}", ast.get_docstring(node) or ""


def found(phrase: str, text: str) -> bool:
    words = r"\s+".join(map(re.escape, phrase.split()))
    return re.search(rf"(?<!\w){words}(?!\w)", text, re.I) is not None


def test_there_is_a_list() -> None:
    assert len(PHRASES) >= 20 and len(set(PHRASES)) == len(PHRASES)
    assert found("by turns", "It goes by\nturns.") and not found("by turns", "by turnstiles")


@pytest.mark.parametrize("phrase", PHRASES)
def test_nobody_says_it(phrase: str) -> None:
    assert [where for where, text in said() if found(phrase, text)] == []


@pytest.mark.parametrize("phrase", PHRASES)
def test_no_message_says_it(phrase: str) -> None:
    """But for `IN_MESSAGES`, which goes as soon as nothing says it."""
    places = [where for where, text in every_message() if found(phrase, text)]
    assert bool(places) == (phrase in IN_MESSAGES), places

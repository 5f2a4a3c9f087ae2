"""SECURITY.md promises only what a test proves: every test that it names is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def promises() -> list[str]:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    return [row for row in rows if not row.startswith("| promise")]


def test_each_promise_names_tests_that_exist() -> None:
    rows = promises()
    assert len(rows) > 10
    for row in rows:
        named = NAMED.findall(row)
        assert named, row
        for file, function in named:
            assert (ROOT / file).is_file(), file
            assert not function or function in functions(ROOT / file), f"{file}::{function}"


def test_every_link_leads_somewhere() -> None:
    for page in ("SECURITY.md", "README.md", "CONTRIBUTING.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", (ROOT / page).read_text(encoding="utf-8")):
            assert (ROOT / target).exists(), f"{page}: {target}"

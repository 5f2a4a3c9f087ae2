"""llms.txt and SKILL.md are what the pages say; tests/house/test_readme.py runs SKILL.md."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest
from scripts import TOOLS, load_script

from roberta_hub.shell.main import VERBS

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def skill() -> ModuleType:
    """tools/skill.py, which writes both."""
    pytest.importorskip("yaml")
    return load_script(TOOLS / "skill.py")


def test_both_are_what_the_pages_say(skill: ModuleType) -> None:
    """Else: `python tools/skill.py`."""
    for path, text in skill.written().items():
        assert path.read_text(encoding="utf-8") == text, path.name


def test_every_page_is_listed_and_every_link_leads_to_a_file(skill: ModuleType) -> None:
    listed = skill.LLMS.read_text(encoding="utf-8")
    for page in (ROOT / "docs").rglob("*.md"):
        assert f"]({page.relative_to(ROOT).as_posix()})" in listed, page
    for path in skill.written():
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text(encoding="utf-8")):
            assert (ROOT / target).is_file(), f"{path.name}: {target}"


def test_ten_calls_that_run_with_the_pages(skill: ModuleType) -> None:
    text = skill.SKILL.read_text(encoding="utf-8")
    assert text.startswith("---\nname: roberta-hub\ndescription: ")
    assert len(skill.TEN) == 10 == text.count("What goes wrong:")
    assert skill.SKILL in load_script(TOOLS / "answers.py").sessions()
    for _, command in skill.TEN.values():
        for name in re.findall(r"roberta-hub ([a-z-]+)", command):
            assert name in VERBS, name
    for name in skill.TEN:
        assert skill.wrong(skill.text_of(ROOT / f"docs/guides/{name}.md")), name

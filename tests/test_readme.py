"""The README tells the truth: its examples run, and its map names every file."""

import doctest
import re
from pathlib import Path

import roberta_hub

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_examples_run(tmp_path: Path) -> None:
    names = {
        "REPO": str(ROOT),
        "FILE": str(ROOT / "tests/data/fairseq/model.pt"),
        "FOLDER": str(tmp_path),
        "roberta_hub": roberta_hub,
    }
    test = doctest.DocTestParser().get_doctest(README, names, "README.md", "README.md", 0)
    assert len(test.examples) > 15
    outcome = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test)
    assert outcome.failed == 0


def test_the_map_names_every_module() -> None:
    for path in (ROOT / "roberta_hub").rglob("*.py"):
        if path.name != "__init__.py":
            assert re.search(rf"\b{re.escape(path.name)}", README), (
                f"{path} is not on the README's map"
            )


def test_the_makefile_runs_what_the_readme_says() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in set(re.findall(r"make ([a-z-]+)", README)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target

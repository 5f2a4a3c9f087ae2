"""The house stands: rooms import only from lower floors, files stay short, importing stays light."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "roberta_hub"
FLOORS = {
    "config": 0,
    "errors": 0,
    "terminal": 0,
    "text": 1,
    "model": 1,
    "checkpoint": 1,
    "inference": 2,
    "saving": 2,
    "building": 2,
    "fairseq_verbs": 3,
    "head_verbs": 3,
    "interface": 3,
    "hub": 4,
    "fairseq_bridge": 5,
    "train": 5,
    "cli": 5,
    "doctor": 5,
    "__main__": 6,
    "__init__": 6,
}
STAIRS = {
    ("config", "errors"),
    ("head_verbs", "fairseq_verbs"),
    ("interface", "head_verbs"),
    ("cli", "doctor"),
    ("cli", "train"),
}
"""Imports within a floor."""
MODULES = sorted(PACKAGE.rglob("*.py"))


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


def room(module: str) -> str:
    return module.split(".")[0]


def imports(path: Path) -> set[str]:
    """The package's own modules that a file imports, at its top or inside a function."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names] + [node.module or ""]
        else:
            continue
        modules = {name_of(module) for module in MODULES}
        for name in names:
            inner = name.removeprefix("roberta_hub.")
            if name.startswith("roberta_hub.") and inner in modules:
                found.add(inner)
    return found


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_only_from_lower_floors(path: Path) -> None:
    here = room(name_of(path))
    for imported in imports(path):
        there = room(imported)
        stairs = (here, there) in STAIRS
        assert there == here or stairs or FLOORS[there] < FLOORS[here], (
            f"{name_of(path)} imports {imported}"
        )


def test_no_cycles_within_a_room() -> None:
    graph = {name_of(path): imports(path) for path in MODULES}
    done: set[str] = set()

    def visit(module: str, trail: tuple[str, ...]) -> None:
        assert module not in trail, " -> ".join((*trail, module))
        if module not in done:
            for imported in graph.get(module, ()):
                visit(imported, (*trail, module))
            done.add(module)

    for module in graph:
        visit(module, ())


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_no_file_over_400_lines(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400


def test_import_is_light() -> None:
    """torch is the only heavy import; spaCy, transformers and the rest wait for the function that needs them."""
    heavy = [
        "spacy",
        "matplotlib",
        "transformers",
        "omegaconf",
        "hydra",
        "accelerate",
        "torchmetrics",
        "pyarrow",
        "fairseq",
        "requests",
        "tiktoken",
    ]
    code = f"import sys, roberta_hub; print([m for m in {heavy} if m in sys.modules])"
    out = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    )
    assert out.stdout.strip() == "[]", out.stdout

"""Rooms import only from lower floors and without circles; importing stays light."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "roberta_hub"
FLOORS = {
    "at_padding": 0,
    "config": 0,
    "errors": 0,
    "extras": 0,
    "files": 0,
    "folder": 0,
    "arguments": 0,
    "keywords": 0,
    "other_names": 0,
    "terminal": 0,
    "version": 0,
    "signals": 0,
    "settings": 0,
    "rows": 0,
    "measures": 0,
    "text": 1,
    "model": 1,
    "checkpoint": 1,
    "show": 1,
    "inference": 2,
    "formats": 2,
    "building": 2,
    "export": 3,
    "verbs": 3,
    "interface": 4,
    "hub": 5,
    "fairseq_names": 6,
    "fairseq_bridge": 6,
    "train": 6,
    "scale": 6,
    "evaluation": 7,
    "indexing": 7,
    "verification": 7,
    "server": 7,
    "shell": 8,
    "ui": 8,
    "run": 9,
    "__main__": 9,
    "__init__": 9,
}
STAIRS = {
    ("config", "errors"),
    ("config", "arguments"),
    ("config", "keywords"),
    ("errors", "terminal"),
    ("files", "errors"),
    ("files", "signals"),
    ("folder", "errors"),
    ("folder", "files"),
    ("arguments", "errors"),
    ("fairseq_bridge", "fairseq_names"),
    ("keywords", "arguments"),
    ("keywords", "errors"),
    ("keywords", "other_names"),
    ("other_names", "errors"),
    ("settings", "arguments"),
    ("settings", "errors"),
    ("settings", "keywords"),
    ("rows", "arguments"),
    ("rows", "errors"),
    ("rows", "extras"),
    ("rows", "terminal"),
    ("shell", "ui"),
    ("verification", "evaluation"),
}
"""Imports within a floor."""
DOORS = {
    ("shell.main", "__init__"),
    ("shell.doctor", "__init__"),
}
"""Modules that use the package as its users do, through its public names."""
MODULES = sorted(PACKAGE.rglob("*.py"))


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


NAMES = {name_of(path) for path in MODULES}


def room(module: str) -> str:
    return module.split(".")[0]


def own_module(dotted: str) -> str | None:
    """The module that a dotted name means: itself, the one that holds the name, or the package."""
    if dotted.split(".")[0] != PACKAGE.name:
        return None
    parts = dotted.split(".")[1:]
    for end in range(len(parts), 0, -1):
        inner = ".".join(parts[:end])
        for name in (inner, f"{inner}.__init__"):
            if name in NAMES:
                return name
    return "__init__"


def called(call: ast.Call) -> str:
    """The last part of what is called: `import_module` of `importlib.import_module`."""
    return getattr(call.func, "attr", None) or getattr(call.func, "id", "")


def imports(source: str) -> set[str]:
    """The package's own modules that a source imports, wherever in it the import stands.

    At its top, inside a function, and under TYPE_CHECKING, which counts like any other: a room that
    knows a higher one only by its types still cannot be read without it. `import_module(x)` and
    `__import__(x)` count by their literal argument; one that is computed is refused, unless a
    comment on its line says `# not ours`: it never names a module of the package, or
    `# on request`: it is the face's, which has the same names under TYPE_CHECKING.
    """
    found: set[str | None] = set()
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {own_module(alias.name) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: relative import"
            assert all(alias.name != "*" for alias in node.names) or (
                own_module(node.module or "") is None
            ), f"line {node.lineno}: import of *"
            found |= {own_module(f"{node.module}.{alias.name}") for alias in node.names}
            assert not any(a.name == "import_module" and a.asname for a in node.names), (
                f"line {node.lineno}: import_module by another name"
            )
        elif isinstance(node, ast.Call) and called(node) in ("import_module", "__import__"):
            given = [*node.args, *(k.value for k in node.keywords if k.arg == "name")][:1]
            name = given[0].value if given and isinstance(given[0], ast.Constant) else None
            if isinstance(name, str):
                assert not name.startswith("."), f"line {node.lineno}: relative import"
                found.add(own_module(name))
            else:
                reasons = ("# not ours", "# on request")
                assert lines[node.lineno - 1].endswith(reasons), f"line {node.lineno}: computed"
    return {name for name in found if name is not None}


def faults(module: str, source: str) -> list[str]:
    """What a module of this name may not import of what it imports."""
    here, wrong = room(module), []
    for imported in sorted(imports(source)):
        there = room(imported)
        if there == here or (here, there) in STAIRS or (module, imported) in DOORS:
            continue
        if FLOORS[there] >= FLOORS[here]:
            wrong.append(f"{module} imports {imported}")
    return wrong


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@pytest.mark.system
def test_imports_only_from_lower_floors() -> None:
    assert [fault for path in MODULES for fault in faults(name_of(path), read(path))] == []


UPWARDS = {
    "the package": "import roberta_hub",
    "the package, inside a function": "def f():\n    import roberta_hub\n    return 1",
    "a name of the package": "from roberta_hub import load_model",
    "a room of the package": "from roberta_hub import hub",
    "another name": "import roberta_hub.hub as h",
    "with others": "import os, roberta_hub.interface",
    "a name of a module": "from roberta_hub.hub import load_model",
    "the room of a package": "from roberta_hub.train import run",
    "a name of a package": "from roberta_hub.train import nothing_of_that_name",
    "import_module": "import importlib\nimportlib.import_module('roberta_hub.hub')",
    "import_module by its own name": (
        "from importlib import import_module\nimport_module('roberta_hub.hub')"
    ),
    "import_module with a keyword": "import importlib\nimportlib.import_module(name='roberta_hub')",
    "__import__": "__import__('roberta_hub.interface')",
    "types only": (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n"
        "    from roberta_hub.interface import RobertaHubInterface"
    ),
}


@pytest.mark.parametrize("source", UPWARDS.values(), ids=UPWARDS)
def test_every_way_of_importing_upwards_is_seen(source: str) -> None:
    for module in ("text.bpe", "inference.features"):
        assert len(faults(module, source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        "from . import hub",
        "from .hub import load_model",
        "from ..model import heads",
        "import importlib\nimportlib.import_module('.hub', 'roberta_hub')",
        "import importlib\nimportlib.import_module('roberta_' + 'hub')",
        "__import__(name)",
        "from roberta_hub import *",
        "from importlib import import_module as load",
    ],
)
def test_imports_that_nobody_can_follow_are_refused(source: str) -> None:
    with pytest.raises(AssertionError, match=r"relative import|computed|import of \*|another name"):
        faults("inference.features", source)


@pytest.mark.parametrize(
    "source",
    [
        "import torch, os.path",
        "from roberta_hub.config import RobertaConfig",
        "import roberta_hub.model.heads",
        "from roberta_hub.text import bpe",
        "from roberta_hub.inference.batching import Runner",
        "import roberta_hubs",
        "import importlib\nimportlib.import_module('spacy')",
        "import importlib\nimportlib.import_module(found)  # not ours",
    ],
)
def test_imports_from_lower_floors_pass(source: str) -> None:
    assert faults("inference.features", source) == []


def test_only_the_face_imports_on_request() -> None:
    assert [name_of(path) for path in MODULES if "# on request" in read(path)] == ["__init__"]


@pytest.mark.system
def test_no_cycles_within_a_room() -> None:
    graph = {name_of(path): imports(read(path)) for path in MODULES}
    done: set[str] = set()

    def visit(module: str, trail: tuple[str, ...]) -> None:
        assert module not in trail, " -> ".join((*trail, module))
        if module not in done:
            for imported in graph.get(module, ()):
                visit(imported, (*trail, module))
            done.add(module)

    for module in graph:
        visit(module, ())


@pytest.mark.system
def test_import_is_light() -> None:
    """torch is the only heavy import.

    spaCy, transformers and the rest wait for the function that needs them.
    """
    heavy = [
        "spacy",
        "matplotlib",
        "transformers",
        "omegaconf",
        "hydra",
        "accelerate",
        "pyarrow",
        "fairseq",
        "requests",
        "tiktoken",
        "gradio",
        "lancedb",
        "datasketch",
    ]
    code = f"import sys\nfrom roberta_hub import *\nprint([m for m in {heavy} if m in sys.modules])"
    out = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    )
    assert out.stdout.strip() == "[]", out.stdout

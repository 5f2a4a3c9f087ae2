"""What docstrings say of arguments, results and yields, held against the signatures by pydoclint.

    python tools/docstrings.py                  # roberta_hub/ and hubconf.py, as `make check` does
    python tools/docstrings.py FILE...

A section that stands must be right and whole; one that would only repeat the first line may be left
out, which pydoclint has no setting for: so these of its complaints are dropped here. Its settings
are in pyproject.toml.

Sections are for users: a name that docs/reference shows, and the public members of its class. What
is inside has a sentence, and an example where it helps; its names and types say the rest, but for
the shapes of tensors. A public function tells its arguments, if it has any.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SCOPE = [ROOT / "roberta_hub", ROOT / "hubconf.py"]
TYPES = {"DOC106", "DOC107", "DOC111"}
"""Whether hints stand in the signature is mypy's, and hubconf.py has them where people read."""
LEFT_OUT = {"DOC201", "DOC402"}
"""No section for what is returned or yielded: the first line says it."""
ARGUMENTS = {"DOC101", "DOC103"}
"""Arguments missing: allowed where the whole section is."""
SECTION = re.compile(r"^\s*(Args|Arguments|Parameters):\s*$", re.MULTILINE)
INTERNAL = re.compile(
    r"^(Args|Arguments|Raises|Returns|Yields):\n((?:\n|[ ]+.*\n?)+)", re.MULTILINE
)
SHOWN = re.compile(r"roberta_hub(?:\.\w+)+")
"""A name with its module, on a page of docs/reference."""
RESULTS = (
    "evaluation.comparison.Comparison",
    "evaluation.records.Evaluation",
    "evaluation.records.Evaluations",
    "evaluation.mteb_encoder.MtebEncoder",
    "export.folder.Exported",
    "indexing.build.Indexed",
    "indexing.duplicates.Duplicates",
    "indexing.opened.Index",
    "indexing.opened.RowHit",
    "inference.words.AlignedDoc",
    "scale.Report",
    "scale.Status",
    "scale.Verb",
    "scale.lake",
    "scale.status",
    "show.display.Display",
    "show.sheet.Picture",
    "train.fitting.fitted.Fitted",
    "ui.page",
    "ui.serve",
    "verification.records.Verification",
)
"""What public functions return, and the public names of rooms."""
FAULT = re.compile(r"^(?P<file>.+?):(?P<line>\d+): (?P<code>DOC\d+): ")


def documented(path: Path) -> set[int]:
    """Lines of the functions and classes whose docstring has a section on arguments."""
    found: set[int] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if SECTION.search(ast.get_docstring(node) or ""):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            found |= set(range(first, node.body[0].lineno + 1))
            inner = node.body if isinstance(node, ast.ClassDef) else []
            found |= {n.lineno for n in inner if getattr(n, "name", "") == "__init__"}
    return found


def faults(paths: list[Path]) -> list[str]:
    """What is wrong, a line each."""
    command = [str(Path(sys.executable).with_name("pydoclint")), "--quiet"]
    command += ["--show-filenames-in-every-violation-message", "True"]
    command += ["--config", str(ROOT / "pyproject.toml"), *map(str, paths)]
    ran = subprocess.run(command, capture_output=True, text=True)
    said = (ran.stdout + ran.stderr).splitlines()
    found = [(line, fault) for line in said if (fault := FAULT.match(line.strip()))]
    if ran.returncode and not found:
        raise SystemExit(f"pydoclint died: {ran.stdout}{ran.stderr}")
    sections: dict[str, set[int]] = {}
    kept = []
    for line, fault in found:
        file, code = fault["file"], fault["code"]
        if code in ARGUMENTS and file not in sections:
            sections[file] = documented(Path(file))
        without = code in ARGUMENTS and int(fault["line"]) not in sections[file]
        if not (without or code in TYPES | LEFT_OUT):
            kept.append(line.strip())
    return kept


def public() -> set[tuple[str, str]]:
    """File and qualified name of each definition that users read of."""
    sys.path.insert(0, str(ROOT))
    hub = importlib.import_module("roberta_hub")
    names = {f"roberta_hub.{name}" for name in (*hub.__all__, *RESULTS)}
    for page in (ROOT / "docs/reference").rglob("*.md"):
        names |= set(SHOWN.findall(page.read_text(encoding="utf-8")))
    return {place for name in names for place in _places(_named(name))}


def _named(name: str) -> Any:
    """What stands behind a dotted name; None where nothing does."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            found = getattr(found, part, None)
        return found
    return None


def _places(of: Any) -> Iterator[tuple[str, str]]:
    """Where a function, or a class with its bases and public members, is written."""
    if not inspect.isclass(of):
        of = inspect.unwrap(of) if callable(of) else None
        if inspect.isfunction(of) and of.__module__.startswith("roberta_hub"):
            yield str(Path(inspect.getfile(of)).resolve()), of.__qualname__
        return
    for base in of.__mro__:
        if not base.__module__.startswith("roberta_hub"):
            continue
        yield str(Path(inspect.getfile(base)).resolve()), base.__qualname__
        for name, member in vars(base).items():
            if not name.startswith("_") or name in ("__init__", "__call__"):
                yield from _places(getattr(member, "fget", getattr(member, "__func__", member)))


def misplaced(paths: list[Path]) -> list[str]:
    """Sections that users do not read, and arguments that they read nothing of, a line each."""
    shown = public()
    files = [f for path in paths for f in ([path] if path.is_file() else path.rglob("*.py"))]
    found = []
    for path in sorted(files):
        if not path.resolve().is_relative_to(ROOT / "roberta_hub") or "fairseq_names" in path.parts:
            continue
        for name, node in definitions(ast.parse(path.read_text(encoding="utf-8"))):
            written = INTERNAL.findall(ast.get_docstring(node) or "")
            sections = [title for title, text in written if "hape" not in text]
            if (str(path.resolve()), name) in shown:
                if silent := untold(node):
                    found.append(f"{path}:{node.lineno}: {name} lacks Args: {', '.join(silent)}")
            elif sections:
                found.append(f"{path}:{node.lineno}: {name} is internal: no {', '.join(sections)}")
    return found


def untold(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> list[str]:
    """Arguments of a function whose docstring has no section on them."""
    doc = ast.get_docstring(node) or ""  # none: an overload, whose last definition has one
    if isinstance(node, ast.ClassDef) or node.name.startswith("_") or not doc:
        return []
    names = [each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)]
    return [] if SECTION.search(doc) else [name for name in names if name not in ("self", "cls")]


def definitions(
    node: ast.AST, inside: str = ""
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]]:
    """Functions and classes with their qualified names, in the order of their lines."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield inside + child.name, child
            between = "." if isinstance(child, ast.ClassDef) else ".<locals>."
            yield from definitions(child, inside + child.name + between)
        else:
            yield from definitions(child, inside)


def main() -> int:
    """Print the faults; 1 if there are any."""
    paths = [Path(name) for name in sys.argv[1:]] or SCOPE
    found = faults(paths) + misplaced(paths)
    print("\n".join(found) or "docstrings agree with signatures")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())

"""What docstrings say of arguments, results and yields, held against the signatures by pydoclint.

    python tools/docstrings.py                  # roberta_hub/ and hubconf.py, as `make check` does
    python tools/docstrings.py FILE...

A section that stands must be right and whole; one that would only repeat the first line may be left
out, which pydoclint has no setting for: so these of its complaints are dropped here. Its settings
are in pyproject.toml.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SCOPE = [ROOT / "roberta_hub", ROOT / "hubconf.py"]
TYPES = {"DOC106", "DOC107", "DOC111"}
"""Whether hints stand in the signature is mypy's, and hubconf.py has them where people read."""
LEFT_OUT = {"DOC201", "DOC402"}
"""No section for what is returned or yielded: the first line says it."""
ARGUMENTS = {"DOC101", "DOC103"}
"""Arguments missing: allowed where the whole section is."""
SECTION = re.compile(r"^\s*(Args|Arguments|Parameters):\s*$", re.MULTILINE)
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


def main() -> int:
    """Print the faults; 1 if there are any."""
    found = faults([Path(name) for name in sys.argv[1:]] or SCOPE)
    print("\n".join(found) or "docstrings agree with signatures")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())

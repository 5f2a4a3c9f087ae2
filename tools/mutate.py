"""How much the tests notice: changes lines of the package, one at a time, and runs the tests.

    python tools/mutate.py --result benchmarks/results/mutants      # about an hour on two cores

A mutant is the package with one expression inside one function changed: `<` becomes `<=`, `+`
becomes `-`, a number grows by one, a condition is negated. A seed draws the lines. First the tests
run once with a probe in each of these functions, which writes down the tests that reach it. Then
each mutant meets the unit tests that reach its function; one that lives meets those of the other
tiers. A mutant that no test notices is listed with its line: a test is missing, or the change means
nothing. Ends with 1 where more live than `--most`.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "roberta_hub"
TIERS = {
    "unit": "unit and not slow and not network",
    "system": "system and not slow and not network",
    "parity": "parity and not slow and not network",
}
"""What pytest's `-m` takes for each tier, in the order in which a mutant meets them."""
TIMEOUT = 120
"""Seconds of one test: a mutant may make a loop endless."""
COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "+",
    ast.FloorDiv: "*",
    ast.Div: "*",
    ast.Mod: "*",
}
PROBE = '''"""Writes down which tests reach which mutant."""

import os

_seen = set()


def reached(number):
    """Append the mutant and the running test to the file that tools/mutate.py reads."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    place = os.environ.get("ROBERTA_HUB_PROBE")  # a test may start a process without it
    if test and place and (number, test) not in _seen:
        _seen.add((number, test))
        with open(place, "a", encoding="utf-8") as file:
            file.write(f"{number}\\t{test}\\n")
'''


@dataclass(frozen=True)
class Mutant:
    """One changed expression.

    Attributes:
        path: the file, from the repository's root.
        line: of the expression, from 1.
        start: where in the file's bytes the expression begins.
        end: where it ends.
        text: what stands in its place.
        body: the line before which the function's first statement begins, from 1.
    """

    path: str
    line: int
    start: int
    end: int
    text: str
    body: int

    def apply(self, root: Path) -> None:
        """Change the file below a copy of the repository."""
        path = root / self.path
        source = path.read_bytes()
        path.write_bytes(source[: self.start] + self.text.encode() + source[self.end :])

    def show(self, root: Path) -> str:
        """The place and the change, in one line."""
        source = (root / self.path).read_bytes()
        before = " ".join(source[self.start : self.end].decode().split())
        after = " ".join(self.text.split())
        return f"`{self.path}:{self.line}`: `{before}` → `{after}`"


def changes(node: ast.AST, source: str) -> Iterator[str]:
    """What may stand in place of an expression."""

    def text(part: ast.AST) -> str:
        return ast.get_source_segment(source, part) or ""

    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        sign = COMPARISONS[type(node.ops[0])]
        yield f"({text(node.left)} {sign} {text(node.comparators[0])})"
    elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        if not any(isinstance(side, (ast.JoinedStr, ast.List)) for side in (node.left, node.right)):
            yield f"({text(node.left)} {OPERATORS[type(node.op)]} {text(node.right)})"
    elif isinstance(node, ast.BoolOp):
        sign = " or " if isinstance(node.op, ast.And) else " and "
        yield f"({sign.join(f'({text(value)})' for value in node.values)})"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield f"bool({text(node.operand)})"
    elif isinstance(node, ast.IfExp):
        yield f"({text(node.orelse)} if {text(node.test)} else {text(node.body)})"
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        yield f"({node.value} + 1)"
    elif isinstance(node, ast.Constant) and type(node.value) is bool:
        yield str(not node.value)


def mutants_of(path: Path) -> list[Mutant]:
    """Every mutant of the expressions inside a file's functions; annotations and messages stay."""
    source = path.read_text(encoding="utf-8")
    lines = source.encode().splitlines(keepends=True)
    begins = [0]
    for line in lines:
        begins.append(begins[-1] + len(line))
    found = []

    def visit(node: ast.AST, body: int) -> None:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[1:] if ast.get_docstring(node) else node.body
            for statement in first:
                visit(statement, first[0].lineno)
            return
        if isinstance(node, (ast.Raise, ast.JoinedStr, ast.Assert)):
            return  # what an error says is tested by its words, not by its numbers
        if body and isinstance(node, ast.expr):
            start = begins[node.lineno - 1] + node.col_offset
            end = begins[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
            name = str(path.relative_to(ROOT))
            for text in changes(node, source):
                found.append(Mutant(name, node.lineno, start, end, text, body))
        for field, value in ast.iter_fields(node):
            if field in ("annotation", "returns", "decorator_list"):
                continue
            for part in value if isinstance(value, list) else [value]:
                if isinstance(part, ast.AST):
                    visit(part, body)

    visit(ast.parse(source), 0)
    return found


def drawn(seed: int, count: int) -> list[Mutant]:
    """As many mutants of different lines as are asked for, the same for a seed and a tree."""
    draw = random.Random(seed)
    every = [m for path in sorted((ROOT / PACKAGE).rglob("*.py")) for m in mutants_of(path)]
    draw.shuffle(every)
    chosen: dict[tuple[str, int], Mutant] = {}
    for mutant in every:
        if len(chosen) < count:
            chosen.setdefault((mutant.path, mutant.line), mutant)
    return sorted(chosen.values(), key=lambda m: (m.path, m.line))


def copy_of(folder: Path) -> Path:
    """A copy of what git tracks, and of the compiled library."""
    names = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, text=True, check=True
    ).stdout
    for name in [*filter(None, names.split("\0")), f"{PACKAGE}/model/_compiled.so"]:
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def pytest(
    root: Path, arguments: list[str], probe: Path | None = None, log: Path | None = None
) -> int:
    """Run pytest in a copy of the repository.

    Args:
        root: the copy.
        arguments: of pytest.
        probe: where probes write.
        log: where pytest's own words go; None: nowhere.

    Returns:
        pytest's exit status.
    """
    shared = os.environ.get("ROBERTA_HUB_SHARED", str(ROOT.parent / "shared"))
    environment = os.environ | {
        "PYTHONPATH": str(root),
        "ROBERTA_HUB_SHARED": shared,
        "OMP_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    if probe is not None:
        environment["ROBERTA_HUB_PROBE"] = str(probe)
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider"]
    command += ["--timeout", str(TIMEOUT), *arguments]
    with open(log or os.devnull, "w", encoding="utf-8") as said:
        return subprocess.run(
            command, cwd=root, env=environment, stdout=said, stderr=said
        ).returncode


def tests_that_reach(
    mutants: list[Mutant], tier: str, folder: Path, logs: Path | None, workers: int
) -> list[list[str]]:
    """The tests of a tier that enter the function of each mutant, the likeliest to fail first."""
    root = copy_of(folder)
    (root / PACKAGE / "_probe.py").write_text(PROBE, encoding="utf-8")
    # From the end of a file to its beginning, so that lines above stay where they are.
    for number, mutant in sorted(enumerate(mutants), key=lambda item: -item[1].body):
        path = root / mutant.path
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        at = mutant.body - 1
        indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
        lines.insert(at, f"{indent}__import__('{PACKAGE}._probe')._probe.reached({number})\n")
        path.write_text("".join(lines), encoding="utf-8")
    found = folder / "reached.tsv"
    found.touch()
    log = None if logs is None else logs / f"{tier}.log"
    pytest(root, ["-n", str(workers), "--dist", "worksteal", "-m", TIERS[tier]], found, log)
    reached: list[set[str]] = [set() for _ in mutants]
    lines = found.read_text(encoding="utf-8").splitlines()
    if not lines:
        raise SystemExit(f"no test of {tier} ran; --logs FOLDER keeps what pytest says")
    for line in lines:
        number, test = line.split("\t", 1)
        reached[int(number)].add(test)
    return [
        sorted(tests, key=lambda test: (Path(mutant.path).stem not in test, test))
        for mutant, tests in zip(mutants, reached, strict=True)
    ]


def lives(mutant: Mutant, tests: list[str]) -> bool:
    """Whether no test of a list notices a mutant."""
    if not tests:
        return True
    with tempfile.TemporaryDirectory() as folder:
        root = copy_of(Path(folder))
        mutant.apply(root)
        names = root / "tests.txt"
        names.write_text("\n".join(tests) + "\n", encoding="utf-8")
        return pytest(root, ["-x", f"@{names}"]) == 0


def main() -> int:
    """Draw, run, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--tiers", nargs="+", choices=TIERS, default=list(TIERS))
    parser.add_argument("--most", type=int, default=40, help="as many may live")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="mutants at a time")
    parser.add_argument("--logs", type=Path, help="a folder for what the probing runs print")
    parser.add_argument("--result", type=Path, help="write NAME.md and NAME.json")
    options = parser.parse_args()
    mutants = drawn(options.seed, options.count)
    living, notes = list(range(len(mutants))), {}
    started = time.time()
    for tier in options.tiers:
        with tempfile.TemporaryDirectory() as folder:
            chosen = [mutants[i] for i in living]
            reached = tests_that_reach(chosen, tier, Path(folder), options.logs, options.workers)
        survivors = []
        with ThreadPoolExecutor(options.workers) as pool:
            found = pool.map(lives, [mutants[i] for i in living], reached)
            for i, tests, alive in zip(living, reached, found, strict=True):
                if alive:
                    survivors.append(i)
                reach = f"{len(tests)} tests of {tier} reach it"
                notes[i] = f"lives; {reach}" if alive else f"noticed by {tier}"
                print(f"{mutants[i].show(ROOT)}: {notes[i]}", flush=True)
        living = survivors
    minutes = (time.time() - started) / 60
    page = table(mutants, notes, living, options.seed, minutes)
    print(page)
    if options.result is not None:
        options.result.with_suffix(".md").write_text(page + "\n", encoding="utf-8")
        numbers = {"seed": options.seed, "living": [mutants[i].show(ROOT) for i in living]}
        options.result.with_suffix(".json").write_text(json.dumps(numbers, indent=1) + "\n")
    return int(len(living) > options.most)


def table(
    mutants: list[Mutant], notes: dict[int, str], living: list[int], seed: int, minutes: float
) -> str:
    """The page: how many live, which, and who noticed each of the others."""
    lines = [
        "# Mutants of the package",
        "",
        f"{len(mutants)} lines, seed {seed}: {len(living)} live. {minutes:.0f} minutes. "
        f"Again: `python tools/mutate.py --seed {seed} --count {len(mutants)}`.",
        "",
        "| change | |",
        "|---|---|",
        *(f"| {mutant.show(ROOT)} | {notes[i]} |" for i, mutant in enumerate(mutants)),
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())

"""The house in numbers, an earlier commit next to this one, and the ways that calls take in it.

    python tools/measure_house.py dcdb5ac      # minutes; writes benchmarks/results/house.md

Counted are modules, lines, floors and star-tuples. A walk lists the package's own functions that a
call enters, each once, in the order of their first entry; next to it are the files that the call
opens in the model's folder, and how often it lists a folder. A concept is counted by what it is
written as: a report by a method that only a report has, a forwarder by a body that is one call.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
ROWS = [
    {"text": f"{word} {number}", "label": label}
    for number in range(8)
    for word, label in (("A good film", "good"), ("A bad film", "bad"))
]


def count(tree: Path) -> dict[str, int]:
    """Modules, their lines, lines of code, star-tuples, rooms and floors of a tree."""
    paths = sorted((tree / "roberta_hub").rglob("*.py"))
    sources = [path.read_text(encoding="utf-8") for path in paths]
    trees = [ast.parse(source) for source in sources]
    starred = [
        node
        for module in trees
        for node in ast.walk(module)
        if isinstance(node, ast.Starred) and isinstance(node.value, (ast.Tuple, ast.List))
    ]
    return {
        "modules": len(paths),
        "lines": sum(len(source.splitlines()) for source in sources),
        "lines of code": sum(code_lines(*pair) for pair in zip(sources, trees, strict=True)),
        "lines of docstrings": sum(docstring_lines(module) for module in trees),
        **concepts(trees),
        "lines of tests": lines_of(tree / "tests"),
        "star-tuples": len(starred),
        "floors": len(set(floors(tree).values())),
        "floors inside rooms, kept by hand": inner_floors(tree),
    }


def code_by_room(tree: Path) -> Counter[str]:
    """Lines of code of each room; those of train/ by its own rooms."""
    found = Counter[str]()
    for path in (tree / "roberta_hub").rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        *rooms, _ = path.relative_to(tree / "roberta_hub").parts
        room = "/".join(rooms[: 2 if rooms[:1] == ["train"] else 1]) or "roberta_hub"
        found[room] += code_lines(source, ast.parse(source))
    return found


def lines_of(folder: Path) -> int:
    """Lines of all modules below a folder."""
    return sum(len(p.read_text(encoding="utf-8").splitlines()) for p in folder.rglob("*.py"))


def docstring_lines(tree: ast.Module) -> int:
    """Lines of strings that stand alone: docstrings of modules, classes, functions, attributes."""
    return sum(
        (node.end_lineno or 0) - node.lineno + 1
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    )


def concepts(trees: list[ast.Module]) -> dict[str, int]:
    """Functions, and how often the ideas stand that are to stand once."""
    nodes = [node for tree in trees for node in ast.walk(tree)]
    functions = [n for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]

    def classes_with(method: str) -> int:
        return sum(any(getattr(n, "name", "") == method for n in c.body) for c in classes)

    protocol = next((c for c in classes if c.name == "SubwordTokenizer"), None)
    members = [] if protocol is None else protocol.body
    return {
        "functions": len(functions),
        "functions that only forward": sum(map(forwards, functions)),
        "classes that write their own to_dict": classes_with("to_dict"),
        "classes that write their own Markdown": classes_with("to_markdown"),
        "classes that write their own HTML": classes_with("_repr_html_"),
        "functions named f1": sum("f1" in f.name.split("_") for f in functions),
        "functions that read CoNLL": sum("conll" in f.name for f in functions),
        "members of SubwordTokenizer": sum(
            isinstance(n, ast.FunctionDef | ast.AnnAssign) for n in members
        ),
        "verbs' functions called answers": sum(f.name == "answers" for f in functions),
    }


def forwards(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether its body is one call with no more than its own arguments."""
    body = [n for n in function.body if not _is_text(n)]
    call = body[0].value if len(body) == 1 and isinstance(body[0], ast.Return) else None
    if not isinstance(call, ast.Call):
        return False
    given = [*call.args, *(k.value for k in call.keywords)]
    return all(isinstance(n.value if isinstance(n, ast.Starred) else n, ast.Name) for n in given)


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def code_lines(source: str, tree: ast.Module) -> int:
    """Lines that hold neither a docstring, nor a comment alone, nor nothing."""
    strings: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            strings |= set(range(node.lineno, (node.end_lineno or 0) + 1))
    lines = enumerate(source.splitlines(), start=1)
    return sum(
        bool(line.strip()) and not line.strip().startswith("#") and n not in strings
        for n, line in lines
    )


def floors(tree: Path) -> dict[str, int]:
    """The table of tests/house/test_floors.py."""
    found: dict[str, int] = getattr(floors_test(tree), "FLOORS", {})
    return found


def inner_floors(tree: Path) -> int:
    """How many floors inside rooms its table names; none where there is no such table."""
    return sum(len(rows) for rows in getattr(floors_test(tree), "INNER_FLOORS", {}).values())


def floors_test(tree: Path) -> Any:
    """The module with the tables."""
    spec = importlib.util.spec_from_file_location("floors", tree / "tests/house/test_floors.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


BY_HAND = (
    ("reports, each with its own text, HTML, JSON and PNG", "7", "1, show/report.py"),
    ("readers of a cell of labels", "4", "1, rows/labels.py"),
    ("counters of rows that are left out", "6", "1, rows/left_out.py"),
    ("readers of CoNLL's columns", "3", "1, train/data/conll.py"),
    ("places that compute F1", "5 to 6", "1, measures/counts.py"),
    ("layers of a verb", "3", "2: its record in verbs/, its computing in inference/"),
)
"""Ideas that reading alone counts: at cc8f2ab4 by the heir's reading, now by names and imports."""


class Walk:
    """Records what a call does, while it runs.

    Args:
        folder: whose files are counted.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)
        self.functions: dict[str, None] = {}
        self.opens: Counter[str] = Counter()
        self.listings: Counter[str] = Counter()
        self.on = False
        sys.addaudithook(self._audit)

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.on or not arguments or not isinstance(arguments[0], (str, bytes, os.PathLike)):
            return
        path = os.fsdecode(arguments[0])
        if event == "open" and path.startswith(self.folder) and not os.path.isdir(path):
            self.opens[os.path.relpath(path, self.folder)] += 1
        if event in ("os.listdir", "os.scandir") and path.startswith(self.folder):
            self.listings[os.path.relpath(path, self.folder)] += 1

    def _enter(self, frame: FrameType, event: str, _: object) -> None:
        _, found, module = frame.f_code.co_filename.rpartition("/roberta_hub/")
        name = frame.f_code.co_name
        if event == "call" and found and not name.startswith("<"):
            self.functions[f"{module}:{name}"] = None

    def run(self, work: Any) -> None:
        """Call, once."""
        self.on = True
        sys.setprofile(self._enter)
        try:
            work()
        finally:
            sys.setprofile(None)
            self.on = False


def serve(folder: Path) -> None:
    """Print the walks of the version that this process imports."""
    import roberta_hub
    from roberta_hub import scale

    lake = folder / "lake"
    lake.mkdir(exist_ok=True)
    lines = "".join(json.dumps(row) + "\n" for row in ROWS)
    (lake / "a.jsonl").write_text(lines, encoding="utf-8")
    model = folder / "model"
    if not model.exists():
        roberta_hub.load_model().save(model, format="huggingface")
    verb = scale.Verb("zero_shot", model=model, labels=["good", "bad"], text="text", prefix="said_")
    calls = {
        "load_model(a Hugging Face folder)": (model, lambda: roberta_hub.load_model(model)),
        "fit(table)": (folder / "fit", lambda: fit(roberta_hub, folder / "fit")),
        "train, two updates": (folder / "run", lambda: train(folder)),
        "lake(folder, target, classify)": (
            lake,
            lambda: scale.lake(lake, folder / "out", verb, workers=1),
        ),
    }
    found = {}
    for name, (place, work) in calls.items():
        walk = Walk(place)
        walk.run(work)
        found[name] = {
            "functions": list(walk.functions),
            "opens": dict(walk.opens),
            "listings": dict(walk.listings),
        }
    print(json.dumps(found))


def fit(package: Any, output: Path) -> None:
    """A classifier of sixteen rows."""
    package.fit(ROWS, text="text", label="label", output=output)


def train(folder: Path) -> None:
    """A classifier of the same rows by the trainer, as the shell starts it."""
    from roberta_hub.shell.main import main

    table = folder / "rows.tsv"
    rows = [f"{row['text']}\t{row['label']}\n" for row in ROWS]
    table.write_text("sentence\tlabel\n" + "".join(rows), encoding="utf-8")
    given = ["finetune=sst_2", "model=roberta.tiny", "data.format=tsv", f"data.train={table}"]
    given += [f"data.valid={table}", f"output={folder / 'run'}", "loop.max_updates=2"]
    main(["train", *given, "loop.progress=false"])


def walks(tree: Path, folder: Path) -> dict[str, Any]:
    """The walks of one tree, in a process of its own."""
    quiet = {"PYTHONPATH": str(tree), "TQDM_DISABLE": "1", "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, __file__, "serve", str(folder)]
    out = subprocess.run(
        command, env=os.environ | quiet, stdout=subprocess.PIPE, text=True, check=True
    )
    found: dict[str, Any] = json.loads(out.stdout.splitlines()[-1])
    return found


def page(
    revision: str,
    counts: list[dict[str, int]],
    rooms: list[Counter[str]],
    ways: list[dict[str, Any]],
) -> str:
    """The measures as a page: tables, then the walks of this commit."""
    lines = [f"# The house, {revision} and now", ""]
    lines += [f"Again: `python tools/measure_house.py {revision}`.", ""]
    lines += ["| | then | now |", "|---|--:|--:|"]
    lines += [f"| {name} | {then:,} | {counts[1][name]:,} |" for name, then in counts[0].items()]
    for name, then in ways[0].items():
        pair = (then, ways[1][name])
        modules = [len({f.partition(":")[0] for f in way["functions"]}) for way in pair]
        lines.append(
            f"| {name}: functions | {len(pair[0]['functions'])} | {len(pair[1]['functions'])} |"
        )
        lines.append(f"| modules on its way | {modules[0]} | {modules[1]} |")
        for what in ("opens", "listings"):
            numbers = [sum(way[what].values()) for way in pair]
            if any(numbers):
                lines.append(f"| {what} in its folder | {numbers[0]} | {numbers[1]} |")
    lines += ["", "Counted by reading:", "", "| | cc8f2ab4 | now |", "|---|--:|---|"]
    lines += [f"| {' | '.join(row)} |" for row in BY_HAND]
    lines += ["", "Rooms whose code has grown or shrunk by a hundred lines:", ""]
    lines += ["| | then | now |", "|---|--:|--:|"]
    for room in sorted({*rooms[0], *rooms[1]}):
        if abs(rooms[1][room] - rooms[0][room]) >= 100:
            lines.append(f"| {room} | {rooms[0][room]:,} | {rooms[1][room]:,} |")
    for name, way in ways[1].items():
        lines += ["", f"## {name}", ""]
        modules_now: dict[str, list[str]] = {}
        for function in way["functions"]:
            module, _, own = function.partition(":")
            modules_now.setdefault(module, []).append(own)
        lines += [f"- {module}: {', '.join(own)}" for module, own in modules_now.items()]
    return "\n".join(lines)


def main() -> None:
    """Measure both, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("revision", help="what git calls the earlier commit")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        earlier = Path(folder) / "earlier"
        earlier.mkdir()
        archive = subprocess.run(
            ["git", "-C", str(ROOT), "archive", options.revision, "roberta_hub", "tests"],
            stdout=subprocess.PIPE,
            check=True,
        )
        subprocess.run(["tar", "-x", "-C", str(earlier)], input=archive.stdout, check=True)
        ways = []
        for name, tree in (("then", earlier), ("now", ROOT)):
            (Path(folder) / name).mkdir()
            ways.append(walks(tree, Path(folder) / name))
        trees = (earlier, ROOT)
        text = page(options.revision, [*map(count, trees)], [*map(code_by_room, trees)], ways)
    print(text)
    (ROOT / "benchmarks/results/house.md").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(Path(sys.argv[2]))
    else:
        main()

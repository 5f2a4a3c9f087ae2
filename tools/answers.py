"""Runs what the pages show, and writes the answers that they print.

    python tools/answers.py             # tells which printed answers are no longer true
    python tools/answers.py --write     # writes today's: after new weights for roberta.tiny
    python tools/answers.py --write docs/guides/fill_masks.md     # of this page alone

A `python` block is a script and an `sh` block a shell's input. They run in an empty folder as they
stand, one after another; lines that begin with `# ` after a statement, or after a command, are what
it prints. On the pages of `PAGES` each block is a process of its own. A page of docs/start and
docs/guides is a session: a Python block has the names of those before it, an error is what its
statement prints, and a picture that it saves is the page's, in docs/images. In other pages of docs/
the examples are doctests.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import doctest
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = (
    ROOT / "README.md",
    ROOT / "docs/reference/shell.md",
    ROOT / "docs/reference/tables.md",
)
"""Pages whose blocks each run in a process of their own."""
ELSEWHERE = {
    "docs/guides/cluster.md": "tests/scale/test_lake_recipes.py",
    "docs/guides/fairseq_data.md": "tests/train/test_fairseq_page.py",
    "docs/guides/libraries.md": "tests/test_recipes_page.py",
    "docs/guides/runtimes.md": "tests/export/test_export_recipes.py",
    "docs/guides/serve.md": "tests/export/test_export_recipes.py",
}
"""Guides whose blocks another test runs: they need other libraries, servers or clusters."""
WIDTH = 82
"""Of a line of an error that is written, without `# `."""
FENCE = re.compile(r"^```(python|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SET_UP = ("make ", "pip install ")
"""Blocks that begin so are not run here: the first installs and runs these very tests, and the
wheel's test installs the package."""
NUMBER = re.compile(r"-?\d+\.\d+")
BAR = re.compile("[\u2588-\u258f]+")
"""A bar of a table, as long as the number next to it says."""
NEAR = {"python": 0.02, "sh": 0.2}
"""How far a number may be off: other CPUs round otherwise, and what is trained goes its own way."""


@dataclass(frozen=True)
class Step:
    """A statement or a command, with the answer that stands below it."""

    source: str
    answer: str


def blocks(page: str) -> Iterator[tuple[str, str]]:
    """(language, text) of each fenced block that runs."""
    for language, text in FENCE.findall(page):
        if not text.startswith(SET_UP):
            yield language, text


def steps(language: str, text: str) -> list[Step]:
    """Cut a block where an answer ends."""
    lines = text.splitlines(keepends=True)
    if language == "python":
        ends = [node.end_lineno or 0 for node in ast.parse(text).body]
    else:
        answers = [i for i, line in enumerate(lines) if line.startswith("# ")]
        ends = sorted({i for i in answers if i - 1 not in answers} | {len(lines)})
    found, start = [], 0
    for end in ends:
        after = end
        while after < len(lines) and lines[after].startswith("# "):
            after += 1
        answer = "".join(line[2:] for line in lines[end:after])
        if start < end:
            found.append(Step("".join(lines[start:end]), answer))
        start = after
    rest = "".join(lines[start:])
    return [*found, Step(rest, "")] if rest.strip() else found


def run(language: str, found: list[Step], folder: Path, environment: dict[str, str]) -> list[str]:
    """Run the steps of one block in one process; return what each printed."""
    mark = "=== the next step ==="
    if language == "python":
        script = "".join(f"{step.source}\nprint({mark!r}, flush=True)\n" for step in found)
        command = [sys.executable, "-W", "error", "-c", script]
    else:
        script = "set -e\n" + "".join(f"{step.source}\necho '{mark}'\n" for step in found)
        command = ["bash", "-c", script]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    if done.returncode:
        raise RuntimeError(
            f"a block ended with {done.returncode}:\n{script}\n{done.stdout}{done.stderr}"
        )
    return [part.lstrip("\n") for part in done.stdout.split(f"{mark}\n")[: len(found)]]


def same(wanted: str, found: str, near: float = 0.0) -> bool:
    """Whether two answers are the same, but for numbers that are as near as this."""
    wanted, found = BAR.sub("", wanted), BAR.sub("", found)
    if NUMBER.sub("0", wanted).split() != NUMBER.sub("0", found).split():
        return False
    numbers = zip(NUMBER.findall(wanted), NUMBER.findall(found), strict=True)
    return all(abs(float(a) - float(b)) <= near + 1e-9 for a, b in numbers)


def sessions() -> list[Path]:
    """The pages whose Python blocks share their names."""
    pages = [*(ROOT / "docs/start").glob("*.md"), *(ROOT / "docs/guides").glob("*.md")]
    pages.append(ROOT / "SKILL.md")  # made of the guides by tools/skill.py
    elsewhere = {*PAGES, *(ROOT / name for name in ELSEWHERE)}
    texts = {page: page.read_text("utf-8") for page in sorted(pages) if page not in elsewhere}
    return [page for page, text in texts.items() if FENCE.search(text) and ">>> " not in text]


def told(source: str, names: dict[str, object]) -> str:
    """Run a statement with these names; return what it printed, and what an error of ours says."""
    from roberta_hub import RobertaHubError

    with contextlib.redirect_stdout(io.StringIO()) as out, warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", ".* rows are few to learn from")  # of small examples
        try:
            exec(compile(source, "page", "exec"), names)
        except RobertaHubError as error:
            said = f"{type(error).__name__}: {error}"
            print(textwrap.fill(said, WIDTH, break_long_words=False, break_on_hyphens=False))
    return out.getvalue()


def in_session(
    language: str,
    found: list[Step],
    folder: Path,
    environment: dict[str, str],
    names: dict[str, object],
) -> list[str]:
    """Run the steps of one block, Python's in this process; return what each printed."""
    if language == "sh":
        return run(language, found, folder, environment)
    with contextlib.chdir(folder):
        return [told(step.source, names).lstrip("\n") for step in found]


def refreshed(
    page: str,
    folder: Path,
    environment: dict[str, str],
    names: dict[str, object] | None = None,
) -> tuple[str, list[str]]:
    """Run a page's blocks; return the page with today's answers, and what was no longer true.

    Each block is a process of its own, unless there are `names`, which Python's blocks share.
    """
    stale: list[str] = []
    for language, text in blocks(page):
        found = steps(language, text)
        if names is None:
            printed = run(language, found, folder, environment)
        else:
            printed = in_session(language, found, folder, environment, names)
        new = ""
        for step, now in zip(found, printed, strict=True):
            shown = step.answer or language == "python"  # a command's chatter need not be shown
            if shown and not same(step.answer, now, NEAR[language]):
                stale.append(f"{step.source.strip()}\n    says {step.answer!r}, now {now!r}")
                step = replace(step, answer=now)
            new += step.source + "".join(
                f"# {line.rstrip()}\n" for line in step.answer.splitlines()
            )
        page = page.replace(f"```{language}\n{text}```", f"```{language}\n{new}```")
    return page, stale


def from_source(folder: Path) -> dict[str, str]:
    """An environment in which this checkout is what is imported, and `roberta-hub` its command."""
    command = folder / "bin" / "roberta-hub"
    command.parent.mkdir(parents=True)
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m roberta_hub "$@"\n')
    command.chmod(0o755)
    return environment(ROOT, command.parent)


def environment(package: Path, commands: Path) -> dict[str, str]:
    """This process's environment, with the package and its command in front."""
    path = os.pathsep.join([str(commands), os.environ["PATH"]])
    return {**os.environ, "PYTHONPATH": str(package), "PATH": path, "NO_COLOR": "1"}


def examples(page: Path, names: dict[str, object]) -> tuple[int, int]:
    """Run a page's doctests: (how many there are, how many fail)."""
    text = page.read_text(encoding="utf-8")
    test = doctest.DocTestParser().get_doctest(text, dict(names), page.name, str(page), 0)
    outcome = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test)
    return len(test.examples), outcome.failed


def main() -> int:
    """Check or write the answers of the pages."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="write today's answers")
    parser.add_argument("pages", nargs="*", type=Path, help="these pages; none: all")
    given, fault = parser.parse_args(), False
    write, alone = given.write, sessions()
    for page in [path.resolve() for path in given.pages] or [*PAGES, *alone]:
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch, "empty")
            folder.mkdir()
            names: dict[str, object] | None = {} if page in alone else None
            environment = from_source(Path(scratch))
            text, stale = refreshed(page.read_text("utf-8"), folder, environment, names)
            print(f"{page.name}: {len(stale)} answers are no longer true", *stale, sep="\n")
            if write:
                page.write_text(text, encoding="utf-8")
                for picture in folder.glob("*.png"):
                    if f"images/{picture.name})" in text:
                        shutil.copyfile(picture, ROOT / "docs/images" / picture.name)
        fault = fault or bool(stale)
    return fault and not write


if __name__ == "__main__":
    sys.exit(main())

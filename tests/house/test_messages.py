"""What messages advise exists: each option that one names, each verb, each option of that verb."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click

import roberta_hub
from roberta_hub.shell.main import VERBS, verb

PACKAGE = Path(roberta_hub.__file__).parent
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*[a-z]")
COMMAND = re.compile(r"\broberta-hub ([a-z][a-z-]*)([^`;|\n]*)")
OTHERS = {
    "--body-text-color": "a style sheet's",
    "--dataset-impl": "fairseq-preprocess's",
    "--force-reinstall": "pip's",
    "--no-deps": "pip's",
    "--no-save-optimizer-state": "fairseq-train's",
    "--only-source": "fairseq-preprocess's",
    "--keep-empty": "sacremoses'",
    "--nproc-per-node": "torchrun's",
}
"""Options of other programs that a message names."""
OF_FAIRSEQ = (
    "train/fairseq_options.py",
    "train/fairseq_program.py",
    "train/data/preprocessing.py",
    "fairseq_names/",
)
"""Where options of fairseq's own programs are spoken of."""
NO_VERBS = {"run"}
"""After `roberta-hub`: whose arguments are a script's."""


def said() -> Iterator[tuple[str, str]]:
    """Each text of the package that is no docstring, with its place."""
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        bodies = [node.body for node in ast.walk(tree) if hasattr(node, "body")]
        alone = {
            id(one.value)
            for body in bodies
            if isinstance(body, list)
            for one in body
            if isinstance(one, ast.Expr)
        }
        for node in ast.walk(tree):
            text = node.value if isinstance(node, ast.Constant) else None
            if isinstance(text, str) and id(node) not in alone:
                yield f"{path.relative_to(PACKAGE)}:{node.lineno}", text


def options_of(name: str) -> set[str]:
    options = [one for one in verb(name).params if isinstance(one, click.Option)]
    return {"--help", *(flag for one in options for flag in (*one.opts, *one.secondary_opts))}


KNOWN = {name: options_of(name) for name in VERBS}
KNOWN["train"].add("--fairseq")  # in front of settings, which are no options
ANY = set().union(*KNOWN.values()) | {"--version"} | OTHERS.keys()


def test_options_in_messages_exist() -> None:
    found = [
        (where, option)
        for where, text in said()
        if not where.startswith(OF_FAIRSEQ)
        for option in OPTION.findall(text)
        if option not in ANY
    ]
    assert found == []


def test_commands_in_messages_exist_with_their_options() -> None:
    asked = [(where, name, rest) for where, text in said() for name, rest in COMMAND.findall(text)]
    assert len(asked) > 40
    odd = []
    for where, name, rest in asked:
        if name in VERBS and name not in NO_VERBS:
            odd += [(where, name, one) for one in OPTION.findall(rest) if one not in KNOWN[name]]
    assert odd == []


def test_no_statement_follows_a_return() -> None:
    """Half a message does, where two texts in a row have no parentheses."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for name in ("body", "orelse", "finalbody"):
                block = getattr(node, name, None)
                listed = block if isinstance(block, list) else []
                ends = [isinstance(one, (ast.Return, ast.Raise)) for one in listed]
                if True in ends[:-1]:
                    found.append(f"{path.relative_to(PACKAGE)}:{listed[0].lineno}")
    assert found == []

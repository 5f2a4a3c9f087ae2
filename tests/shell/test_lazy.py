"""The command imports only the verb that is asked for, and for its help not even torch."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import pytest

import roberta_hub
from roberta_hub.shell.main import VERBS, main, verb

PACKAGE = Path(roberta_hub.__file__).parent
RUN = """
import sys, types
face = types.ModuleType("roberta_hub")  # so that only what the shell imports is counted
face.__path__, face.__version__ = [{package!r}], "0"
sys.modules["roberta_hub"] = face
from roberta_hub.shell.main import main
try:
    main({arguments!r})
except SystemExit as end:
    assert not end.code
heavy = ("torch", "numpy", "requests", "tiktoken", "tqdm")
print([name for name in heavy if name in sys.modules])
print(sorted(name for name in sys.modules if name.startswith("roberta_hub.")))
"""


def imported(arguments: list[str]) -> tuple[str, list[str], list[str]]:
    """(what was printed, heavy packages, our own modules) of a run in a fresh process."""
    code = RUN.format(package=str(PACKAGE), arguments=arguments)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    *printed, heavy, own = done.stdout.splitlines()
    return "\n".join(printed), eval(heavy), eval(own)


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_help_imports_no_torch(arguments: list[str]) -> None:
    printed, heavy, own = imported(arguments)
    assert heavy == []
    assert own == [
        "roberta_hub.errors",
        "roberta_hub.shell",
        "roberta_hub.shell.main",
        "roberta_hub.terminal",
    ]
    assert printed == "0" or all(f"    {name} " in printed for name in VERBS)


@pytest.mark.parametrize("name", ["scan", "doctor", "pin", "models"])
def test_a_verbs_help_imports_no_other_verb(name: str) -> None:
    printed, _, own = imported([name, "--help"])
    assert printed.startswith(f"usage: roberta-hub {name} [-h]")
    assert f"roberta_hub.shell.{name}" in own
    assert not [other for other in VERBS if other != name and f"roberta_hub.shell.{other}" in own]


@pytest.mark.parametrize("name", VERBS)
def test_each_verb_is_a_file_with_two_functions(name: str) -> None:
    parser = argparse.ArgumentParser()
    module = verb(name)
    module.add_arguments(parser)
    assert callable(module.run)
    assert module.__file__ == str(PACKAGE / "shell" / f"{name}.py")  # type: ignore[attr-defined]
    files = {path.stem for path in (PACKAGE / "shell").glob("*.py")}
    assert files == {"__init__", "main", *VERBS}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["doctor", "--json"], "roberta-hub: error: unrecognized arguments: --json"),
        (["scan", "--json"], "roberta-hub scan: error: the following arguments are required: FILE"),
        (["paint"], "roberta-hub: error: argument verb: invalid choice: 'paint'"),
    ],
)
def test_wrong_usage_names_the_right_command(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    assert words in capsys.readouterr().err


def test_a_file_may_begin_with_a_dash(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scan", "--", "-none.pt"]) == 2
    assert "-none.pt" in capsys.readouterr().out

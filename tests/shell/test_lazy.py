"""The command imports only the verb that is asked for, and for its help not even torch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import click
import pytest

import roberta_hub
from roberta_hub.other_names import COMMANDS, TASKS, WRITERS
from roberta_hub.shell.main import VERBS, main, verb

pytestmark = pytest.mark.system

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
    assert printed == "0" or all(f"  {name} " in printed for name in VERBS)


ALL = """
import sys, json
from roberta_hub.shell.main import VERBS, main
heavy = ("torch", "numpy", "requests", "tiktoken", "tqdm", "pyarrow", "hydra", "omegaconf")
for name in VERBS:
    before = set(sys.modules)
    try:
        assert main([name, "--help"]) == 0 and name == "train"
    except SystemExit as end:
        assert end.code == 0
    found = [module for module in heavy if module in sys.modules]
    print(json.dumps({"verb": name, "heavy": found}))
"""


def test_no_verbs_help_imports_torch() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ALL], capture_output=True, text=True, check=True, timeout=120
    )
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"verb"')]
    assert found == [{"verb": name, "heavy": []} for name in VERBS]
    assert done.stdout.lower().count("usage: roberta-hub ") == len(VERBS)


@pytest.mark.parametrize("name", ["scan", "doctor", "models", "train", "classify"])
def test_a_verbs_help_imports_no_other_verb(name: str) -> None:
    printed, heavy, own = imported([name, "--help"])
    assert heavy == []
    assert printed.lower().startswith(f"usage: roberta-hub {name} [")
    home = verb(name).callback.__module__  # type: ignore[union-attr]
    homes = {verb(other).callback.__module__ for other in VERBS}  # type: ignore[union-attr]
    assert homes & set(own) == {home}


@pytest.mark.parametrize("name", VERBS)
def test_each_verb_is_a_command_in_a_file_of_the_shell(name: str) -> None:
    found = verb(name)
    assert isinstance(found, click.Command) and found.name == name
    module = sys.modules[found.callback.__module__]  # type: ignore[union-attr]
    assert Path(module.__file__ or "").parent == PACKAGE / "shell"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["doctor", "--json"], "roberta-hub doctor: No such option '--json'"),
        (["doctor", "--verfy"], "Did you mean '--verify'?"),
        (["scan", "--json"], "roberta-hub scan: Missing argument 'FILE...'"),
        (["paint"], "roberta-hub: no verb 'paint'"),
        (["clasify"], "did you mean classify?"),
        (["fill_mask"], "there is fill-mask (the"),
        (["search", "late", "-i", "x.txt"], "no verb 'search'; there is similar (the texts of a"),
        (["ner", "Ada"], "no verb 'ner'; there is tag (names, places and other labelled spans)"),
        (["predict"], "no verb 'predict'; there is classify (a label for each text or pair, or"),
        (["encode"], "embed (one vector for each text), and tokens (the pieces and ids"),
        (["sentiment-analysis"], "by a head trained for it), and zero-shot (a label of your own"),
        (["qa"], "there is answer (the span of a text that answers a question)"),
        (["Unmask"], "there is fill-mask (the most probable words for <mask>)"),
        (["summarize"], "no verb 'summarize'; RoBERTa reads text and writes none"),
    ],
)
def test_wrong_usage_names_the_right_command(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    assert words in capsys.readouterr().err


def test_a_name_of_habit_names_verbs_and_is_none() -> None:
    for name, verbs in COMMANDS.items():
        assert name not in VERBS and set(verbs) <= VERBS.keys()
    assert not set(WRITERS) & (VERBS.keys() | COMMANDS.keys())
    for task, (_, names) in TASKS.items():
        assert set(names.split(" or ")) <= VERBS.keys(), task


def test_a_file_may_begin_with_a_dash(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scan", "--", "-none.pt"]) == 2
    assert "-none.pt" in capsys.readouterr().out

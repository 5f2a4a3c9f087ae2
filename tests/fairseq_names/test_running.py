"""`roberta-hub run`: a script behaves as it does under python, and its names are ours."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import roberta_hub

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "tests/data/fairseq"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
ENVIRONMENT.pop("OMP_NUM_THREADS", None)  # a script sets it
pytestmark = pytest.mark.system


def run(*words: object, cwd: Path, ours: bool = True, **more: object) -> tuple[int, str, str]:
    """Run python with these words, or `python -m roberta_hub.run`: status, output, errors."""
    command = [sys.executable, *(["-m", "roberta_hub.run"] if ours else []), *map(str, words)]
    done = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=300, env=ENVIRONMENT, **more
    )
    errors = done.stderr.splitlines(keepends=True)
    kept = [line for line in errors if not line.startswith("roberta_hub: `import fairseq`")]
    return done.returncode, done.stdout, "".join(kept)


SCRIPTS = {
    "what it sees": """
import sys
print(sys.argv, __name__, __file__, __package__, __spec__, sys.path[0], sys.path[1:] == sorted(
    sys.path[1:], key=sys.path[1:].index), sorted(dir()), type(__loader__).__name__)
import beside
print(beside.__name__, sys.modules["__main__"].__dict__ is globals(), sys.flags.optimize)
""",
    "a status": "import sys\nprint('before')\nsys.exit(3)",
    "a sentence": "raise SystemExit('it is over')",
    "an error": """
def inner(x):
    return x / 0
def outer():
    inner(1)
outer()
""",
    "a chain of errors": """
try:
    {}["a"]
except KeyError as error:
    raise ValueError("no a") from error
""",
    "an error of a module beside": "import beside\nbeside.fail()",
    "not Python": "x = 1\nfor for\n",
    "its own hook": """
import sys
sys.excepthook = lambda kind, value, trace: print("hook", kind.__name__, trace.tb_lineno)
raise RuntimeError("x")
""",
    "at the end": """
import atexit, pickle, threading, time
class Thing:
    pass
def last():
    print("last", type(pickle.loads(pickle.dumps(Thing()))).__name__)
atexit.register(last)
threading.Thread(target=lambda: (time.sleep(0.2), last())).start()
print("main is over")
""",
    "warnings": "import warnings\nwarnings.warn('careful')\nprint(1)",
    "interrupted": "raise KeyboardInterrupt",
    "a signal": "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)",
    "input": "print(input().upper())",
    "an error of ours": "import roberta_hub\nroberta_hub.load_model('/nowhere')",
    "an assertion": "assert 1 > 2, 'no'",
    "async": "import asyncio\nasync def f():\n    return 5\nprint(asyncio.run(f()))",
    "types": "x: int = 3\nfrom __future__ import annotations\n",
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_as_python_runs_it(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "scripts"
    folder.mkdir()
    (folder / "beside.py").write_text("def fail():\n    raise OSError(2, 'gone', 'x')\n")
    (folder / "script.py").write_text(SCRIPTS[name])
    words, more = ("scripts/script.py", "--flag", "-m", "a b"), {"input": "hello\n"}
    theirs = run(*words, cwd=tmp_path, ours=False, **more)
    assert run(*words, cwd=tmp_path, **more) == theirs
    if name == "interrupted":
        assert theirs[0] == -signal.SIGINT
    if name == "a signal":
        assert theirs[0] == -signal.SIGTERM


MODULES = {
    "package": ("import sys\nprint(sys.argv, __name__, __package__, __spec__.name, __file__)\n", 0),
    "package.inner": ("from . import part\nprint(part, __spec__.parent)\n1 / 0\n", 1),
}


@pytest.mark.parametrize("name", MODULES)
def test_a_module(name: str, tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("part = 7\n")
    file = "__main__.py" if name == "package" else "inner.py"
    (package / file).write_text(MODULES[name][0])
    found = run("-m", name, "x", "-y", cwd=tmp_path)
    status, output, errors = run("-m", name, "x", "-y", cwd=tmp_path, ours=False)
    own = [line for line in errors.splitlines() if "runpy" not in line]
    assert (status, found[0], found[1]) == (MODULES[name][1], status, output)
    # `python -m` shows two frames of runpy itself, of two lines each.
    assert found[2].splitlines()[-3:] == own[-3:] and "roberta_hub" not in found[2]


def test_a_folder_with_a_main_module(tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "__main__.py").write_text("import sys, helper\nprint(sys.argv, __name__)")
    (tmp_path / "app" / "helper.py").write_text("")
    assert run("app", "x", cwd=tmp_path) == run("app", "x", cwd=tmp_path, ours=False)


def test_what_is_not_there(tmp_path: Path) -> None:
    status, _, errors = run("gone.py", cwd=tmp_path)
    assert status == 2 and errors.endswith("gone.py': [Errno 2] No such file or directory\n")
    status, _, errors = run("-m", "gone.away", cwd=tmp_path)
    assert (status, errors) == (1, "roberta-hub run: No module named gone.away\n")
    status, _, errors = run(cwd=tmp_path)
    assert status == 2 and "Missing argument 'SCRIPT'" in errors
    status, output, _ = run("--help", cwd=tmp_path)
    assert status == 0 and "Run a script that imports fairseq, as it is" in output


SPAWNED = """
import multiprocessing
from fairseq.data import Dictionary
def work(n):
    from fairseq import utils
    return Dictionary.__module__, utils.item(n)
if __name__ == "__main__":
    with multiprocessing.get_context({method!r}).Pool(1) as pool:
        print(pool.map(work, [4]))
"""


@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_processes_of_multiprocessing_mean_the_same(method: str, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SPAWNED.format(method=method))
    status, output, errors = run("script.py", cwd=tmp_path)
    assert (status, output, errors) == (0, "[('roberta_hub.text.dictionary', 4)]\n", "")


def test_another_program_that_it_starts_does_not(tmp_path: Path) -> None:
    (tmp_path / "fairseq").mkdir()
    (tmp_path / "fairseq" / "__init__.py").write_text("whose = 'theirs'\n")
    code = "import fairseq; print(fairseq.whose)"
    (tmp_path / "script.py").write_text(
        f"import subprocess, sys, fairseq\nprint(hasattr(fairseq, 'whose'), flush=True)\n"
        f"subprocess.run([sys.executable, '-c', {code!r}])\n"
    )
    assert run("script.py", cwd=tmp_path)[:2] == (0, "False\ntheirs\n")


def test_a_script_sets_the_threads_before_torch_is_imported(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "import sys, os\nassert 'torch' not in sys.modules\n"
        "os.environ['OMP_NUM_THREADS'] = '1'\nimport fairseq, torch\nprint(torch.get_num_threads())"
        "\nprint(torch.hub.list('pytorch/fairseq')[0])"
    )
    status, output, _ = run("script.py", cwd=tmp_path)
    assert (status, output) == (0, "1\nroberta.base\n")


MAKE = """
import pickle, sys
from fairseq.data import Dictionary
from fairseq.data.data_utils import collate_tokens
from fairseq.models.roberta import RobertaModel, alignment_utils
from fairseq import checkpoint_utils, hub_utils
roberta = RobertaModel.from_pretrained(sys.argv[1]).eval()
x = hub_utils.from_pretrained(sys.argv[1])
state = checkpoint_utils.load_checkpoint_to_cpu(sys.argv[1] + "/model.pt")
things = [roberta, roberta.cfg, roberta.args, roberta.task, roberta.bpe, collate_tokens, Dictionary,
          alignment_utils.align_bpe_to_words, x, state["cfg"]]
pickle.dump(things, open("things.pickle", "wb"))
"""
READ = """
import pickle, sys, torch
things = pickle.load(open("things.pickle", "rb"))
from fairseq.models.roberta import RobertaHubInterface, RobertaModel
assert isinstance(things[0], RobertaHubInterface) and isinstance(things[0].model, RobertaModel)
print(things[0].encode("Hello world!").tolist())
"""


def test_pickles_go_both_ways(tmp_path: Path) -> None:
    (tmp_path / "make.py").write_text(MAKE)
    (tmp_path / "read.py").write_text(READ)
    assert run("make.py", SAMPLE, cwd=tmp_path)[0] == 0
    things = pickle.loads((tmp_path / "things.pickle").read_bytes())  # here nobody asked
    assert isinstance(things[0], roberta_hub.RobertaHubInterface)
    assert things[5] is roberta_hub.collate_tokens and b"cfairseq" not in pickle.dumps(things)
    whole = roberta_hub.load_model(SAMPLE).eval()
    assert things[0].encode("Hello world!").tolist() == whole.encode("Hello world!").tolist()
    (tmp_path / "things.pickle").write_bytes(pickle.dumps([whole]))
    status, output, errors = run("read.py", cwd=tmp_path)
    assert (status, output) == (0, f"{whole.encode('Hello world!').tolist()}\n"), errors


def test_a_notebook_that_asks(tmp_path: Path) -> None:
    """One line at its top; the cells of scripts follow."""
    (tmp_path / "cells.py").write_text(
        "import roberta_hub\nroberta_hub.as_fairseq()\n"
        "from fairseq.models.roberta import RobertaModel\nprint(RobertaModel.__module__)\n"
    )
    assert run("cells.py", cwd=tmp_path, ours=False) == (0, "roberta_hub.hub\n", "")


def test_the_command_and_an_interrupt_from_outside(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "import time, fairseq\nprint(__name__, flush=True)\ntime.sleep(60)\n"
    )
    command = [sys.executable, "-m", "roberta_hub", "run", "script.py"]
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        env=ENVIRONMENT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "__main__\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert errors.endswith("KeyboardInterrupt\n") and "in _as_python" not in errors

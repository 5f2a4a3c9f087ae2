"""The package's face: what `import roberta_hub` costs, and that every way to a name works."""

from __future__ import annotations

import ast
import importlib
import os
import pickle
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import roberta_hub

PACKAGE = Path(roberta_hub.__file__).parent


def fresh(code: str) -> str:
    """What a new Python prints that runs this."""
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent), "OMP_NUM_THREADS": "1"},
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


OWN = "[name for name in sys.modules if name.split('.')[0] == 'roberta_hub']"


@pytest.mark.system
def test_import_takes_few_modules_and_no_torch() -> None:
    own, torch = fresh(
        f"import sys, roberta_hub; print({OWN}); print('torch' in sys.modules)"
    ).split("\n")[:2]
    assert len(ast.literal_eval(own)) <= 12, own
    assert torch == "False"


@pytest.mark.system
def test_names_config_and_errors_take_no_torch() -> None:
    names, torch = fresh(
        """
import sys, roberta_hub
print(roberta_hub.available_models())
roberta_hub.RobertaConfig(), roberta_hub.RobertaHubError, roberta_hub.__version__
print("torch" in sys.modules)
"""
    ).splitlines()
    assert ast.literal_eval(names) == roberta_hub.available_models()
    assert torch == "False"


@pytest.mark.system
def test_each_name_comes_first() -> None:
    """As an attribute, and by `from roberta_hub import`, before anything else was used."""
    homes = fresh(
        f"""
import os, sys, torch
for name in {roberta_hub.__all__}:
    if os.fork() == 0:
        import roberta_hub
        exec(f"from roberta_hub import {{name}} as found")
        assert getattr(roberta_hub, name) is found
        assert name in vars(roberta_hub) and name in dir(roberta_hub)
        print(name, found.__module__, flush=True)
        os._exit(0)
    os.wait()
"""
    )
    found = [line.split() for line in homes.splitlines()]
    assert [name for name, _ in found] == roberta_hub.__all__
    for name, home in found:
        assert getattr(importlib.import_module(home), name) is getattr(roberta_hub, name)


@pytest.mark.system
def test_all_of_them_by_a_star() -> None:
    found = fresh("from roberta_hub import *\nprint([name for name in dir() if name[0] != '_'])")
    assert ast.literal_eval(found) == sorted(roberta_hub.__all__)
    assert dir(roberta_hub) == sorted(dir(roberta_hub)) and {*roberta_hub.__all__} < {
        *dir(roberta_hub)
    }


def test_type_checkers_see_the_same_names_in_the_same_places() -> None:
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    (block,) = (
        node
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    typed = {
        alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert typed == roberta_hub._HOMES
    assert list(typed) and sorted(typed) == roberta_hub.__all__


def test_the_version_is_a_literal() -> None:
    """setup.py and hubconf.py read it as text."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    (value,) = (
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__version__"
    )
    assert ast.literal_eval(value) == roberta_hub.__version__


ROOMS = [module.name for module in pkgutil.iter_modules([str(PACKAGE)])]


@pytest.mark.parametrize("name", [name for name in ROOMS if not name.startswith("_")])
def test_modules_and_rooms_are_attributes(name: str) -> None:
    assert getattr(roberta_hub, name) is importlib.import_module(f"roberta_hub.{name}")


@pytest.mark.system
def test_a_room_is_an_attribute_before_anybody_imports_it() -> None:
    assert fresh(
        """
import roberta_hub
print(roberta_hub.train.__name__, roberta_hub.hub.load_model is roberta_hub.load_model)
"""
    ) == ("roberta_hub.train True\n")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("load_modl", "did you mean load_model?"),
        ("RobertaModle", "did you mean RobertaModel"),
        ("zzz", "it has Answer, CamembertModel, "),
        ("text.bpe", "no attribute 'text.bpe'"),
        ("", "no attribute ''"),
        ("__wrapped__", "no attribute '__wrapped__'"),
        ("__main__", "no attribute '__main__'"),
    ],
)
def test_an_unknown_name_is_answered_with_a_near_one(name: str, words: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(roberta_hub, name)
    assert words in str(caught.value) and "'roberta_hub'" in str(caught.value)
    assert not hasattr(roberta_hub, name)
    with pytest.raises(ImportError, match="cannot import name 'load_modl'"):
        exec("from roberta_hub import load_modl")


@pytest.mark.system
def test_help_shows_every_public_name() -> None:
    shown = fresh("import pydoc, roberta_hub; print(pydoc.render_doc(roberta_hub))")
    for name in roberta_hub.__all__:
        assert name in shown
    assert "torch.hub" in shown and "Load a model by its name" in shown


@pytest.mark.system
def test_public_names_are_pickled_by_name() -> None:
    """And read again by a Python that has used none of them."""
    values = [getattr(roberta_hub, name) for name in roberta_hub.__all__]
    data = pickle.dumps(values)
    assert all(again is value for again, value in zip(pickle.loads(data), values, strict=True))
    read = fresh(f"import pickle; print([value.__name__ for value in pickle.loads({data!r})])")
    assert ast.literal_eval(read) == roberta_hub.__all__


@pytest.mark.system
def test_threads_may_ask_for_names_at_once() -> None:
    out = fresh(
        """
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
import roberta_hub
sys.setswitchinterval(1e-5)
names = [*roberta_hub.__all__, "train", "text", "inference", "hub"] * 2
start = Barrier(len(names))
def ask(name):
    start.wait()
    return getattr(roberta_hub, name)
with ThreadPoolExecutor(len(names)) as pool:
    found = list(pool.map(ask, names))
print(all(value is getattr(roberta_hub, name) for value, name in zip(found, names)))
"""
    )
    assert out == "True\n"


LOADING = """
import sys
from pathlib import Path
import roberta_hub
from roberta_hub import load_model

package, ran = str(Path(roberta_hub.__file__).parent), set()

def watch(frame, event, argument):
    file = frame.f_code.co_filename
    if event != "call" or not file.startswith(package):
        return
    while frame is not None:  # what an import runs is not the load's
        if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(package):
            return
        frame = frame.f_back
    ran.add(Path(file).relative_to(package).as_posix())

sys.setprofile(watch)
load_model("roberta.tiny")
sys.setprofile(None)
print(sorted(ran))
"""


@pytest.mark.system
def test_loading_runs_code_of_few_modules() -> None:
    """Those of texts, of what holds them and of the model do not count: they are what is loaded."""
    ran = ast.literal_eval(fresh(LOADING))
    loading = [name for name in ran if not name.startswith(("text/", "model/", "rows/"))]
    assert {"hub.py", "formats/source.py", "checkpoint/safetensors.py"} < set(
        loading
    )  # it does count
    assert len(loading) <= 19, "\n".join(loading)

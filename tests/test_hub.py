"""The traps of torch.hub, each set on purpose and without network.

See the reference, hub_and_safety.md, section 1.4.
"""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import io
import os
import pickle
import re
import shutil
import socket
import subprocess
import sys
import tarfile
import threading
import warnings
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import torch
from small_models import small_roberta, take_any_shape

import roberta_hub
from roberta_hub import RobertaHubError, RobertaHubInterface
from roberta_hub.checkpoint.fetch.records import RELATIVES

REPO = Path(__file__).resolve().parents[1]
DOTTED = [
    "roberta.base",
    "roberta.large",
    "roberta.large.mnli",
    "roberta.large.wsc",
    "roberta.tiny",
]
NAMES = sorted([*DOTTED, *(name.replace(".", "_") for name in DOTTED)])
LISTED = sorted([*NAMES, *(name for row in RELATIVES for name in (row.name, *row.aliases))])
"""RoBERTa's own names, and those of its relatives."""
SMALL = {
    "encoder_layers": 1,
    "encoder_embed_dim": 64,
    "encoder_ffn_embed_dim": 64,
    "encoder_attention_heads": 2,
}
HELLO = [0, 31414, 232, 328, 2]


def hub(name: str = "roberta.base", repo: Path = REPO, **keywords: Any) -> RobertaHubInterface:
    sizes = {} if keywords.get("pretrained", True) else SMALL
    found = torch.hub.load(str(repo), name, source="local", **{**sizes, **keywords})
    assert isinstance(found, RobertaHubInterface)
    return found


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refused(socket.socket):  # a class, since ssl inherits from it
        def __init__(self, *args: object, **keywords: object) -> None:
            raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", Refused)
    monkeypatch.setattr(socket, "getaddrinfo", Refused)


@pytest.fixture
def from_github(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `torch.hub.list("owner/repo")` does after its download."""
    monkeypatch.setattr(torch.hub, "_get_cache_or_reload", lambda *args, **keywords: str(REPO))


def copy_repo(directory: Path, version: str | None = None) -> Path:
    shutil.copytree(
        REPO / "roberta_hub", directory / "roberta_hub", ignore=shutil.ignore_patterns("*.pyc")
    )
    shutil.copy(REPO / "hubconf.py", directory)
    if version is not None:
        init = directory / "roberta_hub" / "__init__.py"
        text, count = re.subn(r'__version__ = ".*"', f'__version__ = "{version}"', init.read_text())
        assert count == 1
        init.write_text(text)
    return directory


UNINSTALLED = """
import socket, sys
class Refused(socket.socket):
    def __init__(self, *args, **keywords): raise AssertionError("a socket was opened")
socket.socket = socket.getaddrinfo = Refused
sys.meta_path[:] = [f for f in sys.meta_path if "editable" not in getattr(f, "__module__", "")]
SMALL = dict(encoder_layers=1, encoder_embed_dim=64, encoder_ffn_embed_dim=64)
SMALL["encoder_attention_heads"] = 2
"""
"""A Python in which roberta_hub is not installed, and nothing reaches the network."""


def start(
    code: str, cwd: Path, *flags: str, environment: dict[str, str] | None = None
) -> subprocess.Popen[str]:
    keep = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONWARNINGS")}
    return subprocess.Popen(
        [sys.executable, *flags, "-c", UNINSTALLED + code],
        cwd=cwd,
        env={**keep, "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8", **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )


def finish(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out


# ---- names and their help ----


def test_list_is_exactly_the_documented_names(from_github: None) -> None:
    assert sorted(torch.hub.list("owner/roberta_hub")) == LISTED
    assert roberta_hub.available_models() == [*DOTTED, *(record.name for record in RELATIVES)]


@pytest.mark.parametrize("name", NAMES)
def test_help_is_written_for_people(from_github: None, name: str) -> None:
    text = torch.hub.help("owner/roberta_hub", name)
    size = "no download" if "tiny" in name else "GB download"
    for part in ("RoBERTa", size, "pretrained", "Example:", "torch.hub.load"):
        assert part in text
    assert name.replace("_", ".") in text
    assert "partial" not in text


@pytest.mark.system
@pytest.mark.parametrize("name", NAMES)
def test_every_name_loads_without_network_or_noise(
    no_network: None, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    path, modules = list(sys.path), {m for m in sys.modules if "hubconf" in m}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        roberta = hub(name, pretrained=False, progress=False)
    assert roberta.training  # as in fairseq
    assert roberta.encode("Hello world!").tolist() == HELLO
    assert roberta.extract_features(roberta.encode("Hello world!")).shape == (1, 5, 64)
    heads = (
        {"mnli": ("contradiction", "neutral", "entailment")}
        if "mnli" in name or "tiny" in name
        else {}
    )
    assert roberta.labels == heads
    assert set(roberta.model.classification_heads) == set(heads)  # type: ignore[arg-type]
    assert roberta.task.name == ("wsc" if "wsc" in name else "masked_lm")
    assert (sys.path, {m for m in sys.modules if "hubconf" in m}) == (path, modules)
    assert capfd.readouterr() == ("", "")


def test_unknown_names_and_misspelt_arguments_are_errors() -> None:
    with pytest.raises(RuntimeError, match=r"Cannot find callable roberta\.bse"):
        hub("roberta.bse", pretrained=False)
    with pytest.raises(KeyError, match="dropout"):
        hub(pretrained=False, dropoutt=0.1)


def test_fairseqs_keywords_are_taken() -> None:
    roberta = hub(pretrained=False, dropout=0.3, checkpoint_file="model.pt", bpe="gpt2")
    assert roberta.cfg.dropout == 0.3
    with pytest.warns(UserWarning, match="user_dir is not needed"):
        hub("roberta.large.wsc", pretrained=False, user_dir="examples/roberta/wsc")
    assert (
        hub(pretrained=False, dtype="bfloat16").model.encoder.lm_head.bias.dtype is torch.bfloat16
    )  # type: ignore[union-attr]


def test_the_readme_says_how_to_be_trusted_and_pins_a_version() -> None:
    """Without trust_repo=True a script without a terminal dies with EOFError inside torch."""
    readme = (REPO / "README.md").read_text(encoding="utf-8")
    calls = re.findall(r"""torch\.hub\.load\(\s*["']OWNER[^)]*\)""", readme)
    assert calls
    for call in calls:
        assert "trust_repo=True" in call and re.search(r"roberta_hub:v\d", call), call


@pytest.mark.parametrize("name", NAMES)
def test_entries_are_functions_that_say_what_they_take(name: str) -> None:
    spec = importlib.util.spec_from_file_location("hubconf.py", REPO / "hubconf.py")
    assert spec is not None and spec.loader is not None
    spec.loader.exec_module(hubconf := importlib.util.module_from_spec(spec))
    entry = getattr(hubconf, name)
    assert inspect.isfunction(entry) and entry.__module__ == "hubconf.py"
    assert entry.__name__ == entry.__qualname__ == name.replace(".", "_")
    assert str(inspect.signature(entry)) == "(pretrained=True, **keywords)"
    first, blank, *rest = inspect.getdoc(entry).splitlines()  # type: ignore[union-attr]
    assert first.startswith("RoBERTa ") and first.endswith("download.") and blank == ""
    assert {"Args:", "Example:"} < set(rest)
    assert all(len(line) <= 100 for line in [first, *rest])


# ---- which copy of the package answers ----


def test_another_version_than_the_imported_one_is_refused(tmp_path: Path) -> None:
    other = copy_repo(tmp_path, version="9.9.9")
    with pytest.raises(RobertaHubError) as caught:
        hub(repo=other, pretrained=False)
    for part in ("9.9.9", str(other), roberta_hub.__version__, str(REPO), "restart Python"):
        assert part in str(caught.value)


def test_a_copy_of_the_same_version_is_a_warning(tmp_path: Path) -> None:
    other = copy_repo(tmp_path)
    with pytest.warns(UserWarning, match=re.escape(str(other))) as caught:
        assert hub(repo=other, pretrained=False).encode("Hello world!").tolist() == HELLO
    assert str(REPO) in str(caught[0].message)


@pytest.mark.system
@pytest.mark.parametrize("version", [None, "9.9.9"], ids=["same version", "other version"])
def test_two_downloaded_copies_in_one_process(tmp_path: Path, version: str | None) -> None:
    """Of two branches from GitHub, nothing installed, the first is used.

    The second never passes for itself.
    """
    first, second = copy_repo(tmp_path / "main"), copy_repo(tmp_path / "branch", version)
    out = finish(
        start(
            f"""
import warnings, torch
def load(repo):
    return torch.hub.load(repo, "roberta.base", source="local", pretrained=False, **SMALL)
assert load({str(first)!r}).encode("Hello world!").tolist() == {HELLO}
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    try: print("loaded", len(load({str(second)!r}).encode("Hello world!")))
    except Exception as error: print(type(error).__name__, error)
print(*[warning.message for warning in caught])
assert load({str(first)!r}).encode("Hello world!").tolist() == {HELLO}
""",
            tmp_path,
        )
    )
    assert out.startswith("loaded 5" if version is None else "RobertaHubError ")
    for part in (str(first), str(second), f"restart Python with PYTHONPATH={second}"):
        assert part in out


@pytest.mark.system
def test_a_copy_in_an_awkward_place(tmp_path: Path) -> None:
    """Spaces, umlauts, a foreign hubconf, a relative path, a changed folder, warnings as errors."""
    repo = copy_repo(tmp_path / "with späces ☃" / "roberta hub")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "hubconf.py").write_text("raise SystemExit('the wrong hubconf')")
    out = finish(
        start(
            f"""
import io, contextlib, os, pickle, types
import torch
sys.modules["hubconf"] = types.ModuleType("hubconf")
sys.path.insert(0, "")
before = list(sys.path)
with contextlib.redirect_stdout(io.StringIO()) as noise:
    roberta = torch.hub.load(
        os.path.relpath({str(repo)!r}),
        "roberta.large.mnli",
        source="local",
        pretrained=False,
        **SMALL,
    ).eval()
assert noise.getvalue() == "" and sys.path == before
assert "hubconf.py" not in sys.modules
import roberta_hub
assert os.path.samefile(os.path.dirname(roberta_hub.__file__), {str(repo / "roberta_hub")!r})
os.chdir("/")
print(roberta.encode("Hello world!").tolist())
print(len(roberta.classify([("a", "b")])), len(roberta.fill_mask("a <mask>")))
torch.save(roberta.model.state_dict(), {str(tmp_path / "state.pt")!r})
with open({str(tmp_path / "interface.pkl")!r}, "wb") as file:
    pickle.dump(roberta, file)
print(roberta.features(["Hello"], pooling="cls")[0, :3].tolist())
# Imported late, by the package that torch.hub took off sys.path again. spaCy itself warns.
import warnings
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    print(len(roberta.extract_features_aligned_to_words('I said, "hello RoBERTa."')))
""",
            elsewhere,
            "-W",
            "error",
        )
    )
    ids, counts, vector, words = out.splitlines()
    assert ids == str(HELLO)
    assert (counts, words) == ("1 5", "10")
    # Another process, this one, in which the installed package is found:
    loaded = hub("roberta.large.mnli", pretrained=False).eval()
    loaded.model.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    for again in (loaded, pickle.loads((tmp_path / "interface.pkl").read_bytes())):
        assert again.features(["Hello"], pooling="cls")[0, :3].tolist() == pytest.approx(
            [float(x) for x in vector.strip("[]").split(",")], abs=1e-6
        )
        assert again.head_labels("mnli") == ("contradiction", "neutral", "entailment")


@pytest.mark.system
def test_threads_and_processes_load_at_once(tmp_path: Path) -> None:
    """First imports of one fresh copy, without compiled files, by several threads at once.

    Two processes of three threads each do it.
    """
    repo = copy_repo(tmp_path)
    code = f"""
import torch
from concurrent.futures import ThreadPoolExecutor
before = list(sys.path)
def load(name):
    return torch.hub.load({str(repo)!r}, name, source="local", pretrained=False, **SMALL)
with ThreadPoolExecutor(3) as pool:
    found = list(pool.map(load, ["roberta.base", "roberta.large", "roberta.base"]))
assert sys.path == before
print([roberta.encode("Hello world!").tolist() for roberta in found])
"""
    for process in [start(code, tmp_path), start(code, tmp_path)]:  # both started, then awaited
        assert finish(process) == f"{[HELLO] * 3}\n"


WORKER = """
import sys
import torch

class Encoded(torch.utils.data.Dataset):
    def __init__(self, roberta, texts):
        self.roberta, self.texts = roberta, texts
    def __len__(self):
        return len(self.texts)
    def __getitem__(self, i):
        return self.roberta.encode(self.texts[i])

if __name__ == "__main__":
    roberta = torch.hub.load(sys.argv[1], "roberta.base", source="local", pretrained=False,
        encoder_layers=1, encoder_embed_dim=64, encoder_ffn_embed_dim=64, encoder_attention_heads=2)
    loader = torch.utils.data.DataLoader(
        Encoded(roberta, ["Hello world!", "world"]), batch_size=None, num_workers=1,
        multiprocessing_context="spawn")
    print([ids.tolist() for ids in loader])
"""


@pytest.mark.system
def test_a_spawned_data_loader_worker_encodes(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(WORKER)
    command = [sys.executable, str(script), str(REPO)]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, env=env)
    assert run.stdout == f"{[HELLO, [0, 8331, 2]]}\n", run.stderr


# ---- what is not installed ----


@pytest.mark.system
def test_list_is_quick_and_load_names_all_missing_packages(tmp_path: Path) -> None:
    out = finish(
        start(
            f"""
import time
BLOCKED = ("tiktoken", "requests", "regex", "safetensors", "tqdm", "spacy")
class Without:
    def __init__(self, finder): self.finder = finder
    def __getattr__(self, name): return getattr(self.finder, name)
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in BLOCKED: return None
        return self.finder.find_spec(name, path, target)
sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
import torch, torch.hub
torch.hub._get_cache_or_reload = lambda *args, **keywords: {str(REPO)!r}
start = time.process_time()
print(sorted(torch.hub.list("owner/repo")))
print(time.process_time() - start)
assert "roberta_hub" not in sys.modules
for call in (
    lambda: torch.hub.load({str(REPO)!r}, "roberta.base", source="local", pretrained=False),
    lambda: torch.hub.help("owner/repo", "roberta.base"),
):
    try: call()
    except RuntimeError as error: print(error)
# With just what hubconf.py asks for, all verbs work and a download explains itself.
BLOCKED = ("safetensors", "tqdm", "spacy")
roberta = torch.hub.load(
    {str(REPO)!r}, "roberta.base", source="local", pretrained=False, **SMALL
).eval()
print(len(roberta.features(["a"], progress=True)), len(roberta.score(["a b"])))
for format in ("fairseq", "roberta_hub"): roberta.save("saved-" + format, format)
try: roberta.extract_features_aligned_to_words("a")
except ImportError as error: print(error)
""",
            tmp_path,
        )
    )
    names, seconds, load, help_, counts, words = out.splitlines()
    assert names == str(LISTED)
    assert float(seconds) < 1
    assert load == help_ == "Missing dependencies: tiktoken, regex, requests"
    assert counts == "1 1"
    assert (tmp_path / "saved-fairseq/model.pt").exists()
    assert roberta_hub.load_model(tmp_path / "saved-roberta_hub").encode("Hello world!").shape == (
        5,
    )
    assert re.search(rf'needs spaCy: pip install (-e )?"{REPO}\[words\]"', words)


def downloaded(home: Path) -> Path:
    """A copy of the repository where torch.hub keeps what it got of `owner/roberta_hub:main`.

    With a reference in its name torch.hub asks nobody for what is there.
    """
    return copy_repo(home / "hub" / "owner_roberta_hub_main")


HUB = """
import torch
def without(*names):
    class Without:
        def __init__(self, finder): self.finder = finder
        def __getattr__(self, name): return getattr(self.finder, name)
        def find_spec(self, name, path=None, target=None):
            if name.split(".")[0] in names: return None
            return self.finder.find_spec(name, path, target)
    sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
GIVEN = dict(trust_repo=True, skip_validation=True)
def names(): return sorted(torch.hub.list("owner/roberta_hub:main", verbose=False, **GIVEN))
def help(name): return torch.hub.help("owner/roberta_hub:main", name, **GIVEN)
"""
"""torch.hub itself, nothing of it replaced, in a Python that lacks some packages."""


@pytest.mark.system
def test_names_and_help_need_none_of_our_packages(tmp_path: Path) -> None:
    repo = downloaded(tmp_path)
    code = f"""
without("safetensors", "filelock", "tqdm", "numpy", "spacy")
before = set(sys.modules)
assert names() == {LISTED}
for name in names(): assert "torch.hub.load" in help(name)
assert not [m for m in set(sys.modules) - before if "roberta" in m or "hubconf" in m]
without("tiktoken", "regex", "requests")
assert names() == {LISTED}
try: help("roberta.base")
except RuntimeError as error: print(error)
(repo := __import__("pathlib").Path({str(repo)!r})).joinpath("roberta_hub/hub.py").write_text("1/0")
assert names() == {LISTED}  # nothing of the package is run
"""
    out = finish(start(HUB + code, tmp_path, environment={"TORCH_HOME": str(tmp_path)}))
    assert out == "Missing dependencies: tiktoken, regex, requests\n"  # torch.hub's own check


@pytest.mark.system
def test_names_are_the_repositorys_whatever_copy_is_imported(tmp_path: Path) -> None:
    """Another copy is imported already, with other names: they never show, and it never passes."""
    downloaded(tmp_path)
    other = copy_repo(tmp_path / "other", version="9.9.9")
    records = other / "roberta_hub/checkpoint/fetch/records.py"
    records.write_text(records.read_text().replace("roberta.tiny", "roberta.giant"))
    code = f"""
sys.path.insert(0, {str(other)!r})
import roberta_hub
assert "roberta.giant" in roberta_hub.available_models()
before = dict(sys.modules)
assert names() == {LISTED}
assert "roberta.tiny" in help("roberta_tiny")
assert all(sys.modules[name] is before[name] for name in before)
try: torch.hub.load("owner/roberta_hub:main", "roberta.tiny", **GIVEN)
except roberta_hub.RobertaHubError as error: print(error)
"""
    out = finish(start(HUB + code, tmp_path, environment={"TORCH_HOME": str(tmp_path)}))
    for part in ("9.9.9", str(other), roberta_hub.__version__, "restart Python"):
        assert part in out


# ---- the cache ----


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, list[str]]]:
    """(the cache, paths that were asked of a server with a small roberta.base.tar.gz)"""
    take_any_shape(monkeypatch)
    small_roberta().save(tmp_path / "roberta.base", format="fairseq")
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        tar.add(tmp_path / "roberta.base", "roberta.base")
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.send_header("Content-Length", str(len(archive.getvalue())))
            self.end_headers()
            self.wfile.write(archive.getvalue())

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setattr(torch.hub, "_hub_dir", None)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        monkeypatch.setenv("ROBERTA_HUB_MIRROR", f"http://127.0.0.1:{server.server_port}")
        yield tmp_path / "torch" / "hub" / "checkpoints" / "roberta_hub", asked
        server.shutdown()
        thread.join()


def same_weights(roberta: RobertaHubInterface, wanted: dict[str, torch.Tensor]) -> bool:
    """To the bit. Features would not do: products on one thread depend on how memory is aligned."""
    found = roberta.state_dict()
    return found.keys() == wanted.keys() and all(torch.equal(found[k], wanted[k]) for k in wanted)


@pytest.mark.system
def test_a_download_happens_once_unless_it_is_forced(
    served: tuple[Path, list[str]], monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    cache, asked = served
    want = small_roberta().state_dict()
    with contextlib.redirect_stdout(io.StringIO()) as noise:
        found = hub(progress=False).eval()
    assert same_weights(found, want)
    assert asked == ["/roberta.base.tar.gz"] and noise.getvalue() == ""
    hub("roberta_base")
    assert len(asked) == 1
    hub(force_download=True, progress=False)
    assert len(asked) == 2
    # Complete and read-only: nothing is written, no socket is opened.
    folders = [path for path in [cache, *cache.rglob("*")] if path.is_dir()]
    for folder in folders:
        folder.chmod(0o555)
    try:
        request.getfixturevalue("no_network")
        monkeypatch.setenv("ROBERTA_HUB_OFFLINE", "1")
        assert same_weights(hub(), want)
        with pytest.raises(OSError, match="ROBERTA_HUB_OFFLINE forbids it"):
            hub(force_download=True)
    finally:
        for folder in folders:
            folder.chmod(0o755)
    shutil.rmtree(cache)
    with pytest.raises(RobertaHubError, match=r"ROBERTA_HUB_OFFLINE forbids it.*TORCH_HOME"):
        hub()

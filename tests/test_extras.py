"""A hint to install an extra names what this installation came from, in a command that works."""

import json
import re
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import forks
import pytest

from roberta_hub import extras

ROOT = Path(__file__).resolve().parents[1]
METADATA = [
    "torch>=2.6",
    "accelerate>=1.0; extra == 'train'",
    'hydra-core>=1.3.6; extra == "train"',
    "spacy>=3.8; extra == 'words'",
]


class Installed:
    requires = METADATA

    def __init__(self, direct_url: object) -> None:
        self.text = direct_url if isinstance(direct_url, str) else json.dumps(direct_url)

    def read_text(self, name: str) -> str | None:
        assert name == "direct_url.json"
        return None if self.text == "null" else self.text


@pytest.fixture
def installed(monkeypatch, tmp_path):
    """Pretend that the package lies in site-packages, with this record of where it came from."""

    def pretend(direct_url):
        monkeypatch.setattr(extras, "__file__", str(tmp_path / "site-packages/roberta_hub/x.py"))
        monkeypatch.setattr(extras, "distribution", lambda name: Installed(direct_url))

    return pretend


GIT = {"url": "https://git.example/me/roberta_hub.git", "vcs_info": {"vcs": "git"}}
PINNED = {**GIT, "vcs_info": {"vcs": "git", "requested_revision": "v0.1.0", "commit_id": "ab12"}}
WHEEL = {"url": "https://files.example/roberta_hub-0.1.0-py3-none-any.whl", "archive_info": {}}


@pytest.mark.parametrize(
    ("direct_url", "hint"),
    [
        (GIT, '"roberta-hub[train] @ git+https://git.example/me/roberta_hub.git"'),
        (PINNED, '"roberta-hub[train] @ git+https://git.example/me/roberta_hub.git@v0.1.0"'),
        (WHEEL, f'"roberta-hub[train] @ {WHEEL["url"]}"'),
        (None, '"accelerate>=1.0" "hydra-core>=1.3.6"'),
        ({"url": "file:///gone/roberta_hub", "dir_info": {}}, '"accelerate>=1.0" "hydra-core>='),
        ("not JSON", '"accelerate>=1.0" "hydra-core>=1.3.6"'),
        ([1], '"accelerate>=1.0" "hydra-core>=1.3.6"'),
    ],
)
def test_where_it_came_from_is_named(installed, direct_url, hint):
    installed(direct_url)
    assert extras.install("train").startswith(f"pip install {hint}")


def test_a_file_or_a_folder_that_is_still_there_is_named(installed, tmp_path):
    wheel = tmp_path / "my files" / "roberta_hub-0.1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    wheel.touch()
    installed({"url": wheel.as_uri(), "archive_info": {}})
    assert extras.install("words") == f'pip install "{wheel}[words]"'


def test_a_clone_is_named_and_stays_editable(monkeypatch):
    editable = {"url": ROOT.as_uri(), "dir_info": {"editable": True}}
    monkeypatch.setattr(extras, "distribution", lambda name: Installed(editable))
    assert extras.install("words") == f'pip install -e "{ROOT}[words]"'
    other = {**editable, "url": ROOT.with_name("another clone").as_uri()}
    monkeypatch.setattr(extras, "distribution", lambda name: Installed(other))
    assert extras.install("words") == f'pip install "{ROOT}[words]"'
    monkeypatch.setattr(extras, "distribution", lambda name: Installed(None))
    assert extras.install("words") == f'pip install "{ROOT}[words]"'


def test_without_any_record_a_clone_is_asked_for(installed, monkeypatch):
    def missing(name):
        raise PackageNotFoundError(name)

    installed(None)
    monkeypatch.setattr(extras, "distribution", missing)
    assert extras.install("train") == 'pip install ".[train]" in a clone of roberta-hub'


def test_no_hint_names_a_package_on_an_index():
    """`pip install 'roberta-hub[...]'` would fetch whatever somebody put there under this name."""
    texts = [p.read_text(encoding="utf-8") for p in (ROOT / "roberta_hub").rglob("*.py")]
    texts += [p.read_text(encoding="utf-8") for p in (ROOT / "docs").rglob("*.md")]
    texts.append((ROOT / "README.md").read_text(encoding="utf-8"))
    for text in texts:
        assert not re.search(r"pip install (-U )?['\"]?roberta[-_]hub\b(?!\[\{)", text)


def test_every_extra_that_a_hint_names_is_there():
    names = set()
    for path in (ROOT / "roberta_hub").rglob("*.py"):
        names |= set(re.findall(r"\binstall\(['\"](\w+)['\"]\)", path.read_text(encoding="utf-8")))
    known = re.findall(r'^    "(\w+)": \[', (ROOT / "setup.py").read_text(), re.MULTILINE)
    wanted = {
        "hub",
        "multilingual",
        "onnx",
        "plots",
        "ray",
        "scale",
        "tables",
        "train",
        "vocabulary",
        "words",
    }
    wanted |= {"evaluation", "index", "serve", "ui"}
    assert names == wanted <= set(known)


@pytest.mark.system
def test_a_missing_package_says_it(tmp_path):
    code = (
        "import sys; sys.modules['hydra'] = None\n"
        "from roberta_hub.train.config import compose\n"
        "try: compose([])\n"
        "except ImportError as error: print(error)\n"
    )
    done = forks.run("-c", code)
    assert "training configurations need hydra" in done.stdout, done.stderr
    assert re.search(r'pip install (-e )?".+\[train\]"', done.stdout)

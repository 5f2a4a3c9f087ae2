"""The site is built strictly, no link in it is broken, and every public name has its docstring."""

from __future__ import annotations

import inspect
import os
import re
import shlex
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import yaml
from scripts import TOOLS, load_script

import roberta_hub
from roberta_hub import RobertaHubInterface
from roberta_hub.shell.main import VERBS

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
NAMES = {page: page.relative_to(ROOT / "docs").as_posix() for page in PAGES}
"""What a page is called from docs/: guides/verify.md."""
API = "".join(page.read_text("utf-8") for page in (ROOT / "docs/reference/api").glob("*.md"))
LOADED = {("link", "href"), ("script", "src"), ("img", "src"), ("iframe", "src")}
"""What a browser fetches unasked."""


class Links(HTMLParser):
    """The anchors of a page, and (tag, attribute, target) of all that it leads to."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.targets: list[tuple[str, str, str]] = []
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" or (tag, name) == ("a", "name"):
                self.anchors.add(value or "")
            elif name in ("href", "src"):
                self.targets.append((tag, name, value or ""))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for needed in ("mkdocs", "material", "mkdocstrings", "nbconvert"):
        pytest.importorskip(needed, reason=f"no {needed}; pip install '.[docs]' in the clone")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    return folder


GROUPS = ["Ask", "Train", "Many texts and servers", "Trust"]


def test_the_guides_stand_in_the_same_groups_in_the_menu_and_on_their_page() -> None:
    menu = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8").partition("\nvalidation:")[0])
    (guides,) = [part["Guides"] for part in menu["nav"] if "Guides" in part]
    first, *groups = guides
    assert first == "docs/guides/index.md" and [[*group] for group in groups] == [
        [g] for g in GROUPS
    ]
    in_menu = [
        (name, Path(page).name)
        for group in groups
        for name, pages in group.items()
        for entry in pages
        for page in entry.values()
    ]
    index = (ROOT / "docs/guides/index.md").read_text("utf-8")
    parts = re.split(r"^\| ([a-z ]+) \| \|$", index, flags=re.MULTILINE)[1:]
    on_page = [
        (name.capitalize(), page)
        for name, rows in zip(parts[::2], parts[1::2], strict=True)
        for page in re.findall(r"^\| \[.*?\]\((.*?)\)", rows, re.MULTILINE)
    ]
    assert in_menu == on_page
    there = {page.name for page in (ROOT / "docs/guides").glob("*.md")} - {"index.md"}
    assert {page for _, page in on_page} == there and len(on_page) == len(there)


def public_methods() -> set[str]:
    return {
        name
        for kind in RobertaHubInterface.__mro__
        if kind.__module__.startswith("roberta_hub")
        for name, value in vars(kind).items()
        if not name.startswith("_") and (callable(value) or isinstance(value, property))
        if "deprecated" not in (value.__doc__ or "")
    }


def broken(site: Path) -> list[str]:
    """What leads nowhere in a folder of HTML, and what a browser would fetch from outside."""
    pages = {page: Links(page) for page in site.rglob("*.html") if page.name != "404.html"}
    found = []
    for page, links in pages.items():
        for tag, attribute, target in links.targets:
            link = urlsplit(target)
            if link.scheme or link.netloc:
                formed = link.scheme in ("http", "https") and "." in link.netloc
                if not formed or ((tag, attribute) in LOADED and "canonical" not in target):
                    found.append(f"{page.name}: {target}")
                continue
            other = (page.parent / unquote(link.path)).resolve() if link.path else page
            anchors = pages[other].anchors if other in pages else set()
            if not other.is_file() or (link.fragment and unquote(link.fragment) not in anchors):
                found.append(f"{page.name}: {target}")
    return found


@pytest.mark.system
@pytest.mark.timeout(600)  # griffe reads torch's classes, too
def test_no_link_of_the_site_is_broken(site: Path) -> None:
    assert len(list(site.rglob("*.html"))) > len(PAGES)
    assert broken(site) == []


def test_a_broken_link_is_seen(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<h1 id="top">A</h1><a href="b.html#x"></a><a href="#top">')
    (tmp_path / "b.html").write_text('<a href="c.html"></a><img src="https://example.org/a.png">')
    assert sorted(broken(tmp_path)) == [
        "a.html: b.html#x",
        "b.html: c.html",
        "b.html: https://example.org/a.png",
    ]


@pytest.mark.system
def test_every_page_is_in_the_menu(site: Path) -> None:
    start = Links(site / "index.html")
    targets = {target for tag, name, target in start.targets if (tag, name) == ("a", "href")}
    for name in NAMES.values():
        address = f"docs/{name.removesuffix('.md')}.html"
        assert address in targets, f"mkdocs.yml: nav lacks {name}"


@pytest.mark.system
def test_every_public_name_has_its_docstring_in_the_site(site: Path) -> None:
    anchors = set[str]().union(
        *(Links(page).anchors for page in (site / "docs/reference/api").glob("*.html"))
    )
    wanted = {f"roberta_hub.{name}" for name in roberta_hub.__all__}
    wanted |= {f"roberta_hub.RobertaHubInterface.{name}" for name in public_methods()}
    wanted |= {f"roberta_hub.scale.{name}" for name in roberta_hub.scale.__all__}
    assert wanted - anchors == set()


def test_the_tables_of_the_api_have_every_name_and_its_first_line() -> None:
    rows = dict(re.findall(r"^\| `([\w.]+)` \| (.+) \|$", API, re.MULTILINE))
    wanted = {*roberta_hub.__all__, *(f"roberta.{name}" for name in public_methods())}
    wanted |= {f"scale.{name}" for name in roberta_hub.scale.__all__}
    assert wanted - rows.keys() == set()
    for name, says in rows.items():
        found: object = roberta_hub
        for part in name.replace("roberta.", "RobertaHubInterface.", 1).split("."):
            found = getattr(found, part)
        first = (inspect.getdoc(found) or "").split("\n\n")[0].replace("\n", " ").rstrip(".")
        assert says == first, name


@pytest.mark.system
def test_the_picture_of_the_house_shows_the_imports() -> None:
    """`python tools/draw_house.py` draws it."""
    drawing = load_script(TOOLS / "draw_house.py")
    assert drawing.PICTURE.read_text(encoding="utf-8") == drawing.picture()
    rooms, _ = drawing.house()
    assert set(drawing.SAYS) >= {name for floor, names in rooms.items() if floor for name in names}
    assert drawing.direct({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == [("a", "b"), ("b", "c")]


ANSWERS = load_script(TOOLS / "answers.py")
AS_TYPED = {*ANSWERS.PAGES, *ANSWERS.sessions()}
"""Pages whose blocks of Python and shell test_readme.py runs; other pages have doctests."""
ELSEWHERE = {
    **ANSWERS.ELSEWHERE,
    **{f"docs/reference/shell/{name}.md": "tests/house/test_reference.py" for name in VERBS},
}
"""Pages whose blocks another test runs."""


@pytest.mark.parametrize("page", PAGES, ids=NAMES.get)
def test_all_fenced_code_is_run_by_a_test(page: Path) -> None:
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S)
    elsewhere = ELSEWHERE.get(f"docs/{NAMES[page]}")
    if elsewhere is not None:
        assert (ROOT / elsewhere).exists()
        return
    for language, text in blocks:
        if page in AS_TYPED:
            known = ("python", "sh", "yaml")  # yaml: verify.md's, by test_verify_page.py
            assert language in known, f"{page}: {text[:60]}"
        else:
            assert language == "python" and text.startswith(">>> "), f"{page}: {text[:60]}"


def train_commands() -> list[str]:
    """The indented commands that train, with their continued lines."""
    text = "\n".join(page.read_text("utf-8") for page in PAGES).replace("\\\n", " ")
    return re.findall(r"^    (?:roberta-hub|torchrun .* -m roberta_hub) train (.*=.*)$", text, re.M)


@pytest.mark.system
@pytest.mark.parametrize("command", train_commands())
def test_a_command_that_trains_composes(command: str) -> None:
    pytest.importorskip("hydra")
    from roberta_hub.train.config import compose

    settings = shlex.split(command)
    assert compose(settings).data.train is not None


def test_commands_that_train_are_found() -> None:
    assert len(train_commands()) >= 6


@pytest.mark.system
@pytest.mark.slow
@pytest.mark.timeout(1800)  # each page in four windows
def test_every_page_fits_its_window(site: Path) -> None:
    pytest.importorskip("playwright", reason="no playwright; pip install '.[dev]' in the clone")
    screenshots = load_script(TOOLS / "screenshots.py")
    if screenshots.chromium() is None:
        pytest.skip("no Chromium; apt install chromium")
    pages = [page for page in site.rglob("*.html") if page.name != "404.html"]
    addresses = {page.relative_to(site).as_posix(): page.as_uri() for page in pages}
    for seen in screenshots.look(addresses):
        # The theme's closed menus lie outside of the window.
        pictures = [name for name in seen.clipped if name.startswith(("img", "no picture"))]
        faults = (seen.page > seen.window, pictures, seen.raw, seen.outside)
        assert faults == (False, [], (), ()), str(seen)
        assert seen.contrast >= screenshots.LEAST_CONTRAST, f"{seen}: {seen.faintest}"

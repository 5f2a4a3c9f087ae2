"""Gathers the pages of the site: a hook of mkdocs, named in mkdocs.yml; `make docs` runs it.

README.md and docs/ are the pages. What they link to comes along (tables of benchmarks, the model
card, notices), each at its place in the repository, so that a link that works there works in the
site. A notebook becomes a page with its saved outputs, and the tables of docs/reference/api/ bring
the docstrings of the names in them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import griffe
import nbformat
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from nbconvert import MarkdownExporter

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"""\]\(([^)#\s]+)(?:#[^)]*)?\)|(?:src|srcset)="([^"]+)\"""")
"""The target of a link or a picture, without its anchor."""
WITH_MEMBERS = (
    "Prediction",
    "Span",
    "Answer",
    "Hit",
    "RobertaClassifier",
    "RobertaConfig",
    "scale.Report",
    "scale.Status",
    "SentenceSettings",
    "ZeroShotSettings",
)
"""Classes of the API whose fields are shown with them."""


def linked(page: Path) -> Iterator[Path]:
    """The files of the repository that a Markdown page links to."""
    for target in map("".join, LINK.findall(page.read_text(encoding="utf-8"))):
        if not re.match(r"[a-z]+:", target):
            path = (page.parent / target).resolve()
            if path.is_file() and path.is_relative_to(ROOT):
                yield path


def gathered() -> list[Path]:
    """The pages, and all that they lead to."""
    found: list[Path] = []
    waiting = [
        ROOT / "README.md",
        ROOT / "SKILL.md",
        *sorted((ROOT / "docs").rglob("*.md")),
        ROOT / "docs/site.css",
    ]
    waiting += sorted((ROOT / "notebooks").glob("*.ipynb"))
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.append(path)
            waiting += linked(path) if path.suffix == ".md" else ()
    return found


def notebook(path: Path, config: MkDocsConfig) -> Iterator[File]:
    """A notebook as a page, and its pictures next to it."""
    page = path.relative_to(ROOT).with_suffix(".md")
    body, found = MarkdownExporter().from_notebook_node(nbformat.read(path, as_version=4))
    for name, data in found["outputs"].items():
        body = body.replace(f"({name})", f"({path.stem}_{name})")
        yield File.generated(config, f"{page.parent}/{path.stem}_{name}", content=data)
    body = re.sub(r"\n(?: *\n){3,}", "\n\n", body)  # nbconvert's, between outputs
    yield File.generated(config, page.as_posix(), content=body)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Put the pages at their places in the repository."""
    shown = Files([file for file in files if file.abs_src_path is None or not is_ours(file)])
    for path in gathered():
        if path.suffix == ".ipynb":
            for file in notebook(path, config):
                shown.append(file)
        else:
            name = path.relative_to(ROOT).as_posix()
            shown.append(File.generated(config, name, abs_src_path=str(path)))
    listed = re.sub(r"\.(md|ipynb)\)", ".html)", (ROOT / "llms.txt").read_text(encoding="utf-8"))
    listed = listed.replace("(README.html)", "(index.html)")
    shown.append(File.generated(config, "llms.txt", content=listed))
    return shown


def is_ours(file: File) -> bool:
    """Whether mkdocs found the file in docs/; the theme's are elsewhere."""
    return Path(file.abs_src_path or "").is_relative_to(ROOT / "docs")


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links of notebooks to their pages, and bring the docstrings of the API."""
    markdown = re.sub(r"\.ipynb\)", ".md)", markdown)
    if page.file.src_uri.startswith("docs/reference/api/"):
        names = re.findall(r"^\| `([\w.]+)` \|", markdown, re.M)
        markdown += "".join(docstring(name) for name in names)
    return markdown


def docstring(name: str) -> str:
    """What mkdocstrings takes for a name; methods stand in rows of their own."""
    whole = re.sub("^roberta[.]", "roberta_hub.RobertaHubInterface.", name)
    whole = whole if whole != name else f"roberta_hub.{name}"
    members = "" if name in WITH_MEMBERS else "\n    options: {members: false}"
    return f"\n::: {whole}{members}\n"


class Examples(griffe.Extension):
    """Calls the section `Example:` of our docstrings by the name that griffe knows."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rename the section in one docstring."""
        if obj.docstring is not None:
            obj.docstring.value = re.sub(
                r"^Example:$", "Examples:", obj.docstring.value, flags=re.M
            )

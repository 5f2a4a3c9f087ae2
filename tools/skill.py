"""Writes llms.txt and SKILL.md, which programs that write programs read, from the pages.

    python tools/skill.py

llms.txt (llmstxt.org) lists the pages of the site's menu, each with its first sentence. SKILL.md
has ten calls and commands: of each guide when to take it, its first blocks and what goes wrong.
Both are committed; tests/house/test_skill.py fails where one is not what this writes, and SKILL.md
runs with the pages (tools/answers.py). The site has llms.txt beside its pages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
LLMS, SKILL = ROOT / "llms.txt", ROOT / "SKILL.md"
TEN = {
    "zero_shot": ("zero_shot(texts, labels)", "roberta-hub zero-shot --labels A,B"),
    "classify": ("classify(texts)", "roberta-hub classify"),
    "own_classifier": ("roberta_hub.fit(table)", "roberta-hub fit"),
    "entities": ("tag(texts)", "roberta-hub tag"),
    "vectors": ("search(queries, corpus), embed(texts)", "roberta-hub similar, roberta-hub embed"),
    "questions": ("answer(question, context)", "roberta-hub answer"),
    "fill_masks": ("fill_mask(texts)", "roberta-hub fill-mask"),
    "explain": ("explain(text)", "roberta-hub explain"),
    "many_texts": (
        "roberta_hub.scale.lake(source, target, verb)",
        "roberta-hub VERB -i FILE -o FILE",
    ),
    "evaluate": ("roberta_hub.evaluate(model, table)", "roberta-hub evaluate"),
}
"""Guides, each with its call and its command."""
LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)(#[^)\s]*)?\)")
BLOCK = re.compile(r"^```(python|sh)\n.*?^```\n", re.MULTILINE | re.DOTALL)


def text_of(page: Path) -> str:
    """Read a page, with its links as they are from the root."""

    def from_root(link: re.Match[str]) -> str:
        target = (page.parent / link[1]).resolve() if link[1] else page
        return f"]({target.relative_to(ROOT).as_posix()}{link[2] or ''})"

    text = page.read_text(encoding="utf-8")
    return LINK.sub(from_root, re.sub(r"^!\[.*\n", "", text, flags=re.MULTILINE))


def first_paragraph(text: str) -> str:
    """The first paragraph of prose below a title, in one line."""
    prose = (part for part in text.split("\n\n")[1:] if re.match(r"[\w`\[*]", part))
    return " ".join(next(prose, "").split())


def first_sentence(text: str) -> str:
    """The first sentence of a page, without links."""
    found = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", first_paragraph(text))
    return re.split(r"(?<=[.?!:]) ", found)[0].rstrip(":")


# ---- llms.txt ----


def menu() -> list[Any]:
    """Read the menu of the site; its other settings name Python's objects, and are not read."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    found = re.search(r"^nav:\n(?:[ #].*\n|\n)*", text, re.MULTILINE)
    assert found is not None
    nav: list[Any] = yaml.safe_load(found[0])["nav"]
    return nav


def pages_of(entry: Any) -> Iterator[tuple[str, str]]:
    """(title, path) of the pages below an entry of the menu."""
    if isinstance(entry, str):
        yield Path(entry).parent.name.capitalize(), entry
    elif isinstance(entry, list):
        for inner in entry:
            yield from pages_of(inner)
    else:
        for title, inner in entry.items():
            if isinstance(inner, str):
                yield title, inner
            else:
                yield from pages_of(inner)


def llms() -> str:
    """Write llms.txt."""
    about = first_paragraph((ROOT / "README.md").read_text(encoding="utf-8"))
    lines = ["# roberta_hub", "", f"> {about}", ""]
    lines += [
        "Ten calls and commands, when to take which, and what goes wrong: [SKILL](SKILL.md).",
        "",
    ]
    for entry in menu():
        ((section, inner),) = entry.items()
        lines += [f"## {section}", ""]
        for title, path in pages_of(inner if not isinstance(inner, str) else entry):
            page = ROOT / path
            says = first_sentence(text_of(page)) if page.is_file() else ""
            place = path if page.is_file() else path.replace(".md", ".ipynb")
            lines.append(f"- [{title}]({place})" + (f": {says}" if says else ""))
        lines.append("")
    return "\n".join(lines)


# ---- SKILL.md ----


def wrong(text: str) -> list[str]:
    """What goes wrong on a page, each in a line."""
    _, _, section = text.partition("\n## What goes wrong\n")
    section = BLOCK.sub("\n", section.partition("\n## ")[0])
    items = re.split(r"\n\s*\n|\n(?=- )", section)
    lines = (" ".join(item.split()).removeprefix("- ").rstrip(":") for item in items)
    return [line for line in lines if line and not line.startswith("|")]


def first_blocks(text: str) -> list[str]:
    """A guide's first blocks, up to the first of the other language; its first, if that is far."""
    found = [(block[1], block[0].rstrip("\n")) for block in BLOCK.finditer(text)][:3]
    other = (i for i, (language, _) in enumerate(found) if language != found[0][0])
    return [block for _, block in found[: next(other, 0) + 1]]


def section(name: str) -> str:
    """Write what a guide says of its call."""
    page = ROOT / f"docs/guides/{name}.md"
    text = text_of(page)
    title = text.split("\n", 1)[0].removeprefix("# ")
    call, command = TEN[name]
    parts = [
        f"## {title}",
        first_paragraph(text),
        f"`{call}`; in a shell `{command}`. All of it: [{title}](docs/guides/{name}.md).",
        *first_blocks(text.partition("\n## What goes wrong\n")[0]),
        "What goes wrong:",
        "\n".join(f"- {line}." if line[-1] not in ".?!" else f"- {line}" for line in wrong(text)),
    ]
    return "\n\n".join(parts)


def skill() -> str:
    """Write SKILL.md."""
    about = first_paragraph((ROOT / "README.md").read_text(encoding="utf-8"))
    guides = (ROOT / "docs/guides/index.md").read_text(encoding="utf-8")
    says = dict(re.findall(r"^\| \[[^\]]*\]\((\w+)\.md\) \| (.*) \|$", guides, re.MULTILINE))
    rows = [f"| {says[name]} | `{call}` | `{command}` |" for name, (call, command) in TEN.items()]
    head = f"""---
name: roberta-hub
description: {about} Use it where texts are to be labelled, tagged, searched, embedded or compared.
---

# roberta_hub

A method without a name before it is one of `roberta = roberta_hub.load_model()`. A list of texts
gives a list of answers, in order. `load_model("OWNER/NAME")` takes a model of Hugging Face. An
error says what is wrong, where, and what fixes it: read it to its end.

| for | call | command |
|---|---|---|
"""
    return head + "\n".join(rows) + "\n\n" + "\n\n".join(map(section, TEN)) + "\n"


def written() -> dict[Path, str]:
    """Both files, as they are to be."""
    return {LLMS: llms(), SKILL: skill()}


def main() -> None:
    """Write both."""
    for path, text in written().items():
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()

"""Writes the report of any result: as text, JSON, Markdown, HTML and PNG.

A result inherits from `Reported` and builds a `Report`: a title, and its sections in order, which
are sentences, facts, tables, pictures and notes.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any

from roberta_hub.show.display import Display, Part
from roberta_hub.show.facts import Facts, Note
from roberta_hub.show.markdown import code, fenced, inline
from roberta_hub.show.markup import harmless
from roberta_hub.show.shaded_table import Cell, ShadedTable
from roberta_hub.show.sheet import Picture
from roberta_hub.terminal import clean, width_of


@dataclass(frozen=True)
class Section:
    """One thing that a report says. Where a face is empty, that face leaves it out."""

    text: Sequence[str] = ()
    """Lines for a terminal."""
    markdown: Sequence[str] = ()
    """Lines of one block."""
    parts: Sequence[Part] = ()
    """What a notebook and a picture show."""


@dataclass(frozen=True)
class Report:
    """What is shown of a result.

    Example:
        >>> rows = [["", "rows", "right"], ["all", "400", "91.0 %"]]
        >>> report = Report("v2 on mails.csv", [said("v2 is good"), table(rows)])
        >>> print(report)
        v2 is good
               rows   right
          all   400  91.0 %
        >>> print(report.markdown())
        ## v2 on mails.csv
        <BLANKLINE>
        v2 is good
        <BLANKLINE>
        | | rows | right |
        |---|--:|--:|
        | `all` | 400 | 91.0 % |
    """

    title: str
    """Heading of a notebook's display and of a picture; the text has it where a section says it."""
    sections: Sequence[Section]
    heading: str = ""
    """The title in Markdown; "": as the title."""
    exit: int = 0
    """Exit status of a command that shows it."""

    def __str__(self) -> str:
        return "\n".join(line for section in self.sections for line in section.text)

    def markdown(self) -> str:
        """Write a page; the text in a fence where no section has Markdown."""
        blocks = ["\n".join(section.markdown) for section in self.sections if section.markdown]
        heading = f"## {self.heading or inline(self.title)}"
        return harmless("\n\n".join([heading, *(blocks or [fenced(self)])]), keep="\n")

    def display(self, values: Mapping[str, Any] | None = None) -> Display:
        """Return what a notebook draws."""
        parts = [part for section in self.sections for part in section.parts]
        return Display(self.title, parts, values or {})


class Reported(ABC):
    """A result that is shown by its report: a class that inherits writes `report` alone."""

    @abstractmethod
    def report(self) -> Report:
        """Build what is shown, on every face."""

    def __str__(self) -> str:
        return str(self.report())

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain words and numbers, which `json.dumps` takes."""
        found: dict[str, Any] = plain(self)
        return found

    def to_markdown(self) -> str:
        """Write a report for a page or a pull request."""
        return self.report().markdown()

    def display(self) -> Display:
        """Return what a notebook draws."""
        return self.report().display(self.to_dict())

    def png(self, path: str | PathLike[str] | None = None) -> Picture:
        """Draw what a notebook shows; see `Display.png`.

        Args:
            path: the file that the picture is written to; None: to none.
        """
        return self.report().display().png(path)

    def _repr_html_(self) -> str:
        return self.report().display()._repr_html_()


def plain(value: Any) -> Any:
    """Turn a record, and what it holds, into dicts, words and numbers.

    Example:
        >>> plain(Cell("0.5"))
        {'value': '0.5', 'shade': 0.0, 'colour': (0, 114, 178)}
    """
    if dataclasses.is_dataclass(value):
        return {each.name: plain(getattr(value, each.name)) for each in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(plain, value))
    if isinstance(value, PathLike):
        return fspath(value)
    return str(value) if isinstance(value, BaseException) else value


def said(text: str, markdown: str | None = None) -> Section:
    """Say a sentence."""
    return Section([text], [inline(text) if markdown is None else markdown], [Note(text)])


def facts(rows: Sequence[tuple[str, str]], name: str, width: int | None = None) -> Section:
    """List names with their values."""
    wide = width or max(len(key) for key, _ in rows) + 2
    lines = [clean(f"  {key:<{wide}}{value}") for key, value in rows]
    return Section(lines, markdown_table([[name, ""], *rows]), [Facts(rows)])


def table(rows: Sequence[Sequence[str | Cell]], left: Sequence[int] = (0,)) -> Section:
    """Show a table; its first column names the rows."""
    cells = [[each if isinstance(each, Cell) else Cell(each) for each in row] for row in rows]
    head, *body = [[cell.value for cell in row] for row in cells]
    named = [[code(name), *values] for name, *values in body]
    drawn = ShadedTable(head[1:], [(row[0].value, row[1:]) for row in cells[1:]], left=head[0])
    return Section(_aligned([head, *body], left), markdown_table([head, *named], left), [drawn])


def listed(title: str, rows: Sequence[tuple[str, str]]) -> Section:
    """List places, and what is to be said of each."""
    if not rows:
        return Section()
    lines = [f"{where}: {what}" for where, what in rows]
    return Section(
        [title, *(f"  {line}" for line in lines)],
        [title, "", *(f"- {code(line)}" for line in lines)],
        [Note(title), Facts(rows)],
    )


def notes(lines: Sequence[str], markdown: Callable[[str], str] = inline) -> Section:
    """Say what was left out, and what to know of the numbers."""
    return Section(lines, [f"- {markdown(line)}" for line in lines], [*map(Note, lines)])


def markdown_table(rows: Sequence[Sequence[str]], left: Sequence[int] = (0,)) -> list[str]:
    """Write a table in Markdown.

    Example:
        >>> markdown_table([["", "rows"], ["all", "4"]])
        ['| | rows |', '|---|--:|', '| all | 4 |']
    """
    marks = "|".join("---" if i in left else "--:" for i in range(len(rows[0])))
    head, *body = ["".join(map(_cell, row)) + "|" for row in rows]
    return [head, f"|{marks}|", *body]


def _cell(text: str) -> str:
    shown = text.replace("|", "\\|").replace("\n", " ")
    return f"| {shown} " if shown else "| "


def _aligned(rows: Sequence[Sequence[str]], left: Sequence[int]) -> list[str]:
    """Write cells under each other, as wide as the widest of their column."""
    widths = [max(map(width_of, column)) for column in zip(*rows, strict=True)]

    def cell(i: int, text: str) -> str:
        blank = " " * (widths[i] - width_of(text))
        return text + blank if i in left else blank + text

    return ["  " + "  ".join(cell(i, text) for i, text in enumerate(row)).rstrip() for row in rows]

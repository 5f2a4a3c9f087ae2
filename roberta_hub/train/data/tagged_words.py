"""Reads sentences whose words have labels: the layout of CoNLL and WNUT, and tables of lists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roberta_hub.errors import InputError
from roberta_hub.rows.lines import lines
from roberta_hub.rows.tables import format_of
from roberta_hub.train.data.labels import label_of
from roberta_hub.train.data.roles import check_format, column_roles, nonempty, read_rows


@dataclass(frozen=True)
class TaggedWords:
    """A sentence cut into words, with a label for each."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    where: str


def read_words(
    path: str | Path, format: str | None = None, columns: Mapping[str, Any] | None = None
) -> list[TaggedWords]:
    """Read sentences with a label for each word.

    Args:
        path: a file.
        format: "conll": the word first and the label last on a line, tabs or spaces between, a
            blank line between sentences; or a table with lists. None: "conll" unless the name says
            JSONL or Parquet.
        columns: of a table, which are `words` and `tags`.

    Raises:
        InputError: a row that cannot be read, with its file and line.
    """
    path = Path(path)
    if format is None and format_of(path) not in ("jsonl", "parquet"):
        format = "conll"
    if format == "conll":
        return nonempty(list(_conll(path)), path)
    check_format(format, ("conll", "jsonl", "parquet"))
    named = column_roles(columns, ("words", "tags"), {"words": "words", "tags": "tags"})
    found = []
    for row in read_rows(path, format):
        words = tuple(row.texts(named["words"]))
        tags = tuple(label_of(tag, row.where) for tag in row.texts(named["tags"]))
        if len(words) != len(tags) or not words:
            raise row.error(f"{len(words)} words and {len(tags)} tags")
        found.append(TaggedWords(words, tags, row.where))
    return nonempty(found, path)


def _conll(path: Path) -> Iterator[TaggedWords]:
    pairs: list[tuple[str, str]] = []
    first = 0
    for line, text in lines(path):
        if not pairs and not first:
            _refuse_json(text, f"{path}:{line}")
        if not text.strip():
            if pairs:
                yield _sentence(pairs, path, first)
            pairs = []
            continue
        # Not at every white space: a word may hold a no-break one ("10 000").
        cells = text.split("\t") if "\t" in text else [c for c in text.split(" ") if c]
        if cells[0].strip() == "-DOCSTART-":
            continue
        if len(cells) < 2 or not cells[0].strip() or not cells[-1].strip():
            raise InputError(f"{path}:{line}: {text[:40]!r} is not a word and a label")
        first = first if pairs else line
        pairs.append((cells[0].strip(), label_of(cells[-1], f"{path}:{line}")))
    if pairs:
        yield _sentence(pairs, path, first)


def _refuse_json(text: str, where: str) -> None:
    """Refuse the export of an annotation tool on one line, which blanks would cut into "words"."""
    if text.lstrip().startswith(("[{", '{"')):
        raise InputError(
            "JSON, and no word with a label; `roberta-hub fit` makes a tagger of such files, and "
            "JSONL with lists of words and of tags is data.format=jsonl",
            place=where,
        )


def _sentence(pairs: list[tuple[str, str]], path: Path, line: int) -> TaggedWords:
    return TaggedWords(tuple(w for w, _ in pairs), tuple(t for _, t in pairs), f"{path}:{line}")

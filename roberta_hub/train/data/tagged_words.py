"""Reads sentences whose words have labels: columns as CoNLL's, and tables of lists."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from roberta_hub.errors import InputError, Remedy
from roberta_hub.rows.labels import label_of
from roberta_hub.rows.lines import lines
from roberta_hub.rows.tables import format_of
from roberta_hub.train.data.conll import TaggedWords, Wanted, read_conll
from roberta_hub.train.data.roles import check_format, column_roles, nonempty, read_rows

_ROLES = {"text": "words", "label": "tags"}


def read_words(
    path: str | Path, format: str | None = None, columns: Mapping[str, Any] | None = None
) -> list[TaggedWords]:
    """Read sentences with a label for each word."""
    path = Path(path)
    if format is None and format_of(path) not in ("jsonl", "parquet"):
        format = "conll"
    if format == "conll":
        _refuse_json(path)
        own = {role: str(column) for role, column in (columns or {}).items()}
        named = column_roles(own, ("words", "tags"), {})
        wanted = Wanted(named.get("words"), named.get("tags"), remedy=_remedy)
        return nonempty(read_conll(path, wanted)[1], path)
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


def _remedy(what: str, column: str) -> Remedy:
    return Remedy(f"say which with data.columns.{_ROLES[what]}={column}")


def _refuse_json(path: Path) -> None:
    """Refuse the export of an annotation tool on one line, which blanks would cut into "words"."""
    number, text = next(((n, text) for n, text in lines(path) if text.strip()), (1, ""))
    if text.lstrip().startswith(("[{", '{"')):
        raise InputError(
            "JSON, and no word with a label; `roberta-hub fit` makes a tagger of such files, and "
            "JSONL with lists of words and of tags is data.format=jsonl",
            place=f"{path}:{number}",
        )

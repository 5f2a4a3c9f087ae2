"""Reads ambiguous pronouns: WSC (SuperGLUE), Winogrande and GAP."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roberta_hub.errors import UnknownNameError
from roberta_hub.train.data.tables import (
    bad,
    list_of,
    nonempty,
    number_of,
    rows,
    text_of,
    value_of,
)
from roberta_hub.train.limits import near


@dataclass(frozen=True)
class Pronoun:
    """A pronoun in its sentence, the name it may refer to, and the rivals of that name."""

    before: str
    pronoun: str
    after: str
    query: str
    """The name in question."""
    candidates: tuple[str, ...]
    """The rivals; empty: spaCy finds them."""
    label: bool
    """Whether the pronoun refers to the query."""
    where: str


def read_pronouns(path: str | Path, format: str | None = None) -> list[Pronoun]:
    """Read ambiguous pronouns.

    Args:
        path: a file.
        format: "wsc" (SuperGLUE's JSONL, to which a row may add "candidates", a list), "winogrande"
            (JSONL) or "gap" (TSV).

    Raises:
        InputError: a row that cannot be read, with its file and line.
    """
    path = Path(path)
    if format == "wsc":
        return nonempty([_wsc(row, path, line) for line, row in rows(path, "jsonl")], path)
    if format == "winogrande":
        return nonempty([_winogrande(row, path, line) for line, row in rows(path, "jsonl")], path)
    if format == "gap":
        return nonempty([_gap(row, path, line) for line, row in rows(path, "tsv")], path)
    raise UnknownNameError(f"data.format is {format!r}{near(format, ('wsc', 'winogrande', 'gap'))}")


_BEHIND = '.,"'


def _wsc(row: dict[str, Any], path: Path, line: int) -> Pronoun:
    """Read a row of WSC: `target.span2` is the pronoun, counted in words, `span1` the query.

    Some indices are one too low, and punctuation behind the pronoun belongs to the sentence
    (fairseq `wsc_utils.py`).
    """
    target = row.get("target")
    if not isinstance(target, dict):
        raise bad(path, line, "has no 'target'")
    text, query = text_of(row, "text", path, line), text_of(target, "span1_text", path, line)
    pronoun, place = text_of(target, "span2_text", path, line), target.get("span2_index")
    words, pronoun = text.split(" "), pronoun.rstrip(_BEHIND)
    if not isinstance(place, int) or not 0 <= place < len(words):
        raise bad(path, line, f"span2_index {place!r} is outside the text of {len(words)} words")
    there = [
        i for i in (place, place + 1) if words[i : i + 1] and words[i].rstrip(_BEHIND) == pronoun
    ]
    if not there or not pronoun:
        raise bad(path, line, f"{pronoun!r} does not stand at word {place}")
    start = sum(len(word) + 1 for word in words[: there[0]])
    label = value_of(row, "label", path, line)
    if not isinstance(label, bool):
        raise bad(path, line, f"label {label!r} is neither true nor false")
    candidates = tuple(list_of(row, "candidates", path, line)) if "candidates" in row else ()
    rest = text[start + len(pronoun) :]
    query = query[:-1] if query.endswith((".", ",")) else query
    return Pronoun(text[:start], pronoun, rest, query, candidates, label, f"{path}:{line}")


def _winogrande(row: dict[str, Any], path: Path, line: int) -> Pronoun:
    """Read a row of Winogrande: `_` is the blank, the right option the query."""
    text, answer = text_of(row, "sentence", path, line), str(value_of(row, "answer", path, line))
    if text.count("_") != 1 or answer not in ("1", "2"):
        raise bad(path, line, f"needs one '_' and the answer 1 or 2, not {answer!r}")
    before, after = text.split("_")
    right = text_of(row, f"option{answer}", path, line)
    wrong = text_of(row, f"option{3 - int(answer)}", path, line)
    return Pronoun(before, "_", after, right, (wrong,), True, f"{path}:{line}")


def _gap(row: dict[str, Any], path: Path, line: int) -> Pronoun:
    """Read a row of GAP: the query is the name that is meant, and A with label False if none is."""
    text, pronoun = text_of(row, "Text", path, line), text_of(row, "Pronoun", path, line)
    start = number_of(row.get("Pronoun-offset"))
    if start is None or text[start : start + len(pronoun)] != pronoun:
        raise bad(path, line, f"{pronoun!r} does not stand at character {start}")
    names = [text_of(row, name, path, line) for name in "AB"]
    truth = [str(row.get(f"{name}-coref")).upper() == "TRUE" for name in "AB"]
    if truth[1] and not truth[0]:
        names.reverse()
    rest = text[start + len(pronoun) :]
    return Pronoun(text[:start], pronoun, rest, names[0], (names[1],), any(truth), f"{path}:{line}")

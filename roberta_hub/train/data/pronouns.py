"""Reads ambiguous pronouns: WSC (SuperGLUE), Winogrande and GAP."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from roberta_hub.errors import UnknownNameError
from roberta_hub.inference.pronouns import place_in_wsc
from roberta_hub.rows.tables import Row
from roberta_hub.train.data.roles import nonempty, parse_digits, read_rows
from roberta_hub.train.limits import suggestion


@dataclass(frozen=True)
class PronounExample:
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


def read_pronouns(path: str | Path, format: str | None = None) -> list[PronounExample]:
    """Read ambiguous pronouns."""
    path = Path(path)
    if format == "wsc":
        return nonempty([_wsc(row) for row in read_rows(path, "jsonl")], path)
    if format == "winogrande":
        return nonempty([_winogrande(row) for row in read_rows(path, "jsonl")], path)
    if format == "gap":
        return nonempty([_gap(row) for row in read_rows(path, "tsv")], path)
    raise UnknownNameError(
        f"data.format is {format!r}{suggestion(format, ('wsc', 'winogrande', 'gap'))}"
    )


def _wsc(row: Row) -> PronounExample:
    """Read a row of WSC: `target.span2` is the pronoun, counted in words, `span1` the query."""
    target = row.values.get("target")
    if not isinstance(target, dict):
        raise row.error("has no 'target'")
    spans = Row(target, row.number, row.where)
    text, query = row.text("text"), spans.text("span1_text")
    pronoun, place = spans.text("span2_text"), target.get("span2_index")
    count = len(text.split(" "))
    if not isinstance(place, int) or not 0 <= place < count:
        raise row.error(f"span2_index {place!r} is outside the text of {count} words")
    there = place_in_wsc(text, pronoun, place)
    if there is None:
        raise row.error(f"{pronoun!r} does not stand at word {place}")
    pronoun, start = there
    label = row.value("label")
    if not isinstance(label, bool):
        raise row.error(f"label {label!r} is neither true nor false")
    candidates = tuple(row.texts("candidates")) if "candidates" in row.values else ()
    rest = text[start + len(pronoun) :]
    query = query[:-1] if query.endswith((".", ",")) else query
    return PronounExample(text[:start], pronoun, rest, query, candidates, label, row.where)


def _winogrande(row: Row) -> PronounExample:
    """Read a row of Winogrande: `_` is the blank, the right option the query."""
    text, answer = row.text("sentence"), str(row.value("answer"))
    if text.count("_") != 1 or answer not in ("1", "2"):
        raise row.error(f"needs one '_' and the answer 1 or 2, not {answer!r}")
    before, after = text.split("_")
    right = row.text(f"option{answer}")
    wrong = row.text(f"option{3 - int(answer)}")
    return PronounExample(before, "_", after, right, (wrong,), True, row.where)


def _gap(row: Row) -> PronounExample:
    """Read a row of GAP: the query is the name that is meant, and A with label False if none is."""
    text, pronoun = row.text("Text"), row.text("Pronoun")
    start = parse_digits(row.values.get("Pronoun-offset"))
    if start is None or text[start : start + len(pronoun)] != pronoun:
        raise row.error(f"{pronoun!r} does not stand at character {start}")
    names = [row.text(name) for name in "AB"]
    truth = [str(row.values.get(f"{name}-coref")).upper() == "TRUE" for name in "AB"]
    if truth[1] and not truth[0]:
        names.reverse()
    rest = text[start + len(pronoun) :]
    return PronounExample(text[:start], pronoun, rest, names[0], (names[1],), any(truth), row.where)

"""Which columns of a table hold the texts, and which the labels: the named, or the only ones."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from itertools import islice
from typing import Any

from roberta_hub.arguments import short_repr
from roberta_hub.errors import InputError, InputTypeError, Remedy
from roberta_hub.rows.labels import hold_shares
from roberta_hub.rows.tables import KEPT_ROWS, Table, json_object, unknown_column
from roberta_hub.rows.values import Fault, flag_in, is_blank

DEFAULT_TEXT_COLUMN = "text"
"""The column that verbs take where none is named."""
LABEL_COLUMNS = (
    "label",
    "labels",
    "cats",
    "class",
    "category",
    "sentiment",
    "target",
    "stars",
    "rating",
    "topic",
    "intent",
    "emotion",
    "score",
    "y",
)
"""Names by which a column of labels is known, in any case."""
TEXT_COLUMNS = (
    "text",
    "sentence",
    "review",
    "comment",
    "message",
    "content",
    "body",
    "tweet",
    "document",
)
"""Names by which a column of texts is known, in any case."""
PAIR_COLUMNS = (
    ("sentence1", "sentence2"),
    ("sentence", "sentence2"),
    ("text1", "text2"),
    ("text_a", "text_b"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("question", "answer"),
    ("question", "passage"),
    ("query", "document"),
)
"""Names by which two columns of texts are known to be pairs, in any case."""
PROSE_ROWS = 100
"""Rows by which a column shows whether it is prose."""


def text_columns(
    names: Sequence[Any], wanted: tuple[str, ...], what: str = "the table"
) -> tuple[Any, ...]:
    """Tell which columns hold the texts of a verb: the named ones, `text`, or the only one."""
    listed = ", ".join(map(str, names)) or "none"
    for name in wanted:
        if name not in names:
            raise unknown_column(what, name, names, f"Its columns: {listed}")
    if wanted:
        return wanted
    if DEFAULT_TEXT_COLUMN in names:
        return (DEFAULT_TEXT_COLUMN,)
    if len(names) == 1:
        return (names[0],)
    raise InputError(
        f"{what}: which column holds the texts? The columns are {listed}",
        remedy=Remedy("pass text=NAME", "say --text NAME"),
    )


def find_text_column(table: Table, without: Sequence[str] = ()) -> str:
    """Find the column of single texts: `text`, the only one, one known by name or by its prose.

    Example:
        >>> rows = [{"id": "a1", "plot": "A dog runs off.", "made": "in 1950"}]
        >>> find_text_column(Table("x.csv", ["id", "plot"], lambda: enumerate(rows)))
        'plot'
    """
    names = [name for name in table.columns if name not in without]
    if DEFAULT_TEXT_COLUMN in names or len(names) == 1:
        return DEFAULT_TEXT_COLUMN if DEFAULT_TEXT_COLUMN in names else names[0]
    found = _pair(names) or [name for name in names if name.casefold() in TEXT_COLUMNS]
    if not found:
        prose = _prose(table)
        found = [name for name in names if name in prose]
    if len(found) == 1:
        return found[0]
    python, shell = "pass text=NAME", "say --text NAME"
    if len(found) == 2:
        python += f", or text={list(found)!r} of pairs"
        shell += f", or --text {shell_list(found)} of pairs"
    raise InputError(
        f"{table.name}: {_candidates(found)} the texts. {table.listed()}",
        remedy=Remedy(python, shell),
    )


def check_clash(names: Sequence[str], answers: Sequence[str], remedy: Remedy) -> None:
    """Refuse answers whose column would take the name of another."""
    if twice := [name for name in answers if name in names]:
        raise InputError(
            f"the table has a column {short_repr(twice[0])} already, and the answers would too",
            remedy=remedy,
        )


# ---- of a table to learn from ----


def find_columns(
    table: Table, text: Any = None, label: Any = None, without: Sequence[str] = ()
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Find the column of texts, or the two of pairs, and the column or columns of labels.

    In this order: the column that the caller names, the one with a name of `PAIR_COLUMNS`,
    `TEXT_COLUMNS` or `LABEL_COLUMNS`, the only candidate. Columns of prose (most values have
    several words) are candidates for texts, all others for labels; those of `without` for neither.
    Two columns of prose are pairs.

    Example:
        >>> rows = [{"review": "A fine film.", "Stars": "5"}]
        >>> find_columns(Table("x.csv", ["review", "Stars"], lambda: enumerate(rows)))
        (('review',), ('Stars',))
    """
    texts, labels = given_texts(table, text), _given_labels(table, label)
    if both := [name for name in labels if name in texts]:
        raise InputError(f"{table.name}: column {both[0]!r} cannot be both text and label")
    if both := [name for name in (*texts, *labels) if name in without]:
        raise InputError(f"{table.name}: column {both[0]!r} holds weights, and no text or label")
    if not table.columns:
        raise InputError(f"{table.name}: is empty")
    if not labels:
        labels = _known(table, LABEL_COLUMNS, "labels", "label", without=(*texts, *without))
    texts = texts or _known_texts(table, (*labels, *without))
    if texts and labels:
        return texts, labels
    prose = _prose(table)
    if not texts:
        found = [name for name in table.columns if name in prose and name not in labels]
        if len(found) not in (1, 2):
            raise _unclear(table, "texts", "text", found)
        texts = tuple(found)
    if not labels:
        others = [name for name in table.columns if name not in (*texts, *without)]
        found = others if len(others) == 1 else [name for name in others if name not in prose]
        if len(found) != 1:
            raise _unclear(table, "labels", "label", found)
        labels = (found[0],)
    return texts, labels


def _given_labels(table: Table, label: Any) -> tuple[str, ...]:
    names = () if label is None else (label,) if isinstance(label, str) else label
    if not isinstance(names, (list, tuple)) or (label is not None and not names):
        raise InputTypeError(
            f"label is {short_repr(label)}; give the name of a column, or a list of columns of 0 "
            "and 1"
        )
    for name in names:
        table.check(name)
    if len(set(names)) < len(names):
        raise InputError(f"label is {short_repr(label)}; each label is another column")
    return tuple(names)


def given_texts(table: Table, text: Any) -> tuple[str, ...]:
    """Return the names of the columns of texts that a caller gives: none, one, or two of pairs."""
    names = () if text is None else (text,) if isinstance(text, str) else text
    if not isinstance(names, (list, tuple)) or len(names) > 2:
        raise InputTypeError(
            f"text is {short_repr(text)}; give the name of a column, or a list of two"
        )
    for name in names:
        table.check(name)
    if len(set(names)) < len(names):
        raise InputError(f"text is {short_repr(text)}; a pair is two different columns")
    return tuple(names)


def weight_column(table: Table, weight: Any) -> str:
    """Check the name of the column of the rows' weights."""
    if not isinstance(weight, str):
        raise InputTypeError(f"weight is {short_repr(weight)}; give the name of a column")
    table.check(weight)
    return weight


def _known(
    table: Table, names: Sequence[str], what: str, argument: str, without: Sequence[str]
) -> tuple[str, ...]:
    found = [c for c in table.columns if c.casefold() in names and c not in without]
    if len(found) > 1:
        raise _unclear(table, what, argument, found)
    return tuple(found)


def _known_texts(table: Table, labels: Sequence[str]) -> tuple[str, ...]:
    pair = _pair([column for column in table.columns if column not in labels])
    return pair or _known(table, TEXT_COLUMNS, "texts", "text", without=labels)


def find_texts(table: Table, without: Sequence[str]) -> tuple[str, ...]:
    """Find the column of texts, or the two with the names of a pair, of a table without labels."""
    pair = _pair([column for column in table.columns if column not in without])
    return pair or (find_text_column(table, without),)


def _pair(columns: Sequence[str]) -> tuple[str, ...]:
    """Find two columns with the names of a pair; (): there are none."""
    by_name = {column.casefold(): column for column in columns}
    for pair in PAIR_COLUMNS:
        if all(name in by_name for name in pair):
            return tuple(by_name[name] for name in pair)
    return ()


def _prose(table: Table) -> set[str]:
    """Tell which columns are prose: half of their values or more have several words."""
    first = (values for _, values in islice(table.begin(), PROSE_ROWS))
    rows = [values for values in first if not isinstance(values, Fault)]
    found = set()
    for column in table.columns:
        values = [row[column] for row in rows if not is_blank(row.get(column))]
        if values and 2 * sum(map(_has_words, values)) >= len(values):
            found.add(column)
    return found


def _has_words(value: object) -> bool:
    """Whether a value has several words; a date with its time has no letters."""
    return isinstance(value, str) and len(value.split()) > 1 and any(map(str.isalpha, value))


def _unclear(table: Table, what: str, argument: str, found: Sequence[str]) -> InputError:
    python, shell = f"say which with {argument}=...", f"say which with --{argument}"
    flags = flag_columns(table, found) if argument == "label" else []
    if len(flags) > 1:
        python += f", or learn several with label={flags!r}"
        shell += f", or learn several with --label {shell_list(flags)}"
    elif argument == "label" and _are_shares(table, found):
        python += f", or learn their shares with label={list(found)!r}"
        shell += f", or learn their shares with --label {shell_list(found)}"
    data = ""
    if is_headless(table):
        data = f"{HEADLESS_NOTE}. "
        python, shell = f"pass header=False, or {python}", f"say --no-header, or {shell}"
    return InputError(
        f"{table.name}: {_candidates(found)} the {what}. {data}{table.listed()}",
        remedy=Remedy(python, shell),
    )


def _are_shares(table: Table, names: Sequence[str]) -> bool:
    """Tell whether columns hold how likely each class is."""
    rows = [row.values for row in islice(table.rows(), KEPT_ROWS)]
    return len(names) > 1 and hold_shares([{name: row.get(name) for name in names} for row in rows])


def _candidates(found: Sequence[str]) -> str:
    return f"{', '.join(found)} could each hold" if found else "no column is known to hold"


HEADLESS_NOTE = "The first row looks like data and not like names of columns"


def is_headless(table: Table) -> bool:
    """Tell whether the first row of a CSV or TSV looks like data: its labels have no header.

    That is where one name has several words, as a text has, and another comes again among the
    values of its own column, as a label does.

    Example:
        >>> rows = [{"A fine film.": "Dull.", "good": "bad"}, {"A fine film.": "", "good": "good"}]
        >>> is_headless(Table("x.csv", list(rows[0]), lambda: enumerate(rows), headed=True))
        True
    """
    if not table.headed:
        return False
    texts = {name for name in table.columns if len(name.split()) > 1}
    labels = [name for name in table.columns if texts - {name}]
    rows = islice(table.read(), KEPT_ROWS) if labels else ()
    found = (values for _, values in rows if not isinstance(values, Fault))
    return any(str(values.get(name)).strip() == name for values in found for name in labels)


def table_line(text: str) -> tuple[str, str] | None:
    """Tell whether a line looks like the first of a table: its header, or an object of JSONL.

    A header has several short names, of which one is known for texts, labels or keys.

    Example:
        >>> table_line("review_id,review"), table_line("Well, text me, please.")
        (('csv', 'review'), None)
    """
    if text.lstrip().startswith("{"):
        found = json_object(text)
        names = [] if isinstance(found, Fault) else list(found)
        return ("jsonl", _likely_text(names)) if names else None
    if "\r" in text:  # no header has one, and csv refuses the line
        return None
    for separator in ",\t;":
        names = next(csv.reader([text], delimiter=separator), [])
        if len(names) > 1 and all(map(_NAME.fullmatch, filter(None, names))):
            known = {name.strip().casefold() for name in names} & _KNOWN_NAMES
            if known or any("_" in name for name in names):
                return ("tsv" if separator == "\t" else "csv"), _likely_text(names)
    return None


_NAME = re.compile(r"[^\W\d][\w .:/#-]{0,39}")
_KNOWN_NAMES = {"id", "index", "title", "date", "url", *TEXT_COLUMNS, *LABEL_COLUMNS}
_KNOWN_NAMES |= {name for pair in PAIR_COLUMNS for name in pair}


def _likely_text(names: Sequence[str]) -> str:
    known = [name for name in names if name.strip().casefold() in TEXT_COLUMNS]
    return known[0] if known else "NAME"


def flag_columns(table: Table, names: Sequence[str]) -> list[str]:
    """Tell which columns hold 0 and 1, or other words for yes and no, and nothing else."""
    held: dict[str, set[bool | None]] = {name: set() for name in names}
    for row in islice(table.rows(), KEPT_ROWS):
        for name in names:
            value = row.values.get(name)
            if not is_blank(value):
                held[name].add(flag_in(value))
    return [name for name in names if held[name] == {True, False}]


def shell_list(names: Sequence[str]) -> str:
    """Write names as an option of the shell takes them: `a,"b, c"`.

    Example:
        >>> shell_list(["toxic", "insult, or threat"])
        'toxic,"insult, or threat"'
    """
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(names)
    return line.getvalue()

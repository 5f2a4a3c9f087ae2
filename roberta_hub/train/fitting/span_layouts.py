"""Finds labelled spans in tables and in the exports of annotation tools, by what they hold.

Every layout becomes rows of a text and its spans in characters; `spans.py` checks them.
"""

from __future__ import annotations

import ast
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from roberta_hub.arguments import short_repr
from roberta_hub.errors import InputError, MissingExtraError, Remedy
from roberta_hub.extras import install
from roberta_hub.inference.tag import OUTSIDE, entities
from roberta_hub.rows.columns import LABEL_COLUMNS, TEXT_COLUMNS, find_columns
from roberta_hub.rows.labels import label_of
from roberta_hub.rows.lines import decoded, document, lines, raw_lines
from roberta_hub.rows.tables import Row, Table, format_of, json_object, open_table, table_of
from roberta_hub.rows.values import Fault, is_blank
from roberta_hub.train.data.conll import (
    SENTENCES,
    TaggedWords,
    Wanted,
    is_conll,
    is_joined,
    layout_of,
    read_conll,
    text_of,
    tidy_tags,
)
from roberta_hub.train.fitting.spans import Marked, is_near_span, is_span

SPANS = ("spans", "entities", "ents")
"""Names by which a column of spans is known, before others that hold such lists."""
TOKENS = ("tokens", "words")
TAGS = ("ner_tags", "ner", "tags", "labels", "label", "pos_tags")
"""Names of lists of words and of their tags."""
WORDS = ("word", "token", "words", "tokens")
TAG = ("tag", "ner_tag", "ner", "label", "iob", "bio", "entity", "pos")
"""Names of the columns of a table with a word a row."""
TAKES = (
    "give JSONL with a column of spans, each [start, end, label] in characters (doccano, Prodigy), "
    "Label Studio's JSON, lists of tokens and of tags, CoNLL's columns, a CSV of words and tags, "
    "or spaCy's .spacy"
)
LONGEST = 1_000_000
"""Characters of a cell that is read as a list."""
_MARK = re.compile(r"O|[BIESLU]-.+")
"""What a tag of words in spans looks like."""
_LOOK = 200
"""Rows, or lines, by which a layout is known."""


@dataclass(frozen=True)
class SpanTable:
    """A table of texts with spans."""

    name: str
    """What errors call it: the path."""
    layout: str
    """What it was found to be, in words."""
    read: Callable[[], Iterator[Marked]]
    """Reads the rows from the start."""
    sentences: Callable[[bool], list[TaggedWords]] | None = None
    """Where words have tags: reads the sentences, or raises the error of a row that is none. Its
    argument is whether the caller joins characters to words."""


def span_table(
    table: Any, text: Any = None, label: str | None = None, *, header: bool = True
) -> SpanTable | None:
    """Find the spans of a table; None: it holds none that can be known for such.

    Example:
        >>> found = span_table([{"text": "Ada sings.", "spans": [[0, 3, "PER"]]}])
        >>> found.layout, [row.spans for row in found.read()]
        ('texts with spans (text, spans)', [[[0, 3, 'PER']]])
    """
    source = open_source(table, text, label, header=header)
    return table_spans(source, text, label) if isinstance(source, Table) else source


def open_source(
    table: Any, text: Any = None, label: str | None = None, *, header: bool = True
) -> SpanTable | Table | None:
    """Open what may hold spans: a table, whose rows are kept, or a layout without rows."""
    if isinstance(table, (str, os.PathLike)):
        # Path.is_file raises where a name is too long.
        return _file(Path(table), text, label, header) if os.path.isfile(table) else None
    if isinstance(table, (list, tuple)) and _is_pairs(table):
        return _pairs(table, "table")
    return table_of(table).kept()


def lone(value: Any) -> Any:
    """Return the only name of a list of one, as a shell gives it."""
    return value[0] if isinstance(value, (list, tuple)) and len(value) == 1 else value


# ---- files ----


def _file(path: Path, text: Any, label: str | None, header: bool) -> SpanTable | Table | None:
    if path.suffix == ".spacy":
        return _docbin(path)
    named, begin = format_of(path), _begin(path)
    if re.match(r"\[\s*[\[{\]]", begin) or re.match(r'\{\s*"', begin):
        whole = _json(path)
        if whole is not None:
            return _document(whole, path, text, label)
        if named != "jsonl":
            return table_spans(open_table(path, "jsonl").kept(), text, label)
    if named in (None, "tsv") and is_conll(path):
        return _conll(path, Wanted(text, label))
    return None if named is None else table_of(path, header=header).kept()


def _begin(path: Path) -> str:
    """Return the first two lines that are not blank: JSON that is laid out begins with a "["."""
    found: list[str] = []
    for number, line in enumerate(islice(raw_lines(path), _LOOK), 1):
        text = decoded(line, number)
        if isinstance(text, Fault):
            break  # the reader of the file says so
        found += [text.strip()[:1000]] if text.strip() else []
        if len(found) == 2:
            break
    return "\n".join(found)


def _json(path: Path) -> Any:
    """Read a file that is one JSON value; None: it is an object a line."""
    if isinstance(json_object(next(text for _, text in lines(path) if text.strip())), dict):
        return None
    try:
        return json.loads("\n".join(document(path)))
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON: {error}", place=str(path)) from None


def _document(value: Any, path: Path, text: Any, label: str | None) -> SpanTable | None:
    rows = value if isinstance(value, list) else [value]
    if _is_pairs(rows):
        return _pairs(rows, str(path))
    if not rows or not all(isinstance(row, dict) for row in rows):
        raise InputError(f"{path}: its JSON is no list of objects with spans; {TAKES}")
    return table_spans(table_of(rows, str(path)), text, label)


def _docbin(path: Path) -> SpanTable:
    try:
        import spacy
        from spacy.tokens import DocBin
    except ImportError as error:
        raise MissingExtraError(
            f"{path}: a .spacy file needs spaCy ({error}): {install('words')}"
        ) from None

    def read() -> Iterator[Marked]:
        try:
            docs = list(DocBin().from_disk(path).get_docs(spacy.blank("xx").vocab))
        except Exception as error:  # of zlib, msgpack or spaCy, by what is damaged
            raise InputError(f"{path}: not a readable .spacy file: {str(error)[:200]}") from None
        for number, doc in enumerate(docs, 1):
            spans = [[ent.start_char, ent.end_char, ent.label_] for ent in doc.ents]
            yield Marked(doc.text, spans, f"{path}:{number}")

    return SpanTable(str(path), "spaCy's documents with their entities", read)


# ---- tables with a text a row ----


@dataclass(frozen=True)
class FirstLook:
    """A table, its first rows, and the columns that the caller names."""

    table: Table
    first: Sequence[Row]
    text: Any
    label: str | None

    @property
    def rows(self) -> list[Mapping[str, Any]]:
        """The values of the first rows."""
        return [row.values for row in self.first]


def table_spans(table: Table, text: Any, label: str | None) -> SpanTable | None:
    """Read a table by the first layout whose columns it has; None: it has none of them."""
    if label is not None and label not in table.columns:
        return None
    look = FirstLook(table, list(islice(_sound(table), _LOOK)), text, label)
    for layout in LAYOUTS:
        if (columns := layout.find(look)) is not None:
            return layout.open(look, *columns)
    _refuse_near_spans(table.columns, look.first, label)
    return None


def _sound(table: Table) -> Iterator[Row]:
    """Read rows up to the first that cannot be read, which the reader of all rows reports."""
    with suppress(InputError):
        yield from table.rows()


def _filled(rows: Sequence[Mapping[str, Any]], column: str) -> list[Any]:
    return [value for row in rows if not is_blank(value := row.get(column))]


def _find_spans(look: FirstLook) -> tuple[str, str] | None:
    """Find the columns of texts and of lists of spans."""
    column = _span_column(look.table, look.rows, look.label)
    if column is None:
        return None
    (texts, *more), _ = find_columns(look.table, look.text, column)
    if more:
        raise InputError(
            f"{look.table.name}: a tagger reads single texts, not {texts} and {more[0]}"
        )
    return texts, column


def _span_column(table: Table, rows: Sequence[Mapping[str, Any]], label: str | None) -> str | None:
    if label is not None:
        lists = [items_of(value) for value in _filled(rows, label)]
        empty = label not in SPANS and not any(lists)
        return None if empty or not _all_spans(lists, labelled=True) else label
    found = [
        column
        for column in table.columns
        if any(lists := [items_of(value) for value in _filled(rows, column)])
        and _all_spans(lists, named=column.casefold() in (*SPANS, *LABEL_COLUMNS))
    ]
    plain = [c for c in table.columns if c.casefold() in LABEL_COLUMNS and c not in found]
    if not found or any(_filled(rows, column) for column in plain):
        return None
    known = [column for column in found if column.casefold() in (*SPANS, *LABEL_COLUMNS)] or found
    if len(known) > 1:
        raise InputError(
            f"{table.name}: {', '.join(known)} could each hold the spans. {table.listed()}",
            remedy=Remedy("say which with label=...", "say which with --label"),
        )
    return known[0]


def _all_spans(lists: Iterable[Any], *, labelled: bool = False, named: bool = False) -> bool:
    """Tell whether all values are lists, most of whose items look like spans."""
    values = list(lists)
    found = [value for value in values if value is not None]
    items = [item for value in found for item in value]
    like = sum(map(is_span, items))
    if 2 * like < len(items):
        return False
    enough = (2 if labelled or named else 1) * len(found) >= len(values)
    return enough and (labelled or like > 0)


def _refuse_near_spans(columns: Sequence[str], rows: Sequence[Row], label: str | None) -> None:
    """Refuse a column of what is meant for spans, and is none."""
    named = [c for c in columns if c.casefold() in (*SPANS, *LABEL_COLUMNS)]
    for row in rows:
        held = {column: row.values.get(column) for column in ([label] if label else named)}
        lists = {
            column: [value] if isinstance(value, Mapping) else items_of(value)
            for column, value in held.items()
            if not is_blank(value)
        }
        if None in lists.values():
            return  # a column of other labels, which are the ones to train on
        for column, items in lists.items():
            if faulty := [item for item in items or () if is_near_span(item)]:
                raise row.error(
                    f"{column} holds {short_repr(faulty[0], 80)}, which is no span; write [start, "
                    "end, label], with numbers of characters"
                )


def items_of(value: Any) -> list[Any] | None:
    """Read a list, or the text of one as CSV files have it; None: it is something else.

    Example:
        >>> items_of("[(0, 3, 'PER')]"), items_of('[[0, 3, "PER"]]'), items_of("PER")
        ([(0, 3, 'PER')], [[0, 3, 'PER']], None)
    """
    if hasattr(type(value), "tolist"):
        value = value.tolist()
    if isinstance(value, str):
        if not value.lstrip().startswith("[") or len(value) > LONGEST:
            return None
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            try:
                value = ast.literal_eval(value.strip())
            except (ValueError, SyntaxError, RecursionError, MemoryError):
                return None
    return list(value) if isinstance(value, (list, tuple)) else None


def _open_spans(look: FirstLook, text: str, column: str) -> SpanTable:
    def read() -> Iterator[Marked]:
        for row in look.table.rows():
            value, answer = row.values.get(column), row.values.get("answer")
            spans: Any = None if is_blank(value) else items_of(value)
            if answer in ("reject", "ignore"):
                spans = Fault(f"its answer is {answer!r}")
            elif spans is None and is_blank(value):
                # A tool that leaves the key out has found nothing there; null is no answer.
                spans = Fault("nothing in the column of spans") if column in row.values else []
            elif spans is None:
                spans = Fault("its spans are no list")
            yield Marked(row.values.get(text), spans, row.where)

    return SpanTable(look.table.name, f"texts with spans ({text}, {column})", read)


def _is_pairs(rows: Sequence[Any]) -> bool:
    """Tell whether most rows are spaCy 2's: a text, and a dict with entities."""
    return 2 * sum(map(_is_pair, rows)) > len(rows)


def _is_pair(row: Any) -> bool:
    return (
        isinstance(row, (list, tuple))
        and len(row) == 2
        and isinstance(row[1], Mapping)
        and "entities" in row[1]
    )


def _pairs(rows: Sequence[Any], name: str) -> SpanTable:
    def read() -> Iterator[Marked]:
        for number, row in enumerate(rows, 1):
            where = f"{name}:{number}"
            if not _is_pair(row):
                yield Marked(None, Fault("no pair of a text and its entities"), where)
                continue
            spans = items_of(row[1]["entities"])
            yield Marked(
                row[0], Fault("its entities are no list") if spans is None else spans, where
            )

    return SpanTable(name, "pairs of a text and its entities", read)


# ---- Label Studio ----


def _is_task(values: Mapping[str, Any]) -> bool:
    return _annotations(values) is not None and isinstance(values.get("data"), dict)


def _annotations(values: Mapping[str, Any]) -> list[Any] | None:
    """Return what people marked of a task; None: it has no place for that."""
    done = values.get("annotations", values.get("completions"))
    if done is None and "predictions" in values:
        return []
    results = isinstance(done, list) and all(isinstance(d, dict) and "result" in d for d in done)
    return done if results else None


def _find_tasks(look: FirstLook) -> tuple[()] | None:
    is_asked = look.label in (None, "annotations")
    return () if is_asked and any(map(_is_task, look.rows)) else None


def _open_tasks(look: FirstLook) -> SpanTable:
    return SpanTable(look.table.name, "Label Studio's tasks", lambda: _tasks(look.table))


def _tasks(table: Table) -> Iterator[Marked]:
    for row in table.rows():
        done = _annotations(row.values) if _is_task(row.values) else None
        if done is None:
            yield Marked(None, Fault("no task with its annotations"), row.where)
            continue
        kept = [one for one in done if not one.get("was_cancelled")]
        if not kept:
            yield Marked(None, Fault(_why_unmarked(row.values, done)), row.where)
            continue
        marked = _marked_places(kept[0]["result"])
        text = _task_text(row.values["data"], [] if isinstance(marked, Fault) else marked)
        spans = marked if isinstance(marked, Fault) else [one["value"] for one in marked]
        yield Marked(text, spans, row.where)


def _why_unmarked(values: Mapping[str, Any], done: Sequence[Any]) -> str:
    if done:
        return "it was skipped"
    guessed = bool(values.get("predictions"))
    return "it has predictions, which nobody accepted" if guessed else "it was not annotated"


def _marked_places(results: Any) -> list[Mapping[str, Any]] | Fault:
    """Keep the results that label a place of a plain text; choices, relations and such go."""
    if not isinstance(results, list) or not all(isinstance(one, dict) for one in results):
        return Fault("its result is no list of labels")
    found = []
    for one in results:
        value = one.get("value")
        names = [*value, one.get("type")] if isinstance(value, dict) else [one.get("type")]
        kinds = {name for name in names if isinstance(name, str) and name.endswith("labels")}
        if kinds and not isinstance(value, dict):
            return Fault("a label without a value")
        if other := sorted(kinds - {"labels"}) or [n for n in ("startOffset",) if n in names]:
            return Fault(
                f"its spans are {other[0]}, whose places are of HTML or such; label a <Text> with "
                "<Labels>, and export it again"
            )
        found += [one] if kinds else []
    return found


def _task_text(data: Mapping[str, Any], marked: Sequence[Mapping[str, Any]]) -> Any:
    """Find the text of a task: the one that its results name, a known name, or the only one."""
    texts = {name: value for name, value in data.items() if isinstance(value, str)}
    wanted = [str(r["to_name"]) for r in marked[:1] if "to_name" in r]
    named = [name for name in (*wanted, *TEXT_COLUMNS) if name in texts]
    return texts[named[0]] if named else max(texts.values(), key=len, default=None)


# ---- words with tags ----


def marked_words(words: Sequence[str], tags: Sequence[str], where: str, joined: bool) -> Marked:
    """Make a text and its spans of words and their tags: BIO, IOB1, BILOU, IOBES, or plain labels.

    Example:
        >>> marked_words(["in", "New", "York"], ["O", "I-LOC", "I-LOC"], "x:1", True)
        Marked(text='in New York', spans=[[3, 11, 'LOC']], where='x:1')
    """
    text, places = text_of(words, spaced=False)
    own = tidy_tags(tags) if joined else tags
    spans = [[places[a][0], places[b][1], label] for label, a, b in entities(own, joined=joined)]
    return Marked(text, spans, where)


def _find_lists(look: FirstLook) -> tuple[str, str] | None:
    """Find two columns with lists: words and tags."""
    columns, rows, text, label = look.table.columns, look.rows, look.text, look.label
    named = [text] if isinstance(text, str) else TOKENS
    for words in [name for name in named if name in columns]:
        for tags in [label] if label is not None else [name for name in TAGS if name in columns]:
            pairs = [(items_of(row.get(words)), items_of(row.get(tags))) for row in rows]
            lists = [(w, t) for w, t in pairs if w is not None and t is not None]
            fits = all(
                all(isinstance(item, str) for item in w)
                and all(isinstance(item, (str, int)) for item in t)
                for w, t in lists
            )
            if lists and fits and any(w for w, _ in lists):
                return words, tags
    return None


def _open_lists(look: FirstLook, words: str, tags: str) -> SpanTable:
    table, names = look.table, look.table.classes.get(tags)

    def both(row: Row) -> tuple[list[Any], list[Any]] | None:
        own, marks = items_of(row.values.get(words)), items_of(row.values.get(tags))
        return None if own is None or marks is None else (own, marks)

    def name(tag: Any, row: Row) -> str:
        if isinstance(tag, str) or (names is not None and 0 <= tag < len(names)):
            return label_of(tag if names is None or isinstance(tag, str) else names[tag], row.where)
        what = f"the tag {short_repr(tag)} is a number, and nothing names it"
        raise row.error(
            f"{what}; write names in place of the numbers, "
            f"[names[t] for t in row[{tags!r}]]: datasets has them in "
            f"dataset.features[{tags!r}].feature.names, and its to_parquet keeps them"
        )

    def sentences(joins: bool) -> list[TaggedWords]:
        found = []
        for row in table.rows():
            own, marks = both(row) or ([], [])
            if len(own) != len(marks) or not own:
                raise row.error(f"{words} and {tags} are no lists of as many words as tags")
            others = [item for item in (*own, *marks) if not isinstance(item, str)]
            if others and names is None:
                raise row.error(f"{short_repr(others[0])} is no str; words and names of tags are")
            own_tags = tuple(name(tag, row) for tag in marks)
            found.append(TaggedWords(tuple(own), own_tags, row.where))
        return found

    def read() -> Iterator[Marked]:
        seen = ((row, both(row)) for row in look.first)
        joined = is_joined(name(tag, row) for row, found in seen if found for tag in found[1])
        for row in table.rows():
            found = both(row)
            if found is None or len(found[0]) != len(found[1]):
                why = "no words with tags" if found is None else "not as many tags as words"
                yield Marked(None, Fault(why), row.where)
            else:
                yield marked_words(found[0], [name(t, row) for t in found[1]], row.where, joined)

    layout = f"lists of words and of tags ({words}, {tags})"
    return SpanTable(table.name, layout, read, sentences)


def _find_words(look: FirstLook) -> tuple[str, str, str | None] | None:
    """Find the columns of a table with a word a row: the word, its tag, its sentence if any."""
    rows, text, label = look.rows, look.text, look.label
    by_name = {column.casefold(): column for column in reversed(look.table.columns)}
    words = (
        text if isinstance(text, str) else next((by_name[n] for n in WORDS if n in by_name), None)
    )
    if words is None or not all(isinstance(row.get(words), (str, type(None))) for row in rows):
        return None
    sentence = next((by_name[name] for name in SENTENCES if name in by_name), None)
    for tags in [label] if label is not None else [by_name[n] for n in TAG if n in by_name]:
        values = _filled(rows, tags)
        if tags == words or not values or not all(isinstance(value, str) for value in values):
            continue
        marks = sum(_MARK.fullmatch(value.strip()) is not None for value in values)
        told = sentence is not None and (label is not None or OUTSIDE in values)
        if told or 10 * marks >= 9 * len(values):
            return words, tags, sentence
    return None


def _open_words(look: FirstLook, words: str, tags: str, sentence: str | None) -> SpanTable:
    table = look.table
    if sentence is None and not any(is_blank(row.get(words)) for row in look.rows):
        raise InputError(
            f"{table.name}: no column says which sentence a word is in; call it "
            f"{SENTENCES[0]!r}, or leave a row with an empty {words!r} between sentences. "
            f"{table.listed()}"
        )

    def read() -> Iterator[Marked]:
        joined = is_joined(str(row.values.get(tags)).strip() for row in table.rows())
        own: list[str] = []
        marks: list[str] = []
        where, last = "", None
        for row in table.rows():
            word, number = row.values.get(words), row.values.get(sentence or "")
            begins = not is_blank(number) and number != last
            last = number if begins else last
            if (begins or (is_blank(word) and sentence is None)) and own:
                yield marked_words(own, marks, where, joined)
                own, marks = [], []
            if not is_blank(word):
                where = where if own else row.where
                own.append(str(word).strip())
                marks.append(label_of(row.values.get(tags), row.where))
        if own:
            yield marked_words(own, marks, where, joined)

    return SpanTable(table.name, f"a word and its tag a row ({words}, {tags})", read)


# ---- CoNLL's columns ----


def _conll(path: Path, wanted: Wanted) -> SpanTable:
    layout = layout_of(path, wanted)

    def sentences(joins: bool) -> list[TaggedWords]:
        return read_conll(path, wanted, joins=joins)[1]

    def read() -> Iterator[Marked]:
        found = sentences(True)
        joined = is_joined(tag for one in found for tag in one.tags)
        for one in found:
            yield marked_words(one.words, one.tags, one.where, joined)

    return SpanTable(str(path), layout.said, read, sentences)


# ---- the layouts of tables ----


@dataclass(frozen=True)
class Layout:
    """One way in which tables hold spans."""

    find: Callable[[FirstLook], tuple[Any, ...] | None]
    """Finds the columns that `open` reads; None: the table is of another layout."""
    open: Callable[..., SpanTable]


LAYOUTS = (
    Layout(_find_tasks, _open_tasks),
    Layout(_find_lists, _open_lists),
    Layout(_find_words, _open_words),
    Layout(_find_spans, _open_spans),
)
"""Tables are read by the first that finds its columns."""

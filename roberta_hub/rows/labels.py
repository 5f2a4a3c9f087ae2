"""Reads rows with labels: a class, several, columns of 0 and 1, how likely each class is.

`fit`, `train`, `evaluate` and `compare` read labels here, so that what one learns the others know.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any, Literal, TypeAlias

from roberta_hub.arguments import short_repr
from roberta_hub.errors import InputError, InputTypeError, Remedy
from roberta_hub.rows.formats import row_count
from roberta_hub.rows.left_out import NO_LABEL, NO_WEIGHT, LeftOut, short_place
from roberta_hub.rows.list_text import parse_list
from roberta_hub.rows.tables import Row, Table
from roberta_hub.rows.values import flag_in, is_blank, number_in, to_python
from roberta_hub.terminal import clean

UNWRITABLE_CATEGORIES = ("Cc", "Cs", "Zl", "Zp")
"""Unicode's categories of control characters, half surrogate pairs and line breaks."""
LABEL_SEPARATORS = (",", ";", "|")
"""What people put between labels."""


# ---- a class ----


def label_of(value: Any, where: str) -> str:
    """Read a label as text, without white space around it.

    Example:
        >>> label_of(" good ", "x.tsv:2"), label_of(True, "x.jsonl:1"), label_of(1.0, "x.jsonl:2")
        ('good', 'true', '1.0')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if value is None or isinstance(value, (list, tuple, set, dict, bytes, bytearray)):
        kind = "missing" if value is None else f"a {type(value).__name__}, not text or a number"
        raise InputError(f"{where}: the label is {kind}")
    if isinstance(value, (float, Decimal)) and not math.isfinite(value):
        raise InputError(f"{where}: the label is {value}, which is no class and no number")
    label = str(value).strip()
    if not label:
        raise InputError(f"{where}: the label is empty")
    if not label.isprintable():
        bad = next((c for c in label if unicodedata.category(c) in UNWRITABLE_CATEGORIES), None)
        if bad is not None:
            raise InputError(
                f"{where}: label '{clean(label)[:60]}' holds U+{ord(bad):04X}, a control "
                "character, a line break or half a character; take it out"
            )
    return label


def class_of(value: Any, where: str, known: Collection[str] = ()) -> str:
    """Read one label as `fit` names it: a whole float, as pandas has next to NaN, as an integer.

    Example:
        >>> class_of(1.0, "x.jsonl:1"), class_of(1.0, "x.jsonl:1", ["0.0", "1.0"])
        ('1', '1.0')
    """
    value = to_python(value)
    if isinstance(value, float) and value.is_integer() and str(value) not in known:
        value = int(value)
    return label_of(value, where)


# ---- several ----


def separator_of(value: object) -> str | None:
    """Check what separates the labels in a cell of text; None: nothing does."""
    if value is None or (isinstance(value, str) and value):
        return value
    raise InputTypeError(
        f'separator is {short_repr(value)}; give the text between labels, such as ","'
    )


def parse_cell(value: Any, separator: str | None, texts: bool) -> Any:
    """Return the list or the dict that a cell of text holds; any other value as it is.

    Example:
        >>> parse_cell("a; b;", ";", False), parse_cell("['a']", None, True)
        (['a', 'b'], ['a'])
        >>> parse_cell("a; b", None, True)
        'a; b'
    """
    if not isinstance(value, str):
        return value
    found = parse_list(value) if texts else None
    if found is None and separator is not None:
        return [part.strip() for part in value.split(separator) if part.strip()]
    return value if found is None else found


def labels_of(value: Any, separator: str, where: str) -> tuple[str, ...]:
    """Read the labels of a text that may have many: a list, or text with separators; "" for none.

    Text that writes a list, as tables of Python do, is one.

    Example:
        >>> labels_of("cat, dog", ",", "x.tsv:2"), labels_of([], ",", "x.jsonl:1")
        (('cat', 'dog'), ())
        >>> labels_of("['cat', 'dog']", ",", "x.csv:2")
        ('cat', 'dog')
    """
    many = parse_cell(value, separator, texts=True)
    if isinstance(many, str):
        many = [many] if many.strip() else []
    return tuple(label_of(item, where) for item in (many if isinstance(many, list) else [many]))


def labels_in(value: Any, row: Row, label: str, known: Collection[str] = ()) -> tuple[str, ...]:
    """Read the labels of a text, each once and sorted.

    Example:
        >>> row = Row({}, 1, "x.jsonl:1")
        >>> labels_in({"a": True, "b": 0.0, "c": 0.7, "d": None}, row, "cats")
        ('a', 'c')
        >>> labels_in(["b", "a", "b"], row, "labels"), labels_in("New York, NY", row, "labels")
        (('a', 'b'), ('New York, NY',))
    """
    if isinstance(value, Mapping):
        value = [name for name, amount in value.items() if _amount(name, amount, row, label) >= 0.5]
    items = value if isinstance(value, list) else [value]
    return tuple(sorted({class_of(item, row.where, known) for item in items}))


def graded_words(cells: Sequence[tuple[Row, Any]], label: str) -> list[str]:
    """Say that dicts of labels hold numbers between yes and no; [] where none does."""
    graded = [
        row
        for row, value in cells
        if isinstance(value, Mapping) and any(map(_is_graded, value.values()))
    ]
    if not graded:
        return []
    return [
        f"{label} holds numbers other than 0 and 1 in {row_count(len(graded))}, first "
        f"{short_place(graded[0].where)}; 0.5 and more is a yes"
    ]


def _is_graded(amount: Any) -> bool:
    number = number_in(to_python(amount))
    return number is not None and number not in (0, 1)


def _amount(name: object, value: Any, row: Row, label: str) -> float:
    """Read how much of a label a dict says; a null is as a label that is not there."""
    value = to_python(value)
    if is_blank(value):  # Parquet gives every row all keys
        return 0.0
    yes = flag_in(value)
    number = number_in(value) if yes is None else float(yes)
    if number is None:
        raise row.error(
            f"{label} has {short_repr(name)}: {short_repr(value)}; a dict of labels says true or "
            "false, or a number, of each"
        )
    return number


def flags_in(
    row: Row, columns: Sequence[str], remedy: Remedy | None = None
) -> dict[str, bool] | None:
    """Read the labels of a row that has a column of 0 and 1 for each; None: a cell is empty.

    `remedy` is what an error says that the cells may be instead; see `flags_remedy`.

    Example:
        >>> flags_in(Row({"text": "Fool!", "toxic": "1", "threat": "no"}, 2, "x.csv:2"),
        ...          ["toxic", "threat"])
        {'toxic': True, 'threat': False}
    """
    found: dict[str, bool] = {}
    for column in columns:
        value = to_python(row.values.get(column))
        if is_blank(value):
            return None
        yes = flag_in(value)
        if yes is None:
            raise row.error(
                f"{column} is {short_repr(value)}; a column that is a label of its own holds 0 or "
                "1, true or false, yes or no",
                remedy,
            )
        found[column] = yes
    return found


_AS_SHARES = Remedy(
    "task='classification' reads shares of classes, and names a row whose sum is not 1",
    "--task classification reads shares of classes, and names a row whose sum is not 1",
)
_OTHER_WORDS = Remedy("if each column is a rater, write other words than yes and no, or 0 and 1")
_AS_CLASSES = Remedy(
    "if each column is a rater, task='classification' reads the cells as votes for classes",
    "if each column is a rater, --task classification reads the cells as votes for classes",
)
_AS_VOTES = Remedy(
    "if each column is a rater, task='classification' reads the numbers as votes for classes",
    "if each column is a rater, --task classification reads the numbers as votes for classes",
)


def flags_remedy(cells: Sequence[Mapping[str, Any]]) -> Remedy | None:
    """Say what rows of several columns may be if not truth values; None: nothing that is known.

    Shares look so where most rows add up to 1, and raters' votes where two columns have other words
    or other whole numbers than truth values: in one column that is a slip.

    Example:
        >>> print(flags_remedy([{"Ada": 1, "Bob": 2}, {"Ada": 2, "Bob": 1}]).in_shell)
        if each column is a rater, --task classification reads the numbers as votes for classes
        >>> flags_remedy([{"toxic": 1, "threat": 2}, {"toxic": 0, "threat": 1}])
    """
    others = [
        (column, number_in(to_python(value)))
        for cell in cells
        for column, value in cell.items()
        if not is_blank(value) and flag_in(to_python(value)) is None
    ]
    if others and wrong_sums(cells):
        return _AS_SHARES
    if len({column for column, _ in others}) < 2:
        return None
    if all(number is None for _, number in others):
        return _AS_CLASSES
    whole = all(number is not None and number % 1 == 0 for _, number in others)
    return _AS_VOTES if whole else None


# ---- how likely each class is ----

SUM_TOLERANCE = 0.01
"""Shares of one class may add up to so much more or less than 1."""
Shares: TypeAlias = "tuple[tuple[str, float], ...]"
"""Classes with their shares, above 0 and 1 in all, sorted by name."""


def probabilities_of(value: Any, where: str) -> tuple[float, ...]:
    """Read how likely each class is; the numbers are divided by their sum, 1 up to rounding.

    Example:
        >>> probabilities_of("0.25 0.75", "x.tsv:2"), probabilities_of([0, 1], "x.jsonl:1")
        ((0.25, 0.75), (0.0, 1.0))
    """
    cells = value.split() if isinstance(value, str) else value
    try:
        found = [float(cell) for cell in cells] if isinstance(cells, (list, tuple)) else []
    except (TypeError, ValueError):
        found = []
    if not _is_whole(found):
        raise InputError(
            f"{where}: {str(value)[:60]!r} is not the probability of each class; write numbers "
            "from 0 to 1 with blanks between them, whose sum is 1"
        )
    return tuple(number / sum(found) for number in found)


def _is_whole(shares: Collection[float]) -> bool:
    """Tell numbers from 0 to 1 whose sum is 1, up to rounding."""
    rounding = SUM_TOLERANCE + 1e-9  # three times .33 is .01 less than 1, and a little
    return all(0 <= one <= 1 for one in shares) and abs(sum(shares) - 1) <= rounding


def hold_shares(cells: Iterable[Mapping[str, Any]], *, fractions: bool = True) -> bool:
    """Tell whether cells are shares of one class: each adds up to 1, and some have fractions.

    Without `fractions` they may all be 0 and 1.

    Example:
        >>> hold_shares([{"a": 0.7, "b": 0.3}, {"a": 1, "b": 0}])
        True
        >>> hold_shares([{"a": 1, "b": 0}]), hold_shares([{"a": 0.7, "b": 0.7}])
        (False, False)
    """
    graded = not fractions
    for cell in cells:
        numbers = [number_in(to_python(v)) for v in cell.values() if not is_blank(v)]
        found = [number for number in numbers if number is not None]
        if len(found) < len(numbers) or not _is_whole(found):
            return False
        graded = graded or any(number not in (0, 1) for number in found)
    return graded


def are_nameless_shares(values: Iterable[Any]) -> bool:
    """Tell lists of fractions that add up to 1 each: shares whose classes nobody names.

    Example:
        >>> are_nameless_shares([[0.7, 0.3], [1, 0]]), are_nameless_shares([["a"], ["a", "b"]])
        (True, False)
    """
    rows = list(values)
    if not rows or not all(isinstance(row, (list, tuple)) and len(row) > 1 for row in rows):
        return False
    return hold_shares([{str(i): share for i, share in enumerate(row)} for row in rows])


def hold_percents(cells: Iterable[Mapping[str, Any]]) -> bool:
    """Tell whether most cells add up to 100: shares in percent, which `shares_in` refuses.

    Example:
        >>> hold_percents([{"a": 80, "b": 20}, {"a": 33, "b": 67}, {"a": 80, "b": 15}])
        True
        >>> hold_percents([{"a": 0.8, "b": 0.2}]), hold_percents([])
        (False, False)
    """
    sums = [_sum_in(cell) for cell in cells]
    return 2 * sum(abs(total - 100) <= 1 for total in sums) > len(sums)


def _sum_in(cell: Mapping[str, Any]) -> float:
    """Add up the numbers of a cell; NaN: not all are numbers."""
    numbers = [number_in(to_python(v)) for v in cell.values() if not is_blank(v)]
    return math.nan if None in numbers else math.fsum(n for n in numbers if n is not None)


def wrong_sums(cells: Sequence[Mapping[str, Any]]) -> list[tuple[int, float]]:
    """Number the cells that do not add up to 1 where most are shares of one class; with their sums.

    Example:
        >>> wrong_sums([{"a": 0.7, "b": 0.3}, {"a": 0.7, "b": 0.8}, {"a": 1, "b": 0}])
        [(1, 1.5)]
        >>> wrong_sums([{"a": 0.7, "b": 0.8}, {"a": 1, "b": 0}])
        []
    """
    wrong, others = [], []
    for i, cell in enumerate(cells):
        if hold_shares([cell], fractions=False):
            others.append(cell)
        else:
            wrong.append((i, _sum_in(cell)))
    if len(others) <= len(wrong) or not hold_shares(others):
        return []
    return [(i, total) for i, total in wrong if not math.isnan(total)]


def hold_votes(cells: Iterable[Mapping[str, Any]], *, numbers: bool = False) -> bool:
    """Tell whether all cells are names of classes; with `numbers` some may be 0, 1, yes or no.

    Example:
        >>> hold_votes([{"Ada": "pro", "Bob": "contra"}]), hold_votes([{"Ada": "1", "Bob": "3"}])
        (True, False)
        >>> hold_votes([{"Ada": "1", "Bob": "3"}], numbers=True)
        True
    """
    values = [value for cell in cells for value in cell.values() if not is_blank(value)]
    names = [flag_in(value) is None for value in map(to_python, values)]
    if numbers:
        return any(names)
    return bool(names) and all(names) and all(number_in(to_python(v)) is None for v in values)


def shares_words(held: Held, label: str, several: int, rows: int, how: str) -> str:
    """Say that labels are shares of classes or votes, and how many rows have several.

    Example:
        >>> shares_words("votes", "Ada, Bob", 1, 40, "counted")
        'Ada, Bob holds votes for classes: 1 row of 40 with several, counted as parts of each'
    """
    what = "shares of classes" if held == "shares" else "votes for classes"
    return (
        f"{label} holds {what}: {row_count(several)} of {rows:,} with several, {how} as parts of "
        "each"
    )


def shares_in(value: Mapping[str, Any], row: Row, label: str) -> Shares:
    """Read the shares of a row's classes: a dict, or the cells of a column for each.

    Example:
        >>> shares_in({"good": 0.75, "bad": "0.25", "ugly": None}, Row({}, 1, "x.jsonl:1"), "label")
        (('bad', 0.25), ('good', 0.75))
    """
    amounts = {name: _amount(name, amount, row, label) for name, amount in value.items()}
    if not _is_whole(amounts.values()):
        raise row.error(
            f"{label} is {short_repr(dict(value), 60)}; the shares of one class are from 0 to 1, "
            "and their sum is 1; divide percent by 100"
        )
    named = Counter[str]()
    for name, amount in amounts.items():
        named[label_of(name, row.where)] += amount / sum(amounts.values())  # type: ignore[assignment]
    return tuple(sorted((name, share) for name, share in named.items() if share))


def votes_in(cells: Mapping[str, Any], row: Row, known: Collection[str] = ()) -> Shares:
    """Read the shares that several raters' classes have; an empty cell is no vote.

    Example:
        >>> votes_in({"Ada": "pro", "Bob": "contra", "Eve": ""}, Row({}, 1, "x.jsonl:1"))
        (('contra', 0.5), ('pro', 0.5))
    """
    votes = Counter(class_of(v, row.where, known) for v in cells.values() if not is_blank(v))
    return tuple(sorted((name, count / votes.total()) for name, count in votes.items()))


def top_class(shares: Shares) -> str:
    """Return the class with the largest share, the first by name of equal ones.

    Example:
        >>> top_class((("bad", 0.5), ("good", 0.5)))
        'bad'
    """
    return max(shares, key=lambda share: share[1])[0]


# ---- the weight of a row ----


MAX_WEIGHT = 1e12
"""The heaviest row: sums of squares of such weights stay within float32."""
TOO_HEAVY = f"a weight is at most {MAX_WEIGHT:g}; divide all of them by one number"


def weight_in(row: Row, column: str) -> float:
    """Read how much a row counts: a number from 0 to `MAX_WEIGHT`.

    Example:
        >>> weight_in(Row({"trust": "0.2"}, 2, "x.csv:2"), "trust")
        0.2
    """
    value = to_python(row.values.get(column))
    number = number_in(value)
    if number is None or number < 0:
        said = "empty" if is_blank(value) else short_repr(value)
        raise row.error(f"{column} is {said}; a weight is a number, 0 or more")
    if number > MAX_WEIGHT:
        raise row.error(f"{column} is {short_repr(value)}; {TOO_HEAVY}")
    return number


def counted_weight(row: Row, column: str | None, left: LeftOut) -> float:
    """Read how much a row counts, 1 without a column; 0 leaves the row out, which is counted."""
    weight = 1 if column is None else weight_in(row, column)
    if not weight:
        left.add(NO_WEIGHT, row.where)
    return weight


def scale_of(weights: Collection[float]) -> float:
    """Find what rows' weights are multiplied by: to a mean of 1 where all are below 1, else 1.

    So a weight of 2 counts as two rows, to a regression's prior too, and weights that are shares
    of a whole do not leave less than a row.

    Example:
        >>> scale_of([2, 0.5]), scale_of([0.25, 0.25])
        (1.0, 4.0)
    """
    if max(weights, default=1) >= 1:
        return 1.0
    scale = len(weights) / math.fsum(weights)
    if not math.isfinite(scale):
        raise InputError("the weights are too small for their sum; multiply them")
    return scale


# ---- the rows of a table ----

_NAME_THE_TEXTS = Remedy(
    "text=... names the column of the texts", "--text names the column of the texts"
)
LabelledRow: TypeAlias = "tuple[Row, str | tuple[str, ...], Any]"
"""A row, its text or pair, and what the cells of its labels say; see `labelled_rows`."""


def labelled_rows(
    table: Table, texts: Sequence[str], labels: Sequence[str], left: LeftOut
) -> Iterator[LabelledRow]:
    """Read the rows that have a text, each with Python's own value of its label.

    Of several columns that is a dict of their cells; of none it is None.
    """
    for row in table.rows():
        text = left.text(row, texts, _NAME_THE_TEXTS)
        if text is None:
            continue
        if len(labels) > 1:
            yield row, text, {name: to_python(row.values.get(name)) for name in labels}
        else:
            yield row, text, to_python(row.values.get(labels[0])) if labels else None


def is_unlabelled(value: Any) -> bool:
    """Tell a label's cell that nobody filled: it is blank, or a dict of nothing but blanks.

    Example:
        >>> [is_unlabelled(value) for value in (" ", {"a": None}, {}, [], 0)]
        [True, True, False, False, False]
    """
    if isinstance(value, Mapping):
        return bool(value) and all(map(is_blank, value.values()))
    return is_blank(value)


def is_nan_word(value: Any) -> bool:
    """Tell the word that programs write for a missing number."""
    return isinstance(value, str) and value.strip().casefold() == "nan"


# ---- how a column is read ----

MAX_CLASSES = 20
"""Whole numbers with more different values than this are no classes but a quantity."""
LIST_CELLS_SHARE = 0.9
"""So large a share of the cells must be texts of lists, that all of them are read so."""
SEPARATOR_CELLS_SHARE = 0.1
"""So large a share of the cells must have a separator, that it is likely to be one."""
Held: TypeAlias = Literal["", "flags", "shares", "votes"]
"""What several columns hold, or a column of dicts."""

_DECIMAL = re.compile(r"[+-]?\d+(?:,\d+)?")
"""A number as German and French write it."""


@dataclass(frozen=True)
class Reading:
    """How the cells of labels are read, the same in both tables."""

    task: str
    separator: str | None
    texts: bool
    """Whether a text that looks like a list is one."""
    empty: bool
    """Whether an empty cell says that a text has no label, as a list without items does."""
    nan: bool
    """Whether the word nan is a missing number."""
    several: Held = ""
    """What several columns hold, or a column of dicts: truth values of labels, shares of classes,
    classes of several raters; "": nothing of that."""
    columns: tuple[str, ...] = ()
    """The columns, where they are several."""
    remedy: Remedy | None = None
    """What their cells may be instead, for an error."""

    def is_empty(self, value: Any) -> bool:
        """Tell a cell, or the cells of several columns, that say nothing."""
        if isinstance(value, Mapping) and self.several in ("flags", "shares") and self.columns:
            return any(map(is_blank, value.values()))
        return is_unlabelled(value) or (self.nan and is_nan_word(value))

    def opened(self, row: Row, value: Any) -> Any:
        """Open what a cell holds: the text of a list, the truth values of several columns."""
        if self.several == "flags":
            return flags_in(row, self.columns, self.remedy)
        return parse_cell(value, self.separator, self.texts)

    def shares(self, row: Row, value: Any, label: str, known: Collection[str] = ()) -> Shares:
        """Read the shares of a row's classes; () where it has a label like any other."""
        if self.several == "votes":
            return votes_in(value, row, known)
        if self.several == "shares" and isinstance(value, Mapping):
            return shares_in(value, row, label)
        return ()


def find_reading(
    rows: Sequence[LabelledRow],
    label: str,
    labels: Sequence[str],
    task: str | None,
    separator: str | None,
    notes: list[str],
) -> Reading:
    """Tell how the cells are read, and note what they look like."""
    cells = [(row, value) for row, _, value in rows if not is_blank(value)]
    values = [value for _, value in cells]
    if len(labels) > 1 and separator is not None:
        raise InputError(f"a separator parts the labels of one column; label names {len(labels)}")
    if len(labels) > 1:
        return _reading_of_columns([value for _, _, value in rows], tuple(labels), task)
    if separator is not None and task not in (None, "multi_label"):
        what = "a separator parts labels"
        raise InputError(f"task is {task!r}, and {what}; the task multi_label learns those")
    texts = task in (None, "multi_label") and holds_texts_of_lists(cells, label, notes)
    if separator is not None:
        if not any(isinstance(value, str) and separator in value for value in values):
            notes.append(f"no cell of {label} has the separator {separator!r}")
        return Reading("multi_label", separator, texts, empty=not texts, nan=False)
    values = [parse_cell(value, None, texts) for value in values]
    some = [value for value in values if not is_unlabelled(value)]
    dicts = [value for value in some if isinstance(value, Mapping)]
    # A name among shares is a whole row of that class.
    graded = task is None and all(isinstance(value, (str, Mapping)) for value in some)
    if (graded and (hold_shares(dicts) or hold_percents(dicts))) or (
        dicts and task == "classification"
    ):
        return Reading("classification", None, texts, empty=False, nan=False, several="shares")
    if are_nameless_shares(some):
        raise cells[0][0].error(
            f"{label} is {short_repr(cells[0][1], 60)}: shares without names; write a dict that "
            "names the class of each"
        )
    if any(isinstance(value, (list, Mapping)) for value in values):
        return Reading(task or "multi_label", None, texts, empty=False, nan=False)
    numbers = [value for value in values if not is_nan_word(value)]
    nan = task is None and 0 < len(numbers) < len(values) and None not in map(number_in, numbers)
    task = task or find_task(numbers if nan else values)
    if task != "regression" and (likely := likely_separator(values)):
        notes.append(separator_words(label, likely))
    return Reading(task, None, texts, empty=task == "multi_label", nan=nan)


def _reading_of_columns(
    cells: Sequence[Any], columns: tuple[str, ...], task: str | None
) -> Reading:
    """Tell how the cells of several columns are read."""
    several = held_by_columns(cells, task)
    if several != "flags":
        return Reading(
            "classification", None, False, empty=False, nan=False, several=several, columns=columns
        )
    if task not in (None, "multi_label"):
        raise InputError(
            f"task is {task!r}, and several columns are labels of 0 and 1; the task "
            "multi_label learns those",
            remedy=_OTHER_WORDS if task == "classification" else None,
        )
    remedy = flags_remedy([cell for cell in cells if not is_unlabelled(cell)])
    return Reading(
        "multi_label",
        None,
        False,
        empty=True,
        nan=False,
        several=several,
        columns=columns,
        remedy=remedy,
    )


def held_by_columns(cells: Sequence[Any], task: str | None) -> Held:
    """Tell what several columns hold: labels of 0 and 1, shares of classes, or raters' votes."""
    if task not in (None, "classification"):
        return "flags"
    some = [cell for cell in cells if not is_unlabelled(cell)]
    whole = [cell for cell in some if not any(map(is_blank, cell.values()))]
    one = task == "classification"
    no_votes = hold_percents(whole) or (one and _hold_fractions(whole))
    if no_votes or hold_shares(whole, fractions=not one):
        return "shares"
    return "votes" if hold_votes(some, numbers=one) else "flags"


def _hold_fractions(cells: Sequence[Mapping[str, Any]]) -> bool:
    """Tell numbers with fractions among them, which are no votes."""
    numbers = [number_in(value) for cell in cells for value in cell.values()]
    return None not in numbers and any(n is not None and n % 1 for n in numbers)


def find_task(values: Sequence[Any]) -> str:
    """Tell what labels ask to learn.

    Lists and dicts are several labels for a text. Whole numbers with at most 20 different values
    are classes; other numbers are a quantity, for a regression. Everything else is classes.

    Example:
        >>> find_task(["1", "5"]), find_task([0.5, 1]), find_task(["a", "b"]), find_task([["a"]])
        ('classification', 'regression', 'classification', 'multi_label')
    """
    if any(isinstance(value, (list, tuple, set, frozenset, Mapping)) for value in values):
        return "multi_label"
    numbers = [number_in(value) for value in values]
    if not numbers or None in numbers:
        # An infinite number among numbers is no class; reading them as numbers names it.
        odd = [v for v, number in zip(values, numbers, strict=True) if number is None]
        quantity = len(odd) < len(values) and all(map(_is_infinite, odd))
        return "regression" if quantity else "classification"
    whole = all(number == int(number) for number in numbers if number is not None)
    return "classification" if whole and len(set(numbers)) <= MAX_CLASSES else "regression"


def _is_infinite(value: Any) -> bool:
    try:
        return not isinstance(value, bool) and math.isinf(float(value))
    except (TypeError, ValueError, OverflowError):
        return False


def holds_texts_of_lists(cells: Sequence[tuple[Row, Any]], label: str, notes: list[str]) -> bool:
    """Tell whether the texts of a column are those of lists, as pandas writes them into a CSV."""
    texts = [(row, value) for row, value in cells if isinstance(value, str) and value.strip()]
    others = [(row, value) for row, value in texts if parse_list(value) is None]
    lists = len(texts) - len(others)
    if not lists:
        return False
    if not others:
        return True
    row, value = others[0]
    if lists >= LIST_CELLS_SHARE * len(texts):
        notes.append(
            f"{label} holds texts of lists; {row_count(len(others))} with another text are one "
            f"label each, first {short_place(row.where)} ({short_repr(value, 40)})"
        )
        return True
    if 2 * lists >= len(texts):
        raise row.error(
            f"{label} is {short_repr(value)}, and most other cells are texts of lists; write it as "
            'a list too, such as ["a", "b"]',
            Remedy(
                "task='classification' takes each cell as one label",
                "--task classification takes each cell as one label",
            ),
        )
    row, value = next((row, value) for row, value in texts if parse_list(value) is not None)
    notes.append(
        f"{row_count(lists)} with the text of a list are one label each, as {label} holds other "
        f"texts; first {short_place(row.where)} ({short_repr(value, 40)})"
    )
    return False


def likely_separator(values: Iterable[Any]) -> str | None:
    """Tell what looks like a separator of labels in cells of text; None: nothing does.

    Labels that are joined come again in other cells, alone or with others. So their parts are fewer
    than the different cells; the parts of names such as "New York, NY" are more.

    Example:
        >>> likely_separator(["art, sport", "sport", "sport, war", "art, war", "art"])
        ','
        >>> likely_separator(["New York, NY", "Austin, TX", "Dallas, TX", "Buffalo, NY"])
    """
    cells = Counter(v.strip() for v in values if isinstance(v, str) and v.strip())
    for separator in LABEL_SEPARATORS:
        joined = sum(count for cell, count in cells.items() if separator in cell)
        parts = {part.strip() for cell in cells for part in cell.split(separator)}
        decimal = separator == "," and all(map(_DECIMAL.fullmatch, cells))
        if (
            joined >= SEPARATOR_CELLS_SHARE * cells.total()
            and len(parts) < len(cells)
            and not decimal
        ):
            return separator
    return None


def separator_words(label: str, separator: str) -> str:
    """Say that cells look like several labels, and what to type."""
    return (
        f"{label} looks like several labels in a cell; separator={separator!r} (in a shell "
        f'--separator "{separator}") takes them apart'
    )


# ---- where the labels are known ----


@dataclass(frozen=True)
class KnownRows:
    """The rows of a table that have a text and right labels."""

    rows: list[tuple[Row, str | tuple[str, ...], tuple[str, ...], Shares]]
    """A row, its text or pair, its labels, and where it has several classes their shares: its label
    is then the likeliest."""
    held: Held
    """How its cells were read."""
    notes: list[str]
    """What is unusual about them."""


@dataclass(frozen=True)
class KnownLabels:
    """What the labels of a table may be where heads are asked: `evaluate` and `compare`."""

    names: Collection[str]
    several: bool
    """Whether a text may have several."""

    def rows(
        self, table: Table, texts: Sequence[str], labels: Sequence[str], left: LeftOut
    ) -> KnownRows:
        """Read the rows that have a text and its right labels, as `fit` and `train` learn them.

        What a head of one class is asked for may be shares of classes, or the votes of raters in
        several columns.

        Example:
            >>> from roberta_hub.rows.tables import table_of
            >>> table = table_of({"text": ["x", "y"], "label": ["b; a", None]})
            >>> known, left = KnownLabels(["a", "b"], several=True), LeftOut()
            >>> [own for _, _, own, _ in known.rows(table, ["text"], ["label"], left).rows]
            [('a', 'b')]
            >>> left.counted()
            ('left out: 1 row without a label',)
        """
        # All cells say how each is read; the second pass counts what is left out in row order.
        every = [value for _, _, value in labelled_rows(table, texts, labels, LeftOut())]
        reading = self._reading(every, tuple(labels))
        kept: list[tuple[Row, str | tuple[str, ...], tuple[str, ...], Shares]] = []
        for row, text, value in labelled_rows(table, texts, labels, left):
            if reading.is_empty(value) or self._is_no_number(value):
                left.add(NO_LABEL, row.where)
            else:
                kept.append((row, text, *self._labels(reading, row, value, ", ".join(labels))))
        cells = [(row, self._opened(row.values.get(labels[0]))) for row, *_ in kept]
        notes = graded_words(cells, labels[0]) if self.several and len(labels) == 1 else []
        return KnownRows(kept, reading.several, notes)

    def _reading(self, values: Sequence[Any], columns: tuple[str, ...]) -> Reading:
        """Tell how the cells are read, as `fit` does where the task is known."""
        task = "multi_label" if self.several else "classification"
        held: Held = ""
        if len(columns) > 1:
            held = held_by_columns(values, task)
        elif not self.several and any(isinstance(self._opened(value), Mapping) for value in values):
            held = "shares"
        columns = columns if len(columns) > 1 else ()
        return Reading(task, None, True, empty=False, nan=False, several=held, columns=columns)

    def _labels(
        self, reading: Reading, row: Row, value: Any, label: str
    ) -> tuple[tuple[str, ...], Shares]:
        """Read the labels of a row; the likeliest class, and the shares of several."""
        value = reading.opened(row, value) if reading.columns else self._opened(value)
        if shares := reading.shares(row, value, label, self.names):
            return (top_class(shares),), shares if len(shares) > 1 else ()
        if self.several or reading.several == "flags":
            return labels_in(value, row, label, self.names), ()
        return (class_of(value, row.where, self.names),), ()

    @cached_property
    def _numbers(self) -> bool:
        return any(number_in(name) is not None for name in self.names)

    def _is_no_number(self, value: Any) -> bool:
        """Tell the word nan next to names that are numbers; a known name is a label."""
        return self._numbers and is_nan_word(value) and value.strip() not in self.names

    def _opened(self, value: Any) -> Any:
        """Open a text: a dict, and where there may be several labels a list, or names in a row.

        A known name is a label, whatever it looks like.
        """
        if not isinstance(value, str) or value.strip() in self.names:
            return value
        cell = parse_cell(value, None, texts=True)
        if not self.several:
            return cell if isinstance(cell, Mapping) else value
        for separator in LABEL_SEPARATORS if isinstance(cell, str) else ():
            parts = parse_cell(cell, separator, texts=False)
            if len(parts) > 1 and {*parts} <= {*self.names}:
                return parts
        return cell

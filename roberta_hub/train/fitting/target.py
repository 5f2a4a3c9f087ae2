"""Reads scikit-learn's `y`: a class for each text, lists of labels, or a matrix of 0 and 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roberta_hub.arguments import short_repr
from roberta_hub.errors import InputError, Place
from roberta_hub.rows.frames import list_of
from roberta_hub.rows.labels import (
    MAX_WEIGHT,
    TOO_HEAVY,
    are_nameless_shares,
    label_of,
    scale_of,
)
from roberta_hub.rows.values import is_blank, is_missing, number_in, to_python

if TYPE_CHECKING:
    from numpy.typing import NDArray

SHARES = (
    "shares of classes are learnt by roberta_hub.fit(table), which takes dicts or a column for "
    "each class"
)
"""Where labels go that scikit-learn's tools have no form for."""


@dataclass(frozen=True)
class Target:
    """What is to be answered to each text."""

    labels: list[Any]
    """For each text one of `names`, or a list of them."""
    names: list[str]
    """Names of the classes, as a head has them."""
    classes: NDArray[Any]
    """The classes as the caller has them, in the order of `names`."""
    several: bool
    """Whether a text may have any number of labels."""


def read_target(y: Any, count: int) -> Target:
    """Read the labels of texts.

    Example:
        >>> read_target([2, 1, 2], 3).classes.tolist()
        [1, 2]
        >>> read_target([["a", "b"], []], 2).labels
        [['a', 'b'], []]
        >>> read_target([[1, 0], [1, 1]], 2).labels
        [['0'], ['0', '1']]
    """
    import numpy as np

    if y is None:
        raise InputError("RobertaClassifier requires y to be passed, but the target y is None")
    if hasattr(y, "detach"):  # a tensor
        y = y.detach().cpu().numpy()
    if hasattr(y, "toarray"):  # scipy's sparse matrices
        y = y.toarray()
    columns, dtype = getattr(y, "columns", None), getattr(y, "dtype", None)
    if columns is not None or len(getattr(y, "shape", ())) > 1:
        array = np.asarray(y)
        if array.ndim != 2:
            raise InputError(f"y has shape {array.shape}; give a label or a row for each text")
        values, dtype = array.tolist(), array.dtype
        if array.shape[1] == 1:  # one column is no matrix
            values, columns = array.ravel().tolist(), None
    else:
        values = [v.tolist() if hasattr(v, "tolist") else v for v in list_of(y, "y")]
    if len(values) != count:
        raise InputError(f"X has {count:,} texts and y {len(values):,} labels")
    if not values:
        raise InputError("X and y are empty; there must be texts of two classes at least")
    if not any(isinstance(value, (list, tuple, set, frozenset)) for value in values):
        return _of_classes(values, dtype)
    if columns is dtype is None and are_nameless_shares(values):
        raise InputError(f"y holds {short_repr(values[0])}, shares of classes; {SHARES}")
    lists = [_listed(value, i) for i, value in enumerate(values)]
    if _is_matrix(lists):
        names = list(map(str, range(len(lists[0])) if columns is None else columns))
        classes = np.arange(len(names)) if columns is None else np.array(names, dtype=object)
        labels = [[name for name, one in zip(names, row, strict=True) if one] for row in lists]
        return Target(labels, names, classes, True)
    if columns is not None or dtype is not None:
        said = f"y has {len(lists[0])} columns; a matrix of labels holds 0 and 1 alone"
        raise InputError(f"{said}; {SHARES}")
    labels = [[label_of(one, f"y[{i}]") for one in row] for i, row in enumerate(lists)]
    names = sorted({name for row in labels for name in row})
    return Target(labels, names, np.array(names), True)


def read_weights(sample_weight: Any, count: int) -> list[float] | None:
    """Read how much each text counts; None: all count the same. They are scaled as `fit` does.

    Example:
        >>> read_weights([0, 2, 0.5], 3), read_weights([0.25, 0.25], 2), read_weights(3.0, 2)
        ([0.0, 2.0, 0.5], [1.0, 1.0], None)
    """
    if hasattr(sample_weight, "detach"):  # a tensor
        sample_weight = sample_weight.detach().cpu().numpy()
    alone = to_python(sample_weight)
    single = number_in(alone)
    if (single is not None and single <= 0) or (isinstance(alone, float) and single is None):
        raise InputError(f"sample_weight is {short_repr(sample_weight)}; give a number above 0")
    if sample_weight is None or single is not None:
        return None  # one number for all texts, which scikit-learn allows
    shape = getattr(sample_weight, "shape", ())
    if len(shape) > 1:
        raise InputError(f"sample_weight has shape {tuple(shape)}; give one number for each text")
    values = [to_python(value) for value in list_of(sample_weight, "sample_weight")]
    if len(values) != count:
        raise InputError(f"X has {count:,} texts and sample_weight {len(values):,} numbers")
    found = []
    for i, value in enumerate(values):
        number = number_in(int(value) if isinstance(value, bool) else value)
        if number is None or not 0 <= number <= MAX_WEIGHT:
            heavy = number is not None and number > MAX_WEIGHT
            fault = TOO_HEAVY if heavy else "a weight is a finite number, 0 or more"
            raise InputError(f"is {short_repr(value)}; {fault}", place=Place("sample_weight", i))
        found.append(number)
    if not any(found):
        raise InputError("sample_weight is zero for every text; nothing to learn")
    scale = scale_of(found)
    return [scale * weight for weight in found]


def _of_classes(values: Sequence[Any], dtype: Any) -> Target:
    """Number the classes as `numpy.unique` does: sorted, and of the type that they have."""
    import numpy as np

    for i, value in enumerate(values):
        fault = "is missing" if is_missing(value) else "is empty" if is_blank(value) else ""
        if is_missing(value) and isinstance(value, float):
            fault = "is NaN; Input y contains NaN"  # scikit-learn's words
        elif isinstance(value, float) and value in (float("inf"), -float("inf")):
            fault = "is infinite; Input y contains infinity"
        elif isinstance(value, float) and not value.is_integer():
            fault = (
                f"is {short_repr(value)}, no class (Unknown label type: continuous); for numbers "
                "there is roberta_hub.fit(table, task='regression')"
            )
        if fault:
            raise InputError(fault, place=Place("y", i))
    array = np.array(values, dtype=object if dtype is not None and dtype.kind == "O" else None)
    try:
        classes, places = np.unique(array, return_inverse=True)
    except TypeError:  # no order among several types
        kinds = ", ".join(sorted({type(value).__name__ for value in values}))
        advice = SHARES if kinds == "dict" else "give labels of one type"
        raise InputError(f"y holds {kinds}; {advice}") from None
    names = [_name(value) for value in classes.tolist()]
    if len(set(names)) < len(names):
        raise InputError(f"y has labels that differ in white space alone: {short_repr(names)}")
    return Target([names[place] for place in places.tolist()], names, classes, False)


def check_learnable(target: Target) -> None:
    """Refuse to learn one class; what is scored may hold one."""
    if len(target.classes) < 2 and not target.several:
        only = short_repr(target.classes.tolist()[0])
        raise InputError(f"y holds one class, {only}; classes to tell apart must be at least two")


REFUSED_LABEL = "rejected"
"""What `predict` gives for a refused text, where classes are str and no other is named."""
_NO_THIRD = "two truth values have no third, give y as text"


def refused_label(reject: object, label: Any, target: Target) -> Any:
    """Return what is given for a refused text, of the classes' type; None: no text is refused.

    Example:
        >>> refused_label(0.05, -1, read_target([2, 1, 2], 3))
        -1
    """
    if reject is None or target.several:
        if label is not None and reject is None:
            raise InputError("reject_label means nothing without reject=...")
        return None  # reject=... of several labels is what `fit` refuses
    classes = target.classes.tolist()
    kind = type(classes[0]).__name__
    if label is None:
        if not all(isinstance(one, str) for one in classes):
            raise InputError(
                f"reject=... has no label for refused texts, as the classes are {kind}; "
                + (_NO_THIRD if kind == "bool" else "reject_label=... names one, such as -1")
            )
        label = REFUSED_LABEL
    label = _of_type(label.item() if hasattr(label, "item") else label, kind)
    if label_of(label, "reject_label") in target.names:
        raise InputError(
            f"reject_label is {short_repr(label)}, which is a class; name another value"
        )
    return label


def _of_type(label: Any, kind: str) -> str | int:
    """Read the label of refused texts as classes of a type are read: text, or a whole number."""
    if kind == "str" and isinstance(label, str):
        return label_of(label, "reject_label")
    whole = isinstance(label, int) and not isinstance(label, bool)
    if kind == "float" and isinstance(label, float) and label.is_integer():
        label, whole = int(label), True
    if kind in ("str", "bool") or not whole:
        wanted = "a whole number, such as -1," if kind == "float" else "a value of their type"
        more = f"; {_NO_THIRD}" if kind == "bool" else ""
        raise InputError(
            f"reject_label is {short_repr(label)}, and the classes are {kind}; give {wanted} that "
            f"is none of them{more}"
        )
    return int(label)


def with_refused(found: NDArray[Any], refused: NDArray[Any], label: Any) -> NDArray[Any]:
    """Put the label of refused texts into answers; texts get as wide as they must be.

    Example:
        >>> import numpy as np
        >>> with_refused(np.array(["a", "b"]), np.array([False, True]), "rejected").tolist()
        ['a', 'rejected']
    """
    import numpy as np

    other = np.array([label], dtype=object if found.dtype == object else None)
    kind = np.promote_types(found.dtype, other.dtype)
    return np.where(refused, other.astype(kind), found.astype(kind))


def _name(value: Any) -> str:
    whole = isinstance(value, float)  # all of them are, as 1.0
    return label_of(int(value) if whole else value, "y")


def _listed(value: Any, i: int) -> list[Any]:
    if not isinstance(value, (list, tuple, set, frozenset)):
        raise InputError(f"{short_repr(value)} among lists of labels", place=Place("y", i))
    return sorted(value) if isinstance(value, (set, frozenset)) else list(value)


def _is_matrix(rows: Sequence[list[Any]]) -> bool:
    """Tell rows of 0 and 1 of one length from lists of labels."""
    width = len(rows[0])
    return width > 1 and all(
        len(row) == width and all(isinstance(one, (int, float)) and one in (0, 1) for one in row)
        for row in rows
    )

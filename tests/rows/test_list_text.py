"""The text of a list is read as the list that was written, and nothing else is one."""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roberta_hub.rows.list_text import MAX_LIST_CHARACTERS, parse_list

VALUES = st.one_of(st.text(), st.integers(), st.booleans(), st.floats(allow_infinity=False))


def same(found: Any, wanted: Any) -> bool:
    """Compare, with NaN as the null that `listed` makes of it where Python wrote it."""
    return len(found) == len(wanted) and all(
        (one is None or one != one) if other != other else one == other
        for one, other in zip(found, wanted, strict=True)
    )


@pytest.mark.system
@settings(deadline=None)
@given(st.lists(VALUES))
def test_what_python_and_json_write_is_read(values: list[Any]) -> None:
    for text in (str(values), str(tuple(values)), json.dumps(values)):
        assert same(parse_list(text), values), text


@settings(deadline=None)
@given(st.lists(st.text().filter(lambda text: "\0" not in text)))
def test_what_numpy_writes_is_read(values: list[str]) -> None:
    assert parse_list(str(np.array(values, dtype=object))) == values
    assert parse_list(str([np.str_(value) for value in values])) == values
    assert set(parse_list(str(set(values))) or ()) == set(values)
    assert set(parse_list(str(frozenset(values))) or ()) == set(values)


@settings(deadline=None)
@given(st.dictionaries(st.text(), st.one_of(st.booleans(), st.integers(), st.floats(0, 1))))
def test_dicts(values: dict[str, Any]) -> None:
    for text in (str(values), json.dumps(values)):
        assert parse_list(text) == values


@pytest.mark.parametrize(
    "text",
    [
        "", "a", "[music]", "[a, b]", "(a)", "(5)", "('a')", "['a'", "['a']['b']", "['a'] or ['b']",
        "[1, 2, ...]", "[['a'], ['b']]", "{'a': ['b']}", "{'a': 1, 'b'}", "['a': 1]", "[b'a']",
        "[,]", "['a',,'b']", "['\\U001FFFFF']", "[__import__('os')]", "[1 + 1]", "[lambda: 0]",
    ],
)  # fmt: skip
def test_what_is_no_list(text: str) -> None:
    assert parse_list(text) is None


HOSTILE = (
    "[" * 60_000 + "]" * 40_000,
    "['" + "\\" * 99_000 + "']",
    "[" + "a:" * 49_000 + "]",
    "[" + "1 " * 49_000 + "[]",
    "[" + "np.a(" * 19_000 + "]",
    "[1" + " " * 99_000 + "[]",
    "[" + "'a " * 33_000 + "]",
    "[" + "9" * 90_000 + "]",
    "{" + '"a":' * 20_000 + "}",
)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_text_is_soon_refused(text: str) -> None:
    began = time.process_time()
    parse_list(text)
    assert time.process_time() - began < 1


def test_a_text_that_is_too_long_stays_one() -> None:
    names = ["a" * 99] * (MAX_LIST_CHARACTERS // 100)
    assert parse_list(str(names[:-40])) == names[:-40]
    assert parse_list(str(names)) is None

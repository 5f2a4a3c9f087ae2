"""Every case by row and name, and where a row does not apply."""

from __future__ import annotations

from functools import cache

from . import control, dictionaries, files, network, processes, tensors, text, weights
from .case import Case

FIRST_WITH_MODEL = 38
"""Rows from here on use one loaded model, which a helper loads before it forks."""
MODULES = (control, network, processes, files, weights, dictionaries, text, tensors)

TITLES: dict[int, str] = {}
NOT_APPLICABLE: dict[tuple[int, str], str] = {}
for _module in MODULES:
    TITLES |= _module.TITLES
    NOT_APPLICABLE |= _module.NOT_APPLICABLE


@cache
def cases() -> dict[tuple[int, str], Case]:
    """All cases in order of rows."""
    found = sorted((case for module in MODULES for case in module.CASES), key=lambda x: x.row)
    by_name = {(case.row, case.name): case for case in found}
    assert len(by_name) == len(found), "two cases of one row share a name"
    return by_name


def case(row: int, name: str) -> Case:
    return cases()[row, name]

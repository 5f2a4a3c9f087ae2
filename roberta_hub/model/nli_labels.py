"""Finds entailment and contradiction among the labels of a head."""

from __future__ import annotations

from collections.abc import Sequence

ENTAILMENT = "entailment"
"""Label that identifies a head for natural-language inference."""


def entailment_index(labels: Sequence[str]) -> int | None:
    """Find the class that means entailment; None: no label does.

    That is "entailment", else the only label that begins with "entail", as in transformers, else
    "e" where the others are "c" and "n", in any case.

    Example:
        >>> entailment_index(["CONTRADICTED", "ENTAILED"]), entailment_index(["e", "n", "c"])
        (1, 0)
        >>> entailment_index(["LABEL_0", "LABEL_1"]) is None
        True
    """
    return _nli_class(labels, ENTAILMENT, "entail")


def contradiction_index(labels: Sequence[str]) -> int | None:
    """Find the class that means contradiction; None: no label does.

    That is "contradiction", else the only label that begins with "contr", else "c" as "e" is found,
    else of three the one next to entailment and "neutral".

    Example:
        >>> contradiction_index(["e", "n", "c"]), contradiction_index(["entails", "contradicts"])
        (2, 1)
        >>> contradiction_index(["refuted", "neutral", "entailed"])
        0
    """
    found = _nli_class(labels, "contradiction", "contr")
    others = (entailment_index(labels), _nli_class(labels, "neutral", "neutr"))
    known = {index for index in others if index is not None}
    if found is None and len(labels) == 3 and len(known) == 2:
        (found,) = {0, 1, 2} - known
    return found


def _nli_class(labels: Sequence[str], name: str, start: str) -> int | None:
    names = [label.strip().lower() for label in labels]
    if name in names:
        return names.index(name)
    found = [i for i, own in enumerate(names) if own.startswith(start)]
    if not found and {"c", "e"} <= set(names) <= {"c", "e", "n"}:
        found = [i for i, own in enumerate(names) if own == start[0]]
    return found[0] if len(found) == 1 else None

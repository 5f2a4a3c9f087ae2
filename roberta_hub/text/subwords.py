"""Joins subwords to a sentence, for every kind of subword that fairseq's `post_process` knows."""

from __future__ import annotations

import re

from roberta_hub.errors import UnknownNameError

_JOINED = {"sentencepiece": "\u2581", "wordpiece": "_", "letter": "|", "_EOW": "_EOW"}
"""Kinds whose spaces all go; what then stands for a space in each."""
KINDS = (*_JOINED, "silence", "subword_nmt", "@@ ", "@@", "none")
"""Every `bpe_symbol` besides None."""


def join_subwords(sentence: str, kind: str | None) -> str:
    """Join the subwords of a sentence (`fairseq/data/data_utils.py post_process`).

    Args:
        sentence: symbols separated by spaces.
        kind: one of `KINDS`; None leaves the sentence as it is.

    Raises:
        UnknownNameError: another kind.

    Example:
        >>> join_subwords("h e | s a w", "letter"), join_subwords("a <SIL> b", "silence")
        ('he saw', 'a b')
    """
    if kind is None or kind == "none":
        return sentence
    if kind in _JOINED:
        return sentence.replace(" ", "").replace(_JOINED[kind], " ").strip()
    if kind == "silence":
        return re.sub(" +", " ", sentence.replace("<SIL>", "")).strip()
    if kind in ("subword_nmt", "@@ ", "@@"):
        mark = "@@" if kind == "@@" else "@@ "
        return (sentence + " ").replace(mark, "").rstrip()
    raise UnknownNameError(f"bpe_symbol {kind!r} is none of None, {', '.join(map(repr, KINDS))}")

"""fairseq's `examples/roberta/wsc/wsc_utils.py`: files of WSC and Winogrande, and noun phrases.

Sentences are taken as they are written: fairseq passes them through Moses' detokenizer first.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from roberta_hub.errors import InputError
from roberta_hub.inference.pronouns import english_pipeline
from roberta_hub.rows.lines import lines

_PUNCTUATION = '.,"'


def convert_sentence_to_json(sentence: str) -> dict[str, Any]:
    """Write a sentence whose [pronoun] and _query_ are marked as a row of WSC.

    Args:
        sentence: with one pair of brackets, and underscores around the query or none.

    Example:
        >>> row = convert_sentence_to_json("The dog bit _the man_ because [he] ran.")
        >>> row["text"]
        'The dog bit the man because he ran.'
        >>> row["target"]["span1_text"], row["target"]["span2_index"]
        ('the man', 6)
    """
    query, place = None, None
    if "_" in sentence:
        prefix, query = sentence.split("_", 2)[:2]
        place = len(prefix.rstrip().split(" "))
    if sentence.count("[") != 1 or sentence.count("]") != 1:
        raise InputError(f"{sentence[:100]!r}: mark the pronoun, once, with square brackets")
    prefix, rest = sentence.split("[")
    return {
        "idx": 0,
        "text": re.sub(r"[_\[\]]", "", sentence),
        "target": {
            "span1_index": place,
            "span1_text": query,
            "span2_index": len(prefix.rstrip().split(" ")),
            "span2_text": rest.split("]")[0],
        },
    }


def jsonl_iterator(
    input_fname: str | os.PathLike[str],
    positive_only: bool = False,
    ngram_order: int = 3,
    eval: bool = False,
) -> Iterator[tuple[Any, ...]]:
    """Read a file of WSC.

    Args:
        input_fname: SuperGLUE's JSONL.
        positive_only: leave out rows whose query is wrong.
        ngram_order: changes nothing, as in fairseq.
        eval: True marks [pronoun] and _query_ in the text, for `roberta.disambiguate_pronoun`.

    Yields:
        (sentence, label) with `eval`, else (spaCy's Doc, Span of the pronoun, query, label). The
        label of a row without one is None.

    Raises:
        InputError: a row that cannot be read, with its file and line.
    """
    for where, row in _rows(input_fname):
        label, target = row.get("label"), row.get("target")
        if not isinstance(target, dict) or not isinstance(row.get("text"), str):
            raise InputError("a row of WSC has 'text' and 'target'", place=where)
        query = target.get("span1_text")
        if (positive_only and "label" in row and not label) or "\n" in (query or ""):
            continue
        if query is not None and query.endswith((".", ",")):
            query = query[:-1]
        start, end = _pronoun(row["text"], target, where)
        if eval:
            yield _marked(row["text"], (start, end), query, where), label
        else:
            doc = english_pipeline()(row["text"])
            yield doc, doc.char_span(start, end, alignment_mode="expand"), query, label


def winogrande_jsonl_iterator(
    input_fname: str | os.PathLike[str], eval: bool = False
) -> Iterator[tuple[str, tuple[int, int], str, str]]:
    """Read a file of Winogrande.

    Args:
        input_fname: its JSONL.
        eval: True takes the first option as the query, whatever the answer is.

    Yields:
        (sentence, place of its blank, query, other option).

    Raises:
        InputError: a row that cannot be read, with its file and line.
    """
    for where, row in _rows(input_fname):
        sentence, options = row.get("sentence"), [row.get("option1"), row.get("option2")]
        if not isinstance(sentence, str) or "_" not in sentence or None in options:
            raise InputError("a row of Winogrande has 'sentence' with _, and options", place=where)
        if not eval and row.get("answer") != "1":
            options.reverse()
        blank = sentence.index("_")
        yield sentence, (blank, blank + 1), str(options[0]), str(options[1])


def extended_noun_chunks(sentence: Any) -> list[Any]:
    """Return spaCy's noun chunks, and its runs of nouns, as spans in order."""
    spans = {(chunk.start, chunk.end) for chunk in sentence.noun_chunks}
    kinds = [token.pos_ if token.pos_ in ("NOUN", "PROPN") else "" for token in sentence]
    start = 0
    for place in range(1, len(kinds) + 1):
        if place == len(kinds) or kinds[place] != kinds[start]:
            if kinds[start]:
                spans.add((start, place))
            start = place
    return [sentence[first:last] for first, last in sorted(spans)]


def filter_noun_chunks(
    chunks: Iterable[Any],
    exclude_pronouns: bool = False,
    exclude_query: str | None = None,
    exact_match: bool = False,
) -> list[Any]:
    """Leave out pronouns, and what overlaps the query.

    Args:
        chunks: spans of spaCy's.
        exclude_pronouns: leave out spans of nothing but pronouns.
        exclude_query: leave out spans that are part of it, or it of them; None: none.
        exact_match: leave out the query itself alone.
    """
    kept = []
    for chunk in chunks:
        text, query = chunk.text.lower(), (exclude_query or "").lower()
        alike = text == query or (not exact_match and (text in query or query in text))
        pronouns = all(token.pos_ == "PRON" for token in chunk)
        if not (exclude_pronouns and pronouns) and not (exclude_query is not None and alike):
            kept.append(chunk)
    return kept


def find_token(sentence: Any, start_pos: int) -> Any:
    """Return the token that begins at a character; None: none does."""
    return next((token for token in sentence if token.idx == start_pos), None)


def find_span(sentence: Any, search_text: str, start: int = 0) -> Any:
    """Return the first span of whole tokens with this text, whatever its case; None: none has it.

    Args:
        sentence: spaCy's Doc.
        search_text: of the span.
        start: number of the token to begin at.
    """
    length = len(search_text)
    for token in sentence[start:]:
        if sentence.text[token.idx : token.idx + length].lower() == search_text.lower():
            span = sentence.char_span(token.idx, token.idx + length)
            if span is not None:
                return span
    return None


def get_spacy_nlp() -> Any:
    """Return an installed English pipeline of spaCy's, the largest first."""
    return english_pipeline()


def _rows(path: str | os.PathLike[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Read JSON objects, one a line, each with its place."""
    for number, line in lines(Path(path)):
        where = f"{os.fspath(path)}:{number}"
        try:
            row = json.loads(line)
        except ValueError as error:
            raise InputError(f"no JSON: {error}", place=where) from None
        if not isinstance(row, dict):
            raise InputError("no JSON object", place=where)
        yield where, row


def _pronoun(text: str, target: dict[str, Any], where: str) -> tuple[int, int]:
    """Find the characters of the pronoun; some of WSC's places are one word too low."""
    pronoun, place = str(target.get("span2_text")).rstrip(_PUNCTUATION), target.get("span2_index")
    words = text.split(" ")
    for at in (place, place + 1) if isinstance(place, int) and place >= 0 else ():
        if pronoun and at < len(words) and words[at].rstrip(_PUNCTUATION) == pronoun:
            start = sum(len(word) + 1 for word in words[:at])
            return start, start + len(pronoun)
    raise InputError(f"{pronoun!r} does not stand at word {place}", place=where)


def _marked(text: str, pronoun: tuple[int, int], query: object, where: str) -> str:
    """Put brackets around the pronoun, and underscores around the query where it first stands."""
    places = re.finditer(rf"(?<!\w){re.escape(str(query))}(?!\w)", text, re.IGNORECASE)
    spans = [found.span() for found in places if not _overlap(found.span(), pronoun)]
    if not query or not spans:
        raise InputError(f"the query {query!r} does not stand in the text", place=where)
    marks = sorted([(*pronoun, "[", "]"), (*spans[0], "_", "_")], reverse=True)
    for start, end, left, right in marks:
        text = f"{text[:start]}{left}{text[start:end]}{right}{text[end:]}"
    return text


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] < other[1] and other[0] < one[1]

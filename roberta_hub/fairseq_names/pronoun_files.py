"""fairseq's `examples/roberta/wsc/wsc_utils.py`: files of WSC and Winogrande, and noun phrases.

Sentences are taken as they are written: fairseq passes them through Moses' detokenizer first.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from roberta_hub.errors import InputError
from roberta_hub.inference.pronouns import english_pipeline, noun_phrases, place_in_wsc
from roberta_hub.rows.tables import Row, open_table


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
    for row in open_table(Path(input_fname), "jsonl").rows():
        label, target, text = (row.values.get(name) for name in ("label", "target", "text"))
        if not isinstance(target, dict) or not isinstance(text, str):
            raise row.error("a row of WSC has 'text' and 'target'")
        query = target.get("span1_text")
        if (positive_only and "label" in row.values and not label) or "\n" in (query or ""):
            continue
        if query is not None and query.endswith((".", ",")):
            query = query[:-1]
        pronoun, word = str(target.get("span2_text")), target.get("span2_index")
        there = place_in_wsc(text, pronoun, word)
        if there is None:
            raise row.error(f"{pronoun!r} does not stand at word {word}")
        place = there[1], there[1] + len(there[0])
        if eval:
            yield _marked(row, text, place, query), label
        else:
            doc = english_pipeline()(text)
            yield doc, doc.char_span(*place, alignment_mode="expand"), query, label


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
    for row in open_table(Path(input_fname), "jsonl").rows():
        sentence, *options = (row.values.get(name) for name in ("sentence", "option1", "option2"))
        if not isinstance(sentence, str) or "_" not in sentence or None in options:
            raise row.error("a row of Winogrande has 'sentence' with _, and options")
        if not eval and row.values.get("answer") != "1":
            options.reverse()
        blank = sentence.index("_")
        yield sentence, (blank, blank + 1), str(options[0]), str(options[1])


def extended_noun_chunks(sentence: Any) -> list[Any]:
    """See `noun_phrases`."""
    return noun_phrases(sentence)


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
    """See `english_pipeline`."""
    return english_pipeline()


def _marked(row: Row, text: str, pronoun: tuple[int, int], query: object) -> str:
    """Put brackets around the pronoun, and underscores around the query where it first stands."""
    places = re.finditer(rf"(?<!\w){re.escape(str(query))}(?!\w)", text, re.IGNORECASE)
    spans = [found.span() for found in places if not _overlap(found.span(), pronoun)]
    if not query or not spans:
        raise row.error(f"the query {query!r} does not stand in the text")
    marks = sorted([(*pronoun, "[", "]"), (*spans[0], "_", "_")], reverse=True)
    for start, end, left, right in marks:
        text = f"{text[:start]}{left}{text[start:end]}{right}{text[end:]}"
    return text


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] < other[1] and other[0] < one[1]


OFFERED: tuple[Callable[..., Any], ...] = (
    convert_sentence_to_json,
    extended_noun_chunks,
    filter_noun_chunks,
    find_span,
    find_token,
    get_spacy_nlp,
    jsonl_iterator,
    winogrande_jsonl_iterator,
)
"""What a script can import of fairseq's module."""

"""Scores a tagger's spans on held-out rows, with a dictionary lookup as baseline."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

import torch

from roberta_hub.inference.batching import Runner
from roberta_hub.inference.tag import OUTSIDE, Span, merge_spans, split_words, tag_words
from roberta_hub.measures.counts import Counts, count_labels, f1, f1s, precision_recall_f1
from roberta_hub.measures.intervals import bootstrap_interval, share_interval
from roberta_hub.settings import WordRule
from roberta_hub.train.fitting.evaluation import FEW_JUDGED_ROWS, MISTAKES_KEPT, compare_with_guess
from roberta_hub.train.fitting.fitted import Judged
from roberta_hub.train.fitting.scores import EvaluationKind, Mistake, Scores
from roberta_hub.train.fitting.spans import Annotated
from roberta_hub.train.fitting.spans import Span as Place
from roberta_hub.train.fitting.tag_examples import RULE

AROUND = 24
"""Characters on either side of a span that are shown with a mistake."""
LONGEST = 12
"""Parts of a span that is looked up; longer ones hardly come twice."""
LOOKED_UP = "the spans of the training, looked up by their texts"


@dataclass(frozen=True)
class Tagged:
    """What a tagger says of a text."""

    spans: list[Span]
    outside: list[tuple[int, int, float]]
    """(start, end, probability) of each word that it leaves outside of spans."""


def tagged(
    runner: Runner, texts: Sequence[str], head: str, labels: Sequence[str], rule: WordRule
) -> list[Tagged]:
    """Ask a tagger as `tag` does, and keep how sure it is of what it leaves outside."""
    words = [split_words(text, rule) for text in texts]
    found = []
    for text, own, said in zip(
        texts, words, tag_words(runner, texts, words, head, labels, rule), strict=True
    ):
        names, scores = [name for name, _ in said], [score for _, score in said]
        outside = [
            (start, end, score)
            for (start, end), (name, score) in zip(own, said, strict=True)
            if name == OUTSIDE
        ]
        found.append(Tagged(merge_spans(text, own, names, scores, labels), outside))
    return found


def judge_spans(
    rows: Sequence[Annotated],
    answers: Sequence[Tagged],
    learnt: Sequence[Annotated],
    how: EvaluationKind = "held out",
) -> Scores:
    """Measure the spans that were found: a span is right if its edges and its label are.

    Micro-F1, precision and recall, and those of each label, are seqeval's. The interval is by
    tables drawn from the rows.

    Example:
        >>> rows = [Annotated("Ada met Bob", ((0, 3, "PER"), (8, 11, "PER")), "x:1")]
        >>> answers = [Tagged([Span("PER", 0, 3, "Ada", 0.9)], [(4, 7, 0.9), (8, 11, 0.6)])]
        >>> found = judge_spans(rows, answers, [Annotated("Ada", ((0, 3, "PER"),), "y:1")])
        >>> found.numbers["precision"], found.numbers["recall"], found.confusion["PER", "missed"]
        (1.0, 0.5, 1)
    """
    given = [{(s.start, s.end, s.label) for s in answer.spans} for answer in answers]
    known = looked_up(learnt)
    simple = [look_up(row.text, known) for row in rows]
    wanted = [{*row.spans} for row in rows]
    counts = count_labels(wanted, given, itemgetter(2))
    simple_counts = count_labels(wanted, simple, itemgetter(2))
    found = precision_recall_f1(*counts.totals())
    right, missed, _ = counts.totals()
    interval = bootstrap_interval(counts.rows, f1s)
    if found["f1"] in (0.0, 1.0):  # of which all tables that are drawn have the same
        interval = share_interval(found["f1"], max(right + missed, 1))
    both = torch.cat([counts.rows, simple_counts.rows], 1)
    better = bootstrap_interval(both, lambda means: f1s(means[:, :3]) - f1s(means[:, 3:]))
    return Scores(
        task="tagging",
        how=how,
        count=len(rows),
        numbers={
            "F1": found["f1"],
            "precision": found["precision"],
            "recall": found["recall"],
        },
        interval=interval,
        simplest=f1(*simple_counts.totals()),
        guess=LOOKED_UP,
        conclusions=(
            compare_with_guess(LOOKED_UP, better, len(rows), how),
            *_about(counts, round(right + missed)),
        ),
        recalls={},
        remedy=None,
        confusion=dict(counts.labels),
        bins=(),
        mistakes=_mistakes(rows, answers),
    )


def judged(rows: Sequence[Annotated], answers: Sequence[Tagged]) -> tuple[Judged, ...]:
    """Pair each judged row's spans with those found."""
    return tuple(
        Judged(
            row.text,
            row.where,
            row.spans,
            tuple((s.start, s.end, s.label) for s in answer.spans),
            None,
        )
        for row, answer in zip(rows, answers, strict=True)
    )


def _about(counts: Counts, spans: int) -> list[str]:
    """Say which labels were never found, and whether there are too few spans to say much."""
    found = {label: counts.of(label) for label, _ in counts.labels}
    lost = [(label, missed) for label, (right, missed, _) in found.items() if missed and not right]
    lost.sort(key=lambda item: -item[1])
    said = [f"no {label} was found (0 of {missed})" for label, missed in lost[:3]]
    if len(lost) > 3:
        said.append(f"nor was any of {len(lost) - 3} other labels")
    return ([f"{spans} spans are few to judge by"] if spans < FEW_JUDGED_ROWS else []) + said


# ---- spans, looked up ----


def looked_up(learnt: Sequence[Annotated]) -> dict[str, str]:
    """List the texts that are spans at least every second time they occur, each with its label."""
    labels: dict[str, Counter[str]] = defaultdict(Counter)
    for row in learnt:
        for start, end, label in row.spans:
            labels[row.text[start:end]][label] += 1
    longest = min(max((len(split_words(text, RULE)) for text in labels), default=0), LONGEST)
    there: Counter[str] = Counter()
    for row in learnt:
        parts = split_words(row.text, RULE)
        for i, (start, _) in enumerate(parts):
            seen = (row.text[start:end] for _, end in parts[i : i + longest])
            there.update(text for text in seen if text in labels)
    return {
        text: own.most_common(1)[0][0]
        for text, own in labels.items()
        if text in there and 2 * own.total() >= there[text]
    }


def look_up(text: str, known: Mapping[str, str]) -> set[Place]:
    """Find the longest known spans of a text, from the left.

    Example:
        >>> sorted(look_up("New York and York", {"York": "LOC", "New York": "LOC"}))
        [(0, 8, 'LOC'), (13, 17, 'LOC')]
    """
    parts, found, i = split_words(text, RULE), set(), 0
    longest = max((len(split_words(span, RULE)) for span in known), default=0)
    while i < len(parts):
        start = parts[i][0]
        ends = [end for _, end in parts[i : i + longest] if text[start:end] in known]
        if ends:
            found.add((start, ends[-1], known[text[start : ends[-1]]]))
        i += 1
        while ends and i < len(parts) and parts[i][0] < ends[-1]:
            i += 1
    return found


# ---- mistakes ----


def _mistakes(rows: Sequence[Annotated], answers: Sequence[Tagged]) -> list[Mistake]:
    """Collect the surest: spans that are no such spans, and spans of which nothing was found."""
    wrong = []
    for row, answer in zip(rows, answers, strict=True):
        wanted = set(row.spans)
        for span in answer.spans:
            if (span.start, span.end, span.label) in wanted:
                continue
            over = next((w for w in row.spans if w[0] < span.end and span.start < w[1]), None)
            right = "nothing" if over is None else _written(row.text, over)
            said = _written(row.text, (span.start, span.end, span.label))
            wrong.append(Mistake(_context(row.text, span), row.where, right, said, span.score))
        for start, end, label in row.spans:
            own = [p for a, b, p in answer.outside if a < end and start < b]
            covered = any(s.start < end and start < s.end for s in answer.spans)
            if own and not covered:
                place = Span(label, start, end, "", sum(own) / len(own))
                right = _written(row.text, (start, end, label))
                wrong.append(
                    Mistake(_context(row.text, place), row.where, right, "nothing", place.score)
                )
    return sorted(wrong, key=lambda mistake: -mistake.score)[:MISTAKES_KEPT]


def _written(text: str, span: Place) -> str:
    start, end, label = span
    return f"{label} '{' '.join(text[start:end].split())}'"


def _context(text: str, span: Span) -> str:
    """Write a span in brackets, with its context."""
    before, after = text[: span.start][-AROUND:], text[span.end :][:AROUND]
    left = "..." if span.start > AROUND else ""
    right = "..." if len(text) > span.end + AROUND else ""
    return f"{left}{before}[{text[span.start : span.end]}]{after}{right}"

"""Tells where a peer first differs, and which fault explains it.

Our model makes each fault itself; the one after which our answers are the peer's is named. A fault
that explains nothing is not named, and what no fault explains is called unknown.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from statistics import median
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from roberta_hub.text.tokenizer import Text
from roberta_hub.verification.faults import (
    Fault,
    no_truncation,
    pairs_of,
    precision_faults,
    truncation,
)
from roberta_hub.verification.records import Finding, Kind
from roberta_hub.verification.setup import Change, Setup, unchanged
from roberta_hub.verification.texts import Probe

SAME = 2e-5
"""Relative distance up to which numbers are the same: float32 makes about 1e-6."""
EXPLAINS = 0.1
"""A fault explains a difference that it leaves less than this part of."""
MOST_FAULTS = 4
"""Faults listed for one question."""
MIN_AGREEMENT = 0.3
"""Cosine of two differences from which one rounding is taken for the other: unlike ones have 0."""
MANY = 100
"""Numbers that show the direction of a rounding; where there are fewer more texts are taken."""
SPREAD = 5
"""How many times the usual rounding that of a text may be."""
CHANCE = 3
"""Standard deviations of a cosine by chance, over which it is none."""
MOST_PAIRED = 12
"""Faults of which two are tried together, those that leave least."""
PROBE_TEXTS = 3
"""Texts that say whether a fault is worth asking more."""
ONCE, MOST_TEXTS = (0.5, 1.6), 0.8
"""A fault is hidden by a rounding where this many times its effect is left in this part of texts.
By chance that is a quarter of them at most."""
LEAST_EFFECT = 0.05
"""Part of what is left that a fault must make to be looked for in it."""
LEAST_LEFT = 0.999
"""Part of a difference over which a fault that leaves it explains nothing, under a rounding."""
MOST_LEFT = 0.5
"""The same where no rounding is known: what is left of a fault that is there is less than it."""
MOST_CUTS = 300
"""Lengths that are tried one by one."""

Own = Callable[[Setup, Sequence[Text]], "list[Tensor]"]
Theirs = Callable[[Sequence[Text]], "list[Tensor | None]"]


@dataclass
class Question:
    """What both are asked: ids, states or vectors of the same texts."""

    stage: str
    """What it is, for reports."""
    asked: Sequence[Probe]
    own: Own
    theirs: Theirs
    _known: dict[Text, Tensor | None] = field(default_factory=dict)
    _ours: WeakKeyDictionary[Setup, dict[Text, Tensor]] = field(default_factory=WeakKeyDictionary)

    def answers(self, texts: Sequence[Text], change: Change = unchanged) -> list[Tensor | None]:
        """What the peer says to texts; each is asked once. None: it refuses the text."""
        given = [changed_text(text, change) for text in texts]
        new = [text for text in dict.fromkeys(given) if text not in self._known]
        self._known.update(zip(new, self.theirs(new), strict=True))
        return [self._known[text] for text in given]

    def ours(self, setup: Setup, texts: Sequence[Text]) -> list[Tensor]:
        """What our model says to texts, as long as somebody holds its setup."""
        known = self._ours.setdefault(setup, {})
        if new := [text for text in dict.fromkeys(texts) if text not in known]:
            known.update(zip(new, self.own(setup, new), strict=True))
        return [known[text] for text in texts]

    def gaps(self, state: State, texts: Sequence[Text]) -> list[float]:
        """How far the peer is from our model, of each text; infinitely where it says nothing."""
        theirs = self.answers(texts, state.change)
        taken = [i for i, answer in enumerate(theirs) if answer is not None]
        ours = dict(zip(taken, self.ours(state.setup, [texts[i] for i in taken]), strict=True))
        return [gap(theirs[i], ours[i]) if i in ours else math.inf for i in range(len(texts))]


@dataclass(frozen=True)
class State:
    """Our model with the faults that were found, and what the peer is asked in place of a text."""

    setup: Setup
    change: Change = unchanged
    faults: tuple[Fault, ...] = ()
    rounding: Fault | None = None
    """In which precision the peer is known to answer; the setup does not do it."""

    def with_fault(self, fault: Fault) -> State:
        """Return the same with one fault more."""
        before, asked = self.change, fault.asked
        change = before if asked is unchanged else (lambda text: asked(before(text)))
        return State(fault.own(self.setup), change, (*self.faults, fault), self.rounding)


def changed_text(text: Text, change: Change) -> Text:
    """Change each sentence of a text or pair."""
    if isinstance(text, str):
        return change(text)
    return tuple(change(part) for part in text)


def gap(theirs: Tensor | None, ours: Tensor) -> float:
    """Relative distance of two answers; infinite where their shapes differ or one is not finite.

    Ids are the same or not: 0 or 1.

    Example:
        >>> gap(torch.tensor([3.0, 4.0]), torch.tensor([3.0, 4.0]))
        0.0
    """
    if not ours.is_floating_point():
        return float(theirs is None or not torch.equal(theirs, ours))
    if theirs is None or theirs.shape != ours.shape:
        return math.inf
    difference = float((theirs.double() - ours.double()).norm())
    if not math.isfinite(difference):
        return math.inf
    size = float(ours.double().norm())
    return difference / size if size else difference


def diagnose(
    question: Question,
    state: State,
    faults: Sequence[Fault],
    *,
    of_texts: Sequence[Fault] = (),
    cuts: Callable[[Sequence[Text], State], Iterable[Fault]] | None = None,
    same: float = SAME,
    dtype: str = "float32",
) -> tuple[list[Finding], State, float]:
    """Explain how a peer's answers differ from ours."""
    plain = [asked.text for asked in question.asked if asked.plain]
    findings, state, left = _explain_all(question, state, faults, plain, same)
    limit = same
    if left > same and not question.ours(state.setup, plain)[0].is_floating_point():
        findings.append(_unknown(question, *_worst(question, state, plain)))
        return findings, state, math.inf
    near = [far for far in question.gaps(state, plain) if far < SPREAD * same]
    if left > same or max(near, default=0.0) > same:
        rounding = _rounding(question, state, plain)
        looked_for = faults if left > same else ()
        hidden, state = _under_rounding(question, state, rounding, looked_for)
        findings += hidden
        left = median(question.gaps(state, plain))
        if rounding is None and hidden and left > same:
            rounding = _rounding(question, state, plain)
        if rounding is not None:
            findings.append(_precision(question, state, rounding, plain, dtype))
            limit = max(same, SPREAD * max(question.gaps(state, plain)))
            state = replace(state, rounding=rounding)
        elif left > same:
            findings.append(_unknown(question, *_worst(question, state, plain)))
            return findings, state, math.inf
    more, state = _explain_some(question, state, of_texts, cuts, limit)
    return findings + more, state, limit


def _explain_all(
    question: Question, state: State, faults: Sequence[Fault], plain: Sequence[Text], same: float
) -> tuple[list[Finding], State, float]:
    """Name the faults that all texts show, the one that explains most first."""
    findings: list[Finding] = []
    left = median(question.gaps(state, plain))
    while left > same and len(findings) < MOST_FAULTS:
        named = {finding.name for finding in findings}
        singles = [(fault,) for fault in faults if fault.name not in named]
        ranked = _ranked(question, state, singles, plain, same)
        chosen = _best(question, state, ranked, plain, left, same)
        if chosen is None and not findings:
            near = pairs_of([group[0] for _, group in ranked[:MOST_PAIRED]])
            ranked = _ranked(question, state, near, plain, same)
            chosen = _best(question, state, ranked, plain, left, same)
        if chosen is None:
            break
        group, state, after = chosen
        findings += [_finding(question, fault, left, after, ()) for fault in group]
        left = after
    return findings, state, left


def _ranked(
    question: Question,
    state: State,
    groups: Iterable[tuple[Fault, ...]],
    plain: Sequence[Text],
    same: float,
) -> list[tuple[float, tuple[Fault, ...]]]:
    """Order faults by what they leave of a difference in a few texts, the least first."""
    found = []
    for group in groups:
        left = median(question.gaps(reduce(State.with_fault, group, state), plain[:PROBE_TEXTS]))
        found.append((max(left, same), group))
    return sorted(found, key=lambda one: one[0])


def _best(
    question: Question,
    state: State,
    ranked: Sequence[tuple[float, tuple[Fault, ...]]],
    plain: Sequence[Text],
    before: float,
    same: float,
) -> tuple[tuple[Fault, ...], State, float] | None:
    """Find the faults that leave least of a difference; None: none explains it."""
    found: list[tuple[float, int, tuple[Fault, ...], State]] = []
    for number, (left, group) in enumerate(ranked):
        if left > max(same, before / 2):
            break
        tried = reduce(State.with_fault, group, state)
        after = median(question.gaps(tried, plain))
        found.append((after, number, group, tried))
        if after <= EXPLAINS * before and after <= same:
            break
    after, _, group, tried = min(found, default=(math.inf, 0, (), state), key=lambda one: one[:2])
    return (group, tried, after) if after <= EXPLAINS * min(before, 1.0) else None


# ---- precision ----


def _rounding(question: Question, state: State, plain: Sequence[Text]) -> Fault | None:
    """Find the rounding that a difference is; None: it is none.

    What rounding does to numbers has a direction: that of the peer and that of our model with the
    same rounding are alike, and no fault's is. So it is not taken for one of the same size.
    """
    texts = list(plain)
    if sum(own.numel() for own in question.ours(state.setup, texts)) < MANY:
        short = [probe.text for probe in question.asked if not probe.long]
        most = SPREAD * median(question.gaps(state, plain))
        gaps = question.gaps(state, short)
        texts = [text for text, far in zip(short, gaps, strict=True) if far <= most]
    theirs, exact = _stacked(question, state, texts)
    if theirs is None:
        return None
    difference = theirs - exact
    least = max(MIN_AGREEMENT, CHANCE / math.sqrt(len(exact)))
    best: tuple[float, Fault] | None = None
    for fault in precision_faults():
        made = _stacked(question, state.with_fault(fault), texts)[1] - exact
        cosine = float(torch.cosine_similarity(difference, made, dim=0))
        if _as_large(difference, made) and cosine > max(least, best[0] if best else 0):
            best = (cosine, fault)
    if best is None and state.rounding is not None:  # few numbers show no direction
        made = _stacked(question, state.with_fault(state.rounding), texts)[1] - exact
        return state.rounding if _as_large(difference, made) else None
    return best and best[1]


def _as_large(difference: Tensor, made: Tensor) -> bool:
    return 0.2 < float(difference.norm() / made.norm().clamp(min=1e-30)) < 5


def _precision(
    question: Question, state: State, rounding: Fault, plain: Sequence[Text], dtype: str
) -> Finding:
    name = dtype if dtype in ("float16", "bfloat16") else rounding.name
    said = rounding.said if name == rounding.name else f"computes in {name}"
    before = median(question.gaps(state, plain))
    after = median(question.gaps(state.with_fault(rounding), plain))
    finding = _finding(question, replace(rounding, name=name, said=said), before, after, ())
    return replace(finding, kind="precision")


def _under_rounding(
    question: Question, state: State, rounding: Fault | None, faults: Sequence[Fault]
) -> tuple[list[Finding], State]:
    """Name faults that a rounding of the answers hides, in part or whole.

    What is left of the difference after the rounding is compared with what a fault does, text by
    text: noise is as much of it as chance will have, and a fault is one time it in nearly all.
    """
    texts = [probe.text for probe in question.asked if not probe.long]
    findings: list[Finding] = []
    while len(findings) < MOST_FAULTS:
        best: tuple[float, Fault] | None = None
        theirs = question.answers(texts, state.change)
        rounded = question.ours(_rounded(state, rounding).setup, texts)
        exact = question.ours(state.setup, texts)
        before = median(question.gaps(_rounded(state, rounding), texts))
        for fault in faults:
            if fault.name in {finding.name for finding in findings}:
                continue
            spoiled = question.ours(state.with_fault(fault).setup, texts)
            shares = _shares(theirs, rounded, exact, spoiled)
            once = sum(ONCE[0] < share < ONCE[1] for share in shares)
            if shares and once >= MOST_TEXTS * len(shares):
                left = median(question.gaps(_rounded(state.with_fault(fault), rounding), texts))
                if left > (MOST_LEFT if rounding is None else LEAST_LEFT) * before:  # by chance
                    continue
                best = min(best or (math.inf, fault), (left, fault), key=lambda one: one[0])
        if best is None:
            break
        left, fault = best
        findings.append(_finding(question, fault, before, left, ()))
        state = state.with_fault(fault)
    return findings, state


def _rounded(state: State, rounding: Fault | None) -> State:
    return state if rounding is None else state.with_fault(rounding)


def _shares(
    theirs: Sequence[Tensor | None],
    rounded: Sequence[Tensor],
    exact: Sequence[Tensor],
    spoiled: Sequence[Tensor],
) -> list[float]:
    """How many times what a fault does is in what is left of each text's difference."""
    found = []
    for answer, near, own, other in zip(theirs, rounded, exact, spoiled, strict=True):
        if answer is None or not answer.shape == own.shape == other.shape:
            continue
        made, left = (other - own).flatten(), (answer.double() - near).flatten()
        if float(made.norm()) > LEAST_EFFECT * float(left.norm()):
            found.append(float(left @ made / (made @ made)))
    return found if len(found) >= len(theirs) // 2 else []


def _stacked(
    question: Question, state: State, texts: Sequence[Text]
) -> tuple[Tensor | None, Tensor]:
    theirs = question.answers(texts, state.change)
    ours = question.ours(state.setup, texts)
    fitting = all(t is not None and t.shape == o.shape for t, o in zip(theirs, ours, strict=True))
    flat = torch.cat([own.double().flatten() for own in ours])
    if not fitting:
        return None, flat
    return torch.cat([own.double().flatten() for own in theirs if own is not None]), flat


# ---- single texts ----


def _explain_some(
    question: Question,
    state: State,
    faults: Sequence[Fault],
    cuts: Callable[[Sequence[Text], State], Iterable[Fault]] | None,
    limit: float,
) -> tuple[list[Finding], State]:
    """Name the faults that some texts show, the one that explains most of them first."""
    texts = [asked.text for asked in question.asked]
    findings: list[Finding] = []
    while wrong := _differing(question, state, texts, limit):
        open_faults = [*faults, *(cuts(wrong, state) if cuts else ())]
        named = {finding.said for finding in findings}
        chosen: tuple[list[Text], Fault, State] | None = None
        for fault in sorted(open_faults, key=lambda fault: not fault.by_design):
            if fault.said in named or len(findings) >= MOST_FAULTS:
                continue
            tried = state.with_fault(fault)
            still = _differing(question, tried, wrong, limit)
            fewer = len(still) < len(chosen[0] if chosen else wrong)
            if fewer and set(_differing(question, tried, texts, limit)) <= set(wrong):
                chosen = (still, fault, tried)
                if fault.by_design:
                    break
        if chosen is None:
            before = question.gaps(state, wrong)
            worst = max(range(len(wrong)), key=lambda i: before[i])
            findings.append(_unknown(question, wrong[worst], before[worst], tuple(wrong)))
            break
        still, fault, after = chosen
        solved = tuple(text for text in wrong if text not in still)
        gaps = max(question.gaps(state, solved)), max(question.gaps(after, solved))
        findings.append(_finding(question, fault, *gaps, solved))
        state = after
    return findings, state


def _differing(question: Question, state: State, texts: Sequence[Text], limit: float) -> list[Text]:
    gaps = question.gaps(state, texts)
    return [text for text, far in zip(texts, gaps, strict=True) if far > limit]


def cuts_of_ids(question: Question) -> Callable[[Sequence[Text], State], Iterable[Fault]]:
    """Make faults of the lengths at which ids end."""

    def cuts(wrong: Sequence[Text], state: State) -> list[Fault]:
        lengths = {len(ids) for ids in question.answers(wrong, state.change) if ids is not None}
        return [truncation(length) for length in sorted(lengths) if length < state.setup.limit]

    return cuts


def cuts_of_vectors(question: Question) -> Callable[[Sequence[Text], State], Iterable[Fault]]:
    """Make the fault of the length at which a text's vector no longer changes."""

    def cuts(wrong: Sequence[Text], state: State) -> Iterable[Fault]:
        def length(text: Text) -> int:
            return len(state.setup.ids(text))

        right = [asked.text for asked in question.asked if asked.text not in wrong]
        text = min((text for text in wrong if length(text) > 16), key=length, default=None)
        if text is None:
            return ()
        if state.setup.limit < state.setup.model.max_positions():
            whole = no_truncation(state.setup)
            (before,), (after,) = (
                question.gaps(tried, [text]) for tried in (state, state.with_fault(whole))
            )
            if after <= EXPLAINS * before:
                return [whole]
        least = max((n for n in map(length, right) if n < length(text)), default=3)
        lengths = list(range(least, length(text)))
        if len(lengths) > MOST_CUTS:
            lengths = [n for n in lengths if n % 2 == 0][-MOST_CUTS:]
        by_gap = [(question.gaps(state.with_fault(truncation(n)), [text])[0], n) for n in lengths]
        return [truncation(min(by_gap)[1])] if by_gap else ()

    return cuts


# ---- findings ----


def _worst(question: Question, state: State, texts: Sequence[Text]) -> tuple[Text, float]:
    gaps = question.gaps(state, texts)
    worst = max(range(len(texts)), key=lambda i: gaps[i])
    return texts[worst], gaps[worst]


def _finding(
    question: Question, fault: Fault, before: float, after: float, texts: Sequence[Text]
) -> Finding:
    kind: Kind = "by design" if fault.by_design else "fault"
    return Finding(kind, fault.name, fault.said, question.stage, before, after, tuple(texts))


def _unknown(question: Question, text: Text, before: float, texts: Sequence[Text] = ()) -> Finding:
    said = "differs, and none of the faults that are looked for explains it"
    shown = tuple(texts) or (text,)
    return Finding("fault", "unknown", said, question.stage, before, before, shown)


def first_difference(theirs: Sequence[int], ours: Sequence[int]) -> int:
    """Place at which two sequences of ids part.

    Example:
        >>> first_difference([0, 5, 6, 2], [0, 5, 7, 2])
        2
    """
    pairs = itertools.zip_longest(theirs, ours)
    return next((i for i, (one, other) in enumerate(pairs) if one != other), len(ours))

"""What `verify` found: the record, and its report."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from roberta_hub.show.facts import Facts, Note
from roberta_hub.show.markdown import code, inline
from roberta_hub.show.report import Report, Reported, Section, markdown_table, said
from roberta_hub.text.tokenizer import Text

Kind = Literal["fault", "precision", "by design", "not asked"]
Verdict = Literal["same", "precision", "different", "incomplete"]
_SHOWN_TEXTS = 3


@dataclass(frozen=True)
class Stage:
    """A place at which both were compared."""

    name: str
    """"ids", "embeddings", "layer 3", "vectors" and so on."""
    difference: float
    """Largest relative distance over all texts; of ids the share of texts that differ."""
    same: bool
    """Whether it is no more than rounding makes."""
    text: Text | None = None
    """The text that is farthest off."""
    where: str = ""
    """Which piece differs, and how, where ids were compared."""


@dataclass(frozen=True)
class Finding:
    """What the peer does otherwise."""

    kind: Kind
    """A fault; less precision; a known difference, by design; or an answer that was not asked."""
    name: str
    """"positions", "activation", "pooling" and so on; "unknown": nothing explains it."""
    said: str
    """What the peer does, in words."""
    stage: str
    """Where it was found."""
    before: float
    """Relative distance of the peer from our model."""
    after: float
    """The same once our model does as the peer does."""
    texts: tuple[Text, ...] = ()
    """The texts that show it; (): all."""

    @property
    def explained(self) -> float | None:
        """Part of the difference that this explains, 0 to 1; None: it is no matter of distance.

        What else a peer rounds cannot be repeated here, so that a precision has no such share.
        """
        is_far = self.stage != "ids" and self.name != "unknown"
        if not is_far or self.kind == "precision":
            return None
        if not (math.isfinite(self.before) and math.isfinite(self.after)) or not self.before:
            return None
        return max(0.0, 1 - self.after / self.before)

    def __str__(self) -> str:
        where = ""
        if self.texts:
            shown = ", ".join(_short(text) for text in self.texts[:_SHOWN_TEXTS])
            more = len(self.texts) - _SHOWN_TEXTS
            where = f"; seen in {shown}" + (f" and {more} more" if more > 0 else "")
        share = self.explained
        left = "" if share is None else f" ({100 * share:.1f} % of the difference)"
        return f"{self.said}{left}{where}"


@dataclass(frozen=True)
class Verification(Reported):
    """How a peer answers, compared with a model.

    Example:
        >>> found = Verification("roberta.tiny", "model.onnx", "onnxruntime 1.32", (
        ...     Stage("vectors", 4e-7, True),), (), 40, compared=("vectors",))
        >>> found.ok, found.verdict
        (True, 'same')
        >>> print(found)
        model.onnx answers as roberta.tiny does: the same vectors, within 1e-06, on 40 texts
    """

    model: str
    peer: str
    reader: str
    """What answered for the peer, with its version."""
    stages: tuple[Stage, ...]
    findings: tuple[Finding, ...]
    texts: int
    """How many both answered."""
    cosine: float = 1.0
    """Least cosine of two answers that should be alike."""
    least_cosine: float = 0.99
    """Under which less precision is a failure."""
    asked: int = 0
    """How many both were asked about; 0: as many as they answered."""
    compared: tuple[str, ...] = ()
    """Answers that were compared: "ids", "hidden states", "vectors", "labels of mnli" and so on."""
    uncompared: Mapping[str, str] = field(default_factory=dict)
    """Answers of the model, or of both, that were not compared, each with the reason."""

    @property
    def faults(self) -> tuple[Finding, ...]:
        """What is wrong with the peer."""
        return tuple(found for found in self.findings if found.kind == "fault")

    @property
    def verdict(self) -> Verdict:
        """Whether the peer is right, right in less precision, or not; or was not asked in full."""
        if self.faults:
            return "different"
        if any(found.kind == "not asked" for found in self.findings):
            return "incomplete"
        return "precision" if any(f.kind == "precision" for f in self.findings) else "same"

    @property
    def ok(self) -> bool:
        """Whether there is no fault, all that both give was asked, and precision is enough."""
        enough = self.verdict == "precision" and self.cosine >= self.least_cosine
        return self.verdict == "same" or enough

    @property
    def first(self) -> Stage | None:
        """Where the peer first differs; None: nowhere."""
        return next((stage for stage in self.stages if not stage.same), None)

    def report(self) -> Report:
        """Build what is shown, on every face."""
        headline, left = self._headline(), [f"not compared: {line}" for line in self._left()]
        closing = [f"Not compared: {inline(line)}." for line in self._left()]
        sections = [
            said(headline, f"**{self._said}**: {inline(headline)}"),
            *self._first(),
            *self._found(),
            Section([f"  {line}" for line in left], parts=[*map(Note, left)]),
            self._distances(),
            Section(markdown=[*closing, f"Asked: {self.reader}, {self.texts} texts."]),
        ]
        title = f"{self.peer} compared with {self.model}: {self._said}"
        heading = f"{code(self.peer)} compared with {code(self.model)}"
        return Report(title, sections, heading, exit=0 if self.ok else 1)

    def _first(self) -> list[Section]:
        if self.first is None or self.verdict != "different":
            return []
        return [Section([f"  first differs at: {_place(self.first)}"])]

    def _found(self) -> list[Section]:
        if not self.findings:
            return []
        rows = [[_title(f), f.said, f.stage, _far(f.before), _far(f.after)] for f in self.findings]
        head = ["", "what", "where", "distance before", "after"]
        named = [(_title(f), str(f)) for f in self.findings]
        lines = [f"  {title}: {what}" for title, what in named]
        return [Section(lines, markdown_table([head, *rows], left=(0, 1, 2)), [Facts(named)])]

    def _distances(self) -> Section:
        """The distance at each stage; the text has it of the first that differs."""
        rows, named = [["stage", "farthest", ""]], []
        for s in self.stages:
            far = _far(s.difference)
            rows.append([s.name, far, "same" if s.same else s.where or "differs"])
            where = f"; {s.where}" if s.where else ""
            named.append((s.name, f"{far}{'' if s.same else '  differs'}{where}"))
        title = Note("relative distance, stage by stage:")
        return Section((), markdown_table(rows, left=(0, 2)), [title, Facts(named)])

    @property
    def _what(self) -> str:
        """What was compared, in words."""
        *most, last = self.compared or ("answers",)
        return f"{', '.join(most)} and {last}" if most else last

    @property
    def _said(self) -> str:
        """The verdict in words, with what it is about."""
        return {
            "same": f"the same {self._what}",
            "precision": f"the same {self._what}, in less precision",
            "different": "different",
            "incomplete": "not asked in full",
        }[self.verdict]

    def _headline(self) -> str:
        worst = max((s.difference for s in self.stages if s.name != "ids"), default=0.0)
        few = f"{self.texts} of {self.asked}" if self.texts < self.asked else f"{self.texts}"
        on = f"on {few} texts"
        if self.verdict in ("same", "incomplete"):
            said = f"the same {self._what}" + (f", within {_power(worst)}" if worst else "")
            if self.verdict == "same":
                return f"{self.peer} answers as {self.model} does: {said}, {on}"
            return f"{self.peer} was not asked all that it and {self.model} give: {said}, {on}"
        if self.verdict == "precision":
            least = f"least cosine {self.cosine:.5f}"
            short = "" if self.ok else f", under {self.least_cosine:g}"
            said = f"{self._what}, {least}{short}, {on}"
            return f"{self.peer} answers as {self.model} does in less precision: {said}"
        count = f"{len(self.faults)} fault" + "s" * (len(self.faults) > 1)
        return f"{self.peer} does not answer as {self.model} does: {count}, {on}"

    def _left(self) -> list[str]:
        """Answers that were not compared, by reason; those of a finding are said there."""
        asked = {found.name for found in self.findings if found.kind == "not asked"}
        reasons: dict[str, list[str]] = {}
        for name, why in self.uncompared.items():
            if name not in asked:
                reasons.setdefault(why, []).append(name)
        return [f"{', '.join(names)} ({why})" for why, names in reasons.items()]

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain words and numbers, which `json.dumps` takes."""
        return {
            "model": self.model,
            "peer": self.peer,
            "reader": self.reader,
            "verdict": self.verdict,
            "ok": self.ok,
            "texts": self.texts,
            "asked": max(self.asked, self.texts),
            "compared": list(self.compared),
            "uncompared": dict(self.uncompared),
            "cosine": self.cosine,
            "least_cosine": self.least_cosine,
            "first_difference": None if self.first is None else _place(self.first),
            "stages": [
                {
                    "name": stage.name,
                    "difference": _number(stage.difference),
                    "same": stage.same,
                    "text": _plain(stage.text),
                    "where": stage.where or None,
                }
                for stage in self.stages
            ],
            "findings": [
                {
                    "kind": found.kind,
                    "name": found.name,
                    "said": found.said,
                    "stage": found.stage,
                    "before": _number(found.before),
                    "after": _number(found.after),
                    "explained": found.explained,
                    "texts": [_plain(text) for text in found.texts],
                }
                for found in self.findings
            ],
        }


def _title(found: Finding) -> str:
    return found.name if found.kind == "fault" else f"{found.kind}, {found.name}"


def _place(stage: Stage) -> str:
    at = f" of {_short(stage.text)}" if stage.text is not None else ""
    return f"{stage.name}{at}" + (f": {stage.where}" if stage.where else "")


def _short(text: Text) -> str:
    shown = text if isinstance(text, str) else " | ".join(text)
    return repr(shown if len(shown) <= 40 else shown[:37] + "...")


def _plain(text: Text | None) -> str | list[str] | None:
    return list(text) if isinstance(text, tuple) else text


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _power(value: float) -> str:
    """The power of ten that a distance is within."""
    return f"{10.0 ** math.ceil(math.log10(value)):.0e}"


def _far(value: float) -> str:
    return f"{value:.1e}" if math.isfinite(value) else "no number"

"""Holds which way of learning was taken, and what the others would have reached."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from roberta_hub.show.bars import Bar, Bars
from roberta_hub.show.display import Part
from roberta_hub.show.facts import Note
from roberta_hub.show.terminal_text import TERMINAL_COLUMNS


@dataclass(frozen=True)
class Tried:
    """A way of learning, and what it reached by cross-validation on the learning rows alone."""

    name: str
    """In words: "regression on frozen vectors", "the head, then the body"."""
    score: float | None = None
    """The first number of `Scores`, cross-validated; None: it was not tried."""
    work: float | None = None
    """Seconds of two cores that it is counted at, as tokens times parameters."""
    why_not: str = ""
    """Why it was not tried; "" where it was."""


@dataclass(frozen=True)
class Choice:
    """Which way of learning was taken, and why."""

    taken: str
    """The name of one of `ways`."""
    why: str
    """A sentence: "the best of three by cross-validation"."""
    ways: tuple[Tried, ...] = ()
    measure: str = ""
    """What the scores of `ways` are: "accuracy", "micro-F1", "Spearman"."""

    def said(self) -> str:
        """Write the way that was taken, and why."""
        return f"learnt by {self.taken}" + (f": {self.why}" if self.why else "")

    def summary(self) -> str:
        """Write the way that was taken, why, and a line for each way.

        Example:
            >>> ways = (Tried("head alone", 0.81), Tried("all", why_not="over two minutes"))
            >>> choice = Choice("head alone", "nothing else fits", ways, "accuracy")
            >>> print(choice.summary())
            learnt by head alone: nothing else fits
              accuracy  0.810  head alone (taken)
                            -  all: over two minutes
        """
        lines = [textwrap.fill(self.said(), TERMINAL_COLUMNS, subsequent_indent="  ")]
        width = len(self.measure)
        for i, way in enumerate(self.ways):
            score = "-" if way.score is None else f"{way.score:.3f}"
            note = " (taken)" if way.name == self.taken else ""
            note += f": {way.why_not}" if way.why_not else ""
            name = self.measure if i == 0 else ""
            line = f"  {name:<{width}}  {score:>5}  {way.name}{note}"
            lines.append(
                textwrap.fill(line, TERMINAL_COLUMNS, subsequent_indent=" " * (width + 11))
            )
        return "\n".join(lines)

    def parts(self) -> list[Part]:
        """Draw the same, with a bar for each way that was tried."""
        tried = [way for way in self.ways if way.score is not None]
        bars = [
            Bar(way.name, f"{way.score:.3f}", way.score, "taken" * (way.name == self.taken))
            for way in tried
        ]
        others = [
            f"{way.name} ({way.why_not})" if way.why_not else way.name
            for way in self.ways
            if way.score is None
        ]
        found: list[Part] = [Note(self.said()), *([Bars(bars)] if bars else [])]
        return found + ([Note(f"not tried: {', '.join(others)}")] if others else [])

"""Draws what roberta.tiny answers, for the README: docs/images/answers-light.svg and -dark.svg.

    python tools/draw_answers.py

The texts are those of the README's first block. Each picture holds its numbers in `<metadata>`; a
test asks the model again and compares.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

from svg_text import SANS, text, width  # noqa: E402

PICTURES = {name: ROOT / f"docs/images/answers-{name}.svg" for name in ("light", "dark")}
MASKED = "They have lived here for many <mask>."
TOPIC, LABELS = "The team scored twice.", ("sports", "politics", "cooking")
PAIR = ("A child is painting a fence in the garden.", "Nobody is painting anything.")
QUERY = "When can I visit?"
TEXTS = ("You can pay by card.", "The museum opens at nine.", "Dogs are not allowed.")
WIDTH, PANEL, GAP, HEIGHT = 1000, 490, 20, 190
INSIDE, ROW, SIZE, CODE = 18, 25, 14, 13
"""The margin in a panel, the height of a bar's row, and the sizes of words and of code."""
LETTER = width("x", CODE, mono=True)
METADATA = re.compile("<metadata>(.*?)</metadata>", re.DOTALL)

Bars = list[tuple[str, float]]


@dataclass(frozen=True)
class Colours:
    """Of one scheme, as GitHub's pages have them."""

    ink: str
    faint: str
    line: str
    ground: str
    bar: str
    against: str


SCHEMES = {
    "light": Colours("#1f2328", "#59636e", "#d1d9e0", "#f6f8fa", "#0969da", "#bc4c00"),
    "dark": Colours("#f0f6fc", "#9198a1", "#3d444d", "#151b23", "#4493f8", "#db6d28"),
}


def answered() -> dict[str, Any]:
    """Ask the model, and round what it says to two digits."""
    import roberta_hub

    roberta = roberta_hub.load_model()
    words = roberta.fill_mask(MASKED, topk=4)
    topic = roberta.zero_shot(TOPIC, list(LABELS))
    shown = roberta.explain(PAIR, "mnli").to_dict()
    hits = roberta.search(QUERY, list(TEXTS), topk=3)
    pair = roberta.classify([PAIR])[0]
    return {
        "fill_mask": [[word.strip(), round(share, 2)] for _, share, word in words],
        "zero_shot": ranked(topic.scores),
        "classify": ranked(pair.scores),
        "explain": [
            [word["sentence"], word["start"], word["end"], round(word["contribution"], 2)]
            for word in shown["words"]
        ],
        "search": [[hit.text, round(hit.score, 2)] for hit in hits],
    }


def ranked(scores: dict[str, float]) -> list[list[Any]]:
    """Order labels by their probabilities."""
    return [[label, round(s, 2)] for label, s in sorted(scores.items(), key=lambda item: -item[1])]


def code(x: float, y: float, words: str, colour: str) -> str:
    """Write a line of code."""
    return text(x, y, words, CODE, colour, mono=True)


def bars(x: int, y: int, rows: Bars, left: int, colours: Colours) -> list[str]:
    """Draw bars, each with its name and its number.

    Args:
        x: of the panel's inside.
        y: of the first row.
        rows: from 0 to 1.
        left: where the bars begin, from `x`.
        colours: of the scheme.
    """
    most = PANEL - 2 * INSIDE - left - 44
    lines = []
    for i, (name, share) in enumerate(rows):
        top, length = y + i * ROW, max(2, round(most * max(0.0, share)))
        ink = colours.faint if i else colours.ink
        fade = ' opacity="0.45"' if i else ""
        lines += [
            text(x, top + 14, name, SIZE, ink, bold=not i),
            f'<rect x="{x + left}" y="{top + 3}" width="{length}" height="14" rx="3" '
            f'fill="{colours.bar}"{fade}/>',
            text(x + left + length + 8, top + 14, f"{share:.2f}", SIZE, ink, bold=not i),
        ]
    return lines


def frame(x: int, y: int, title: str, call: str, colours: Colours) -> list[str]:
    """Draw a panel with its title and the call that answers."""
    return [
        f'<rect x="{x + 0.5}" y="{y + 0.5}" width="{PANEL - 1}" height="{HEIGHT - 1}" rx="8" '
        f'fill="{colours.ground}" stroke="{colours.line}"/>',
        text(x + INSIDE, y + 29, title, SIZE + 1, colours.ink, bold=True),
        text(x + PANEL - INSIDE, y + 29, call, CODE - 1, colours.faint, anchor="end", mono=True),
    ]


def marked(x: int, y: int, sentence: int, words: list[Any], colours: Colours) -> list[str]:
    """Write a sentence of the pair, each word on the tint of what it contributes.

    Args:
        x: of the panel's inside.
        y: of the line.
        sentence: its number in the pair.
        words: (sentence, start, end, contribution) of every word.
        colours: of the scheme.
    """
    strongest = max(abs(word[3]) for word in words) or 1.0
    lines = []
    for number, start, end, share in words:
        strength = abs(share) / strongest
        if number == sentence and strength >= 0.05:
            colour = colours.bar if share > 0 else colours.against
            lines.append(
                f'<rect x="{x + start * LETTER - 2:.1f}" y="{y - 14}" rx="3" height="19" '
                f'width="{(end - start) * LETTER + 4:.1f}" fill="{colour}" '
                f'opacity="{0.1 + 0.4 * strength:.2f}"/>'
            )
    return lines + [
        code(x + word.start() * LETTER, y, word[0], colours.ink)
        for word in re.finditer(r"\S+", PAIR[sentence])
    ]


def picture(found: dict[str, Any], scheme: str) -> str:
    """Write the four panels as SVG.

    Args:
        found: of `answered`.
        scheme: "light" or "dark".
    """
    colours, height = SCHEMES[scheme], 2 * HEIGHT + GAP
    right, below = PANEL + GAP, HEIGHT + GAP
    lines = [
        *frame(0, 0, "Fill in a word", "roberta.fill_mask(text)", colours),
        code(INSIDE, 60, MASKED, colours.ink),
        *bars(INSIDE, 76, found["fill_mask"], 80, colours),
        *frame(right, 0, "Label by your words", "roberta.zero_shot(text, labels)", colours),
        code(right + INSIDE, 60, TOPIC, colours.ink),
        *bars(right + INSIDE, 76, found["zero_shot"], 80, colours),
        *frame(0, below, "Compare two sentences", "roberta.explain(pair)", colours),
        *marked(INSIDE, below + 60, 0, found["explain"], colours),
        *marked(INSIDE, below + 86, 1, found["explain"], colours),
        *bars(INSIDE, below + 102, found["classify"], 124, colours),
        *frame(right, below, "Search by meaning", "roberta.search(query, texts)", colours),
        code(right + INSIDE, below + 60, QUERY, colours.ink),
        *bars(right + INSIDE, below + 76, found["search"], 232, colours),
    ]
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" font-family="{escape(SANS)}">',
        "<title>What roberta.tiny answers: a word for a mask, a label, a pair, a search</title>",
        f"<metadata>{escape(json.dumps(found), quote=False)}</metadata>",
    ]
    return "\n".join([*head, *lines, "</svg>"]) + "\n"


def numbers_of(svg: str) -> dict[str, Any]:
    """Read the answers that a picture holds."""
    (found,) = METADATA.findall(svg)
    answers: dict[str, Any] = json.loads(found.replace("&lt;", "<").replace("&amp;", "&"))
    return answers


if __name__ == "__main__":
    now = answered()
    for name, path in PICTURES.items():
        path.write_text(picture(now, name), encoding="utf-8")

"""Draws docs/images/speed.svg from the committed table of the ragged corpus.

    python tools/draw_speed.py

One bar for each engine's fastest way to be called in each precision; the numbers are those of
`benchmarks/results/speed_corpus_base_zen_4.json`, and nothing is left out but slower ways of the
same engine, and engines as they come.
"""

from __future__ import annotations

import json
import sys
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "tools")]

from lib.demands import engine_of, precision  # noqa: E402
from svg_text import SANS, text  # noqa: E402

TABLE = ROOT / "benchmarks/results/speed_corpus_base_zen_4.json"
PICTURE = ROOT / "docs/images/speed.svg"
WIDTH, ROW, LEFT, RIGHT, TOP = 760, 20, 190, 60, 34
OURS, THEIRS, INK, GROUND = "#0969da", "#8c959f", "#1f2328", "#ffffff"
PRECISIONS = ("float32", "bfloat16", "int8")
SIZE = 13

Bars = list[tuple[str, float]]


def bars() -> dict[str, Bars]:
    """Of each precision (engine, tokens a second), fastest first; of each engine its best way."""
    found = json.loads(TABLE.read_text(encoding="utf-8"))
    best: dict[str, dict[str, float]] = {kind: {} for kind in PRECISIONS}
    for name, seconds in found["medians"].items():
        engine, kind = engine_of(name), precision(name)
        if kind in best and not name.endswith("plain"):  # ours before optimize()
            speed = found["tokens"] / seconds
            best[kind][engine] = max(best[kind].get(engine, 0.0), speed)
    return {kind: sorted(rows.items(), key=lambda bar: -bar[1]) for kind, rows in best.items()}


def bar(y: int, name: str, speed: float, length: float) -> list[str]:
    """Write a bar with its name and its number."""
    colour = OURS if name == "roberta_hub" else THEIRS
    return [
        text(LEFT - 8, y + 14, name, SIZE, INK, anchor="end"),
        f'<rect x="{LEFT}" y="{y + 3}" width="{length:.1f}" height="{ROW - 6}" fill="{colour}"/>',
        text(round(LEFT + length + 6, 1), y + 14, f"{speed:,.0f}", SIZE, INK),
    ]


def picture() -> str:
    """Write the bars as SVG."""
    groups, numbers = bars(), json.loads(TABLE.read_text(encoding="utf-8"))
    scale = (WIDTH - LEFT - RIGHT) / max(rows[0][1] for rows in groups.values())
    title = (
        f"Tokens a second: {numbers['texts']:,} texts of mixed length in {numbers['rounds']} "
        "rounds, RoBERTa base, two cores (AMD Zen 4)"
    )
    lines, y = [], TOP
    for kind, rows in groups.items():
        lines.append(text(10, y + 14, kind, SIZE, INK, bold=True))
        for name, speed in rows:
            lines += bar(y, name, speed, speed * scale)
            y += ROW
        y += ROW // 2
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" width="{WIDTH}" '
        f'height="{y}" font-family="{escape(SANS)}">',
        f"<title>{title}</title>",
        f'<rect width="{WIDTH}" height="{y}" fill="{GROUND}"/>',
        text(10, 20, title, SIZE, INK, bold=True),
    ]
    return "\n".join([*head, *lines, "</svg>"]) + "\n"


if __name__ == "__main__":
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(picture(), encoding="utf-8")

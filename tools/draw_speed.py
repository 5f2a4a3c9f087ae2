"""Draws docs/images/speed.svg from the committed table of the ragged corpus.

    python tools/draw_speed.py

One bar for each engine's fastest way to be called; the numbers are those of
`benchmarks/results/speed_corpus_base.json`, and nothing is left out but slower ways of the same
engine.
"""

from __future__ import annotations

import json
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "benchmarks/results/speed_corpus_base.json"
PICTURE = ROOT / "docs/images/speed.svg"
WIDTH, ROW, LEFT, RIGHT = 760, 22, 190, 60
OURS, THEIRS, INK, GROUND = "#0969da", "#8c959f", "#1f2328", "#ffffff"
SHOWN = {"roberta_hub": "roberta_hub, optimize()"}
"""Our float32; int8 is `optimize("int8")`."""
FONT = "-apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"


def bars() -> list[tuple[str, float]]:
    """(engine, tokens a second), fastest first; of each engine its best way."""
    found = json.loads(TABLE.read_text(encoding="utf-8"))
    best: dict[str, float] = {}
    for name, seconds in found["medians"].items():
        engine, _, way = name.partition(", ")
        label = f"{engine}, int8" if "int8" in way else engine
        if way != "plain":  # ours before optimize()
            best[label] = max(best.get(label, 0.0), found["tokens"] / seconds)
    return sorted(best.items(), key=lambda bar: -bar[1])


def picture() -> str:
    """Write the bars as SVG."""
    rows = bars()
    scale = (WIDTH - LEFT - RIGHT) / max(speed for _, speed in rows)
    height = 34 + ROW * len(rows) + 10
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" font-family="{FONT}" font-size="13" fill="{INK}">',
        "<title>Tokens a second of each engine on 1,000 texts of mixed length</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="{GROUND}"/>',
        '<text x="10" y="20" font-weight="600">Tokens a second: 1,000 texts of mixed length, '
        "RoBERTa base, two cores (AMD Zen 4); one round</text>",
    ]
    for number, (name, speed) in enumerate(rows):
        y = 34 + ROW * number
        colour = OURS if name.startswith("roberta_hub") else THEIRS
        lines += [
            f'<text x="{LEFT - 8}" y="{y + 15}" text-anchor="end">{escape(SHOWN.get(name, name))}'
            "</text>",
            f'<rect x="{LEFT}" y="{y + 3}" width="{speed * scale:.1f}" height="{ROW - 6}" '
            f'fill="{colour}"/>',
            f'<text x="{LEFT + speed * scale + 6:.1f}" y="{y + 15}">{speed:,.0f}</text>',
        ]
    return "\n".join([*lines, "</svg>"]) + "\n"


if __name__ == "__main__":
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(picture(), encoding="utf-8")

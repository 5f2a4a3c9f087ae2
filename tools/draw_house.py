"""Draws docs/images/house.svg: the floors of the package, and which room stands on which.

    python tools/draw_house.py

Rooms and arrows are read from the imports, floors from the table of tests/house/test_floors.py. An
arrow that others imply is left out: a room that stands on `text` by way of `inference` has no line
to it.
"""

from __future__ import annotations

import importlib.util
import sys
from html import escape
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

from svg_text import SANS, text  # noqa: E402

PICTURE = ROOT / "docs/images/house.svg"
SAYS = {
    "text": "text ↔ ids",
    "model": "ids → numbers",
    "checkpoint": "bytes ↔ weights",
    "show": "answers → pictures",
    "inference": "a question → its answer",
    "verbs": "answers → records",
    "formats": "folder ↔ model",
    "building": "weights → model",
    "interface": "the model, its verbs",
    "hub": "name → model",
    "export": "model → ONNX, torch",
    "train": "texts → weights",
    "scale": "tables → tables",
    "indexing": "vectors that are kept",
    "server": "verbs over HTTP",
    "evaluation": "answers → scores",
    "verification": "ours against theirs",
    "fairseq_bridge": "models both ways",
    "fairseq_names": "fairseq's names, ours",
    "shell": "the command",
    "ui": "the page",
    "run": "fairseq's scripts",
}
"""What a room turns into what; plain modules of the ground floor need no words."""
WIDTH, FLOOR, BOX, GAP, MARGIN = 760, 86, 46, 14, 30
INK, QUIET, LINE, ROOM, GROUND = "#1f2328", "#59636e", "#8c959f", "#ddf4ff", "#ffffff"


def floors_test() -> ModuleType:
    """The test that knows the floors, and how to read every kind of import."""
    path = ROOT / "tests/house/test_floors.py"
    spec = importlib.util.spec_from_file_location("test_floors", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def house() -> tuple[dict[int, list[str]], dict[str, set[str]]]:
    """The rooms of each floor, and the rooms above the ground that each room imports."""
    test = floors_test()
    floors = {name: floor for name, floor in test.FLOORS.items() if not name.startswith("__")}
    rooms: dict[int, list[str]] = {}
    for name, floor in floors.items():
        rooms.setdefault(floor, []).append(name)
    uses: dict[str, set[str]] = {name: set() for name in floors}
    for path in test.MODULES:
        here = test.room(test.name_of(path))
        for module in test.imports(test.read(path)) if here in floors else ():
            there = test.room(module)
            if there != here and floors.get(there, 0) > 0:
                uses[here].add(there)
    return rooms, uses


def direct(uses: dict[str, set[str]]) -> list[tuple[str, str]]:
    """The arrows that no chain of other arrows implies."""

    def reached(room: str) -> set[str]:
        return uses[room].union(*(reached(lower) for lower in uses[room]))

    return sorted(
        (room, lower)
        for room, lowers in uses.items()
        for lower in lowers
        if not any(lower in reached(other) for other in lowers - {lower})
    )


def places(rooms: dict[int, list[str]]) -> dict[str, tuple[float, float, float]]:
    """(left, top, width) of each room's box; the ground floor has rows of small boxes."""
    top, found = max(rooms), {}
    for floor, names in rooms.items():
        rows = [names] if floor else [names[i : i + 6] for i in range(0, len(names), 6)]
        for row, inside in enumerate(rows):
            width = (WIDTH - 2 * MARGIN - GAP * (len(inside) - 1)) / len(inside)
            width = min(width, 200 if floor else 110)
            left = (WIDTH - width * len(inside) - GAP * (len(inside) - 1)) / 2
            for number, name in enumerate(inside):
                y = 20 + FLOOR * (top - floor) + row * 36
                found[name] = (left + number * (width + GAP), y, width)
    return found


def picture() -> str:
    """Write the house as SVG."""
    rooms, uses = house()
    place = places(rooms)
    height = max(y for _, y, _ in place.values()) + 50
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" font-family="{escape(SANS)}">',
        "<title>The rooms of roberta_hub: each stands on those below it</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="{GROUND}"/>',
    ]
    for upper, lower in direct(uses):
        (x, y, width), (to_x, to_y, to_width) = place[upper], place[lower]
        x, to_x, beside = x + width / 2, to_x + to_width / 2, y == to_y
        y, to_y = (y + BOX / 2, to_y + BOX / 2) if beside else (y + BOX, to_y)
        bend = (y + to_y) / 2
        lines.append(
            f'<path d="M{x:.0f} {y:.0f} C{x:.0f} {bend:.0f} {to_x:.0f} {bend:.0f} '
            f'{to_x:.0f} {to_y:.0f}" fill="none" stroke="{LINE}"/>'
        )
    for name, (x, y, width) in place.items():
        says = SAYS.get(name, "")
        box = BOX if name not in rooms[0] else 28
        size, base = (14, 20) if says else (14 if box == BOX else 11, box / 2 + 5)
        middle = round(x + width / 2)
        lines += [
            f'<rect x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{box}" rx="4" '
            f'fill="{ROOM if box == BOX else GROUND}" stroke="{LINE}"/>',
            text(middle, round(y + base), name, size, INK, anchor="middle", bold=bool(says)),
        ]
        if says:
            lines.append(text(middle, round(y + 37), says, 12, QUIET, anchor="middle"))
    return "\n".join([*lines, "</svg>"]) + "\n"


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")

"""Shows how much each of some tokens takes of each other one, as maps of shades."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from roberta_hub.show.colours import BLUE, CAPTION_OPACITY
from roberta_hub.show.facts import Note
from roberta_hub.show.markup import Html, element, harmless
from roberta_hub.show.pixels import data_address, shades_png
from roberta_hub.show.sheet import LINE_HEIGHT, SMALL_SIZE, TEXT_SIZE, Sheet
from roberta_hub.show.terminal_text import TERMINAL_COLUMNS, cut
from roberta_hub.terminal import width_of

TOKEN_COLUMNS = 12
"""Width of a token next to a map."""
TITLE_COLUMNS = 32
"""Columns of a map's title."""
_SMALL_MAP_PIXELS = 130
"""Pixels of each map if there are several."""
_FINE_MAPS = 12
"""Maps that get 16 shades; more of them get 4, and a page stays small."""
_NEIGHBOURS = ("itself", "the token before", "the token after", "the first token")
_NAMES = "line-height:{};font-size:{};white-space:nowrap;vertical-align:"
_CELL = "padding:1px 3px;border:0;background:none"
_IMAGE = "image-rendering:pixelated;display:block;max-width:none;margin:0"


@dataclass(frozen=True)
class Panel:
    """One map."""

    title: str
    weights: Sequence[Sequence[float]]
    """Rows that add up to 1. Shape: (T, T)"""


@dataclass(frozen=True)
class Grid:
    """One map with its tokens, or several small ones side by side."""

    tokens: Sequence[str]
    panels: Sequence[Panel]

    def html(self) -> Html:
        """Build pictures, embedded in the page."""
        if len(self.panels) == 1:
            return element("div", self._map(self.panels[0]), self._legend.html())
        maps = [
            element(
                "div",
                element("div", panel.title, style=f"font-size:.8em;opacity:{CAPTION_OPACITY}"),
                _image(panel, _SMALL_MAP_PIXELS, bits=4 if len(self.panels) <= _FINE_MAPS else 2),
                style="display:inline-block;margin:.2em .6em .2em 0",
                title=_summary(panel),
            )
            for panel in self.panels
        ]
        return element("div", *maps, self._names.html(), self._legend.html())

    @property
    def _names(self) -> Note:
        return Note("rows from above, columns from the left: " + " ".join(self.tokens))

    @property
    def _legend(self) -> Note:
        """Say what is read from where, and what the strongest shades are."""
        largest = sorted(_largest(panel) for panel in self.panels)
        span = f"{largest[0]:.2f}" + (f" to {largest[-1]:.2f}" if len(largest) > 1 else "")
        return Note(
            "each row is a token, and what it takes of the tokens in the columns. Strongest shade: "
            f"a map's largest weight, here {span}. Half the shade: a quarter of it"
        )

    def _map(self, panel: Panel) -> Html:
        count = len(self.tokens)
        cell = max(9, min(20, 520 // count))
        # On a phone cells are smaller; where a page strips this, the picture has its attributes.
        side = f"clamp(9px,calc((100vw - 150px)/{count}),{cell}px)"
        names = _NAMES.format(side, f"min(13px,calc({side} - 1px))")
        rows = [
            element("div", cut(token, TOKEN_COLUMNS), title=f"{token}: {_most(self.tokens, row)}")
            for token, row in zip(self.tokens, panel.weights, strict=True)
        ]
        columns = [element("div", cut(token, TOKEN_COLUMNS)) for token in self.tokens]
        scaled = f"width:calc({count}*{side});height:calc({count}*{side})"
        turned = f"writing-mode:vertical-lr;text-align:right;{names}bottom"
        top = element(
            "tr",
            element(
                "td",
                panel.title,
                style=f"{_CELL};font-size:.8em;opacity:{CAPTION_OPACITY};white-space:nowrap",
            ),
            element("td", element("div", *columns, style=turned), style=_CELL),
        )
        bottom = element(
            "tr",
            element("td", *rows, style=f"{_CELL};text-align:right;{names}top"),
            element("td", _image(panel, cell * count, scaled), style=f"{_CELL};vertical-align:top"),
        )
        return element(
            "table", top, bottom, style="border-collapse:collapse;border:0;background:none"
        )

    def lines(self) -> list[str]:
        """Write at most 80 columns a line: what each token takes most of, or sums of each map."""
        if len(self.panels) > 1:
            titles = [cut(panel.title, TITLE_COLUMNS) for panel in self.panels]
            width = max(map(width_of, titles))
            return [
                cut(
                    f"  {title}{' ' * (width - width_of(title))}  {_summary(panel)}",
                    TERMINAL_COLUMNS,
                )
                for title, panel in zip(titles, self.panels, strict=True)
            ]
        (panel,) = self.panels
        found = [f"  {cut(panel.title, TITLE_COLUMNS)}: what each token takes most of"]
        for token, row in zip(self.tokens, panel.weights, strict=True):
            name = cut(token, TOKEN_COLUMNS)
            padded = " " * (TOKEN_COLUMNS - width_of(name)) + name
            found.append(cut(f"  {padded}  {_most(self.tokens, row)}", TERMINAL_COLUMNS))
        return found

    def draw(self, sheet: Sheet) -> None:
        """Draw one map with its tokens, or several in rows of four."""
        if len(self.panels) == 1:
            self._draw_map(self.panels[0], sheet)
        else:
            gap, across = 10.0, 4
            size = (sheet.right - sheet.left - gap * (across - 1)) / across
            for first in range(0, len(self.panels), across):
                row = self.panels[first : first + across]
                for i, panel in enumerate(row):
                    x = sheet.left + i * (size + gap)
                    sheet.text(x, sheet.cut(panel.title, size, SMALL_SIZE), SMALL_SIZE, quiet=True)
                sheet.down(SMALL_SIZE * LINE_HEIGHT + 1)
                for i, panel in enumerate(row):
                    sheet.image(sheet.left + i * (size + gap), size, _shades(panel), BLUE)
                sheet.down(size + gap)
            self._names.draw(sheet)
        self._legend.draw(sheet)

    def _draw_map(self, panel: Panel, sheet: Sheet) -> None:
        sheet.text(sheet.left, panel.title, quiet=True)
        sheet.down(TEXT_SIZE * LINE_HEIGHT)
        names = [cut(token, TOKEN_COLUMNS) for token in self.tokens]
        room = max(sheet.width_of(name, SMALL_SIZE) for name in names) + 6
        cell = min(18.0, (sheet.right - sheet.left - room) / len(names))
        size = min(SMALL_SIZE, cell)
        sheet.down(room)
        left = sheet.left + room
        for i, name in enumerate(names):
            middle = left + (i + 0.5) * cell
            sheet.text(middle, name, size, align="center", turned=True, below=-3)
            sheet.text(left - 3, name, size, align="right", below=i * cell + (cell - size) / 2 - 1)
        sheet.image(left, cell * len(names), _shades(panel), BLUE)
        sheet.down(cell * len(names) + 4)


def _largest(panel: Panel) -> float:
    return max((weight for row in panel.weights for weight in row), default=0.0)


def _shades(panel: Panel) -> list[list[float]]:
    """Return opacities: the root shows small weights too, and the largest is whole."""
    largest = _largest(panel) or 1.0
    return [[(max(weight, 0.0) / largest) ** 0.5 for weight in row] for row in panel.weights]


def _image(panel: Panel, size: int, scaled: str = "", *, bits: int = 4) -> Html:
    return element(
        "img",
        src=data_address(shades_png(_shades(panel), BLUE, bits)),
        alt=panel.title,
        width=str(size),
        height=str(size),
        style=f"{_IMAGE};{scaled}" if scaled else _IMAGE,
    )


def _most(tokens: Sequence[str], row: Sequence[float], count: int = 3) -> str:
    best = sorted(range(len(row)), key=lambda i: -row[i])[:count]
    return ", ".join(f"{harmless(tokens[i])} {row[i]:.2f}" for i in best)


def _summary(panel: Panel) -> str:
    """Say how much tokens take of their neighbours on average (Clark et al. 2019, section 3)."""
    rows = panel.weights
    count = len(rows)
    means = (
        sum(rows[i][i] for i in range(count)) / count,
        sum(rows[i][i - 1] for i in range(1, count)) / count,
        sum(rows[i][i + 1] for i in range(count - 1)) / count,
        sum(row[0] for row in rows) / count,
    )
    short = (f"{name} {100 * mean:.0f} %" for name, mean in zip(_NEIGHBOURS, means, strict=True))
    return ", ".join(short)

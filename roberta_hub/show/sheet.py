"""Draws on a white sheet with matplotlib, from the top down, and makes a PNG of it.

Lengths are points (1/72 inch), y grows downward. A sheet is as high as its content, so that
nothing is clipped.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from roberta_hub.errors import MissingExtraError
from roberta_hub.extras import install
from roberta_hub.show.colours import GREY, Colour
from roberta_hub.show.markup import harmless

SHEET_WIDTH = 520.0
"""Width of a full sheet, about the column of a notebook. A picture ends where its content does."""
LEAST_SHEET_WIDTH = 200.0
SHEET_MARGIN = 10.0
TEXT_SIZE = 10.0
"""Size of text."""
SMALL_SIZE = 8.0
LINE_HEIGHT = 1.45
"""Height of a line, in sizes of its text."""
PIXEL_SCALE = 2
"""Pixels of the picture for each one at which it is shown, for screens of high resolution."""
_DPI = 96 * PIXEL_SCALE
_BLACK: Colour = (0, 0, 0)


class Picture(bytes):
    """The bytes of a PNG, which a notebook shows; `open(path, "wb").write(picture)` keeps it."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        width, height = self.size
        return bytes(self), {"width": width // PIXEL_SCALE, "height": height // PIXEL_SCALE}

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels, from the PNG's first chunk."""
        return int.from_bytes(self[16:20], "big"), int.from_bytes(self[20:24], "big")

    def __repr__(self) -> str:
        return "<PNG of {} x {} pixels>".format(*self.size)

    def __str__(self) -> str:
        return repr(self)


class Sheet:
    """Takes what displays draw; `y` is where the next thing begins."""

    def __init__(self) -> None:
        try:
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure
        except ImportError:
            raise MissingExtraError(f"png needs matplotlib: {install('plots')}") from None
        # It measures letters as it draws them: at whole pixels they are wider or narrower.
        canvas: Any = FigureCanvasAgg(Figure((1, 1), dpi=_DPI))
        self._renderer = canvas.get_renderer()
        self._marks: list[Callable[[Any], None]] = []
        self.y = SHEET_MARGIN
        self.left, self.right = SHEET_MARGIN, SHEET_WIDTH - SHEET_MARGIN
        self._reached = LEAST_SHEET_WIDTH - SHEET_MARGIN
        """How far to the right anything is drawn; what is beyond it is no part of the picture."""

    def width_of(self, text: str, size: float = TEXT_SIZE, *, bold: bool = False) -> float:
        """Tell how wide a text is."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the font lacks a character: its box has a width too
            found = self._renderer.get_text_width_height_descent(
                harmless(text), _font(size, bold), False
            )
        return float(found[0]) * 72 / _DPI

    def cut(self, text: str, room: float, size: float = TEXT_SIZE, *, bold: bool = False) -> str:
        """Cut a text that is wider than a room, and mark the cut."""
        text = harmless(text)
        if self.width_of(text, size, bold=bold) <= room:
            return text
        low, high = 0, len(text)
        while low < high:  # the longest that fits
            middle = (low + high + 1) // 2
            fits = self.width_of(text[:middle] + "…", size, bold=bold) <= room
            low, high = (middle, high) if fits else (low, middle - 1)
        return text[:low] + "…"

    def text(
        self,
        x: float,
        text: str,
        size: float = TEXT_SIZE,
        *,
        align: str = "left",
        bold: bool = False,
        quiet: bool = False,
        turned: bool = False,
        below: float = 0.0,
    ) -> None:
        """Write a text on the line that begins at `y`."""
        y = self.y + below
        font = _font(size, bold)
        where = {"rotation": 90, "va": "bottom"} if turned else {"va": "baseline"}
        baseline = y if turned else y + size * 1.05
        written = harmless(text)
        width = size if turned else self.width_of(written, size, bold=bold)
        share = 1.0 if align == "left" else 0.5 if align == "center" or turned else 0.0
        self._reached = max(self._reached, x + share * width)
        # A dollar sign would begin a formula.
        style = {"ha": align, "parse_math": False, "color": "#555555" if quiet else "#000000"}
        self._marks.append(
            lambda axes: axes.text(
                x, baseline, written, fontproperties=font, zorder=3, **where, **style
            )
        )

    def box(
        self,
        x: float,
        width: float,
        height: float,
        colour: Colour = GREY,
        opacity: float = 1.0,
        *,
        below: float = 0.0,
        dotted: bool = False,
    ) -> None:
        """Fill a box whose upper edge is at `y`."""
        y, fill = self.y + below, tuple(part / 255 for part in colour)
        self._reached = max(self._reached, x + width)

        def draw(axes: Any) -> None:
            from matplotlib.patches import FancyBboxPatch

            edge = min(1.5, width / 2, height / 2)
            shape = f"round,pad=0,rounding_size={edge}"
            axes.add_patch(
                FancyBboxPatch(
                    (x, y), width, height, boxstyle=shape, fc=fill, alpha=opacity, lw=0, zorder=1
                )
            )
            if dotted:
                axes.plot([x, x + width], [y + height] * 2, ":", color="black", lw=1)

        self._marks.append(draw)

    def image(
        self, x: float, size: float, levels: Sequence[Sequence[float]], colour: Colour
    ) -> None:
        """Fill a square with cells, the stronger the higher their level (0 to 1)."""
        y = self.y
        self._reached = max(self._reached, x + size)

        def draw(axes: Any) -> None:
            cells = [[(*(part / 255 for part in colour), cell) for cell in row] for row in levels]
            axes.imshow(cells, extent=(x, x + size, y + size, y), interpolation="nearest")
            axes.plot(
                [x, x + size, x + size, x, x], [y, y, y + size, y + size, y], color="#bbb", lw=0.5
            )

        self._marks.append(draw)

    def down(self, length: float) -> None:
        """Move the place of the next item down."""
        self.y += length

    def png(self) -> Picture:
        """Make the picture.

        Characters that matplotlib's own font lacks, of Chinese and emoji for instance, are boxes.
        """
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        width, height = min(self._reached + SHEET_MARGIN, SHEET_WIDTH), self.y + SHEET_MARGIN
        figure = Figure(figsize=(width / 72, height / 72), dpi=_DPI, facecolor="white")
        FigureCanvasAgg(figure)
        axes = figure.add_axes((0, 0, 1, 1))
        for mark in self._marks:
            mark(axes)
        axes.set(xlim=(0, width), ylim=(height, 0), aspect="auto")
        axes.axis("off")
        file = io.BytesIO()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the font lacks a character
            figure.savefig(file, format="png", dpi=_DPI)
        return Picture(file.getvalue())


def _font(size: float, bold: bool) -> Any:
    from matplotlib.font_manager import FontProperties

    return FontProperties(family="DejaVu Sans", size=size, weight="bold" if bold else "normal")

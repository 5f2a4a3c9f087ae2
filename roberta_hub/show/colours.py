"""Holds the colours of displays, which are readable on white and on black pages.

Text keeps the page's own colour; its background is a tint, a colour that lets part of the page
through. Each colour has at least 3 : 1 against white and against black (WCAG 2.2, 1.4.11), and text
on the strongest tint at least 4.5 : 1 (1.4.3), on white, black and the pages of usual notebooks.
"""

from __future__ import annotations

Colour = tuple[int, int, int]
"""Red, green and blue, 0 to 255."""

ORANGE: Colour = (213, 94, 0)
BLUE: Colour = (0, 114, 178)
GREEN: Colour = (0, 158, 115)
PURPLE: Colour = (204, 121, 167)
GREY: Colour = (128, 128, 128)
"""Okabe and Ito's (2008), told apart by the colour-blind; and grey for what says nothing."""
COLOUR_CYCLE = (BLUE, ORANGE, GREEN, PURPLE)
"""For kinds that have no order."""
MAX_OPACITY = 0.5
"""Opacity of the strongest tint."""
CAPTION_OPACITY = 0.75
"""Opacity of captions."""


def css(colour: Colour, opacity: float = 1.0) -> str:
    """Write a colour for a style.

    Example:
        >>> css(BLUE, 0.3)
        'rgba(0,114,178,.3)'
    """
    red, green, blue = colour
    if opacity >= 1:
        return f"rgb({red},{green},{blue})"
    return f"rgba({red},{green},{blue},{f'{opacity:.2f}'.strip('0') or '0'})"


def over(colour: Colour, opacity: float, page: Colour) -> Colour:
    """Mix a tint with the page's background.

    Example:
        >>> over((0, 0, 0), 0.5, (255, 255, 255))
        (128, 128, 128)
    """
    red, green, blue = (
        round(opacity * c + (1 - opacity) * p) for c, p in zip(colour, page, strict=True)
    )
    return red, green, blue


def contrast(one: Colour, other: Colour) -> float:
    """Compute the contrast of two colours, 1 to 21 (WCAG 2.2, "contrast ratio").

    Example:
        >>> contrast((0, 0, 0), (255, 255, 255))
        21.0
    """
    lights = sorted((_luminance(one), _luminance(other)))
    return (lights[1] + 0.05) / (lights[0] + 0.05)


def _luminance(colour: Colour) -> float:
    parts = [c / 255 for c in colour]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

"""Puts parts together to a display: for notebooks as HTML, for terminals as text, and as a PNG."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, NoReturn, Protocol, TypeVar

from roberta_hub.arguments import kind_of, path_of
from roberta_hub.errors import InputError, InputTypeError
from roberta_hub.files import write_bytes
from roberta_hub.keywords import names_others
from roberta_hub.rows.frames import pandas_frame
from roberta_hub.show.markup import Html, element
from roberta_hub.show.sheet import LINE_HEIGHT, TEXT_SIZE, Picture, Sheet
from roberta_hub.show.terminal_text import TERMINAL_COLUMNS, cut

Item = TypeVar("Item")
_WHOLE = "max-width:46em;overflow-x:auto;line-height:1.5"
_TITLE = "font-weight:bold;overflow-wrap:anywhere"


class Part(Protocol):
    """One thing that can be shown three ways."""

    def html(self) -> Html:
        """Build markup."""

    def lines(self) -> list[str]:
        """Write at most 80 columns a line."""

    def draw(self, sheet: Sheet) -> None:
        """Draw on a sheet, from `sheet.y` down."""


class Display:
    """What a notebook draws, a terminal writes, and `png` makes a picture of.

    The HTML is static, without scripts and outside addresses, and readable on light and on dark
    pages. GitHub strips its colours; it shows a `png`.

    Example:
        >>> from roberta_hub.show.bars import Bar, Bars
        >>> display = Display("Topic", [Bars([Bar("art", "0.25", 0.25)])], {"art": 0.25})
        >>> print(display)
        Topic
          0.25  ████              art
        >>> display.to_dict()
        {'art': 0.25}
        >>> display.png()  # the last line of a notebook's cell: the picture
        <PNG of 541 x 141 pixels>
    """

    def __init__(self, title: str, parts: Sequence[Part], values: Mapping[str, Any]) -> None:
        """Put a display together.

        Args:
            title: heading above the parts.
            parts: one below the other.
            values: the same in plain words and numbers, for `to_dict`.
        """
        self._title, self._parts, self._values = title, tuple(parts), values

    def _repr_html_(self) -> str:
        title = (element("div", self._title, style=_TITLE),) if self._title else ()
        parts = [part.html() for part in self._parts]
        return str(element("div", *title, *parts, style=_WHOLE))

    def __str__(self) -> str:
        lines = [line for part in self._parts for line in part.lines()]
        return "\n".join([*([cut(self._title, TERMINAL_COLUMNS)] if self._title else []), *lines])

    def __repr__(self) -> str:
        return str(self)

    def png(self, path: str | PathLike[str] | None = None) -> Picture:
        """Draw the display with matplotlib (the extra `plots`).

        Args:
            path: the file that the picture is written to, at once whole; None: to none.

        Returns:
            The bytes of the picture, which a notebook shows.

        Raises:
            MissingExtraError: matplotlib is not installed.
            InputError: the file cannot be written.
        """
        sheet = Sheet()
        if self._title:
            title = sheet.cut(self._title, sheet.right - sheet.left, bold=True)
            sheet.text(sheet.left, title, bold=True)
            sheet.down(TEXT_SIZE * LINE_HEIGHT + 2)
        for part in self._parts:
            part.draw(sheet)
            sheet.down(2)
        picture = sheet.png()
        if path is not None:
            target = path_of("path", path)
            try:
                write_bytes(target, picture)
            except OSError as error:
                raise InputError(f"{target} cannot be written: {error.strerror}") from error
        return picture

    def to_dict(self) -> dict[str, Any]:
        """Return what is shown as plain words and numbers, which `json.dumps` takes."""
        return copy.deepcopy(dict(self._values))


@names_others
class ShownList(list[Item]):
    """A list that a notebook draws; all else it does as the list that it is.

    `print` writes its answers as it writes one of them, a line each; lists of answers have a blank
    line between them. It is pickled and copied as a plain list.

    Example:
        >>> import pickle
        >>> found = ShownList([1, 2], lambda items: Display("Two", [], {}))
        >>> found == [1, 2], isinstance(found, list), found, type(pickle.loads(pickle.dumps(found)))
        (True, True, [1, 2], <class 'list'>)
    """

    __slots__ = ("_display",)

    def __init__(self, items: Iterable[Item], display: Callable[[Sequence[Item]], Display]) -> None:
        """Take items, and what draws the list as it is when it is drawn."""
        super().__init__(items)
        self._display = display

    def __str__(self) -> str:
        items: list[Any] = list(self)
        groups = items if all(isinstance(item, list) for item in items) else [items]
        found = [item for own in groups for item in own]
        if not all(groups) or not found or any(isinstance(item, list | tuple) for item in found):
            return repr(self)
        return "\n\n".join("\n".join(map(str, own)) for own in groups)

    def _repr_html_(self) -> str | None:
        try:
            return self._display(self)._repr_html_()
        except Exception:  # a caller has put other things in; the list is shown as any other
            return None

    def png(self, path: str | PathLike[str] | None = None) -> Picture:
        """Draw what a notebook shows; see `Display.png`."""
        return self._display(self).png(path)

    def to_pandas(self) -> Any:
        """Return a pandas frame with a row for each answer, its fields as columns.

        Example:
            >>> found = ShownList([Display("One", [], {"label": "a"})], lambda items: items[0])
            >>> found.to_pandas()["label"].tolist()
            ['a']
        """
        return pandas_frame(self._records("to_pandas"))

    def to_dict(self) -> NoReturn:
        """Refuse: a list of answers is a list of dicts."""
        self._records("to_dict")
        raise InputTypeError(
            "a list of answers makes no dict; write [answer.to_dict() for answer in answers], or "
            "answers.to_pandas()"
        )

    def _records(self, method: str) -> list[dict[str, Any]]:
        items: list[Any] = list(self)
        plain = [item for item in items if not hasattr(item, "to_dict") or isinstance(item, list)]
        if plain:
            inner = plain[0]
            while isinstance(inner, list) and inner:
                inner = inner[0]
            deep = "each answer" if isinstance(plain[0], list) else "the list"
            remedy = "call it on each answer, or on the list of one text"
            if isinstance(inner, tuple):  # fairseq's (filled, score, word)
                remedy = f"pandas.DataFrame(...) of {deep} makes a table of tuples"
            raise InputTypeError(
                f"{method} takes answers with fields, and this list holds a {kind_of(plain[0])}; "
                f"{remedy}"
            )
        return [item.to_dict() for item in items]

    def __reduce__(self) -> tuple[type[list[Item]], tuple[list[Item]]]:
        return list, (list(self),)

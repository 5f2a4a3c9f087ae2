"""Defines the one family of errors.

Each error is also the built-in that fits, so `except ValueError` keeps working. It holds what went
wrong and the limit, the place, and the remedy, each for itself: who calls from Python and who types
a command read sentences that are made from the same fields.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from roberta_hub.terminal import without_secrets_in

NEAR_SHOWN = 3
"""Names that a message offers for one that is not there."""
LETTERS_PER_SLIP = 4
"""A name may have a slip of the hand for each of so many letters."""


def close_names(name: object, known: Iterable[str]) -> str:
    """Known names that an unknown one is meant for, joined by "or"; "" if there are none.

    Example:
        >>> close_names("dropuot", ["dropout", "layers"]), close_names("serve", ["score"])
        ('dropout', '')
    """
    return " or ".join(near_names(name, known))


def near_names(name: object, known: Iterable[str]) -> list[str]:
    """Known names that an unknown one is meant for, the nearest first.

    A name is meant by its letters with a few slips, else by its beginning or some of its words.

    Example:
        >>> near_names("Max-Lenght", ["max_length", "length", "layers"])
        ['max_length']
        >>> near_names("mask", ["fill-mask", "tag"]), near_names("SetFitModel", ["RobertaModel"])
        (['fill-mask'], [])
    """
    asked, known = _plain(str(name)), list(dict.fromkeys(known))
    slipped = slipped_names(name, known)
    parts = [other for other in known if other not in slipped and _is_part(asked, _plain(other))]
    return [*slipped, *sorted(parts, key=lambda other: abs(len(other) - len(asked)))][:NEAR_SHOWN]


def slipped_names(name: object, known: Iterable[str]) -> list[str]:
    """Known names that an unknown one is by a few slips of the hand, the nearest first.

    A slip is a letter too many, too few, another, or two exchanged; capitals and the signs between
    words make no difference.
    """
    asked, found = _plain(str(name)), []
    for other in known:
        own = _plain(other)
        most = max(1, max(len(asked), len(own)) // LETTERS_PER_SLIP)
        if (slips := _slips(asked, own, most)) is not None:
            found.append((-slips, other))
    return [other for _, other in sorted(found, reverse=True)]  # of versions the later first


def _plain(name: str) -> str:
    return " ".join("".join(c if c.isalnum() else " " for c in name[:100].casefold()).split())


def _is_part(asked: str, own: str) -> bool:
    """Whether a name is the beginning of another, or its words are among the other's."""
    short, long = sorted((asked, own), key=len)
    return len(short) > 2 and (long.startswith(short) or {*short.split()} <= {*long.split()})


def _slips(one: str, two: str, most: int) -> int | None:
    """Count slips between two names (optimal string alignment); None: more than `most`."""
    if abs(len(one) - len(two)) > most:
        return None
    before: list[int] = []
    row = [*range(len(two) + 1)]
    for i, a in enumerate(one):
        earlier, before, row = before, row, [i + 1]
        for j, b in enumerate(two):
            row.append(min(before[j + 1] + 1, row[j] + 1, before[j] + (a != b)))
            if i and j and a == two[j - 1] and b == one[i - 1]:
                row[-1] = min(row[-1], earlier[j - 1] + 1)
        if min(row) > most:
            return None
    return row[-1] if row[-1] <= most else None


@dataclass(frozen=True)
class Place:
    """The item of a caller's texts that an error is about: `texts[3]`.

    Who calls with texts of another caller's translates it; see `placed`.
    """

    argument: str
    index: int
    """Index of the item in the caller's own list, counted from 0."""

    def __str__(self) -> str:
        return f"{self.argument}[{self.index}]"


@dataclass(frozen=True)
class Remedy:
    """Remedy of an error, worded for Python and for the command line.

    Example:
        >>> remedy = Remedy("pass truncate=True", "--truncate cuts it")
        >>> print(InputError("too long", place=Place("texts", 3), remedy=remedy))
        texts[3]: too long; pass truncate=True
    """

    python: str
    shell: str | None = None
    """The same for a command line; "": it has none; None: as in Python."""

    @property
    def in_shell(self) -> str:
        """The words for a command line."""
        return self.python if self.shell is None else self.shell


_BETWEEN = {"?": " ", ".": " ", "\n": ""}
"""Separator before a remedy, by the last character of the sentence."""


def _shown(text: str, keep: str = "\n\t") -> str:
    """Escape what a terminal obeys: names of files and columns may hold it."""
    if text.isprintable():
        return text
    keep += "\u200c\u200d"  # Persian words and emoji of several parts need them
    return "".join(
        c if c in keep or unicodedata.category(c) not in ("Cc", "Cf", "Cs") else ascii(c)[1:-1]
        for c in text
    )


def sentence(what: str, place: Place | str | None = None, remedy: str = "") -> str:
    """Make a sentence of the parts of an error.

    Example:
        >>> sentence("no text", "reviews.csv:12", "drop it or fill it")
        'reviews.csv:12: no text; drop it or fill it'
        >>> sentence("no head 'mnil'; did you mean mnli?", None, "register one")
        "no head 'mnil'; did you mean mnli? register one"
    """
    said = f"{what}" if place is None else f"{_shown(str(place), '')}: {what}"
    if remedy:
        said += _BETWEEN.get(said[-1:], "; ") + remedy
    return _shown(without_secrets_in(said))


class RobertaHubError(Exception):
    """Base of every error that roberta_hub raises on purpose.

    `str(error)` is the whole sentence: the place, what went wrong, and the remedy.
    """

    def __init__(
        self, what: str = "", *, place: Place | str | None = None, remedy: Remedy | None = None
    ) -> None:
        """Note what went wrong.

        Args:
            what: went wrong, and the limit.
            place: an item of an argument; or a file, a line, a row, in words.
            remedy: what fixes it, where Python and a shell say it otherwise; what has one form is
                part of `what`.
        """
        super().__init__(what)
        self.what, self.place, self.remedy = without_secrets_in(what), place, remedy
        self.at(place)

    def __str__(self) -> str:
        return sentence(self.what, self.place, self.remedy.python if self.remedy else "")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def in_shell(self) -> str:
        """Say it as a user of the command knows it."""
        return sentence(self.what, self.place, self.remedy.in_shell if self.remedy else "")

    def at(self, place: Place | str | None) -> None:
        """Name another place instead of the one that is named.

        Args:
            place: of the same fault, in the caller's terms.
        """
        self.place = place
        self.args = (str(self),)  # who reads `args[0]` reads the sentence

    def within(self, place: Place | str) -> None:
        """Put the error's place inside another place.

        Args:
            place: the wider one: the text of a sentence, the file of a line.

        Example:
            >>> error = InputError("not a number", place="line 3")
            >>> error.within("train.json")
            >>> print(error)
            train.json: line 3: not a number
        """
        self.what = sentence(self.what, self.place)
        self.at(place)


@contextmanager
def placed(place: Callable[[Place], Place | str]) -> Iterator[None]:
    """Tell the place of an error in the caller's terms.

    Example:
        >>> with placed(lambda at: Place("corpus", at.index + 2048)):
        ...     raise InputError("too long", place=Place("texts", 3))
        Traceback (most recent call last):
        ...
        roberta_hub.errors.InputError: corpus[2051]: too long
    """
    try:
        yield
    except RobertaHubError as error:
        if isinstance(error.place, Place):
            error.at(place(error.place))
        raise


def harmless(error: BaseException) -> BaseException | None:
    """Return an error to be named as a cause; None: a traceback of it would show a credential."""
    seen: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in seen:
        if without_secrets_in(str(cause)) != str(cause):
            return None
        seen.append(cause)
        cause = cause.__cause__ or cause.__context__
    return error


class InputError(RobertaHubError, ValueError):
    """A value has the right type but cannot be used: too long, out of range, empty."""


class InputTypeError(RobertaHubError, TypeError):
    """A value has the wrong type: bytes where text is needed, floats where ids are."""


class UnknownNameError(RobertaHubError, KeyError, ValueError):
    """A head, model name, layer or option that does not exist; the message lists what does."""


class UnknownAttributeError(RobertaHubError, AttributeError):
    """A method or attribute that an object does not have; the message says what does its work."""


class VocabularyError(RobertaHubError, ValueError):
    """A dictionary or BPE table that cannot be read, or that does not fit the weights."""


class CheckpointError(RobertaHubError, OSError, ValueError):
    """A checkpoint that is missing, damaged, unsafe, or of another shape than its configuration."""


class DownloadError(RobertaHubError, OSError):
    """A download that failed, was refused, or was forbidden by ROBERTA_HUB_OFFLINE."""


class MissingExtraError(RobertaHubError, ImportError):
    """An optional package is needed; the message names the extra to install."""


class ExportError(RobertaHubError, RuntimeError):
    """An export that fails, or a file that does not answer as the model does; none was kept."""


class LakeError(InputError):
    """Units of a lake could not be done; all others are. `report` says which, and why."""

    report: object = None


class Advice(UserWarning):
    """Warns of what is allowed and seldom meant."""

    def __init__(self, what: str, remedy: Remedy | None = None) -> None:
        """Note what was passed and what becomes of it."""
        super().__init__(what)
        self.what, self.remedy = without_secrets_in(what), remedy

    def __str__(self) -> str:
        return sentence(self.what, None, self.remedy.python if self.remedy else "")

    def in_shell(self) -> str:
        """Say it as a user of the command knows it."""
        return sentence(self.what, None, self.remedy.in_shell if self.remedy else "")


class LicenceWarning(UserWarning):
    """Says what the licence of a model forbids, when the model is loaded by its name.

    Example:
        >>> import warnings
        >>> warnings.simplefilter("ignore", LicenceWarning)  # once it has been read
    """

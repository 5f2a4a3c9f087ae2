"""Refuses what is no text, and finds the character of each of a text's bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from roberta_hub.errors import InputError, InputTypeError


def check_text(text: Any) -> None:
    """Refuse what no text file could hold."""
    if not isinstance(text, str):
        several = isinstance(text, (list, tuple))
        hint = "; encode_batch gives ids of several texts, embed their vectors" if several else ""
        raise InputTypeError(f"text is a {type(text).__name__}, not a str{hint}")
    if not text.isascii():
        check_surrogates(text)


def check_surrogates(text: str) -> None:
    """Refuse what tiktoken would replace silently."""
    if text.isascii():  # known without a look at the characters
        return
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"character {error.start} of the text is U+{ord(text[error.start]):04X}, half of a "
            "surrogate pair, which no text file can hold; clean the text, for example with "
            "text.encode(errors='replace').decode()"
        ) from None


def character_of_byte(text: str) -> Sequence[int]:
    """For each UTF-8 byte of the text, the index of the character it belongs to.

    Example:
        >>> character_of_byte("a’b")
        [0, 1, 1, 1, 2]
    """
    if text.isascii():
        return range(len(text))
    return list(_owners(text))


def _owners(text: str) -> Iterable[int]:
    for i, character in enumerate(text):
        for _ in character.encode():
            yield i

"""Defines a call: what a tab asks of a model, and the same as Python and as a command."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from roberta_hub.interface import RobertaHubInterface


@dataclass(frozen=True)
class Command:
    """The call as a command of `roberta-hub`."""

    verb: str
    flags: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    """Arguments."""
    lines: tuple[str, ...] = ()
    """Texts of standard input, none with a line break in it."""


@dataclass(frozen=True)
class Call:
    """A call of a model's method; what is answered and what is copied are this one call.

    Example:
        >>> print(Call("tokenize", (("text", "It's"),)).python("roberta.tiny"))
        import roberta_hub
        <BLANKLINE>
        roberta = roberta_hub.load_model('roberta.tiny')
        text = "It's"
        print(roberta.tokenize(text))
    """

    verb: str
    """Name of the method."""
    given: tuple[tuple[str, Any], ...]
    """Name and value of each argument in order; a name that comes again is the same value."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Keywords."""
    command: Command | None = None
    """None: the command has no such verb."""

    def answer(self, roberta: RobertaHubInterface) -> Any:
        """Ask a model."""
        return getattr(roberta, self.verb)(*(value for _, value in self.given), **self.options)

    def python(self, model: str) -> str:
        """Write it as Python."""
        lines = ["import roberta_hub", "", f"roberta = roberta_hub.load_model({model!r})"]
        lines += [f"{name} = {value!r}" for name, value in dict(self.given).items()]
        keywords = (f"{name}={value!r}" for name, value in self.options.items())
        arguments = ", ".join([*(name for name, _ in self.given), *keywords])
        return "\n".join([*lines, f"print(roberta.{self.verb}({arguments}))"])

    def shell(self, model: str) -> str:
        """Write it for bash or zsh."""
        if self.command is None:
            return shell_line(["python3", "-c", self.python(model)])
        asked = self.command
        dashes = ["--"] if any(text.startswith("-") for text in asked.texts) else []
        words = ["roberta-hub", asked.verb, "-m", model, *asked.flags, *dashes, *asked.texts]
        if asked.lines:
            words = ["printf", r"%s\n", *asked.lines, "|", *words]
        return shell_line(words)


def shell_line(words: Sequence[str]) -> str:
    r"""Join words to a line of bash or zsh; "|" is a pipe.

    What a terminal would obey or hide is written as the escapes of its bytes.

    Example:
        >>> print(shell_line(["roberta-hub", "tokens", "it's $(date)"]))
        roberta-hub tokens 'it'"'"'s $(date)'
        >>> print(shell_line(["roberta-hub", "tokens", "a\x1b"]))
        roberta-hub tokens $'a\x1b'
        >>> print(shell_line(["roberta-hub", "tokens", "a\0b"]))
        # no argument of a command holds the character NUL; the Python above does
    """
    if any("\0" in word for word in words):
        return "# no argument of a command holds the character NUL; the Python above does"
    return " ".join("|" if word == "|" else _quoted(word) for word in words)


def _quoted(word: str) -> str:
    if word.replace("\n", "").isprintable():
        return shlex.quote(word)
    return "$'" + "".join(map(_escaped, word)) + "'"


def _escaped(character: str) -> str:
    if character.isprintable() and not re.match(r"[\\'!]", character):
        return character
    return "".join(f"\\x{byte:02x}" for byte in character.encode())

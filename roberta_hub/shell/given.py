"""Declares an option: given twice it is an error that names both values, unless it collects.

One that collects takes one value at a time; a second word after it is a text of its own.
"""

from __future__ import annotations

import functools
import shlex
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from typing import Any

import click

from roberta_hub.arguments import advise, short_repr

Decorator = Callable[[Callable[..., int]], Callable[..., int]]


class Option(click.Option):
    """An option that has one value, unless it is `multiple`; click takes the last of several."""

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        """Let the parser keep every value."""
        collects, self.multiple = self.multiple, True
        super().add_to_parser(parser, ctx)
        self.multiple = collects
        takes_texts = any(one.name == "texts" for one in ctx.command.params)
        if collects and takes_texts and self.nargs == 1 and not ctx.resilient_parsing:
            self.watch(parser, functools.partial(self._check_next, ctx))

    def watch(self, parser: Any, look: Callable[[str, Any], object]) -> None:
        """Show each value to a function before it is taken, with the words before and after it."""
        read = parser._long_opt[self._flag]  # one for all names
        take = read.process

        def process(value: str, state: Any) -> None:
            look(value, state)
            take(value, state)

        read.process = process

    @property
    def _flag(self) -> str:
        return next(name for name in self.opts if name.startswith("--"))

    def _check_next(self, context: click.Context, value: str, state: Any) -> None:
        """Look at the words after a value: `--labels a b` means two, and b is a text."""
        words = [*takewhile(lambda word: not word.startswith("-"), state.rargs)]
        if "," not in value and words and (state.largs or len(words) > 1):
            self._check_word(self._flag, value, words[0], context if state.largs else None)

    def _check_word(self, flag: str, value: str, word: str, context: click.Context | None) -> None:
        """Refuse a word between texts, which may be a value; note one that comes before them."""
        said = f"{short_repr(word)} follows {flag} {short_repr(value)}, which takes one value"
        both = f"{flag} {shlex.quote(value)} {flag} {shlex.quote(word)}"
        if context is None:
            advise(f"{said}, and is taken as a text; two values are {both}")
        else:
            raise click.UsageError(
                f"{said}; two values are {both}, and texts stand together", context
            )

    def handle_parse_result(
        self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        """Take the only value that the parser kept."""
        name = self.name or ""
        if name in opts and not self.multiple:
            if not ctx.resilient_parsing:  # a completion, of a line that is not finished
                self._check_once(ctx, opts[name])
            opts = {**opts, name: opts[name][-1]}
        return super().handle_parse_result(ctx, opts, args)

    def _check_once(self, context: click.Context, values: Sequence[Any]) -> None:
        flag = self.is_flag and len({*values}) == 1  # said twice, it says the same
        if len(values) < 2 or flag:
            return
        if self.is_flag:
            both = " and ".join([self.opts[-1], *self.secondary_opts[-1:]])
            raise click.UsageError(f"{both} exclude each other; choose one", context)
        given = " and ".join(map(short_repr, values))
        raise click.UsageError(
            f"{', '.join(self.opts)} is given {len(values)} times, with {given}; it takes one "
            "value, so leave out the others",
            context,
        )


def option(*names: str, cls: type[Option] = Option, **about: Any) -> Decorator:
    """Declare an option; arguments are click's."""
    return click.option(*names, cls=cls, **about)

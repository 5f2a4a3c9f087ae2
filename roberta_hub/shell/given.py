"""Declares an option: given twice it is an error that names both values, unless it collects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from roberta_hub.arguments import short_repr

Decorator = Callable[[Callable[..., int]], Callable[..., int]]


class Option(click.Option):
    """An option that has one value, unless it is `multiple`; click takes the last of several."""

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        """Let the parser keep every value."""
        collects, self.multiple = self.multiple, True
        super().add_to_parser(parser, ctx)
        self.multiple = collects

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


def option(*names: str, **about: Any) -> Decorator:
    """Declare an option; arguments are click's."""
    return click.option(*names, cls=Option, **about)

"""Declares `roberta-hub train`, which takes settings as hydra writes them."""

from __future__ import annotations

import click


@click.command(
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("settings", nargs=-1, type=click.UNPROCESSED)
def train(settings: tuple[str, ...]) -> int:
    """Train as the settings say; all that follows, `--help` too, is a setting."""
    if not settings or {"-h", "--help"} & set(settings):
        from roberta_hub.train.usage import usage

        click.echo(usage(click.get_current_context().make_formatter().width))
        return 0
    from roberta_hub.train.run import command  # with all that it needs

    return command(list(settings))

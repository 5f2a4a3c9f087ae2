"""Declares `roberta-hub ui`: a page in the browser to play with a model."""

from __future__ import annotations

import click

from roberta_hub.shell.given import option
from roberta_hub.shell.options import DEFAULT_MODEL, MODEL, examples


@click.command(
    epilog=examples(
        "roberta-hub ui",
        "roberta-hub ui -m mine --port 7860",
        "roberta-hub ui --no-browser",
    )
)
@MODEL
@option(
    "--port",
    metavar="N",
    type=click.IntRange(0, 65535),
    default=0,
    help="The port to listen to.  [default: a free one]",
)
@option("--no-browser", is_flag=True, help="Only print the address.")
def ui(model: str | None, port: int, no_browser: bool) -> int:
    """Show a page in the browser to play with a model: masks, labels, searches, tokens.

    Under each answer is the same as Python and as a command. The page is at 127.0.0.1, for this
    machine alone; nothing is sent to any other, and it works without a network. The address goes to
    standard output, and Ctrl-C ends it. It needs gradio, the extra `ui`.
    """
    from roberta_hub.ui import serve

    serve(model or DEFAULT_MODEL, port=port, browser=not no_browser)
    return 0

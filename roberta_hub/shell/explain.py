"""Declares `roberta-hub explain`: each word of a text, by what it does to an answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from roberta_hub.errors import RobertaHubError
from roberta_hub.shell.options import DISPLAY_FORMATS, Request, examples, takes_shown_texts
from roberta_hub.shell.reading import read_source
from roberta_hub.shell.run_verb import load_requested
from roberta_hub.shell.signature import takes_arguments
from roberta_hub.shell.tally import fault_error
from roberta_hub.terminal import clean
from roberta_hub.verbs.question import Parts

if TYPE_CHECKING:
    from roberta_hub.show.display import Display

_PAGE = '<!DOCTYPE html>\n<meta charset="utf-8">\n<title>roberta-hub explain</title>\n{}\n'


@click.command(
    epilog=examples(
        'roberta-hub explain "The children ate bread and gravel."',
        'roberta-hub explain -m mine "A dull film." -o film.png',
        'roberta-hub explain --pair "A dog ran." "Nothing moved." --head mnli -f json',
    )
)
@takes_arguments("interface.py", "explain")
@takes_shown_texts
def explain(request: Request, head: str | None) -> int:
    """Show how much each word of a text speaks for the label of a head.

    Each word is left out in turn. Without a head each word is masked in turn, and the answer is its
    surprise in bits: 1 for each halving of its probability. A text of T tokens costs about T runs
    of the model.
    """
    form = _format_of(request)
    items = [item for item in read_source(request, Parts()).items if item is not None]
    if form == "png" and (len(items) != 1 or request.target in (None, "-")):
        raise click.UsageError("a picture shows one text: give one, and -o FILE.png")
    roberta = load_requested(request)
    shown = []
    for item in items:
        if item.fault is not None:
            raise fault_error(item)
        text = item.texts[0] if len(item.texts) == 1 else item.texts
        try:
            shown.append(roberta.explain(text, head, **request.options))
        except RobertaHubError as error:
            error.at(item.where if error.place == "text" else error.place)
            raise
    _write(request, form, shown)
    return 0


def _format_of(request: Request) -> str:
    """The format that is asked for, or that the name of the file says."""
    if request.format is not None or request.target in (None, "-"):
        return request.format or "text"
    ending = Path(str(request.target)).suffix.lower().lstrip(".").replace("txt", "text")
    if ending not in DISPLAY_FORMATS:
        raise click.UsageError(
            f"{request.target}: its name does not say the format; it may end in .txt, .json, .html "
            "or .png, or -f says it"
        )
    return ending


def _write(request: Request, form: str, shown: Sequence[Display]) -> None:
    """Write displays to the file or to standard output."""
    from roberta_hub.files import write_bytes

    if form == "png":
        shown[0].png(request.target)
        return
    said = _written(form, shown)
    if request.target in (None, "-"):
        click.echo(said, nl=False)
    else:
        write_bytes(Path(str(request.target)), said.encode())


def _written(form: str, shown: Sequence[Display]) -> str:
    if form == "html":
        return _PAGE.format("\n".join(one._repr_html_() for one in shown))
    if form == "json":
        lines = [json.dumps(one.to_dict(), ensure_ascii=False, allow_nan=False) for one in shown]
        return "".join(f"{line}\n" for line in lines)
    return "\n".join("".join(f"{clean(row)}\n" for row in str(one).splitlines()) for one in shown)

"""Answers an option that a verb does not have with what is meant."""

from __future__ import annotations

from collections.abc import Sequence

import click

from roberta_hub.arguments import short_repr
from roberta_hub.errors import near_names
from roberta_hub.other_names import FITTING, KEYWORDS, OPTIONS_ELSEWHERE

DASHED_TEXT = "Put a text that begins with - after --, which follows all options."


def said_of(error: click.NoSuchOption, arguments: Sequence[str]) -> str:
    """Say what is meant by an option that there is not."""
    said = f"No such option {short_repr(error.option_name)}."
    parameters = error.ctx.command.params if error.ctx else []
    word = next((word for word in arguments if word.startswith(error.option_name)), "")
    if _is_text(word) and any(one.name == "texts" for one in parameters):
        return f"{said} {DASHED_TEXT}"
    options = [one for one in parameters if isinstance(one, click.Option)]
    known = [name for one in options for name in (*one.opts, *one.secondary_opts)]
    meant = _others_name(error.option_name, known) or near_names(
        error.option_name, [name for name in known if name.startswith("--")]
    )
    if not meant and (elsewhere := OPTIONS_ELSEWHERE.get(error.option_name)):
        return f"{said} {elsewhere}"
    return f"{said} Did you mean {' or '.join(map(repr, meant))}?" if meant else said


def _is_text(word: str) -> bool:
    """Whether a word that begins with - is a text: it has blanks, or no letter follows."""
    return len(word.split()) > 1 or not word.lstrip("-")[:1].isalpha()


def _others_name(name: str, known: Sequence[str]) -> list[str]:
    """Our names of an option that another library calls so."""
    keyword = name.lstrip("-").replace("-", "_")
    ours = (table.get(keyword, ("",))[0] for table in (FITTING, KEYWORDS))
    flags = [f"--{own.replace('_', '-')}" for own in ours if own]
    return [flag for flag in flags if flag in known][:1]

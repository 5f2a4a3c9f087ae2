"""Runs a verb on texts: reads them window by window, asks the model, and writes the answers."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from roberta_hub.errors import placed
from roberta_hub.shell.grammar import DEFAULT_MODEL, Asked
from roberta_hub.shell.lakes import is_lake, run
from roberta_hub.shell.reading import MOST, Item, items, windows
from roberta_hub.shell.writing import format_of, opened
from roberta_hub.terminal import progress_bar
from roberta_hub.verbs.question import Form, Question, Record, answer_as_columns, records

if TYPE_CHECKING:
    from roberta_hub.interface import RobertaHubInterface

Ask = Callable[["RobertaHubInterface", list[Any]], Sequence[Record]]
"""Asks a model: from texts, which are str or tuples of str, to a record each."""


def answer_rows(asked: Asked, question: Question[Any, Any], settings: Mapping[str, Any]) -> int:
    """Answer the inputs of a command line by a verb that answers each row by itself.

    Args:
        asked: what was given.
        question: the verb.
        settings: its own options by the library's names; None stands for one not given.

    Returns:
        The exit status.
    """
    form = question.form(settings)
    if asked.model is None and question.parts_of_tiny is not None:
        form = replace(form, parts=question.parts_of_tiny)
    if is_lake(asked):
        wanted = dict.fromkeys(question.asked_columns, True)
        return run(asked, form.parts, {**settings, **wanted})

    def records_of(roberta: RobertaHubInterface, rows: list[Any]) -> Sequence[Record]:
        from roberta_hub.interface import verb_model

        return records(
            answer_as_columns(question, verb_model(roberta, **asked.options), rows, settings)
        )

    return ask(asked, form, records_of, question.rows_at_once or MOST)


def ask(
    asked: Asked,
    form: Form,
    question: Ask,
    most: int = MOST,
) -> int:
    """Answer the inputs of a command line, window by window and in their order.

    Args:
        asked: what was given.
        form: of the answers.
        question: asks the model.
        most: inputs that are answered together.

    Returns:
        The exit status.
    """
    format_of(asked, form)  # what is wrong with it is said before anything is read
    given = windows(items(asked, form.parts), most)
    first = next(given, [])  # read before the model is: the texts may be wrong
    with opened(asked, form) as sink, _bar(asked) as bar:
        if first:
            roberta = load(asked)
            for window in chain([first], given):
                sink.write(window, _answers(roberta, window, question))
                bar.update(len(window))
        else:
            print("roberta-hub: note: no texts, so no answers", file=sys.stderr)
    return 0


def load(asked: Asked) -> RobertaHubInterface:
    """Load the model that was asked for."""
    from roberta_hub.hub import load_model

    return load_model(asked.model or DEFAULT_MODEL, device=asked.device)


def _bar(asked: Asked) -> Any:
    """Count the texts on a terminal, where the answers go into a file."""
    try:
        into_file = stat.S_ISREG(os.fstat(sys.stdout.fileno()).st_mode)
    except (OSError, ValueError):  # no file of the system's
        into_file = False
    shown = None if into_file or asked.target not in (None, "-") else False
    return progress_bar(None, unit=" texts", shown=shown)


def _answers(
    roberta: RobertaHubInterface, window: Sequence[Item], question: Ask
) -> Sequence[Record]:
    texts = [item.texts[0] if len(item.texts) == 1 else item.texts for item in window]
    with placed(lambda at: window[at.index].where):
        return question(roberta, texts)

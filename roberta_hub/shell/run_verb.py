"""Runs a verb of the shell: reads texts in windows, runs the model, writes the answers."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from roberta_hub.errors import placed
from roberta_hub.shell.lakes import is_lake, run_lake
from roberta_hub.shell.options import DEFAULT_MODEL, Request
from roberta_hub.shell.reading import MAX_WINDOW_TEXTS, Item, group_in_windows, read_items
from roberta_hub.shell.writing import format_of, open_sink
from roberta_hub.terminal import progress_bar
from roberta_hub.verbs.question import AnswerFormat, Question, Record, answer_as_columns, records

if TYPE_CHECKING:
    from roberta_hub.interface import RobertaHubInterface

AskModel = Callable[["RobertaHubInterface", list[Any]], Sequence[Record]]
"""From a model and texts (str or tuples of str) to one record per text."""


def answer_rows(request: Request, question: Question[Any, Any], settings: Mapping[str, Any]) -> int:
    """Run a verb that answers each row separately.

    Args:
        request: of the command line.
        question: the verb.
        settings: its options by their Python names; None: not given.

    Returns:
        The exit status.
    """
    answer_format = question.answer_format(settings)
    if request.model is None and question.parts_of_tiny is not None:
        answer_format = replace(answer_format, parts=question.parts_of_tiny)
    if is_lake(request):
        wanted = dict.fromkeys(question.asked_columns, True)
        return run_lake(request, answer_format.parts, {**settings, **wanted})

    def records_of(roberta: RobertaHubInterface, rows: list[Any]) -> Sequence[Record]:
        from roberta_hub.interface import verb_model

        return records(
            answer_as_columns(question, verb_model(roberta, **request.options), rows, settings)
        )

    return run_windows(
        request, answer_format, records_of, question.rows_at_once or MAX_WINDOW_TEXTS
    )


def run_windows(
    request: Request,
    answer_format: AnswerFormat,
    question: AskModel,
    most: int = MAX_WINDOW_TEXTS,
) -> int:
    """Answer the inputs of a command line in order, window by window.

    Args:
        request: of the command line.
        answer_format: of the answers.
        question: runs the model.
        most: largest number of inputs per window.

    Returns:
        The exit status.
    """
    format_of(request, answer_format)  # raises before anything is read
    given = group_in_windows(read_items(request, answer_format.parts), most)
    first = next(given, [])  # before the model is loaded: the texts may be invalid
    with open_sink(request, answer_format) as sink, _progress_bar(request) as bar:
        if first:
            roberta = load_requested(request)
            for window in chain([first], given):
                sink.write(window, _answers(roberta, window, question))
                bar.update(len(window))
        else:
            print("roberta-hub: note: no texts, so no answers", file=sys.stderr)
    return 0


def load_requested(request: Request) -> RobertaHubInterface:
    """Load the requested model."""
    from roberta_hub.hub import load_model

    return load_model(request.model or DEFAULT_MODEL, device=request.device)


def _progress_bar(request: Request) -> Any:
    """Progress bar in a terminal, if the answers go to a file."""
    try:
        into_file = stat.S_ISREG(os.fstat(sys.stdout.fileno()).st_mode)
    except (OSError, ValueError):  # not a file of the operating system
        into_file = False
    shown = None if into_file or request.target not in (None, "-") else False
    return progress_bar(None, unit=" texts", shown=shown)


def _answers(
    roberta: RobertaHubInterface, window: Sequence[Item], question: AskModel
) -> Sequence[Record]:
    texts = [item.texts[0] if len(item.texts) == 1 else item.texts for item in window]
    with placed(lambda at: window[at.index].where):
        return question(roberta, texts)

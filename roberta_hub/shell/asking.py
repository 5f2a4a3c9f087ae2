"""Runs a verb on texts: reads them window by window, asks the model, and writes the answers."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from roberta_hub.errors import Place, RobertaHubError, placed
from roberta_hub.shell.formats import Answer, Form
from roberta_hub.shell.grammar import DEFAULT_MODEL, Asked
from roberta_hub.shell.lakes import is_lake, run
from roberta_hub.shell.reading import MOST, Item, items, windows
from roberta_hub.shell.writing import format_of, opened
from roberta_hub.terminal import progress_bar

if TYPE_CHECKING:
    from torch import Tensor

    from roberta_hub.interface import RobertaHubInterface

FEW = 8
"""Inputs that are answered together where each of them takes many runs."""
Ask = Callable[["RobertaHubInterface", list[Any]], Sequence[Answer]]
"""Asks a model: from texts, which are str or tuples of str, to an answer each."""


def ask(
    asked: Asked,
    form: Form,
    question: Ask,
    most: int = MOST,
    settings: Mapping[str, Any] | None = None,
) -> int:
    """Answer the inputs of a command line, window by window and in their order.

    Args:
        asked: what was given.
        form: of the answers.
        question: asks the model.
        most: inputs that are answered together.
        settings: of a verb that answers each row by itself, its own options by the library's names.

    Returns:
        The exit status.
    """
    if settings is not None and is_lake(asked):
        return run(asked, form.parts, settings)
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
) -> Sequence[Answer]:
    texts = [item.texts[0] if len(item.texts) == 1 else item.texts for item in window]
    with placed(lambda at: window[at.index].where):
        return question(roberta, texts)


def one_by_one(texts: Sequence[Any], answer: Callable[[Any], Answer]) -> list[Answer]:
    """Ask about each text by itself; an error about a part of one says which it was.

    Args:
        texts: str, or tuples of them.
        answer: asks about one.
    """
    answers = []
    for i, text in enumerate(texts):
        try:
            answers.append(answer(text))
        except RobertaHubError as error:
            if error.place is not None:  # not about a head, say
                error.within(Place("texts", i))
            raise
    return answers


def ids_of(roberta: RobertaHubInterface, texts: list[Any], *, truncate: bool) -> list[Tensor]:
    """Return the ids that the model reads of each text, in shape (T_i,).

    Args:
        roberta: the model.
        texts: str, or tuples of them.
        truncate: cut those that are too long, as the verbs do.
    """
    ids = roberta.encode_batch(texts)
    if not truncate:
        return ids
    from roberta_hub.inference.windows import fit

    layout, limit = roberta.tokenizer.layout, roberta.max_positions
    return [window.ids[0] for window in fit(ids, texts, limit, layout, truncate=True)]

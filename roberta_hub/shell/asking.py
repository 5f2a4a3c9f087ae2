"""Runs a verb on texts: reads them window by window, asks the model, and writes the answers."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from roberta_hub.errors import RobertaHubError
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

_REGISTER = re.compile(r"[; ]*register_\w+_head\([^)]*\) makes a new one")
_PLACE = re.compile(r"\btexts?(?:\[(\d+)\]| (\d+)\b)")
_WORDS = {
    "pass truncate=True to cut it or stride=N for windows that overlap by N tokens": (
        "--truncate cuts it, --stride N reads windows that overlap by N tokens"
    ),
    "load a model that has one, or register and train one": (
        "-m takes a model that has one; `roberta-hub fit` and `roberta-hub train` make them"
    ),
    'pass pooling="mean", "cls", "max" or "pooler"': "give --pooling mean, cls, max or pooler",
    "keep others, or pass Verb(prefix=TEXT)": "--keep names the columns that are kept",
    'errors="column"': "--errors column",
    "Pass text=NAME": "Say --column NAME",
    "multi_label=True": "--multi-label",
    "no_answer=False": "--always",
    "prompt= takes a text of your own": "--prompt takes a text of your own",
    "pass head=NAME, or set roberta.own_head once": "say --head NAME",
    "more in available_models()": "more in `roberta-hub models`",
    "load_model('FOLDER')": "-m FOLDER",
    "pass stride=N instead": "give --stride N instead",
    "pass (text, other text) for each, or ask zero_shot(texts, labels), which takes single texts "
    "and labels in words": (
        "give pairs (--pair A B, or two columns), or take zero-shot, for labels in words"
    ),
}
"""What errors advise in Python, and what does the same in a shell."""


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
        try:
            return run(asked, form.parts, settings)
        except RobertaHubError as error:
            raise in_shell_words(error, str) from None
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

    try:
        return load_model(asked.model or DEFAULT_MODEL, device=asked.device)
    except RobertaHubError as error:
        raise in_shell_words(error, str) from None


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
    try:
        return question(roberta, texts)
    except RobertaHubError as error:
        raise in_shell_words(error, lambda number: window[number].where) from None


def in_shell_words(error: RobertaHubError, where: Callable[[int], str]) -> RobertaHubError:
    """Say an error of the library as a shell's user knows it.

    Args:
        error: names a text by its number, and advises keywords.
        where: from that number to the text's file and line.
    """
    message = str(error)

    def place(found: re.Match[str]) -> str:
        try:
            return where(int(found[1] or found[2]))
        except IndexError:  # a number of something else
            return found[0]

    return type(error)(in_words(_PLACE.sub(place, message, count=1)))


def in_words(message: str) -> str:
    """Say an advice of the library as a shell's user knows it.

    Example:
        >>> in_words("pass several, or multi_label=True for the probability of one")
        'pass several, or --multi-label for the probability of one'
    """
    message = _REGISTER.sub("", message)
    for python, shell in _WORDS.items():
        message = message.replace(python, shell)
    return message


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

"""Runs a verb of the shell: reads texts in windows, runs the model, writes the answers."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import click

from roberta_hub.errors import Place, RobertaHubError, placed
from roberta_hub.rows.arrow import stored_ranges
from roberta_hub.shell.kept import KeptColumns
from roberta_hub.shell.lakes import is_lake, run_lake
from roberta_hub.shell.layout import AnsweredRow, Layout
from roberta_hub.shell.options import DEFAULT_MODEL, Request
from roberta_hub.shell.reading import (
    MAX_WINDOW_TEXTS,
    Item,
    Source,
    group_in_windows,
    read_source,
)
from roberta_hub.shell.tally import Tally, fault_error
from roberta_hub.shell.writing import format_of, open_sink
from roberta_hub.terminal import progress_bar
from roberta_hub.verbs.question import AnswerFormat, Question, Record, answer_as_columns, records
from roberta_hub.verbs.unanswered import answer_in_parts
from roberta_hub.verbs.vectors import SAMPLE_TEXTS, sampled_ranges

if TYPE_CHECKING:
    from roberta_hub.inference.verb_model import VerbModel
    from roberta_hub.interface import RobertaHubInterface

TEXT_ONLY_FORMATS = ("table", "npy")
"""Formats without a place for columns of a table: one shows texts, the other vectors alone."""
AskModel = Callable[["RobertaHubInterface", list[Any]], Sequence[Record]]
"""From a model and texts (str or tuples of str) to one record per text."""


def answer_rows(request: Request, question: Question[Any, Any], settings: Mapping[str, Any]) -> int:
    """Run a verb that answers each row separately."""
    settings = dict(settings)
    if settings.get("ranges") is not None:
        settings["ranges"] = stored_ranges(settings["ranges"])
    answer_format = question.answer_format(settings)
    if request.model is None and question.parts_of_tiny is not None:
        answer_format = replace(answer_format, parts=question.parts_of_tiny)
    if is_lake(request):
        wanted = dict.fromkeys(question.asked_columns, True)
        return run_lake(request, answer_format.parts, {**settings, **wanted})

    def records_of(roberta: RobertaHubInterface, rows: list[Any]) -> Sequence[Record]:
        model = verb_model_of(roberta, request)
        return records(answer_as_columns(question, model, rows, settings))

    def with_ranges(roberta: RobertaHubInterface, texts: list[Any]) -> AnswerFormat:
        floats = {**settings, "dtype": None}

        def vectors(rows: list[Any]) -> Any:
            model = verb_model_of(roberta, request)
            return answer_as_columns(question, model, rows, floats)["vector"]

        settings["ranges"] = sampled_ranges(vectors, texts)
        return replace(answer_format, ranges=settings["ranges"])

    most = question.rows_at_once or MAX_WINDOW_TEXTS
    sampled = settings.get("dtype") == "int8" and settings["ranges"] is None
    if sampled and format_of(request, answer_format) != "parquet":
        raise click.UsageError(
            "int8 vectors need their ranges beside them: give -o FILE.parquet, which stores those "
            "of the first texts, or --ranges FILE of earlier ones"
        )
    prepare = with_ranges if sampled else None
    return run_windows(request, answer_format, records_of, most, prepare=prepare)


def verb_model_of(roberta: RobertaHubInterface, request: Request) -> VerbModel:
    """Collect what a verb asks of a model, with the options of a command line."""
    from roberta_hub.interface import verb_model

    return verb_model(roberta, **request.options)


def run_windows(
    request: Request,
    answer_format: AnswerFormat,
    question: AskModel,
    most: int = MAX_WINDOW_TEXTS,
    load: Callable[[Request], RobertaHubInterface] | None = None,
    prepare: Callable[[RobertaHubInterface, list[Any]], AnswerFormat] | None = None,
) -> int:
    """Answer the inputs of a command line in order, window by window."""
    source, layout, items = open_rows(request, answer_format)
    given = group_in_windows(items, most)
    # Before the model is loaded: the texts may be invalid.
    ahead = _windows_of(given, SAMPLE_TEXTS if prepare else 1)
    layout.set_names(ahead[0] if ahead else [])
    tally = Tally()
    with open_sink(request, layout) as sink, _progress_bar(request) as bar:
        if ahead:
            roberta = (load or load_requested)(request)
            if prepare is not None:
                layout.answer_format = prepare(roberta, _texts_of(*ahead))
            layout.ask_example = lambda: question(roberta, [_example_text(source, layout)])[0]
            for window in chain(ahead, given):
                rows = _answers(roberta, window, question, raises=layout.blocks)
                sink.write(rows)
                tally.add(rows)
                bar.update(len(window))
        else:
            print("roberta-hub: note: no texts, so no answers", file=sys.stderr)
    tally.finish(request.errors)
    return 0


def open_rows(
    request: Request, answer_format: AnswerFormat
) -> tuple[Source, Layout, Iterator[Item | None]]:
    """Open the inputs of a command line, with the columns that are kept beside the answers."""
    kind = format_of(request, answer_format)  # raises before anything is read
    source = read_source(request, answer_format.parts)
    layout = Layout(
        answer_format,
        blocks=bool(request.texts or request.pairs),
        kept=_kept(request, source, kind),
        has_error_column=request.errors == "column" and kind not in TEXT_ONLY_FORMATS,
    )
    layout.check(list(answer_format.sample))
    items = source.items if layout.kept is None else map(_fitting(layout.kept), source.items)
    return source, layout, items


def _windows_of(windows: Iterator[list[Item]], least: int) -> list[list[Item]]:
    """Read windows until they have so many texts."""
    found: list[list[Item]] = []
    while sum(map(len, found)) < least and (window := next(windows, None)):
        found.append(window)
    return found


def _texts_of(*windows: Sequence[Item]) -> list[Any]:
    """Return the texts of inputs, but those at fault."""
    items = [item for window in windows for item in window if item.fault is None]
    return [item.texts[0] if len(item.texts) == 1 else item.texts for item in items]


def _kept(request: Request, source: Source, kind: str) -> KeptColumns | None:
    """Return the columns to keep beside the answers; None: there are none to choose from."""
    if request.keep is not None and (source.table is None or kind in TEXT_ONLY_FORMATS):
        what = f"{kind} holds none" if source.table is not None else "there is no table"
        raise click.UsageError(f"--keep names columns of a table to write, and {what}")
    if source.table is None or kind in TEXT_ONLY_FORMATS:
        return None
    return KeptColumns(source.table, request.keep, kind)


def _fitting(kept: KeptColumns) -> Callable[[Item | None], Item | None]:
    return lambda item: None if item is None else kept.fitted(item)


def _example_text(source: Source, layout: Layout) -> str | tuple[str, ...]:
    """Return an input that any model of the verb answers."""
    parts = layout.answer_format.parts
    count = len(source.columns) or len(layout.names)
    texts = tuple(f"text {i} <mask>" for i in range(max(count, parts.least)))
    return texts if len(texts) > 1 else texts[0]


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
    roberta: RobertaHubInterface, window: Sequence[Item], question: AskModel, *, raises: bool
) -> list[AnsweredRow]:
    """Answer the inputs of a window, but those at fault."""
    asked = [item for item in window if item.fault is None]
    texts = _texts_of(asked)

    def is_of_a_row(error: RobertaHubError) -> bool:
        return not raises and isinstance(error.place, Place) and error.place.argument == "texts"

    found: list[Record | RobertaHubError] = []
    with placed(lambda at: asked[at.index].where if at.argument == "texts" else at):
        for start, part in answer_in_parts(partial(question, roberta), texts, is_of_a_row):
            if isinstance(part, RobertaHubError):
                part.at(asked[start].where)
                found.append(part)
            else:
                found += part
    answers = iter(found)
    rows = []
    for item in window:
        answer = next(answers) if item.fault is None else fault_error(item)
        if isinstance(answer, RobertaHubError):
            rows.append(AnsweredRow(item, None, answer))
        else:
            rows.append(AnsweredRow(item, answer))
    return rows

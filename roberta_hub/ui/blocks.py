"""Draws the tabs of a model with gradio, and answers what they ask."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from roberta_hub.errors import MissingExtraError, Place, RobertaHubError, sentence
from roberta_hub.extras import install
from roberta_hub.hub import load_model
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.show.colours import ORANGE, css
from roberta_hub.show.display import Display
from roberta_hub.show.facts import Note
from roberta_hub.show.markup import element
from roberta_hub.ui.tabs import Tab, tabs

if TYPE_CHECKING:
    import gradio

Reply = tuple[str, str, str]
"""Markup of an answer, and the same as Python and as a command."""
AT_ONCE = 8
"""Most questions of a tab that are answered at the same time; others wait in a queue."""
_REFUSAL = f"border-left:3px solid {css(ORANGE)};padding:.2em .7em;overflow-wrap:anywhere"
_CSS = """
.gradio-container { max-width: 54rem !important; width: 100%; margin: 0 auto }
.gradio-container button[role=tab] { color: var(--body-text-color) }
"""
"""Lines that are not too long to read; a chosen tab that has enough contrast."""
_LINES = ("corpus", "a", "b")
"""Arguments of the verbs that are a field's lines."""


def page(model: str | PathLike[str] = "roberta.tiny") -> gradio.Blocks:
    """Make the page of a model, a gradio `Blocks`, for a hosted space or a notebook.

    Args:
        model: a name or a path, as `load_model` takes it.

    Returns:
        What `launch()` shows. It sends no usage statistics.

    Raises:
        MissingExtraError: gradio is not installed.
        RobertaHubError: the model cannot be loaded; see `load_model`.

    Example:
        >>> import roberta_hub
        >>> demo = roberta_hub.ui.page("roberta.tiny")  # doctest: +SKIP
        >>> demo.launch()  # doctest: +SKIP
    """
    gr = gradio_here()
    name, roberta = fspath(model), load_model(model)
    first, *others = tabs(roberta)
    with gr.Blocks(analytics_enabled=False, title=f"{name} · roberta_hub") as blocks:
        gr.HTML(_heading(name, roberta), apply_default_css=False)
        with gr.Tabs():
            _draw(first, name, roberta, answered=True)
            for tab in others:
                _draw(tab, name, roberta)
    blocks.launch = partial(blocks.launch, **look())  # gradio takes no theme before
    return blocks.queue(default_concurrency_limit=AT_ONCE)


def look() -> dict[str, Any]:
    """Make the theme and style of the page: gradio's default, in the blue of our displays.

    The fonts are those that the machine has.
    """
    gr = gradio_here()
    theme = gr.themes.Default(
        primary_hue="blue",
        font=("Segoe UI", "Helvetica Neue", "Arial", "sans-serif"),
        font_mono=("Menlo", "Consolas", "monospace"),
    )
    dark_enough = ("button_primary_background_fill", "button_primary_background_fill_dark")
    theme.set(**dict.fromkeys(dark_enough, "*primary_600"))
    return {"theme": theme, "css": _CSS}


def gradio_here() -> Any:
    """Import gradio."""
    try:
        import gradio
    except ImportError as error:
        raise MissingExtraError(f"the page needs gradio ({error}): {install('ui')}") from None
    with suppress(ImportError):
        import matplotlib.pyplot  # noqa: F401  # gradio would, while the first user waits
    return gradio


def _draw(tab: Tab, model: str, roberta: RobertaHubInterface, answered: bool = False) -> None:
    """Draw a tab with its first example, which is answered when the page opens, or is not."""
    gr = gradio_here()

    def answer(*values: str | None) -> Reply:
        return reply(tab, model, roberta, [value or "" for value in values])

    first = tab.examples[0] if tab.examples else [""] * len(tab.fields)
    there = answer(*first) if answered and tab.examples else ("", "", "")
    with gr.Tab(tab.title):
        gr.HTML(str(Note(tab.says).html()), apply_default_css=False)
        inputs = [
            gr.Textbox(text, label=part.label, lines=part.lines, max_lines=12)
            for part, text in zip(tab.fields, first, strict=True)
        ]
        ask = gr.Button("Ask", variant="primary")
        outputs = [gr.HTML(there[0], apply_default_css=False)]
        for name, code in zip(("Python", "shell"), there[1:], strict=True):
            with gr.Accordion(f"Copy as {name}", open=False):
                outputs.append(
                    gr.Code(
                        code,
                        name.lower(),
                        lines=1,
                        show_label=False,
                        interactive=False,
                        wrap_lines=True,
                        show_line_numbers=False,
                        buttons=["copy"],
                    )
                )
        asked = [ask.click, *(box.submit for box in inputs)]
        name = re.sub(r"\W+", "_", tab.name)
        gr.on(
            asked,
            answer,
            inputs,
            outputs,
            api_name=name,
            show_progress="minimal",
            trigger_mode="always_last",  # who asks again before the answer gets that, too
        )
        if tab.examples:
            gr.Examples(
                [list(example) for example in tab.examples],
                inputs,
                outputs,
                answer,
                cache_examples=False,
                run_on_click=True,
                example_labels=[example[0].split("\n")[0] for example in tab.examples],
            )


def reply(tab: Tab, model: str, roberta: RobertaHubInterface, values: Sequence[str]) -> Reply:
    """Answer the texts of a tab."""
    try:
        call = tab.asked(values)
        found = tab.draw(call, call.answer(roberta))
    except RobertaHubError as error:
        return str(element("div", _said(error), style=_REFUSAL)), "", ""
    return found, call.python(model), call.shell(model)


def _said(error: RobertaHubError) -> str:
    """Say an error as a user of the page knows it: a line of a field, and no arguments."""
    place = error.place
    if isinstance(place, Place):
        place = f"line {place.index + 1}" if place.argument in _LINES else None
    remedy = f"In Python: {error.remedy.python}." if error.remedy else ""
    return sentence(error.what + (". " if remedy else ""), place) + remedy


def _heading(name: str, roberta: RobertaHubInterface) -> str:
    count = sum(parameter.numel() for parameter in roberta.model.parameters())
    facts = Note(f"{count / 1e6:,.1f} M parameters, {roberta.family}")
    return Display(name, [facts], {})._repr_html_()

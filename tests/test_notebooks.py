"""The notebooks run, are saved with their outputs, and are what their scripts say."""

from __future__ import annotations

import base64
import io
import resource
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from scripts import TOOLS, load_script

if TYPE_CHECKING:
    from nbformat import NotebookNode

WHY = "the notebooks need it: pip install '.[notebooks]' in the clone"
jupytext = pytest.importorskip("jupytext", reason=f"no jupytext; {WHY}")
nbformat = pytest.importorskip("nbformat", reason=f"no nbformat; {WHY}")
for needed in ("nbclient", "ipykernel", "matplotlib"):
    pytest.importorskip(needed, reason=f"no {needed}; {WHY}")

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = sorted((ROOT / "notebooks").glob("*.py"))
REBUILD = "run `make notebooks`"
LONGEST = {"04_a_language_of_your_own": 600.0}
"""Seconds of one core that a notebook may take; the others 90."""
TRAINS = {"03_your_own_classifier", "04_a_language_of_your_own"}
"""What `make test` leaves to `make test-full`."""
RUNS = [
    pytest.param(path, id=path.stem, marks=[pytest.mark.slow] if path.stem in TRAINS else [])
    for path in SCRIPTS
]


builder = load_script(TOOLS / "build_notebooks.py")


def saved(script: Path) -> NotebookNode:
    return nbformat.read(script.with_suffix(".ipynb"), as_version=4)


def sources(notebook: NotebookNode) -> list[tuple[str, str]]:
    return [(cell.cell_type, cell.source) for cell in notebook.cells]


def one_cell(*outputs: NotebookNode) -> NotebookNode:
    cell = nbformat.v4.new_code_cell("", execution_count=1, outputs=list(outputs))
    return nbformat.v4.new_notebook(cells=[cell])


def test_scripts_and_notebooks_come_in_pairs() -> None:
    notebooks = sorted((ROOT / "notebooks").glob("*.ipynb"))
    assert SCRIPTS
    assert [script.with_suffix(".ipynb") for script in SCRIPTS] == notebooks, REBUILD


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_notebook_is_in_step_with_its_script(script: Path) -> None:
    assert sources(saved(script)) == sources(jupytext.read(script, fmt="py:percent")), REBUILD


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_notebook_is_saved_clean_with_its_outputs(script: Path) -> None:
    notebook = saved(script)
    nbformat.validate(notebook)
    assert list(builder.faults(notebook)) == [], REBUILD
    kinds = {
        kind
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        for kind in output.get("data", {})
    }
    assert {"image/png", "text/plain"} <= kinds, REBUILD
    text = script.with_suffix(".ipynb").read_text(encoding="utf-8")
    assert str(ROOT) not in text
    assert len(text) < 600_000
    assert notebook.metadata == builder.METADATA, REBUILD


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_notebook_is_read_without_scrolling_in_a_cell(script: Path) -> None:
    notebook = saved(script)
    for cell in notebook.cells:
        assert len(cell.source.splitlines()) <= 15, cell.source
    first = [
        kind
        for cell in notebook.cells[:5]
        for output in cell.get("outputs", ())
        for kind in output.get("data", {})
    ]
    assert "image/png" in first, "no picture within the first five cells"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_what_a_notebook_shows_is_shown_by_github_too(script: Path) -> None:
    """GitHub strips the styles of HTML; it shows a PNG."""
    for cell in saved(script).cells:
        for output in cell.get("outputs", ()):
            assert "text/html" not in output.get("data", {}), f"{cell.source}: call .png()"


@pytest.mark.system
@pytest.mark.parametrize("script", RUNS)
def test_a_notebook_runs_in_a_fresh_kernel(script: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    fresh = builder.execute(builder.read_script(script), script.parent)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    taken = (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)
    assert taken <= LONGEST.get(script.stem, 90.0)
    assert list(builder.faults(fresh)) == []
    for now, then in zip(fresh.cells, saved(script).cells, strict=True):
        kinds = [output.output_type for output in now.get("outputs", ())]
        assert kinds == [output.output_type for output in then.get("outputs", ())], REBUILD


@pytest.mark.system
def test_a_kernel_without_ipywidgets_hears_nothing_of_it(tmp_path: Path) -> None:
    cells = [
        "import sys\nsys.modules['ipywidgets'] = None",
        "from roberta_hub.terminal import progress_bar\n"
        "with progress_bar(3, unit=' texts', shown=None) as bar:\n    bar.update(3)",
    ]
    notebook = nbformat.v4.new_notebook(cells=list(map(nbformat.v4.new_code_cell, cells)))
    ran = builder.execute(notebook, tmp_path)
    assert ran.cells[1].outputs == []


@pytest.mark.parametrize(
    "text", ["saved in /home/ada/model.pt", "'/tmp/x/y'", r"C:\Users\ada", "<Thing at 0x7f01>"]
)
def test_what_belongs_to_one_machine_is_found(text: str) -> None:
    stream = nbformat.v4.new_output("stream", name="stdout", text=text)
    value = nbformat.v4.new_output("execute_result", data={"text/plain": text})
    assert len(list(builder.faults(one_cell(stream, value)))) == 2


@pytest.mark.parametrize(
    "text", ["../tests/data/model.pt", "https://a.org/b/c", "and/or/both", "1 / 2 / 3", "</s></s>"]
)
def test_what_belongs_to_no_machine_is_left_alone(text: str) -> None:
    stream = nbformat.v4.new_output("stream", name="stdout", text=text)
    assert list(builder.faults(one_cell(stream))) == []


def test_errors_and_warnings_are_found() -> None:
    error = nbformat.v4.new_output("error", ename="KeyError", evalue="'x'", traceback=[])
    warning = nbformat.v4.new_output("stream", name="stderr", text="UserWarning: careful")
    assert len(list(builder.faults(one_cell(error, warning)))) == 2


def test_pictures_become_small_and_look_the_same() -> None:
    from PIL import Image, ImageDraw

    drawn = Image.new("RGB", (200, 80), "white")
    ImageDraw.Draw(drawn).rectangle((20, 20, 120, 60), fill="#1f6feb")
    large = io.BytesIO()
    drawn.save(large, "PNG", compress_level=0)
    small = builder.fewer_colours(base64.b64encode(large.getvalue()).decode())
    assert builder.fewer_colours(small) == small
    again = Image.open(io.BytesIO(base64.b64decode(small))).convert("RGB")
    assert again.tobytes() == drawn.tobytes() and len(small) < len(large.getvalue()) / 20


def test_printed_lines_are_joined() -> None:
    lines = [nbformat.v4.new_output("stream", name="stdout", text=text) for text in ("a\n", "b\n")]
    (output,) = builder.normalize(one_cell(*lines)).cells[0].outputs
    assert output.text == "a\nb\n"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("\r  0%|          | 0/3 [00:00<?]\r100%|██████████| 3/3 [00:00<00:00]\n", False),
        ("50%|█████     | 1/2\nUserWarning: careful\n", True),
    ],
)
def test_bars_are_seen_by_who_runs_it_alone(text: str, kept: bool) -> None:
    bar = nbformat.v4.new_output("stream", name="stderr", text=text)
    assert bool(builder.normalize(one_cell(bar)).cells[0].outputs) == kept


def test_bars_of_a_command_are_left_out_of_its_output() -> None:
    text = "\r  0%| | 0/3 [<?]\r100%|█| 3/3 [00:00<00:00]\r\n12:00:01 saved\r\ndone\r\n 2 a\r\n"
    assert builder.without_progress(text) == "done\n 2 a\n"
    assert builder.without_progress("a\n\n5%| b]\n") == "a\n\n5%| b]\n"

"""Rebuild every `notebooks/*.ipynb` from the jupytext script next to it.

The script is run, and saved with its outputs.

    python tools/build_notebooks.py

The script is the source; edit that one. What differs from run to run or from machine to machine is
left out of the notebook, so that the diff of a rebuild shows what really changed. A notebook whose
outputs hold an error, a warning or a path of this machine is not saved.
"""

from __future__ import annotations

import base64
import io
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import jupytext
from nbclient import NotebookClient
from nbformat import NotebookNode, write
from PIL import Image
from traitlets.config import Config

FOLDER = Path(__file__).resolve().parents[1] / "notebooks"
METADATA = {
    "jupytext": {"formats": "ipynb,py:percent"},
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
# An absolute path of two parts or more, on any system, or the address of an object.
_OF_A_MACHINE = re.compile(r"(?<![\w.:/])/[\w.~-]+/[\w.~-]+|\b[A-Za-z]:\\\w|\bat 0x[0-9a-f]+")

_OF_A_RUN = re.compile(r"%\|.*[|\]]|^\s*\d\d:\d\d:\d\d ")


def read_script(script: Path) -> NotebookNode:
    """The notebook of a percent script, without outputs."""
    notebook = jupytext.read(script, fmt="py:percent")
    notebook.metadata = NotebookNode(METADATA)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    for number, cell in enumerate(notebook.cells, start=1):
        cell.id = f"cell-{number:02d}"
        cell.metadata = NotebookNode()
    return notebook


def execute(notebook: NotebookNode, folder: Path = FOLDER, timeout: int = 900) -> NotebookNode:
    """Run all cells in a fresh kernel that starts in `folder`, and normalize what comes out.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell failed.
    """
    with tempfile.TemporaryDirectory() as own:
        # No settings or history of the user's. One thread: the same numbers on any machine,
        # and on a busy one, threads that wait for each other are slower than one. The kernel
        # listens in a folder of ours instead of at a port that all of the machine can reach.
        environment = {
            **os.environ,
            "IPYTHONDIR": own,
            "OMP_NUM_THREADS": "1",
            "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        }
        manager = {"transport": "ipc", "ip": f"{own}/kernel"} if os.name == "posix" else {}
        NotebookClient(
            notebook,
            timeout=timeout,
            kernel_name="python3",
            resources={"metadata": {"path": str(folder)}},
            record_timing=False,
            config=Config({"KernelManager": manager}),
        ).execute(env=environment)
    return normalize(notebook)


def normalize(notebook: NotebookNode) -> NotebookNode:
    """Drop bars and what the kernel says of itself, join printed lines, make pictures small.

    Printed lines arrive in chance portions.
    """
    notebook.metadata = NotebookNode(METADATA)
    for cell in notebook.cells:
        cell.metadata = NotebookNode()
        joined: list[NotebookNode] = []
        for output in cell.get("outputs", ()):
            before = joined[-1] if joined else None
            if (
                before is not None
                and output.output_type == before.output_type == "stream"
                and output.name == before.name
            ):
                before.text += output.text
            else:
                joined.append(output)
        for output in joined:
            if output.output_type == "stream" and output.name == "stdout":
                output.text = without_progress(output.text)
            if "image/png" in (data := output.get("data", {})):
                data["image/png"] = fewer_colours(data["image/png"])
        if cell.cell_type == "code":
            cell.outputs = [output for output in joined if not is_progress(output)]
    return notebook


def without_progress(text: str) -> str:
    """Drop the bars and timed lines of a command that a cell ran; they differ in every run."""
    if "\r" not in text:
        return text
    parts = re.split(r"(?<=[\r\n])", text.replace("\r\n", "\n"))
    return "".join(part for part in parts if part.strip() and not _OF_A_RUN.search(part))


def is_progress(output: NotebookNode) -> bool:
    """Whether an output is bars alone: who runs the notebook sees them, who reads it need not."""
    if output.output_type != "stream" or output.name != "stderr":
        return False
    return all("%|" in line for line in re.split(r"[\r\n]+", output.text) if line.strip(" \x1b[A"))


def fewer_colours(picture: str) -> str:
    """A PNG, in base64, in 256 colours: text and bars look the same in a third of the bytes."""
    small = io.BytesIO()
    drawn = Image.open(io.BytesIO(base64.b64decode(picture))).convert("RGB")
    drawn.quantize(256, dither=Image.Dither.NONE).save(small, "PNG", optimize=True)
    return base64.b64encode(small.getvalue()).decode()


def faults(notebook: NotebookNode) -> Iterator[str]:
    """What a saved notebook must not hold.

    Cells that did not run, errors, warnings, paths and addresses.
    """
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        if cell.execution_count is None:
            yield f"{cell.id} was not run"
        for output in cell.outputs:
            if output.output_type == "error":
                yield f"{cell.id} failed: {output.ename}: {output.evalue}"
            elif output.output_type == "stream" and output.name == "stderr":
                yield f"{cell.id} wrote to stderr: {output.text.strip()}"
            texts = [output.get("text", "")]
            texts += [
                text for kind, text in output.get("data", {}).items() if kind.startswith("text/")
            ]
            for text in texts:
                for found in _OF_A_MACHINE.findall(text):
                    yield f"{cell.id} shows {found!r}, which is of one machine or one run"


def build(script: Path) -> Path:
    """Write the notebook of one script.

    Raises:
        SystemExit: it has `faults`; the old notebook stays.
    """
    notebook = execute(read_script(script), script.parent)
    if found := list(faults(notebook)):
        raise SystemExit("\n".join([f"{script.name} is not fit to be saved:", *found]))
    target = script.with_suffix(".ipynb")
    write(notebook, target)
    return target


def main() -> None:
    """Build all of them."""
    for script in sorted(FOLDER.glob("*.py")):
        target = build(script)
        print(f"{target.relative_to(FOLDER.parent)}  {target.stat().st_size / 1000:.0f} KB")


if __name__ == "__main__":
    main()

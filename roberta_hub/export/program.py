"""Traces a model into a program of torch.export, for any number of rows and columns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from roberta_hub.export.check import RunInputs
from roberta_hub.export.graph import Graph
from roberta_hub.formats.saving import EXPORTS

if TYPE_CHECKING:
    from torch.export import ExportedProgram

PROGRAM_FILE = EXPORTS["torch"][0]


def trace(graph: Graph) -> ExportedProgram:
    """Trace a module in eval mode, for 1 row or more and 2 columns up to the model's longest."""
    longest = graph.encoder.max_positions()
    # torch would specialize sizes of 1 as constants, so the sample is larger.
    ids = torch.full((2, min(7, longest)), graph.encoder.padding_idx + 1)
    sample: dict[str, Tensor] = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    sample |= {name: torch.zeros_like(ids) for name in graph.inputs if name not in sample}
    sizes = {
        0: torch.export.Dim("batch_size", min=1, max=1 << 40),  # torch 2.6 wants a bound
        1: torch.export.Dim("sequence_length", min=2, max=longest),
    }
    return torch.export.export(
        graph,
        tuple(sample[name] for name in graph.inputs),
        dynamic_shapes=tuple(sizes for _ in graph.inputs),
        strict=False,
    )


def write_program(program: ExportedProgram, folder: Path) -> None:
    """Write a program as `model.pt2`, which `torch.export.load` reads."""
    # Through memory: torch's own writer ends the process if the disk is full.
    archive = BytesIO()
    torch.export.save(program, archive)
    # If the disk is full, the traceback of write_bytes keeps a view of the archive, and the garbage
    # collector of Python 3.12.1 crashes on it.
    with (folder / PROGRAM_FILE).open("wb") as file:
        file.write(archive.getbuffer())


@contextmanager
def program_in(folder: Path, outputs: tuple[str, ...]) -> Iterator[RunInputs]:
    """Open a written program: it is asked by named inputs, and answers by named outputs."""
    module = torch.export.load(folder / PROGRAM_FILE).module()
    yield lambda inputs: dict(zip(outputs, module(*inputs.values()), strict=True))

"""Writes a traced program as ONNX, and runs it in ONNX Runtime."""

from __future__ import annotations

import importlib
import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from roberta_hub import extras
from roberta_hub.errors import MissingExtraError, Remedy
from roberta_hub.export.check import RunInputs
from roberta_hub.formats.saving import EXPORTS

if TYPE_CHECKING:
    from torch.export import ExportedProgram

ONNX_FILE = EXPORTS["onnx"][0]
"""Name of the file; large models keep their weights in `model.onnx.data`."""
EXTERNAL_DATA_BYTES = 1_500_000_000
"""Bytes of weights above which they get a separate file; ONNX's own limit is 2 GiB."""
OPSETS = (18, 23)
"""First and last opset, both tested; the last has attention as a single operator."""
_AXES = {0: "batch_size", 1: "sequence_length"}


def check_installed() -> None:
    """Raise an error without the packages that write ONNX."""
    missing = [name for name in ("onnx", "onnxscript") if find_spec(name) is None]
    if missing:
        raise MissingExtraError(
            f"the format 'onnx' needs {' and '.join(missing)}: {extras.install('onnx')}",
            remedy=Remedy("format='torch' needs torch alone", "--format torch needs torch alone"),
        )


def write_onnx(
    program: ExportedProgram,
    folder: Path,
    *,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    opset: int,
) -> None:
    """Write a program as `model.onnx`, and `model.onnx.data` where it is large."""
    size = sum(w.numel() * w.element_size() for w in program.state_dict.values())
    with _silence():
        made = torch.onnx.export(
            program,
            (),
            dynamo=True,
            opset_version=opset,
            input_names=list(inputs),
            output_names=list(outputs),
            dynamic_shapes=tuple(_AXES for _ in inputs),
            verbose=False,
        )
        assert made is not None  # with dynamo=True
        made.save(folder / ONNX_FILE, external_data=size > EXTERNAL_DATA_BYTES)


@contextmanager
def _silence() -> Iterator[None]:
    """Silence the exporter's warnings on torchvision, axes and its own code."""
    log = logging.getLogger("torch.onnx")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(before)


def has_runtime() -> bool:
    """Whether ONNX Runtime is installed."""
    return find_spec("onnxruntime") is not None


@contextmanager
def onnx_in(folder: Path) -> Iterator[RunInputs]:
    """Load a written file in ONNX Runtime on the CPU."""
    runtime: Any = importlib.import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 3  # errors
    options.intra_op_num_threads = torch.get_num_threads()
    session = runtime.InferenceSession(
        str(folder / ONNX_FILE), options, providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]

    def run(inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        found = session.run(names, {name: ids.numpy() for name, ids in inputs.items()})
        return dict(zip(names, map(torch.from_numpy, found), strict=True))

    yield run

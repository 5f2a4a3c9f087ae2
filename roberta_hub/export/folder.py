"""Exports one answer of a model into a folder, with tokenizer and labels, and checks it."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch

from roberta_hub import extras
from roberta_hub.arguments import advise, one_of, path_of, switch, whole_number
from roberta_hub.checkpoint.checkpoint import (
    HEADS,
    REPLACED_HEAD,
    SPAN_HEADS,
    TOKEN_HEADS,
    Checkpoint,
)
from roberta_hub.errors import CheckpointError, InputError, Remedy, RobertaHubError
from roberta_hub.export import onnx, program
from roberta_hub.export.check import check
from roberta_hub.export.graph import ExportedAnswer, Graph, Output, find_answer
from roberta_hub.export.stages import stage
from roberta_hub.export.target import check_vacant, earlier_files
from roberta_hub.files import publishing_all, reason_of, write_files
from roberta_hub.formats import saving
from roberta_hub.inference.mode import evaluating
from roberta_hub.inference.optimize import Optimization
from roberta_hub.model.roberta import Roberta
from roberta_hub.settings import POOLINGS, Pooling, SentenceSettings
from roberta_hub.show.report import Report, Reported, Section, said
from roberta_hub.text.added import TOKENIZER_CONFIG_FILE
from roberta_hub.text.tokenizer import Tokenizer

Format = Literal["onnx", "torch"]
_OTHER_TORCH = Remedy("Another version of torch may do")
_LOWER_OPSET = f"A lower opset asks less, down to {onnx.OPSETS[0]}; "
_OTHER_ONNX = Remedy(
    f"{_LOWER_OPSET}format='torch' needs torch alone",
    f"{_LOWER_OPSET}--format torch needs torch alone",
)
_HEAD_PREFIXES = {
    "classification": HEADS,
    "token": TOKEN_HEADS,
    "span": SPAN_HEADS,
    "replaced": REPLACED_HEAD,
}
"""Prefixes of the names of a head's weights."""


@dataclass(frozen=True)
class Exported(Reported):
    """Result of `export`: files, inputs, outputs, and difference from the model.

    Example:
        >>> print(Exported(Path("out"), ("model.onnx",), ("input_ids",), ("logits",), 2e-6))
        out: model.onnx
        input_ids -> logits
        within 2e-06 of the model, on five batches
    """

    directory: Path
    files: tuple[str, ...]
    """Names of files in the directory."""
    inputs: tuple[str, ...]
    """Names of the inputs, (B, T) int64 each."""
    outputs: tuple[str, ...]
    """Names of the outputs, float32."""
    difference: float | None
    """Largest absolute difference from the packed model; None: not compared."""
    unchecked: str = ""
    """Why it was not compared."""
    without: str = ""
    """Why no tokenizer was written; "": it was."""

    def report(self) -> Report:
        """Build what is shown, on every face."""
        written = f"{self.directory}: {', '.join(self.files)}"
        found = (
            f"not checked: {self.unchecked}"
            if self.difference is None
            else f"within {self.difference:.2g} of the model, on five batches"
        )
        names = f"{', '.join(self.inputs)} -> {', '.join(self.outputs)}"
        lacks = [said(f"no tokenizer: {self.without}")] if self.without else []
        return Report(written, [Section([written]), said(names), said(found), *lacks])


def export(
    model: Roberta,
    tokenizer: Tokenizer,
    checkpoint: Checkpoint,
    directory: str | os.PathLike[str],
    format: Format,
    *,
    head: str | None,
    output: Output | None,
    pooling: Pooling | None,
    opset: int,
    check_it: bool,
    optimized: Optimization | None,
) -> Exported:
    """Write one answer of a model. See `RobertaHubInterface.export`."""
    one_of("format", format, ("onnx", "torch"))
    opset = whole_number("opset", opset, *onnx.OPSETS)
    check_it = switch("check", check_it)
    answer = find_answer(model, head, output, pooling)
    directory = path_of("the directory to export into", directory)
    _check_float32(model, optimized)
    with _disk_errors_explained(directory):
        check_vacant(directory, format)
    if format == "onnx":
        onnx.check_installed()
    files = saving.beside_weights(_with_only(checkpoint, answer), tokenizer, _head(answer))
    unchecked, without = _why_unchecked(format, check_it), _why_no_tokenizer(tokenizer, files)
    _advise_of_settings(model, answer, checkpoint.sentence)
    with evaluating(model), _on_cpu(model) as own, _disk_errors_explained(directory):
        graph = Graph(own, answer).eval()
        with publishing_all(directory, earlier_files(format)) as work:
            _write(graph, work, format, opset)
            difference = None if unchecked else _compare(own, graph, work, format, opset)
            write_files(work, files)
            names = tuple(sorted(p.relative_to(work).as_posix() for p in work.rglob("*.*")))
    told = (difference, unchecked, without)
    return Exported(directory, names, graph.inputs, answer.outputs, *told)


def _write(graph: Graph, folder: Path, format: Format, opset: int) -> None:
    with stage("tracing the model", format, opset, _OTHER_TORCH):
        traced = program.trace(graph)
    if format == "torch":
        with stage("writing the program", format, opset, _OTHER_TORCH):
            program.write_program(traced, folder)
        return
    names = {"inputs": graph.inputs, "outputs": graph.answer.outputs}
    with stage("writing ONNX", format, opset, _OTHER_ONNX):
        onnx.write_onnx(traced, folder, **names, opset=opset)


def _compare(model: Roberta, graph: Graph, folder: Path, format: Format, opset: int) -> float:
    lower = _LOWER_OPSET if format == "onnx" else ""
    anyway = "writes it without running it here"
    remedy = Remedy(f"{lower}check=False {anyway}", f"{lower}--no-check {anyway}")
    with stage("running what was written", format, opset, remedy):
        lent = (
            onnx.onnx_in(folder)
            if format == "onnx"
            else program.program_in(folder, graph.answer.outputs)
        )
        with lent as run:
            return check(model, graph.answer, graph.inputs, run)


def _why_unchecked(format: Format, check_it: bool) -> str:
    """Why the export is not compared; "": it is."""
    if not check_it:
        return "check=False"
    if format == "onnx" and not onnx.has_runtime():
        return f"onnxruntime is not installed ({extras.install('onnx')})"
    return ""


def _why_no_tokenizer(tokenizer: Tokenizer, files: Mapping[str, bytes]) -> str:
    if TOKENIZER_CONFIG_FILE in files:
        return ""
    if not tokenizer.piece_table.settings:
        return "the model has no vocabulary"
    return (
        "no class of transformers has its special ids and separators; roberta.encode makes the ids"
    )


def _advise_of_settings(
    model: Roberta, answer: ExportedAnswer, own: SentenceSettings | None
) -> None:
    """Warn if vectors differ from those of `embed`: a graph only pools."""
    if answer.kind == "features" and own is not None and "pooler" in own.pooling:
        advise(
            "embed makes this model's vectors by its pooler, and token vectors do not hold what it "
            "makes: the settings are left out; pooling='pooler' exports it"
        )
    if answer.kind != "pooled" or own is None:
        return
    longest = model.max_positions()
    alone = SentenceSettings(pooling=(answer.name,)) if answer.name in POOLINGS else None
    if alone is not None and own.summary(longest) == alone.summary(longest):
        return
    advise(
        f"sentence_embedding is {answer.name} pooling and nothing else, and embed makes this "
        f"model's vectors by {own.summary(longest)}; leave pooling out to have these settings "
        "written with the token vectors, or do the rest where the file is run"
    )


def _check_float32(model: Roberta, optimized: Optimization | None) -> None:
    if optimized is not None and optimized.dtype is not None:
        raise InputError(
            f"this model answers in {optimized.dtype} since optimize({optimized.dtype!r}), and "
            "export writes its float32 weights, which answer otherwise; roberta.optimize() goes "
            "back to float32"
        )
    other = {p.dtype for p in model.parameters()} - {torch.float32}
    if other:
        names = ", ".join(sorted(str(dtype).removeprefix("torch.") for dtype in other))
        raise InputError(
            f"export writes float32 weights, and this model has {names}; call "
            "roberta.to(torch.float32) first"
        )


def _head(answer: ExportedAnswer) -> str | None:
    return answer.name if answer.kind in _HEAD_PREFIXES else None


def _with_only(checkpoint: Checkpoint, answer: ExportedAnswer) -> Checkpoint:
    """Return the checkpoint without the other heads."""
    own = _HEAD_PREFIXES.get(answer.kind, "none")
    if own != REPLACED_HEAD:
        own += f"{answer.name}."
    weights = {
        name: weight
        for name, weight in checkpoint.weights.items()
        if not name.startswith(tuple(_HEAD_PREFIXES.values())) or name.startswith(own)
    }
    sentence = checkpoint.sentence
    if sentence is not None and "pooler" in sentence.pooling:  # no token vector is its own
        sentence = None
    # transformers' class of some heads has an LM head too.
    keeps = answer.kind == "language" or (_head(answer) is not None and checkpoint.config.lm_head)
    return replace(
        checkpoint,
        config=replace(checkpoint.config, lm_head=keeps),
        weights=weights,
        sentence=sentence if answer.kind == "features" else None,
    )


@contextmanager
def _on_cpu(model: Roberta) -> Iterator[Roberta]:
    """Yield the model, or a copy on the CPU: exports are for any device."""
    on_cpu = all(p.device.type == "cpu" for p in model.parameters())
    yield model if on_cpu else copy.deepcopy(model).cpu()


@contextmanager
def _disk_errors_explained(directory: Path) -> Iterator[None]:
    """Turn OSErrors into CheckpointErrors."""
    try:
        yield
    except RobertaHubError:
        raise
    except OSError as error:
        raise CheckpointError(
            f"{str(directory)[:300]}: cannot be written ({reason_of(error)}); what was there is as "
            "before. Free some room or choose another directory"
        ) from error

"""Writes a run as fairseq's trainer would: files that fairseq loads, or resumes from."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from roberta_hub.errors import InputError, Remedy
from roberta_hub.files import new_folder, publishing_all, write_files
from roberta_hub.formats.fairseq import fairseq_files, fairseq_state
from roberta_hub.formats.saving import checkpoint_of
from roberta_hub.hub import load_model
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.model.known_head import heads_of, outputs_of
from roberta_hub.model.roberta import require_roberta
from roberta_hub.train.loop.fairseq_run import optimizer_of_fairseq
from roberta_hub.train.loop.state import (
    Progress,
    find_state,
    is_sharded,
    load_state,
    put_weights,
)

BEST, LAST = "checkpoint_best.pt", "checkpoint_last.pt"
"""The files that fairseq's trainer leaves: the best model, and what a run resumes from."""
CRITERIA = {
    "masked_lm": "MaskedLmLoss",
    "classification": "SentencePredictionCriterion",
    "regression": "SentencePredictionCriterion",
}
"""fairseq's class of the loss of each task."""


@dataclass(frozen=True)
class Place:
    """How far a run is."""

    module: nn.Module
    """The model as `.roberta`."""
    optimizer: Mapping[str, Any]
    """State of our optimizer."""
    progress: Progress
    batches: int
    """Micro-batches of this epoch that each process has had."""
    loss_scale: float | None
    """Loss scale of fp16; None: another precision."""


def content_of(
    interface: RobertaHubInterface, task: str, head: str, place: Place | None = None
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Make the content of a file as fairseq's trainer leaves it, and what loading it needs."""
    heads = [head] if head in heads_of(interface.model) and task != "masked_lm" else []
    checkpoint = checkpoint_of(
        interface.model,
        interface._heads.known,
        interface.tokenizer,
        interface.task,
        interface.default_head,
        family=interface.family,
        learnt=interface.learnt,
    )
    checkpoint, files = fairseq_files(checkpoint, interface.tokenizer)
    content = fairseq_state(checkpoint, files)
    if task in CRITERIA and heads:
        _name_task(content, interface, task, head)
    if place is not None:
        content["model"] = {
            name: tensor
            for name, tensor in content["model"].items()
            if not name.startswith("classification_heads.") or name.split(".")[1] in heads
        }
        _put_place(content, place, task, heads)
    if checkpoint.label_dictionary is not None:
        files["label/dict.txt"] = checkpoint.label_dictionary
    return content, {"dict.txt": checkpoint.dictionary or b"", **files}


def _name_task(content: dict[str, Any], roberta: RobertaHubInterface, task: str, head: str) -> None:
    """Say fairseq's task of labelled texts, which finds its dictionaries in a data-bin folder."""
    criterion = {"classification_head_name": head, "regression_target": task == "regression"}
    section = {
        "num_classes": outputs_of(heads_of(roberta.model)[head]),
        "init_token": roberta.tokenizer.bos,
        "separator_token": roberta.tokenizer.eos,
        "max_positions": content["cfg"]["model"]["max_positions"],
        **criterion,
    }
    name = "sentence_prediction"
    content["cfg"]["task"] = {"_name": name, "data": ".", **section}
    content["cfg"]["criterion"] = {"_name": name, **criterion}
    content["roberta_hub_task"] = name


def _put_place(content: dict[str, Any], place: Place, task: str, heads: list[str]) -> None:
    """Put in the optimizer, the updates and the place in the data."""
    fp16 = place.loss_scale is not None
    content["optimizer_history"] = [
        {
            "criterion_name": CRITERIA[task],
            "optimizer_name": "FP16Optimizer" if fp16 else "FairseqAdam",
            "lr_scheduler_state": {"best": None},
            "num_updates": place.progress.update,
        }
    ]
    content["last_optimizer_state"] = optimizer_of_fairseq(
        place.module, place.optimizer, heads, loss_scale=place.loss_scale
    )
    content["extra_state"]["train_iterator"] = {
        "version": 2,
        "epoch": place.progress.epoch + 1,
        "iterations_in_epoch": place.batches,
        "shuffle": True,
    }


def write_checkpoint(
    interface: RobertaHubInterface,
    file: Path,
    task: str,
    head: str,
    place: Place | None = None,
) -> None:
    """Write one of the files that fairseq's trainer leaves, and the dictionary next to it."""
    content, files = content_of(interface, task, head, place)
    with publishing_all(file.parent) as work:
        torch.save(content, work / file.name)
        write_files(work, files)


def write_run(run: Path, target: Path) -> None:
    """Write checkpoint_last.pt and dict.txt of a run, with its optimizer, updates and place."""
    path = find_state(run) if os.path.isdir(run) else None
    if path is None or not (run / "last").is_dir():
        raise InputError(
            f"{run}: no run with a state to resume from and a model `last`; name the folder that "
            "`output` said, of a run that has stopped, without loop.save_every=0"
        )
    if is_sharded(path):
        raise InputError(f"{path} is sharded; resume for one update with loop.state=whole")
    state, interface = load_state(path), load_model(run / "last", converted=False)
    task, settings = str(state.identity.get("task.name")), state.identity
    if task not in CRITERIA:
        raise InputError(f"{run}: fairseq has no task {task!r}; it has {', '.join(CRITERIA)}")
    if objectives := (settings.get("task.options") or {}).get("objectives"):
        raise InputError(
            f"{run}: fairseq's masked_lm learns words alone, and this run {', '.join(objectives)} "
            f"too; {run}/last is its model, which can be written as fairseq's without the run",
            remedy=Remedy("use save(..., 'fairseq')", "leave --optimizer out"),
        )
    model = require_roberta(interface.model, "a run of fairseq's has")
    if not keeps_moments(model):
        raise InputError(f"{run}: fairseq's model has no factorized embedding and no shared layers")
    module = nn.Module()
    module.add_module("roberta", model)
    put_weights(module, state.weights, path)
    world, update_freq = max(1, len(state.generators)), int(settings["batch.update_freq"])
    place = Place(
        module,
        state.optimizer,
        state.progress,
        state.progress.index * max(1, update_freq // world),
        state.scaler.get("scale") if settings["loop.precision"] == "fp16" else None,
    )
    with new_folder(target) as work:
        write_checkpoint(interface, work / LAST, task, str(settings["task.head"]), place)


def keeps_moments(model: nn.Module) -> bool:
    """Whether fairseq's model has the parameters of this one, so that their moments fit it."""
    config = require_roberta(model, "a run of fairseq's has").config
    return config.embedding_dim is None and config.num_unique_layers is None

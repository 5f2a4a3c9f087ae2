"""Writes a run as fairseq's trainer would, so that fairseq-train goes on with it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from torch import nn

from roberta_hub.errors import InputError, Remedy
from roberta_hub.files import new_folder
from roberta_hub.hub import load_model
from roberta_hub.model.roberta import require_roberta
from roberta_hub.train.loop.fairseq_run import optimizer_of_fairseq
from roberta_hub.train.loop.state import find_state, is_sharded, load_state, put_weights

CHECKPOINT = "checkpoint_last.pt"
"""The file that fairseq-train continues from, in its folder of checkpoints."""
CRITERIA = {
    "masked_lm": "MaskedLmLoss",
    "classification": "SentencePredictionCriterion",
    "regression": "SentencePredictionCriterion",
}
"""fairseq's class of the loss of each task."""


def write_run(run: Path, target: Path) -> None:
    """Write checkpoint_last.pt and dict.txt of a run, with its optimizer, updates and place.

    Args:
        run: the folder of the run, `output` of its settings.
        target: the folder, new or empty.

    Raises:
        InputError: no run with a state, or one that fairseq cannot go on with.
        CheckpointError: a model that fairseq cannot express.
    """
    path = find_state(run) if os.path.isdir(run) else None
    if path is None or not (run / "last").is_dir():
        raise InputError(
            f"{run}: no run with a state to go on from and a model `last`; name the folder that "
            "`output` said, of a run that has stopped, without loop.save_every=0"
        )
    if is_sharded(path):
        raise InputError(f"{path} is in parts; go on for an update with loop.state=whole")
    state, interface = load_state(path), load_model(run / "last", converted=False)
    task, settings = state.identity.get("task.name"), state.identity
    if task not in CRITERIA:
        raise InputError(f"{run}: fairseq has no task {task!r}; it has {', '.join(CRITERIA)}")
    if objectives := (settings.get("task.options") or {}).get("objectives"):
        raise InputError(
            f"{run}: fairseq's masked_lm learns words alone, and this run {', '.join(objectives)} "
            f"too; {run}/last is its model, which can be written as fairseq's without the run",
            remedy=Remedy("use save(..., 'fairseq')", "leave --optimizer out"),
        )
    model = require_roberta(interface.model, "a run of fairseq's has")
    if model.config.embedding_dim is not None or model.config.num_unique_layers is not None:
        raise InputError(f"{run}: fairseq's model has no factorized embedding and no shared layers")
    module = nn.Module()
    module.add_module("roberta", model)
    put_weights(module, state.weights, path)
    heads = [] if task == "masked_lm" else [str(settings["task.head"])]
    scale = state.scaler.get("scale") if settings["loop.precision"] == "fp16" else None
    optimizer = optimizer_of_fairseq(module, state.optimizer, heads, loss_scale=scale)
    progress, world = state.progress, max(1, len(state.generators))
    batches = progress.index * max(1, int(settings["batch.update_freq"]) // world)
    with new_folder(target) as work:
        interface.save(work, "fairseq")
        content: dict[str, Any] = torch.load(work / "model.pt", weights_only=True)
        content["model"] = {
            name: tensor
            for name, tensor in content["model"].items()
            if not name.startswith("classification_heads.") or name.split(".")[1] in heads
        }
        content["optimizer_history"] = [
            {
                "criterion_name": CRITERIA[task],
                "optimizer_name": "FairseqAdam" if scale is None else "FP16Optimizer",
                "lr_scheduler_state": {"best": None},
                "num_updates": progress.update,
            }
        ]
        content["last_optimizer_state"] = optimizer
        content["extra_state"]["train_iterator"] = {
            "version": 2,
            "epoch": progress.epoch + 1,
            "iterations_in_epoch": batches,
            "shuffle": True,
        }
        torch.save(content, work / CHECKPOINT)
        (work / "model.pt").unlink()

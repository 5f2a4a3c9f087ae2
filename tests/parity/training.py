"""Real fairseq-train, for a few steps, from scratch or from a checkpoint."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .fairseq_peer import _OPTIMIZATION, TINY, _flags
from .vocabularies import dictionary

_SYMBOLS = 60
_LABELS = ("neg", "pos")


def train(directory: Path, task: str = "masked_lm", updates: int = 6, **overrides: Any) -> Path:
    """Train a tiny model for a few steps: fairseq-preprocess, then fairseq-train, in a process.

    Args:
        directory: Gets the toy text, the binarised data, the dictionaries and the checkpoint.
        task: masked_lm or sentence_prediction (two classes, "neg" and "pos", head
            `sentence_classification_head`).
        updates: Steps of 4 sentences.
        **overrides: fairseq-train's arguments by name, as for `fairseq_model`.

    Returns:
        `directory`: `checkpoint_last.pt`, `dict.txt`; for sentence_prediction also
        `input0/dict.txt` and `label/dict.txt`.
    """
    classify = task == "sentence_prediction"
    dictionary(directory, _SYMBOLS)
    commands = _preprocessing(directory, classify)
    arguments = training_words(directory, directory, task, updates, **overrides)
    _run([*commands, ["train", arguments]])
    return directory


def continue_training(
    checkpoint: Path,
    data: Path,
    task: str = "masked_lm",
    updates: int = 4,
    *,
    reset: bool = True,
    stock: bool = False,
    **overrides: Any,
) -> list[float]:
    """Let real fairseq train on from a checkpoint, `fairseq-train --restore-file`.

    Args:
        checkpoint: Any .pt; its architecture must be what `overrides` say (default: `TINY`).
        data: A folder from `train` of the same task.
        task: Of the new run.
        updates: `--max-update`; with `reset=False` the steps in the checkpoint's own optimizer
            state count.
        reset: Start optimizer, schedule, meters and data anew; False: take them from the file.
        stock: fairseq as it is, without `fairseq_loads_its_own_files`.
        **overrides: fairseq-train's arguments by name.

    Returns:
        The loss of each step, in fairseq's bits.
    """
    resets = ("reset_optimizer", "reset_lr_scheduler", "reset_meters", "reset_dataloader")
    overrides = {"restore_file": checkpoint, **dict.fromkeys(resets, reset), **overrides}
    out = checkpoint.parent / f"{checkpoint.stem}_continued"
    log = _run([["train", training_words(data, out, task, updates, **overrides)]], stock=stock)
    steps = (line.split(" | train_inner | ") for line in log.splitlines())
    return [float(json.loads(step[1])["loss"]) for step in steps if len(step) == 2]


def preprocess(directory: Path, *, destination: str = "", **flags: Any) -> Path:
    """Let real fairseq-preprocess binarize text in a process.

    Args:
        directory: With `dict.txt`; other paths are taken from here.
        destination: Folder inside, made by fairseq.
        **flags: fairseq-preprocess's arguments by name.

    Returns:
        The folder that it wrote.
    """
    own = {"only_source": True, "workers": 1, "destdir": directory / destination, **flags}
    _run([["preprocess", _flags(**own)]])
    return directory / destination


def _preprocessing(directory: Path, classify: bool) -> list[list[Any]]:
    """Write toy text, ids as words, and the commands that binarise it."""
    rng = random.Random(0)
    (directory / "text").mkdir(parents=True, exist_ok=True)
    for split, count in (("train", 48), ("valid", 8)):
        labels = [rng.choice(_LABELS) for _ in range(count)]
        lines = []
        for label in labels:  # a class is the half of the vocabulary that its sentences favour
            start = _LABELS.index(label) * _SYMBOLS // 4
            words = [start + rng.randrange(_SYMBOLS * 3 // 4) for _ in range(rng.randint(5, 20))]
            lines.append(" ".join(map(str, words)))
        (directory / "text" / f"{split}.input0").write_text("\n".join(lines) + "\n")
        (directory / "text" / f"{split}.label").write_text("\n".join(labels) + "\n")

    def command(column: str, destination: Path, srcdict: Path | None) -> list[Any]:
        text = {part: directory / "text" / f"{part}.{column}" for part in ("train", "valid")}
        flags = _flags(
            only_source=True,
            trainpref=text["train"],
            validpref=text["valid"],
            destdir=destination,
            srcdict=srcdict,
            workers=1,
        )
        return ["preprocess", flags]

    shared = directory / "dict.txt"
    if not classify:
        return [command("input0", directory, shared)]
    return [
        command("input0", directory / "input0", shared),
        command("label", directory / "label", None),
    ]


def training_words(data: Path, out: Path, task: str, updates: int, **overrides: Any) -> list[str]:
    """Write the words of fairseq-train for `train` and `continue_training`."""
    flags: dict[str, Any] = {
        "task": task,
        "criterion": task,
        "arch": "roberta_base",
        "save_dir": out,
        "max_update": updates,
        "no_epoch_checkpoints": True,
        "log_format": "json",
        "log_interval": 1,
        "seed": 1,
    }
    if task == "sentence_prediction":
        flags |= {"num_classes": len(_LABELS), "init_token": 0, "separator_token": 2}
    if task == "masked_lm":
        flags |= {"tokens_per_sample": TINY["max_positions"], "sample_break_mode": "complete"}
    return [str(data), *_OPTIMIZATION, *_flags(**{**flags, **TINY, **overrides})]


def _run(commands: Sequence[Any], *, stock: bool = False) -> str:
    """Run commands of fairseq; their output, or a RuntimeError with the end of it."""
    tests = Path(__file__).resolve().parents[1]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(tests.parent), str(tests)]),
        "PYTHONWARNINGS": "ignore",
        "OMP_NUM_THREADS": "1",
        "PEERS_STOCK": "1" if stock else "",
    }
    done = subprocess.run(
        [sys.executable, "-m", "parity.train_fairseq", json.dumps(commands)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    output = done.stdout + done.stderr
    if done.returncode:
        raise RuntimeError(f"real fairseq exited with {done.returncode}:\n{output[-4000:]}")
    return output

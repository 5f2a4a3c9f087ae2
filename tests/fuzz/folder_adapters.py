"""Random LoRA adapters that peft writes, on a random folder."""

from __future__ import annotations

import copy
import importlib.util
import json
import random
import shutil
import warnings
from pathlib import Path
from typing import Any

import torch

from .folder_models import Model

TASKS = {"sentence": "SEQ_CLS", "tokens": "TOKEN_CLS", "span": "QUESTION_ANS"}
SAVED = {"sentence": ["classifier"], "tokens": ["classifier"], "span": ["qa_outputs"]}


def is_there() -> bool:
    """Whether peft is installed."""
    return importlib.util.find_spec("peft") is not None


def write_adapter(draw: random.Random, model: Model, base: Path, folder: Path) -> dict[str, Any]:
    """Write an adapter beside a copy of its base, or alone; `model.peer` becomes what peft merges.

    Args:
        draw: what it is drawn with.
        model: of the base.
        base: holds it.
        folder: empty.
    """
    import peft

    queries = ["q_lin", "v_lin"] if model.family == "distilbert" else ["query", "value"]
    task = TASKS.get(model.head, "FEATURE_EXTRACTION" if model.head == "bare" else None)
    options: dict[str, Any] = {
        "task_type": task,
        "r": draw.choice((1, 2, 4)),
        "lora_alpha": draw.choice((1, 4, 12)),
        "target_modules": draw.choice((queries, "all-linear")),
        "use_rslora": draw.random() < 0.3,
        "bias": draw.choice(("none", "none", "all", "lora_only")),
        "lora_dropout": draw.choice((0.0, 0.2)),
        "modules_to_save": SAVED.get(model.head),
    }
    if (model.head not in TASKS and model.head != "bare") or draw.random() < 0.5:
        options["target_modules"] = queries
    if draw.random() < 0.2:
        options["rank_pattern"] = {queries[0]: 3}
    if draw.random() < 0.2:
        options["alpha_pattern"] = {queries[1]: 5}
    torch.manual_seed(draw.randrange(1 << 30))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = peft.get_peft_model(copy.deepcopy(model.peer), peft.LoraConfig(**options))
        with torch.no_grad():
            for parameter in made.parameters():
                if parameter.requires_grad:
                    parameter.copy_(0.2 * torch.randn(parameter.shape))
        made.eval().save_pretrained(folder)
        layout = draw.choice(("beside", "alone"))
        if layout == "beside":
            for file in base.iterdir():
                if file.is_file():
                    shutil.copy(file, folder)
        path = folder / "adapter_config.json"
        about = json.loads(path.read_text(encoding="utf-8"))
        path.write_text(
            json.dumps({**about, "base_model_name_or_path": str(base)}), encoding="utf-8"
        )
        model.peer = made.merge_and_unload().float().eval()
    return {**options, "layout": layout}

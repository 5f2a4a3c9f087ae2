"""Makes Adam with decoupled weight decay, its parameter groups, and fairseq's learning rates."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from roberta_hub.errors import InputError
from roberta_hub.train.settings import DECAYS, SCHEDULES, OptimizerConfig


def learning_rate(
    done: int,
    *,
    peak: float,
    schedule: str = "polynomial_decay",
    warmup: int = 0,
    total: int = 0,
    end: float = 0.0,
    power: float = 1.0,
    decay: int = 0,
) -> float:
    """Compute the learning rate of the next update.

    It depends on the number of updates alone, so there is no scheduler to save. The numbers are
    those of fairseq 0.12.2 (`optim/lr_scheduler/{polynomial_decay,fixed}_schedule.py`), also the 0
    of the very first update with warm-up. "constant_then_decay" is the trapezoid of ModernBERT
    (Warner et al. 2024, section 2.2.2): a run can resume from before its decay.

    Example:
        >>> [learning_rate(n, peak=1.0, warmup=2, total=6) for n in range(8)]
        [0.0, 0.5, 1.0, 0.75, 0.5, 0.25, 0.0, 0.0]
        >>> late = {"schedule": "constant_then_decay", "decay": 2}
        >>> [learning_rate(n, peak=1.0, warmup=2, total=6, **late) for n in range(8)]
        [0.0, 0.5, 1.0, 1.0, 1.0, 0.5, 0.0, 0.0]
    """
    if schedule == "fixed":
        return peak * (done + 1) / warmup if done < warmup else peak
    if schedule == "constant_then_decay":
        if warmup <= done < total - decay:
            return peak
        # What is left is fairseq's: its warm-up before, its decay after.
        warmup = warmup if done < warmup else total - decay
        schedule = "polynomial_decay"
    if schedule != "polynomial_decay":
        raise InputError(f"no schedule {schedule!r}; there are {', '.join(SCHEDULES)}")
    if warmup > 0 and done <= warmup:
        return peak * (done / float(warmup))
    if done >= total:
        return end
    remaining = 1 - (done - warmup) / (total - warmup)
    return float((peak - end) * remaining**power + end)


@dataclass(frozen=True)
class Schedule:
    """The learning rates of a run, as `learning_rate` computes them."""

    peak: float
    schedule: str
    warmup: int
    total: int
    end: float
    power: float
    decay: int

    @classmethod
    def of(cls, config: OptimizerConfig, end: int) -> Schedule:
        """Fill in what a configuration leaves open."""
        total = config.total_updates or end
        warmup, decay = config.warmup_updates, config.decay_updates
        warmup = math.ceil(0.06 * total) if warmup is None else warmup
        decay = math.ceil(0.1 * total) if decay is None else decay
        if config.schedule == "constant_then_decay" and warmup + decay > total:
            raise InputError(
                f"optimizer.warmup_updates {warmup} and decay_updates {decay} are more than the "
                f"{total} updates; make one smaller, or null for 6 % and a tenth"
            )
        return cls(config.lr, config.schedule, warmup, total, config.end_lr, config.power, decay)

    def rate(self, done: int) -> float:
        """Compute the learning rate of the next update."""
        return learning_rate(done, **vars(self))


def parameter_groups(
    module: nn.Module, *, weight_decay: float, decay: str = "weights", layer_decay: float = 1.0
) -> list[dict[str, Any]]:
    """Group the parameters that share weight decay and learning rate."""
    if decay not in DECAYS:
        raise InputError(f"optimizer.decay is {decay!r}; choose {' or '.join(DECAYS)}")
    plain = {
        f"{prefix}.{name}" if prefix else name
        for prefix, part in module.named_modules()
        for name, _ in part.named_parameters(recurse=False)
        if isinstance(part, nn.LayerNorm) or name.endswith("bias")
    }
    layers = [
        int(found[1]) for name, _ in module.named_parameters() if (found := _LAYER.search(name))
    ]
    top = max(layers, default=-1) + 2  # embeddings are depth 0, layer i is i + 1, heads are above
    groups: dict[tuple[float, float], dict[str, Any]] = {}
    for name, parameter in module.named_parameters():
        if not parameter.requires_grad:
            continue
        rate = weight_decay if decay == "fairseq" or name not in plain else 0.0
        scale = layer_decay ** (top - _depth(name, top))
        group = groups.setdefault(
            (rate, scale), {"params": [], "names": [], "weight_decay": rate, "lr_scale": scale}
        )
        group["params"].append(parameter)
        group["names"].append(name)
    return list(groups.values())


_LAYER = re.compile(r"(?:^|\.)sentence_encoder\.layers\.(\d+)\.")


def _depth(name: str, top: int) -> int:
    found = _LAYER.search(name)
    if found:
        return int(found[1]) + 1
    return 0 if ".sentence_encoder." in f".{name}" else top


def make_optimizer(
    module: nn.Module,
    *,
    lr: float,
    betas: tuple[float, float] = (0.9, 0.98),
    eps: float = 1e-6,
    weight_decay: float = 0.01,
    decay: str = "weights",
    layer_decay: float = 1.0,
    fused: bool | None = None,
) -> torch.optim.AdamW:
    """Make Adam (Kingma and Ba 2015) with decoupled weight decay, as in fairseq's `adam`.

    The one difference: fairseq's own Python step adds `eps` before the bias correction, torch's
    (and apex's, which fairseq takes where it is installed) after it.
    """
    groups = parameter_groups(
        module, weight_decay=weight_decay, decay=decay, layer_decay=layer_decay
    )
    if not groups:
        raise InputError("no parameter of the module requires a gradient; nothing can be trained")
    for group in groups:
        group["lr"] = lr * group["lr_scale"]
    if fused is None:
        fused = all(
            p.device.type in ("cuda", "cpu") and not hasattr(p, "device_mesh")
            for p in module.parameters()
        )
    return torch.optim.AdamW(groups, lr=lr, betas=betas, eps=eps, fused=fused)


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Give every group the rate, times its own scale."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group.get("lr_scale", 1.0)


def gradient_norm(parameters: list[nn.Parameter]) -> Tensor:
    """Compute the 2-norm of all gradients, without clipping them."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    return torch.nn.utils.get_total_norm(gradients, error_if_nonfinite=False)

"""Carries a run over between fairseq's trainer and ours: moments, updates, place in the data.

fairseq keeps moments by the number of a parameter. The order of the parameters is that of the names
in the file's model, without buffers and without a matrix that is tied. fp16 keeps them in one
piece, all parameters end to end.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from roberta_hub.checkpoint.checkpoint import LM_WEIGHT
from roberta_hub.checkpoint.untrusted.unpickle import load_pickle, plain, tensors
from roberta_hub.errors import CheckpointError

MOMENTS = ("exp_avg", "exp_avg_sq")
MAX_COUNT = 2**53
"""Most updates, epochs and batches that a file may say."""
_BUFFERS = (".version", "_float_tensor")


@dataclass(frozen=True)
class FairseqRun:
    """How far a run of fairseq's is."""

    path: Path
    updates: int
    epoch: int
    """Counted from 0."""
    batches: int
    """Micro-batches of this epoch that each process has had."""
    loss_scale: float | None
    """Loss scale of fp16."""
    moments: Mapping[str, dict[str, Any]] = field(repr=False)
    """By parameter: `step`, `exp_avg` and `exp_avg_sq`."""

    def optimizer_state(self, module: nn.Module, fresh: Mapping[str, Any]) -> dict[str, Any]:
        """Put the moments into the state of our optimizer.

        Raises:
            CheckpointError: moments of another shape, or none for a parameter.
        """
        shapes = {name: parameter.shape for name, parameter in module.named_parameters()}
        state = {}
        for group in fresh["param_groups"]:
            for number, name in zip(group["params"], group["names"], strict=True):
                own = self.moments.get(name.removeprefix("roberta."))
                if own is None:
                    if ".lm_head." in name:  # no gradient in fine-tuning, so no moments
                        continue
                    raise _not_resumable(
                        self.path, f"it has no moments of {name.removeprefix('roberta.')}"
                    )
                if own["exp_avg"].shape != shapes[name]:
                    raise _not_resumable(
                        self.path,
                        f"moments of {name} have shape {tuple(own['exp_avg'].shape)}, the "
                        f"parameter {tuple(shapes[name])}",
                    )
                moments = {key: own[key].float().clone() for key in MOMENTS}
                state[number] = {"step": torch.tensor(float(own["step"])), **moments}
        return {"state": state, "param_groups": copy.deepcopy(fresh["param_groups"])}


def read_run(path: Path) -> FairseqRun:
    """Read how far a run is from a checkpoint that fairseq's trainer wrote with its optimizer."""
    state = load_pickle(path)
    limit = path.stat().st_size
    model = tensors(state.get("model") if isinstance(state, dict) else None, str(path), limit)
    optimizer = state.get("last_optimizer_state")
    if not isinstance(optimizer, dict):
        raise _not_resumable(
            path, "it has no optimizer; it was written with --no-save-optimizer-state"
        )
    history, extra = plain(state.get("optimizer_history"), str(path)), state.get("extra_state")
    last = history[-1] if isinstance(history, list) and history else {}
    place = plain(extra, str(path)) if isinstance(extra, dict) else {}
    iterator = place.get("train_iterator")
    last, iterator = (item if isinstance(item, dict) else {} for item in (last, iterator))
    scale = optimizer.get("loss_scale")
    return FairseqRun(
        path=path,
        updates=_count(path, "num_updates", last.get("num_updates")),
        epoch=max(1, _count(path, "epoch", iterator.get("epoch", 1))) - 1,
        batches=_count(path, "iterations_in_epoch", iterator.get("iterations_in_epoch", 0)),
        loss_scale=float(scale) if isinstance(scale, (int, float)) and scale > 0 else None,
        moments=_moments(path, model, optimizer),
    )


def _count(path: Path, name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < MAX_COUNT:
        raise _not_resumable(path, f"its {name} is {str(value)[:40]}")
    return value


def _moments(
    path: Path, model: Mapping[str, Tensor], optimizer: Mapping[Any, Any]
) -> dict[str, dict[str, Any]]:
    groups, by_number = optimizer.get("param_groups"), optimizer.get("state")
    whole = isinstance(groups, list) and len(groups) == 1 and isinstance(groups[0], dict)
    if not (whole and isinstance(by_number, dict) and by_number):
        raise _not_resumable(path, "its optimizer is not Adam's state in one group of parameters")
    assert isinstance(groups, list) and isinstance(by_number, dict)
    found = {number: _adam(path, own) for number, own in by_number.items()}
    count = len(groups[0].get("params", ()))
    own = next(iter(found.values()))
    total = own["exp_avg"].numel()
    orders = list(_orders(model))
    if count == 1:
        for sizes in orders:
            if sum(map(math.prod, sizes.values())) == total:
                return _of_one_piece(own, sizes)
        here = sum(map(math.prod, orders[0].values()))
        raise _not_resumable(path, f"moments of {total} numbers, and a model of {here}")
    names = next((list(sizes) for sizes in orders if len(sizes) == count), None)
    if names is None:
        raise _not_resumable(
            path, f"an optimizer of {count} parameters, and a model of {len(orders[0])}"
        )
    return {
        names[number]: own
        for number, own in found.items()
        if isinstance(number, int) and 0 <= number < count
    }


def _orders(model: Mapping[str, Tensor]) -> Iterator[dict[str, tuple[int, ...]]]:
    """List parameters with their shapes as the optimizer may have counted them.

    fairseq 0.12 counts second copies of the layers, which our files do not hold. A tied output
    matrix is in the file, and is not counted.
    """
    own = {name: tuple(t.shape) for name, t in model.items() if not name.endswith(_BUFFERS)}
    for shapes in (own, dict(with_copies(own))):
        yield shapes
        yield {name: shape for name, shape in shapes.items() if name != LM_WEIGHT}


def _of_one_piece(
    own: Mapping[str, Any], sizes: Mapping[str, tuple[int, ...]]
) -> dict[str, dict[str, Any]]:
    """Cut moments that lie end to end."""
    counts = [math.prod(shape) for shape in sizes.values()]
    parts = {key: torch.split(own[key].flatten(), counts) for key in MOMENTS}
    return {
        name: {"step": own["step"], **{key: parts[key][at].view(shape) for key in MOMENTS}}
        for at, (name, shape) in enumerate(sizes.items())
    }


def _adam(path: Path, own: object) -> dict[str, Any]:
    """Check the state of one parameter."""
    fine = isinstance(own, dict) and all(isinstance(own.get(key), Tensor) for key in MOMENTS)
    if not fine or own["exp_avg"].shape != own["exp_avg_sq"].shape:  # type: ignore[index]
        raise _not_resumable(
            path, "its optimizer is not Adam: no exp_avg and exp_avg_sq of one shape"
        )
    assert isinstance(own, dict)
    moments = tensors({key: own[key] for key in MOMENTS}, str(path), path.stat().st_size)
    step = own.get("step")
    if isinstance(step, Tensor) and step.numel() == 1:
        step = int(step) if math.isfinite(float(step)) else float(step)
    return {**moments, "step": _count(path, "step", step)}


def _not_resumable(path: Path, what: str) -> CheckpointError:
    return CheckpointError(
        f"{path}: {what}, so a run cannot resume from there; leave restore=true out to begin a new "
        "run with its weights"
    )


# ---- back ----


def optimizer_of_fairseq(
    module: nn.Module, state: Mapping[str, Any], heads: Sequence[str], *, loss_scale: float | None
) -> dict[str, Any]:
    """Make the state of fairseq 0.12.2's Adam of ours."""
    numbers = {
        name.removeprefix("roberta."): number
        for group in state["param_groups"]
        for number, name in zip(group["params"], group["names"], strict=True)
    }
    shapes = parameters_of_fairseq(module.get_submodule("roberta"), heads)
    moments = {
        place: state["state"][numbers[name]]
        for place, name in enumerate(shapes)
        if name in numbers and numbers[name] in state["state"]
    }
    first = state["param_groups"][0]
    group = {key: first[key] for key in ("lr", "betas", "eps", "weight_decay")}
    found = {
        place: {"step": int(own["step"]), **{key: own[key].float() for key in MOMENTS}}
        for place, own in moments.items()
    }
    if loss_scale is None:
        return {
            "state": found,
            "param_groups": [{**group, "amsgrad": False, "params": list(range(len(shapes)))}],
        }
    flat: dict[str, Any] = {
        key: torch.cat(
            [
                found[place][key].flatten() if place in found else torch.zeros(shape.numel())
                for place, shape in enumerate(shapes.values())
            ]
        )
        for key in MOMENTS
    }
    flat["step"] = max(own["step"] for own in found.values())
    return {
        "state": {0: flat},
        "param_groups": [{**group, "amsgrad": False, "params": [0]}],
        "loss_scale": loss_scale,
    }


def parameters_of_fairseq(roberta: nn.Module, heads: Sequence[str]) -> dict[str, torch.Size]:
    """List the parameters of fairseq 0.12.2's model in its order, with their shapes."""
    own = {
        name: tuple(tensor.shape)
        for name, tensor in roberta.named_parameters()
        if name.startswith(("encoder.", *(f"classification_heads.{head}." for head in heads)))
    }
    return {name: torch.Size(shape) for name, shape in with_copies(own)}


def with_copies(
    shapes: Mapping[str, tuple[int, ...]],
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Add 0.12's second copy of each layer, which comes before the layer; where it is not there."""
    for name, shape in shapes.items():
        layer = name.removesuffix("self_attn.k_proj.weight")
        if layer != name and f"{layer}in_proj_weight" not in shapes:
            width, inner = shape[0], shapes[f"{layer}fc1.weight"][0]
            copies = {"in_proj": (3 * width, width), "out_proj": (width, width)}
            copies |= {"fc1": (inner, width), "fc2": (width, inner)}
            for part, (rows, columns) in copies.items():
                yield f"{layer}{part}_weight", (rows, columns)
                yield f"{layer}{part}_bias", (rows,)
        yield name, shape

"""Runs a training on one process, DDP or FSDP, in any precision, through accelerate.

No other module asks which of them it is.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from roberta_hub.errors import InputError, MissingExtraError
from roberta_hub.extras import install
from roberta_hub.model.layer import TransformerLayer
from roberta_hub.model.memory import limit_caches
from roberta_hub.train.loop.optimizer import gradient_norm
from roberta_hub.train.loop.state import distinct_weights, put_weights


class Devices:
    """The processes and devices of a run: placement, gradients, states."""

    def __init__(self, precision: str, parallel: str, find_unused_parameters: bool) -> None:
        try:
            from accelerate import Accelerator
            from accelerate.state import AcceleratorState, PartialState
            from accelerate.utils import DistributedDataParallelKwargs
        except ImportError as error:
            raise MissingExtraError(
                f"training needs accelerate ({error}): {install('train')}"
            ) from None
        cpu = not torch.cuda.is_available()
        if cpu and precision == "fp16":
            warnings.warn(
                "loop.precision=fp16 needs a GPU, and here is none: this run computes in float32; "
                "bf16 is for CPUs too",
                stacklevel=2,
            )
            precision = "no"
        if cpu:
            limit_caches()
        # accelerate keeps its state for the whole process, and refuses another precision.
        AcceleratorState._reset_state()
        self.sharded = parallel == "fsdp" and PartialState(cpu=cpu).num_processes > 1
        if self.sharded and precision == "fp16":
            raise InputError(
                "loop.precision=fp16 has no loss scale under loop.parallel=fsdp; use bf16"
            )
        ddp = DistributedDataParallelKwargs(
            find_unused_parameters=find_unused_parameters, gradient_as_bucket_view=True
        )
        self.precision = precision
        """The one that is computed in; fp16 becomes "no" on CPUs."""
        self.accelerator: Any = Accelerator(
            mixed_precision=precision,
            cpu=cpu,
            kwargs_handlers=[ddp],
        )
        self.device: torch.device = self.accelerator.device
        self.world: int = self.accelerator.num_processes
        self.rank: int = self.accelerator.process_index
        self.main: bool = self.accelerator.is_main_process

    def shard(self, module: nn.Module) -> None:
        """Under FSDP, leave each process a part of every weight; call before making the optimizer.

        Over several nodes the parts are those of a node (HSDP): weights are gathered inside it, and
        only gradients cross the network. In bf16, weights travel and multiply in 16 bits, and
        gradients are summed in 32.

        This is torch's own `fully_shard`, which also runs on CPUs. accelerate's FSDP needs GPUs,
        where the tests cannot run.
        """
        if self.sharded:
            from torch.distributed.device_mesh import init_device_mesh
            from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

            shape = mesh_shape(self.gather(os.environ.get("LOCAL_WORLD_SIZE")))
            names = ("nodes", "devices")[-len(shape) :]
            mesh = init_device_mesh(self.device.type, shape, mesh_dim_names=names)
            policy = MixedPrecisionPolicy()
            if self.precision == "bf16":
                policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32)
            for layer in module.modules():
                if isinstance(layer, TransformerLayer):
                    fully_shard(layer, mesh=mesh, mp_policy=policy)
            fully_shard(module, mesh=mesh, mp_policy=policy)

    def prepare(self, module: nn.Module, optimizer: Any) -> tuple[nn.Module, Any]:
        """Wrap a module and its optimizer for these devices; the module itself stays the same."""
        if self.sharded:
            return module, optimizer
        model, prepared = self.accelerator.prepare(module, optimizer)
        return model, prepared

    def release(self, module: nn.Module) -> None:
        """Take accelerate's autocast off a module that the caller still uses."""
        self.accelerator.unwrap_model(module, keep_fp32_wrapper=False)
        vars(module).pop("forward", None)  # accelerate leaves a copy of the method on the instance

    def wait(self) -> None:
        """Wait until every process arrives here."""
        self.accelerator.wait_for_everyone()

    # ---- an update ----

    def agree(self, *flags: bool) -> list[bool]:
        """Return each flag as True if any process has it so."""
        if self.world == 1:
            return list(flags)
        found = torch.tensor([float(flag) for flag in flags], device=self.device)
        torch.distributed.all_reduce(found, op=torch.distributed.ReduceOp.MAX)
        return [bool(value) for value in found.tolist()]

    def sum(self, values: Tensor) -> Tensor:
        """Sum values over the processes; float64 holds counts exactly."""
        if self.world > 1:
            torch.distributed.all_reduce(values)
        return values

    def accumulating(self, model: nn.Module, last: bool) -> AbstractContextManager[None]:
        """Exchange gradients after the last micro-batch only."""
        if self.sharded:
            _method(model, "set_requires_gradient_sync")(last)
            return nullcontext()
        if last or self.world == 1:
            return nullcontext()
        return self.accelerator.no_sync(model)  # type: ignore[no-any-return]

    def backward(self, loss: Tensor) -> None:
        """Compute the gradients of this process's share of the loss.

        The factor undoes the average that DDP and FSDP take over the processes.
        """
        self.accelerator.backward(loss * self.world)

    def clip(self, module: nn.Module, limit: float) -> Tensor:
        """Return the norm of the whole gradient, and clip it to the limit if that is above 0."""
        parameters = [p for p in module.parameters() if p.requires_grad]
        self.accelerator.unscale_gradients()
        if limit > 0:
            norm = nn.utils.clip_grad_norm_(parameters, limit)
        else:
            norm = gradient_norm(parameters)
        return _full(norm) if hasattr(norm, "full_tensor") else norm

    def computing(self) -> AbstractContextManager[None]:
        """Set the precision around a forward, where `prepare` has not done so."""
        return self.accelerator.autocast() if self.sharded else nullcontext()

    # ---- states ----

    def gather(self, item: Any) -> list[Any]:
        """Gather an item of every process."""
        if self.world == 1:
            return [item]
        items: list[Any] = [None] * self.world
        torch.distributed.all_gather_object(items, item)
        return items

    def weights(self, module: nn.Module) -> dict[str, Tensor]:
        """Return all weights as whole tensors; every process must call."""
        if not self.sharded:
            return distinct_weights(module)
        with self.whole(module):
            return {name: tensor.cpu() for name, tensor in distinct_weights(module).items()}

    def put_weights(self, module: nn.Module, weights: Mapping[str, Tensor], where: Path) -> None:
        """Copy weights that `weights` returned into the module."""
        if not self.sharded:
            return put_weights(module, weights, where)
        with self.whole(module):
            put_weights(module, weights, where)
            self._scatter()
        return None

    def optimizer_state(self, optimizer: Any) -> dict[str, Any]:
        """Return the optimizer's state as whole tensors; every process must call."""
        if not self.sharded:
            return dict(optimizer.state_dict())
        state = dict(optimizer.state_dict())
        state["state"] = {  # a new one: the moments in there are the optimizer's own
            number: {
                name: _full(value).cpu() if hasattr(value, "full_tensor") else value
                for name, value in moments.items()
            }
            for number, moments in state["state"].items()
        }
        return state

    def put_optimizer(self, optimizer: Any, state: dict[str, Any]) -> None:
        """Load a state that `optimizer_state` returned."""
        if self.sharded:
            from torch.distributed.tensor import distribute_tensor

            groups = zip(optimizer.param_groups, state["param_groups"], strict=True)
            owners = [
                pair for g, was in groups for pair in zip(was["params"], g["params"], strict=True)
            ]
            for number, owner in owners:
                for name, value in state["state"].get(number, {}).items():
                    if value.shape == owner.shape and value.dim():
                        state["state"][number][name] = distribute_tensor(
                            value.to(self.device), owner.device_mesh, owner.placements
                        )
        optimizer.load_state_dict(state)

    def scaler(self) -> dict[str, Any]:
        """Return fp16's loss scale."""
        scaler = self.accelerator.scaler
        return {} if scaler is None else dict(scaler.state_dict())

    def put_scaler(self, state: dict[str, Any]) -> None:
        """Load a loss scale that `scaler` returned."""
        if state and self.accelerator.scaler is not None:
            self.accelerator.scaler.load_state_dict(state)

    # ---- FSDP ----

    @contextmanager
    def evaluating(self, module: nn.Module) -> Iterator[None]:
        """Let a module compute outside of its own forward: whole weights, the run's precision."""
        with self.whole(module), self.accelerator.autocast():
            yield

    @contextmanager
    def whole(self, module: nn.Module) -> Iterator[None]:
        """Make a sharded module's parameters whole tensors inside; every process must enter.

        The layers gather and drop their own as they run, so the model also computes inside.
        """
        if not self.sharded:
            yield
            return
        _reshard(module)
        places = [
            (part, name, p)
            for part in module.modules()
            for name, p in part._parameters.items()
            if p is not None and hasattr(p, "full_tensor")
        ]
        self._full: dict[int, tuple[Any, nn.Parameter]] = {}
        for part, name, p in places:
            if id(p) not in self._full:  # tied ones stay tied
                self._full[id(p)] = (p, nn.Parameter(_full(p.detach()), p.requires_grad))
            part._parameters[name] = self._full[id(p)][1]
        try:
            yield
        finally:
            _reshard(module)
            for part, name, p in places:
                part._parameters[name] = p
            self._full.clear()

    def _scatter(self) -> None:
        from torch.distributed.tensor import distribute_tensor

        with torch.no_grad():
            for p, full in self._full.values():
                p.copy_(distribute_tensor(full.detach(), p.device_mesh, p.placements))


def mesh_shape(local: Sequence[str | None]) -> tuple[int, ...]:
    """Choose the mesh of the processes: (nodes, devices of a node), or flat.

    Flat where there is one node, where a node has one device (its parts are on other nodes, or
    nothing would be sharded), and where nodes differ.

    Example:
        >>> mesh_shape(["4"] * 8), mesh_shape(["8"] * 8), mesh_shape(["1", "1"]), mesh_shape([None])
        ((2, 4), (8,), (2,), (1,))
        >>> mesh_shape(["2", "2", "1"])
        (3,)
    """
    world, first = len(local), local[0]
    devices = int(first) if first is not None and set(local) == {first} else world
    return (world // devices, devices) if 1 < devices < world else (world,)


def _reshard(module: nn.Module) -> None:
    """Drop what a forward has gathered: the root keeps its own until the next backward."""
    for part in module.modules():
        if hasattr(part, "reshard"):
            _method(part, "reshard")()


def _method(module: nn.Module, name: str) -> Any:
    """Get a method that `fully_shard` has added to a module."""
    return getattr(module, name)


def _full(tensor: Any) -> Tensor:
    """Gather a sharded tensor."""
    whole: Tensor = tensor.full_tensor()
    return whole

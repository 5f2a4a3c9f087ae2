"""Trains a task in memory: its updates, one after the other, and no file."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from roberta_hub.model.roberta import require_roberta
from roberta_hub.train.data.batches import (
    EpochPlan,
    Update,
    batches_of_process,
    count_updates,
    plan_epoch,
)
from roberta_hub.train.data.fairseq_batches import plan_as_fairseq
from roberta_hub.train.limits import check
from roberta_hub.train.loop.clock import now
from roberta_hub.train.loop.devices import Devices
from roberta_hub.train.loop.display import Display
from roberta_hub.train.loop.divergence import DivergenceMonitor
from roberta_hub.train.loop.flops import peak_flops, training_flops
from roberta_hub.train.loop.meters import Meters
from roberta_hub.train.loop.optimizer import Schedule, make_optimizer, set_learning_rate
from roberta_hub.train.loop.recompute import recomputed_layers
from roberta_hub.train.loop.signals import Signals
from roberta_hub.train.loop.state import Progress, seed_generators
from roberta_hub.train.settings import Config
from roberta_hub.train.tasks.training_task import Batch, TrainingTask


def updates(task: TrainingTask, config: Config) -> None:
    """Make every update of a task in memory; nothing is evaluated, and no file is written."""
    config = check(config)
    # First: torch loads parts of itself at first use, and a KeyboardInterrupt there can get lost.
    with Signals() as signals:
        training = Training(task, config)
        with training.running(None):
            while training.ended is None and not training.devices.agree(signals.asked)[0]:
                training.update()
                if training.log_due:
                    training.log()
            training.log()
    if training.devices.agree(signals.asked)[0]:
        raise KeyboardInterrupt


class Training:
    """A task in training: its optimizer, its devices, its place in the data, its numbers.

    Every process makes the same calls.
    """

    def __init__(self, task: TrainingTask, config: Config) -> None:
        self.task, self.config = task, config
        loop = config.loop
        self.devices = Devices(loop.precision, loop.parallel, loop.find_unused_parameters)
        task.module.to(self.devices.device)
        self.progress = Progress()
        self.plan = self._plan(0)
        self.end = self._end()
        self.schedule = self._schedule()
        seed_generators(config.seed, self.devices.rank)
        self.devices.shard(task.module)
        self.model, self.optimizer = self.devices.prepare(task.module, self._adam())
        model = require_roberta(task.module.get_submodule("roberta"), "training changes")
        self.architecture = model.config
        self.peak = loop.peak_flops or peak_flops(self.devices.device, self.devices.precision)
        self.meters = Meters()
        self.display: Display | None = None
        self.logged = now()
        """When the last row of the log ended; evaluations and savings set it, too."""

    # ---- before the first update ----

    def _plan(self, epoch: int) -> EpochPlan:
        batch, progress = self.config.batch, self.progress
        self.lengths = self.task.lengths(epoch)
        plan: Callable[..., EpochPlan]
        if batch.order == "fairseq":
            by_length = self.config.task.name == "masked_lm"
            plan = partial(plan_as_fairseq, multiple=batch.multiple, by_length=by_length)
        else:
            done = progress.update - progress.index
            plan = partial(plan_epoch, done=done, warmup=batch.warmup_updates or 0)
        return plan(
            self.lengths,
            batch.max_tokens,
            seed=self.config.seed,
            epoch=epoch,
            update_freq=batch.update_freq,
            world=self.devices.world,
            batch_size=batch.batch_size,
        )

    def _end(self) -> int:
        """About how many updates there will be; epochs may differ by a few."""
        loop, batch = self.config.loop, self.config.batch
        ends = [loop.max_updates] if loop.max_updates is not None else []
        if loop.max_epochs is not None:
            micro, warmup = self.plan.micro_batches, batch.warmup_updates or 0
            ends.append(count_updates(micro, loop.max_epochs, batch.update_freq, warmup))
        return min(ends)

    def _schedule(self) -> Schedule:
        schedule = Schedule.of(self.config.optimizer, self.end)
        if schedule.warmup >= self.end and self.devices.main:
            warnings.warn(
                f"warm-up takes {schedule.warmup} updates, and this data gives only {self.end}: "
                "the learning rate never gets where the recipe means it to be; set "
                "optimizer.warmup_updates=null optimizer.total_updates=null to fit them to the "
                "data",
                stacklevel=6,
            )
        return schedule

    def _adam(self) -> torch.optim.AdamW:
        adam = self.config.optimizer
        return make_optimizer(
            self.task.module,
            lr=adam.lr,
            betas=(adam.betas[0], adam.betas[1]),
            eps=adam.eps,
            weight_decay=adam.weight_decay,
            decay=adam.decay,
            layer_decay=adam.layer_decay,
        )

    def plan_again(self) -> None:
        """Plan the epoch that `progress` is in, unless the run has ended before it."""
        if self.ended is None:
            self.plan = self._plan(self.progress.epoch)

    # ---- the updates ----

    @contextmanager
    def running(self, directory: Path | None) -> Iterator[None]:
        """Make the module ready for updates, and show them; leave module and terminal in order."""
        module, loop, progress = self.task.module, self.config.loop, self.progress
        self.monitor = DivergenceMonitor(
            self.task.chance(),
            warmup=self.schedule.warmup,
            precision=loop.precision,
            memory=progress.watch,
        )
        with ExitStack() as stack:
            if loop.gradient_checkpointing:
                stack.enter_context(recomputed_layers(module))
            if self.devices.main:
                self.display = Display(
                    directory, progress.update, total=self.end, progress=loop.progress
                )
                stack.callback(self.display.close)
                size = sum(p.numel() for p in module.parameters())
                self.display.messages.begin(
                    self.config.model, size, self.lengths, len(self.plan), self.schedule.warmup
                )
            stack.callback(self.devices.release, module)
            module.train()
            self.logged = now()
            yield

    @property
    def ended(self) -> str | None:
        """Why no update is left, a key of `STOP_REASONS`; None: some are."""
        loop, progress = self.config.loop, self.progress
        if loop.max_updates is not None and progress.update >= loop.max_updates:
            return "max_updates"
        if loop.max_epochs is not None and progress.epoch >= loop.max_epochs:
            return "max_epochs"
        return None

    def update(self) -> None:
        """Make the next update."""
        progress = self.progress
        update = self.plan[progress.index]
        batches = self._batches(update)
        count = torch.tensor(float(sum(b.count for b in batches)), device=self.devices.device)
        count = self.devices.sum(count).clamp(min=1.0)
        rate = self.schedule.rate(progress.update)
        set_learning_rate(self.optimizer, rate)
        self.optimizer.zero_grad(set_to_none=True)
        total = torch.zeros((), dtype=torch.float64, device=self.devices.device)
        for number, batch in enumerate(batches, 1):
            with self.devices.accumulating(self.model, number == len(batches)):
                with self.devices.computing():
                    loss = self.model(batch.to(self.devices.device))
                weight = 1.0 if batch.count else 0.0  # a placeholder without examples
                self.devices.backward(loss.total * (weight / count))
            total += weight * loss.total.detach()
            self.meters.add_micro_batch(loss, weight)
        norm = self.devices.clip(self.model, self.config.optimizer.clip_norm)
        self.optimizer.step()
        lengths = [self.lengths[i] for micro in update for i in micro]
        progress.update += 1
        flops = training_flops(self.architecture, lengths)
        self.meters.add_update(progress.update, rate, total, count, norm, sum(lengths), flops)
        progress.index += 1
        if progress.index == len(self.plan):
            progress.epoch, progress.index = progress.epoch + 1, 0
            self.plan_again()

    def _batches(self, update: Update) -> list[Batch]:
        """Make this process's micro-batches; where it has none, one of count 0 keeps it in step."""
        epoch, batches = self.progress.epoch, []
        for micro in batches_of_process(update, self.devices.rank, self.devices.world):
            if micro:
                batches.append(self.task.batch(micro, epoch))
            else:
                example = next(m for m in update if m)[:1]
                batches.append(replace(self.task.batch(example, epoch), count=0))
        return batches

    # ---- their numbers ----

    @property
    def log_due(self) -> bool:
        """Whether it is time for a row of the log."""
        return self.progress.update % self.config.loop.log_every == 0

    def log(self) -> dict[str, Any] | None:
        """Read, check and show the numbers since the last time, which waits for the device."""
        reading = self.meters.read(self.devices)
        if reading is None:
            return None
        seconds = now() - self.logged
        self.progress.seconds += seconds
        for done in reading.updates:
            self._warn(self.monitor.check(done.update, done.loss, done.norm, done.rate))
        last = reading.updates[-1]
        self._warn(self.monitor.degenerate(last.update))
        row = {
            "update": last.update,
            "epoch": self.progress.epoch,
            "loss": reading.loss,
            "lr": last.rate,
            "grad_norm": last.norm,
            "tokens": reading.tokens,
            "tokens_per_second": round(reading.tokens / max(seconds, 1e-9), 1),
            "seconds": round(self.progress.seconds, 2),
            **reading.means,
        }
        if self.peak is not None:
            could = self.peak * self.devices.world * max(seconds, 1e-9)
            row["model_flops_utilization"] = round(reading.flops / could, 4)
        if self.display is not None:
            ended = self.progress.index == 0  # and the update was of the epoch before
            self.display.updated({**row, "epoch": row["epoch"] - ended})
        self.logged = now()
        return row

    def _warn(self, sentence: str | None) -> None:
        if sentence is not None and self.devices.main:
            warnings.warn(sentence, RuntimeWarning, stacklevel=5)

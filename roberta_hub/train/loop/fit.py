"""The loop: updates, evaluations, checkpoints, until there is a reason to stop."""

from __future__ import annotations

import math
import time
import warnings
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import torch

from roberta_hub.errors import UnknownNameError
from roberta_hub.inference.mode import evaluating
from roberta_hub.model.roberta import own_model
from roberta_hub.train.config import Config, check, near
from roberta_hub.train.data.batches import Update, plan, share
from roberta_hub.train.loop.devices import Devices
from roberta_hub.train.loop.folder import claimed, common_state
from roberta_hub.train.loop.logs import Logs, Report
from roberta_hub.train.loop.optimizer import learning_rate, make_optimizer, set_learning_rate
from roberta_hub.train.loop.recompute import recomputed_layers
from roberta_hub.train.loop.signals import Signals
from roberta_hub.train.loop.state import (
    Progress,
    State,
    generators,
    identity_of,
    load_state,
    save_state,
    seed_generators,
    set_generators,
    undisturbed,
)
from roberta_hub.train.loop.tally import Tally
from roberta_hub.train.loop.watch import Watch
from roberta_hub.train.tasks.task import Batch, Task


def fit(task: Task, config: Config, *, started: float | None = None) -> Report:
    """Train a task, going on where a run in `config.output` stopped.

    Writes into that folder: `log.csv` and `valid.csv`; `state-<update>`, from which the same call
    goes on exactly; `best`, the model of the best evaluation, and `last`, that of the end, both for
    `load_model`.

    Args:
        task: what to train.
        config: all but `model`, `data` and `task` is used here; of those the settings, and what the
            model is, must be the same when a run goes on.
        started: `time.monotonic()` from which `loop.max_minutes` counts; None: now.

    Raises:
        DivergedError: the loss is NaN or infinite.
        InputError: the folder cannot be written, holds a state of another configuration, or not
            the same one in every process.
    """
    started, config = time.monotonic() if started is None else started, check(config)
    with claimed(config.output):
        return _Run(task, config, started).run()


class _Run:
    def __init__(self, task: Task, config: Config, started: float) -> None:
        self.task, self.config, self.started = task, config, started
        self.directory = Path(config.output)
        loop, options = config.loop, config.optimizer
        self.devices = Devices(loop.precision, loop.parallel, loop.find_unused_parameters)
        task.module.to(self.devices.device)
        self.updates = self._plan(0)
        self.end = self._end()
        self.total = options.total_updates or self.end
        warmup = options.warmup_updates
        self.warmup = math.ceil(0.06 * self.total) if warmup is None else warmup
        if self.warmup >= self.end and self.devices.main:
            warnings.warn(
                f"warm-up takes {self.warmup} updates, and this data gives only {self.end}: the "
                f"learning rate "
                "never gets where the recipe means it to be; set optimizer.warmup_updates=null "
                "optimizer.total_updates=null to fit them to the data",
                stacklevel=4,
            )
        seed_generators(config.seed, self.devices.rank)
        self.devices.shard(task.module)
        optimizer = make_optimizer(
            task.module,
            lr=options.lr,
            betas=(options.betas[0], options.betas[1]),
            eps=options.eps,
            weight_decay=options.weight_decay,
            decay=options.decay,
            layer_decay=options.layer_decay,
        )
        self.model, self.optimizer = self.devices.prepare(task.module, optimizer)
        self.progress = Progress()
        model = own_model(task.module.get_submodule("roberta"), "training changes")
        self.identity = identity_of(config, model.config, self.total, self.warmup, self.lengths)
        self._resume()
        self.watch = Watch(
            task.chance(),
            warmup=self.warmup,
            precision=loop.precision,
            memory=self.progress.watch,
        )
        self.tally = Tally()
        self.mark = self.saved_at = time.monotonic()
        self.slowest = self.evaluation_seconds = 0.0
        self.saving_seconds = 0.1 + sum(p.nbytes for p in task.module.parameters()) * 4 / 2e8
        self.model_seconds = self.saving_seconds / 3
        self.saved = self.progress.update

    # ---- before the first update ----

    def _plan(self, epoch: int) -> list[Update]:
        batch = self.config.batch
        self.lengths = self.task.lengths(epoch)
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
        loop = self.config.loop
        ends = [loop.max_updates] if loop.max_updates is not None else []
        ends += [loop.max_epochs * len(self.updates)] if loop.max_epochs is not None else []
        return min(ends)

    def _resume(self) -> None:
        path = common_state(self.devices, self.directory, resume=self.config.resume)
        if path is None:
            return
        state = load_state(path, self.identity)
        self.devices.put_weights(self.task.module, state.weights, path)
        self.devices.put_optimizer(self.optimizer, state.optimizer)
        self.devices.put_scaler(state.scaler)
        self.progress = state.progress
        if self.progress.epoch and self._ended() is None:
            self.updates = self._plan(self.progress.epoch)
        if len(state.generators) == self.devices.world:
            set_generators(state.generators[self.devices.rank])
        elif self.devices.main:
            warnings.warn(
                f"{path} was written by {len(state.generators)} processes, now there are "
                f"{self.devices.world}: the run goes on, but its dropout differs from that of an "
                "uninterrupted one",
                stacklevel=5,
            )

    # ---- the loop ----

    def run(self) -> Report:
        with ExitStack() as stack:
            self.signals = stack.enter_context(Signals())
            module, loop = self.task.module, self.config.loop
            if loop.gradient_checkpointing:
                stack.enter_context(recomputed_layers(module))
            self.logs: Logs | None = None
            if self.devices.main:
                self.logs = Logs(
                    self.directory,
                    self.progress.update,
                    total=self.end,
                    tensorboard=loop.tensorboard,
                    progress=loop.progress,
                )
                stack.callback(self.logs.close)
                size = sum(p.numel() for p in module.parameters())
                self.logs.voice.begin(
                    self.config.model, size, self.lengths, len(self.updates), self.warmup
                )
            stack.callback(self.devices.release, module)
            module.train()
            stopped = None
            while stopped is None:
                stopped = self._turn()
            self._flush()
            self._save()
            self._save_model("last")
            if self.logs is not None:
                self.logs.voice.stopped(self.progress.update, stopped)
        return self._report(stopped)

    def _turn(self) -> str | None:
        """Evaluate and save where it is time to, then do an update; or the reason to stop."""
        progress, loop = self.progress, self.config.loop
        ended = self._ended()
        evaluation = self._evaluation_due(ended)
        late, too_late, asked, saving = self.devices.agree(
            self._late(self.slowest),
            self._late(self.evaluation_seconds) and evaluation,
            self.signals.asked,
            self._saving_due(),
        )
        if asked or too_late or (late and not ended):
            return "interrupted" if asked else "max_minutes"
        if evaluation:
            self._evaluate()
        if saving or (evaluation and loop.save_every is None):
            self._save()
        if ended is None and loop.patience is not None and progress.worse >= loop.patience:
            return "patience"
        if ended is None and self.watch.said and loop.degenerate == "stop":
            return "degenerate"
        if ended is None:
            self._update()
        return ended

    def _ended(self) -> str | None:
        loop, progress = self.config.loop, self.progress
        if loop.max_updates is not None and progress.update >= loop.max_updates:
            return "max_updates"
        if loop.max_epochs is not None and progress.epoch >= loop.max_epochs:
            return "max_epochs"
        return None

    def _evaluation_due(self, ended: str | None) -> bool:
        every, progress = self.config.loop.evaluate_every, self.progress
        if every == 0 or progress.update == 0 or progress.evaluated == progress.update:
            return False
        due = progress.index == 0 if every is None else progress.update % every == 0
        return due or ended is not None

    def _saving_due(self) -> bool:
        loop = self.config.loop
        if self.progress.update == self.saved:
            return False
        if loop.save_every is not None:
            return self.progress.update % loop.save_every == 0
        return time.monotonic() - self.saved_at > 60 * loop.save_minutes

    def _late(self, seconds: float) -> bool:
        """Whether work of `seconds`, and the saving after it, would end after `max_minutes`."""
        minutes = self.config.loop.max_minutes
        if minutes is None:
            return False
        left = self.started + 60 * minutes - time.monotonic()
        return left < 0.3 + 1.5 * seconds + 2 * self.saving_seconds

    def _update(self) -> None:
        start, progress = time.monotonic(), self.progress
        update = self.updates[progress.index]
        batches = self._batches(update)
        count = torch.tensor(float(sum(b.count for b in batches)), device=self.devices.device)
        count = self.devices.sum(count).clamp(min=1.0)
        rate = self._rate(progress.update)
        set_learning_rate(self.optimizer, rate)
        self.optimizer.zero_grad(set_to_none=True)
        total = torch.zeros((), dtype=torch.float64, device=self.devices.device)
        for number, batch in enumerate(batches, 1):
            with self.devices.accumulating(self.model, number == len(batches)):
                with self.devices.computing():
                    loss = self.model(batch.to(self.devices.device))
                weight = 1.0 if batch.count else 0.0  # a stand-in where there is nothing to do
                self.devices.backward(loss.total * (weight / count))
            total += weight * loss.total.detach()
            self.tally.note(loss, weight)
        norm = self.devices.clip(self.model, self.config.optimizer.clip_norm)
        self.optimizer.step()
        tokens = sum(self.lengths[i] for micro in update for i in micro)
        progress.update += 1
        self.tally.add(progress.update, rate, total, count, norm, tokens)
        progress.index += 1
        if progress.index == len(self.updates):
            progress.epoch, progress.index = progress.epoch + 1, 0
            if self._ended() is None:
                self.updates = self._plan(progress.epoch)
        if progress.update % self.config.loop.log_every == 0:
            self._flush()
        self.slowest = max(self.slowest, time.monotonic() - start)

    def _batches(self, update: Update) -> list[Batch]:
        """This process's micro-batches, or a stand-in of count 0 that keeps it in step."""
        epoch, batches = self.progress.epoch, []
        for micro in share(update, self.devices.rank, self.devices.world):
            if micro:
                batches.append(self.task.batch(micro, epoch))
            else:
                example = next(m for m in update if m)[:1]
                batches.append(replace(self.task.batch(example, epoch), count=0))
        return batches

    def _rate(self, done: int) -> float:
        options = self.config.optimizer
        return learning_rate(
            done,
            peak=options.lr,
            schedule=options.schedule,
            warmup=self.warmup,
            total=self.total,
            end=options.end_lr,
            power=options.power,
        )

    # ---- looking and writing ----

    def _flush(self) -> None:
        """Log the updates since the last time, the one place that waits for the device."""
        looked = self.tally.look(self.devices)
        if looked is None:
            return
        seconds = time.monotonic() - self.mark
        self.progress.seconds += seconds
        for done in looked.updates:
            self._warn(self.watch.see(done.update, done.loss, done.norm, done.rate))
        last = looked.updates[-1]
        self._warn(self.watch.degenerate(last.update))
        row = {
            "update": last.update,
            "epoch": self.progress.epoch,
            "loss": looked.loss,
            "lr": last.rate,
            "grad_norm": last.norm,
            "tokens": looked.tokens,
            "tokens_per_second": round(looked.tokens / max(seconds, 1e-9), 1),
            "seconds": round(self.progress.seconds, 2),
            **looked.means,
        }
        if self.logs is not None:
            self.logs.updated(row)
        self.mark = time.monotonic()

    def _warn(self, sentence: str | None) -> None:
        if sentence is not None and self.devices.main:
            warnings.warn(sentence, RuntimeWarning, stacklevel=5)

    def _evaluate(self) -> None:
        self._flush()
        start, progress = time.monotonic(), self.progress
        with undisturbed(), evaluating(self.task.module), self.devices.evaluating(self.task.module):
            numbers = self.task.evaluate()
        progress.evaluated, progress.metrics = progress.update, dict(numbers)
        if numbers:
            best = self._judge(numbers)
            if self.logs is not None:
                self.logs.evaluated({"update": progress.update, **numbers}, best=best)
        self.mark = time.monotonic()
        self.evaluation_seconds = max(self.evaluation_seconds, self.mark - start)

    def _judge(self, numbers: dict[str, float]) -> bool:
        """Keep the model if this is the best so far; whether it is."""
        metric, progress = self.task.metric, self.progress
        if metric not in numbers:
            raise UnknownNameError(f"no metric {metric!r}{near(metric, list(numbers))}")
        value = numbers[metric]
        sign = 1 if self.task.larger_is_better else -1
        if not math.isnan(value) and (progress.best is None or sign * (value - progress.best) > 0):
            progress.best, progress.best_update, progress.worse = value, progress.update, 0
            self._save_model("best")
            return True
        progress.worse += 1
        return False

    def _save(self) -> None:
        self._flush()
        start, progress = time.monotonic(), self.progress
        progress.watch = self.watch.memory()
        each = self.devices.gather(generators())
        weights = self.devices.weights(self.task.module)
        optimizer = self.devices.optimizer_state(self.optimizer)
        if self.devices.main:
            scaler = self.devices.scaler()
            state = State(weights, optimizer, progress, each, self.identity, scaler)
            path = save_state(self.directory, state)
            if self.logs is not None:
                self.logs.voice.saved(path)
        self.devices.wait()
        self.saved, self.saved_at = progress.update, time.monotonic()
        self.saving_seconds = self.saved_at - start + self.model_seconds
        self.mark = self.saved_at

    def _save_model(self, name: str) -> None:
        """Write the model for people, whom optimizers and generators do not interest."""
        start = time.monotonic()
        with self.devices.whole(self.task.module):
            if self.devices.main:
                self.task.finish().save(self.directory / name)
        self.devices.wait()
        self.model_seconds = time.monotonic() - start

    def _report(self, stopped: str) -> Report:
        progress = self.progress
        return Report(
            directory=self.directory,
            update=progress.update,
            epoch=progress.epoch,
            stopped=stopped,
            metrics=progress.metrics,
            best=progress.best,
            best_update=progress.best_update,
            degenerate=self.watch.said,
        )

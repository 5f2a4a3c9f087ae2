"""Runs the training loop: updates, evaluations and savings, until there is a reason to stop."""

from __future__ import annotations

import math
import shutil
import warnings
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from roberta_hub.errors import UnknownNameError
from roberta_hub.inference.mode import evaluating
from roberta_hub.model.roberta import require_roberta
from roberta_hub.train.data.batches import (
    EpochPlan,
    Update,
    batches_of_process,
    count_updates,
    plan_epoch,
)
from roberta_hub.train.data.fairseq_batches import plan_as_fairseq
from roberta_hub.train.limits import check, suggestion
from roberta_hub.train.loop.checkpoints import Checkpoints, restore_generators, save_model
from roberta_hub.train.loop.clock import Clock, now
from roberta_hub.train.loop.devices import Devices
from roberta_hub.train.loop.divergence import DivergenceMonitor
from roberta_hub.train.loop.fairseq_run import read_run
from roberta_hub.train.loop.flops import peak_flops, training_flops
from roberta_hub.train.loop.logs import Logs
from roberta_hub.train.loop.meters import Meters
from roberta_hub.train.loop.optimizer import Schedule, make_optimizer, set_learning_rate
from roberta_hub.train.loop.output_folder import claim_folder
from roberta_hub.train.loop.recompute import recomputed_layers
from roberta_hub.train.loop.signals import Signals
from roberta_hub.train.loop.state import (
    Progress,
    identity_of,
    restore_generators_after,
    seed_generators,
)
from roberta_hub.train.reports import Report, logger
from roberta_hub.train.settings import Config
from roberta_hub.train.tasks.training_task import Batch, TrainingTask
from roberta_hub.train.to_fairseq import (
    BEST,
    CRITERIA,
    LAST,
    Place,
    keeps_moments,
    write_checkpoint,
)


def train_loop(task: TrainingTask, config: Config, *, started: float | None = None) -> Report:
    """Train a task, going on where a run in `config.output` stopped.

    Writes into that folder: `log.csv` and `valid.csv`; `state-<update>`, from which the same call
    goes on exactly; `best`, the model of the best evaluation, and `last`, that of the end, both for
    `load_model`; where `loop.fairseq_files` is set, both for fairseq too. A `best` of an earlier
    run goes when this one has ended without an evaluation.

    Args:
        task: what to train.
        config: all but `model`, `data` and `task` is used here. The settings that decide numbers,
            and the model's architecture, must be the same when a run goes on.
        started: `time.monotonic()` from which `loop.max_minutes` counts; None: now.

    Raises:
        DivergedError: the loss is NaN or infinite.
        InputError: the folder cannot be written, holds a state of another configuration, or not
            the same one in every process.
    """
    started, config = now() if started is None else started, check(config)
    # First: torch loads parts of itself at first use, and a KeyboardInterrupt there can get lost.
    with Signals() as signals, claim_folder(config.output):
        return _Run(task, config, started, signals).run()


class _Run:
    def __init__(
        self, task: TrainingTask, config: Config, started: float, signals: Signals
    ) -> None:
        self.task, self.config, self.signals = task, config, signals
        self.directory = Path(config.output)
        loop = config.loop
        self.devices = Devices(loop.precision, loop.parallel, loop.find_unused_parameters)
        task.module.to(self.devices.device)
        self.progress = Progress()
        self.updates = self._plan(0)
        self.end = self._end()
        self.schedule = self._schedule()
        seed_generators(config.seed, self.devices.rank)
        self.devices.shard(task.module)
        self.model, self.optimizer = self.devices.prepare(task.module, self._adam())
        model = require_roberta(task.module.get_submodule("roberta"), "training changes")
        self.architecture = model.config
        total, warmup = self.schedule.total, self.schedule.warmup
        self.identity = identity_of(
            config, model.config, total, warmup, self.lengths, task.data_digests
        )
        self.peak = loop.peak_flops or peak_flops(self.devices.device, self.devices.precision)
        self.checkpoints = Checkpoints(self.devices, self.directory, loop.state)
        self._resume()
        self.monitor = DivergenceMonitor(
            task.chance(),
            warmup=warmup,
            precision=loop.precision,
            memory=self.progress.watch,
        )
        self.meters = Meters()
        size = sum(p.nbytes for p in task.module.parameters())
        self.clock = Clock(started, loop.max_minutes, size)
        self.saved = self.progress.update

    # ---- before the first update ----

    def _plan(self, epoch: int) -> EpochPlan:
        batch, progress = self.config.batch, self.progress
        self.lengths = self.task.lengths(epoch)
        if batch.order == "fairseq":
            return plan_as_fairseq(
                self.lengths,
                batch.max_tokens,
                seed=self.config.seed,
                epoch=epoch,
                update_freq=batch.update_freq,
                world=self.devices.world,
                batch_size=batch.batch_size,
                multiple=batch.multiple,
                by_length=self.config.task.name == "masked_lm",
            )
        return plan_epoch(
            self.lengths,
            batch.max_tokens,
            seed=self.config.seed,
            epoch=epoch,
            update_freq=batch.update_freq,
            world=self.devices.world,
            batch_size=batch.batch_size,
            done=progress.update - progress.index,
            warmup=batch.warmup_updates or 0,
        )

    def _end(self) -> int:
        """About how many updates there will be; epochs may differ by a few."""
        loop, batch = self.config.loop, self.config.batch
        ends = [loop.max_updates] if loop.max_updates is not None else []
        if loop.max_epochs is not None:
            micro, warmup = self.updates.micro_batches, batch.warmup_updates or 0
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
                stacklevel=5,
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

    def _resume(self) -> None:
        found = self.checkpoints.restore(
            self.task.module, self.optimizer, self.identity, resume=self.config.resume
        )
        if found is None:
            if self.config.restore:
                self._restore()
            return
        path, state = found
        self.progress = state.progress
        if self.progress.epoch and self._ended() is None:
            self.updates = self._plan(self.progress.epoch)
        restore_generators(self.devices, path, state)

    def _restore(self) -> None:
        """Go on with a run of fairseq's: its moments, its updates, its place in the data."""
        run = read_run(Path(self.config.model))
        state = dict(self.optimizer.state_dict())
        self.devices.put_optimizer(self.optimizer, run.optimizer_state(self.task.module, state))
        if run.loss_scale is not None:
            scale = {"scale": run.loss_scale, "growth_factor": 2.0, "backoff_factor": 0.5}
            more = {"growth_interval": 2000, "_growth_tracker": 0}
            self.devices.put_scaler({**scale, **more})
        progress = self.progress
        progress.update, progress.epoch = run.updates, run.epoch
        if self._ended() is None:
            self.updates = self._plan(run.epoch)
        per_update = max(1, self.config.batch.update_freq // self.devices.world)
        progress.index = min(-(-run.batches // per_update), len(self.updates))
        if progress.index == len(self.updates):
            progress.epoch, progress.index = run.epoch + 1, 0
            if self._ended() is None:
                self.updates = self._plan(progress.epoch)
        if self.devices.main:
            logger.info(
                "goes on after update %s of fairseq's run, in epoch %s at update %s%s",
                run.updates,
                progress.epoch + 1,
                progress.index + 1,
                ""
                if self.config.batch.order == "fairseq"
                else "; batch.order=fairseq would take its batches too, one by one",
            )

    # ---- the loop ----

    def run(self) -> Report:
        with ExitStack() as stack:
            stack.enter_context(self.checkpoints)
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
                self.logs.messages.begin(
                    self.config.model, size, self.lengths, len(self.updates), self.schedule.warmup
                )
            stack.callback(self.devices.release, module)
            module.train()
            stopped = None
            while stopped is None:
                stopped = self._turn()
            self._log()
            self._save()
            self._save_model("last")
            if self.progress.best_update is None and self.devices.main:
                # Of an earlier run: who loads this folder would get it instead of `last`.
                shutil.rmtree(self.directory / "best", ignore_errors=True)
                (self.directory / BEST).unlink(missing_ok=True)
            self._saved(self.checkpoints.wait())
            if self.logs is not None:
                self.logs.messages.stopped(self.progress.update, stopped)
        return self._report(stopped)

    def _turn(self) -> str | None:
        """Evaluate and save when it is time, then do an update; or return the reason to stop."""
        progress, loop = self.progress, self.config.loop
        ended = self._ended()
        evaluation = self._evaluation_due(ended)
        late, too_late, asked, saving, failed = self.devices.agree(
            self.clock.late(self.clock.update),
            self.clock.late(self.clock.evaluation) and evaluation,
            self.signals.asked,
            self._saving_due(),
            self.checkpoints.failed(),
        )
        if failed:
            self.checkpoints.wait()  # raises in every process
        if asked or too_late or (late and not ended):
            return "interrupted" if asked else "max_minutes"
        if evaluation:
            self._evaluate()
        if saving or (evaluation and loop.save_every is None):
            self._save()
        if ended is None and loop.patience is not None and progress.worse >= loop.patience:
            return "patience"
        if ended is None and self.monitor.said and loop.degenerate == "stop":
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
            return loop.save_every > 0 and self.progress.update % loop.save_every == 0
        return now() - self.clock.saved > 60 * loop.save_minutes

    def _update(self) -> None:
        start, progress = now(), self.progress
        update = self.updates[progress.index]
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
        if progress.index == len(self.updates):
            progress.epoch, progress.index = progress.epoch + 1, 0
            if self._ended() is None:
                self.updates = self._plan(progress.epoch)
        if progress.update % self.config.loop.log_every == 0:
            self._log()
        self.clock.updated(start)

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

    # ---- logs, evaluations, savings ----

    def _log(self) -> None:
        """Write a row about the updates since the last one, which waits for the device."""
        reading = self.meters.read(self.devices)
        if reading is None:
            return
        seconds = now() - self.clock.logged
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
        if self.logs is not None:
            self.logs.updated(row)
        self.clock.logged = now()

    def _warn(self, sentence: str | None) -> None:
        if sentence is not None and self.devices.main:
            warnings.warn(sentence, RuntimeWarning, stacklevel=5)

    def _evaluate(self) -> None:
        self._log()
        start, progress = now(), self.progress
        with (
            restore_generators_after(),
            evaluating(self.task.module),
            self.devices.evaluating(self.task.module),
        ):
            numbers = self.task.evaluate()
        progress.evaluated, progress.metrics = progress.update, dict(numbers)
        if numbers:
            best = self._judge(numbers)
            if self.logs is not None:
                self.logs.evaluated({"update": progress.update, **numbers}, best=best)
        self.clock.evaluated(start)

    def _judge(self, numbers: dict[str, float]) -> bool:
        """Tell whether this is the best evaluation so far, and keep its model."""
        metric, progress = self.task.metric, self.progress
        if metric not in numbers:
            raise UnknownNameError(f"no metric {metric!r}{suggestion(metric, list(numbers))}")
        value = numbers[metric]
        sign = 1 if self.task.larger_is_better else -1
        if not math.isnan(value) and (progress.best is None or sign * (value - progress.best) > 0):
            progress.best, progress.best_update, progress.worse = value, progress.update, 0
            self._save_model("best")
            return True
        progress.worse += 1
        return False

    def _save(self) -> None:
        if self.config.loop.save_every == 0:
            return
        self._log()
        start, progress = now(), self.progress
        progress.watch = self.monitor.memory()
        module, optimizer = self.task.module, self.optimizer
        self._saved(self.checkpoints.save(module, optimizer, progress, self.identity))
        self.saved = progress.update
        self.clock.saved_state(start, self.checkpoints.seconds)

    def _saved(self, path: Path | None) -> None:
        if self.logs is not None and path is not None:
            self.logs.messages.saved(path)

    def _save_model(self, name: str) -> None:
        """Write the model alone, without optimizer and generators; for fairseq as its trainer."""
        start, beside = now(), None
        if self.config.loop.fairseq_files:
            file, own = self.directory / (LAST if name == "last" else BEST), self.config.task
            place = self._place() if name == "last" else None
            beside = partial(write_checkpoint, file=file, task=own.name, head=own.head, place=place)
        save_model(self.devices, self.task, self.directory / name, beside)
        self.clock.saved_model(start)

    def _place(self) -> Place | None:
        """Say how far the run is, where fairseq's trainer could go on; every process must call."""
        if self.config.task.name not in CRITERIA or not keeps_moments(self.task.finish().model):
            return None
        optimizer, batch = self.devices.optimizer_state(self.optimizer), self.config.batch
        fp16 = self.config.loop.precision == "fp16"
        return Place(
            self.task.module,
            optimizer,
            self.progress,
            self.progress.index * max(1, batch.update_freq // self.devices.world),
            self.devices.scaler().get("scale") if fp16 else None,
        )

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
            degenerate=self.monitor.said,
        )

"""Trains a task in a folder: updates, evaluations and savings, until there is a reason to stop."""

from __future__ import annotations

import math
import shutil
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from roberta_hub.errors import UnknownNameError
from roberta_hub.inference.mode import evaluating
from roberta_hub.train.limits import check, suggestion
from roberta_hub.train.loop.checkpoints import Checkpoints, restore_generators, save_model
from roberta_hub.train.loop.clock import Clock, now
from roberta_hub.train.loop.fairseq_run import read_run
from roberta_hub.train.loop.logs import Logs
from roberta_hub.train.loop.output_folder import claim_folder
from roberta_hub.train.loop.signals import Signals
from roberta_hub.train.loop.state import identity_of, restore_generators_after
from roberta_hub.train.loop.updates import Training
from roberta_hub.train.reports import RunResult, logger
from roberta_hub.train.settings import Config
from roberta_hub.train.tasks.training_task import TrainingTask
from roberta_hub.train.to_fairseq import (
    BEST,
    CRITERIA,
    LAST,
    Place,
    keeps_moments,
    write_checkpoint,
)


def train_loop(task: TrainingTask, config: Config) -> RunResult:
    """Train a task, resuming a run in `config.output`.

    Writes into that folder: `log.csv` and `valid.csv`; `state-<update>`, from which the same call
    resumes exactly; `best`, the model of the best evaluation, and `last`, that of the end, both for
    `load_model`; where `loop.fairseq_files` is set, both for fairseq too. A `best` of an earlier
    run goes when this one has ended without an evaluation.
    """
    started, config = now(), check(config)
    with claim_folder(config.output):
        return train_claimed(task, config, started)


def train_claimed(task: TrainingTask, config: Config, started: float) -> RunResult:
    """Train as `train_loop` does: the folder is claimed, and `loop.max_minutes` count already."""
    # First: torch loads parts of itself at first use, and a KeyboardInterrupt there can get lost.
    with Signals() as signals:
        return _Run(task, config, started, signals).run()


class _Run:
    """A training with a folder: what is logged, judged and saved between its updates."""

    def __init__(
        self, task: TrainingTask, config: Config, started: float, signals: Signals
    ) -> None:
        self.task, self.config, self.signals = task, config, signals
        self.directory = Path(config.output)
        self.training = training = Training(task, config)
        self.identity = identity_of(
            config,
            training.architecture,
            training.schedule.total,
            training.schedule.warmup,
            training.lengths,
            task.data_digests,
        )
        self.checkpoints = Checkpoints(training.devices, self.directory, config.loop.state)
        self._resume()
        size = sum(p.nbytes for p in task.module.parameters())
        self.clock = Clock(started, config.loop.max_minutes, size)
        self.saved = training.progress.update
        self.logs: Logs | None = None

    # ---- before the first update ----

    def _resume(self) -> None:
        training = self.training
        found = self.checkpoints.restore(
            self.task.module, training.optimizer, self.identity, resume=self.config.resume
        )
        if found is None:
            if self.config.restore:
                self._restore()
            return
        path, state = found
        training.progress = state.progress
        if training.progress.epoch:
            training.plan_again()
        restore_generators(training.devices, path, state)

    def _restore(self) -> None:
        """Resume a run of fairseq's: its moments, its updates, its place in the data."""
        training = self.training
        devices, optimizer, progress = training.devices, training.optimizer, training.progress
        run = read_run(Path(self.config.model))
        state = dict(optimizer.state_dict())
        devices.put_optimizer(optimizer, run.optimizer_state(self.task.module, state))
        if run.loss_scale is not None:
            scale = {"scale": run.loss_scale, "growth_factor": 2.0, "backoff_factor": 0.5}
            more = {"growth_interval": 2000, "_growth_tracker": 0}
            devices.put_scaler({**scale, **more})
        progress.update, progress.epoch = run.updates, run.epoch
        training.plan_again()
        per_update = max(1, self.config.batch.update_freq // devices.world)
        progress.index = min(-(-run.batches // per_update), len(training.plan))
        if progress.index == len(training.plan):
            progress.epoch, progress.index = run.epoch + 1, 0
            training.plan_again()
        if devices.main:
            logger.info(
                "resumes after update %s of fairseq's run, in epoch %s at update %s%s",
                run.updates,
                progress.epoch + 1,
                progress.index + 1,
                ""
                if self.config.batch.order == "fairseq"
                else "; batch.order=fairseq would take its batches too, one by one",
            )

    # ---- the loop ----

    def run(self) -> RunResult:
        training, loop, stopped = self.training, self.config.loop, None
        with ExitStack() as stack:
            stack.enter_context(self.checkpoints)
            if training.devices.main:
                update = training.progress.update
                self.logs = Logs(self.directory, update, tensorboard=loop.tensorboard)
                stack.callback(self.logs.close)
            stack.enter_context(training.running(self.directory))
            while stopped is None:
                stopped = self._turn()
            self._log()
            self._save()
            self._save_model("last")
            if training.progress.best_update is None and training.devices.main:
                # Of an earlier run: who loads this folder would get it instead of `last`.
                shutil.rmtree(self.directory / "best", ignore_errors=True)
                (self.directory / BEST).unlink(missing_ok=True)
            self._saved(self.checkpoints.wait())
            if training.display is not None:
                training.display.messages.stopped(training.progress.update, stopped)
        return self._report(stopped)

    def _turn(self) -> str | None:
        """Evaluate and save when it is time, then do an update; or return the reason to stop."""
        training, loop = self.training, self.config.loop
        ended = training.ended
        evaluation = self._evaluation_due(ended)
        late, too_late, asked, saving, failed = training.devices.agree(
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
        if ended is None and loop.patience is not None and training.progress.worse >= loop.patience:
            return "patience"
        if ended is None and training.monitor.said and loop.degenerate == "stop":
            return "degenerate"
        if ended is None:
            self._update()
        return ended

    def _evaluation_due(self, ended: str | None) -> bool:
        every, progress = self.config.loop.evaluate_every, self.training.progress
        if every == 0 or progress.update == 0 or progress.evaluated == progress.update:
            return False
        due = progress.index == 0 if every is None else progress.update % every == 0
        return due or ended is not None

    def _saving_due(self) -> bool:
        loop, update = self.config.loop, self.training.progress.update
        if update == self.saved:
            return False
        if loop.save_every is not None:
            return loop.save_every > 0 and update % loop.save_every == 0
        return now() - self.clock.saved > 60 * loop.save_minutes

    def _update(self) -> None:
        start = now()
        self.training.update()
        if self.training.log_due:
            self._log()
        self.clock.updated(start)

    # ---- logs, evaluations, savings ----

    def _log(self) -> None:
        row = self.training.log()
        if self.logs is not None and row is not None:
            self.logs.updated(row)

    def _evaluate(self) -> None:
        self._log()
        start, training = now(), self.training
        module, progress = self.task.module, training.progress
        with (
            restore_generators_after(),
            evaluating(module),
            training.devices.evaluating(module),
        ):
            numbers = self.task.evaluate()
        progress.evaluated, progress.metrics = progress.update, dict(numbers)
        if numbers:
            best = self._judge(numbers)
            row = {"update": progress.update, **numbers}
            if self.logs is not None:
                self.logs.evaluated(row)
            if training.display is not None:
                training.display.evaluated(row, best=best)
        training.logged = now()  # the log does not count this time
        self.clock.evaluated(start)

    def _judge(self, numbers: dict[str, float]) -> bool:
        """Tell whether this is the best evaluation so far, and keep its model."""
        metric, progress = self.task.metric, self.training.progress
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
        start, training = now(), self.training
        progress = training.progress
        progress.watch = training.monitor.memory()
        module, optimizer = self.task.module, training.optimizer
        self._saved(self.checkpoints.save(module, optimizer, progress, self.identity))
        self.saved = progress.update
        training.logged = now()  # the log does not count this time
        self.clock.saved_state(start, self.checkpoints.seconds)

    def _saved(self, path: Path | None) -> None:
        if self.training.display is not None and path is not None:
            self.training.display.messages.saved(path)

    def _save_model(self, name: str) -> None:
        """Write the model alone, without optimizer and generators; for fairseq as its trainer."""
        start, beside = now(), None
        if self.config.loop.fairseq_files:
            file, own = self.directory / (LAST if name == "last" else BEST), self.config.task
            place = self._place() if name == "last" else None
            beside = partial(write_checkpoint, file=file, task=own.name, head=own.head, place=place)
        save_model(self.training.devices, self.task, self.directory / name, beside)
        self.clock.saved_model(start)

    def _place(self) -> Place | None:
        """Say how far the run is, where fairseq's trainer could resume; every process must call."""
        if self.config.task.name not in CRITERIA or not keeps_moments(self.task.finish().model):
            return None
        training, batch = self.training, self.config.batch
        fp16 = self.config.loop.precision == "fp16"
        return Place(
            self.task.module,
            training.devices.optimizer_state(training.optimizer),
            training.progress,
            training.progress.index * max(1, batch.update_freq // training.devices.world),
            training.devices.scaler().get("scale") if fp16 else None,
        )

    def _report(self, stopped: str) -> RunResult:
        progress = self.training.progress
        return RunResult(
            directory=self.directory,
            update=progress.update,
            epoch=progress.epoch,
            stopped=stopped,
            metrics=progress.metrics,
            best=progress.best,
            best_update=progress.best_update,
            degenerate=self.training.monitor.said,
        )

"""Adds the masked LM's loss to a fine-tuning task, so that the model does not forget to fill masks.

A fine-tuned encoder no longer fills masks. Where one model must do both, as roberta.tiny must, each
update also guesses masked words of ordinary text (rehearsal; Robins 1995).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import nn

from roberta_hub.interface import RobertaHubInterface
from roberta_hub.train.data.random_hash import uniform
from roberta_hub.train.settings import Config
from roberta_hub.train.tasks.features import roberta_of
from roberta_hub.train.tasks.finetuning import FineTuning
from roberta_hub.train.tasks.masked_lm import MaskedLM
from roberta_hub.train.tasks.options import PretrainingOptions, options_of
from roberta_hub.train.tasks.pretraining import PreTraining
from roberta_hub.train.tasks.training_task import Batch, Loss

BLOCK = 128
"""Tokens of a block of ordinary text."""
_CHOICE = 32
"""Purpose of the random numbers that choose blocks."""


@dataclass(frozen=True)
class TwoBatches(Batch):
    """A batch of the task, and a batch of ordinary text."""

    text: Batch

    def to(self, device: torch.device) -> TwoBatches:
        """Move both to a device."""
        own = super().to(device)
        return replace(self, packed=own.packed, targets=own.targets, text=self.text.to(device))


class Rehearsing(nn.Module):
    """A task's module, which adds the masked LM's loss."""

    def __init__(self, module: nn.Module, lm: MaskedLM, weight: float) -> None:
        super().__init__()
        self.roberta = lm.roberta
        self._module, self._lm = (module,), (lm,)  # not registered: their parameters are roberta's
        self.weight = weight

    def forward(self, batch: Batch) -> Loss:
        """Add the task's loss, summed over its targets, and the LM's mean loss as many times."""
        (module,), (lm,) = self._module, self._lm
        loss: Loss = module(batch)
        if not isinstance(batch, TwoBatches):
            return loss
        words: Loss = lm(batch.text)
        mean = words.total / max(batch.text.count, 1)
        total = loss.total + self.weight * batch.count * mean
        return Loss(total, {**loss.logs, "lm_loss": batch.count * mean.detach()})


class Rehearsal:
    """A `TrainingTask` of a fine-tuning task and ordinary text.

    The text adds `task.options.rehearse_share` tokens for each of the task's own.
    """

    def __init__(self, task: FineTuning, config: Config, interface: RobertaHubInterface) -> None:
        """Put both together.

        Args:
            task: the fine-tuning task.
            config: of the run; its seed masks and draws, its options say which text, how much of it
                and with what weight.
            interface: the model.
        """
        options = options_of(config)
        roberta = roberta_of(interface)
        block = min(BLOCK, roberta.config.max_positions)
        data = replace(config.data, train=options.rehearse, valid=None, limit=None)
        own = replace(config, data=data, task=replace(config.task, metric=None))
        lm = MaskedLM(roberta)
        self._text = PreTraining(own, PretrainingOptions(block_size=block), interface, lm)
        self._task, self._seed, self._share = task, config.seed, options.rehearse_share
        lengths = self._text.lengths(0)
        self._blocks, self._mean = len(lengths), sum(lengths) / len(lengths)
        self.module: nn.Module = Rehearsing(task.module, lm, options.rehearse_weight)
        self.metric, self.larger_is_better = task.metric, task.larger_is_better

    def lengths(self, epoch: int) -> Sequence[int]:
        """Count the tokens of each example of the task."""
        return self._task.lengths(epoch)

    def batch(self, indices: Sequence[int], epoch: int) -> Batch:
        """Make a batch of examples, and of blocks that the first example's number draws."""
        own = self._task.batch(indices, epoch)
        count = max(1, round(self._share * sum(own.packed.lengths) / self._mean))
        places = torch.arange(count)
        luck = uniform(self._seed, epoch, torch.full_like(places, indices[0]), places, _CHOICE)
        text = self._text.batch((luck * self._blocks).long().tolist(), epoch)
        return TwoBatches(own.packed, own.targets, own.count, text)

    def evaluate(self, interface: RobertaHubInterface | None = None) -> dict[str, float]:
        """Measure the task."""
        return self._task.evaluate(interface)

    def chance(self) -> float | None:
        """Return None: the loss is a sum of two."""
        return None

    def finish(self) -> RobertaHubInterface:
        """Return the trained model."""
        return self._task.finish()

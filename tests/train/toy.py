"""A task of our own writing: which of three symbols a sequence holds most of.

Also run as a program, to be killed.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from small_models import small_model

from roberta_hub import RobertaHubInterface
from roberta_hub.model.packing import pack_sequences
from roberta_hub.text import Dictionary, Task
from roberta_hub.train.config import Config
from roberta_hub.train.tasks.training_task import Batch, Loss


class Toy(nn.Module):
    def __init__(self, dropout: float, layers: int = 2) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.roberta = small_model(
            num_layers=layers, heads={"toy": 3}, dropout=dropout, attention_dropout=dropout
        )
        self.dead = False
        self.poison = 0
        self.forwards = 0

    def forward(self, batch: Batch) -> Loss:
        self.forwards += 1
        encoder = self.roberta.encoder.sentence_encoder
        for state in encoder.packed(batch.packed):
            rows = state
        first = batch.packed.first_rows(encoder.finish(rows)).unsqueeze(1)
        logits = self.roberta.head("toy")(first)
        logits = logits if logits.dtype == torch.float64 else logits.float()
        if self.dead:
            logits = logits * 0.0
        if self.poison and self.forwards >= self.poison:
            logits = logits * float("nan")
        labels = batch.targets["labels"]
        total = F.cross_entropy(logits, labels, reduction="sum")
        return Loss(total, {"accuracy": logits.argmax(1).eq(labels).sum().detach()})


class ToyTask:
    metric = "accuracy"
    larger_is_better = True
    data_digests: Mapping[str, str] = {}

    def __init__(
        self, dropout: float = 0.0, examples: int = 96, double: bool = False, **options: Any
    ) -> None:
        self.module = Toy(dropout, **options)
        if double:
            self.module.double()
        self.examples = [example(i) for i in range(examples)]
        self.held_out = [example(10_000 + i) for i in range(32)]
        self.evaluations = 0

    def lengths(self, epoch: int) -> Sequence[int]:
        return [len(ids) for ids, _ in self.examples]

    def batch(self, indices: Sequence[int], epoch: int) -> Batch:
        return collate([self.examples[i] for i in indices])

    def evaluate(self, interface: RobertaHubInterface | None = None) -> dict[str, float]:
        self.evaluations += 1
        torch.rand(3)  # what an evaluation draws must not disturb the training
        assert not self.module.training
        batch = collate(self.held_out).to(next(self.module.parameters()).device)
        loss = self.module(batch)
        self.module.forwards -= 1
        return {
            "accuracy": float(loss.logs["accuracy"]) / batch.count,
            "loss": float(loss.total) / batch.count,
        }

    def chance(self) -> float | None:
        return math.log(3)

    def finish(self) -> RobertaHubInterface:
        model = self.module.roberta
        dictionary = Dictionary()
        for symbol in [*map(str, range(55)), "<mask>"]:
            dictionary.add_symbol(symbol)
        task = Task(dictionary)
        return RobertaHubInterface(model.config, task, model, labels={"toy": ("a", "b", "c")})


def example(seed: int) -> tuple[Tensor, int]:
    generator = torch.Generator().manual_seed(seed)
    length = int(torch.randint(4, 16, (), generator=generator))
    label = int(torch.randint(3, (), generator=generator))
    ids = torch.randint(4, 7, (length,), generator=generator)
    ids[torch.rand(length, generator=generator) < 0.7] = 4 + label
    return torch.cat([torch.tensor([0]), ids, torch.tensor([2])]), label


def collate(examples: Sequence[tuple[Tensor, int]]) -> Batch:
    packed = pack_sequences([ids for ids, _ in examples], padding_idx=1)
    labels = torch.tensor([label for _, label in examples])
    return Batch(packed, {"labels": labels}, len(examples))


def config(output: Path | str, **changes: Any) -> Config:
    """A short run; changes are named `section__field`."""
    found = Config(output=str(output))
    found.task.name = "toy"
    found.optimizer.lr = 0.01
    found.optimizer.warmup_updates = 4
    found.batch.max_tokens, found.batch.batch_size = None, 8
    found.loop.max_updates, found.loop.log_every = 20, 5
    found.loop.progress = False
    for name, value in changes.items():
        *section, field = name.split("__")
        setattr(getattr(found, section[0]) if section else found, field, value)
    return found


if __name__ == "__main__":
    import json

    from roberta_hub.train.loop.training_loop import train_loop

    torch.set_num_threads(1)
    for about in json.loads(sys.argv[1]):
        toy = ToyTask(**about.pop("task", {}))
        report = train_loop(toy, config(**about))
        print(f"{report.stopped} {report.update}", flush=True)

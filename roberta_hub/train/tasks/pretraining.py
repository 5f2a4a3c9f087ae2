"""Makes a pre-training task: blocks of text, masked, under one of two objectives."""

from __future__ import annotations

import dataclasses
import math
import warnings
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import nn

from roberta_hub.errors import InputError, UnknownNameError
from roberta_hub.inference.batching import BATCH_TOKENS
from roberta_hub.inference.mode import evaluating
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.model.packing import pack_sequences
from roberta_hub.train.data.batches import plan_epoch
from roberta_hub.train.data.blocks import Blocks, cached_blocks
from roberta_hub.train.data.data_bins import find_splits, open_text
from roberta_hub.train.data.digests import TRAINING_DATA, VALIDATION_DATA
from roberta_hub.train.data.masking import Maskable, Masking, mask
from roberta_hub.train.data.random_hash import uniform
from roberta_hub.train.data.streams import build_stream, open_stream, stream_digest
from roberta_hub.train.limits import read_options, suggestion
from roberta_hub.train.settings import Config
from roberta_hub.train.tasks.distillation import Distilled, Teacher
from roberta_hub.train.tasks.features import roberta_of
from roberta_hub.train.tasks.initialization import informed_start
from roberta_hub.train.tasks.masked_lm import MaskedLM
from roberta_hub.train.tasks.matching_heads import matching_heads
from roberta_hub.train.tasks.options import PretrainingOptions, metric_of, train_path
from roberta_hub.train.tasks.replaced_tokens import REPLACED_HEAD, ReplacedTokens
from roberta_hub.train.tasks.training_task import Batch

_GENERATOR_PURPOSE = 16
"""Purpose of the random numbers that draw the generator's tokens; masking.py has the others."""
PRETRAINING_TASKS = ("masked_lm", "replaced_tokens")
"""The names of these tasks."""
START_METHODS = ("random", "informed", "matching")


def build_pretraining(
    config: Config, interface: RobertaHubInterface, *, fresh: bool = True
) -> PreTraining:
    r"""Build the pre-training task that a configuration describes.

    Args:
        config: `task`, `data`, `seed` and `output` are read. `data.train` and `data.valid` name
            text files, or folders that `streams.build_stream` or fairseq-preprocess wrote.
        interface: the model, which training changes.
        fresh: whether the run begins here; one that goes on has its weights in a state.

    Raises:
        InputError: text or settings that cannot be used.

    Example:
        >>> import tempfile, roberta_hub
        >>> from roberta_hub.train.config import DataConfig, TaskConfig
        >>> folder = Path(tempfile.mkdtemp())
        >>> text = folder / "text.txt"
        >>> _ = text.write_text("The sun rises in the east and sets in the west.\n")
        >>> data, task = DataConfig(train=str(text)), TaskConfig(name="masked_lm")
        >>> config = Config(data=data, task=task, output=str(folder))
        >>> roberta = roberta_hub.load_model("roberta.base", pretrained=False)
        >>> task = build_pretraining(config, roberta)
        >>> list(task.lengths(epoch=0))
        [14]
    """
    options = read_options(PretrainingOptions, config.task.options)
    if options.start not in START_METHODS:
        raise UnknownNameError(
            f"task.options.start is {options.start!r}{suggestion(options.start, START_METHODS)}"
        )
    if config.task.name == "masked_lm":
        return PreTraining(config, options, interface, MaskedLM(roberta_of(interface)), fresh=fresh)
    if options.teacher is not None:
        raise InputError("task.options.teacher goes with task.name=masked_lm")
    model = ReplacedTokens(roberta_of(interface), options, config.seed)
    interface.labels[REPLACED_HEAD] = ("original", "replaced")
    interface.default_head = REPLACED_HEAD
    return PreTraining(config, options, interface, model, fresh=fresh)


class PreTraining:
    """A `TrainingTask` on blocks of text."""

    def __init__(
        self,
        config: Config,
        options: PretrainingOptions,
        interface: RobertaHubInterface,
        module: MaskedLM | ReplacedTokens,
        *,
        fresh: bool = True,
    ) -> None:
        """Open the text, tokenize it where that is not done, and set the first weights.

        Args:
            config: of the run.
            options: of the task.
            interface: the model, which training changes.
            module: the model under its objective.
            fresh: whether the run begins here.
        """
        self.interface = interface
        self.module: nn.Module = module
        self.teacher: Teacher | None = None
        if options.teacher is not None and isinstance(module, MaskedLM):
            self.teacher = Teacher(options.teacher, interface.tokenizer, config.loop.precision)
            self.module = Distilled(module, self.teacher, options.teacher_weight)
        self.seed = config.seed
        self.masking = options.masking()
        self.maskable = Maskable.of(interface.tokenizer)
        self.metric = metric_of(config, "loss", module.METRICS)
        self.larger_is_better = self.metric not in ("loss", "lm_loss", "perplexity")
        self._shards, digest = _shards(train_path(config), "train", config, options, interface)
        longest = roberta_of(interface).config.max_positions
        digests, self._valid = {TRAINING_DATA: digest}, None
        if valid := config.data.valid:
            held_out, digests[VALIDATION_DATA] = _shards(valid, "valid", config, options, interface)
            if len(held_out) > 1:
                raise InputError(
                    f"data.valid names {len(held_out)} folders; name one of them, fairseq judges "
                    "by the first"
                )
            self._valid, self._valid_lengths = held_out[0], _trained(held_out[0], longest)
        self.data_digests: Mapping[str, str] = digests
        self._lengths = [_trained(shard, longest)[: config.data.limit] for shard in self._shards]
        if options.start == "informed" and config.pretrained:
            raise InputError(
                "task.options.start=informed makes weights from the text's statistics, in place of "
                "those that pretrained=true loads; set pretrained=false, or start=random to keep "
                "them"
            )
        if options.start == "informed" and fresh:
            informed_start(roberta_of(interface), self._shards[0].stream, seed=config.seed)
        if options.start == "matching" and fresh:
            matching_heads(roberta_of(interface), self._shards[0].stream, seed=config.seed)

    def lengths(self, epoch: int) -> Sequence[int]:
        """Count the tokens of each block; of several folders each epoch has the next one."""
        return self._lengths[epoch % len(self._shards)]

    def batch(self, indices: Sequence[int], epoch: int) -> Batch:
        """Make a batch of blocks, masked for this epoch."""
        shard = self._shards[epoch % len(self._shards)]
        batch = self._masked(shard, indices, self.masking, self.seed, epoch)
        if self.teacher is None:
            return batch
        return self.teacher.teacher_targets(batch, shard.sequences(indices))

    def _masked(
        self, blocks: Blocks, indices: Sequence[int], masking: Masking, seed: int, epoch: int
    ) -> Batch:
        padding = roberta_of(self.interface).config.padding_idx
        packed = pack_sequences(blocks.sequences(indices), padding_idx=padding)
        numbers = torch.tensor(indices)
        seen, chosen = mask(
            packed.ids,
            packed.lengths,
            numbers,
            self.maskable,
            masking,
            seed=seed,
            epoch=epoch,
        )
        rows = chosen.nonzero()[:, 0]
        owners = torch.repeat_interleave(numbers, torch.tensor(packed.lengths))[rows]
        targets = {
            "rows": rows,
            "ids": packed.ids[rows],
            "luck": uniform(
                seed, epoch, owners, packed.positions[rows], _GENERATOR_PURPOSE
            ).float(),
        }
        return Batch(dataclasses.replace(packed, ids=seen), targets, count=len(rows))

    def evaluate(self, interface: RobertaHubInterface | None = None) -> dict[str, float]:
        """Measure the loss, and what the module counts, on the held-out blocks.

        The masks are the same in every run, whatever its seed and masking.
        """
        if self._valid is None:
            return {}
        module = self.module
        if interface is not None:
            module = MaskedLM(roberta_of(interface))
        device = next(module.parameters()).device
        budget = max(BATCH_TOKENS.get(device.type, 2048), max(self._valid_lengths))
        sums: dict[str, float] = {"loss": 0.0}
        count = 0
        judge = Masking(prob=self.masking.prob, unit=self.masking.unit)
        with evaluating(module):
            for update in plan_epoch(self._valid_lengths, budget, seed=0, epoch=0):
                batch = self._masked(self._valid, update[0], judge, 0, 0)
                loss = module(batch.to(device))
                count += batch.count
                for name, value in {"loss": loss.total, **loss.logs}.items():
                    sums[name] = sums.get(name, 0.0) + float(value)
        numbers = {name: value / max(count, 1) for name, value in sums.items()}
        lm = numbers.get("lm_loss", numbers["loss"])
        return {**numbers, "perplexity": math.exp(min(lm, 700.0))}

    def chance(self) -> float | None:
        """Return the loss of a model to which all ids are alike, ln V."""
        chance = math.log(len(self.maskable.text))
        return chance if isinstance(self.module, MaskedLM) else None

    def finish(self) -> RobertaHubInterface:
        """Return the trained model."""
        return self.interface


def _shards(
    source: str,
    name: str,
    config: Config,
    options: PretrainingOptions,
    interface: RobertaHubInterface,
) -> tuple[list[Blocks], str]:
    """Return the blocks of a source, of each folder where it has several, and a digest of all."""
    model, tokenizer = roberta_of(interface).config, interface.tokenizer
    size = options.block_size or model.max_positions
    if size > model.max_positions:
        raise InputError(
            f"task.options.block_size is {size}, the model takes {model.max_positions} tokens; "
            "architecture.max_positions can be changed where pretrained=false"
        )
    bos, eos, mode = tokenizer.bos, tokenizer.eos, options.sentences
    column = str(config.data.columns.get("text", "text"))
    own = Path(config.output) / "tokens" / name
    progress = config.loop.progress
    if splits := find_splits(source, name):
        shards, digests = [], []
        for number, split in enumerate(splits, 1):
            folder = own if number == 1 else own.with_name(f"{name}-{number}")
            text = open_text(split, tokenizer, folder, progress=progress)
            blocks = cached_blocks(
                text.ids,
                folder,
                size,
                mode=mode,
                bos=bos,
                eos=eos,
                lines=text.ends,
                name=text.digest,
            )
            shards.append(blocks)
            digests.append(text.digest)
        return shards, "+".join(digests)
    folder = Path(source)
    if (folder / "index.json").is_file():
        stream = open_stream(folder, tokenizer)
    else:
        folder = own
        stream = build_stream(source, folder, tokenizer, column=column, progress=progress)
    blocks = cached_blocks(stream, folder, size, mode=mode, bos=bos, eos=eos)
    return [blocks], stream_digest(folder)


def _trained(blocks: Blocks, longest: int) -> array[int]:
    """Count the tokens of each block, 0 where the model cannot take it: fairseq skips those too."""
    sizes = blocks.sizes()
    if not sizes:
        return sizes
    counts = torch.frombuffer(sizes, dtype=torch.int32)  # the same numbers, not a copy
    over = counts.gt(longest).nonzero()[:, 0]
    if len(over):
        counts[over] = 0
        warnings.warn(
            f"left out {len(over):,} of {len(sizes):,} blocks, lines of more tokens than the "
            f"{longest} that the model takes, as fairseq does; task.options.sentences=full or doc "
            "cuts such lines",
            stacklevel=2,
        )
    return sizes

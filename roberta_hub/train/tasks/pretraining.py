"""Makes a pre-training task: blocks or pairs of text, masked, under the papers' objectives."""

from __future__ import annotations

import dataclasses
import math
import warnings
from array import array
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from roberta_hub.errors import InputError
from roberta_hub.inference.batching import batch_tokens_of
from roberta_hub.inference.mode import evaluating
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.model.packing import pack_sequences
from roberta_hub.train.data.batches import plan_epoch
from roberta_hub.train.data.blocks import Blocks, cached_blocks
from roberta_hub.train.data.data_bins import open_text
from roberta_hub.train.data.digests import TRAINING_DATA, VALIDATION_DATA
from roberta_hub.train.data.masking import Maskable, Masking, mask
from roberta_hub.train.data.random_hash import uniform
from roberta_hub.train.data.segment_pairs import PAIR_MODES, SegmentPairs, pair_segments
from roberta_hub.train.data.streams import build_stream, open_stream, stream_digest
from roberta_hub.train.tasks.distillation import Distilled, Teacher
from roberta_hub.train.tasks.features import roberta_of
from roberta_hub.train.tasks.initialization import informed_start
from roberta_hub.train.tasks.masked_lm import MaskedLM, require_lm_head
from roberta_hub.train.tasks.matching_heads import matching_heads
from roberta_hub.train.tasks.objectives import Objectives
from roberta_hub.train.tasks.options import (
    SENTENCE_ORDER,
    SPAN_BOUNDARY,
    PretrainingOptions,
    Source,
    TaskSettings,
    metric_of,
)
from roberta_hub.train.tasks.replaced_tokens import REPLACED_HEAD, ReplacedTokens
from roberta_hub.train.tasks.span_boundary import boundary_targets
from roberta_hub.train.tasks.training_task import Batch

_GENERATOR_PURPOSE = 16
"""Purpose of the random numbers that draw the generator's tokens; masking.py has the others."""


def build_pretraining(
    settings: TaskSettings[PretrainingOptions],
    interface: RobertaHubInterface,
    *,
    fresh: bool,
) -> PreTraining:
    """Build a task on text files, or on folders of `streams.build_stream` or fairseq-preprocess."""
    options, roberta = settings.options, roberta_of(interface)
    module: MaskedLM | ReplacedTokens
    if settings.config.task.name == "masked_lm":
        require_lm_head(roberta)
        module = MaskedLM(roberta, _objectives(interface, options))
    else:
        seed, objectives = settings.config.seed, _objectives(interface, options)
        module = ReplacedTokens(roberta, options, seed, objectives)
        interface.labels[REPLACED_HEAD] = ("original", "replaced")
        interface.default_head = REPLACED_HEAD
    return PreTraining(settings, interface, module, fresh=fresh)


def _objectives(interface: RobertaHubInterface, options: PretrainingOptions) -> Objectives | None:
    return Objectives(interface, options.objectives) if options.objectives else None


class PreTraining:
    """A `TrainingTask` on blocks or pairs of text."""

    def __init__(
        self,
        settings: TaskSettings[PretrainingOptions],
        interface: RobertaHubInterface,
        module: MaskedLM | ReplacedTokens,
        *,
        fresh: bool,
    ) -> None:
        """Open the text, tokenize it where that is not done, and set the first weights."""
        config, options = settings.config, settings.options
        self.interface = interface
        self.module: nn.Module = module
        self.teacher: Teacher | None = None
        if options.teacher is not None and isinstance(module, MaskedLM):
            self.teacher = Teacher(options.teacher, interface.tokenizer, config.loop.precision)
            self.module = Distilled(module, self.teacher, options.teacher_weight)
        self.seed = config.seed
        self.masking = options.masking()
        self.maskable = Maskable.of(interface.tokenizer)
        self.objectives = module.objectives
        more = () if self.objectives is None else ("lm_loss", *self.objectives.metrics)
        self.metric = metric_of(config, (*module.METRICS, *more))
        self.larger_is_better = self.metric != "perplexity" and not self.metric.endswith("loss")
        self._shards, digest = _shards(settings.train, settings, interface)
        longest = roberta_of(interface).config.max_positions
        digests, self._valid = {TRAINING_DATA: digest}, None
        if settings.valid is not None:
            held_out, digests[VALIDATION_DATA] = _shards(settings.valid, settings, interface)
            if len(held_out) > 1:
                raise InputError(
                    f"data.valid names {len(held_out)} folders; name one of them, fairseq judges "
                    "by the first"
                )
            self._valid, self._valid_lengths = held_out[0], _sizes(held_out[0], longest, 0, 0)
        self.data_digests: Mapping[str, str] = digests
        self._longest, self._limit = longest, config.data.limit
        self._lengths: dict[tuple[int, int], array[int]] = {}
        self.lengths(0)
        if options.start == "informed" and fresh:
            informed_start(roberta_of(interface), self._shards[0].stream, seed=config.seed)
            if self.objectives is not None and self.objectives.boundary is not None:
                self.objectives.boundary.begin(roberta_of(interface))
        if options.start == "matching" and fresh:
            matching_heads(roberta_of(interface), self._shards[0].stream, seed=config.seed)

    def lengths(self, epoch: int) -> Sequence[int]:
        """Count the tokens of each input; of several folders each epoch has the next one."""
        number = epoch % len(self._shards)
        shard = self._shards[number]
        # Blocks are the same in every epoch, pairs are not.
        key = (number, _drawn(self.masking, epoch) if isinstance(shard, SegmentPairs) else 0)
        if key not in self._lengths:
            found = _sizes(shard, self._longest, self.seed, key[1])[: self._limit]
            if isinstance(shard, SegmentPairs):
                self._lengths.clear()  # one epoch's alone
            self._lengths[key] = found
        return self._lengths[key]

    def batch(self, indices: Sequence[int], epoch: int) -> Batch:
        """Make a batch of inputs, masked for this epoch."""
        shard = self._shards[epoch % len(self._shards)]
        batch, sequences = self._masked(shard, indices, self.masking, self.seed, epoch)
        if self.teacher is None:
            return batch
        return self.teacher.teacher_targets(batch, sequences)

    def _masked(
        self,
        shard: Blocks | SegmentPairs,
        indices: Sequence[int],
        masking: Masking,
        seed: int,
        epoch: int,
    ) -> tuple[Batch, list[Tensor]]:
        """Make a masked batch, and return its ids as they were too."""
        targets = {}
        if isinstance(shard, SegmentPairs):
            found = shard.inputs(indices, seed, _drawn(masking, epoch))
            sequences, targets["segments"] = found
        else:
            sequences = shard.sequences(indices)
        padding = roberta_of(self.interface).config.padding_idx
        packed = pack_sequences(sequences, padding_idx=padding)
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
        luck = uniform(seed, epoch, owners, packed.positions[rows], _GENERATOR_PURPOSE).float()
        targets |= {"rows": rows, "ids": packed.ids[rows], "luck": luck}
        if self.objectives is not None and self.objectives.boundary is not None:
            targets |= boundary_targets(packed.ids, packed.lengths, chosen)
        batch = Batch(dataclasses.replace(packed, ids=seen), targets, count=len(rows))
        return batch, sequences

    def evaluate(self) -> dict[str, float]:
        """Measure the loss, and what the module counts, on the held-out blocks.

        The masks are the same in every run, whatever its seed and masking.
        """
        if self._valid is None:
            return {}
        module, objectives = self.module, self.objectives
        device = next(module.parameters()).device
        budget = max(batch_tokens_of(device), max(self._valid_lengths))
        sums: dict[str, float] = {"loss": 0.0}
        counts: dict[str, int] = {}
        count = 0
        judge = Masking(prob=self.masking.prob, unit=self.masking.unit)
        with evaluating(module):
            for update in plan_epoch(self._valid_lengths, budget, seed=0, epoch=0):
                batch, _ = self._masked(self._valid, update[0], judge, 0, 0)
                loss = module(batch.to(device))
                count += batch.count
                own = {} if objectives is None else objectives.counts(batch)
                for name, value in {"loss": loss.total, **loss.logs}.items():
                    share = own[name] / max(batch.count, 1) if name in own else 1.0
                    sums[name] = sums.get(name, 0.0) + share * float(value)
                for name, number in own.items():
                    counts[name] = counts.get(name, 0) + number
        numbers = {name: value / max(counts.get(name, count), 1) for name, value in sums.items()}
        lm = numbers.get("lm_loss", numbers["loss"])
        return {**numbers, "perplexity": math.exp(min(lm, 700.0))}

    def chance(self) -> float | None:
        """Return the loss of a model to which all ids are alike, ln V, and all labels, ln 2."""
        if not isinstance(self.module, MaskedLM):
            return None
        words = math.log(len(self.maskable.text))
        more = () if self.objectives is None else self.objectives.names
        return words + sum(words if name == SPAN_BOUNDARY else math.log(2) for name in more)

    def finish(self) -> RobertaHubInterface:
        """Return the trained model."""
        return self.interface


def _drawn(masking: Masking, epoch: int) -> int:
    """Return which pairs an epoch has: with static masks those, too, take turns."""
    return epoch if masking.copies is None else epoch % masking.copies


def _shards(
    source: Source, settings: TaskSettings[PretrainingOptions], interface: RobertaHubInterface
) -> tuple[list[Blocks | SegmentPairs], str]:
    """Return a source's blocks or pairs, of each folder where it has several, and a digest."""
    config, options = settings.config, settings.options
    model, tokenizer = roberta_of(interface).config, interface.tokenizer
    size = options.block_size or model.max_positions
    if size > model.max_positions:
        raise InputError(
            f"task.options.block_size is {size}, the model takes {model.max_positions} tokens; "
            "architecture.max_positions can be changed where pretrained=false"
        )
    own, progress = Path(config.output) / "tokens" / source.name, config.loop.progress
    cut = partial(_cut, size=size, options=options, interface=interface)
    if source.splits:
        shards, digests = [], []
        for number, split in enumerate(source.splits, 1):
            folder = own if number == 1 else own.with_name(f"{source.name}-{number}")
            text = open_text(split, tokenizer, folder, progress=progress)
            shards.append(cut(text.ids, folder, lines=text.ends, name=text.digest))
            digests.append(text.digest)
        return shards, "+".join(digests)
    folder = Path(source.path)
    if (folder / "index.json").is_file():
        stream = open_stream(folder, tokenizer)
    else:
        folder, column = own, str(config.data.columns.get("text", "text"))
        stream = build_stream(source.path, folder, tokenizer, column=column, progress=progress)
    return [cut(stream, folder)], stream_digest(folder)


def _cut(
    stream: Tensor,
    folder: Path,
    lines: Callable[[], Tensor] | None = None,
    name: str | None = None,
    *,
    size: int,
    options: PretrainingOptions,
    interface: RobertaHubInterface,
) -> Blocks | SegmentPairs:
    """Cut a stream into blocks, or make pairs of it where the options say so."""
    mode, order = options.sentences, SENTENCE_ORDER in options.objectives
    layout = interface.tokenizer.layout
    if mode not in PAIR_MODES:
        bos, eos = layout.bos, layout.eos
        return cached_blocks(
            stream, folder, size, mode=mode, bos=bos, eos=eos, lines=lines, name=name
        )
    # Where the model's segments end with a separator, none may stand inside of one.
    keep = layout.separators == 2 and roberta_of(interface).config.num_segments < 2
    found = pair_segments(
        stream, size, mode=mode, order=order, layout=layout, keep_ends=keep, lines=lines
    )
    if order and (alone := int(found.groups.diff(dim=0).eq(1).sum())):
        warnings.warn(
            f"left out {alone:,} documents of one sentence, which has no order; a sentence is a "
            "line of the text",
            stacklevel=2,
        )
    return found


def _sizes(shard: Blocks | SegmentPairs, longest: int, seed: int, epoch: int) -> array[int]:
    """Count the tokens of each input of an epoch."""
    if isinstance(shard, SegmentPairs):
        return shard.sizes(seed, epoch)
    return _trained(shard, longest)


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

"""Runs lists of texts through a model; every verb is built on it.

Texts are deduplicated, cut into windows, sorted by length and packed by a token budget; the results
are in the order of the texts.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, TypedDict, TypeVar

import torch
from torch import Tensor, nn

from roberta_hub.arguments import short_repr, switch, whole_number
from roberta_hub.errors import InputError, Remedy
from roberta_hub.inference import threads
from roberta_hub.inference.mode import evaluating
from roberta_hub.inference.threads import can_spread, is_compiled, is_prepared, spread
from roberta_hub.inference.windows import Keep, Windows, fit_windows, keep_evenly
from roberta_hub.model.kernels import ANY_ROWS
from roberta_hub.model.packing import PackedBatch, pack_sequences
from roberta_hub.model.roberta import Roberta
from roberta_hub.model.serial import serial
from roberta_hub.terminal import progress_bar
from roberta_hub.text.tokenizer import Text, Tokenizer

Result = TypeVar("Result")
Merged = TypeVar("Merged")
Pick = Callable[[PackedBatch], Tensor | None]
"""From a batch to the one row of each sequence that an answer reads, (B,); None: more than one."""
BATCHES_BALANCED_PER_WORKER = 4
"""Up to this many batches per worker, batches are balanced to the token: waiting for the slowest
costs 4 % (34 texts in 4 batches). Of more, texts of one length stay together: they share attention.
"""
BATCH_TOKENS = {"cpu": 1024, "cuda": 32768}
"""Tokens per batch. CPU: fits its cache, and malloc needs no fresh pages in each layer, which costs
int8 a fifth at 2,048. GPU: keeps it busy."""

FEW_ROWS = 4
"""Up to this many rows a head, the output matrix included, repays no thread but compiled code's."""
_NUMBER_HINTS = {
    "batch_tokens": "it is the token budget of a batch, at least 1",
    "stride": "it is the overlap of two windows in tokens, 0 or more",
}


@dataclass(frozen=True)
class BatchStates:
    """Hidden states of one batch."""

    states: Tensor
    """Shape: (N, C), or (B, C) if only some rows were computed. Copy before returning them to
    callers, who may train on them."""
    batch: PackedBatch
    indices: list[int]
    """Indices of the caller's sequences, in the batch's order."""
    rows: Tensor | None = None
    """Rows of the batch that were computed, one per sequence, (B,); None: all."""

    def at(self, rows: Tensor) -> Tensor:
        """Return the states of some rows of the batch: (M,) -> (M, C)."""
        if self.rows is None:
            return self.states[rows]
        if rows is not self.rows and not torch.equal(rows, self.rows):
            raise InputError("only the rows that `pick` chose were computed; ask for the same ones")
        return self.states

    def split(self, rows: Tensor | None = None) -> list[Tensor]:
        """Return the rows of each sequence: a list of (T_i, *)."""
        rows = self.states if rows is None else rows
        return list(torch.split(rows, list(self.batch.lengths)))


@dataclass(frozen=True, kw_only=True)
class Reading(Generic[Result, Merged]):
    """How a verb turns hidden states into one answer per text."""

    read: Callable[[BatchStates], Sequence[Result]]
    """From the states of a batch to one result per window."""
    merge: Callable[[Windows, list[Result]], Merged]
    """From a text's windows and their results to its answer."""
    layer: int = -1
    """Which hidden state: -1 the features, 0 the embeddings, k the k-th layer."""
    pick: Pick | None = None
    """Rows that `read` uses, through `BatchStates.at`; None: all."""


class Options(TypedDict, total=False):
    """Keywords of the verbs on lists of texts."""

    batch_tokens: int | None
    """Token budget of a batch; the default suits the device."""
    progress: bool | None
    """Show a progress bar; None: for long runs in a terminal or notebook."""
    truncate: bool
    """Cut the longest sentence of texts that are too long."""
    stride: int | None
    """Overlap in tokens of windows over texts that are too long; their results are merged."""


@dataclass(frozen=True, kw_only=True)
class Runner:
    """Runs lists of texts through a model, ours or fairseq's; every verb is built on it."""

    model: nn.Module
    tokenizer: Tokenizer
    batch_tokens: int | None = None
    progress: bool | None = None
    truncate: bool = False
    stride: int | None = None
    longest: int | None = None
    """Limit in tokens, if below the model's; None: the tokenizer's."""
    keep: Keep = keep_evenly
    """Tokens that `truncate` keeps of each sentence."""

    def __post_init__(self) -> None:
        for name, least in (("batch_tokens", 1), ("stride", 0)):
            if getattr(self, name) is not None:
                number = whole_number(name, getattr(self, name), least, hint=_NUMBER_HINTS[name])
                object.__setattr__(self, name, number)
        for name in ("truncate", "progress"):
            if name == "truncate" or self.progress is not None:
                object.__setattr__(self, name, switch(name, getattr(self, name)))

    @property
    def limit(self) -> int:
        """Longest sequence that may be run."""
        taken = int(self.model.max_positions())  # type: ignore[operator]
        own = self.tokenizer.layout.max_length if self.longest is None else self.longest
        return taken if own is None else min(taken, own)

    @property
    def width(self) -> int:
        """C, the width of the model's hidden states."""
        return int(self.model.args.encoder_embed_dim)  # type: ignore[union-attr, arg-type]

    def encode(self, texts: Sequence[Text]) -> tuple[list[Windows], list[int], list[int]]:
        """Encode the distinct texts and cut them into windows."""
        # Encode before deduplicating, so that errors carry the caller's index, and before the first
        # batch, so that they come at once. Encoding is about 0.1 % of the run time on a CPU.
        sequences = self.tokenizer.encode_batch(texts)
        firsts, which = deduplicate(texts)
        windows = self.fit_windows(
            [sequences[i] for i in firsts], [texts[i] for i in firsts], firsts
        )
        return windows, firsts, which

    def ids(self, texts: Sequence[Text]) -> list[Tensor]:
        """Ids of each text, (T_i,), after truncation."""
        ids = self.tokenizer.encode_batch(texts)
        return [window.ids[0] for window in self.fit_windows(ids, texts)] if self.truncate else ids

    def fit_windows(
        self,
        sequences: Sequence[Tensor],
        texts: Sequence[object],
        numbers: Sequence[int] | None = None,
    ) -> list[Windows]:
        """Windows of encoded texts."""
        return fit_windows(
            sequences,
            texts,
            self.limit,
            self.tokenizer.layout,
            truncate=self.truncate,
            stride=self.stride,
            numbers=numbers,
            keep=self.keep,
        )

    def run(
        self,
        sequences: Sequence[Tensor],
        answer: Callable[[BatchStates], Sequence[Result]],
        *,
        layer: int = -1,
        pick: Pick | None = None,
    ) -> list[Result]:
        """Run id sequences; return one result per sequence, in order."""
        device = next(self.model.parameters()).device
        results: list[Any] = [None] * len(sequences)

        def work(indices: list[int]) -> tuple[list[int], Sequence[Result]]:
            own = [sequences[i] for i in indices]
            rows = sum(lengths[i] for i in indices)
            with serial() if is_compiled(self.model, rows) else nullcontext():
                states = self._rows(own, indices, layer, device, pick)
                # Otherwise heads run on torch's operators; a large one may be worth the threads.
                if always and states.rows is not None and len(own) <= FEW_ROWS:
                    return indices, answer(states)
            return indices, answer(states)

        lengths = [len(s) for s in sequences]
        with evaluating(self.model):
            always = is_compiled(self.model, ANY_ROWS)
            workers = self._workers(lengths)
            budget = self.batch_tokens or _budget(device, workers > 1)
            parts = list(batches(lengths, budget, workers))
            done = spread(work, parts) if workers > 1 else map(work, parts)
            with _progress_bar(sum(lengths), budget, self.progress) as bar:
                for indices, answers in done:
                    for i, result in zip(indices, answers, strict=True):
                        results[i] = result
                    bar.update(sum(lengths[i] for i in indices))
        return results

    def _rows(
        self,
        sequences: list[Tensor],
        indices: list[int],
        layer: int,
        device: torch.device,
        pick: Pick | None,
    ) -> BatchStates:
        """Hidden states of one batch, of our model or fairseq's."""
        model = packing_model(self.model)
        padding_idx = self.tokenizer.layout.pad if model is None else model.config.padding_idx
        batch = pack_sequences(sequences, padding_idx=padding_idx, device=device)
        if model is None:
            return BatchStates(
                _padded_states(self.model, batch, layer, padding_idx), batch, indices
            )
        encoder = model.transformer
        depth = _depth(layer, encoder.num_layers)
        rows = pick(batch) if pick is not None and depth == encoder.num_layers else None
        states = encoder.packed(batch, rows=rows)
        # Inference mode saves 4 % of a short text, but hooks would get tensors without autograd.
        with torch.inference_mode() if is_prepared(encoder) else torch.no_grad():
            state = next(islice(states, depth, None))  # higher layers are not run
        return BatchStates(encoder.finish(state) if layer == -1 else state, batch, indices, rows)

    def _workers(self, lengths: Sequence[int]) -> int:
        """Number of cores that run batches in parallel; 1: all cores share each batch.

        Sharing is faster if a core would get less than half a batch, or one long sequence.
        """
        cores, total = torch.get_num_threads(), sum(lengths)
        budget = self.batch_tokens or threads.WORKER_BATCH_TOKENS
        enough = 2 * total > cores * budget and total >= cores * max(lengths)
        ours = packing_model(self.model)
        return cores if enough and ours is not None and can_spread(ours) else 1

    def run_windows(
        self, windows: Sequence[Windows], reading: Reading[Result, Merged]
    ) -> list[Merged]:
        """Run every window of every text, and merge the results of each text."""
        sequences = [ids for text in windows for ids in text.ids]
        found = iter(self.run(sequences, reading.read, layer=reading.layer, pick=reading.pick))
        return [reading.merge(text, [next(found) for _ in text.ids]) for text in windows]


def packing_model(model: nn.Module) -> Roberta | None:
    """Return the model if it takes packed batches, else None (fairseq's takes padded ones).

    Every other module asks here, or works with both.
    """
    return model if isinstance(model, Roberta) else None


def batches(lengths: Sequence[int], budget: int, workers: int = 1) -> Iterator[list[int]]:
    """Split sequences into batches of similar size and at most `budget` tokens.

    Longest first, so that running out of memory shows at once.

    Example:
        >>> list(batches([3, 9, 4, 3], budget=8))
        [[1], [2], [0, 3]]
        >>> list(batches([3, 9, 4, 3], budget=20, workers=2))
        [[1], [2, 0, 3]]
    """
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    fewest = sum(1 for _ in _cut_batches(order, lengths, budget, budget * len(order)))
    count = workers * max(1, -(-fewest // workers))
    if workers > 1 and count <= BATCHES_BALANCED_PER_WORKER * workers:
        parts = _balanced_batches(order, lengths, count)
        if all(sum(lengths[i] for i in part) <= budget for part in parts):
            return iter(parts)
    return _cut_batches(order, lengths, budget, max(1, sum(lengths)) / count)


def _balanced_batches(order: Sequence[int], lengths: Sequence[int], count: int) -> list[list[int]]:
    """Balance batches greedily, longest sequence first (Graham 1969)."""
    parts: list[list[int]] = [[] for _ in range(count)]
    sizes = [(0, part) for part in range(count)]
    for i in order:
        size, part = heapq.heappop(sizes)
        parts[part].append(i)
        heapq.heappush(sizes, (size + lengths[i], part))
    return [part for part in parts if part]


def _cut_batches(
    order: Sequence[int], lengths: Sequence[int], budget: int, share: float
) -> Iterator[list[int]]:
    """Cut `order` where the running sum of tokens is nearest to a multiple of `share`.

    Cut earlier if a batch would exceed the budget.
    """
    mark, size, done = share, 0, 0
    current: list[int] = []
    for i in order:
        full = size + lengths[i] > budget or done + lengths[i] / 2 > mark
        if current and full:
            yield current
            current, size, mark = [], 0, share * (round(done / share) + 1)
        current.append(i)
        size += lengths[i]
        done += lengths[i]
    if current:
        yield current


def batch_tokens_of(device: torch.device) -> int:
    """Tokens of a batch on a device; whatever is no CPU is kept busy as a GPU is."""
    return BATCH_TOKENS.get(device.type, BATCH_TOKENS["cuda"])


def _budget(device: torch.device, parallel: bool) -> int:
    if parallel:
        return threads.WORKER_BATCH_TOKENS
    return batch_tokens_of(device)


def _progress_bar(total: int, budget: int, progress: bool | None) -> Any:
    if progress is None and total <= 4 * budget:  # too short for a bar
        progress = False
    return progress_bar(total, unit=" tokens", shown=progress)


def _padded_states(model: nn.Module, batch: PackedBatch, layer: int, padding_idx: int) -> Tensor:
    """Hidden states of a batch through fairseq's public `forward`: (N, C)."""
    tokens = batch.unpack(batch.ids)  # (B, T)
    if batch.slots is not None:
        filled = torch.full_like(tokens, padding_idx).flatten()
        tokens = filled.index_copy(0, batch.slots, batch.ids).view_as(tokens)
    features, extra = model(tokens, features_only=True, return_all_hiddens=layer != -1)
    if layer != -1:
        states = extra["inner_states"]  # L+1 times (T, B, C)
        features = states[_depth(layer, len(states) - 1)].transpose(0, 1)
    rows: Tensor = features.flatten(0, 1)
    return rows if batch.slots is None else rows[batch.slots]


def pick_starts(batch: PackedBatch) -> Tensor:
    """`Pick` for heads that read `<s>`."""
    return batch.starts


def _depth(layer: int, num_layers: int) -> int:
    """Index of `layer` among the L+1 states, counted from the embeddings."""
    if not -num_layers - 1 <= layer <= num_layers:
        raise InputError(
            f"layer {short_repr(layer)}: this model has 0 (embeddings) to {num_layers}"
        )
    return layer if layer >= 0 else num_layers + 1 + layer


def has_lm_head(model: nn.Module) -> bool:
    """Whether a model has a language-model head."""
    return getattr(model.encoder, "lm_head", True) is not None


def check_lm_head(model: nn.Module, verb: str) -> None:
    """Refuse a model without a language-model head before any text is run."""
    if has_lm_head(model):
        return
    if getattr(model, "replaced_head", None) is not None:
        raise InputError(
            f"this model is an ELECTRA discriminator and has no language-model head, which {verb} "
            "asks",
            remedy=Remedy(
                "load the generator of its size instead (electra.small.generator, say), or ask "
                "this one with replaced(texts)",
                "take the generator of its size instead (-m electra.small.generator, say)",
            ),
        )
    raise InputError(
        f"this checkpoint has no language-model head; load a masked-LM checkpoint for {verb}"
    )


def lm_logits(model: nn.Module, rows: Tensor, symbols: int) -> Tensor:
    """Logits over the vocabulary in float32: (M, C) -> (M, V).

    Rows of the embedding table beyond `symbols` are padding and were never trained.
    """
    logits: Tensor = model.encoder.output_layer(rows)  # type: ignore[union-attr, operator]
    return logits[:, :symbols].float()


def deduplicate(items: Sequence[Hashable]) -> tuple[list[int], list[int]]:
    """Deduplicate: indices of first occurrences, and for each item its position among them.

    Example:
        >>> deduplicate(["a", "b", "a"])
        ([0, 1], [0, 1, 0])
    """
    number: dict[Hashable, int] = {}
    firsts: list[int] = []
    for i, item in enumerate(items):
        if item not in number:
            number[item] = len(firsts)
            firsts.append(i)
    return firsts, [number[item] for item in items]

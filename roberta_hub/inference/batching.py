"""Runs lists of texts through a model; every verb is built on it.

Texts are cut into windows; each text is run once; they are sorted and packed by a token budget; the
order is restored.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, TypedDict, TypeVar

import torch
from torch import Tensor, nn

from roberta_hub.arguments import shown, switch, whole_number
from roberta_hub.errors import InputError, Remedy
from roberta_hub.inference import threads
from roberta_hub.inference.mode import evaluating
from roberta_hub.inference.threads import can_spread, is_prepared, spread
from roberta_hub.inference.windows import Keep, Windows, fit, keep_evenly
from roberta_hub.model.packing import PackedBatch, pack_sequences
from roberta_hub.model.roberta import Roberta
from roberta_hub.terminal import progress_bar
from roberta_hub.text.tokenizer import Text, Tokenizer

Result = TypeVar("Result")
Merged = TypeVar("Merged")
Pick = Callable[[PackedBatch], Tensor | None]
"""From a batch to the one row of each sequence, (B,), that an answer reads; None where it reads
more."""
FEW = 4
"""Batches a worker, up to which they are made equal to a token. Then a wait for the last one counts
(34 texts in four batches: 4 %), and texts of one length, whose attention can be shared, are rare.
"""
BATCH_TOKENS = {"cpu": 1024, "cuda": 32768}
"""Tokens a batch: on a CPU what its cache holds, and malloc without asking the system for fresh
pages in each layer, which costs int8 a fifth at 2,048; on a GPU what keeps it busy."""


_NUMBERS = {
    "batch_tokens": "it is the token budget of a batch, at least 1",
    "stride": "it is the overlap of two windows in tokens, 0 or more",
}


@dataclass(frozen=True)
class Rows:
    """Hidden states of one batch, as an answer function gets them."""

    states: Tensor
    """Shape: (N, C), or (B, C) where only some rows were computed; to be copied before a caller
    gets them, who may train on them."""
    batch: PackedBatch
    indices: list[int]
    """Which of the caller's sequences these are, in the batch's order."""
    rows: Tensor | None = None
    """Which rows of the batch the states are, one of each sequence, in shape (B,); None: all."""

    def at(self, rows: Tensor) -> Tensor:
        """Return the states of some rows of the batch: (M,) -> (M, C).

        Raises:
            InputError: rows that were not computed, since `pick` chose others.
        """
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
    """What a verb reads of the hidden states of texts, and how it becomes one answer a text."""

    read: Callable[[Rows], Sequence[Result]]
    """From the states of a batch to a result for each window."""
    merge: Callable[[Windows, list[Result]], Merged]
    """From a text's windows and their results to what the text gets."""
    layer: int = -1
    """Which hidden state: -1 the features, 0 the embeddings, k the k-th layer."""
    pick: Pick | None = None
    """The rows that `read` looks at, with `Rows.at`; None: all."""


class Options(TypedDict, total=False):
    """How the verbs on lists of texts run; each takes these as keywords."""

    batch_tokens: int | None
    """Token budget of a batch; the default suits the device."""
    progress: bool | None
    """Show a bar; None: for long work, where somebody is looking."""
    truncate: bool
    """Cut the longest sentence of texts that are too long."""
    stride: int | None
    """Instead: windows that overlap by this many tokens, merged."""


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
    """A limit of its own, where it is below the model's."""
    keep: Keep = keep_evenly
    """What `truncate` leaves of several sentences."""

    def __post_init__(self) -> None:
        for name, least in (("batch_tokens", 1), ("stride", 0)):
            if getattr(self, name) is not None:
                number = whole_number(name, getattr(self, name), least, hint=_NUMBERS[name])
                object.__setattr__(self, name, number)
        for name in ("truncate", "progress"):
            if name == "truncate" or self.progress is not None:
                object.__setattr__(self, name, switch(name, getattr(self, name)))

    @property
    def limit(self) -> int:
        """Longest sequence that may be run."""
        taken = int(self.model.max_positions())  # type: ignore[operator]
        return taken if self.longest is None else min(taken, self.longest)

    @property
    def width(self) -> int:
        """C, the width of the model's hidden states."""
        return int(self.model.args.encoder_embed_dim)  # type: ignore[union-attr, arg-type]

    def encode(self, texts: Sequence[Text]) -> tuple[list[Windows], list[int], list[int]]:
        """Ids of each different text, in as many windows as it needs.

        Args:
            texts: str, or tuples of sentences.

        Returns:
            Windows of the different texts, and `once(texts)`.
        """
        # All of them, though some may come twice: an error then names the caller's item. And all
        # before the first batch: a text that cannot be run is said at once, not after an hour; it
        # takes a thousandth of a CPU's time.
        sequences = self.tokenizer.encode_batch(texts)
        firsts, which = once(texts)
        windows = self.fit([sequences[i] for i in firsts], [texts[i] for i in firsts], firsts)
        return windows, firsts, which

    def ids(self, texts: Sequence[Text]) -> list[Tensor]:
        """Ids that the model reads of each text, (T_i,): all of them, but what `truncate` cuts."""
        ids = self.tokenizer.encode_batch(texts)
        return [window.ids[0] for window in self.fit(ids, texts)] if self.truncate else ids

    def fit(
        self,
        sequences: Sequence[Tensor],
        texts: Sequence[object],
        numbers: Sequence[int] | None = None,
    ) -> list[Windows]:
        """Windows of texts that are encoded already."""
        return fit(
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
        answer: Callable[[Rows], Sequence[Result]],
        *,
        layer: int = -1,
        pick: Pick | None = None,
    ) -> list[Result]:
        """Run id sequences and answer each, in order.

        Args:
            sequences: 1-D ids without padding, none longer than `limit`.
            answer: from the hidden states of one batch to one result a sequence.
            layer: which hidden state: -1 the features, 0 the embeddings, k the k-th layer.
            pick: the rows that `answer` reads, which it gets with `Rows.at`: the last layer
                computes no others.
        """
        device = next(self.model.parameters()).device
        results: list[Any] = [None] * len(sequences)

        def work(indices: list[int]) -> tuple[list[int], Sequence[Result]]:
            own = [sequences[i] for i in indices]
            return indices, answer(self._rows(own, indices, layer, device, pick))

        lengths = [len(s) for s in sequences]
        with evaluating(self.model):
            workers = self._workers(lengths)
            budget = self.batch_tokens or _budget(device, workers > 1)
            parts = list(batches(lengths, budget, workers))
            done = spread(work, parts) if workers > 1 else map(work, parts)
            with _bar(sum(lengths), budget, self.progress) as bar:
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
    ) -> Rows:
        """Hidden states of one batch, whoever's the model is."""
        model = packing_model(self.model)
        padding_idx = self.tokenizer.layout.pad if model is None else model.config.padding_idx
        batch = pack_sequences(sequences, padding_idx=padding_idx, device=device)
        if model is None:
            return Rows(_padded_states(self.model, batch, layer, padding_idx), batch, indices)
        encoder = model.transformer
        depth = _depth(layer, encoder.num_layers)
        rows = pick(batch) if pick is not None and depth == encoder.num_layers else None
        states = encoder.packed(batch, rows=rows)
        # Inference mode saves 4 % of a short text. A caller's hooks would get tensors that nothing
        # can be trained on.
        with torch.inference_mode() if is_prepared(encoder) else torch.no_grad():
            state = next(islice(states, depth, None))  # no layer above it is run
        return Rows(encoder.finish(state) if layer == -1 else state, batch, indices, rows)

    def _workers(self, lengths: Sequence[int]) -> int:
        """Tell how many cores take batches side by side; 1: all of them share each batch.

        Sharing is faster where a core's part would be under half a batch, or one long sequence
        would keep it busy alone.
        """
        cores, total = torch.get_num_threads(), sum(lengths)
        budget = self.batch_tokens or threads.BATCH_TOKENS
        enough = 2 * total > cores * budget and total >= cores * max(lengths)
        ours = packing_model(self.model)
        return cores if enough and ours is not None and can_spread(ours) else 1

    def ask(self, windows: Sequence[Windows], reading: Reading[Result, Merged]) -> list[Merged]:
        """Run every window of every text, and merge what a text's windows gave.

        Args:
            windows: of the texts; see `encode` and `fit`.
            reading: what is read of the hidden states.

        Returns:
            What `reading.merge` makes of each text, in order.
        """
        sequences = [ids for text in windows for ids in text.ids]
        found = iter(self.run(sequences, reading.read, layer=reading.layer, pick=reading.pick))
        return [reading.merge(text, [next(found) for _ in text.ids]) for text in windows]


def packing_model(model: nn.Module) -> Roberta | None:
    """Return the model, if it takes packed batches as ours does; fairseq's gets padded ones.

    Every other module asks here, or works with both.
    """
    return model if isinstance(model, Roberta) else None


def batches(lengths: Sequence[int], budget: int, workers: int = 1) -> Iterator[list[int]]:
    """Indices in batches of about one size and at most `budget` tokens.

    Longest first, so that a batch that does not fit into memory shows at once.

    Args:
        lengths: tokens of each sequence.
        budget: tokens of a batch at most. A longer sequence is a batch of its own.
        workers: threads that take batches side by side. Each gets equally many, so that none
            waits for another.

    Returns:
        Lists of indices into `lengths`, each index once.

    Example:
        >>> list(batches([3, 9, 4, 3], budget=8))
        [[1], [2], [0, 3]]
        >>> list(batches([3, 9, 4, 3], budget=20, workers=2))
        [[1], [2, 0, 3]]
    """
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    fewest = sum(1 for _ in _cut(order, lengths, budget, budget * len(order)))
    count = workers * max(1, -(-fewest // workers))
    if workers > 1 and count <= FEW * workers:
        parts = _dealt(order, lengths, count)
        if all(sum(lengths[i] for i in part) <= budget for part in parts):
            return iter(parts)
    return _cut(order, lengths, budget, max(1, sum(lengths)) / count)


def _dealt(order: Sequence[int], lengths: Sequence[int], count: int) -> list[list[int]]:
    """Give each sequence, longest first, to the batch with the fewest tokens (Graham 1969)."""
    parts: list[list[int]] = [[] for _ in range(count)]
    sizes = [(0, part) for part in range(count)]
    for i in order:
        size, part = heapq.heappop(sizes)
        parts[part].append(i)
        heapq.heappush(sizes, (size + lengths[i], part))
    return [part for part in parts if part]


def _cut(
    order: Sequence[int], lengths: Sequence[int], budget: int, share: float
) -> Iterator[list[int]]:
    """Cut `order` where the tokens so far come nearest to a multiple of `share`.

    A cut comes earlier where they would exceed the budget.
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


def _budget(device: torch.device, side_by_side: bool) -> int:
    if side_by_side:
        return threads.BATCH_TOKENS
    return BATCH_TOKENS.get(device.type, BATCH_TOKENS["cuda"])


def _bar(total: int, budget: int, progress: bool | None) -> Any:
    if progress is None and total <= 4 * budget:  # over before anybody looks
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


def starts(batch: PackedBatch) -> Tensor:
    """`Pick` for heads that read `<s>`."""
    return batch.starts


def _depth(layer: int, num_layers: int) -> int:
    """Tell which of the L+1 states `layer` names, counted from the embeddings."""
    if not -num_layers - 1 <= layer <= num_layers:
        raise InputError(f"layer {shown(layer)}: this model has 0 (embeddings) to {num_layers}")
    return layer if layer >= 0 else num_layers + 1 + layer


def check_lm_head(model: nn.Module, verb: str) -> None:
    """Refuse a model without a language-model head before any text is run.

    Args:
        model: ours or fairseq's.
        verb: what asks the head, for the error.

    Raises:
        InputError: it has none; an ELECTRA discriminator's generator has one.
    """
    if getattr(model.encoder, "lm_head", True) is not None:
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
    """Logits of the `symbols` of the vocabulary, (M, C) -> (M, V), in float32.

    A table may have more rows, which round its size up and were never trained.
    """
    logits: Tensor = model.encoder.output_layer(rows)  # type: ignore[union-attr, operator]
    return logits[:, :symbols].float()


def once(items: Sequence[Hashable]) -> tuple[list[int], list[int]]:
    """(index of each distinct item's first appearance, which of those every item is).

    Example:
        >>> once(["a", "b", "a"])
        ([0, 1], [0, 1, 0])
    """
    number: dict[Hashable, int] = {}
    firsts: list[int] = []
    for i, item in enumerate(items):
        if item not in number:
            number[item] = len(firsts)
            firsts.append(i)
    return firsts, [number[item] for item in items]

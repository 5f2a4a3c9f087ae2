"""How a text becomes a model's answer, step by step, in float64: what a fault would change."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from roberta_hub.export.check import answer_packed
from roberta_hub.export.graph import ExportedAnswer
from roberta_hub.inference.batching import Runner
from roberta_hub.inference.embed import embed_windows
from roberta_hub.inference.heads import Heads
from roberta_hub.inference.mode import evaluating
from roberta_hub.inference.windows import Windows, fit_windows, keep_as_tokenizers
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.model.known_head import VERBS, whole_heads
from roberta_hub.model.known_head import heads_of as all_heads
from roberta_hub.model.packing import PackedBatch, pack_sequences
from roberta_hub.model.roberta import Roberta, require_roberta
from roberta_hub.settings import Head, SentenceSettings
from roberta_hub.text.tokenizer import Text, Tokenizer

VECTORS = ExportedAnswer("pooled")
"""Sentence vectors by a model's own settings, which no pooling is the name of."""
Change = Callable[[str], str]
"""What is done to a sentence before it is cut into pieces."""
Pieces = Callable[[Tokenizer, str], "list[int]"]
"""From a sentence to the ids of its pieces, without special tokens."""


def unchanged(text: str) -> str:
    """Return a text as it is."""
    return text


def as_computed(numbers: Tensor) -> Tensor:
    """Return numbers as they are."""
    return numbers


def as_encode(tokenizer: Tokenizer, sentence: str) -> list[int]:
    """Cut a sentence into pieces as `encode` does."""
    ids: list[int] = tokenizer.ids_of(sentence).tolist()
    return ids


def heads_of(roberta: RobertaHubInterface) -> tuple[Head, ...]:
    """List the heads of a model of ours, with what it answers where nothing is recorded."""
    known = roberta._heads
    heads = whole_heads(known.model, known.known)
    return tuple(_answering(heads[n], known) for k in VERBS for n in all_heads(known.model, k))


def _answering(head: Head, known: Heads) -> Head:
    if head.type == "span":
        return replace(head, inputs="pair")
    labels = known.labels(head.name)
    if head.type == "token":
        return replace(head, labels=labels, inputs="one", words=head.words or "words")
    kind = head.kind or "single_label"
    least = head.thresholds if kind == "multi_label" else None
    inputs = known.inputs(head.name)
    return replace(head, labels=labels, inputs=inputs, kind=kind, thresholds=least)


@dataclass(frozen=True, eq=False)
class Setup:
    """How one text becomes ids, and ids an answer; each is itself and no other's equal."""

    model: Roberta
    tokenizer: Tokenizer
    settings: SentenceSettings
    """Settings of the sentence vectors."""
    limit: int
    """Most tokens of a text; more are cut off."""
    heads: tuple[Head, ...] = ()
    prompt: str = ""
    change: Change = unchanged
    pieces: Pieces = as_encode
    single: bool = False
    """Whether one separator stands between two texts where the model has two."""
    renormalized: bool = False
    """Whether vectors that are cut to their first numbers get length 1 again."""
    trimmed: tuple[int, int] = (0, 0)
    """Tokens that are left out at the start and at the end."""
    stored: Callable[[Tensor], Tensor] = as_computed
    """What becomes of the numbers of an answer where it is stored or sent."""

    def ids(self, text: Text) -> Tensor:
        """Ids of a text or a pair: (T,)."""
        first, *more = (text,) if isinstance(text, str) else text
        sentences = [self.change(part) for part in (self.prompt + first, *more)]
        ids = self._framed([self.pieces(self.tokenizer, part) for part in sentences])
        layout = self.tokenizer.layout
        (windows,) = fit_windows(
            [ids], [text], self.limit, layout, truncate=True, keep=keep_as_tokenizers
        )
        front, back = self.trimmed
        return windows.ids[0][front : len(windows.ids[0]) - back]

    def _framed(self, parts: Sequence[Sequence[int]]) -> Tensor:
        """Put special tokens around the pieces of sentences."""
        empty = [""] * len(parts)
        ids = self.tokenizer.encode(*empty, no_separator=self.single).tolist()
        *between, last = parts
        ids[-1:-1] = last
        for part in between:  # of a pair the first
            ids[1:1] = part
        return torch.tensor(ids)

    def vectors(self, sequences: Sequence[Tensor]) -> list[Tensor]:
        """Sentence vectors of ids, (C,) each; of no ids NaN, which is no peer's vector."""
        skip = 0
        if self.prompt and not self.settings.include_prompt:
            skip = len(self.tokenizer.encode(self.prompt)) - 1
        runner = Runner(model=self.model, tokenizer=self.tokenizer, progress=False)
        windows = [
            Windows([ids], [torch.arange(len(ids))], torch.zeros(len(ids), dtype=torch.long))
            for ids in sequences
            if len(ids) > skip
        ]
        found = embed_windows(runner, windows, self.settings, skip=skip)
        cut = found[:, : self.settings.truncate_dim].double().cpu()
        rows = iter(self.stored(F.normalize(cut, dim=-1) if self.renormalized else cut))
        nothing = found.new_full((found.size(1),), torch.nan).double().cpu()
        return [next(rows) if len(ids) > skip else nothing for ids in sequences]

    def states(self, sequences: Sequence[Tensor]) -> list[list[Tensor]]:
        """Hidden states of ids: of each depth, from the embeddings on, (T, C) of each sequence."""
        encoder = self.model.transformer
        found: list[list[Tensor]] = [[] for _ in range(encoder.num_layers + 1)]
        with evaluating(self.model):
            for ids in sequences:
                *inner, last = encoder.packed(self._packed(ids))
                for depth, state in zip(found, (*inner, encoder.finish(last)), strict=True):
                    depth.append(self.stored(state.double().cpu()))
        return found

    def answers(self, sequences: Sequence[Tensor], answer: ExportedAnswer) -> list[Tensor]:
        """What an exported answer is of ids, without padding: (T, *) or (*,) of each sequence.

        The language model's is that at the mask, (V,).
        """
        if answer == VECTORS:
            return self.vectors(sequences)
        with evaluating(self.model):
            found = [self._answer(ids.to(self._device), answer) for ids in sequences]
        return [self.stored(rows.double().cpu()) for rows in found]

    def _answer(self, ids: Tensor, answer: ExportedAnswer) -> Tensor:
        if answer.kind != "language":
            return answer_packed(self.model, answer, ids[None])[0][0]
        row = self.model.features(self._packed(ids))[self.mask_of(ids)]
        logits: Tensor = self.model.encoder.output_layer(row[None])[0]
        return logits[: len(self.tokenizer)]

    def mask_of(self, ids: Tensor) -> int:
        """Place of the mask in ids that `masked` gives."""
        return len(ids) // 2

    def masked(self, ids: Tensor) -> Tensor:
        """Put the mask in the place of the piece in the middle: (T,)."""
        mask = self.tokenizer.layout.mask
        assert mask is not None  # who asks for masked words has one
        ids = ids.clone()
        ids[self.mask_of(ids)] = mask
        return ids

    def with_model(self, edit: Callable[[Roberta], object]) -> Setup:
        """Return the same with a model that is changed; they share what is not replaced."""
        shared = {id(own): own for own in (*self.model.parameters(), *self.model.buffers())}
        model = copy.deepcopy(self.model, shared)
        edit(model)
        return replace(self, model=model)

    @property
    def _device(self) -> torch.device:
        return self.model.transformer.version.device

    def _packed(self, ids: Tensor) -> PackedBatch:
        padding = self.model.config.padding_idx
        return pack_sequences([ids], padding_idx=padding, device=self._device)


def setup_of(roberta: RobertaHubInterface) -> Setup:
    """Return how a model answers, in float64, without prompt and with its own limit."""
    model = copy.deepcopy(require_roberta(roberta.model, "verify compares"))
    model.transformer.prepared = None
    if model.encoder.lm_head is not None:
        model.encoder.lm_head.prepared = None
    settings = roberta.sentence or SentenceSettings()
    small = settings.lower_case
    tokenizer = roberta.tokenizer.in_lowercase if small else roberta.tokenizer
    return Setup(
        model.double().eval(), tokenizer, settings, roberta.max_positions, heads_of(roberta)
    )


def for_vectors(setup: Setup) -> Setup:
    """Return the same with the limit and the prompt of sentence vectors."""
    settings = setup.settings
    limit = min(setup.limit, settings.max_length or setup.limit)
    return replace(setup, limit=limit, prompt=settings.find_prompt(None, None))

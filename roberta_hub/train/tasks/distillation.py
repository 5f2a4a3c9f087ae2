"""Distillation: trains a model on the hidden states of a teacher (Sanh et al. 2019, section 3).

The teacher may have another vocabulary: it reads the same text in its own pieces, and each token of
the student gets the mean of the teacher's states over the letters that both have. Legend: N
student's tokens of a batch, M of them with a target, K teacher's tokens, C the width of both.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from roberta_hub.errors import InputError
from roberta_hub.hub import load_model
from roberta_hub.inference.mode import evaluating
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.model.kernels import missing_features
from roberta_hub.model.matrices import Dtype
from roberta_hub.model.packing import PackedBatch, pack_sequences
from roberta_hub.text.tokenizer import Tokenizer
from roberta_hub.train.tasks.features import hidden, roberta_of
from roberta_hub.train.tasks.masked_lm import MaskedLM, masked_loss
from roberta_hub.train.tasks.training_task import Batch, Loss

_BROKEN = re.compile("[\udc80-\udcff]")
"""Bytes of a character that was cut in two."""


@dataclass(frozen=True)
class DistillationBatch(Batch):
    """A batch, the same text in the teacher's tokens, and the alignment of both.

    Its targets hold `aligned` (M,), rows of the student, and `pieces` (2, P), pairs of a place in
    `aligned` and a row of the teacher.
    """

    teacher_input: PackedBatch

    def to(self, device: torch.device) -> DistillationBatch:
        """Move both to a device."""
        own = super().to(device)
        teacher_input = Batch(self.teacher_input, {}, 0).to(device).packed
        return replace(self, packed=own.packed, targets=own.targets, teacher_input=teacher_input)


def load_teacher(name_or_path: str, precision: str) -> RobertaHubInterface:
    """Load a model that teaches; in a run in bfloat16 it computes so too where the CPU can."""
    dtype: Dtype | None = None
    if precision == "bf16" and missing_features("bfloat16") is None:
        dtype = "bfloat16"
    teacher = load_model(name_or_path).eval()
    with warnings.catch_warnings():
        # Which precision is the faster is for the run's settings to say.
        warnings.simplefilter("ignore", UserWarning)
        return teacher.optimize(dtype)


class Teacher:
    """A trained model, prepared for inference, whose weights stay as they are."""

    def __init__(self, name_or_path: str, student: Tokenizer, precision: str) -> None:
        """Load the teacher."""
        self.interface = load_teacher(name_or_path, precision)
        self.roberta = roberta_of(self.interface)
        self.width = self.roberta.config.embed_dim
        self._student = student
        surface = student.piece_table.surface
        # A special symbol is read as a blank between lines; the first one begins the text.
        begins = student.layout.begins
        self._surfaces = [
            b"" if i in begins else b" " if isinstance(row, str) else surface(row)
            for i, row in enumerate(student.rows)
        ]

    def teacher_targets(self, batch: Batch, sequences: Sequence[Tensor]) -> DistillationBatch:
        """Encode a batch's text for the teacher, and align both tokenizations."""
        tokenizer, limit = self.interface.tokenizer, self.roberta.config.max_positions
        ids, aligned, pieces = [], [], []
        row = teacher_row = found = 0
        for sequence in sequences:
            text, places = self._read(sequence.tolist())
            own = tokenizer.ids_of(text)[: limit - 2]
            spans = torch.tensor(tokenizer.offsets(text)[: limit - 2]).reshape(-1, 2)
            rows, pairs = _align(places, spans)
            aligned.append(rows + row)
            pieces.append(pairs + torch.tensor([[found], [teacher_row + 1]]))  # 1: after `<s>`
            ids.append(
                torch.cat([own.new_tensor([tokenizer.bos]), own, own.new_tensor([tokenizer.eos])])
            )
            row, teacher_row, found = (
                row + len(sequence),
                teacher_row + len(ids[-1]),
                found + len(rows),
            )
        targets = {**batch.targets, "aligned": torch.cat(aligned), "pieces": torch.cat(pieces, 1)}
        teacher_input = pack_sequences(ids, padding_idx=self.roberta.config.padding_idx)
        return DistillationBatch(batch.packed, targets, batch.count, teacher_input)

    def _read(self, ids: list[int]) -> tuple[str, Tensor]:
        """Return a sequence's text, and the offsets of its tokens in characters: (T, 2)."""
        parts = [self._surfaces[i] for i in ids]
        text = _BROKEN.sub("?", b"".join(parts).decode(errors="surrogateescape"))
        begins = (
            torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8).bitwise_and(0xC0) != 0x80
        )
        letter = torch.cat([begins.long().cumsum(0) - 1, torch.tensor([len(text)])])  # of each byte
        sizes = torch.tensor([[len(p) - len(p.lstrip()), len(p)] for p in parts])
        ends = sizes[:, 1].cumsum(0)
        starts = ends - sizes[:, 1] + sizes[:, 0]
        empty = sizes[:, 0] == sizes[:, 1]
        last = letter[(ends - 1).clamp(min=0)] + 1
        # No token covers the blank at the end.
        return text.rstrip(), torch.stack(
            [letter[starts], torch.where(empty, letter[starts], last)], 1
        )

    @torch.no_grad()
    def states(self, batch: DistillationBatch) -> Tensor:
        """Compute the states that a batch's tokens should have: (M, C)."""
        device = batch.packed.ids.device
        self.interface.to(device)
        with evaluating(self.roberta), torch.autocast(device.type, enabled=False):
            states = self.roberta.features(batch.teacher_input)  # (K, C)
        place, row = batch.targets["pieces"]
        sums = states.new_zeros(len(batch.targets["aligned"]), states.size(1))
        sums.index_add_(0, place, states[row])
        counts = torch.bincount(place, minlength=len(sums)).clamp(min=1)
        return sums / counts.unsqueeze(1)


def _align(places: Tensor, spans: Tensor) -> tuple[Tensor, Tensor]:
    """Find which pieces share letters.

    Args:
        places: offsets of the student's tokens in the text; (i, i) for a token without text.
            Shape: (T, 2)
        spans: of the teacher's pieces. Shape: (S, 2)

    Example:
        >>> places, spans = torch.tensor([[0, 0], [0, 6], [6, 7]]), torch.tensor([[0, 3], [3, 6]])
        >>> _align(places, spans)
        (tensor([1]), tensor([[0, 0],
                [0, 1]]))
    """
    first = torch.searchsorted(spans[:, 1].contiguous(), places[:, 0].contiguous(), right=True)
    stop = torch.searchsorted(spans[:, 0].contiguous(), places[:, 1].contiguous())
    counts = (stop - first).clamp(min=0) * (places[:, 1] > places[:, 0])
    tokens = counts.nonzero().squeeze(1)
    first, counts = first[tokens], counts[tokens]
    place = torch.repeat_interleave(counts)
    step = torch.arange(len(place)) - (counts.cumsum(0) - counts)[place]
    return tokens, torch.stack([place, first[place] + step])


class Distilled(nn.Module):
    """A masked LM that learns its teacher's hidden states too."""

    METRICS = MaskedLM.METRICS

    def __init__(self, lm: MaskedLM, teacher: Teacher, weight: float) -> None:
        super().__init__()
        self.roberta = lm.roberta
        self._lm, self._teacher = (lm,), (teacher,)  # not registered: no state holds them twice
        self.weight = weight
        width = lm.roberta.config.embed_dim
        if teacher.width != width:
            raise InputError(
                f"the teacher's hidden states have {teacher.width} dimensions, the model's "
                f"{width}; choose a teacher of the same width"
            )

    def forward(self, batch: Batch) -> Loss:
        """Add the masked LM's loss and the states' relative squared error, as many times."""
        (lm,), (teacher,) = self._lm, self._teacher
        if not isinstance(batch, DistillationBatch) or not torch.is_grad_enabled():
            loss: Loss = lm(batch)
            return loss
        states = hidden(self.roberta, batch)  # (N, C)
        words = masked_loss(self.roberta, states[batch.targets["rows"]], batch.targets["ids"])
        wanted = teacher.states(batch)
        error = (
            states[batch.targets["aligned"]].float() - wanted
        ).square().sum() / wanted.square().sum()
        total = words + self.weight * batch.count * error
        return Loss(total, {"lm_loss": words.detach(), "state_error": batch.count * error.detach()})

"""Converts between padded batches, which users pass, and packed ones, which layers compute on.

Inside the model a batch is its real tokens laid end to end. Legend used throughout `model/`:
B sequences, T columns of the padded batch, N real tokens, C embed_dim, H heads, D head_dim, V
vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

import torch
from torch import Tensor

from roberta_hub.arguments import holds_text, kind_of, switch, whole_number
from roberta_hub.errors import InputError, InputTypeError

_MAX_ID = 2**63 - 1
_ID_TYPES = (torch.int64, torch.int32, torch.int16, torch.uint8, torch.int8)


@dataclass(frozen=True)
class PackedBatch:
    """The real tokens of B sequences, one after another.

    Example:
        >>> batch = pack(torch.tensor([[0, 31414, 2, 1], [0, 31414, 232, 2]]), padding_idx=1)
        >>> batch.ids.tolist()
        [0, 31414, 2, 0, 31414, 232, 2]
        >>> batch.lengths
        (3, 4)
        >>> batch.unpack(batch.positions.float().unsqueeze(-1)).squeeze(-1)
        tensor([[2., 3., 4., 0.],
                [2., 3., 4., 5.]])
    """

    ids: Tensor
    """Token ids. Shape: (N,)"""
    positions: Tensor
    """Rows of the position table; real tokens count from `padding_idx + 1`. Shape: (N,)"""
    lengths: tuple[int, ...]
    """Tokens of each sequence; 0 for a row that was all padding."""
    shape: tuple[int, int]
    """(B, T) of the padded batch."""
    slots: Tensor | None = None
    """Index of each token in the flattened padded batch, (N,); None without padding."""

    @cached_property
    def runs(self) -> list[tuple[int, int]]:
        """(count, length) of neighbours with equal length.

        Each run is one rectangular attention call.
        """
        return [(len(list(group)), length) for length, group in groupby(self.lengths) if length]

    @cached_property
    def starts(self) -> Tensor:
        """Row of each sequence's first token (`<s>`), in shape (B,)."""
        lengths = torch.tensor(self.lengths, dtype=torch.long)
        return moved(lengths.cumsum(0) - lengths, self.ids.device)

    @cached_property
    def bounds(self) -> Tensor:
        """Row at which each sequence begins, and the end: (B + 1,) int32.

        Kernels for ragged attention want them so.
        """
        lengths = torch.tensor((0, *self.lengths), dtype=torch.int32)
        return moved(lengths.cumsum(0, dtype=torch.int32), self.ids.device)

    def unpack(self, rows: Tensor) -> Tensor:
        """Lay token rows (N, *) out as a padded batch (B, T, *), zeros at padding."""
        if self.slots is None:
            return rows.view(*self.shape, *rows.shape[1:])
        padded = rows.new_zeros(self.shape[0] * self.shape[1], *rows.shape[1:])
        return padded.index_copy(0, self.slots, rows).view(*self.shape, *rows.shape[1:])

    def first_rows(self, rows: Tensor) -> Tensor:
        """Return the row of each sequence's first real token: (N, C) -> (B, C).

        Zeros for an empty sequence.
        """
        if all(self.lengths):
            return rows[self.starts]
        filled = torch.tensor(self.lengths, device=rows.device).nonzero().squeeze(1)
        out = rows.new_zeros(len(self.lengths), *rows.shape[1:])
        return out.index_copy(0, filled, rows[self.starts[filled]])

    def mean_rows(self, rows: Tensor) -> Tensor:
        """Average the rows of each sequence, in float32 at least: (N, C) -> (B, C).

        Zeros for an empty sequence.
        """
        lengths = moved(torch.tensor(self.lengths), rows.device).clamp(min=1)
        wide = rows if rows.dtype == torch.float64 else rows.float()
        # A fifth of the time of a mean for each sequence, and the same number.
        return (self.unpack(wide).sum(1) / lengths.unsqueeze(1)).to(rows.dtype)


@dataclass(frozen=True)
class PaddedBatch:
    """A padded batch with the same `unpack`, for graphs in which no shape may depend on the data.

    Example:
        >>> batch = PaddedBatch(torch.tensor([[True, True], [True, False]]))
        >>> batch.unpack(torch.ones(2, 2, 1)).squeeze(-1)
        tensor([[1., 1.],
                [1., 0.]])
    """

    real: Tensor
    """True at tokens that are no padding. Shape: (B, T)"""
    computed: bool = False
    """Whether rows at padding stay as they are computed, as in fairseq."""

    def unpack(self, rows: Tensor) -> Tensor:
        """Return the same rows with zeros at padding: (B, T, *)."""
        return rows if self.computed else rows.masked_fill(~self.real.unsqueeze(-1), 0)


def pack(tokens: Tensor, *, padding_idx: int) -> PackedBatch:
    """Drop the padding of a batch of ids.

    Positions count real tokens only, so left, right and inner padding give the same features
    (fairseq `utils.make_positions`).

    Args:
        tokens: ids, padded anywhere with `padding_idx`. Shape: (B, T)
        padding_idx: the id of `<pad>`.
    """
    batch, length = tokens.shape
    real = tokens.ne(padding_idx)
    lengths = tuple(real.sum(1).tolist())
    if sum(lengths) == batch * length:
        steps = torch.arange(padding_idx + 1, padding_idx + 1 + length, device=tokens.device)
        return PackedBatch(tokens.reshape(-1), steps.repeat(batch), lengths, (batch, length))
    slots = real.reshape(-1).nonzero().squeeze(1)
    positions = (real.cumsum(1) + padding_idx).reshape(-1)[slots]
    return PackedBatch(tokens.reshape(-1)[slots], positions, lengths, (batch, length), slots)


def pack_sequences(
    sequences: Sequence[Tensor], *, padding_idx: int, device: torch.device | None = None
) -> PackedBatch:
    """Pack a list of 1-D id tensors that hold no padding, without ever padding them."""
    lengths = tuple(len(sequence) for sequence in sequences)
    first = padding_idx + 1
    steps = torch.arange(first, first + max(lengths, default=0))
    ids = torch.cat([s.to(torch.long) for s in sequences]) if sequences else steps
    positions = torch.cat([steps[:n] for n in lengths]) if sequences else steps
    shape = (len(lengths), max(lengths, default=0))
    return PackedBatch(
        moved(ids, device), moved(positions, device), lengths, shape, _slots(lengths, device)
    )


def _slots(lengths: tuple[int, ...], device: torch.device | None) -> Tensor | None:
    if len(set(lengths)) <= 1:
        return None
    width = torch.arange(max(lengths))
    real = width < torch.tensor(lengths).unsqueeze(1)  # (B, T)
    return moved(real.reshape(-1).nonzero().squeeze(1), device)


def moved(tensor: Tensor, device: torch.device | None) -> Tensor:
    """Return a tensor of the CPU on another device; a GPU fetches it without the CPU waiting."""
    if device is None or device.type != "cuda" or tensor.device.type != "cpu":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def check_tokens(tokens: object, *, vocab_size: int, max_positions: int) -> Tensor:
    """Turn what a user passed into a batch of ids (B, T), or say what is wrong with it.

    Ids on the CPU are range-checked, before a GPU could fail on them. For tensors
    already on another device the check would cost a synchronization, and a graph that torch.compile
    or torch.export traces cannot hold it: there it is left out.
    """
    tokens = as_ids(tokens)
    if tokens.dim() not in (1, 2):
        raise InputError(f"tokens have shape {tuple(tokens.shape)}; pass (T,) or (B, T)")
    if tokens.dim() == 1:
        tokens = tokens.unsqueeze(0)
    if tokens.size(1) == 0:
        raise InputError("tokens have length 0; even the empty text encodes to [0, 2]")
    if tokens.size(1) > max_positions:
        raise InputError(
            f"tokens exceeds maximum length: {tokens.size(1)} > {max_positions}; cut the text, or "
            "use features(), classify() or score(), which take truncate=True or stride=N"
        )
    if tokens.device.type == "cpu" and not torch.compiler.is_compiling() and tokens.numel():
        low, high = (int(bound) for bound in tokens.aminmax())
        if low < 0 or high >= vocab_size:
            row, column = ((tokens < 0) | (tokens >= vocab_size)).nonzero()[0].tolist()
            raise InputError(
                f"token id {tokens[row, column].item()} at row {row}, position {column} is outside "
                f"the vocabulary 0..{vocab_size - 1}"
            )
    return tokens


def as_ids(tokens: object) -> Tensor:
    """Return a LongTensor of ids from an integer tensor of any width or a (nested) list of ints."""
    if isinstance(tokens, (list, tuple)):
        if any(isinstance(item, Tensor) for item in tokens):
            raise InputTypeError(
                "tokens is a list of tensors; pad them into one batch with collate_tokens(list, "
                "pad_idx=1)"
            )
        if holds_text(tokens):
            raise InputTypeError(
                "tokens is a list of texts, which makes no id tensor; encode(text) gives ids, and "
                "verbs such as classify(texts) take texts"
            )
        try:
            tokens = torch.tensor(tokens, dtype=torch.long if not tokens else None)
        except (ValueError, TypeError, RuntimeError) as error:
            raise InputTypeError(f"tokens is a list that makes no id tensor: {error}") from None
    if not isinstance(tokens, Tensor):
        raise InputTypeError(
            f"tokens is a {type(tokens).__name__}; pass a LongTensor such as encode() returns"
        )
    if tokens.layout != torch.strided:
        raise InputTypeError(f"tokens are {tokens.layout}; pass tokens.to_dense()")
    if tokens.dtype not in _ID_TYPES:
        raise InputTypeError(f"tokens have dtype {tokens.dtype}; ids are integers")
    return tokens.long()


def collate_tokens(
    values: Sequence[Tensor],
    pad_idx: int = 1,
    eos_idx: int | None = None,
    left_pad: bool = False,
    move_eos_to_beginning: bool = False,
    pad_to_length: int | None = None,
    pad_to_multiple: int = 1,
    pad_to_bsz: int | None = None,
) -> Tensor:
    """Pad id tensors into one batch (fairseq `data_utils.collate_tokens`).

    Args:
        values: ids of each sequence. Shapes: (T_i,)
        pad_idx: what fills the empty places.
        eos_idx: the token that `move_eos_to_beginning` puts first; None: the last one.
        left_pad: pad before the tokens instead of after them.
        move_eos_to_beginning: drop each sequence's last token and put `eos_idx` before the rest.
        pad_to_length: pad to at least this many columns.
        pad_to_multiple: and to a multiple of this.
        pad_to_bsz: pad to at least this many rows.

    Returns:
        (B, T)

    Example:
        >>> collate_tokens([torch.tensor([0, 31414, 2]), torch.tensor([0, 2])])
        tensor([[    0, 31414,     2],
                [    0,     2,     1]])
    """
    values = _rows_of_ids(values)
    left_pad = switch("left_pad", left_pad)
    move_eos_to_beginning = switch("move_eos_to_beginning", move_eos_to_beginning)
    whole_number("pad_idx", pad_idx, -_MAX_ID, _MAX_ID)
    if eos_idx is not None:
        whole_number("eos_idx", eos_idx, -_MAX_ID, _MAX_ID)
    pad_to_length = whole_number(
        "pad_to_length", 0 if pad_to_length is None else pad_to_length, 0, _MAX_ID
    )
    pad_to_bsz = whole_number("pad_to_bsz", 0 if pad_to_bsz is None else pad_to_bsz, 0, _MAX_ID)
    pad_to_multiple = whole_number("pad_to_multiple", pad_to_multiple, 1, _MAX_ID)
    width = max([len(value) for value in values] + [pad_to_length])
    width = -(-width // pad_to_multiple) * pad_to_multiple
    try:
        batch = values[0].new_full((max(len(values), pad_to_bsz), width), pad_idx)
    except RuntimeError as error:  # no memory for it, or an id that a narrow dtype cannot hold
        raise InputError(f"no batch of {width} columns filled with {pad_idx}: {error}") from None
    for row, value in zip(batch, values, strict=False):
        if move_eos_to_beginning:
            first = (
                value[-1:] if eos_idx is None else value.new_full((min(len(value), 1),), eos_idx)
            )
            value = torch.cat([first, value[:-1]])
        start = width - len(value) if left_pad else 0
        row[start : start + len(value)] = value
    return batch


def _rows_of_ids(values: object) -> list[Tensor]:
    """Return the argument of `collate_tokens` as a list of tensors of one dimension."""
    if not isinstance(values, (list, tuple, Tensor)):
        raise InputTypeError(f"values is a {kind_of(values)}; pass a list of id tensors")
    rows = list(values) if isinstance(values, (list, tuple)) or values.dim() else [values]
    if not rows:
        raise InputError("collate_tokens got no tensors; pass at least one")
    for i, row in enumerate(rows):
        if not isinstance(row, Tensor):
            raise InputTypeError(f"values[{i}] is a {kind_of(row)}; pass a list of id tensors")
        if row.dim() != 1:
            raise InputError(f"values[{i}] has shape {tuple(row.shape)}; each is ids, (T,)")
    return rows

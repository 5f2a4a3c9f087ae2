"""What a checkpoint holds, whoever wrote it, and the steps that every reader and writer shares."""

from __future__ import annotations

import ctypes
import dataclasses
import mmap
import re
import sys
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import torch
from torch import Tensor

from roberta_hub.config import Inputs, RobertaConfig, check_head_name
from roberta_hub.errors import CheckpointError, InputError
from roberta_hub.files import read_bytes

EMBEDDING = "encoder.sentence_encoder.embed_tokens.weight"
PROJECTION = "encoder.sentence_encoder.embed_projection.weight"
LM_WEIGHT = "encoder.lm_head.weight"
VERSION = "encoder.sentence_encoder.version"
LAYER = "encoder.sentence_encoder.layers."
HEADS = "classification_heads."
TOKEN_HEADS = "token_heads."
SPAN_HEADS = "span_heads."

MAX_DICTIONARY = 32 << 20
"""Bytes of a dict.txt; RoBERTa's has 0.6 MB, a million words have 15."""
MAX_HEADS = 1000
"""More classification heads than this in one file is taken for an attack."""


Size = TypeVar("Size")
Origin = Literal["memory", "file", "our file"]
"""Where tensors lie: in memory, mapped from a file of the user's, or from one that only we
replace."""


@dataclass(kw_only=True)
class Checkpoint:
    """Configuration, weights under fairseq's names, vocabulary and labels of one model."""

    config: RobertaConfig
    weights: dict[str, Tensor]
    source: str
    """Where it came from, for messages."""
    dictionary: bytes | None = None
    """A fairseq dict.txt without `<mask>`; None: the shipped RoBERTa dictionary."""
    label_dictionary: bytes | None = None
    """fairseq's label/dict.txt of a sentence_prediction task."""
    labels: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Class names of each head, where known."""
    own_head: str | None = None
    """The head that the model was trained for last, where known."""
    inputs: dict[str, Inputs] = field(default_factory=dict)
    """What each head was trained on, where known: single texts or pairs."""
    task: str = "masked_lm"
    """fairseq's name of the task it was trained on."""
    init_token: int | None = None
    """Id that the wsc task put before each sentence, if any."""
    finite: bool = False
    """Whether the weights are known to hold neither NaN nor infinity."""

    def heads(self) -> dict[str, tuple[int, int]]:
        """(num_classes, inner_dim) of every classification head, read off the tensors."""
        sizes: dict[str, tuple[int, int]] = {}
        for name in sorted(
            {_head_of(key, HEADS, self.source) for key in self.weights if key.startswith(HEADS)}
        ):
            dense = self.weights.get(f"{HEADS}{name}.dense.weight")
            out = self.weights.get(f"{HEADS}{name}.out_proj.weight")
            if out is None:  # spectral norm keeps the raw matrix under another name
                out = self.weights.get(f"{HEADS}{name}.out_proj.weight_orig")
            # Without elements a matrix may claim a billion rows at no cost, and each would get a
            # label.
            sound = (m is not None and m.dim() == 2 and m.numel() > 0 for m in (dense, out))
            if dense is None or out is None or not all(sound):
                raise CheckpointError(
                    f"{self.source}: classification head {name!r} lacks its dense or out_proj "
                    "matrix"
                )
            sizes[name] = (out.size(0), dense.size(0))
        return self._few(sizes)

    def token_heads(self) -> dict[str, int]:
        """num_classes of every token-classification head, read off the tensors."""
        return self._outputs(TOKEN_HEADS, "token")

    def span_heads(self) -> dict[str, int]:
        """2, the outputs, of every span head."""
        found = self._outputs(SPAN_HEADS, "span")
        for name, outputs in found.items():
            if outputs != 2:
                raise CheckpointError(
                    f"{self.source}: span head {name!r} has {outputs} outputs, must have 2"
                )
        return found

    def _outputs(self, prefix: str, kind: str) -> dict[str, int]:
        sizes: dict[str, int] = {}
        keys = [key for key in self.weights if key.startswith(prefix)]
        for name in sorted({_head_of(key, prefix, self.source) for key in keys}):
            out = self.weights.get(f"{prefix}{name}.out_proj.weight")
            if out is None or out.dim() != 2 or not out.numel():
                raise CheckpointError(
                    f"{self.source}: {kind} head {name!r} lacks its out_proj matrix"
                )
            sizes[name] = out.size(0)
        return self._few(sizes)

    def _few(self, sizes: dict[str, Size]) -> dict[str, Size]:
        if len(sizes) > MAX_HEADS:
            raise CheckpointError(f"{self.source}: {len(sizes)} heads, the limit is {MAX_HEADS}")
        return sizes


def _head_of(key: str, prefix: str, source: str) -> str:
    name = re.sub(r"\.(dense|out_proj)\.(weight|bias|weight_orig|weight_u|weight_v)$", "", key)
    try:
        return check_head_name(name[len(prefix) :])
    except InputError as error:
        raise CheckpointError(f"{source}: parameter {key[:120]!r}: {error}") from None


def distinct(labels: Sequence[str], head: str, source: str) -> tuple[str, ...]:
    """A head's labels as a file has them; classes of one label get their numbers behind it.

    Merged they would answer as one class, and their probabilities would not add up to 1.

    Example:
        >>> import warnings
        >>> warnings.simplefilter("ignore")
        >>> distinct(["good", "bad", "good"], "topic", "model.pt")
        ('good (0)', 'bad', 'good (2)')
    """
    counts = Counter(labels)
    if len(counts) == len(labels):
        return tuple(labels)
    twice = [label for label, count in counts.items() if count > 1]
    found = tuple(f"{la} ({i})" if counts[la] > 1 else la for i, la in enumerate(labels))
    if len(set(found)) != len(found):  # such a name was another class's
        found = tuple(map(str, range(len(labels))))
    shown = ", ".join(repr(label[:40]) for label in twice[:5])
    warnings.warn(
        f"{source}: several classes of head {head!r} have the label {shown}; they are told apart "
        f"by their numbers: {', '.join(found[:20])[:300]}",
        stacklevel=5,
    )
    return found


def plain_inputs(value: Any) -> dict[str, Inputs]:
    """What of a mapping from elsewhere says what heads were trained on."""
    items = value.items() if isinstance(value, dict) else ()
    known = get_args(Inputs)
    return {head: given for head, given in items if isinstance(head, str) and given in known}


def own(weights: dict[str, Tensor], dtype: torch.dtype | None, origin: Origin) -> dict[str, Tensor]:
    """Copy every tensor into memory of its own, one at a time, emptying `weights` on the way.

    A user's file may be rewritten while the model lives; a mapped tensor would change with it, or
    crash the process. Our own files are replaced and never rewritten: what has the wanted dtype
    there stays mapped. Pages of a mapped file are given back after each tensor, so the peak stays
    one copy of the weights and one tensor more. Tensors that share memory keep sharing it.

    Args:
        weights: consumed.
        dtype: of floating-point tensors; None means float32, half precision is widened.
        origin: where the tensors lie.
    """
    floating = {tensor.dtype for tensor in weights.values() if tensor.is_floating_point()}
    if origin == "our file" and floating == {dtype or torch.float32}:
        return weights
    owned: dict[tuple[object, ...], Tensor] = {}
    result = {}
    for name in list(weights):
        tensor = weights.pop(name)
        identity = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype)
        if identity not in owned:
            target = (dtype or torch.float32) if tensor.is_floating_point() else tensor.dtype
            owned[identity] = tensor.to(target, copy=True, memory_format=torch.contiguous_format)
        result[name] = owned[identity]
        if origin != "memory":
            give_back_pages(tensor)
    return result


def give_back_pages(tensor: Tensor) -> None:
    """Let the kernel forget the pages behind a mapped tensor; they are read again if ever needed.

    Never for memory that is not mapped from a file: there the contents would be lost.
    """
    if sys.platform != "linux" or not hasattr(mmap, "MADV_DONTNEED"):
        return
    # A hostile file's strides can be 0, and its elements more than the bytes from its first to its
    # last.
    if not tensor.is_contiguous():
        return
    first = -(-tensor.data_ptr() // mmap.PAGESIZE) * mmap.PAGESIZE
    end = tensor.data_ptr() + tensor.numel() * tensor.element_size()
    length = (end - first) // mmap.PAGESIZE * mmap.PAGESIZE
    if length > 0:
        libc = ctypes.CDLL(None)
        libc.madvise(ctypes.c_void_p(first), ctypes.c_size_t(length), mmap.MADV_DONTNEED)


_READABLE = {torch.float16, torch.bfloat16, torch.float32, torch.float64}
_COUNTS = {torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}


def check_plain(tensor: Tensor, name: str, source: str) -> None:
    """Refuse a tensor that is not plain numbers in memory, each of which the file stores."""
    strided = tensor.layout == torch.strided and not tensor.is_quantized
    if not strided or tensor.device.type != "cpu" or tensor.dtype not in _READABLE | _COUNTS:
        raise CheckpointError(
            f"{source}: tensor {name[:100]!r} is {tensor.dtype}, {tensor.layout} on "
            f"{tensor.device}; only plain float16, bfloat16, float32 and float64 weights are read, "
            "convert it first"
        )
    if tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
        raise CheckpointError(
            f"{source}: tensor {name[:100]!r} claims more elements than are stored; download it "
            "again"
        )


def read_dictionary(path: Path) -> bytes | None:
    """The bytes of a dictionary file, None where there is none.

    Raises:
        CheckpointError: it cannot be read, or is too large to be one.
    """
    if not path.is_file():
        return None
    return read_bytes(path, MAX_DICTIONARY, CheckpointError, "dictionary")


def check_finite(weights: dict[str, Tensor], source: str) -> None:
    """Refuse NaN and infinity, which a damaged file or a diverged training leaves behind."""
    for name, tensor in weights.items():
        if not is_finite(tensor):
            raise CheckpointError(
                f"{source}: {name} holds NaN or infinity: the file is damaged, the training "
                f"diverged, or its numbers are too large for {tensor.dtype}; allow_nonfinite=True "
                "loads it all the same"
            )


def holds_all(weights: Mapping[str, Tensor], dtype: torch.dtype | None) -> bool:
    """Whether `own` makes no number infinite in the wanted dtype.

    That dtype has to reach as far as each tensor's own.
    """
    reach = torch.finfo(dtype or torch.float32).max
    return all(
        torch.finfo(tensor.dtype).max <= reach
        for tensor in weights.values()
        if tensor.is_floating_point()
    )


def is_finite(tensor: Tensor) -> bool:
    """Whether a tensor holds neither NaN nor infinity."""
    if not tensor.is_floating_point() or not tensor.numel():
        return True
    return all(bool(torch.isfinite(bound)) for bound in tensor.detach().aminmax())


def expand(
    config: RobertaConfig, weights: dict[str, Tensor]
) -> tuple[RobertaConfig, dict[str, Tensor]]:
    """The same model without our extensions, for formats that know neither.

    Factorized embeddings are multiplied out, shared layers are written once per use.

    Raises:
        CheckpointError: segments or a projected sum of embeddings, which RoBERTa has no place for.
    """
    for name in ("num_segments", "project_sum"):
        if getattr(config, name):
            raise CheckpointError(
                f"a model with {name} is no RoBERTa, and this format holds nothing else; save as "
                "'roberta_hub'"
            )
    weights = dict(weights)
    if config.embedding_dim is not None:
        table = weights[EMBEDDING] @ weights.pop(PROJECTION).T  # (V, E) @ (E, C)
        if not config.untie_weights and config.lm_head:
            weights[LM_WEIGHT] = table
        weights[EMBEDDING] = table
    unique = config.num_unique_layers
    if unique is not None:
        group = config.num_layers // unique
        shared = {name: weights.pop(name) for name in list(weights) if name.startswith(LAYER)}
        for name, tensor in shared.items():
            index, rest = name[len(LAYER) :].split(".", 1)
            for use in range(int(index) * group, (int(index) + 1) * group):
                weights[f"{LAYER}{use}.{rest}"] = tensor
    plain = dataclasses.replace(config, embedding_dim=None, num_unique_layers=None)
    return plain, weights

"""Layers in their compiled form, and their twins, for the tests of both."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from roberta_hub.model import compiled, embeddings, kernels
from roberta_hub.model.compiled import (
    WEIGHT_FORMATS,
    CompiledLayer,
    CompiledRun,
    Level,
    WeightFormat,
)
from roberta_hub.model.layer import PreparedLayer, TransformerLayer
from roberta_hub.model.packing import PackedBatch, pack_sequences


def levels_here() -> list[Level]:
    """Levels that this CPU has, if the library is there."""
    there = compiled.library()
    return [] if there is None else list(there.shapes)


def skip_without(held: str | None) -> None:
    """Skip where this CPU has no instructions for such weights; None is float32."""
    if held is not None and held not in compiled.supported_formats():
        pytest.skip(f"no instructions for {held}")


def layer_of(size: tuple[int, int, int], before: bool = False) -> TransformerLayer:
    """A layer of weights that float16 holds, in eval mode."""
    width, inner, heads = size
    layer = TransformerLayer(
        width,
        inner,
        heads,
        activation_fn="gelu",
        dropout=0.1,
        attention_dropout=0.1,
        activation_dropout=0.1,
        normalize_before=before,
        eps=1e-5,
    ).eval()
    generator = torch.Generator().manual_seed(width)
    with torch.no_grad():
        for name, p in layer.named_parameters():
            drawn = torch.randn(p.shape, generator=generator)
            scaled = drawn / p.size(-1) ** 0.5 if p.dim() == 2 else 0.2 * drawn
            p.copy_((scaled + ("norm.weight" in name)).half().float())
    return layer


def prepared(layer: TransformerLayer, held: WeightFormat) -> PreparedLayer:
    """With a compiled form of this kind alone, for any number of rows, on the machine at hand."""
    return limited(
        layer, held, {name: kernels.ANY_ROWS if name == held else 0 for name in WEIGHT_FORMATS}
    )


def twin_of(layer: TransformerLayer, held: WeightFormat) -> PreparedLayer:
    """The same on torch's operators."""
    return limited(layer, held, dict.fromkeys(WEIGHT_FORMATS, 0))


def limited(
    layer: TransformerLayer, held: WeightFormat, limits: dict[WeightFormat, int]
) -> PreparedLayer:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "COMPILED_ROWS", dict.fromkeys(kernels.COMPILED_ROWS, limits))
        return PreparedLayer(layer, held if held in ("int8", "bfloat16") else None)


def with_short_weights(layer: TransformerLayer, held: WeightFormat) -> TransformerLayer:
    """A copy whose products are those of such a form at AVX2."""
    found = copy.deepcopy(layer)
    with torch.no_grad():
        for module in found.modules():
            if isinstance(module, nn.Linear) and held == "int8":
                module.forward = ProductOfBytes(module)  # type: ignore[method-assign]
            elif isinstance(module, nn.Linear) and held != "float32":
                module.weight.copy_(module.weight.to(getattr(torch, held)))
    return found


class ProductOfBytes:
    """Weights of 8 bits times activations of 7, whose steps are those of a block, in float64."""

    def __init__(self, module: nn.Linear) -> None:
        weight, self.bias = module.weight.double(), module.bias.double()
        count = -(-weight.size(1) // 256)
        self.size = -(-weight.size(1) // count // 16) * 16
        self.padding = count * self.size - weight.size(1)
        weight = F.pad(weight, (0, self.padding))
        # Two neighbours of each four inputs meet in 16 bits, with those of four such fours.
        pairs = weight.view(len(weight), -1, 4, 2, 2)
        sums = [part.clamp(min=0).sum((2, 4)).amax((1, 2)) for part in (pairs, -pairs)]
        self.scale = torch.maximum(weight.abs().amax(1) / 127, torch.maximum(*sums) / 254)
        self.scale = self.scale.clamp(min=1e-30)
        self.whole = (weight / self.scale.unsqueeze(1)).round()
        pairs = self.whole.view(pairs.shape)
        for part in (pairs, -pairs):
            assert 127 * part.clamp(min=0).sum((2, 4)).max() < 2**15

    def __call__(self, x: Tensor) -> Tensor:
        blocks = []
        for block in x.double().split(self.size, -1):
            low, high = block.amin(-1, keepdim=True), block.amax(-1, keepdim=True)
            step = (high - low) / 127
            blocks.append(low + step * ((block - low) / step.clamp(min=1e-30)).round())
        short = F.pad(torch.cat(blocks, -1), (0, self.padding))
        return (short @ (self.scale.unsqueeze(1) * self.whole).T + self.bias).float()


def only(form: PreparedLayer) -> CompiledLayer:
    """Its compiled form."""
    ((_, layer),) = form.compiled
    return layer


def computed(form: PreparedLayer, lengths: tuple[int, ...], x: Tensor) -> Tensor:
    """All rows of a batch through the compiled layer."""
    return CompiledRun([only(form)], lengths, None)(only(form), x, False)


def batch_of(lengths: tuple[int, ...]) -> PackedBatch:
    return pack_sequences([torch.full((n,), 5) for n in lengths], padding_idx=1)


def drawn(rows: int, width: int) -> Tensor:
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(rows))


def runs_compiled(model: Any) -> bool:
    with torch.no_grad():
        form = model.encoder.sentence_encoder.prepared.form()
    return all(layer.compiled_for(1) is not None for layer in form)


@contextmanager
def compiled_sums() -> Iterator[list[bool]]:
    """Gather of each call of `embed_compiled` inside whether it gave a sum."""
    found: list[bool] = []
    real = embeddings.embed_compiled

    def watched(*given: Any) -> Tensor | None:
        found.append((x := real(*given)) is not None)
        return x

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embeddings, "embed_compiled", watched)
        yield found

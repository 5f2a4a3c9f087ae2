"""Every fault that is looked for, as a change of how our model answers.

A fault of a peer is found by making it ourselves: where our answers become the peer's, it is named.
"""

from __future__ import annotations

import copy
import itertools
import math
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor, nn

from roberta_hub.model.activations import activation
from roberta_hub.model.compiled import row_scales
from roberta_hub.model.roberta import Roberta
from roberta_hub.text.bpe import GPT2BPE
from roberta_hub.text.tokenizer import Tokenizer
from roberta_hub.text.with_added import without_added
from roberta_hub.verification.setup import Change, Setup, unchanged

Remake = Callable[[Setup], Setup]


def _same(setup: Setup) -> Setup:
    return setup


@dataclass(frozen=True)
class Fault:
    """Something that a peer may do otherwise."""

    name: str
    """By which reports and programs know it."""
    said: str
    """What the peer does, in words."""
    own: Remake = _same
    """Makes our model do it."""
    asked: Change = unchanged
    """What the peer is given in place of a text, where it lacks what our model does to texts."""
    by_design: bool = False
    """Whether it is a known difference and no fault."""


# ---- texts and ids ----

_PROMPTS = ("query: ", "passage: ")
"""Prompts of E5 and its kind, which services put before texts."""


def fold(text: str) -> str:
    """Take marks off letters, as BERT's uncased tokenizers do.

    Example:
        >>> fold("Déjà")
        'Deja'
    """
    parts = unicodedata.normalize("NFD", text)
    return "".join(c for c in parts if unicodedata.category(c) != "Mn")


def text_faults(setup: Setup, *, prompts: bool = True) -> list[Fault]:
    """List what a peer may do otherwise with texts."""
    found = list(_prompt_faults(setup)) if prompts else []
    found += [
        Fault(
            "special tokens in texts",
            "reads the names of special tokens in a text as these tokens (here they stay text)",
            _with_special_tokens,
            by_design=True,
        ),
        Fault("casing", "reads texts in lower case", changed(str.lower)),
        Fault("casing", "keeps capitals, which our model reads as lower case", asked=str.lower),
        Fault("accents", "takes accents off letters", changed(fold)),
        Fault("accents", "keeps accents, which our model takes off letters", asked=fold),
        Fault(
            "casing",
            "keeps capitals and accents, which our model does not",
            asked=lambda text: fold(text.lower()),
        ),
        Fault("white space", "drops blanks around texts", changed(str.strip)),
        Fault("white space", "puts a blank before texts", changed(lambda text: f" {text}")),
        Fault(
            "white space",
            "makes one blank of several",
            changed(lambda text: " ".join(text.split())),
        ),
        Fault("special tokens", "leaves the first special token out", _trimmed(1, 0)),
        Fault("special tokens", "leaves the last special token out", _trimmed(0, 1)),
        Fault("special tokens", "leaves both special tokens out", _trimmed(1, 1)),
    ]
    if isinstance(without_added(setup.tokenizer.engine), GPT2BPE):
        said = "merges no pieces: a piece for each byte"
        found.append(Fault("merges", said, lambda own: replace(own, pieces=_unmerged)))
    if setup.tokenizer.layout.separators == 2:
        said = "writes one separator between two texts"
        found.append(Fault("pairs", said, lambda own: replace(own, single=True)))
    return found


def _prompt_faults(setup: Setup) -> Iterator[Fault]:
    others = dict.fromkeys(["", *setup.settings.prompts.values(), *_PROMPTS])
    for prompt in others:
        if prompt != setup.prompt:
            said = f"puts {prompt!r} before texts" if prompt else "puts no prompt before texts"
            said += f", where the model has {setup.prompt!r}" if setup.prompt else ""
            yield Fault("prompt", said, lambda own, new=prompt: replace(own, prompt=new))  # type: ignore[misc]


def changed(change: Change) -> Remake:
    """Return what makes our model change each sentence."""

    def remake(setup: Setup) -> Setup:
        before = setup.change
        return replace(setup, change=lambda text: change(before(text)))

    return remake


def truncation(length: int) -> Fault:
    """Return the fault of cutting texts at a length."""
    return Fault(
        "truncation",
        f"cuts texts at {length} tokens",
        lambda setup: replace(setup, limit=min(length, setup.limit)),
    )


def no_truncation(setup: Setup) -> Fault:
    """Return the fault of reading texts to the model's limit where the settings' is lower."""
    most = setup.model.max_positions()
    said = f"reads texts of up to {most} tokens, which the model cuts at {setup.limit}"
    return Fault("truncation", said, lambda setup: replace(setup, limit=most))


def _with_special_tokens(setup: Setup) -> Setup:
    """Read the names of special tokens in a text as these tokens."""
    layout, names, before = setup.tokenizer.layout, setup.tokenizer.dictionary, setup.pieces
    roles = [layout.bos, layout.eos, layout.pad, layout.unk, layout.mask]
    words = {names[role]: role for role in roles if role is not None}

    def pieces(tokenizer: Tokenizer, sentence: str) -> list[int]:
        found: list[int] = []
        rest = sentence
        while places := [(rest.find(word), word) for word in words if word in rest]:
            at, word = min(places)
            # A mask takes the blank before it, since the word that is guessed brings its own.
            text = rest[:at].rstrip() if words[word] == layout.mask else rest[:at]
            found += [*(before(tokenizer, text) if text else ()), words[word]]
            rest = rest[at + len(word) :]
        return found + before(tokenizer, rest) if rest or not found else found

    read = replace(setup, pieces=pieces)
    # Others tell a text's segment by who gave it, and not by the tokens in it.
    return read.with_model(_no_segments) if setup.model.transformer.separator_idx else read


def _no_segments(model: Roberta) -> None:
    model.transformer.separator_idx = None


def _trimmed(front: int, back: int) -> Remake:
    return lambda setup: replace(setup, trimmed=(front, back))


def _unmerged(tokenizer: Tokenizer, sentence: str) -> list[int]:
    """Turn a sentence into ids of bytes: what a byte-level BPE without merges does."""
    engine, known = without_added(tokenizer.engine), tokenizer.ids_of_pieces
    assert isinstance(engine, GPT2BPE)
    names = engine.bpe.byte_encoder
    return [known[names[byte]] for byte in sentence.encode()]


# ---- the model ----

_ACTIVATIONS = {
    "gelu": "the exact GELU",
    "gelu_accurate": "the GELU by tanh",
    "quick_gelu": "the quick GELU",
    "relu": "ReLU",
}
_EPSILONS = (1e-12, 1e-5, 1e-6, 1e-7, 1e-8, 1e-3)


def model_faults(setup: Setup) -> list[Fault]:
    """List what a peer may do otherwise with ids."""
    return [
        *_activation_faults(setup.model),
        *_epsilon_faults(setup.model),
        *_position_faults(setup.model),
        *_segment_faults(setup.model),
        *(
            Fault("ids", f"reads each id as the one {'after' if by > 0 else 'before'} it", _ids(by))
            for by in (1, -1)
        ),
    ]


def _activation_faults(model: Roberta) -> Iterator[Fault]:
    own = model.config.activation_fn
    own = "gelu_accurate" if own == "gelu_fast" else own
    for name, said in _ACTIVATIONS.items():
        if name != own:

            def edit(model: Roberta, name: str = name) -> None:
                for layer in model.transformer.layers:
                    layer.activation_fn = activation(name)  # type: ignore[assignment]

            def edit_head(model: Roberta, name: str = name) -> None:
                assert model.encoder.lm_head is not None
                model.encoder.lm_head.activation_fn = activation(name)

            said = f"computes {said}, and the model was trained with {_ACTIVATIONS.get(own, own)}"
            yield Fault("activation", said, _model(edit))
            if model.encoder.lm_head is not None:  # BERT's has the layers' activation
                yield Fault("activation", f"{said}, for masked words", _model(edit_head))


def _epsilon_faults(model: Roberta) -> Iterator[Fault]:
    own = model.config.layer_norm_eps
    for eps in _EPSILONS:
        if eps != own:

            def edit(model: Roberta, eps: float = eps) -> None:
                for module in model.modules():
                    if isinstance(module, nn.LayerNorm):
                        module.eps = eps

            said = f"adds {eps:g} in LayerNorm, and the model has {own:g}"
            yield Fault("layer norm epsilon", said, _model(edit))


def shifted(by: int) -> Remake:
    """Return what makes our model read positions that are so many further on."""

    def edit(model: Roberta) -> None:
        table = model.transformer.embed_positions
        rows = torch.arange(len(table.weight)).add(by).clamp(0, len(table.weight) - 1)
        table.weight = nn.Parameter(table.weight.detach()[rows.to(table.weight.device)])

    return _model(edit)


def _position_faults(model: Roberta) -> Iterator[Fault]:
    first = model.config.padding_idx + 1
    for by in dict.fromkeys((1, -1, 2, -2, -first)):
        way = "too far on" if by > 0 else "too early"
        yield Fault("positions", f"counts positions {abs(by)} {way}", shifted(by))

    def no_table(model: Roberta) -> None:
        table = model.transformer.embed_positions
        table.weight = nn.Parameter(torch.zeros_like(table.weight))

    def one_row(model: Roberta) -> None:
        table = model.transformer.embed_positions
        row = table.weight.detach()[first].expand_as(table.weight)
        table.weight = nn.Parameter(row.clone())

    yield Fault("positions", "adds no positions", _model(no_table))
    yield Fault("positions", "gives every token the first position", _model(one_row))


def _segment_faults(model: Roberta) -> Iterator[Fault]:
    if model.transformer.separator_idx is not None:
        said = "tells the second text of a pair no segment"
        yield Fault("segments", said, _model(_no_segments))


def _ids(by: int) -> Remake:
    def edit(model: Roberta) -> None:
        table = model.transformer.embed_tokens
        rows = torch.arange(len(table.weight)).add(by).clamp(0, len(table.weight) - 1)
        table.weight = nn.Parameter(table.weight.detach()[rows.to(table.weight.device)])
        model.tie_weights()

    return _model(edit)


def _model(edit: Callable[[Roberta], None]) -> Remake:
    return lambda setup: setup.with_model(edit)


# ---- vectors ----

_POOLINGS = ("mean", "cls", "max", "last_token", "mean_sqrt_len", "weighted_mean", "pooler")


def vector_faults(setup: Setup) -> list[Fault]:
    """List what a peer may do otherwise with hidden states."""
    own = setup.settings
    listed = " + ".join(own.pooling)
    found = [
        Fault("pooling", f"pools by {name}, and the model by {listed}", _settings(pooling=(name,)))
        for name in _POOLINGS
        if (name,) != own.pooling and (name != "pooler" or setup.model.pooler is not None)
    ]
    if own.layers:
        found.append(without_layers(setup))
    return found


def normalization(setup: Setup) -> Fault:
    """Return the fault of giving vectors another length than the model does."""
    said = "gives vectors length 1, and the model does not"
    if setup.settings.normalize:
        said = "leaves vectors as long as they are, and the model gives them length 1"
    return Fault("normalization", said, _settings(normalize=not setup.settings.normalize))


def shortened(width: int) -> list[Fault]:
    """List the ways of keeping the first numbers of vectors: as they are, or normalized again."""
    cut = _settings(truncate_dim=width)
    said = f"keeps the first {width} numbers of each vector"
    return [
        Fault("width", said, cut),
        Fault(
            "width",
            f"{said}, and gives them length 1 again",
            lambda setup: replace(cut(setup), renormalized=True),
        ),
    ]


def without_layers(setup: Setup) -> Fault:
    """Return the fault of giving the pooled vector without the layers over it."""
    listed = ", ".join(map(str, setup.settings.layers))
    said = f"leaves the layers over the pooled vector out ({listed})"
    return Fault("layers", said, _settings(layers=()))


def _settings(**changes: object) -> Remake:
    return lambda setup: replace(
        setup,
        settings=replace(setup.settings, **changes),  # type: ignore[arg-type]
    )


# ---- precision ----

Rounding = Callable[[Tensor], Tensor]


def precision_faults() -> list[Fault]:
    """List precisions under float32: of weights, of what is computed, and of what is stored."""
    found = [
        Fault(f"{places} decimals", f"gives numbers with {places} decimals", _stored(_cut(places)))
        for places in DECIMALS
    ]
    for name, dtype in (("float16", torch.float16), ("bfloat16", torch.bfloat16)):
        found += [
            Fault(name, f"stores its numbers in {name}", _stored(_through(dtype))),
            Fault(name, f"has weights in {name}", _rounded(_through(dtype), _ALL)),
            Fault(name, f"multiplies in {name}", _multiplied(_through(dtype))),
            Fault(name, f"computes in {name}", _computed(dtype)),
        ]
    found += [
        Fault("int8", f"has 8-bit {said}", _rounded(rounding, kinds))
        for said, rounding, kinds in (
            ("weights, a scale for each row", _by_rows, _MATRICES),
            ("weights, a scale for each matrix", _by_matrix, _MATRICES),
            ("weights and embeddings, a scale for each matrix", _by_matrix, _TABLES),
            ("weights, a scale and a zero for each matrix", _with_zero, _MATRICES),
            ("weights and embeddings, a scale and a zero for each", _with_zero, _TABLES),
        )
    ]
    # llama.cpp's: q8_0, and its functions of one number.
    said = "has 8-bit weights and inputs, a scale for each 32 of them"
    found.append(Fault("int8", said, _multiplied(_by_blocks)))
    # Our own int8 for AVX2.
    said = "has 8-bit weights, a scale for each row, and 7-bit inputs"
    found.append(Fault("int8", said, _multiplied(_for_avx2, _in_seven_bits)))
    found.append(Fault("float16", "looks activations up in a table of float16", _looked_up))
    return found


DECIMALS = (2, 3, 4, 5, 6)
"""With which vectors are stored as text."""
_BLOCK = 32
# Of model/compiled_avx2_int8.h: EACH, EACH * GROUP, MOST and BLOCK.
_AVX2_EACH = 4
_AVX2_STEP = 16
_AVX2_MOST = 254
_AVX2_BLOCK = 256
_MATRICES = (nn.Linear,)
_TABLES = (nn.Linear, nn.Embedding)
_ALL = (nn.Linear, nn.Embedding, nn.LayerNorm)


def _through(dtype: torch.dtype) -> Rounding:
    return lambda weight: weight.to(dtype).to(weight.dtype)


def _cut(places: int) -> Rounding:
    return lambda numbers: numbers.round(decimals=places)


def _stored(rounding: Rounding) -> Remake:
    return lambda setup: replace(setup, stored=rounding)


def _by_rows(weight: Tensor) -> Tensor:
    scale = weight.abs().amax(-1, keepdim=True).clamp(min=1e-30) / 127
    return (weight / scale).round().clamp(-127, 127) * scale


def _by_matrix(weight: Tensor) -> Tensor:
    scale = weight.abs().max().clamp(min=1e-30) / 127
    return (weight / scale).round().clamp(-127, 127) * scale


def _with_zero(weight: Tensor) -> Tensor:
    low, high = weight.min().clamp(max=0), weight.max().clamp(min=0)
    scale = (high - low).clamp(min=1e-30) / 255
    zero = (-low / scale).round()
    return ((weight / scale + zero).round().clamp(0, 255) - zero) * scale


def _rounded(rounding: Rounding, kinds: tuple[type[nn.Module], ...]) -> Remake:
    def edit(model: Roberta) -> None:
        for module in model.transformer.modules():
            for name, weight in module.named_parameters(recurse=False):
                if isinstance(module, kinds) and (weight.dim() > 1 or kinds is _ALL):
                    setattr(module, name, nn.Parameter(rounding(weight.detach())))

    return _model(edit)


def _by_blocks(values: Tensor) -> Tensor:
    if values.size(-1) % _BLOCK:
        return values
    blocks = values.view(*values.shape[:-1], -1, _BLOCK)
    scale = blocks.abs().amax(-1, keepdim=True) / 127
    whole = (blocks / scale.clamp(min=1e-30)).round()
    rounded: Tensor = whole * scale.half().to(scale.dtype)
    return rounded.flatten(-2)


def _for_avx2(weight: Tensor) -> Tensor:
    if weight.size(-1) % _AVX2_STEP:
        return _by_rows(weight)
    scale = row_scales(weight, _AVX2_EACH, _AVX2_STEP, _AVX2_MOST).unsqueeze(-1)
    return (weight / scale).round() * scale


def _in_seven_bits(values: Tensor) -> Tensor:
    """Round rows to 128 values between the least and the largest of each even block."""
    count = math.ceil(values.size(-1) / _AVX2_BLOCK)
    width = math.ceil(values.size(-1) / count / _AVX2_STEP) * _AVX2_STEP
    rounded = []
    for block in torch.split(values, width, dim=-1):
        low, high = block.aminmax(dim=-1, keepdim=True)
        step = (high - low).clamp(min=1e-20) / 127
        rounded.append(((block - low) / step).round() * step + low)
    return torch.cat(rounded, dim=-1)


def _multiplied(rounding: Rounding, of_inputs: Rounding | None = None) -> Remake:
    """Round the two factors of each product, as matrix units do; the sums stay exact."""
    round_inputs = of_inputs or rounding

    def edit(model: Roberta) -> None:
        for module in model.transformer.modules():
            if isinstance(module, nn.Linear):
                module.weight = nn.Parameter(rounding(module.weight.detach()))
                module.register_forward_pre_hook(lambda _, given: (round_inputs(given[0]),))

    return _model(edit)


def _looked_up(setup: Setup) -> Setup:
    def edit(model: Roberta) -> None:
        for layer in model.transformer.layers:
            function = cast(Rounding, layer.activation_fn)
            layer.activation_fn = _of_float16(function)  # type: ignore[assignment]

    return _model(edit)(setup)


def _of_float16(function: Rounding) -> Rounding:
    half = _through(torch.float16)
    return lambda x: half(function(half(x)))


def _computed(dtype: torch.dtype) -> Remake:
    return lambda setup: replace(setup, model=copy.deepcopy(setup.model).to(dtype))


def pairs_of(faults: Sequence[Fault]) -> Iterator[tuple[Fault, Fault]]:
    """Pairs of faults of different names."""
    return (
        (one, other) for one, other in itertools.combinations(faults, 2) if one.name != other.name
    )

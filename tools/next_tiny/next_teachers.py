"""Teaches roberta.tiny's teachers, and asks them: about pairs, moods, names and vectors.

All four are all-mpnet-base-v2 (Song et al. 2020; Reimers and Gurevych 2019; Apache-2.0), three of
them tuned on the tables of next_tables.py. Nothing here reads an evaluation set.

Legend: B rows of a batch, T columns, C width.
"""

from __future__ import annotations

import copy
import itertools
import json
import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from next_tables import TAGS
from tokenizers import Encoding, Tokenizer
from torch import Tensor, nn

BUCKETS, FARTHEST = 32, 128
CASES = 5
"""Forms of a word: lower case, capitalized, capitals, mixed, with digits. The teacher's pieces are
in lower case, and names are not."""
FAST, FASTER = ("weight", "bias", "cases.weight"), 20.0
"""Names of the parameters that begin anew, and how much faster they learn."""
POOL = 40
"""Batches whose rows are sorted by length together."""


def device() -> torch.device:
    """Return the GPU where there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


class MPNet(nn.Module):
    """MPNet's encoder on padded batches, with the attention of torch."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        from safetensors.torch import load_file

        state = widened(load_file(folder / "model.safetensors"))
        config = json.loads((folder / "config.json").read_text())
        self.heads = config["num_attention_heads"]
        prefix = "encoder.layer."
        self.words = self._table(state["embeddings.word_embeddings.weight"])
        self.places = self._table(state["embeddings.position_embeddings.weight"])
        self.norm = self._norm(state, "embeddings.LayerNorm")
        self.relative = self._table(state["encoder.relative_attention_bias.weight"])
        self.cases = nn.Embedding(CASES, self.words.weight.size(1))
        nn.init.zeros_(self.cases.weight)
        self.layers = nn.ModuleList()
        for i in range(config["num_hidden_layers"]):
            own = f"{prefix}{i}."
            self.layers.append(
                nn.ModuleDict(
                    {
                        **{
                            n: self._linear(state, f"{own}attention.attn.{n}")
                            for n in ("q", "k", "v", "o")
                        },
                        "norm1": self._norm(state, f"{own}attention.LayerNorm"),
                        "wide": self._linear(state, f"{own}intermediate.dense"),
                        "narrow": self._linear(state, f"{own}output.dense"),
                        "norm2": self._norm(state, f"{own}output.LayerNorm"),
                    }
                )
            )

    @staticmethod
    def _table(weight: Tensor) -> nn.Embedding:
        return nn.Embedding.from_pretrained(weight, freeze=False)

    @staticmethod
    def _linear(state: dict[str, Tensor], name: str) -> nn.Linear:
        weight = state[f"{name}.weight"]
        made = nn.Linear(weight.size(1), weight.size(0))
        made.load_state_dict({"weight": weight, "bias": state[f"{name}.bias"]})
        return made

    @staticmethod
    def _norm(state: dict[str, Tensor], name: str) -> nn.LayerNorm:
        made = nn.LayerNorm(len(state[f"{name}.bias"]), eps=1e-5)
        made.load_state_dict({k: state[f"{name}.{k}"] for k in ("weight", "bias")})
        return made

    def forward(self, ids: Tensor, cases: Tensor | None = None) -> Tensor:
        """Compute the last states: ids, padded with 1, (B, T) -> (B, T, C)."""
        real = ids.ne(1)
        x = self.words(ids) + self.places(real.long().cumsum(1) * real + 1)
        if cases is not None:
            x = x + self.cases(cases)
        x = self.norm(x)
        bias = self.relative(buckets(ids.size(1), ids.device)).permute(2, 0, 1)  # (H, T, T)
        low = -30000.0
        mask = bias[None] + torch.where(real, 0.0, low)[:, None, None].to(bias.dtype)
        for layer in self.layers:
            q, k, v = (layer[n](x).view(*ids.shape, self.heads, -1).transpose(1, 2) for n in "qkv")
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask.to(q.dtype))
            x = layer["norm1"](x + layer["o"](mixed.transpose(1, 2).flatten(2)))
            x = layer["norm2"](x + layer["narrow"](F.gelu(layer["wide"](x))))
        return x

    def mean(self, ids: Tensor) -> Tensor:
        """Compute the mean of the last states of real tokens, in float32: (B, C)."""
        shown = ids.ne(1).unsqueeze(2)
        return (self(ids).float() * shown).sum(1) / shown.sum(1)


def buckets(length: int, where: torch.device) -> Tensor:
    """Return the bucket of each distance between two places (Raffel et al. 2020): (T, T)."""
    steps = torch.arange(length, device=where)
    away = steps[:, None] - steps[None]
    half, exact = BUCKETS // 2, BUCKETS // 4
    far = away.abs()
    log = (far.clamp(min=1).float() / exact).log() / math.log(FARTHEST / exact)
    large = (exact + (log * (half - exact)).long()).clamp(max=half - 1)
    return (away < 0) * half + torch.where(far < exact, far, large)


def narrowed(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Write matrices in 8 bits, each row with a scale: a quarter of the bytes travels."""
    found = {}
    for name, tensor in state.items():
        if tensor.dim() != 2 or not tensor.is_floating_point():
            found[name] = tensor.clone()
            continue
        scale = tensor.abs().amax(1).clamp(min=1e-12) / 127
        found[name] = (tensor / scale[:, None]).round().to(torch.int8)
        found[f"{name}_scale"] = scale
    return found


def widened(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Read what `narrowed` wrote; other weights become float32."""
    return {
        name: tensor.float() * state[f"{name}_scale"][:, None]
        if f"{name}_scale" in state
        else tensor.float()
        for name, tensor in state.items()
        if not name.endswith("_scale")
    }


def tokenizer(folder: Path, longest: int) -> Tokenizer:
    """Load the teacher's tokenizer, which cuts what is too long."""
    made = Tokenizer.from_file(str(folder / "tokenizer.json"))
    made.no_padding()
    made.enable_truncation(longest)
    return made


def padded(rows: Sequence[Sequence[int]], fill: int = 1) -> Tensor:
    """Lay rows of ids out as one batch: (B, T), T a multiple of 8."""
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    width = -(-int(lengths.max()) // 8) * 8
    table = np.full((len(rows), width), fill)
    real = np.arange(width) < lengths[:, None]
    table[real] = np.fromiter(itertools.chain.from_iterable(rows), np.int64, int(lengths.sum()))
    return torch.from_numpy(table).to(device(), non_blocking=True)


def batches(lengths: Sequence[int], tokens: int, luck: random.Random | None) -> Iterator[list[int]]:
    """Deal rows to batches of like lengths; drawn anew with `luck`, else the longest first."""
    order = list(range(len(lengths)))
    if luck is None:
        order.sort(key=lambda i: -lengths[i])
        pools = [order]
    else:
        luck.shuffle(order)
        mean = max(1, sum(lengths) // max(1, len(lengths)))
        size = POOL * max(1, tokens // mean)
        pools = [
            sorted(order[i : i + size], key=lambda i: lengths[i])
            for i in range(0, len(order), size)
        ]
    dealt = []
    for pool in pools:
        some: list[int] = []
        longest = 0
        for i in pool:
            longest = max(longest, lengths[i])
            if some and (len(some) + 1) * longest > tokens:
                dealt.append(some)
                some, longest = [], lengths[i]
            some.append(i)
        dealt.append(some)
    if luck is not None:
        luck.shuffle(dealt)
    yield from dealt


def tune(
    modules: Sequence[nn.Module],
    lengths: Sequence[int],
    loss: Callable[[list[int]], Tensor],
    *,
    epochs: float,
    rate: float,
    tokens: int,
    named: str,
) -> None:
    """Train modules on batches of rows, the rate up for a twentieth and then down to 0.

    Args:
        modules: what learns.
        lengths: of the rows, in tokens.
        loss: of a batch, by the rows' numbers.
        epochs: how often each row is read.
        rate: the highest learning rate.
        tokens: of a batch, padding counted.
        named: for the lines that are printed.
    """
    luck = random.Random(1)
    plan = [b for _ in range(math.ceil(epochs)) for b in batches(lengths, tokens, luck)]
    plan = plan[: max(1, round(len(plan) * epochs / math.ceil(epochs)))]
    learnt = [p for module in modules for p in module.parameters()]
    # Heads and forms of words begin anew, and learn faster than what is known already.
    fast = [p for m in modules for n, p in m.named_parameters() if n in FAST]
    slow = [p for m in modules for n, p in m.named_parameters() if n not in FAST]
    groups = [{"params": slow, "share": 1.0}, {"params": fast, "share": FASTER}]
    adam = torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.98), weight_decay=0.01, fused=True)
    began, rise = time.monotonic(), max(1, len(plan) // 20)
    total = torch.zeros((), device=device())
    for number, some in enumerate(plan):
        for group in adam.param_groups:
            group["lr"] = (
                group["share"]
                * rate
                * min((number + 1) / rise, (len(plan) - number) / max(1, len(plan) - rise))
            )
        with torch.autocast(device().type, torch.bfloat16):
            found = loss(some)
        found.backward()
        torch.nn.utils.clip_grad_norm_(learnt, 1.0, foreach=True)
        adam.step()
        adam.zero_grad()
        total += found.detach()
        if number % 200 == 199 or number + 1 == len(plan):
            mean = float(total) / (number % 200 + 1)
            seconds = time.monotonic() - began
            print(f"{named}: {number + 1}/{len(plan)} loss {mean:.4f} {seconds:.0f} s", flush=True)
            total.zero_()


@torch.no_grad()
def ask(
    lengths: Sequence[int], answer: Callable[[list[int]], Tensor], tokens: int = 65536
) -> Tensor:
    """Return the answer to each row, on the CPU in half precision: (rows, any)."""
    found = torch.empty(0)
    with torch.autocast(device().type, torch.bfloat16):
        for some in batches(lengths, tokens, None):
            answers = answer(some).half()
            if not len(found):
                found = answers.new_empty(len(lengths), answers.size(1))
            found[some] = answers
    return found.cpu()


class Pairs:
    """A teacher that reads one text or two, and tells how likely each of three labels is."""

    def __init__(self, network: MPNet, folder: Path, longest: int) -> None:
        torch.manual_seed(1)
        self.network, self.tokenizer = network, tokenizer(folder, longest)
        self.head = nn.Linear(network.words.weight.size(1), 3).to(device())

    def encode(self, texts: Sequence[Any]) -> list[list[int]]:
        """Cut texts, or (text, text), into ids."""
        return [found.ids for found in self.tokenizer.encode_batch(list(texts))]

    def learn(self, texts: Sequence[Any], targets: Tensor, **how: Any) -> None:
        """Learn probabilities of labels: (rows, 3)."""
        ids, targets = self.encode(texts), targets.to(device())

        def loss(some: list[int]) -> Tensor:
            logits = self.head(self.network.mean(padded([ids[i] for i in some])))
            return F.cross_entropy(logits.float(), targets[some])

        tune([self.network, self.head], [len(row) for row in ids], loss, **how)

    def likely(self, texts: Sequence[Any]) -> Tensor:
        """Tell the probabilities of the labels: (rows, 3)."""
        ids = self.encode(texts)

        def answer(some: list[int]) -> Tensor:
            found = self.head(self.network.mean(padded([ids[i] for i in some])))
            return found.float().softmax(1)

        return ask([len(row) for row in ids], answer).float()


def near(base: MPNet, folder: Path, rows: Sequence[dict[str, Any]], share: float) -> MPNet:
    """Tune vectors so that what follows lies near, and what contradicts far (Gao et al. 2021)."""
    of: dict[str, dict[int, list[str]]] = {}
    for row in rows:
        of.setdefault(row["a"], {}).setdefault(row["label"], []).append(row["b"])
    triples = [
        (a, b, of[a][0][i % len(of[a][0])])
        for a in of
        if 0 in of[a]
        for i, b in enumerate(of[a].get(2, []))
    ]
    network, pieces = copy.deepcopy(base), tokenizer(folder, 64)
    sides = [
        [found.ids for found in pieces.encode_batch(list(side))]
        for side in zip(*triples, strict=True)
    ]
    lengths = [max(len(side[i]) for side in sides) for i in range(len(triples))]

    def loss(some: list[int]) -> Tensor:
        a, b, c = (
            F.normalize(network.mean(padded([side[i] for i in some])), dim=1) for side in sides
        )
        return F.cross_entropy(
            a @ torch.cat([b, c]).T / 0.05, torch.arange(len(some), device=a.device)
        )

    print(f"{len(triples)} triples", flush=True)
    tune(
        [network],
        lengths,
        loss,
        epochs=1.0 * min(1, share * 20),
        rate=2e-5,
        tokens=8192,
        named="near",
    )
    return network


def vectors(network: Any, ids: Sequence[Sequence[int]]) -> Tensor:
    """Compute sentence vectors of length 1 in half precision: (rows, C)."""

    def answer(some: list[int]) -> Tensor:
        return F.normalize(network.mean(padded([ids[i] for i in some])), dim=1)

    return ask([len(row) for row in ids], answer)


def cut(folder: Path, texts: Sequence[str], longest: int) -> list[list[int]]:
    """Cut texts into a teacher's ids."""
    return [found.ids for found in tokenizer(folder, longest).encode_batch_fast(list(texts))]


def case_of(word: str) -> int:
    """Tell the form of a word, which pieces in lower case lose."""
    if any(c.isdigit() for c in word):
        return 4
    if word == word.lower():
        return 0
    if word[0].isupper() and word[1:] == word[1:].lower():
        return 1
    return 2 if word == word.upper() else 3


class Names:
    """A teacher that tells how likely each tag of each word is."""

    def __init__(self, network: MPNet, folder: Path) -> None:
        torch.manual_seed(1)
        self.network, self.tokenizer = network, tokenizer(folder, 256)
        self.head = nn.Linear(network.words.weight.size(1), len(TAGS)).to(device())

    def encode(
        self, rows: Sequence[dict[str, Any]]
    ) -> list[tuple[list[int], list[int], list[int]]]:
        """Cut words into ids, the form of each id's word, and the first piece of each word."""
        texts = [row["words"] for row in rows]
        return [
            self._of(row["words"], found)
            for row, found in zip(
                rows, self.tokenizer.encode_batch(texts, is_pretokenized=True), strict=True
            )
        ]

    @staticmethod
    def _of(words: list[str], found: Encoding) -> tuple[list[int], list[int], list[int]]:
        forms, firsts = [], [-1] * len(words)
        for place, word in enumerate(found.word_ids):
            forms.append(0 if word is None else case_of(words[word]))
            if word is not None and firsts[word] < 0:
                firsts[word] = place
        return found.ids, forms, firsts

    def _logits(
        self, some: Sequence[tuple[list[int], list[int], list[int]]]
    ) -> tuple[Tensor, Tensor]:
        states = self.network(padded([r[0] for r in some]), padded([r[1] for r in some], 0))
        rows = [i for i, r in enumerate(some) for f in r[2] if f >= 0]
        columns = [f for r in some for f in r[2] if f >= 0]
        return self.head(states[rows, columns]).float(), torch.tensor(rows)

    def learn(self, rows: Sequence[dict[str, Any]], **how: Any) -> None:
        """Learn the tags of words; "" teaches nothing."""
        encoded = self.encode(rows)

        def loss(some: list[int]) -> Tensor:
            logits, _ = self._logits([encoded[i] for i in some])
            tags = [
                TAGS.index(tag) if tag else -100
                for i in some
                for tag, first in zip(rows[i]["tags"], encoded[i][2], strict=True)
                if first >= 0
            ]
            return F.cross_entropy(logits, torch.tensor(tags, device=logits.device))

        tune([self.network, self.head], [len(r[0]) for r in encoded], loss, **how)

    @torch.no_grad()
    def likely(self, rows: Sequence[dict[str, Any]]) -> list[Tensor]:
        """Tell the probabilities of each word's tags: (words, tags); "O" of a word that was cut."""
        encoded = self.encode(rows)
        found: list[Any] = [None] * len(rows)
        with torch.autocast(device().type, torch.bfloat16):
            for some in batches([len(r[0]) for r in encoded], 32768, None):
                logits, owner = self._logits([encoded[i] for i in some])
                likely = logits.softmax(1).cpu()
                for place, i in enumerate(some):
                    own = torch.zeros(len(rows[i]["words"]), len(TAGS))
                    own[:, 0] = 1
                    read = [n for n, first in enumerate(encoded[i][2]) if first >= 0]
                    own[read] = likely[owner == place]
                    found[i] = own
        return found

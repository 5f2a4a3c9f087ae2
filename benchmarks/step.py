"""Times a masked-LM training step against transformers' and fairseq's.

The model has 4 layers of width 256, a batch 32 x 128 tokens.

    python benchmarks/step.py                  # about three minutes on two cores

Each step is forward, backward and AdamW on float32 weights, dropout 0.1, 15 % of the tokens masked,
the same tokens for all. Ours is the step of our loop: the LM head on masked tokens only, the fused
optimizer. The engines take turns, begin with the same weights, and must agree in the first loss.
Writes `benchmarks/results/step.{md,json}`.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable

import torch
from lib.report import about, write
from lib.timing import by_turns
from torch import Tensor

import roberta_hub
from roberta_hub import RobertaConfig, RobertaHubInterface, RobertaModel
from roberta_hub.model.packing import pack
from roberta_hub.train.tasks.masked_lm import MaskedLM
from roberta_hub.train.tasks.training_task import Batch

BATCH, LENGTH, MASKED = 32, 128, 0.15
MASK = 50264


def data() -> tuple[Tensor, Tensor, Tensor]:
    """Make (tokens with masks, tokens, which of them are masked), each (B, T)."""
    torch.manual_seed(1)
    tokens = torch.randint(4, 50_000, (BATCH, LENGTH))
    chosen = torch.rand(BATCH, LENGTH) < MASKED
    return tokens.masked_fill(chosen, MASK), tokens, chosen


def ours(model: RobertaModel) -> Callable[[], float]:
    """Make our step, as `roberta_hub/train/loop/updates.py` does it."""
    seen, tokens, chosen = data()
    packed = pack(seen, padding_idx=1)
    lm = MaskedLM(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    targets = {"rows": chosen.flatten().nonzero().squeeze(1), "ids": tokens[chosen]}
    batch = Batch(packed, targets, int(chosen.sum()))

    def step() -> float:
        optimizer.zero_grad()
        loss = lm(batch).total / batch.count
        loss.backward()
        optimizer.step()
        return float(loss)

    return step


def transformers(folder: str) -> Callable[[], float]:
    """Make transformers' step, as its examples train."""
    from transformers import RobertaForMaskedLM

    seen, tokens, chosen = data()
    model = RobertaForMaskedLM.from_pretrained(folder).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    labels = tokens.masked_fill(~chosen, -100)

    def step() -> float:
        optimizer.zero_grad()
        loss = model(input_ids=seen, labels=labels).loss
        loss.backward()
        optimizer.step()
        return float(loss)

    return step


def fairseq(roberta: RobertaHubInterface) -> Callable[[], float]:
    """Make fairseq's step; its criterion tells the model which tokens are masked."""
    from roberta_hub.fairseq_bridge import to_fairseq

    seen, tokens, chosen = data()
    model = to_fairseq(roberta).model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step() -> float:
        optimizer.zero_grad()
        logits = model(seen, masked_tokens=chosen)[0]
        loss = torch.nn.functional.cross_entropy(logits, tokens[chosen])
        loss.backward()
        optimizer.step()
        return float(loss)

    return step


def main() -> None:
    """Measure, print, and write the result."""
    torch.manual_seed(0)
    known = roberta_hub.load_model("roberta.tiny")
    config = RobertaConfig(embed_dim=256, ffn_dim=1024, num_layers=4, num_heads=4)
    roberta = RobertaHubInterface(config, known.task, RobertaModel(config))
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(None):
        roberta.save(folder, format="huggingface")
        steps = {
            "transformers": transformers(folder),
            "fairseq": fairseq(roberta),
            "roberta_hub": ours(roberta.model.train()),
        }
        first = {name: step() for name, step in steps.items()}
        assert max(first.values()) - min(first.values()) < 0.05, first  # dropout differs
        samples = by_turns(steps, 7)
    theirs = samples["transformers"].median
    lines = [
        "| engine | step | tokens/s | over transformers | first loss | samples |",
        "|---|--:|--:|--:|--:|---|",
    ]
    for name, s in samples.items():
        lines.append(
            f"| {name} | {1000 * s.median:.0f} ms | {BATCH * LENGTH / s.median:,.0f} | "
            f"{theirs / s.median:.2f} x | {first[name]:.3f} | {s} |"
        )
    page = (
        "# A training step\n\n4 layers x 256, 50,265 symbols, 32 x 128 tokens, 15 % masked, "
        "float32, AdamW. "
        "Goal: 3.4 times transformers, ahead of fairseq.\nAgain: `python benchmarks/step.py`.\n\n"
        + "\n".join(lines)
    )
    print(page)
    numbers = {n: s.seconds for n, s in samples.items()}
    write("step", page, {"about": about("torch", "transformers", "fairseq"), "seconds": numbers})


if __name__ == "__main__":
    main()

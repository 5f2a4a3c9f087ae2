"""Features, vectors and training steps on a GPU in bfloat16, against transformers, on ragged text.

The card's own peak is shown next to them.

    python benchmarks/gpu.py                          # base and large
    python benchmarks/gpu.py --device cpu --items 8 --sizes base     # whether it works, without GPU

The corpus is that of `speed.py`. A peer gets batches sorted by length, of as many slots as we have
tokens a batch; `sdpa` is what it does by itself, `flash_attention_2` needs the package flash-attn.
The peak is the best of some square bfloat16 products in the same run; the share of it counts the
layers' products for real tokens. Vectors are the means of 10,000 sentences, from `str` on, beside
sentence-transformers. Writes `benchmarks/results/gpu.{md,json}` on a GPU.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from lib.corpus import Text, corpus, sentences
from lib.engines import Ids, ours, padded, random_model
from lib.flops import flops
from lib.report import about, write
from lib.timing import Samples, by_turns

from roberta_hub.inference.batching import BATCH_TOKENS
from roberta_hub.model.packing import pack_sequences
from roberta_hub.train.tasks.masked_lm import MaskedLM
from roberta_hub.train.tasks.training_task import Batch

MASK, MASKED = 50264, 0.15
ATTENTION = ("sdpa", "flash_attention_2")
TRAINED = 8192
"""Tokens of a training step."""


def finished(device: torch.device, run: Callable[[], object]) -> None:
    """Run it to its end: a GPU's work is only begun when a call returns."""
    run()
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def peak(device: torch.device) -> float:
    """FLOPs a second of the best square product in bfloat16."""
    found = []
    for size in (4096, 8192, 12288) if device.type == "cuda" else (512,):
        a, b = torch.randn(2, size, size, device=device, dtype=torch.bfloat16)
        run = partial(finished, device, partial(torch.matmul, a, b))
        found.append(2 * size**3 / by_turns({"product": run}, 10)["product"].median)
    return max(found)


def groups(ids: Ids, slots: int) -> list[Ids]:
    """Texts by length, in batches of so many slots with padding."""
    found: list[Ids] = []
    for row in sorted(ids, key=lambda row: -len(row)):
        if not found or (len(found[-1]) + 1) * len(found[-1][0]) > slots:
            found.append([])
        found[-1].append(row)
    return found


def theirs(folder: Path, attention: str, device: torch.device, kind: str) -> Any:
    """A model of transformers' on the device.

    "RobertaModel" is in bfloat16, "RobertaForMaskedLM" in float32.
    """
    import transformers

    settings: dict[str, Any] = {"attn_implementation": attention}
    if kind == "RobertaModel":
        settings |= {"dtype": torch.bfloat16, "add_pooling_layer": False}
    return getattr(transformers, kind).from_pretrained(folder, **settings).to(device)


def features(folder: Path, size: str, ids: Ids, device: torch.device) -> dict[str, Any]:
    """Ways to get every text's features, which stay on the device."""
    roberta, dtype = random_model(size).to(device), "bfloat16" if device.type == "cuda" else None
    ways: dict[str, Any] = {"roberta_hub": partial(ours(roberta, dtype), ids)}
    batches = groups(ids, BATCH_TOKENS.get(device.type, BATCH_TOKENS["cuda"]))
    for attention in ATTENTION:
        try:
            model = theirs(folder, attention, device, "RobertaModel").eval()
        except (ImportError, ValueError) as error:
            print(f"transformers, {attention}: not measured, {str(error).splitlines()[0]}")
            continue
        ways[f"transformers, {attention}"] = partial(_encode, model, batches, device)
    return ways


def _encode(model: Any, batches: list[Ids], device: torch.device) -> None:
    with torch.inference_mode():
        for rows in batches:
            tokens = padded(rows).to(device)
            model(tokens, attention_mask=tokens.ne(1).long())


def rows_of(ids: Ids) -> Ids:
    """The first texts that fit into a training step."""
    rows: Ids = []
    for row in ids:
        if sum(map(len, rows)) + len(row) <= TRAINED:
            rows.append(row)
    return rows


def steps(folder: Path, size: str, rows: Ids, device: torch.device) -> dict[str, Any]:
    """Training steps of a masked LM on these texts, under autocast."""
    torch.manual_seed(1)
    chosen = [torch.rand(len(row)) < MASKED for row in rows]
    hidden = [row.masked_fill(c, MASK) for row, c in zip(rows, chosen, strict=True)]
    flat = torch.cat(chosen)
    targets = {"rows": flat.nonzero().squeeze(1), "ids": torch.cat(rows)[flat]}
    batch = Batch(pack_sequences(hidden, padding_idx=1), targets, int(flat.sum())).to(device)
    lm = MaskedLM(random_model(size).model.to(device).train())  # type: ignore[arg-type]
    own = torch.optim.AdamW(lm.parameters(), lr=1e-5, fused=True)

    def our_loss() -> torch.Tensor:
        return lm(batch).total / batch.count

    ways = {"roberta_hub": partial(_step, our_loss, own, device)}
    model = theirs(folder, "sdpa", device, "RobertaForMaskedLM").train()
    tokens = padded(hidden).to(device)
    labels = torch.nn.utils.rnn.pad_sequence(
        [row.masked_fill(~c, -100) for row, c in zip(rows, chosen, strict=True)],
        batch_first=True,
        padding_value=-100,
    ).to(device)

    def their_loss() -> torch.Tensor:
        mask = tokens.ne(1).long()
        loss: torch.Tensor = model(tokens, attention_mask=mask, labels=labels).loss
        return loss

    other = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    return ways | {"transformers, sdpa": partial(_step, their_loss, other, device)}


def _step(
    loss: Callable[[], torch.Tensor], optimizer: torch.optim.Optimizer, device: torch.device
) -> None:
    optimizer.zero_grad()
    with torch.autocast(device.type, torch.bfloat16):
        value = loss()
    value.backward()  # type: ignore[no-untyped-call]
    optimizer.step()


def vectors(folder: Path, size: str, texts: list[str], device: torch.device) -> dict[str, Any]:
    """Ways from texts to the means of their tokens, which stay on the device."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    model = random_model(size).to(device)
    model.optimize("bfloat16" if device.type == "cuda" else None)
    body = Transformer(str(folder), model_kwargs={"dtype": torch.bfloat16})
    other = SentenceTransformer(
        modules=[body, Pooling(model.model.args.encoder_embed_dim)], device=str(device)
    )

    def encode(batch: int) -> object:
        return other.encode(texts, batch_size=batch, convert_to_tensor=True)

    peers = {f"sentence-transformers, {n} a batch": partial(encode, n) for n in (32, 512)}
    return {"roberta_hub": partial(model.features, texts, pooling="mean", progress=False)} | peers


def table(samples: dict[str, Samples], tokens: int, unit: str = "tokens") -> list[str]:
    """Ours first."""
    base = samples["roberta_hub"].median
    return [
        f"| engine | {unit}/s | ours is faster | samples |",
        "|---|--:|--:|---|",
        *(
            f"| {n} | {tokens / s.median:,.0f} | {s.median / base:.2f} x | {s} |"
            for n, s in samples.items()
        ),
    ]


def of_size(
    size: str, texts: list[Text], alone: list[str], device: torch.device, top: float
) -> tuple[list[str], dict[str, Any]]:
    """Tables and numbers of one size of model.

    Args:
        size: "base" or "large".
        texts: for features and steps.
        alone: sentences, for vectors.
        device: the GPU.
        top: its peak, in FLOPs a second.
    """
    roberta = random_model(size)
    ids = [row[:512] for row in roberta.encode_batch(texts)]
    middle = sorted(ids, key=len)[2 * len(ids) // 5 :]
    trained = {"texts as they come": rows_of(ids), "texts of like length": rows_of(middle)}
    with tempfile.TemporaryDirectory() as folder:
        roberta.save(folder, format="huggingface")
        encoded = by_turns(
            {
                n: partial(finished, device, run)
                for n, run in features(Path(folder), size, ids, device).items()
            },
            5,
        )
        stays = vectors(Path(folder), size, alone, device)
        means = by_turns({n: partial(finished, device, run) for n, run in stays.items()}, 5)
        learnt = {}
        for name, rows in trained.items():
            ways = steps(Path(folder), size, rows, device)
            learnt[name] = by_turns({n: partial(finished, device, w) for n, w in ways.items()}, 5)
    share = flops(roberta, ids) / encoded["roberta_hub"].median / top
    tokens = sum(map(len, ids))
    pages = [f"## {size}, features of {len(ids)} texts", *table(encoded, tokens)]
    pages += ["", f"Ours does {100 * share:.0f} % of the card's peak."]
    pages += [f"## {size}, vectors of {len(alone):,} sentences"]
    pages += table(means, len(alone), "sentences")
    for name, samples in learnt.items():
        rows = trained[name]
        slots = len(rows) * max(map(len, rows))
        pages += [f"## {size}, training step, {name}"]
        pages += [f"{len(rows)} texts of {sum(map(len, rows)):,} tokens; padded, {slots:,}."]
        pages += ["", *table(samples, sum(map(len, rows)))]
    return pages, {
        "features": {n: s.seconds for n, s in encoded.items()},
        "vectors": {n: s.seconds for n, s in means.items()},
        "step": {t: {n: s.seconds for n, s in own.items()} for t, own in learnt.items()},
        "share": share,
    }


def main() -> None:
    """Measure, print, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda", type=torch.device)
    parser.add_argument("--items", default=1000, type=int)
    parser.add_argument("--sizes", default=["base", "large"], nargs="+")
    options = parser.parse_args()
    device = options.device
    source, texts = corpus(options.items // 2)
    alone = sentences(10 * options.items)
    top = peak(device)
    card = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    pages, numbers = [f"{card}: {top / 1e12:.1f} TFLOPS in bfloat16 at best."], {}
    for size in options.sizes:
        own, numbers[size] = of_size(size, texts, alone, device, top)
        pages += own
    page = f"# On a GPU\n\n{source}. Again: `python benchmarks/gpu.py`.\n\n" + "\n".join(
        f"\n{line}\n" if line.startswith("#") else line for line in pages
    )
    print(page)
    if device.type == "cuda":
        found = {
            "about": about("torch", "transformers", "sentence-transformers"),
            "card": card,
            "peak": top,
        }
        write("gpu", page, found | numbers)


if __name__ == "__main__":
    main()

"""Encoders on a CPU with AVX2 alone, or limited to it: one text and a corpus, against peers.

    python benchmarks/avx2.py              # some twelve minutes on two cores
    python benchmarks/avx2.py --sizes base

The same weights in every engine, one thread, CPU milliseconds: medians by turns in one process for
each size. Where the CPU has AVX-512 every library is limited to AVX2 by its own variable (OpenVINO
by oneDNN's); ONNX Runtime has none and is left out there. The least cosine is that of a token of 16
texts, to our float32. Writes `benchmarks/results/avx2_CPU.{md,json}`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import torch
from lib import engines
from lib.corpus import corpus, sentences
from lib.guard import short_name, this_cpu
from lib.report import about, write

import roberta_hub
from roberta_hub.model.kernels import cpu
from roberta_hub.model.matrices import prepare_matrix

LIMITS = {
    "ROBERTA_HUB_ISA": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "ATEN_CPU_CAPABILITY": "avx2",
    "CT2_FORCE_CPU_ISA": "AVX2",
}
LENGTHS = (8, 16, 32, 48, 128)
CORPUS_TEXTS = 48
SENTENCES = 200
SIZES: dict[str, dict[str, int]] = {
    "roberta.tiny": {},
    "base": {},
    "6 x 384": {
        "encoder_embed_dim": 384,
        "encoder_ffn_embed_dim": 1536,
        "encoder_layers": 6,
        "encoder_attention_heads": 12,
    },
}
PEERS: dict[str, tuple[Callable[[Path, str], engines.Encode], bool]] = {
    "CTranslate2": (engines.ctranslate2, True),
    "ONNX Runtime": (engines.onnxruntime, False),
    "OpenVINO": (engines.openvino, True),
}
"""Peers, and whether a variable limits them."""
MODULES = {"CTranslate2": "ctranslate2", "ONNX Runtime": "onnxruntime", "OpenVINO": "openvino"}
OURS = {"plain": "plain", "optimize": None, "optimize, int8": "int8"}
VNNI = "optimize, int8 by AVX-VNNI"
"""The level above AVX2, in AVX-512's encoding where the CPU has only that."""
LEAST_COSINE = {"roberta.tiny": 0.98, "base": 0.999, "6 x 384": 0.999}
"""Peers that a ratio is taken over; less exact ones are only shown."""
Ids = list[torch.Tensor]


def model(size: str) -> roberta_hub.RobertaHubInterface:
    """Weights of a size, the same each time: roberta.tiny's own, random ones of the others."""
    if size == "roberta.tiny":
        return roberta_hub.load_model(size).eval()
    torch.manual_seed(0)
    return roberta_hub.load_model("roberta.base", pretrained=False, **SIZES[size]).eval()


def ways(size: str, folder: Path) -> dict[str, engines.Engine]:
    """Our engines and the peers that are here."""
    found = {name: engines.ours(model(size), dtype) for name, dtype in OURS.items()}
    if "avx512_vnni" in cpu().features:
        with pinned("avx_vnni"):
            found[VNNI] = engines.ours(model(size), "int8")
    peers = [name for name, (_, limited) in PEERS.items() if limited or not has_more()]
    model(size).save(folder, format="huggingface")
    for name in peers:
        if find_spec(MODULES[name]):
            kinds = ["float32", "int8", *(["int8, calibrated"] if name == "OpenVINO" else [])]
            for kind in kinds:
                end = "" if kind == "float32" else f", {kind}"
                found[name + end] = engines.in_batches(PEERS[name][0](folder, kind))
    return found


@contextmanager
def pinned(level: str) -> Iterator[None]:
    """Layers that are prepared meanwhile are laid out for this level."""
    before = os.environ["ROBERTA_HUB_ISA"]
    os.environ["ROBERTA_HUB_ISA"] = level
    yield
    os.environ["ROBERTA_HUB_ISA"] = before


def has_more() -> bool:
    """Whether this CPU has more than AVX2."""
    return "avx512f" in cpu().features


def measure(size: str, folder: Path, rounds: int) -> dict[str, Any]:
    """CPU milliseconds of each engine, and its least cosine."""
    torch.set_num_threads(1)
    found = ways(size, folder)
    generator = torch.Generator().manual_seed(1)
    tokenizer = model(size)
    texts = [tokenizer.encode(*([t] if isinstance(t, str) else t)) for t in corpus(200)[1]]
    texts = [ids[:512] for ids in texts]
    drawn = torch.randperm(len(texts), generator=generator).tolist()
    short = [tokenizer.encode(text) for text in sentences(5 * SENTENCES)]
    drawn_short = torch.randperm(len(short), generator=generator).tolist()

    def some(length: int) -> Ids:
        return [torch.randint(5, 50000, (length,), generator=generator)]

    def ragged() -> Ids:
        return [texts[drawn.pop()] for _ in range(CORPUS_TEXTS)]

    shapes: dict[str, tuple[Callable[[], Ids], int]] = {
        str(length): (lambda length=length: some(length), rounds) for length in LENGTHS
    }
    shapes["corpus"] = (ragged, 3)
    if size != "base":  # a sentence encoder's work; base has none
        shapes["sentences"] = (lambda: [short[drawn_short.pop()] for _ in range(SENTENCES)], 3)
    numbers: dict[str, dict[str, float]] = {name: {} for name in found}
    for shape, (make, count) in shapes.items():
        seconds: dict[str, list[float]] = {name: [] for name in found}
        for turn in range(count + 1):
            ids = make()
            for name, engine in found.items():
                began = time.process_time()
                engine(ids)
                if turn:
                    seconds[name].append((time.process_time() - began) / sum(map(len, ids)))
        for name, own in seconds.items():
            numbers[name][shape] = median(own)
    compared = [texts[i] for i in range(16)]
    exact = found["plain"](compared)
    for name, engine in found.items():
        near = [
            torch.cosine_similarity(a, b, dim=-1).min()
            for a, b in zip(exact, engine(compared), strict=True)
        ]
        numbers[name]["cosine"] = float(min(near))
    return {"seconds a token": numbers, "products": products(size)}


def products(size: str) -> float:
    """Seconds a token of the layers' products alone, in float32, 512 rows at a time."""
    c = model(size).model.config
    shapes = [(3 * c.embed_dim, c.embed_dim), (c.embed_dim, c.embed_dim)]
    shapes += [(c.ffn_dim, c.embed_dim), (c.embed_dim, c.ffn_dim)]
    seconds = []
    with torch.inference_mode():
        made = [
            (prepare_matrix(torch.randn(n, k), torch.zeros(n), None), torch.randn(512, k))
            for n, k in shapes
        ]
        for _ in range(12):
            began = time.process_time()
            for multiply, x in made:
                multiply(x)
            seconds.append(time.process_time() - began)
    return median(seconds) * c.num_layers / 512


def page(numbers: dict[str, Any]) -> str:
    """The tables."""
    lines = [
        "# A CPU with AVX2",
        "",
        "CPU milliseconds of one text by its tokens, one thread; of a corpus, and of sentences",
        "alone, tokens a CPU second.",
        "Ratio: over ours the time of the fastest peer of the precision whose least cosine is",
        "0.999, or 0.98 of roberta.tiny's trained weights.",
        "Again: `python benchmarks/avx2.py`.",
    ]
    for size, found in numbers.items():
        rows = found["seconds a token"]
        lines += ["", f"## {size}", ""]
        many = [shape for shape in ("corpus", "sentences") if shape in rows["plain"]]
        lines += [f"| engine | {' | '.join([*map(str, LENGTHS), *many])} | least cosine |"]
        lines += ["|---" + "|--:" * (len(LENGTHS) + len(many) + 1) + "|"]
        for name, row in rows.items():
            cells = [f"{1000 * row[str(n)] * n:.1f}" for n in LENGTHS]
            cells += [f"{1 / row[shape]:,.0f}" for shape in many] + [f"{row['cosine']:.5f}"]
            lines.append(f"| {name} | {' | '.join(cells)} |")
        for own, end in (("optimize", ""), ("optimize, int8", ", int8"), (VNNI, ", int8")):
            peers = [
                name
                for name, row in rows.items()
                if name not in (*OURS, VNNI)
                and ("int8" in name) == bool(end)
                and row["cosine"] >= LEAST_COSINE[size]
            ]
            if peers and own in rows:
                ratios = [
                    min(rows[n][shape] for n in peers) / rows[own][shape]
                    for shape in (*map(str, LENGTHS), *many)
                ]
                cells = [f"{ratio:.2f}" for ratio in ratios]
                lines.append(f"| ratio of {own} | {' | '.join(cells)} | |")
        share = found["products"] / rows["optimize"]["corpus"]
        lines += ["", f"`optimize` has {share:.0%} of the speed of the layers' products alone."]
    return "\n".join(lines)


def main() -> None:
    """Each size in a process of its own, which the variables limit from its start."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--here", help="a size: measure in this process, print")
    options = parser.parse_args()
    if options.here:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(measure(options.here, Path(folder) / "model", options.rounds)))
        return
    limits = LIMITS if has_more() else {}
    numbers: dict[str, Any] = {}
    for size in options.sizes:
        command = [sys.executable, __file__, "--here", size, "--rounds", str(options.rounds)]
        environment = {**os.environ, **limits, "OMP_NUM_THREADS": "1"}
        ran = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment)
        numbers[size] = json.loads(ran.stdout.splitlines()[-1])
    os.environ |= limits
    table = page(numbers)
    print(table)
    if set(numbers) == set(SIZES):
        rows = numbers["base"]["seconds a token"]
        packages = ["torch", *(MODULES[name] for name in PEERS if name in rows)]
        name = f"avx2_{short_name(this_cpu())}"
        write(name, table, {"about": about(*packages), "limits": limits, "sizes": numbers})


if __name__ == "__main__":
    main()

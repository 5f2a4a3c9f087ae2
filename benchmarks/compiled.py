"""One text through compiled layers, through torch's operators and through ONNX Runtime.

    python benchmarks/compiled.py              # some ten minutes on two cores

RoBERTa's base and the shape of all-MiniLM-L6-v2 (6 layers of 384), random weights. "torch" is our
own path where the compiled part was not built. By turns, all-different texts, in one process for
each size and form of weights; medians of the rounds in which nobody else used the machine, of all
where none was so. What reading the weights once would take is measured in the same minute. Writes
`benchmarks/results/compiled_CPU.{md,json}`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from lib import engines
from lib.guard import short_name, this_cpu
from lib.report import about, write
from lib.timing import by_turns

import roberta_hub
from roberta_hub.model import compiled, kernels
from roberta_hub.model.compiled import WEIGHT_FORMATS

LENGTHS = (8, 16, 32, 48, 128, 512)
SIZES: dict[str, dict[str, int]] = {
    "base": {},
    "6 x 384": {
        "encoder_embed_dim": 384,
        "encoder_ffn_embed_dim": 1536,
        "encoder_layers": 6,
        "encoder_attention_heads": 12,
    },
}
PAUSE = 0.2
"""Seconds between two ways, in which the threads of the one before stop spinning."""
BYTES = {"float32": 4, "float16": 2, "int8": 1, "bfloat16": 2}


def model(size: str) -> roberta_hub.RobertaHubInterface:
    """Random weights of a size, in eval mode; the same each time."""
    torch.manual_seed(0)
    return roberta_hub.load_model("roberta.base", pretrained=False, **SIZES[size]).eval()


def forms(size: str, held: str) -> dict[str, engines.Engine]:
    """Our engine with compiled layers for any number of rows, and on torch's operators."""
    dtype = held if held in ("int8", "bfloat16") else None
    found = {}
    for name, rows in (("compiled", kernels.ANY_ROWS), ("torch", 0)):
        roberta = model(size)
        if held == "float16":
            engines.rounded(roberta)
        limits = {form: rows if form == held else 0 for form in WEIGHT_FORMATS}
        with mock.patch.object(
            kernels, "COMPILED_ROWS", dict.fromkeys(kernels.COMPILED_ROWS, limits)
        ):
            found[name] = engines.ours(roberta, dtype)
    return found


def texts(length: int, rounds: int) -> Callable[[], list[torch.Tensor]]:
    """A call that gives another text of so many tokens each time."""
    generator = torch.Generator().manual_seed(length)
    drawn = iter(torch.randint(5, 50000, (8 * rounds + 8, length), generator=generator))
    return lambda: [next(drawn)]


def measure(size: str, held: str, folder: Path, rounds: int) -> dict[str, Any]:
    """Milliseconds of each engine and length, and of reading the weights once."""
    ways = forms(size, held)
    if find_spec("onnxruntime") and held in ("float32", "int8"):
        if not (folder / "config.json").is_file():
            model(size).save(folder, format="huggingface")
        name = "ONNX Runtime"
        ways[name] = engines.in_batches(engines.onnxruntime(folder, held))
    found: dict[str, Any] = {}
    for length in LENGTHS:
        text = texts(length, rounds)
        calls = {name: (lambda way=way, text=text: way(text())) for name, way in ways.items()}
        samples = by_turns(calls, rounds, pause=PAUSE)
        clean = min(len(s.clean) for s in samples.values())
        row = {name: round(1000 * s.median, 2) for name, s in samples.items()}
        found[str(length)] = {**row, "clean": clean}
    encoder = model(size).model.encoder.sentence_encoder
    weights = sum(p.numel() for p in encoder.layers.parameters() if p.dim() == 2)
    memory = torch.ones(64 << 20)  # 256 MiB: no cache holds them
    with torch.inference_mode():
        reading = by_turns({"sum": lambda: memory.sum()}, rounds)["sum"].median
    speed = memory.numel() * 4 / reading / 1e9
    cached = weights * BYTES[held] < 30e6
    found["memory"] = {
        "gigabytes a second": round(speed, 1),
        "ms": None if cached else round(1000 * weights * BYTES[held] / speed / 1e9, 1),
    }
    return found


def page(numbers: Mapping[str, Mapping[str, Any]]) -> str:
    """The tables."""
    machine = kernels.cpu()
    lines = [
        "# Compiled layers",
        "",
        f"{machine.vendor}, {', '.join(sorted(machine.features))}; {torch.get_num_threads()} "
        "threads. Milliseconds of one text from ids to features.",
        "`gain`: torch over compiled.",
        "Again: `python benchmarks/compiled.py`.",
    ]
    for size, parts in numbers.items():
        for held, found in parts.items():
            memory = found["memory"]
            once = f"read once {memory['ms']} ms" if memory["ms"] else "which caches hold"
            speed = memory["gigabytes a second"]
            lines += ["", f"## {size}, weights in {held}, {once} (memory: {speed} GB/s)", ""]
            lines += ["| tokens | compiled | torch | gain | ONNX Runtime | clean rounds |"]
            lines += ["|--:|--:|--:|--:|--:|--:|"]
            for length in map(str, LENGTHS):
                row = found[length]
                gain = row["torch"] / row["compiled"]
                peer = f"{row['ONNX Runtime']:.1f}" if "ONNX Runtime" in row else ""
                cells = [length, f"{row['compiled']:.1f}", f"{row['torch']:.1f}", f"{gain:.2f}"]
                lines.append(f"| {' | '.join([*cells, peer, str(int(row['clean']))])} |")
    return "\n".join(lines)


def main() -> None:
    """Each size and form in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--here", nargs=2, help="size and form: measure in this process, print")
    parser.add_argument("--folder", type=Path, help="where ONNX files are kept for another run")
    options = parser.parse_args()
    if options.here:
        size, held = options.here
        print(json.dumps(measure(size, held, options.folder, options.rounds)))
        return
    if not compiled.supported_formats():
        sys.exit("the compiled part is not there; python setup.py build_ext --inplace builds it")
    with tempfile.TemporaryDirectory() as temporary:
        numbers: dict[str, dict[str, Any]] = {}
        for size in SIZES:
            folder = (options.folder or Path(temporary)) / size.replace(" ", "")
            folder.mkdir(parents=True, exist_ok=True)
            numbers[size] = {}
            for held in WEIGHT_FORMATS:
                command = [sys.executable, __file__, "--here", size, held]
                command += ["--rounds", str(options.rounds), "--folder", str(folder)]
                ran = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=os.environ)
                numbers[size][held] = json.loads(ran.stdout)
    table = page(numbers)
    write(
        f"compiled_{short_name(this_cpu())}",
        table,
        {"about": about("torch", "onnxruntime"), "numbers": numbers},
    )
    print(table)


if __name__ == "__main__":
    main()

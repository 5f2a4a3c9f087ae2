"""Our model and its exports: a ragged corpus, and one text at a time.

    python benchmarks/export.py                       # base, 200 items; half an hour on two cores
    python benchmarks/export.py --size tiny --items 12 --rounds 1      # whether it runs

ONNX of opset 18 and 23 in ONNX Runtime, the first in OpenVINO too, and AOTInductor's machine code;
what is not installed is left out. All compute float32 features of the same random weights, and are
compared with the packed model before they are timed. Exports compute on padding: they get batches
of 8 sorted by length, and single texts. `pip install -e ".[bench,onnx]"` brings them. Writes
`benchmarks/results/export.{md,json}`.
"""

from __future__ import annotations

import argparse
import importlib.util
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from lib.corpus import corpus, padding
from lib.engines import PAD, Encode, Engine, Ids, in_batches, ours, padded, random_model
from lib.report import about, write
from lib.timing import Samples, by_turns
from torch import Tensor

from roberta_hub import RobertaHubInterface

PACKAGES = ("torch", "onnx", "onnxruntime", "openvino")
BATCH = 8
LENGTHS = (16, 48, 128)
PAUSE = 0.05
"""Seconds between two ways, in which the threads of the one before stop spinning."""
TOLERANCE = 1e-4


def masked(batch: list[Tensor]) -> tuple[Tensor, Tensor]:
    ids = padded(batch)
    return ids, ids.ne(PAD).long()


def onnx_runtime(roberta: RobertaHubInterface, folder: Path, opset: int) -> Encode:
    roberta.export(folder, opset=opset)
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(
        str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"]
    )

    def encode(batch: list[Tensor]) -> list[Tensor]:
        ids, mask = masked(batch)
        inputs = {"input_ids": ids.numpy(), "attention_mask": mask.numpy()}
        return [*torch.from_numpy(session.run(None, inputs)[0])]

    return encode


def openvino(roberta: RobertaHubInterface, folder: Path) -> Encode:
    roberta.export(folder)
    import openvino as runtime

    settings = {
        "INFERENCE_PRECISION_HINT": "f32",
        "INFERENCE_NUM_THREADS": str(torch.get_num_threads()),
    }
    model = runtime.compile_model(str(folder / "model.onnx"), "CPU", settings)

    def encode(batch: list[Tensor]) -> list[Tensor]:
        ids, mask = masked(batch)
        return [*torch.from_numpy(model([ids.numpy(), mask.numpy()])[0].copy())]

    return encode


def machine_code(roberta: RobertaHubInterface, folder: Path) -> Encode:
    roberta.export(folder, "torch")
    program = torch.export.load(folder / "model.pt2")
    package = torch._inductor.aoti_compile_and_package(
        program, package_path=str(folder / "code.pt2")
    )
    run = torch._inductor.aoti_load_package(package)
    return lambda batch: [*run(*masked(batch))[0]]


def exports(size: str, folder: Path) -> dict[str, Encode]:
    """Those whose packages are installed; each is made from a model of its own weights' equal."""
    makers: dict[str, tuple[str, Callable[[RobertaHubInterface, Path], Encode]]] = {
        "ONNX Runtime, opset 18": ("onnxruntime", lambda r, f: onnx_runtime(r, f, 18)),
        "ONNX Runtime, opset 23": ("onnxruntime", lambda r, f: onnx_runtime(r, f, 23)),
        "OpenVINO": ("openvino", openvino),
        "AOTInductor": ("torch", machine_code),
    }
    found: dict[str, Encode] = {}
    roberta = random_model(size)
    for number, (name, (package, make)) in enumerate(makers.items()):
        if importlib.util.find_spec(package) is None:
            print(f"{name}: left out, no {package} here", flush=True)
            continue
        start = time.process_time()
        found[name] = make(roberta, folder / str(number))
        print(f"{name}: {time.process_time() - start:.0f} CPU-s to make", flush=True)
    return found


def agreement(engine: Engine, ids: Ids, wanted: list[Tensor]) -> float:
    return max(float((a - b).abs().max()) for a, b in zip(engine(ids), wanted, strict=True))


def measure(ways: dict[str, Engine], ids: Ids, rounds: int) -> dict[str, tuple[Samples, float]]:
    """Wall seconds, and CPU seconds of one run, which others' work does not change."""
    timed = by_turns({n: lambda way=way: way(ids) for n, way in ways.items()}, rounds, pause=PAUSE)
    found = {}
    for name, way in ways.items():
        start = time.process_time()
        way(ids)
        found[name] = (timed[name], time.process_time() - start)
    return found


def table(title: str, found: dict[str, tuple[Samples, float]], per: int) -> list[str]:
    """Rows of Markdown; ratios to the packed model as it comes."""
    first = next(iter(found.values()))[0].median
    rows = [f"| {title} | ms | × packed | CPU ms | samples |", "|---|--:|--:|--:|---|"]
    for name, (samples, cpu) in found.items():
        ms, ratio = 1000 * samples.median / per, samples.median / first
        rows.append(f"| {name} | {ms:.2f} | {ratio:.2f} | {1000 * cpu / per:.2f} | {samples} |")
    return [*rows, ""]


def versions() -> list[str]:
    found = []
    for name in PACKAGES:
        try:
            version(name)
        except PackageNotFoundError:
            continue
        found.append(name)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", default="base", help="base, large or tiny")
    parser.add_argument("--items", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    plain, prepared = random_model(given.size), random_model(given.size)
    source, texts = corpus(given.items // 2)
    limit = plain.max_positions
    ids = [row[:limit] for row in plain.encode_batch(texts)]
    packed = {"packed": ours(plain), "packed, optimize()": ours(prepared, None)}
    with tempfile.TemporaryDirectory() as folder:
        made = exports(given.size, Path(folder))
        wanted = packed["packed"](ids)
        for name, encode in made.items():
            worst = agreement(in_batches(encode, BATCH), ids, wanted)
            assert worst <= TOLERANCE, f"{name} differs by {worst:.2g}"
        ragged: dict[str, Engine] = dict(packed)
        for name, encode in made.items():
            ragged[f"{name}, by length"] = in_batches(encode, BATCH)
            ragged[f"{name}, one by one"] = in_batches(encode, 1)
        lines = [
            f"# roberta.{given.size} beside its exports",
            "",
            f"{len(ids)} texts of {source}, {sum(map(len, ids))} tokens; in batches of {BATCH} as "
            f"they come {padding(list(map(len, ids)), BATCH):.2f} slots a token. "
            f"Medians of {given.rounds} rounds by turns, in one process of "
            f"{torch.get_num_threads()} threads.",
            f"Again: `python benchmarks/export.py --items {given.items} --rounds {given.rounds}`.",
            "",
        ]
        found: dict[str, Any] = {"corpus": measure(ragged, ids, given.rounds)}
        lines += table("each text of the corpus", found["corpus"], len(ids))
        for length in LENGTHS:
            one = [torch.randint(4, 50000, (min(length, limit),))]
            ways = {**packed, **{name: in_batches(encode, 1) for name, encode in made.items()}}
            found[f"{length} tokens"] = measure(ways, one, given.rounds)
            lines += table(f"one text of {length} tokens", found[f"{length} tokens"], 1)
    numbers: dict[str, Any] = {
        part: {
            name: {"seconds": samples.median, "cpu_seconds": cpu}
            for name, (samples, cpu) in measured.items()
        }
        for part, measured in found.items()
    }
    page = "\n".join(lines)
    print(page)
    if given.size == "base":
        write("export", page, {"about": about(*versions()), **numbers})


if __name__ == "__main__":
    main()

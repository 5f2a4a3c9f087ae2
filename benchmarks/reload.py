"""Reloading a 1.4 GB RoBERTa: seconds to the first vector, and peak memory.

The peers are transformers and fairseq.

    python benchmarks/reload.py                # roberta.large, 7 rounds
    python benchmarks/reload.py --rounds 1 --model roberta.base

The first takes about four minutes and 8 GB of disk.

The same random weights for every engine, each run a process of its own, engines in turn, all files
in the page cache. `load` counts from the call that loads to the first feature vector, `process`
from the start of Python. Peak memory is what the process held at most, mapped pages included,
beyond what its imports took. Writes `benchmarks/results/reload.*`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
IDS = [[0, 31414, 232, 328, 2]]
GB = 1e9

Run = dict[str, float]
Vector = Callable[[], "list[float]"]


# ---- one engine each: import what it needs, return what loads and answers ----


def ours(folder: Path, *, converted: bool = True) -> Vector:
    from roberta_hub import load_model

    def vector() -> list[float]:
        roberta = load_model(folder / "fairseq", converted=converted).eval()
        return roberta.extract_features(IDS)[0, 0].tolist()

    return vector


def ours_saved(folder: Path) -> Vector:
    from roberta_hub import load_model

    def vector() -> list[float]:
        roberta = load_model(folder / "roberta_hub").eval()
        return roberta.extract_features(IDS)[0, 0].tolist()

    return vector


def ours_without_copy(folder: Path) -> Vector:
    return ours(folder, converted=False)


def torch_alone(folder: Path) -> Vector:
    import torch

    return lambda: torch.zeros(0).tolist()


def transformers(folder: Path) -> Vector:
    import torch
    from transformers import RobertaForMaskedLM

    def vector() -> list[float]:
        model = RobertaForMaskedLM.from_pretrained(folder / "huggingface").eval()
        with torch.no_grad():
            return model.roberta(torch.tensor(IDS)).last_hidden_state[0, 0].tolist()

    return vector


def fairseq(folder: Path) -> Vector:
    import torch

    from roberta_hub.fairseq_bridge import import_fairseq

    import_fairseq()
    from fairseq import checkpoint_utils

    def vector() -> list[float]:
        data = folder / "fairseq"
        models, *_ = checkpoint_utils.load_model_ensemble_and_task(
            [str(data / "model.pt")], arg_overrides={"data": str(data)}
        )
        with torch.no_grad():
            return models[0].eval()(torch.tensor(IDS), features_only=True)[0][0, 0].tolist()

    return vector


TORCH = "import torch, nothing else"
ENGINES = {
    TORCH: torch_alone,
    "roberta_hub, its own format": ours_saved,
    "roberta_hub, copy": ours,
    "roberta_hub, converted=False": ours_without_copy,
    "transformers, safetensors": transformers,
    "fairseq 0.12.2": fairseq,
}


def memory(name: str) -> float:
    """A line of /proc/self/status, in bytes."""
    status = Path("/proc/self/status").read_text()
    return 1024.0 * int(status.split(f"{name}:")[1].split()[0])


def work(engine: str, folder: Path, started: float) -> None:
    """Run one engine once, in this process, and print what it took."""
    vector = ENGINES[engine](folder)
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    base, before = memory("VmRSS"), time.perf_counter()
    found = vector()
    load, peak = time.perf_counter() - before, memory("VmHWM") - base
    run = {"load": load, "process": time.time() - started, "peak": peak, "vector": found}
    print(json.dumps(run))


# ---- all of them, side by side ----


def make_files(name: str, folder: Path) -> float:
    """Save one random model in both peers' formats; its weights' bytes."""
    import roberta_hub

    roberta = roberta_hub.load_model(name, pretrained=False)
    for format in ("roberta_hub", "fairseq", "huggingface"):
        roberta.save(folder / format, format)
    time.sleep(2.5)  # until the files' times can be trusted
    return float(sum(p.numel() * p.element_size() for p in roberta.model.parameters()))


def measure(folder: Path, rounds: int) -> tuple[dict[str, list[Run]], Run]:
    """The runs of each engine, in turn, after a first round.

    The first round counts for nothing but our first load.
    """
    environment = os.environ | {"TORCH_HOME": str(folder / "torch_home"), "HF_HUB_OFFLINE": "1"}
    found: dict[str, list[Run]] = {engine: [] for engine in ENGINES}
    for _ in range(rounds + 1):
        for engine in ENGINES:
            command = [sys.executable, __file__, "--engine", engine, "--folder", str(folder)]
            command += ["--started", str(time.time())]
            done = subprocess.run(command, capture_output=True, text=True, env=environment)
            if done.returncode:
                raise SystemExit(f"{engine} failed:\n{done.stderr}")
            found[engine].append(json.loads(done.stdout.splitlines()[-1]))
    first = found["roberta_hub, copy"][0]
    vectors = {engine: runs[0].pop("vector") for engine, runs in found.items()}
    vectors.pop(TORCH)
    for engine, vector in vectors.items():
        worst = max(abs(a - b) for a, b in zip(vector, vectors["fairseq 0.12.2"], strict=True))
        assert worst < 2e-5, f"{engine} differs from fairseq by {worst}"
    for runs in found.values():
        for run in runs[1:]:
            run.pop("vector")
    return {engine: runs[1:] for engine, runs in found.items()}, first


def table(found: dict[str, list[Run]], first: Run, weights: float) -> str:
    """The medians as Markdown, with the spread of the times."""
    rows = [
        "| engine | load to first vector | process start to first vector | peak memory / weights |",
        "|---|---|---|---|",
    ]
    for engine, runs in found.items():
        cells = [engine]
        for what in ("load", "process"):
            values = [run[what] for run in runs]
            cells.append(f"{median(values):.2f} s ({min(values):.2f}-{max(values):.2f})")
        cells.append(f"{median(run['peak'] for run in runs) / weights:.2f}")
        rows.append(f"| {' | '.join(cells)} |")
    rows.append(
        f"| roberta_hub, the first load, which makes the copy | {first['load']:.2f} s | "
        f"{first['process']:.2f} s | {first['peak'] / weights:.2f} |"
    )
    starts = {engine: median(run["process"] for run in runs) for engine, runs in found.items()}
    own = starts["roberta_hub, its own format"]
    rows += [
        "",
        f"From process start to the first vector, our own format takes {own - starts[TORCH]:.2f} s "
        "beyond `import torch` (goal 1.8 s), and transformers "
        f"{starts['transformers, safetensors'] / own:.2f} times as long (goal 1.7).",
    ]
    return "\n".join(rows)


def main() -> None:
    """Measure, print, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="roberta.large")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--engine", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--started", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.engine:
        return work(options.engine, options.folder, options.started)
    with tempfile.TemporaryDirectory() as folder:
        weights = make_files(options.model, Path(folder))
        found, first = measure(Path(folder), options.rounds)
    from lib.report import about, write

    told = about("torch", "fairseq", "transformers", "safetensors")
    model = f"{options.model}, random weights, {weights / GB:.2f} GB in float32"
    page = (
        f"# Reloading {model}\n\nMedians of {options.rounds} rounds, engines in turn, with the "
        f"spread. The first "
        f"vectors agree within 2e-5.\nAgain: `python "
        f"benchmarks/reload.py`.\n\n{table(found, first, weights)}\n"
    )
    print(page)
    if options.model == "roberta.large":
        numbers = {
            "about": told,
            "model": model,
            "rounds": options.rounds,
            "weights_bytes": weights,
        }
        write("reload", page, numbers | {"first_load": first, "runs": found})


if __name__ == "__main__":
    main()

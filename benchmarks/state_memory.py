"""Measures what saving a state takes of each process: memory beyond training's, and its waiting.

    python benchmarks/state_memory.py                          # roberta.large's shape, 2 processes
    python benchmarks/state_memory.py --model roberta.base --processes 3

FSDP over gloo on CPUs, random weights, Adam after one update. Each kind of state has processes of
its own. Memory is resident memory: before saving, and the peak until the state lies whole on the
disk (Linux counts it anew from then on). Writes `benchmarks/results/state_memory.{md,json}`; the
states, 12 bytes a parameter, go to a temporary folder.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
KINDS = ("whole", "sharded")


def resident(field: str) -> float:
    """Read a size of this process in MB: VmRSS now, VmHWM at its highest."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise OSError(f"this system tells no {field}")


def work(kind: str, model: str, folder: Path) -> None:
    """Save a state as a process of several; print what it took."""
    import torch

    import roberta_hub
    from roberta_hub.train.loop.checkpoints import Checkpoints
    from roberta_hub.train.loop.devices import Devices
    from roberta_hub.train.loop.optimizer import make_optimizer
    from roberta_hub.train.loop.state import Progress

    torch.set_num_threads(1)
    module = roberta_hub.load_model(model, pretrained=False).model
    assert isinstance(module, torch.nn.Module)
    parameters = sum(p.numel() for p in module.parameters())
    devices = Devices("no", "fsdp", False)
    devices.shard(module)
    optimizer = make_optimizer(module, lr=1e-4)
    for p in module.parameters():
        p.grad = torch.full_like(p, 1e-3)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    gc.collect()
    with Checkpoints(devices, folder, kind) as checkpoints:
        devices.wait()
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        before, start = resident("VmRSS"), time.perf_counter()
        checkpoints.save(module, optimizer, Progress(update=1), {})
        waited = time.perf_counter() - start
        checkpoints.wait()
        seconds = time.perf_counter() - start
    told = {"before": before, "peak": resident("VmHWM"), "waited": waited, "seconds": seconds}
    everyone = devices.gather({**told, "parameters": parameters})
    if devices.main:
        size = sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())
        print(json.dumps({"processes": everyone, "bytes": size}), flush=True)


def measure(kind: str, args: argparse.Namespace) -> dict[str, Any]:
    """Run the processes of one kind, and read what the first one prints."""
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        command += [f"--nproc-per-node={args.processes}", str(Path(__file__).resolve())]
        command += ["--work", kind, "--model", args.model, "--folder", folder]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(done.returncode)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Measure, print, and write the result; or work for a parent that does."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", default="roberta.large")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="on the disk that is to be written to")
    parser.add_argument("--work", choices=KINDS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        return work(args.work, args.model, args.folder)
    sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]
    from lib.report import about, write

    found = {kind: measure(kind, args) for kind in KINDS}
    lines = [
        "| state | process | before, MB | peak, MB | more, MB | training waits, s | whole, s |"
    ]
    lines += ["|---|--:|--:|--:|--:|--:|--:|"]
    for kind, told in found.items():
        for rank, p in enumerate(told["processes"]):
            lines.append(
                f"| {kind} | {rank} | {p['before']:,.0f} | {p['peak']:,.0f} | "
                f"{p['peak'] - p['before']:,.0f} | {p['waited']:.1f} | {p['seconds']:.1f} |"
            )
    parameters = found["whole"]["processes"][0]["parameters"]
    page = (
        f"# Memory while a state is saved\n\n{args.model}'s shape, {parameters / 1e6:.0f} M "
        f"parameters, float32, Adam; {args.processes} processes on one machine, FSDP over gloo. "
        "`loop.state=whole` gathers all tensors in every process, and the first one writes; "
        "`loop.state=sharded` copies each process's own part, and writes it while the training "
        f"goes on. A state has {found['whole']['bytes'] / 1e9:.2f} GB on disk.\n"
        "Again: `python benchmarks/state_memory.py`.\n\n" + "\n".join(lines) + "\n\n"
        "Memory is resident memory."
    )
    print(page)
    write("state_memory", page, {"about": about("torch", "accelerate"), **found})


if __name__ == "__main__":
    main()

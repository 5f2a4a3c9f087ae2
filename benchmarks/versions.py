"""This checkout against an earlier commit of it: what a change costs or gains, by public calls.

    python benchmarks/versions.py 8c6c988              # nine interleaved rounds, four minutes
    python benchmarks/versions.py HEAD~1 --rounds 3

Each version has a process of its own, and they take turns on every piece of work, the other one
first in every second round. What counts is the median of a piece's ratios, round by round. Writes
`benchmarks/results/versions.{md,json}`; ends with 1 where the median over all pieces is below
`--least`.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
LEAST = 0.97
Work = dict[str, Callable[[], object]]


def pieces() -> Work:
    """What is timed, by name; runs in the process of one version."""
    import torch
    from lib.corpus import corpus

    import roberta_hub

    _, texts = corpus(12)
    torch.manual_seed(0)
    plain = roberta_hub.load_model("roberta.base", pretrained=False).eval()
    texts = [t if isinstance(t, tuple) else " ".join(t.split()[:100]) for t in texts]
    short = "The committee postponed its decision until Thursday."  # 10 tokens
    long = " ".join([short] * 5)  # 46
    many = [f"{text} {i}" for i, (text, *_) in enumerate([(short,)] * 5000)]
    tiny = roberta_hub.load_model().eval()
    pairs = [(short, "Nothing was decided."), (long, "It is Monday.")] * 40
    found: Work = {
        "encode_batch, 5,000 texts": lambda: tiny.encode_batch(many),
        "tiny: classify 80 pairs": lambda: tiny.classify(pairs, "mnli"),
        "tiny: fill_mask": lambda: tiny.fill_mask("The capital of France is <mask>."),
        "tiny: load": lambda: roberta_hub.load_model(),
        "base, plain: 24 texts": lambda: plain.features(texts),
    }
    fast = roberta_hub.load_model("roberta.base", pretrained=False).eval().optimize()
    found["base, float32: 24 texts"] = lambda: fast.features(texts)
    found["base, float32: 10 tokens"] = lambda: fast.features([short])
    found["base, float32: 46 tokens"] = lambda: fast.features([long])
    try:
        eight = roberta_hub.load_model("roberta.base", pretrained=False).eval().optimize("int8")
    except roberta_hub.RobertaHubError as error:
        print(f"int8: not measured, {error}", file=sys.stderr)
        return found
    found["base, int8: 24 texts"] = lambda: eight.features(texts)
    found["base, int8: 10 tokens"] = lambda: eight.features([short])
    return found


def serve() -> None:
    """Answer each name on stdin with its seconds; the best of three for what is short."""
    work = pieces()
    for run in work.values():
        run()
    print(json.dumps(list(work)), flush=True)
    for line in sys.stdin:
        run, best = work[line.rstrip("\n")], float("inf")
        for _ in range(3):
            start = time.perf_counter()
            run()
            best = min(best, time.perf_counter() - start)
            if best > 1.0:
                break
        print(best, flush=True)


class Version:
    """One tree's process.

    Args:
        tree: a checkout, whose `roberta_hub` is imported.
    """

    def __init__(self, tree: Path) -> None:
        environment = os.environ | {"PYTHONPATH": str(tree), "TQDM_DISABLE": "1"}
        self.process = subprocess.Popen(
            [sys.executable, __file__, "serve"],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.names: list[str] = json.loads(self._line())

    def seconds(self, name: str) -> float:
        """How long a piece of work takes."""
        assert self.process.stdin is not None
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()
        return float(self._line())

    def _line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("a version's process ended; what it said stands above")
        return line


def compare(old: Version, new: Version, rounds: int) -> dict[str, list[float]]:
    """Old seconds over new seconds of each piece, round by round: above 1 is a gain."""
    ratios: dict[str, list[float]] = {name: [] for name in new.names if name in old.names}
    for number in range(rounds):
        for name, found in ratios.items():
            if number % 2:
                after, before = new.seconds(name), old.seconds(name)
            else:
                before, after = old.seconds(name), new.seconds(name)
            found.append(before / after)
    return ratios


def extract(revision: str, folder: Path) -> Path:
    """The files of a commit, and the compiled library where its source is the same."""
    command = ["git", "-C", str(ROOT), "archive", revision, "roberta_hub"]
    files = subprocess.run(command, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(files)) as archive:
        archive.extractall(folder, filter="data")
    source, library = "roberta_hub/model/compiled.cpp", "roberta_hub/model/_compiled.so"
    if (ROOT / library).exists():
        if (ROOT / source).read_bytes() != (folder / source).read_bytes():
            raise SystemExit(f"{source} is another one at {revision}: build its library there")
        shutil.copy2(ROOT / library, folder / library)
    return folder


def main() -> int:
    """Compare, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("revision", help="what git calls the earlier commit; or `serve`")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--least", type=float, default=LEAST)
    options = parser.parse_args()
    if options.revision == "serve":
        serve()
        return 0
    with tempfile.TemporaryDirectory() as folder:
        old, new = Version(extract(options.revision, Path(folder))), Version(ROOT)
        ratios = compare(old, new, options.rounds)
    # Not at the top: the process of an earlier version has no such modules.
    from lib.report import about, write

    from roberta_hub.model.kernels import cpu

    overall = median(median(values) for values in ratios.values())
    page = (
        f"# Beside {options.revision}\n\n{cpu().vendor}, {', '.join(sorted(cpu().features))}. "
        f"Again: `python benchmarks/versions.py {options.revision} --rounds {options.rounds}`.\n\n"
        + table(ratios)
        + f"\n\nMedian of all: {overall:.3f}, at least {options.least}."
    )
    print(page)
    write("versions", page, {"about": about("torch", "tiktoken"), "ratios": ratios})
    return int(overall < options.least)


def table(ratios: dict[str, list[float]]) -> str:
    """Old seconds over new ones, piece by piece."""
    lines = ["| work | speed over the earlier commit's, median | range |", "|---|--:|---|"]
    lines += [
        f"| {name} | {median(values):.3f} | {min(values):.2f} to {max(values):.2f} |"
        for name, values in ratios.items()
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())

"""Measures what a small model costs: bytes, the time to a first answer, its share of a ceiling."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from lib.timing import Samples, by_turns

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ("roberta_hub", "setup.py", "pyproject.toml", "README.md", "LICENSE")
FIRST = """
import sys
import roberta_hub
roberta = roberta_hub.load_model(sys.argv[1]).eval()
print(roberta.fill_mask("Paris is the <mask> of France.", topk=1))
"""


def folder_of(name_or_path: str) -> Path:
    """Where a model's files lie."""
    from roberta_hub.checkpoint.fetch.catalogue import bundled_path, find_record

    record = find_record(name_or_path)
    return bundled_path(record) if record else Path(name_or_path)


def file_bytes(folder: Path) -> int:
    """Bytes of all files of a model."""
    return sum(p.stat().st_size for p in folder.iterdir() if p.is_file())


def wheel_bytes(folder: Path) -> int:
    """Bytes of the package's wheel with this model in the box."""
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch, "tree")
        tree.mkdir()
        for name in PACKAGE:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, tree / name)
        box = tree / "roberta_hub/models/tiny"
        shutil.rmtree(box)
        shutil.copytree(folder, box)
        command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
        subprocess.run([*command, "-w", scratch, str(tree)], check=True)
        (wheel,) = Path(scratch).glob("*.whl")
        return wheel.stat().st_size


def first_answers(models: dict[str, str], rounds: int) -> dict[str, Samples]:
    """Seconds from the start of Python to a filled mask, each time in a fresh process, by turns."""

    def start(model: str) -> Callable[[], object]:
        command = [sys.executable, "-c", FIRST, model]
        return lambda: subprocess.run(command, check=True, capture_output=True, cwd=ROOT)

    return by_turns({name: start(model) for name, model in models.items()}, rounds)


def shapes(config: Any, lengths: Sequence[int]) -> list[tuple[int, int, int]]:
    """(rows, K, N) of the products with weights that `classify` needs for one batch.

    The last layer computes keys and values of all rows, and the rest of the first token of each
    text, which is all that the head reads.
    """
    c, f, e = config.embed_dim, config.ffn_dim, config.embedding_dim
    rows, texts = sum(lengths), len(lengths)
    layer = [(rows, c, 3 * c), (rows, c, c), (rows, c, f), (rows, f, c)]
    last = [(rows, c, 2 * c), (texts, c, 2 * c), (texts, c, f), (texts, f, c)]  # 2C: query, output
    before = [(rows, e, c)] if e else []
    return [*before, *(layer * (config.num_layers - 1)), *last, (texts, c, c)]


def attention_flops(config: Any, lengths: Sequence[int]) -> int:
    """FLOPs of the products of attention: of all rows, and in the last layer of one row a text."""
    return 4 * config.embed_dim * sum((config.num_layers - 1) * n * n + n for n in lengths)


def ceiling(roberta: Any, lengths: list[int], *, prepared: bool) -> Callable[[], None]:
    """Return a call that does the bare products of a list of texts, in the model's own batches.

    Plain: torch's `F.linear`, one product after another, all cores at each. Prepared: the kernels
    that `optimize()` takes, batches side by side. Attention's products are not run: `share` counts
    them at the speed of the others, which is more than they reach.
    """
    import torch

    from roberta_hub.inference import threads
    from roberta_hub.inference.batching import BATCH_TOKENS, batches
    from roberta_hub.model.matrices import prepare_matrix
    from roberta_hub.model.products import Plain

    cores = torch.get_num_threads()
    workers = cores if prepared else 1
    budget = threads.WORKER_BATCH_TOKENS if workers > 1 else BATCH_TOKENS["cpu"]
    parts = [[lengths[i] for i in part] for part in batches(lengths, budget, workers)]
    own = [shapes(roberta.model.config, part) for part in parts]
    weights = []  # one of each product of the model: a cache holds no more of them
    for _, k, n in own[0]:
        weight, bias = torch.randn(n, k) / k**0.5, torch.zeros(n)
        weights.append(
            prepare_matrix(weight, bias, None) if prepared else Plain(weight, bias, None)
        )
    widest = max(rows for part in own for rows, _, _ in part)
    inputs = {k: torch.randn(widest, k) for _, k, _ in own[0]}

    def work(part: list[tuple[int, int, int]]) -> None:
        for product, (rows, k, _) in zip(weights, part, strict=True):
            product(inputs[k][:rows])

    def run() -> None:
        with torch.no_grad():
            if workers > 1:
                for _ in threads.spread(work, own):
                    pass
            else:
                for part in own:
                    work(part)

    return run


def shares(roberta: Any, pairs: list[tuple[str, str]], rounds: int) -> dict[str, Any]:
    """Pairs a second of `classify`, plain and after `optimize()`, and the share of each ceiling."""
    lengths = [len(ids) for ids in roberta.encode_batch(pairs)]
    config = roberta.model.config
    linear = sum(2 * m * k * n for m, k, n in shapes(config, lengths))
    more = 1 + attention_flops(config, lengths) / linear
    found: dict[str, Any] = {"pairs": len(pairs), "gflops_a_pair": linear * more / len(pairs) / 1e9}
    for name in ("plain", "optimized"):
        if name == "optimized":
            roberta.optimize()
        bare = ceiling(roberta, lengths, prepared=name == "optimized")
        ways = {"model": lambda: roberta.classify(pairs, head="mnli"), "bare": bare}
        samples = by_turns(ways, rounds)
        share = [
            b * more / m
            for m, b in zip(samples["model"].seconds, samples["bare"].seconds, strict=True)
        ]
        found[name] = {
            "pairs_per_second": [len(pairs) / s for s in samples["model"].seconds],
            "share_of_ceiling": sorted(share)[len(share) // 2],
            "ceiling_gflops": linear / samples["bare"].median / 1e9,
            "samples": str(samples["model"]),
        }
    return found

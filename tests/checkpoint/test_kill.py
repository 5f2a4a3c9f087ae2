"""kill -9 at random instants of a real `load_model` leaves no litter.

The next call always finds or makes a whole model.
"""

from __future__ import annotations

import io
import os
import random
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from archives import visible
from server import Server, body, slow, status
from small_models import small_roberta

import roberta_hub

pytestmark = pytest.mark.system

NAME, ARCHIVE = "roberta.base", "/roberta.base.tar.gz"
REPOSITORY = "/FacebookAI/roberta-base/resolve/main/"
NURSERY = """
import os, sys, warnings
import torch
torch.set_num_threads(1)
import requests, filelock, safetensors.torch, tqdm
import roberta_hub
from roberta_hub.checkpoint.fetch import catalogue, http
from dataclasses import replace
unsure = catalogue.SHAPE_FIELDS  # small ones
catalogue.MODELS = tuple(replace(m, unsure=unsure) for m in catalogue.MODELS)
warnings.simplefilter("ignore")
sizes = {"encoder_layers": 1, "encoder_embed_dim": 8, "encoder_ffn_embed_dim": 8}
sizes["encoder_attention_heads"] = 1
random = roberta_hub.load_model("roberta.base", pretrained=False, **sizes)
random.encode("Hello")  # the vocabulary is read
del random
http.BACKOFF_SECONDS = 0.01
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            force = "force" in line
            loaded = roberta_hub.load_model("roberta.base", progress=False, force_download=force)
            status = 0 if loaded.encode("Hello").tolist() == [0, 31414, 2] else 3
        except BaseException as error:
            os.write(2, repr(error).encode())
        os._exit(status)
    print(child, flush=True)
    sys.stdin.readline()  # only now is its number given up
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Nursery:
    """A process that has imported everything and forks a fresh one for each load.

    So 200 loads take no hour.
    """

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", NURSERY],
            env={**os.environ, "PYTHONPATH": str(Path(roberta_hub.__file__).parents[1])},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def load(self, kill_after: float | None = None, *, force: bool = False) -> int:
        assert self.process.stdin is not None and self.process.stdout is not None
        print("force" if force else "", file=self.process.stdin, flush=True)
        child = int(self.process.stdout.readline())
        if kill_after is not None:
            time.sleep(kill_after)
            os.kill(child, signal.SIGKILL)
        print(file=self.process.stdin, flush=True)
        return int(self.process.stdout.readline())


@pytest.fixture
def nursery(server: Server) -> Iterator[Nursery]:
    running = Nursery()
    yield running
    running.process.communicate(timeout=60)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What the two servers offer: an archive, and two files."""
    folder = tmp_path_factory.mktemp("model")
    roberta = small_roberta()
    roberta.save(folder / "roberta.base", format="fairseq")
    roberta.save(folder / "theirs", format="huggingface")
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz", compresslevel=1) as tar:
        tar.add(folder / "roberta.base", "roberta.base")
    theirs = {
        REPOSITORY + name: (folder / "theirs" / name).read_bytes()
        for name in ("config.json", "model.safetensors")
    }
    return {ARCHIVE: archive.getvalue(), **theirs}


def offer(server: Server, files: dict[str, bytes], kind: str, seconds: float) -> None:
    for path, content in files.items():
        server.plan[path] = [slow(content, seconds) if seconds else body(content)]
    if kind == "huggingface":
        server.plan[ARCHIVE] = [status(404)]


def moment(cache: Path) -> str:
    """What a killed process was at, by what it left."""
    stages = list(cache.glob(f".incomplete-{NAME}~*"))
    if any(cache.glob(f".old-{NAME}~*")):
        return "publishing"
    names = {path.name for stage in stages for path in stage.rglob("*") if path.is_file()}
    if names & {"model.pt", "dict.txt", "manifest.json"}:
        return "unpacking"
    if names:
        return "downloading"
    return "before" if stages or not (cache / NAME).exists() else "after"


def rounds(
    count: int, kind: str, server: Server, files: dict[str, bytes], cache: Path, nursery: Nursery
) -> Counter[str]:
    """Kill, look, load again, `count` times; how often each moment was hit."""
    seed = count  # the instants are drawn anew where there are more of them
    print(f"\nseed {seed}, {kind}")  # shown when it fails
    draw, force, moments = random.Random(seed), kind == "force", Counter[str]()
    offer(server, files, kind, seconds=0.15)
    assert nursery.load() == 0
    if not force:
        shutil.rmtree(cache)
    start = time.monotonic()
    assert nursery.load(force=force) == 0
    whole = time.monotonic() - start
    for number in range(count):
        if not force:
            shutil.rmtree(cache)
        offer(server, files, kind, seconds=0.15)
        ended = nursery.load(draw.uniform(0, 1.05 * whole), force=force)
        assert ended in (0, -signal.SIGKILL), f"round {number}, seed {seed}"
        moments[moment(cache)] += 1
        offer(server, files, kind, seconds=0)
        assert nursery.load() == 0, f"round {number}, seed {seed}"
        assert visible(cache) - {"twins"} == {NAME, "digests.json"}, f"round {number}, seed {seed}"
        litter = [p.name for p in cache.rglob("*") if p.name.startswith((".incomplete", ".old"))]
        assert litter == [], f"round {number}, seed {seed}"
    print(dict(moments))
    return moments


@pytest.mark.parametrize(("kind", "count"), [("first use", 5), ("force", 4), ("huggingface", 3)])
def test_killed_at_random_instants(
    kind: str,
    count: int,
    server: Server,
    files: dict[str, bytes],
    cache: Path,
    nursery: Nursery,
):
    rounds(count, kind, server, files, cache, nursery)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("kind", "count"), [("first use", 100), ("force", 60), ("huggingface", 40)]
)
def test_killed_at_200_random_instants(
    kind: str,
    count: int,
    server: Server,
    files: dict[str, bytes],
    cache: Path,
    nursery: Nursery,
):
    wanted = ("downloading",) if kind == "huggingface" else ("downloading", "unpacking")
    moments = rounds(count, kind, server, files, cache, nursery)
    while min(moments[moment] for moment in wanted) <= 5:  # chance, on a busy machine
        assert sum(moments.values()) < 3 * count, moments
        moments += rounds(count // 4, kind, server, files, cache, nursery)

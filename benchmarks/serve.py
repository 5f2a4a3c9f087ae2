"""Requests per second, p50 and p99 of servers of all-MiniLM-L6-v2 at 1, 8 and 64 clients.

    python benchmarks/serve.py
    python benchmarks/serve.py --only "roberta-hub serve" plain --seconds 2 --rounds 1
    python benchmarks/serve.py --infinity ENVIRONMENT/bin/infinity_emb

All servers run all the time, and one is asked at a time, in turns: a round asks each for some
seconds. A request has one text of 1 to 8 sentences; every client has texts of its own, and the
vectors of some are compared with those of sentence-transformers first. Writes
`benchmarks/results/serve.{md,json}`.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

import numpy as np  # noqa: E402
from lib.corpus import sentences  # noqa: E402
from lib.fit_engines import MINILM, weights  # noqa: E402
from lib.report import about, write  # noqa: E402

OURS = "roberta-hub serve"
ENGINES = (OURS, "plain", "executor", "batching")
TITLES = {
    "plain": "FastAPI, sentence-transformers as written",
    "executor": "the same with a thread of the model's own, orjson",
    "batching": "the same, joining requests that wait",
    "infinity": "infinity-emb",
}
CLIENTS = (1, 8, 64)


def command(engine: str, folder: str, port: int, infinity: str | None) -> list[str]:
    """What starts an engine."""
    if engine == OURS:
        own = ["-m", "roberta_hub", "serve", "-m", folder, "--name", "m", "--port", str(port)]
        return [sys.executable, *own]
    if engine == "infinity":
        assert infinity is not None
        given = "--device cpu --engine torch --dtype float32 --no-bettertransformer"
        model = ["--model-id", folder, "--served-model-name", "m", "--port", str(port)]
        return [infinity, "v2", *model, *given.split(), "--url-prefix", "/v1"]
    script = str(ROOT / "benchmarks/lib/served_engines.py")
    return [sys.executable, script, engine, folder, str(port)]


class Client:
    """One client with a connection that is kept."""

    def __init__(self, port: int) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)

    def vector(self, text: str) -> list[float]:
        """Ask for one vector."""
        body = json.dumps({"input": text, "model": "m"})
        headers = {"Content-Type": "application/json"}
        self.connection.request("POST", "/v1/embeddings", body, headers)
        answer = self.connection.getresponse()
        found = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{answer.status}: {found[:300]!r}")
        vector: list[float] = json.loads(found)["data"][0]["embedding"]
        return vector


def mixed(texts: list[str], seed: int, count: int) -> list[str]:
    """Texts of 1 to 8 sentences, most of them short."""
    chance = random.Random(seed)
    lengths = [min(8, 1 + int(chance.expovariate(0.7))) for _ in range(count)]
    return [" ".join(chance.sample(texts, length)) for length in lengths]


def wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until a server answers."""
    until = time.monotonic() + 300
    while True:
        try:
            Client(port).vector("Hello.")
            return
        except (OSError, http.client.HTTPException, RuntimeError):
            if process.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"the server at {port} does not answer") from None
            time.sleep(0.2)


def load(
    port: int, clients: int, seconds: float, texts: list[list[str]]
) -> tuple[float, list[float]]:
    """Ask a server by some clients at once: requests per second, and the seconds of each."""
    taken: list[float] = []
    begin = threading.Barrier(clients + 1)
    until = [0.0]

    def ask(own: list[str]) -> None:
        client, mine = Client(port), []
        begin.wait()
        for text in own:
            began = time.perf_counter()
            if began > until[0]:
                break
            client.vector(text)
            mine.append(time.perf_counter() - began)
        taken.extend(mine)

    threads = [threading.Thread(target=ask, args=(texts[i],)) for i in range(clients)]
    for thread in threads:
        thread.start()
    until[0] = time.perf_counter() + seconds
    began = time.perf_counter()
    begin.wait()
    for thread in threads:
        thread.join()
    return len(taken) / (time.perf_counter() - began), taken


def compare(ports: dict[str, int], texts: list[str]) -> dict[str, float]:
    """The least cosine of each engine's vectors with those of the first."""
    vectors = {e: np.array([Client(p).vector(t) for t in texts]) for e, p in ports.items()}
    unit = {e: v / np.linalg.norm(v, axis=1, keepdims=True) for e, v in vectors.items()}
    first = next(iter(unit.values()))
    return {engine: float((v * first).sum(1).min()) for engine, v in unit.items()}


def measure(ports: dict[str, int], rounds: int, seconds: float) -> dict[str, dict[int, Any]]:
    """Ask each in turns."""
    corpus = sentences(3000)
    found: dict[str, dict[int, Any]] = {e: {c: ([], []) for c in CLIENTS} for e in ports}
    for clients in CLIENTS:
        for turn in range(rounds):
            texts = [mixed(corpus, 1000 * turn + i, 4000) for i in range(clients)]
            order = [*ports][turn % len(ports) :] + [*ports][: turn % len(ports)]
            for engine in order:
                rate, taken = load(ports[engine], clients, seconds, texts)
                found[engine][clients][0].append(rate)
                found[engine][clients][1].extend(taken)
                print(f"{clients} clients, {engine}: {rate:.1f} a second", file=sys.stderr)
    return {
        engine: {
            clients: {
                "per_second": statistics.median(rates),
                "rates": rates,
                "p50_ms": 1000 * float(np.percentile(taken, 50)),
                "p99_ms": 1000 * float(np.percentile(taken, 99)),
                "requests": len(taken),
            }
            for clients, (rates, taken) in own.items()
        }
        for engine, own in found.items()
    }


def page(found: dict[str, dict[int, Any]], cosines: dict[str, float]) -> str:
    """Write the table."""
    lines = [
        "# Servers of all-MiniLM-L6-v2",
        "",
        "| server | " + " | ".join(f"{c} client{'s' * (c > 1)}" for c in CLIENTS) + " | cosine |",
        "|---|" + "---|" * (len(CLIENTS) + 1),
    ]
    for engine, own in found.items():
        cells = [
            f"{own[c]['per_second']:.1f}/s, p50 {own[c]['p50_ms']:.0f} ms, "
            f"p99 {own[c]['p99_ms']:.0f} ms"
            for c in CLIENTS
        ]
        name = TITLES.get(engine, engine)
        lines.append(f"| {name} | {' | '.join(cells)} | {cosines[engine]:.6f} |")
    return "\n".join([*lines, ""])


def main() -> None:
    """Start the servers, ask them, write the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="+", default=ENGINES)
    parser.add_argument("--infinity", help="the command infinity_emb of an environment")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--port", type=int, default=9100)
    given = parser.parse_args()
    engines = [*given.only, *(["infinity"] if given.infinity else [])]
    folder = weights(MINILM)
    ports = {engine: given.port + i for i, engine in enumerate(engines)}
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
    processes = []
    try:
        for engine, port in ports.items():
            own = dict(environment)
            if engine == "infinity":
                own.pop("PYTHONPATH")
                own |= {"DO_NOT_TRACK": "1", "INFINITY_ANONYMOUS_USAGE_STATS": "0"}
            with open(f"/tmp/serve-{port}.log", "wb") as log:
                started = subprocess.Popen(
                    command(engine, folder, port, given.infinity), env=own, stdout=log, stderr=log
                )
            processes.append(started)
            wait_for(port, started)
        cosines = compare(ports, mixed(sentences(200), 7, 40))
        found = measure(ports, given.rounds, given.seconds)
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(60)
    facts = about("torch", "sentence-transformers", "fastapi", "uvicorn")
    shown = page(found, cosines)
    print(shown)
    if set(ENGINES) <= {*engines}:
        write("serve", shown, {"about": facts, "cosines": cosines, "found": found})


if __name__ == "__main__":
    main()

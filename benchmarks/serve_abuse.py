"""Asks `roberta-hub serve` for vectors while other clients abuse it.

    python benchmarks/serve_abuse.py --seconds 1800
    python benchmarks/serve_abuse.py --seconds 20      # as a test does

Eight clients check that every answer is their own text's, the same as alone within rounding.
Beside them are 64 connections that never send, and clients that send bodies slowly, half, too
large, malformed or not as HTTP, that do not read their answers, and that are killed while they
wait. Prints answers, wrong answers, the server's memory and threads, and its exit status after
SIGTERM. Fails where an answer is wrong, memory grew by a fifth, or a thread or connection is left.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

import psutil  # noqa: E402
import torch  # noqa: E402

import roberta_hub  # noqa: E402

SILENT, GOOD = 64, 8
HEAD = b"POST /embed HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
WHOLE = HEAD + b'Content-Length: 15\r\n\r\n{"inputs": "a"}'
MOST_GROWTH = 1.2
"""Of the server's memory, from the first tenth of the run to the last."""


class Run:
    """What the clients of one run share."""

    def __init__(self, port: int, model: str) -> None:
        self.port = port
        self.roberta = roberta_hub.load_model(model).optimize().eval()
        self.counts: Counter[str] = Counter()
        self.ended = threading.Event()

    def connect(self) -> socket.socket:
        """Connect to the server."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=120)

    def good(self, number: int) -> None:
        """Ask for vectors, and compare them with those of the text alone."""
        chance = random.Random(number)
        while not self.ended.is_set():
            client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
            for turn in range(50):
                if self.ended.is_set():
                    break
                words = [f"w{number}", str(turn), *["word"] * chance.randint(1, 60)]
                texts = [" ".join([*words, str(i)]) for i in range(chance.randint(1, 3))]
                client.request("POST", "/embed", json.dumps({"inputs": texts}))
                answer = client.getresponse()
                found = json.loads(answer.read())
                if answer.status != 200:
                    self.counts[f"good, but {answer.status}"] += 1
                    continue
                alone = torch.stack([self.roberta.embed(text) for text in texts])
                same = torch.allclose(torch.tensor(found), alone, atol=1e-5)
                self.counts["right" if same else "wrong"] += 1
            client.close()

    def bad(self, number: int) -> None:
        """Do one bad thing after another."""
        chance = random.Random(1000 + number)
        while not self.ended.is_set():
            deed = chance.choice(DEEDS)
            try:
                with self.connect() as sent:
                    deed(sent, chance, self.ended)
                self.counts[deed.__name__.strip("_")] += 1
            except OSError:  # the server closed it, as it should
                self.counts[f"{deed.__name__.strip('_')}, closed"] += 1
            self.ended.wait(chance.random())


Deed = Callable[[socket.socket, random.Random, threading.Event], Any]


def _slow_body(sent: socket.socket, chance: random.Random, ended: threading.Event) -> None:
    sent.sendall(HEAD + b"Content-Length: 15\r\n\r\n")
    for byte in b'{"inputs": "a"}':
        if ended.wait(chance.random()):
            return
        sent.sendall(bytes([byte]))
    sent.recv(65536)


def _half_a_head(sent: socket.socket, chance: random.Random, ended: threading.Event) -> None:
    sent.sendall(HEAD[: chance.randint(1, len(HEAD) - 1)])
    ended.wait(chance.uniform(0, 5))


def _half_a_body(sent: socket.socket, chance: random.Random, ended: threading.Event) -> None:
    sent.sendall(WHOLE[:-5])
    ended.wait(chance.uniform(0, 5))


def _too_large(sent: socket.socket, chance: random.Random, ended: threading.Event) -> None:
    size = chance.choice([b"Content-Length: 999999999", b"Transfer-Encoding: chunked"])
    sent.sendall(HEAD + size + b"\r\n\r\n")
    for _ in range(64):
        sent.sendall(b"10000\r\n" + b"a" * 65536 + b"\r\n")


def _malformed(sent: socket.socket, chance: random.Random, ended: threading.Event) -> None:
    body = bytes(chance.choice(b'{}[]",:\xff\x00a1') for _ in range(chance.randint(0, 2000)))
    sent.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    sent.recv(65536)


def _no_http(sent: socket.socket, chance: random.Random, ended: threading.Event) -> None:
    sent.sendall(chance.randbytes(chance.randint(1, 100_000)))
    sent.recv(65536)


def _killed(sent: socket.socket, chance: random.Random, ended: threading.Event) -> None:
    """What is left of a killed client's connection is a reset."""
    sent.sendall(WHOLE)
    sent.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _does_not_read(sent: socket.socket, chance: random.Random, ended: threading.Event) -> None:
    body = json.dumps({"inputs": ["a"] * 500}).encode()
    sent.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    ended.wait(chance.uniform(0, 40))


DEEDS: Sequence[Deed] = (
    _slow_body,
    _half_a_head,
    _half_a_body,
    _too_large,
    _malformed,
    _no_http,
    _killed,
    _does_not_read,
)


def watched(process: psutil.Process, seconds: float) -> list[int]:
    """Sample a process's memory for some seconds: bytes."""
    found, until = [], time.monotonic() + seconds
    while time.monotonic() < until:
        found.append(process.memory_info().rss)
        time.sleep(min(1.0, seconds / 20))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it, print what was found; 1 where something is wrong."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=1800)
    parser.add_argument("--model", default="roberta.tiny")
    parser.add_argument("--bad", type=int, default=16)
    given = parser.parse_args(arguments)
    command = [sys.executable, "-m", "roberta_hub", "serve", "-m", given.model, "--port", "0"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "ROBERTA_HUB_API_KEY": ""}
    started = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, text=True
    )
    try:
        assert started.stdout is not None and started.stderr is not None
        port = int(started.stdout.readline().rstrip("/\n").rpartition(":")[2])
        run, server = Run(port, given.model), psutil.Process(started.pid)
        silent = [run.connect() for _ in range(SILENT)]
        threads = [threading.Thread(target=run.good, args=(i,)) for i in range(GOOD)]
        threads += [threading.Thread(target=run.bad, args=(i,)) for i in range(given.bad)]
        for thread in threads:
            thread.start()
        time.sleep(given.seconds / 10)
        threads_before = server.num_threads()
        memory = watched(server, given.seconds * 0.9)
        threads_after = server.num_threads()
        run.ended.set()
        for thread in threads:
            thread.join()
        for one in silent:
            one.close()
        time.sleep(2)
        left = len(server.net_connections()) - 1  # without the one that listens
        started.send_signal(signal.SIGTERM)
        status = started.wait(60)
        log = started.stderr.read().splitlines()
    finally:
        started.kill()
    tenth = max(1, len(memory) // 10)
    first, last = (max(part) / 2**20 for part in (memory[:tenth], memory[-tenth:]))
    for name, count in sorted(run.counts.items()):
        print(f"{name}: {count:,}")
    print(f"memory: {first:.0f} MiB, at the end {last:.0f} MiB, most {max(memory) / 2**20:.0f} MiB")
    print(f"threads: {threads_before}, at the end {threads_after}; connections left: {left}")
    print(f"exit status {status}; lines of the log: {len(log)}")
    sound = run.counts["right"] > 0 and run.counts["wrong"] == 0 and last < MOST_GROWTH * first
    return 0 if sound and left == 0 and status == 0 and threads_after <= threads_before + 1 else 1


if __name__ == "__main__":
    sys.exit(main())

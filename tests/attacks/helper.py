"""Runs as the helper process of `bench.Bench`: forks, limits, reads, reports in lines of JSON."""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import sys
import time
import warnings
from pathlib import Path

from roberta_hub import RobertaHubError

from . import naive


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def read(order: dict[str, str], out: int) -> None:
    """In the fork: read under limits, report, never return."""
    os.environ["TORCH_HOME"] = str(Path(order["home"], "cache"))
    os.chdir(order["home"])
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (now + int(order["room"]),) * 2)
    warnings.simplefilter("ignore")
    before = peak()
    try:
        naive.READERS[order["reader"]](Path(order["path"]))
        end, says = "returned", ""
    except MemoryError as error:
        end, says = "memory", f"MemoryError: {error}"
    except RobertaHubError as error:
        end, says = "refused", f"{type(error).__name__}: {str(error)[:2000]}"
    except BaseException as error:
        # torch says so in its own way.
        full = isinstance(error, RuntimeError) and "alloc" in str(error).partition("\n")[0].lower()
        end = "memory" if full else "raised"
        says = f"{type(error).__name__}: {str(error)[:2000]}"
    report = {"end": end, "says": says, "grown": peak() - before}
    os.write(out, json.dumps(report).encode())
    os._exit(0)


def run(order: dict[str, str]) -> dict[str, object]:
    """Fork, wait, and say what became of it."""
    receive, send = os.pipe()
    start = time.monotonic()
    child = os.fork()
    if child == 0:
        os.close(receive)
        read(order, send)
    os.close(send)
    # The pipe becomes readable with the report, or with the end of the process.
    ready, _, _ = select.select([receive], [], [], float(order["seconds"]))
    seconds = time.monotonic() - start
    if not ready:
        os.kill(child, signal.SIGKILL)
    report = b""
    while part := os.read(receive, 1 << 16):
        report += part
    os.close(receive)
    _, status, usage = os.wait4(child, 0)
    fallen: dict[str, object] = {"end": "died", "says": f"signal {status & 127}"}
    if not ready:
        fallen = {"end": "hung", "says": ""}
    fallen["grown"] = max(0, usage.ru_maxrss * 1024 - peak())
    return {**(json.loads(report) if report else fallen), "seconds": seconds}


def main() -> None:
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()

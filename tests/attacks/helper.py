"""Reads in a process of its own, under limits; `bench.run` starts it.

Prints its peak of memory before, and a report in JSON.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path

from attacks import naive
from attacks.limits import limit, peak
from roberta_hub import RobertaHubError


def main(reader: str, path: Path, home: Path, room: int) -> None:
    os.environ["TORCH_HOME"] = str(home / "cache")
    os.chdir(home)
    out, silence = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    limit(room)
    warnings.simplefilter("ignore")
    before = peak()
    os.write(out, b"%d\n" % before)
    try:
        naive.READERS[reader](path)
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
    os.write(out, json.dumps({"end": end, "says": says, "grown": peak() - before}).encode())
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))

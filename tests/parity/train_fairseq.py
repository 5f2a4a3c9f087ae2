"""Run real fairseq commands in a process of their own.

For example `-m parity.train_fairseq '[["train", ["--lr", …]], …]'`.

fairseq keeps its run's state (metrics, the best loss, hydra) in module globals, so a training run
never shares a process with another one or with the tests.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys

from .fairseq_peer import fairseq_loads_its_own_files, real_fairseq


def main() -> None:
    """Run each command, `["preprocess" | "train", [argument, …]]`, through its own entry point."""
    real_fairseq()
    from fairseq.logging import meters

    meters.safe_round = lambda number, _: number  # its log has three decimals of a loss
    # PEERS_STOCK=1: fairseq exactly as it is, with whatever `torch.load` refuses today.
    stock = os.environ.get("PEERS_STOCK") == "1"
    with contextlib.nullcontext() if stock else fairseq_loads_its_own_files():
        for command, arguments in json.loads(sys.argv[1]):
            sys.argv = [f"fairseq-{command}", *arguments]
            importlib.import_module(f"fairseq_cli.{command}").cli_main()


if __name__ == "__main__":
    main()

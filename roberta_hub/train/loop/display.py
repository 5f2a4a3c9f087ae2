"""Shows a run to people: a bar on a terminal, and messages."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from roberta_hub.terminal import bar_class
from roberta_hub.train.reports import Messages, logger


class Display:
    """The bar and the messages of a run."""

    def __init__(
        self, directory: Path | None, update: int, *, total: int, progress: bool | None
    ) -> None:
        self.messages = Messages(directory, update, total)
        # None is tqdm's own: no bar unless stderr is a terminal
        disable = None if progress is None else not progress
        self.bar = bar_class()(total=total, initial=update, unit=" updates", disable=disable)

    def updated(self, row: Mapping[str, Any]) -> None:
        """Show a row of the training log."""
        self.bar.set_postfix_str(
            f"loss {row['loss']:.4g}, lr {row['lr']:.3g}, {row['tokens_per_second']:,.0f} tokens/s",
            refresh=False,
        )
        self.bar.update(row["update"] - self.bar.n)
        if self.bar.disable:
            self.messages.updated(row)

    def evaluated(self, row: Mapping[str, Any], *, best: bool) -> None:
        """Show a row of the evaluation log."""
        self.messages.evaluated(row, best)
        if not self.bar.disable and not logger.isEnabledFor(
            logging.INFO
        ):  # else the message says it
            shown = ", ".join(f"{k} {v:.4g}" for k, v in row.items() if k != "update")
            self.bar.write(f"update {row['update']}: {shown}")

    def close(self) -> None:
        """Leave the terminal in order."""
        self.bar.close()

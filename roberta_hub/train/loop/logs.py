"""Writes the logs of a run: CSV files, TensorBoard if asked, and a bar or messages."""

from __future__ import annotations

import csv
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from roberta_hub.errors import CheckpointError, MissingExtraError
from roberta_hub.extras import install
from roberta_hub.files import publishing
from roberta_hub.terminal import bar_class
from roberta_hub.train.reports import Messages, logger


class CsvLog:
    """A CSV file whose first column is `update`.

    A resumed run cuts off the rows that come after its state.
    """

    def __init__(self, path: Path, update: int) -> None:
        self.path = path
        self.columns: list[str] = []
        if not path.exists():
            return
        try:
            with open(path, newline="", encoding="utf-8") as file:
                rows = list(csv.reader(file))
        except (OSError, ValueError, csv.Error) as error:
            raise CheckpointError(
                f"{path}: not the log of a run ({error}); move it, or choose another folder with "
                "output=..."
            ) from None
        self.columns = rows[0] if rows else []
        # A killed process may have left half a row.
        kept = [
            row
            for row in rows[1:]
            if row and len(row) == len(self.columns) and row[0].isdigit() and int(row[0]) <= update
        ]
        with publishing(path) as new, open(new, "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([self.columns, *kept] if self.columns and kept else [])
        if not kept:
            self.columns = []

    def write(self, row: Mapping[str, Any]) -> None:
        """Append a row; the first one decides the columns."""
        new = not self.columns
        if new:
            self.columns = list(row)
        try:
            with open(self.path, "w" if new else "a", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, self.columns, restval="", extrasaction="ignore")
                if new:
                    writer.writeheader()
                writer.writerow(row)
        except OSError as error:
            raise CheckpointError(
                f"{self.path}: cannot be written ({error.strerror}); free some room, then start "
                "again to go on from the last state"
            ) from None


class Logs:
    """The logs of a run: `log.csv` has a row every few updates, `valid.csv` one an evaluation."""

    def __init__(
        self,
        directory: Path,
        update: int,
        *,
        total: int,
        tensorboard: bool,
        progress: bool | None,
    ) -> None:
        self.messages = Messages(directory, update, total)
        self.train = CsvLog(directory / "log.csv", update)
        self.valid = CsvLog(directory / "valid.csv", update)
        self.board = _board(directory / "tensorboard", update) if tensorboard else None
        # None is tqdm's own: no bar unless stderr is a terminal
        disable = None if progress is None else not progress
        self.bar = bar_class()(total=total, initial=update, unit=" updates", disable=disable)

    def updated(self, row: Mapping[str, Any]) -> None:
        """Write a row of the training log."""
        self.train.write(row)
        self._to_board("train", row)
        self.bar.set_postfix_str(
            f"loss {row['loss']:.4g}, lr {row['lr']:.3g}, {row['tokens_per_second']:,.0f} tokens/s",
            refresh=False,
        )
        self.bar.update(row["update"] - self.bar.n)
        if self.bar.disable:
            self.messages.updated(row)

    def evaluated(self, row: Mapping[str, Any], *, best: bool) -> None:
        """Write a row of the evaluation log."""
        self.valid.write(row)
        self._to_board("valid", row)
        self.messages.evaluated(row, best)
        if not self.bar.disable and not logger.isEnabledFor(
            logging.INFO
        ):  # else the message says it
            shown = ", ".join(f"{k} {v:.4g}" for k, v in row.items() if k != "update")
            self.bar.write(f"update {row['update']}: {shown}")

    def close(self) -> None:
        """Leave the terminal in order."""
        self.bar.close()
        if self.board is not None:
            self.board.close()

    def _to_board(self, prefix: str, row: Mapping[str, Any]) -> None:
        if self.board is not None:
            for name, value in row.items():
                if name != "update":
                    self.board.add_scalar(f"{prefix}/{name}", value, row["update"])


def _board(directory: Path, update: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise MissingExtraError(
            f"loop.tensorboard=true needs tensorboard ({error}): {install('train')}"
        ) from None
    return SummaryWriter(str(directory), purge_step=update + 1 if update else None)

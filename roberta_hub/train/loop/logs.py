"""Writes the logs of a run: CSV files, and TensorBoard if asked."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from roberta_hub.errors import CheckpointError, MissingExtraError
from roberta_hub.extras import install
from roberta_hub.files import publishing


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
                "again to resume from the last state"
            ) from None


class Logs:
    """The files of a run: `log.csv` has a row every few updates, `valid.csv` one an evaluation."""

    def __init__(self, directory: Path, update: int, *, tensorboard: bool) -> None:
        self.train = CsvLog(directory / "log.csv", update)
        self.valid = CsvLog(directory / "valid.csv", update)
        self.board = _board(directory / "tensorboard", update) if tensorboard else None

    def updated(self, row: Mapping[str, Any]) -> None:
        """Write a row of the training log."""
        self.train.write(row)
        self._to_board("train", row)

    def evaluated(self, row: Mapping[str, Any]) -> None:
        """Write a row of the evaluation log."""
        self.valid.write(row)
        self._to_board("valid", row)

    def close(self) -> None:
        """Write what TensorBoard still holds."""
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

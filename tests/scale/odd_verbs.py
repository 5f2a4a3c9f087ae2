"""Verbs that behave as lakes fear, for workers of any engine: they answer as a plain Verb does."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from typing import Any

from roberta_hub.scale import Verb


class Slow(Verb):
    """Takes a while for each batch, so that a test can kill what is at work."""

    def answers(self, rows: Sequence[Any]) -> Any:
        time.sleep(1.0)
        return super().answers(rows)


class Deadly(Verb):
    """Kills its process at a text that says so, as a crash in native code does."""

    def answers(self, rows: Sequence[Any]) -> Any:
        if "kill me" in str(rows):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().answers(rows)


class Stuck(Verb):
    """Never answers a text that says so."""

    def answers(self, rows: Sequence[Any]) -> Any:
        if "kill me" in str(rows):
            time.sleep(3600)
        return super().answers(rows)

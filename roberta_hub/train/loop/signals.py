"""Stops a run on Ctrl-C, SIGTERM or SIGHUP: after the current update; a second Ctrl-C at once."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

from roberta_hub.signals import ENDING


class Signals:
    """A context whose `asked` says whether a signal has asked the run to stop."""

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, *ENDING):
                if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has SIGHUP
                    self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.asked = True

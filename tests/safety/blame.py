"""Who raised this error: the engine on purpose, or something below it that it did not foresee?

One rule for all engines. An error is clear if its class is the engine's own, or if the engine
raised it by a `raise` statement of its own and with a message; anything else (an assert, a KeyError
of a dict, an error from inside torch, requests or pickle) is raw: true, but its text is about
something else than the user's mistake.
"""

from __future__ import annotations

import linecache
import re
import traceback
from typing import Any

from .case import DOWN, RAW, SAFE


def blame(error: BaseException, engine: Any, reason: str = "") -> dict[str, Any]:
    """Grade an error.

    With `reason`, one that does not match it is not taken for an answer to the attack.
    """
    kind, message = type(error).__name__, str(error)
    found = {"message": f"{kind}: {message[:500]}"}
    if isinstance(error, MemoryError) or _out_of_memory(error):
        return {**found, "grade": DOWN, "says": "killed (memory)"}
    if reason and not re.search(reason, message):
        return {**found, "grade": RAW, "says": f"{kind} about something else: {short(message)}"}
    if message and (_is_own(error, engine.packages) or _raised(error, engine.packages)):
        return {**found, "grade": SAFE, "says": f"{kind}: {short(message)}"}
    return {**found, "grade": RAW, "says": f"raw {kind}: {short(message)}"}


def _out_of_memory(error: BaseException) -> bool:
    """torch says so in its own way."""
    head = str(error).partition("\n")[0].lower()
    return isinstance(error, RuntimeError) and ("alloc" in head or "can't start new thread" in head)


def _is_own(error: BaseException, packages: tuple[str, ...]) -> bool:
    return type(error).__module__.partition(".")[0] in packages


def _raised(error: BaseException, packages: tuple[str, ...]) -> bool:
    frames = traceback.extract_tb(error.__traceback__)
    if not frames or isinstance(error, AssertionError):
        return False
    last = frames[-1]
    line = linecache.getline(last.filename, last.lineno or 0).strip()
    inside = any(f"/{package}/" in last.filename for package in packages)
    return inside and line.startswith("raise")


def short(message: str) -> str:
    """The first 80 characters, in one line, without the colours of a terminal."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", message)
    plain = " ".join(re.sub(r"(?<![^\s'\"(])(https?:/)?/\w\S*/(?=\w)", "…/", plain).split())
    return plain if len(plain) <= 80 else plain[:79] + "…"

"""Row 0: nothing is wrong. An engine that fails here fails elsewhere for the same reason."""

from __future__ import annotations

from typing import Any

import torch

from .case import LOADERS, Case, Place, Verdict, works, wrong
from .network import download, plan
from .web import good

TITLES = {0: "control: a sound download, a sound checkpoint, plain text"}
NOT_APPLICABLE: dict[tuple[int, str], str] = {}


def load(engine: Any, place: Place) -> Verdict:
    engine.kit = place.kit
    engine.load(place.kit / engine.sound)
    return works()


def talk(engine: Any, place: Place) -> Verdict:
    engine.warm(place.kit)
    ids = torch.tensor(engine.encode("Hello world!"))
    return works() if engine.decode(ids) == "Hello world!" else wrong("no round trip")


CASES = [
    Case(0, "download", download, serve=plan(good())),
    Case(0, "load", load, engines=LOADERS),
    Case(0, "encode and decode", talk, seconds=60),
]

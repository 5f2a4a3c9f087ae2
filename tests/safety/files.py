"""The hostile files of tests/attacks, for all engines: rows 17 to 24, 28 and 31."""

from __future__ import annotations

import functools
import importlib
import shutil
from pathlib import Path
from typing import Any

from attacks import material
from attacks.bench import Attack

from .case import CODE, HF, LOADERS, OURS, OUTSIDE, STOCK, Case, Place, Verdict, wrong

TITLES = {
    17: "`..`, absolute, symlink, hard link, device, fifo, damage in a tar",
    18: "chain of symlinks (CVE-2025-4517)",
    19: "bombs: gzip, pax header, a million members, zip",
    20: "two model.pt in a tar, two pickles in a zip",
    21: "code in a pickle, zip and old format",
    22: "odd pickles: shadowed methods, doubling, deep, huge",
    23: "no checkpoint: HTML, zeros, git-lfs pointer, 1 byte, …",
    28: "hostile heads: names `a.b`, `__init__`, empty; sizes; 2000 heads",
    31: "safetensors: truncated, overlap, hole, overflow, bad JSON, …",
}
NO_TAR = "reads no archives"
NOT_APPLICABLE = {
    **{(row, HF): NO_TAR for row in (17, 18)},
    (31, STOCK): "reads no safetensors",
}
SECONDS = 10
"""The files are small, sound ones load in a tenth of a second."""


def laid_out(attack: Attack, place: Place) -> None:
    """Make the attack's files.

    Whatever holds a model.pt is also a Hugging Face model with that as its weights.
    """
    attack.make(place.files)


def huggingface_twin(place: Place) -> Path:
    """A Hugging Face directory around the attack's weights."""
    folder = place.home / "twin"
    folder.mkdir()
    for name, content in material.huggingface_files().items():
        if name != "model.safetensors":
            (folder / name).write_bytes(content)
    found = next(iter(place.files.rglob("model.safetensors")), None)
    if found is not None:
        shutil.copyfile(found, folder / "model.safetensors")
    else:
        shutil.copyfile(place.files / "model.pt", folder / "pytorch_model.bin")
    return folder


def path_in(attack: Attack, place: Place) -> Path:
    """What to load, of the names that attacks return."""
    files = place.files
    candidates = (files / "model.tar.gz", files / "model", files / "model.pt")
    return next(path for path in candidates if path.exists())


def meet(attack: Attack, engine: Any, place: Place) -> Verdict:
    """Load as a user would; to return at all is wrong."""
    engine.kit = place.kit
    path = path_in(attack, place)
    if path.name == "model.tar.gz":
        engine.unpack(path)
    else:
        engine.load(huggingface_twin(place) if engine.name == HF else path)
    return wrong("accepted")


def case_of(attack: Attack, table: str) -> Case:
    engines = {"tars": frozenset({STOCK, OURS}), "tensors": frozenset({HF, OURS})}.get(
        table, LOADERS
    )
    if "fairseq" in attack.name and table == "tensors":
        engines = frozenset({OURS})  # they lack what fairseq wants; `weights` has its own
    return Case(
        attack.row,
        f"{table}: {attack.name}",
        functools.partial(meet, attack),
        make=functools.partial(laid_out, attack),
        engines=engines,
        seconds=SECONDS,
        harm=OUTSIDE if table == "tars" else CODE,
        reason=attack.reason,
    )


def taken(attack: Attack, table: str) -> bool:
    """Rows 25 to 30 have cases of their own, in `weights`, made of real checkpoints."""
    return attack.row in TITLES and (table != "tensors" or attack.row in (28, 31))


CASES = [
    case_of(attack, table)
    for table in ("tars", "pickles", "zips", "tensors")
    for attack in importlib.import_module(f"attacks.{table}").ATTACKS
    if taken(attack, table)
]

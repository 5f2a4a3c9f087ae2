"""A look at a checkpoint's pickle before torch runs it: which names it asks for, and whether it is a bomb.

torch's own list of allowed names has some that no checkpoint needs and that a hostile file can fill the memory with
(`bytearray(10**11)`); and hashing a deep tuple ends the process, whoever does it.
"""

from __future__ import annotations

import _compat_pickle
import io
import pickletools
import re
import zipfile
from collections.abc import Container
from pathlib import Path
from typing import IO

MAX_DEPTH = 100
"""Tuples within tuples; those of torch and fairseq go four deep."""

_TORCH = re.compile(
    r"torch\.(_utils\._rebuild_(tensor(_v[23])?|parameter)|nn\.parameter\.Parameter|Size|device"
    r"|(storage\.)?[A-Z]\w{0,20}Storage|b?float\d+|u?int\d+|bool)"
)
"""What torch.save writes for tensors of numbers; sparse and quantized ones are not weights."""
_PICKLES = 5
"""A legacy file is magic number, protocol, system, object and storage keys; raw bytes follow."""
_CODEC = "_codecs.encode"  # how protocol 2 writes bytes


class HostileError(Exception):
    """The file asks for something that a checkpoint of weights has no use for."""


def scan(path: Path, kind: str, allowed: Container[str]) -> None:
    """Read every opcode of a checkpoint's pickles without running one.

    Args:
        path: a file of torch.save.
        kind: "zip" or "legacy".
        allowed: names that are harmless besides torch's tensors, as "module.name".

    Raises:
        HostileError: names that are not allowed, nesting, a compressed or overfull zip.
        Exception: whatever damaged bytes lead to.
    """
    if kind == "zip":
        with zipfile.ZipFile(path) as archive:
            for record in _pickle_records(archive, path.stat().st_size):
                _scan_pickle(io.BytesIO(archive.read(record)), allowed)
        return
    with open(path, "rb") as file:
        for _ in range(_PICKLES):
            _scan_pickle(file, allowed)


def _pickle_records(archive: zipfile.ZipFile, size: int) -> list[zipfile.ZipInfo]:
    entries = archive.infolist()
    if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
        raise HostileError("it is a compressed zip file, torch.save writes uncompressed ones")
    if sum(entry.file_size for entry in entries) > size:
        raise HostileError("it is a zip file whose entries overlap")
    names = {entry.filename.rsplit("/", 1)[-1] for entry in entries}
    if "constants.pkl" in names:
        raise HostileError("it is a TorchScript program, not weights")
    found = [entry for entry in entries if entry.filename.endswith("data.pkl")]
    if not found:
        raise HostileError("it is a zip file without a checkpoint in it")
    return found


def _scan_pickle(file: IO[bytes], allowed: Container[str]) -> None:
    """Follow the stack of one pickle, keeping for each value how deep its tuples go."""
    stack: list[int | str | None] = []  # depth, a name that was asked for, or None for a mark
    memo: dict[int, int | str | None] = {}
    for opcode, argument, _ in pickletools.genops(file):
        name = opcode.name
        if name in ("PUT", "BINPUT", "LONG_BINPUT"):
            memo[argument] = stack[-1]
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            stack.append(memo[argument])
        elif name == "GLOBAL":
            stack.append(_check_name(argument, allowed))
        else:
            _step(opcode, stack)


def _step(opcode: pickletools.OpcodeInfo, stack: list[int | str | None]) -> None:
    taken: list[int | str | None] = []
    for kind in reversed(opcode.stack_before):
        if kind is pickletools.stackslice:
            while stack[-1] is not None:
                taken.append(stack.pop())
        else:
            taken.append(stack.pop())
    depth = max((value for value in taken if isinstance(value, int)), default=0)
    encodes = opcode.name == "REDUCE" and _CODEC in taken
    if encodes and depth > 1:
        raise HostileError("it encodes what it has encoded, and would grow without end")
    # Only tuples hash what they hold; what was encoded counts as one, to be known if it comes again.
    depth = depth + 1 if opcode.name.startswith("TUPLE") else int(encodes)
    if depth > MAX_DEPTH:
        raise HostileError(f"it nests tuples deeper than {MAX_DEPTH}")
    marks = (kind is pickletools.markobject for kind in opcode.stack_after)
    stack.extend(None if mark else depth for mark in marks)


def _check_name(argument: str, allowed: Container[str]) -> str:
    module, name = argument.split(" ", 1)
    # Protocol 2 writes Python 2's names, and torch reads them as these.
    if (module, name) in _compat_pickle.NAME_MAPPING:
        module, name = _compat_pickle.NAME_MAPPING[module, name]
    module = _compat_pickle.IMPORT_MAPPING.get(module, module)
    full = f"{module}.{name}"
    if full not in allowed and not _TORCH.fullmatch(full):
        raise HostileError(f"its pickle asks for {full[:100]!r}, which is not weights")
    return full

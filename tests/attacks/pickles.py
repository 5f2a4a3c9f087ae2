"""Pickles that run code, and what a pickle can claim to be.

Both of torch.save's formats, rows 21 to 23.
"""

from __future__ import annotations

import builtins
import io
import operator
import os
import pickle
import subprocess
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from .bench import MARKER, Attack
from .material import (
    PROTO,
    PROTOCOL,
    SYSTEM,
    Make,
    get,
    in_zip,
    laughs,
    legacy,
    list_laughs,
    model_pt,
    put,
    text,
    with_entry,
)

CODE = r"refused, its pickle asks for '"


class Calls:
    """Unpickles by calling something."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> Any:
        return self.call


def payloads(marker: Path) -> dict[str, Any]:
    """Ways to have a pickle create the marker."""
    command, write = f"touch {marker}", f"open({str(marker)!r}, 'w')"
    inner = pickle.dumps(Calls(os.system, command), 2)
    return {
        "os.system": Calls(os.system, command),
        "eval": Calls(eval, write),
        "exec": Calls(exec, write),
        "subprocess": Calls(subprocess.check_call, ["touch", str(marker)]),
        "open": Calls(builtins.open, str(marker), "w"),
        "getattr on an import": Calls(
            operator.methodcaller("system", command), Calls(__import__, "os")
        ),
        "a pickle within": Calls(pickle.loads, inner),
        "torch.load within": Calls(torch.hub.load_state_dict_from_url, f"file://{marker}"),
        "in a Namespace": Namespace(arch="roberta_base", data=Calls(os.system, command)),
        "as a key": {Calls(eval, f"{write} and 'key'"): 1},
    }


def runs(kind: str, *, zipped: bool) -> Make:
    def make(folder: Path) -> Path:
        state = {"model": {}, "args": payloads(folder.parent / MARKER)[kind]}
        buffer = io.BytesIO()
        torch.save(state, buffer, _use_new_zipfile_serialization=zipped)
        return model_pt(buffer.getvalue())(folder)

    return make


def by_hand(before: bytes, after: bytes) -> Make:
    """A bare pickle around a shell command."""

    def make(folder: Path) -> Path:
        command = f"touch {folder.parent / MARKER}".encode()
        return model_pt(before + command + after)(folder)

    return make


def in_record(before: bytes, after: bytes) -> Make:
    def make(folder: Path) -> Path:
        command = f"touch {folder.parent / MARKER}".encode()
        return model_pt(in_zip(before + command + after))(folder)

    return make


RUNNING = [
    Attack(f"{kind}, {form}", 21, runs(kind, zipped=form == "zip"), CODE, "torch_load", "runs code")
    for kind in payloads(Path())
    for form in ("zip", "legacy")
    if kind != "torch.load within"  # needs a file of its own to load
] + [
    Attack(
        "protocol 0, INST",
        21,
        by_hand(b"(S'", b"'\nios\nsystem\n."),
        "not a readable PyTorch checkpoint|asks for",
        "pickle_load",
        "runs code",
    ),
    Attack(
        "protocol 1, OBJ",
        21,
        by_hand(b"(cos\nsystem\nS'", b"'\no."),
        "not a readable PyTorch checkpoint|asks for",
        "pickle_load",
        "runs code",
    ),
    Attack(
        "Python 2's name in a zip",
        21,
        in_record(b"\x80\x02c__builtin__\neval\n(X\0\0\0\0S'", b"'\ntR."),
        "asks for 'builtins.eval'",
    ),
    Attack(
        "INST in a zip",
        21,
        in_record(b"\x80\x02(S'", b"'\nios\nsystem\n."),
        "asks for 'os.system'",
        "",
        "",
    ),
    Attack(
        "STACK_GLOBAL in a zip",
        21,
        in_record(b"\x80\x04\x8c\x02os\x94\x8c\x06system\x94\x93\x94S'", b"'\n\x85\x94R\x94."),
        "asks for 'os.system'",
    ),
]


def odd(
    name: str, pickled: bytes, reason: str, naive: str = "", harm: str = "", row: int = 22
) -> Attack:
    return Attack(name, row, model_pt(in_zip(PROTO + pickled)), reason, naive, harm)


NAMESPACE = b"cargparse\nNamespace\n)\x81"
BIG = text("a" * 100_000) + put(0)
MANY = get(0) * 90_000
BUILT = b"b."  # BUILD, STOP


def storage(key: bytes, count: bytes, kind: bytes = b"ctorch\nFloatStorage\n") -> bytes:
    """The persistent id of a storage, and its look-up."""
    return b"(" + text("storage") + kind + key + text("cpu") + count + b"tQ"


def tensor(count: bytes, offset: bytes, size: bytes, stride: bytes) -> bytes:
    given = (
        storage(text("0"), count) + offset + size + stride + b"\x89ccollections\nOrderedDict\n)R"
    )
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + given + b"tR"


def weights(value: bytes) -> bytes:
    return b"}" + text("model") + b"}" + text("w") + value + b"ss."


LONG = b"\x8a\x08" + (10**18).to_bytes(8, "little")
HUGE = b"\x8a\xff" + b"\x7f" * 255
SMALL = b"K\x04"


def hidden_class() -> bytes:
    """A Namespace whose every method is something else, `__class__` first."""
    names = ("__class__", "__repr__", "_get_kwargs", "__dict__", "__setstate__", "__eq__")
    fields = b"".join(text(name) + b"K\x01" for name in names)
    return b"}" + text("args") + NAMESPACE + b"}(" + fields + b"ub" + b"s" + text("model") + b"}s."


SHAPED = (
    "nests tuples|a tuple of it has more|nested deeper|has not imported|more than a "
    "number|unhashable"
)
CONFIGURATION = "its configuration is nested deeper than 50 or has more than 100,000 values"

ODD = [
    odd(
        "a doubled tuple as a key",
        laughs(60) + b"}" + get(60) + b"Ns.",
        SHAPED,
        "torch_load",
        "hangs",
    ),
    odd("a doubled tuple in a call", b"ctorch\nSize\n" + laughs(60) + b"\x85R.", "damaged|refused"),
    odd(
        "a doubled list is called",
        list_laughs(60) + get(60) + b")R.",
        SHAPED,
        "torch_load_weights_only",
        "hangs",
    ),
    odd(
        "a doubled list, shown",
        list_laughs(60) + b"}" + text("args") + get(60) + b"s" + text("model") + b"}s.",
        CONFIGURATION,
        "torch_load_weights_only",
        "hangs",
    ),
    odd(
        "a deep tuple as a key",
        b"N" + b"\x85" * 200_000 + put(0) + b"}" + get(0) + b"Ns.",
        SHAPED,
        "torch_load",
        "dies",
    ),
    odd(
        "deep lists",
        b"}" + text("args") + b"]" * 200_000 + b"a" * 199_999 + b"s" + text("model") + b"}s.",
        CONFIGURATION,
        "torch_load_weights_only",
        "crashes",
    ),
    odd(
        "deep dicts",
        b"}"
        + text("args")
        + b"}"
        + (text("k") + b"}") * 1000
        + b"s" * 1000
        + b"s"
        + text("model")
        + b"}s.",
        CONFIGURATION,
        "torch_load_weights_only",
        "crashes",
    ),
    odd(
        "a list that holds itself",
        b"}" + text("args") + b"]" + put(0) + get(0) + b"as" + text("model") + b"}s.",
        CONFIGURATION,
    ),
    odd("ten million values", b"N" * 10_000_000 + b".", "more than 1,000,000 instructions"),
    odd(
        "bytearray of terabytes",
        b"cbuiltins\nbytearray\n" + LONG + b"\x85R.",
        "asks for 'builtins.bytearray'",
        "torch_load_weights_only",
        "fills memory or hangs",
        row=19,
    ),
    odd(
        "encoded again and again",
        b"c_codecs\nencode\n"
        + put(0)
        + text("\xff" * 1000)
        + text("latin1")
        + b"\x86R"
        + b"".join(put(i) + get(0) + get(i) + text("latin1") + b"\x86R" for i in range(1, 30))
        + b".",
        "encodes what it has encoded",
    ),
    odd(
        "a string of 4 GB, claimed",
        b"X\xff\xff\xff\xff" + b"a" * 100 + b".",
        "damaged|belongs to no tensor",
    ),
    odd(
        "a number of 2 GB, claimed",
        b"\x8b\xff\xff\xff\x7f" + b"a" * 100 + b".",
        "damaged|belongs to no tensor",
    ),
    odd(
        "bytes of exabytes, claimed",
        b"\x8e" + b"\xff" * 7 + b"\x0f" + b"a" * 100 + b".",
        "damaged|belongs to no tensor",
    ),
    odd("a memo of number 4294967295", b"N" + put(2**32 - 1) + b".", "no fairseq checkpoint"),
    odd("an empty stack", b".", "damaged"),
    odd("marks and nothing else", b"(" * 100_000 + b".", "damaged"),
    odd(
        "a Namespace that shadows its methods",
        hidden_class(),
        "no RoBERTa encoder",
        "torch_load_weights_only",
        "crashes",
    ),
    odd(
        "a Namespace of a number's state",
        b"}" + text("args") + NAMESPACE + b"K\x01b" + b"s" + text("model") + b"}s.",
        "damaged",
    ),
    odd(
        "a Namespace's class reassigned",
        NAMESPACE + b"}}" + text("__class__") + b"ctorch\nFloatStorage\ns\x86" + BUILT,
        "damaged",
    ),
    odd(
        "a stand-in calls",
        b"comegaconf.dictconfig\nDictConfig\n)\x81}" + text("__setstate__") + b"cos\nsystem\nsb.",
        "'os.system'",
    ),
    odd("a persistent id that is a string", text("storage") + b"Q.", "damaged|refused"),
    odd("a persistent id that is a number", b"K\x00Q.", "damaged|refused"),
    odd("a persistent id without parts", b")Q.", "damaged|refused"),
    odd("a persistent id that is a module", b"(" + text("module") + b"NNNNtQ.", "damaged|refused"),
    odd(
        "a storage key of nine gigabytes",
        BIG + storage(b"(" + MANY + b"t", SMALL) + b".",
        SHAPED,
        "torch_load_weights_only",
        "fills memory or hangs",
    ),
    odd(
        "a storage key that is a path",
        weights(
            tensor(SMALL, b"K\0", b"K\4\x85", b"K\1\x85").replace(
                text("0"), text("../../../etc/passwd")
            )
        ),
        "damaged",
    ),
    odd("a storage of no type", storage(text("0"), SMALL, b"N") + b".", "damaged"),
    odd(
        "a storage of exabytes",
        weights(tensor(LONG, b"K\0", LONG + b"\x85", b"K\1\x85")),
        "damaged|claims more",
    ),
    odd(
        "a storage of 10**600 values",
        weights(tensor(HUGE, b"K\0", HUGE + b"\x85", b"K\1\x85")),
        "damaged",
    ),
    odd(
        "a storage of minus one",
        weights(tensor(b"J\xff\xff\xff\xff", b"K\0", b"K\4\x85", b"K\1\x85")),
        "damaged|claims more",
    ),
    odd(
        "a tensor beyond its storage",
        weights(tensor(SMALL, b"M\0\xff", b"K\4\x85", b"K\1\x85")),
        "damaged",
    ),
    odd(
        "a tensor before its storage",
        weights(tensor(SMALL, b"J\xf0\xff\xff\xff", b"K\4\x85", b"K\1\x85")),
        "damaged",
    ),
    odd(
        "a tensor of a negative size",
        weights(tensor(SMALL, b"K\0", b"J\xff\xff\xff\xff\x85", b"K\1\x85")),
        "damaged",
    ),
    odd(
        "a tensor of one value, repeated",
        weights(tensor(SMALL, b"K\0", LONG + b"\x85", b"K\0\x85")),
        "claims more elements",
        row=24,
    ),
    odd(
        "a storage asked for by call",
        b"ctorch\nFloatStorage\n" + LONG + b"\x85R.",
        "damaged|refused",
    ),
    odd("a name nobody expects", b"ctorch._utils\n_rebuild_sparse_tensor\n.", "asks for"),
    odd("a quantized tensor", b"ctorch._utils\n_rebuild_qtensor\n.", "asks for", row=30),
    odd(
        "a device that is not there",
        weights(
            tensor(SMALL, b"K\0", b"K\4\x85", b"K\1\x85").replace(text("cpu"), text("cuda:99"))
        ),
        "no RoBERTa encoder",
    ),
    odd(
        "a nine-gigabyte key of the arguments",
        BIG + b"}" + text("args") + b"}(" + MANY + b"tNss" + text("model") + b"}s.",
        f"{SHAPED}|{CONFIGURATION}",
        "torch_load_weights_only",
        "fills memory or hangs",
    ),
]


def bomb(field: str) -> Make:
    """A sound model with an argument of nine gigabytes, for who makes text of it."""
    value = b"}" + text(field) + b"](" + MANY + b"ess"[:2]
    return model_pt(with_entry("args", value, before=BIG))


CONFIGURED = [
    Attack(f"nine gigabytes as {field}", 22, bomb(field), CONFIGURATION)
    for field in ("arch", "task", "encoder_layers_to_keep", "encoder_embed_dim", "adaptive_input")
] + [
    Attack(
        "nine gigabytes as labels",
        22,
        model_pt(
            with_entry(
                "roberta_hub_labels", b"}" + text("mnli") + b"]](" + MANY + b"eas", before=BIG
            )
        ),
        CONFIGURATION,
    ),
]

OLD: list[tuple[str, Callable[[], bytes], str, str]] = [
    (
        "a protocol of exponential text",
        lambda: legacy(PROTO + list_laughs(60) + get(60) + b".", SYSTEM, SYSTEM, PROTO + b"]."),
        SHAPED,
        "hangs",
    ),
    (
        "a magic number of exponential text",
        lambda: PROTO + list_laughs(60) + get(60) + b".",
        "magic number",
        "",
    ),
    (
        "storage keys of nine gigabytes",
        lambda: legacy(PROTOCOL, SYSTEM, PROTO + b"}.", PROTO + BIG + b"](" + MANY + b"ta."),
        SHAPED,
        "fills memory or hangs",
    ),
    (
        "a storage of exabytes",
        lambda: legacy(
            PROTOCOL,
            SYSTEM,
            PROTO + storage(text("0"), LONG)[:-2] + b"NtQ.",
            PROTO + b"]" + text("0") + b"a.",
        ),
        "damaged",
        "fills memory or hangs",
    ),
    (
        "a storage of nine gigabytes",
        lambda: legacy(
            PROTOCOL,
            SYSTEM,
            PROTO
            + storage(text("0"), b"\x8a\x05" + (9 << 28).to_bytes(5, "little"))[:-2]
            + b"NtQ.",
            PROTO + b"]" + text("0") + b"a.",
        ),
        "damaged",
        "fills memory or hangs",
    ),
    (
        "a key without a storage",
        lambda: legacy(PROTOCOL, SYSTEM, PROTO + b"}.", PROTO + b"]" + text("9") + b"a."),
        "damaged",
        "",
    ),
    ("a pickle too few", lambda: legacy(PROTOCOL, SYSTEM, PROTO + b"}."), "damaged", ""),
    (
        "a line without end",
        lambda: legacy(PROTOCOL, SYSTEM, PROTO + b"c" + b"a" * 70_000_000),
        "more bytes than those of any|damaged",
        "",
    ),
]
LEGACY = [
    Attack(
        f"legacy: {name}",
        22,
        lambda folder, content=content: model_pt(content())(folder),  # type: ignore[misc]
        reason,
        "torch_load_weights_only" if harm else "",
        harm,
    )
    for name, content, reason, harm in OLD
]

ATTACKS = RUNNING + ODD + CONFIGURED + LEGACY

"""A look at a checkpoint's pickles without running them: which names they ask for, and whether they are bombs.

`scan` is the gate that every pickle passes before torch sees it; `survey` is the same look, written down for people.
torch's own list of allowed names has some that no checkpoint needs and that a hostile file can fill the memory with
(`bytearray(10**11)`); and hashing a deep tuple ends the process, whoever does it.
"""

from __future__ import annotations

import _compat_pickle
import io
import pickletools
import re
import tarfile
import tempfile
import zipfile
from collections.abc import Container
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

from roberta_hub.checkpoint import archive as tgz
from roberta_hub.checkpoint.cache import DICTIONARIES, MODEL, is_model

MAX_DEPTH = 100
"""Tuples within tuples; those of torch and fairseq go four deep."""
MAX_OPCODES = 1_000_000
"""In all pickles of a file; roberta.large with its optimizer has some 100,000."""
MAX_PICKLE = 64 << 20
"""Bytes of a pickle, tensors not counted; that of roberta.large has 0.1 MB."""
MAX_READ = 8 << 20
"""Bytes of a zip file's directory, which zipfile reads at once; torch writes 100 a tensor."""
MAX_NAMES = 1000
"""Different names that a file may ask for; fairseq's ask for twenty."""

_TORCH = re.compile(
    r"torch\.(_utils\._rebuild_(tensor(_v[23])?|parameter)|nn\.parameter\.Parameter|Size|device|bool"
    r"|((Double|Float|Half|BFloat16|Long|Int|Short|Char|Byte|Bool|Complex(Float|Double)|QU?Int[48x23]+)"
    r"|storage\.(Unt|T)yped)Storage|bfloat16|float(16|32|64)|u?int(8|16|32|64))"
)
"""What torch.save writes for tensors of numbers; sparse and quantized ones are not weights."""
_PICKLES = 5
"""A legacy file is magic number, protocol, system, object and storage keys; raw bytes follow."""
_MAGIC = 0x1950A86A20F9469CFC6C
_CODEC = "_codecs.encode"  # how protocol 2 writes bytes
_SUPPORTED = re.compile(
    "APPENDS?|BIN(FLOAT|GET|INT[12]?|PERSID|PUT|UNICODE)|BUILD|EMPTY_(DICT|LIST|SET|TUPLE)|GLOBAL"
    "|LONG1|LONG_BIN(GET|PUT)|MARK|NEW(FALSE|OBJ|TRUE)|NONE|PROTO|REDUCE|SETITEMS?|SHORT_BINSTRING"
    "|STOP|TUPLE[123]?"
)
_RUN_BY_TORCH = {code.name for code in pickletools.opcodes if _SUPPORTED.fullmatch(code.name)}
"""Opcodes of `torch/_weights_only_unpickler.py`, the same from torch 2.6 to 2.13: protocol 2."""
_IN_PLACE = frozenset(("APPEND", "APPENDS", "SETITEM", "SETITEMS", "ADDITEMS", "BUILD"))


class HostileError(Exception):
    """The file asks for something that a checkpoint of weights has no use for."""


@dataclass
class Asked:
    """A name that a pickle asks for."""

    name: str
    """As "module.name"."""
    verdict: Literal["tensor", "inert", "refused"]
    """torch's own; on the list of harmless ones; anything else."""
    where: str
    """Which pickle."""
    times: int = 0
    calls: list[str] = field(default_factory=list)
    """For what is refused, how it would be called: the first few different ones, strings as they are written."""


@dataclass
class Survey:
    """What the pickles of a file would do."""

    allowed: Container[str]
    asked: dict[tuple[str, str], Asked] = field(default_factory=dict)
    refusals: list[str] = field(default_factory=list)
    """Reasons why `load_model` does not run it; none if it does."""
    damage: Exception | None = None
    """Where the pickles could not be followed to their end."""
    opcodes: int = 0
    where: str = ""
    """The pickle that is being followed."""
    strange: set[str] = field(default_factory=set)
    """Opcodes that torch's reader does not run."""

    def refuse(self, reason: str) -> None:
        """Write down a reason, once."""
        if reason not in self.refusals and len(self.refusals) < MAX_NAMES:
            self.refusals.append(reason)

    def ask(self, module: str, name: str) -> str:
        """Write down that a name is imported; return it in full."""
        # Protocol 2 writes Python 2's names, and torch reads them as these.
        if (module, name) in _compat_pickle.NAME_MAPPING:
            module, name = _compat_pickle.NAME_MAPPING[module, name]
        module = _compat_pickle.IMPORT_MAPPING.get(module, module)
        full = f"{module}.{name}"
        plumbing = bool(_TORCH.fullmatch(full)) or full == "collections.OrderedDict"
        harmless = plumbing or full in self.allowed
        if not harmless:
            self.refuse(f"its pickle asks for {full[:100]!r}, which is not weights")
        entry = self.asked.get((self.where, full[:200]))
        if entry is None:
            if len(self.asked) >= MAX_NAMES:
                raise HostileError(f"it asks for more than {MAX_NAMES:,} different names")
            verdict: Any = "tensor" if plumbing else "inert" if harmless else "refused"
            entry = self.asked[self.where, full[:200]] = Asked(full[:200], verdict, self.where)
        entry.times += 1
        return full


def scan(path: Path, kind: str, allowed: Container[str]) -> None:
    """Read every opcode of a checkpoint's pickles without running one.

    Args:
        path: a file of torch.save.
        kind: "zip" or "legacy".
        allowed: names that are harmless besides torch's tensors, as "module.name".

    Raises:
        HostileError: names that are not allowed, nesting, a compressed or overfull zip, a bomb.
        Exception: whatever damaged bytes lead to.
    """
    with open(path, "rb") as file:
        found = survey(file, path.stat().st_size, kind, allowed)
    if found.refusals:
        raise HostileError(found.refusals[0])
    if found.damage:
        raise found.damage


def survey(file: IO[bytes], size: int, kind: str, allowed: Container[str]) -> Survey:
    """Follow every pickle of a checkpoint without running one, and write down all it asks for.

    Never raises for what is in the file; bounded in time and memory by the limits above.

    Args:
        file: a file of torch.save, at its beginning.
        size: its length in bytes.
        kind: "zip" or "legacy".
        allowed: names that are harmless besides torch's tensors, as "module.name".
    """
    found = Survey(allowed)
    _survey(file, size, kind, found)
    return found


def _survey(file: IO[bytes], size: int, kind: str, found: Survey) -> None:
    try:
        if kind == "zip":
            _survey_zip(file, size, found)
        else:
            bounded = _Bounded(file, MAX_PICKLE, MAX_PICKLE)
            for index in range(_PICKLES):
                first = _follow(bounded, found, f"pickle {index + 1} of {_PICKLES}")
                if index == 0 and first != _MAGIC:
                    found.damage = ValueError("it does not begin with torch.save's magic number")
    except HostileError as error:
        found.refuse(str(error))
    except Exception as error:  # whatever zipfile and pickletools meet in damaged bytes
        found.damage = found.damage or error
    if found.strange and not found.damage:  # in damaged bytes they are chance
        found.refuse(
            f"it uses the pickle opcodes {', '.join(sorted(found.strange))}, which torch.save does not "
            "write by default; save it again without pickle_protocol"
        )


def survey_archive(path: Path, allowed: Container[str]) -> tuple[dict[str, int], Survey]:
    """Look into a .tar.gz without unpacking it: sizes by name, and its model.pt by the ends of it that matter.

    What `archive.unpack` would refuse is refused here, in its words.
    """
    found, members, seen = Survey(allowed), dict[str, int](), set[str]()
    try:
        with tgz._BoundedGzip(path) as plain:
            with tarfile.open(fileobj=plain, mode="r|") as tar:
                for count, member in enumerate(tar, start=1):
                    members[member.name] = member.size
                    name = tgz._accept(member, count, (MODEL, *DICTIONARIES))
                    plain.limit = member.offset_data + member.size + tgz.HEADER_ROOM
                    if name in seen:
                        raise tarfile.TarError(f"there is a second {name}, {member.name!r}")
                    content = tar.extractfile(member) if name else None
                    seen |= {name} if name else set()
                    if content and name == MODEL:
                        _survey_stream(content, member.size, found)
            plain.limit = plain.tell() + tgz.HEADER_ROOM
            while plain.read(tgz.CHUNK):
                pass
        if not is_model(seen):
            raise tarfile.TarError(f"it has no {'dict.txt' if MODEL in seen else MODEL}")
    except tgz.UNREADABLE as error:
        found.refuse(f"as an archive, {str(error)[:300]}")
    return members, found


def _survey_stream(stream: IO[bytes], size: int, found: Survey) -> None:
    """Survey a file that can be read once only: torch's pickles stand first, the directory of a zip file last."""
    with tempfile.TemporaryFile() as ends:
        kept, tail = 0, b""
        while chunk := stream.read(tgz.CHUNK):
            if kept < MAX_PICKLE:
                kept += ends.write(chunk)
            else:
                tail = (tail + chunk)[-MAX_READ:]
        ends.seek(max(kept, size - len(tail)))  # a hole, which reads as zeros, lies before it
        ends.write(tail)
        ends.seek(0)
        kind = "zip" if ends.read(2) == b"PK" else "legacy"
        ends.seek(0)
        _survey(ends, size, kind, found)


def _survey_zip(file: IO[bytes], size: int, found: Survey) -> None:
    bounded: Any = _Bounded(file, MAX_READ)
    with zipfile.ZipFile(bounded) as archive:
        entries = archive.infolist()
        if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
            found.refuse("it is a compressed zip file, torch.save writes uncompressed ones")
        if sum(entry.file_size for entry in entries) > size:
            found.refuse("it is a zip file whose entries overlap")
        if any(entry.filename.rsplit("/", 1)[-1] == "constants.pkl" for entry in entries):
            found.refuse("it is a TorchScript program, not weights")
        pickles = [entry for entry in entries if entry.filename.endswith("data.pkl")]
        if not pickles:
            found.refuse("it is a zip file without a checkpoint in it")
        for entry in pickles:
            if entry.file_size > MAX_PICKLE:
                raise HostileError(f"{entry.filename[:100]!r} has more than {MAX_PICKLE:,} bytes")
            if entry.compress_type == zipfile.ZIP_STORED:
                with archive.open(entry) as record:
                    _follow(io.BytesIO(_read_all(record)), found, entry.filename[:100])


def _read_all(file: IO[bytes]) -> bytes:
    """All of it, in pieces that `_Bounded` lets pass."""
    parts = []
    while part := file.read(1 << 16):
        parts.append(part)
    return b"".join(parts)


class _Bounded:
    """A file of which no single read, and not all reads together, can be larger than a limit."""

    def __init__(self, file: IO[bytes], each: int, total: int | None = None) -> None:
        self.file, self.each, self.left = file, each, total
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, size: int = -1) -> bytes:
        if size > self.each:
            raise HostileError(f"it has a part of {size:,} bytes that belongs to no tensor")
        return self._count(self.file.read(size if size >= 0 else self.each))

    def readline(self) -> bytes:
        return self._count(self.file.readline(self.each))

    def _count(self, data: bytes) -> bytes:
        if self.left is not None:
            self.left -= len(data)
            if self.left < 0:
                raise HostileError("its pickles have more bytes than those of any checkpoint")
        return data


# ---- the stack machine ----


class _Value(NamedTuple):
    """As much of a value as is needed to know names and bombs."""

    depth: int = 0
    """How deep its tuples go."""
    name: str | None = None
    """If it is something that was imported."""
    text: str | bytes | None = None
    items: tuple[_Value, ...] = ()
    """The first few of a tuple or list."""


_PLAIN = _Value()
_MARK = None


def _follow(file: Any, found: Survey, where: str) -> Any:
    """Follow the stack of one pickle; return the argument of the opcode before its end."""
    stack: list[_Value | None] = []
    memo: dict[Any, _Value] = {}
    before = last = None
    found.where = where
    for opcode, argument, _ in pickletools.genops(file):
        name = opcode.name
        found.opcodes += 1
        if found.opcodes > MAX_OPCODES:
            raise HostileError(f"its pickles have more than {MAX_OPCODES:,} instructions")
        if name not in _RUN_BY_TORCH:
            found.strange.add(name)
        if name in ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"):
            memo[len(memo) if name == "MEMOIZE" else argument] = _real(stack[-1])
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            stack.append(memo[argument])
        elif name == "DUP":
            stack.append(_real(stack[-1]))
        elif name == "POP":
            stack.pop()  # a value or a mark
        elif name == "MARK":
            stack.append(_MARK)
        elif name == "GLOBAL":
            module, _, rest = str(argument).partition(" ")
            stack.append(_Value(name=found.ask(module, rest)))
        elif isinstance(argument, (str, bytes)) and opcode.stack_before == []:
            stack.append(_Value(text=argument))
        else:
            taken = _take(opcode, stack)
            if opcode.stack_after:
                stack.append(_result(name, argument, taken, found))
        before, last = last, argument
    return before


def _take(opcode: pickletools.OpcodeInfo, stack: list[_Value | None]) -> list[_Value]:
    """Pop what an opcode uses, in the order in which it was pushed."""
    taken: list[_Value] = []
    needed = len(opcode.stack_before)
    if pickletools.stackslice in opcode.stack_before:
        while stack[-1] is not _MARK:
            taken.append(_real(stack.pop()))
        stack.pop()
        needed = opcode.stack_before.index(pickletools.markobject)
    for _ in range(needed):
        taken.append(_real(stack.pop()))
    return taken[::-1]


def _real(value: _Value | None) -> _Value:
    if value is _MARK:
        raise ValueError("a pickle uses a mark as a value")
    return value


def _result(name: str, argument: Any, taken: list[_Value], found: Survey) -> _Value:
    """What an opcode leaves on the stack."""
    if name.startswith("TUPLE"):
        # Only tuples hash what they hold; what was encoded counts as one, to be known if it comes again.
        depth = max((value.depth for value in taken), default=0) + 1
        if depth > MAX_DEPTH:
            raise HostileError(f"it nests tuples deeper than {MAX_DEPTH}")
        return _Value(depth, items=tuple(taken[:8]))
    if name in _IN_PLACE:
        target, added = taken[0], taken[1:9]
        if name.startswith("APPEND") and added and len(target.items) < 8:
            return _Value(target.depth, target.name, None, (*target.items, *added)[:8])
        return target
    if name == "STACK_GLOBAL":
        parts = [v.text if isinstance(v.text, str) else "(computed)" for v in taken]
        return _Value(name=found.ask(parts[0], parts[1]))
    if name.startswith("EXT"):
        return _Value(name=found.ask("copyreg", f"extension {argument}"))
    if name == "INST":
        module, _, rest = str(argument).partition(" ")
        callee = _Value(name=found.ask(module, rest))
        return _call(callee, tuple(taken), found)
    if name == "OBJ" and taken:
        return _call(taken[0], tuple(taken[1:]), found)
    if name in ("REDUCE", "NEWOBJ", "NEWOBJ_EX"):
        given = taken[1]
        encodes = name == "REDUCE" and _CODEC in (taken[0].name, given.name)
        if encodes and max(taken[0].depth, given.depth) > 1:
            raise HostileError("it encodes what it has encoded, and would grow without end")
        return _call(taken[0], given.items, found)
    return _PLAIN


def _call(callee: _Value, given: tuple[_Value, ...], found: Survey) -> _Value:
    entry = found.asked.get((found.where, (callee.name or "")[:200]))
    if entry is not None and entry.verdict == "refused" and len(entry.calls) < 3:
        call = f"({', '.join(_shown(value) for value in given[:8])})"
        if call not in entry.calls:
            entry.calls.append(call)
    if callee.name != _CODEC:
        return _PLAIN
    return _Value(depth=1, text=given[0].text if given else None)


def _shown(value: _Value, level: int = 0) -> str:
    if value.text is not None:
        return repr(value.text[:80]) + ("..." if len(value.text) > 80 else "")
    if value.name is not None:
        return value.name[:100]
    if value.items and level < 2:
        return f"[{', '.join(_shown(item, level + 1) for item in value.items)}]"
    return "..."

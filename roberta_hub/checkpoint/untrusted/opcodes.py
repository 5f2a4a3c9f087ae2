"""Follows a pickle opcode by opcode without running it.

It writes down the names that the pickle imports, and refuses one that would fill the memory.
"""

from __future__ import annotations

import _compat_pickle
import pickletools
import re
from collections.abc import Container
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

MAX_DEPTH = 100
"""Most tuples within tuples; those of torch and fairseq go four deep."""
MAX_OPCODES = 1_000_000
"""Most instructions in a file; roberta.large with its optimizer has some 100,000."""
MAX_EXPANDED = 1_000_000
"""Most values and characters in a tuple, shared ones counted each time; hashing it costs as
much."""
MAX_NAMES = 1000
"""Most different names that a file asks for; fairseq's ask for twenty."""

_TORCH = re.compile(
    r"torch\.(_utils\._rebuild_(tensor(_v[23])?|parameter)|nn\.parameter\.Parameter|Size|device|bool"
    r"|((Double|Float|Half|BFloat16|Long|Int|Short|Char|Byte|Bool|Complex(Float|Double)|QU?Int[48x23]+)"
    r"|storage\.(Unt|T)yped)Storage|bfloat16|float(16|32|64)|u?int(8|16|32|64))"
)
"""Names that torch.save writes for tensors of numbers; sparse and quantized ones are no weights."""
_CODEC = "_codecs.encode"  # how protocol 2 writes bytes
_SUPPORTED = re.compile(
    "APPENDS?|BIN(FLOAT|GET|INT[12]?|PERSID|PUT|UNICODE)|BUILD|EMPTY_(DICT|LIST|SET|TUPLE)|GLOBAL|LONG1|LONG_BIN(GET|PUT)|MARK|NEW(FALSE|OBJ|TRUE)|NONE|PROTO|REDUCE|SETITEMS?|SHORT_BINSTRING|STOP|TUPLE[123]?"
)
_RUN_BY_TORCH = {code.name for code in pickletools.opcodes if _SUPPORTED.fullmatch(code.name)}
"""Opcodes of `torch/_weights_only_unpickler.py`, the same from torch 2.6 to 2.13: protocol 2."""
_IN_PLACE = frozenset(("APPEND", "APPENDS", "SETITEM", "SETITEMS", "ADDITEMS", "BUILD"))


class HostileError(Exception):
    """Says that a file asks for something that a checkpoint of weights has no use for."""


@dataclass
class RequestedName:
    """A name that a pickle asks for."""

    name: str
    """As "module.name"."""
    verdict: Literal["tensor", "inert", "refused"]
    """Whether it is torch's own, on the list of harmless ones, or anything else."""
    where: str
    """Which pickle."""
    times: int = 0
    calls: list[str] = field(default_factory=list)
    """The first few different calls of a refused name, strings as they are written."""


@dataclass
class Survey:
    """What was found in the pickles of a file."""

    allowed: Container[str]
    asked: dict[tuple[str, str], RequestedName] = field(default_factory=dict)
    refusals: list[str] = field(default_factory=list)
    """Why `load_model` does not read it; empty if it does."""
    damage: Exception | None = None
    """Why the pickles could not be followed to their end."""
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
            entry = self.asked[self.where, full[:200]] = RequestedName(
                full[:200], verdict, self.where
            )
        entry.times += 1
        return full


class _Value(NamedTuple):
    """What is remembered of a value: enough to know names, depth and size."""

    depth: int = 0
    """How deep its tuples go."""
    name: str | None = None
    """Its name, if it was imported."""
    text: str | bytes | None = None
    items: tuple[_Value, ...] = ()
    """The first few of a tuple or list."""
    size: int = 1
    """Values and characters in it, shared ones counted each time."""


_PLAIN = _Value()
_MARK = None


def follow(file: Any, found: Survey, where: str) -> Any:
    """Follow the stack of one pickle."""
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
            stack.append(_Value(text=argument, size=1 + len(argument)))
        else:
            taken = _take(opcode, stack)
            if opcode.stack_after:
                stack.append(_result(name, argument, taken, found))
        before, last = last, argument
    return before


def _take(opcode: pickletools.OpcodeInfo, stack: list[_Value | None]) -> list[_Value]:
    """Pop the values that an opcode uses, in the order in which they were pushed."""
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
    """Return what an opcode leaves on the stack."""
    if name.startswith("TUPLE"):
        # Only tuples hash what they hold. An encoded value counts as one: encoding it again is
        # then refused.
        depth = max((value.depth for value in taken), default=0) + 1
        if depth > MAX_DEPTH:
            raise HostileError(f"it nests tuples deeper than {MAX_DEPTH}")
        expanded = 1 + sum(value.size for value in taken)
        if expanded > MAX_EXPANDED:
            raise HostileError(
                f"a tuple of it has more than {MAX_EXPANDED:,} values and characters"
            )
        return _Value(depth, items=tuple(taken[:8]), size=expanded)
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
        if taken[0].name is None:  # torch would print it, shared parts as often as they occur
            raise HostileError("it calls something that it has not imported")
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

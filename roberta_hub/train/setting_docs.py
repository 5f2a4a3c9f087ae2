"""Reads what is said of settings: types, defaults, and the docstring below each field."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import textwrap
from collections.abc import Iterator


@dataclasses.dataclass(frozen=True)
class Setting:
    """A field of a dataclass of settings."""

    name: str
    kind: str
    """Its annotation."""
    default: str
    """As it is typed after `=`; "": it has none."""
    says: str
    """The docstring below it."""


def fields_of(kind: type) -> Iterator[Setting]:
    """Read the fields of a dataclass, each with the docstring below it; no sections.

    Example:
        >>> from roberta_hub.train.settings import DataConfig
        >>> next(fields_of(DataConfig)).says
        'File, folder or token blocks to learn from.'
    """
    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(body, ast.ClassDef)
    says = {
        node.target.id: " ".join(str(after.value.value).split())
        for node, after in zip(body.body, body.body[1:], strict=False)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
    }
    for field in dataclasses.fields(kind):
        default = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        if not dataclasses.is_dataclass(default):
            yield Setting(field.name, str(field.type), shown(default), says.get(field.name, ""))


def shown(value: object) -> str:
    """Write a value as it is typed after `=`.

    Example:
        >>> shown(None), shown([0.9, 0.98]), shown(1e-05), shown({"warm": True})
        ('null', '[0.9, 0.98]', '1e-5', '{warm: true}')
    """
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {shown(own)}" for name, own in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(shown, value)) + "]"
    return "" if value == "???" else re.sub("e-0", "e-", str(value))

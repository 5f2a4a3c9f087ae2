"""Keeps columns of a table beside the answers of a verb."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import click

from roberta_hub.arguments import short_repr
from roberta_hub.errors import InputError, Remedy, UnknownNameError
from roberta_hub.rows.arrow import column_value, import_arrow, json_schema
from roberta_hub.rows.columns import check_clash, shell_list
from roberta_hub.rows.tables import JSONL_HEADER_OBJECTS, Table
from roberta_hub.rows.values import Fault, is_missing, is_utf8
from roberta_hub.shell.reading import Item

COLUMNS_ADVISED = 12
"""Most columns that a remedy lists."""


class KeptColumns:
    """Columns of a table that are written beside its answers."""

    def __init__(self, table: Table, keep: tuple[str, ...] | None, format: str) -> None:
        """Choose the columns, and see whether the format of the answers can hold them."""
        self._table, self._all = table, keep is None
        self._own = self._all and format == table.format.name == "jsonl"
        self._kinds: Mapping[str, str] | None = None
        """Type of each column, where values may be of another."""
        self.schema: Any = None
        """Arrow's, of a Parquet file of answers."""
        if keep is not None:
            try:
                self.names = [table.check(name) for name in keep]
            except UnknownNameError as error:
                raise click.UsageError(str(error)) from None
        elif table.format.name == "jsonl" and not self._own:
            self.names = list(dict.fromkeys(key for row in _first_objects(table) for key in row))
        else:
            self.names = list(table.columns)
        self._binary = self._binary_columns()
        if format == "parquet":
            self._set_schema()
        elif self._binary:
            name = self._binary[0]
            raise InputError(
                f"the column {short_repr(name)} holds binary, and {format} has no place for it; "
                f"write Parquet, or {self._without([name])}"
            )
        self._known = frozenset(self.names)

    def _set_schema(self) -> None:
        pa = import_arrow("Parquet")
        if self._table.schema is not None:
            fields = {field.name: field.type for field in self._table.schema}
        elif self._table.format.name == "jsonl":
            found = json_schema(_first_objects(self._table))
            fields = {field.name: field.type for field in found}
        else:
            fields = {}
        kinds = [(name, fields.get(name, pa.string())) for name in self.names]
        self.schema = pa.schema(kinds)
        if self._table.schema is None:
            self._kinds = {name: str(kind) for name, kind in kinds}

    def _binary_columns(self) -> list[str]:
        if self._table.schema is None:
            return []
        kinds = {field.name: str(field.type) for field in self._table.schema}
        return [name for name in self.names if "binary" in kinds[name]]

    def check(self, answers: Iterable[str]) -> None:
        """Refuse answers with the name of a column."""
        names = list(answers)
        twice = [name for name in self.names if name in names]
        check_clash(self.names, names, Remedy(self._without(twice)))

    def _without(self, names: Sequence[str]) -> str:
        rest = [name for name in self.names if name not in names]
        if not rest or len(rest) > COLUMNS_ADVISED:
            return "--keep none keeps no column, --keep NAME,NAME those that you name"
        return f"--keep {shell_list(rest)} keeps all but it, --keep none no column"

    def fitted(self, item: Item) -> Item:
        """Return an input with the columns to keep; at fault where a value cannot be kept."""
        if self._own:
            return item
        values = {name: item.values.get(name) for name in self.names}
        fault = item.fault
        if self._all and not item.values.keys() <= self._known:
            new = next(name for name in item.values if name not in self._known)
            fault = fault or Fault(
                f"a column {short_repr(new)} that the first rows have not; name the columns to keep"
            )
        for name, value in values.items():
            fitting = self._fitting(value, name)
            if isinstance(fitting, Fault):
                fault, fitting = fault or fitting, None
            values[name] = fitting
        texts = () if fault else item.texts
        return replace(item, values=values, fault=fault, texts=texts)

    def _fitting(self, value: Any, name: str) -> Any:
        if self._kinds is not None:
            return column_value(value, self._kinds[name], name)
        if isinstance(value, str) and not is_utf8(value):
            return Fault(f"the column {short_repr(name)} holds no UTF-8")
        if isinstance(value, bytes) and name not in self._binary:  # text that is no UTF-8
            return Fault(f"the column {short_repr(name)} holds no UTF-8")
        return value


def _first_objects(table: Table) -> list[dict[str, Any]]:
    rows = islice(table.begin(), JSONL_HEADER_OBJECTS)
    return [values for _, values in rows if not isinstance(values, Fault)]


def json_value(value: Any) -> Any:
    """Return a value as JSON has it; what JSON has no type for as text.

    Example:
        >>> json_value(float("nan")), json_value([1, "a"])
        (None, [1, 'a'])
    """
    if isinstance(value, float):
        return None if math.isnan(value) else value
    if isinstance(value, dict):
        return {name: json_value(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return list(map(json_value, value))
    if value is None or isinstance(value, (str, int)):
        return value
    if is_missing(value):
        return None
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def cell_text(value: Any) -> Any:
    """Return a value as a cell of a CSV has it: text as it is, anything else as JSON.

    Example:
        >>> cell_text("a"), cell_text(None), cell_text(True), cell_text([1])
        ('a', '', 'true', '[1]')
    """
    plain = json_value(value)
    if plain is None:
        return ""
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)

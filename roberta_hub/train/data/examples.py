"""Labelled tables -> plain records: TSV, JSONL, Parquet and GLUE's own layouts.

`layouts.py` has the other sets'.

A row that cannot be read is an error with its file and line; nothing is guessed.
"""

from __future__ import annotations

import gzip
import json
import lzma
import os
import warnings
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from roberta_hub.errors import InputError, MissingExtraError, RobertaHubError, UnknownNameError
from roberta_hub.text.tokenizer import Text
from roberta_hub.train.config import near
from roberta_hub.train.data.labels import label_of, labels_of

TABLES = ("tsv", "jsonl", "parquet")
"""What `rows` reads; `None` takes the one that the file's name ends with."""
SENTENCE_ROLES = ("sentence", "sentence2", "label")

Row = tuple[int, dict[str, Any]]
"""(line, value of each column)."""


@dataclass(frozen=True)
class Sentences:
    """A text, or a pair of them, and what is true of it."""

    text: Text
    labels: tuple[str, ...]
    """Its class; several, or none, where a text may have many."""
    where: str
    """File and line, for messages."""


@dataclass(frozen=True)
class Glue:
    """Where a GLUE file has its columns, counted from 0 (fairseq `preprocess_GLUE_tasks.sh`)."""

    sentences: tuple[int, ...]
    label: int
    header: bool = True
    fields: int | None = None
    """Rows with another number of fields are left out, with a warning: QQP has some."""
    names: Mapping[str, str] | None = None
    """The file's label -> ours."""
    scale: float = 1.0
    """Of the labels of a regression, which are divided by it."""

    @property
    def labels(self) -> tuple[str, ...] | None:
        """Class names in the order of the logits."""
        return None if self.names is None else tuple(self.names.values())


def _same(*names: str) -> dict[str, str]:
    return {name: name for name in names}


GLUE = {
    "mnli": Glue((8, 9), -1, names=_same("contradiction", "neutral", "entailment")),
    "qnli": Glue((1, 2), 3, names=_same("not_entailment", "entailment")),
    "qqp": Glue((3, 4), 5, fields=6, names={"0": "different", "1": "duplicate"}),
    "rte": Glue((1, 2), 3, names=_same("not_entailment", "entailment")),
    "sst_2": Glue((0,), 1, names={"0": "negative", "1": "positive"}),
    "mrpc": Glue((3, 4), 0, names={"0": "different", "1": "paraphrase"}),
    "cola": Glue((3,), 1, header=False, names={"0": "unacceptable", "1": "acceptable"}),
    "sts_b": Glue((7, 8), 9, scale=5.0),
}


def bad(path: Path, line: int | str, what: str) -> InputError:
    """The error of one row."""
    return InputError(f"{path}:{line}: {what}")


def read_sentences(
    path: str | Path,
    format: str | None = None,
    columns: Mapping[str, Any] | None = None,
    *,
    separator: str | None = None,
) -> list[Sentences]:
    r"""Texts or pairs with their labels.

    Args:
        path: a file; `.gz` and `.xz` are unpacked on the fly.
        format: "tsv" (with a header, without quoting), "jsonl", "parquet", or one of `GLUE`; None:
            by the file's name.
        columns: which column is `sentence`, `sentence2` (optional) and `label`; None: those names.
            White space around labels is no part of them.
        separator: between the labels of a text that may have many; None: each has one. In JSONL and
            Parquet many labels are a list.

    Raises:
        InputError: a row that cannot be read, with its file and line.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "train.tsv"
        >>> _ = path.write_text("text\tstars\nA \"good\" film.\tfive\n")
        >>> read_sentences(path, columns={"sentence": "text", "label": "stars"})[0].labels
        ('five',)
    """
    path = Path(path)
    if format in GLUE:
        return nonempty(list(_glue(path, GLUE[format])), path)
    check_format(format, (*TABLES, *GLUE))
    named = roles(columns, SENTENCE_ROLES, {"sentence": "sentence", "label": "label"})
    found = []
    for line, row in rows(path, format):
        texts = tuple(
            text_of(row, named[role], path, line)
            for role in ("sentence", "sentence2")
            if role in named
        )
        label = value_of(row, named["label"], path, line)
        where = f"{path}:{line}"
        found.append(
            Sentences(
                texts if len(texts) > 1 else texts[0], _labels(label, separator, where), where
            )
        )
    return nonempty(found, path)


def _labels(value: Any, separator: str | None, where: str) -> tuple[str, ...]:
    if separator is not None:
        return labels_of(value, separator, where)
    if isinstance(value, list):
        raise InputError(f"{where}: a list of labels; the task multi_label learns those")
    return (label_of(value, where),)  # JSON has 1 and 1.0 and true, labels like any other


def _glue(path: Path, layout: Glue) -> Iterator[Sentences]:
    left_out = []
    for line, text in lines(path):
        if line == 1 and layout.header:
            continue
        cells = text.split("\t")
        if layout.fields is not None and len(cells) != layout.fields:
            left_out.append(line)
            continue
        if len(cells) <= max(*layout.sentences, layout.label):
            raise bad(path, line, f"{len(cells)} fields, the layout has more; is the format right?")
        label = label_of(cells[layout.label], f"{path}:{line}")
        if layout.names is not None and label not in layout.names:
            raise bad(path, line, f"label {label[:40]!r}; there are {', '.join(layout.names)}")
        texts = tuple(cells[i] for i in layout.sentences)
        name = layout.names[label] if layout.names else label
        yield Sentences(texts if len(texts) > 1 else texts[0], (name,), f"{path}:{line}")
    if left_out:
        warnings.warn(
            f"{path}: left out {len(left_out)} rows that do not have {layout.fields} fields, as "
            f"fairseq does; the first is line {left_out[0]}",
            stacklevel=3,
        )


def rows(path: Path, format: str | None = None) -> Iterator[Row]:
    """Rows of a table as dicts, with their line numbers.

    Raises:
        InputError: no such file, not UTF-8, or a row that does not fit the header.
    """
    format = format or _format_of(path)
    if format == "tsv":
        yield from _tsv(path)
    elif format == "jsonl":
        for line, text in lines(path):
            if text.strip():
                yield line, json_object(text, path, line)
    elif format == "parquet":
        yield from _parquet(path)
    else:
        check_format(format, TABLES)


def check_format(format: str | None, known: Sequence[str]) -> None:
    """An error that lists the formats, where one is named that is not known."""
    if format is not None and format not in known:
        raise UnknownNameError(f"data.format is {format!r}{near(format, known)}")


def _format_of(path: Path) -> str:
    suffixes = [suffix[1:] for suffix in path.suffixes if suffix not in (".gz", ".xz")]
    format = suffixes[-1] if suffixes else ""
    if format not in TABLES:
        raise InputError(
            f"{path}: its name does not say what it is; set data.format to {', '.join(TABLES)}, or "
            "to the layout of a published set"
        )
    return format


def _tsv(path: Path) -> Iterator[Row]:
    header: list[str] = []
    for line, text in lines(path):
        cells = text.split("\t")
        if line == 1:
            header = cells
            if len(set(header)) != len(header):
                raise bad(path, line, "two columns have the same name")
        elif len(cells) != len(header):
            raise bad(path, line, f"{len(cells)} fields, the header has {len(header)}")
        else:
            yield line, dict(zip(header, cells, strict=True))


def _parquet(path: Path) -> Iterator[Row]:
    try:
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError(
            f"{path}: Parquet needs pyarrow: pip install 'roberta-hub[tables]'"
        ) from None
    check_file(path)
    try:
        table = pyarrow.parquet.ParquetFile(path)
        line = 0
        for batch in table.iter_batches():
            for row in batch.to_pylist():
                line += 1
                yield line, row
    except (pyarrow.ArrowException, OSError, ValueError, OverflowError) as error:
        raise InputError(f"{path}: not a readable Parquet file: {str(error)[:200]}") from None


def lines(path: Path) -> Iterator[tuple[int, str]]:
    r"""(number from 1, line without its end) of a UTF-8 file; only "\n" ends a line."""
    check_file(path)
    try:
        with _open(path) as file:
            for number, raw in enumerate(file, 1):
                try:
                    text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError as error:
                    raise bad(path, number, f"not UTF-8: {error}; convert the file") from None
                yield number, text.rstrip("\r\n")
    except RobertaHubError:
        raise
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        damaged = "; damaged, or not what its name says" if path.suffix in (".gz", ".xz") else ""
        raise InputError(f"{path}: cannot be read: {error}{damaged}") from None


def _open(path: Path) -> IO[bytes]:
    if path.suffix == ".xz":
        return lzma.open(path)
    if path.suffix == ".gz":
        return gzip.open(path)  # type: ignore[return-value]
    return open(path, "rb")


def check_file(path: Path) -> None:
    """An error where there is no such file."""
    if not os.path.isfile(path):  # which also answers for names that no file can have
        raise InputError(f"{path}: no such file; name it with data.train=... or data.valid=...")


def json_object(text: str, path: Path, line: int | str) -> dict[str, Any]:
    """The JSON object that a line holds."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise bad(path, line, f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise bad(path, line, f"a JSON {type(value).__name__}, not an object")
    return value


def roles(
    columns: Mapping[str, Any] | None, known: Sequence[str], default: Mapping[str, str]
) -> dict[str, Any]:
    """Which column plays which role; UnknownNameError for a role that there is not."""
    for role in columns or {}:
        if role not in known:
            raise UnknownNameError(f"no role data.columns.{role}{near(role, known)}")
    for role, column in (columns or {}).items():
        several = isinstance(column, (list, tuple)) and role == "options"
        if not all(isinstance(name, str) for name in (column if several else [column])):
            raise InputError(f"data.columns.{role} is {str(column)[:60]!r}, must name a column")
    return {**default, **(columns or {})}


def value_of(row: Mapping[str, Any], column: Any, path: Path, line: int) -> Any:
    """A column's value, or an error that lists the columns."""
    if column not in row:
        raise bad(path, line, f"no column {column!r}; there are {', '.join(map(str, row))}")
    value = row[column]
    if value is None:
        raise bad(path, line, f"column {column!r} is empty")
    return value


def text_of(row: Mapping[str, Any], column: Any, path: Path, line: int) -> str:
    """A column's text."""
    value = value_of(row, column, path, line)
    if not isinstance(value, str):
        raise bad(path, line, f"column {column!r} is a {type(value).__name__}, not text")
    return value


def list_of(row: Mapping[str, Any], column: Any, path: Path, line: int) -> list[str]:
    """A column's list of texts, or those of several columns."""
    if isinstance(column, (list, tuple)):
        return [text_of(row, name, path, line) for name in column]
    value = value_of(row, column, path, line)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise bad(path, line, f"column {column!r} is no list of texts")
    return value


def nonempty(found: list[Any], path: Path) -> list[Any]:
    """The examples, or an error where there are none."""
    if not found:
        raise InputError(f"{path}: holds no examples")
    return found

"""A folder that is listed once, and whose small JSON files are each parsed once.

One `Folder` is passed to every reader of a model, those of weights and those of vocabularies, so
that all of them see the same files with the same contents.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from roberta_hub.errors import CheckpointError, RobertaHubError
from roberta_hub.files import MAX_JSON_BYTES, check_regular, parse_json, read_bytes, too_large

__all__ = ["Folder"]
_OF_A_MODEL = re.compile(r"\.(?:json|safetensors|bin|txt|model)$|^model\.pt$")
"""Names of a model's files; other checkpoints next to it may be links to what was cleared away."""


class Folder:
    """The names in a directory, and the contents of its JSON files.

    Both are read when they are first asked for and kept, so a `Folder` shows the directory as it
    was then: make one for each load, and let it go afterwards.

    A name is a file's, or that of a file in a folder below: "label/dict.txt".

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (path / "config.json").write_text('{"model_type": "bert"}')
        >>> folder = Folder(path)
        >>> folder.has("config.json"), folder.has("vocab.txt"), folder.names()
        (True, False, ['config.json'])
        >>> folder.json("config.json"), folder.optional("tokenizer.json")
        ({'model_type': 'bert'}, {})
        >>> Folder(path, only=["vocab.txt"]).names()
        []
    """

    def __init__(
        self, path: str | os.PathLike[str], *, only: Collection[str] | None = None
    ) -> None:
        self.path = Path(path)
        self._only = only
        self._entries: Mapping[str, os.DirEntry[str]] | None = None
        self._trouble: OSError | ValueError | None = None
        self._parsed: dict[str, tuple[Any, int]] = {}
        self._below: dict[str, Folder] = {}

    def __str__(self) -> str:
        return str(self.path)

    def __repr__(self) -> str:
        return f"Folder({str(self.path)!r})"

    def __fspath__(self) -> str:
        return os.fspath(self.path)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Folder) and self.path == other.path

    def __hash__(self) -> int:
        return hash(self.path)

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    def folder(self, name: str) -> Folder:
        """Return the folder of this name below; the same one whenever it is asked for."""
        name = name.rstrip("/")
        if name in ("", "."):
            return self
        if name not in self._below:
            only = None if self._only is None else _below(self._only, name)
            self._below[name] = Folder(self.path / name, only=only)
        return self._below[name]

    def names(self) -> list[str]:
        """Return every name in the folder, in order, links to nothing included.

        A folder that cannot be listed has none here, and `listing` says why.
        """
        return sorted(self._listed() or ())

    def listing(self, limit: int = 8) -> str:
        """Return the first names in the folder, for a message."""
        names = self.names()
        if self._trouble is not None:
            why = getattr(self._trouble, "strerror", None) or self._trouble
            return f"nothing that can be listed ({why})"
        more = f", ... ({len(names)} in all)" if len(names) > limit else ""
        return ", ".join(name[:100] for name in names[:limit]) + more or "nothing"

    def has(self, name: str) -> bool:
        """Whether anything has this name, a folder or a pipe too; a link to nothing has not."""
        first, _, rest = name.partition("/")
        if rest:
            return self.has(first) and self.folder(first).has(rest)
        entries = self._listed()
        if entries is None:
            return self._counts(name) and os.path.exists(self.path / name)
        entry = entries.get(name)
        # Only a link needs another look at the disk.
        return entry is not None and (not entry.is_symlink() or os.path.exists(entry.path))

    def check_links(self) -> None:
        """Refuse a folder of which a file is lost: what is not there would be left out silently."""
        for name, entry in sorted((self._listed() or {}).items()):
            if _OF_A_MODEL.search(name) and entry.is_symlink() and not os.path.exists(entry.path):
                raise CheckpointError(
                    f"{entry.path} is a link to {os.readlink(entry.path)[:200]}, which is not "
                    "there; fetch the model again, or copy it with what its links lead to (cp -rL)"
                )
            if name[:1].isdecimal() and entry.is_dir():  # a module of sentence-transformers
                self.folder(name).check_links()

    def is_file(self, name: str) -> bool:
        """Whether a regular file has this name, or a link to one."""
        first, _, rest = name.partition("/")
        if rest:
            return self.has(first) and self.folder(first).is_file(rest)
        entries = self._listed()
        if entries is None:
            return self._counts(name) and os.path.isfile(self.path / name)
        try:
            return name in entries and entries[name].is_file()
        except OSError:  # links in a circle
            return False

    def json(
        self, name: str, error: type[RobertaHubError] = CheckpointError, limit: int = MAX_JSON_BYTES
    ) -> dict[str, Any]:
        """Return the JSON object in a file: the same for each caller, who must not change it."""
        return self._typed(name, dict, error, limit)  # type: ignore[no-any-return]

    def json_list(
        self, name: str, error: type[RobertaHubError] = CheckpointError, limit: int = MAX_JSON_BYTES
    ) -> list[Any]:
        """Return the JSON list in a file; see `json`."""
        return self._typed(name, list, error, limit)  # type: ignore[no-any-return]

    def optional(
        self, name: str, error: type[RobertaHubError] = CheckpointError, limit: int = MAX_JSON_BYTES
    ) -> dict[str, Any]:
        """Return the JSON object in a file; {}: nothing has this name."""
        return self.json(name, error, limit) if self.has(name) else {}

    def _listed(self) -> Mapping[str, os.DirEntry[str]] | None:
        """List the folder once; None: it may not be listed, though its files may be opened."""
        if self._entries is None and self._trouble is None:
            try:
                with os.scandir(self.path) as entries:
                    self._entries = {e.name: e for e in entries if self._counts(e.name)}
            except (OSError, ValueError) as error:  # ValueError: a NUL in the path
                self._trouble = error
        return self._entries

    def _counts(self, name: str) -> bool:
        """Whether a file or folder right here counts."""
        only = self._only
        return only is None or name in only or any(n.startswith(f"{name}/") for n in only)

    def _typed(self, name: str, kind: type, error: type[RobertaHubError], limit: int) -> Any:
        first, _, rest = name.partition("/")
        if rest:
            return self.folder(first)._typed(rest, kind, error, limit)
        path = self.path / name
        if name not in self._parsed:
            check_regular(path, error)
            data = read_bytes(path, limit, error, "JSON file")
            self._parsed[name] = parse_json(data, path, error), len(data)
        value, size = self._parsed[name]
        if size > limit:  # the first caller had a higher one
            raise too_large(path, limit, error, "JSON file")
        if not isinstance(value, kind):
            wanted = "object" if kind is dict else "list"
            raise error(f"{path}: expected a JSON {wanted}, found {type(value).__name__}")
        return value


def _below(names: Collection[str], folder: str) -> list[str]:
    """Return those names of files that are below a folder, as they are called there."""
    return [name[len(folder) + 1 :] for name in names if name.startswith(f"{folder}/")]

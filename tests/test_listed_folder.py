"""A folder is listed once, its JSON files are parsed once, and what is odd in it is refused."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from roberta_hub.errors import CheckpointError, RobertaHubError, VocabularyError
from roberta_hub.folder import Folder

ERRORS = pytest.mark.parametrize("error", [CheckpointError, VocabularyError])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text('{"a": 1}')
    (tmp_path / "modules.json").write_text("[1, 2]")
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text('{"b": 2}')
    (tmp_path / "link.json").symlink_to("config.json")
    (tmp_path / "broken.json").symlink_to("nothing")
    (tmp_path / "circle").symlink_to("circle")
    os.mkfifo(tmp_path / "pipe.json")
    return tmp_path


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often `os.scandir` and `open` were called, by path."""
    counts: Counter[str] = Counter()

    def counting(name: str, real: Callable[..., object]) -> Callable[..., object]:
        def call(path: object, *arguments: object, **keywords: object) -> object:
            counts[f"{name} {path}"] += 1
            return real(path, *arguments, **keywords)

        return call

    monkeypatch.setattr(os, "scandir", counting("list", os.scandir))
    monkeypatch.setattr("builtins.open", counting("open", open))
    return counts


def test_each_folder_is_listed_once_and_each_file_opened_once(
    folder: Path, counted: Counter[str]
) -> None:
    found = Folder(folder)
    for error in (CheckpointError, VocabularyError) * 2:
        assert found.json("config.json", error) == {"a": 1}
        assert found.optional("config.json", error) == {"a": 1}
        assert found.optional("nothing.json", error) == {}
        assert found.json_list("modules.json", error) == [1, 2]
        assert found.json("1_Pooling/config.json", error) == {"b": 2}
        assert found.folder("1_Pooling").json("config.json", error) == {"b": 2}
        assert found.folder("1_Pooling/").is_file("config.json")
    assert counted == dict.fromkeys(
        [
            f"list {folder}",
            f"list {folder / '1_Pooling'}",
            f"open {folder / 'config.json'}",
            f"open {folder / 'modules.json'}",
            f"open {folder / '1_Pooling' / 'config.json'}",
        ],
        1,
    )


def test_what_has_a_name_and_what_is_a_file(folder: Path) -> None:
    found = Folder(folder)
    there = {name: (found.has(name), found.is_file(name)) for name in [*found.names(), "none"]}
    assert there == {
        "1_Pooling": (True, False),
        "broken.json": (False, False),
        "circle": (False, False),
        "config.json": (True, True),
        "link.json": (True, True),
        "modules.json": (True, True),
        "none": (False, False),
        "pipe.json": (True, False),
    }
    for name in (*there, "1_Pooling/config.json", "1_Pooling/none", "none/none", "config.json/x"):
        assert found.has(name) == os.path.exists(folder / name), name
        assert found.is_file(name) == os.path.isfile(folder / name), name
    assert found.folder("") is found is found.folder(".")
    assert found.folder("1_Pooling") is found.folder("1_Pooling/")
    assert os.fspath(found) == str(found) == str(folder) and found / "a" == folder / "a"
    assert found == Folder(folder) and found != Folder(folder / "1_Pooling")


@ERRORS
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("pipe.json", "a named pipe"),
        ("1_Pooling", "a directory"),
        ("broken.json", "cannot be read: No such file"),
        ("none/none.json", "cannot be read: No such file"),
        ("modules.json", "expected a JSON object, found list"),
    ],
)
def test_what_cannot_be_read_is_said(
    folder: Path, name: str, reason: str, error: type[RobertaHubError]
) -> None:
    with pytest.raises(error, match=reason) as caught:
        Folder(folder).json(name, error)
    assert str(folder / name) in str(caught.value)
    if Folder(folder).has(name):
        with pytest.raises(error, match=reason):
            Folder(folder).optional(name, error)
    else:
        assert Folder(folder).optional(name, error) == {}


@ERRORS
@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not readable JSON"),
        (b"{", "not readable JSON"),
        (b"\xff\xfe{}", "not readable JSON: it is UTF-16"),
        (b"[" * 200_000, "not readable JSON"),
        (b'{"a": ' + b"9" * 5000 + b"}", "not readable JSON"),
        (b"null", "expected a JSON object, found NoneType"),
        (b" " * 200 + b"{}", "is larger than 100 bytes, the limit for a JSON file"),
    ],
)
def test_hostile_json(
    tmp_path: Path, data: bytes, reason: str, error: type[RobertaHubError]
) -> None:
    (tmp_path / "it.json").write_bytes(data)
    limit = 100 if "larger" in reason else 1_000_000
    with pytest.raises(error, match=reason):
        Folder(tmp_path).json("it.json", error, limit)


def test_a_limit_counts_for_whoever_asks(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text('{"a": 1}')
    found = Folder(tmp_path)
    assert found.json("tokenizer.json", VocabularyError, 8) == {"a": 1}
    with pytest.raises(CheckpointError, match="larger than 7 bytes"):
        found.json("tokenizer.json", limit=7)


@pytest.mark.parametrize("place", ["none", "a\0b"])
def test_a_folder_that_is_not_there_holds_nothing(tmp_path: Path, place: str) -> None:
    found = Folder(tmp_path / place)
    assert not found.has("a") and not found.is_file("a") and found.optional("a") == {}
    assert found.listing().startswith("nothing that can be listed (")
    assert found.names() == []
    with pytest.raises(CheckpointError, match="cannot be read"):
        found.json("a")


def test_a_folder_that_may_be_entered_and_not_listed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "scandir", refused)  # as root every folder may be listed
    found = Folder(folder)
    assert found.has("config.json") and found.is_file("config.json") and not found.has("none")
    assert found.json("config.json") == {"a": 1} and found.optional("none.json") == {}
    assert found.listing() == "nothing that can be listed (Permission denied)"


def test_a_message_names_the_first_files(tmp_path: Path) -> None:
    assert Folder(tmp_path).listing() == "nothing"
    for name in "dcba":
        (tmp_path / name).touch()
    assert Folder(tmp_path).listing() == "a, b, c, d"
    assert Folder(tmp_path).listing(2) == "a, b, ... (4 in all)"

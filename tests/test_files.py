"""What is published is whole or not there, whoever else writes and whenever a process dies."""

from __future__ import annotations

import os
from pathlib import Path

import forks
import pytest

from roberta_hub import files
from roberta_hub.files import (
    old_name,
    publish_folder,
    publish_new,
    publishing,
    publishing_all,
    remove_leftovers,
    staging,
)


def folder(path: Path, text: str) -> Path:
    (path / "part").mkdir(parents=True)
    (path / "part/file").write_text(text)
    return path


def names(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir())


def test_a_file_that_fails_leaves_the_old_one_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), publishing(path) as stage:
        stage.write_text("half")
        raise ZeroDivisionError
    with pytest.raises(FileNotFoundError), publishing(path):
        pass  # nothing was written
    assert (path.read_text(), names(tmp_path)) == ("old", ["file"])


def test_of_two_writers_at_once_the_last_one_stays(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with publishing(path) as one:
        one.write_text("one")
        with publishing(path) as other:
            other.write_text("other")
        assert path.read_text() == "other"
    assert (path.read_text(), names(tmp_path)) == ("one", ["file"])


@pytest.mark.parametrize("links", [True, False])
def test_a_new_file_has_one_winner(
    links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise PermissionError("no links on this disk")

    if not links:
        monkeypatch.setattr(files.os, "link", refused)
    won = []
    for text in ("first", "second"):
        stage = tmp_path / f"stage-{text}"
        stage.write_text(text)
        won.append(publish_new(stage, tmp_path / "file"))
    assert won == [True, False] and (tmp_path / "file").read_text() == "first"


def test_a_folder_takes_the_place_of_another_of_a_file_and_of_none(tmp_path: Path) -> None:
    target = tmp_path / "target"
    for text in ("none", "a folder", "a file"):
        publish_folder(folder(tmp_path / "stage", text), target, old_name(target))
        assert ((target / "part/file").read_text(), names(tmp_path)) == (text, ["target"])
        if text == "a folder":
            files.remove(target)
            target.write_text("in the way")


def test_a_folder_that_may_stay_stays(tmp_path: Path) -> None:
    target = folder(tmp_path / "target", "there")
    stage = folder(tmp_path / "stage", "same")
    publish_folder(stage, target, old_name(target), keep=lambda: True)
    assert (target / "part/file").read_text() == "there" and stage.is_dir()


def test_what_lies_in_the_way_again_makes_way_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process publishes between our two renames."""
    target, rename = folder(tmp_path / "target", "first"), os.rename
    others = ["second", "third"]

    def meanwhile(source: Path, place: Path) -> None:
        rename(source, place)
        if Path(source) == target and others:
            folder(target, others.pop(0))

    monkeypatch.setattr(files.os, "rename", meanwhile)
    publish_folder(folder(tmp_path / "stage", "ours"), target, old_name(target))
    assert not others and (target / "part/file").read_text() == "ours"
    assert names(tmp_path) == ["target"]


DIE = """
import os, sys
from pathlib import Path
from roberta_hub import files
target = Path(sys.argv[1])
if sys.argv[2] == "between the renames":
    with files.staging(target) as work:
        (work / "stage").mkdir()
        (work / "stage/file").write_text("new")
        tries, rename = [], os.rename
        def die(source, place):
            if Path(place) == target:
                if tries: os.kill(os.getpid(), 9)
                tries.append(source)
            return rename(source, place)
        os.rename = die
        files.publish_folder(work / "stage", target, files.old_name(target))
elif sys.argv[2] == "while a folder is filled":
    with files.publishing_all(target) as work:
        (work / "half").write_text("half")
        os.kill(os.getpid(), 9)
"""


@pytest.mark.system
def test_a_death_between_the_two_renames_is_mended(tmp_path: Path) -> None:
    target = folder(tmp_path / "target", "old")
    assert forks.run("-c", DIE, target, "between the renames").returncode == -9
    assert len(names(tmp_path)) == 2 and not target.exists()
    remove_leftovers(target)
    assert ((target / "part/file").read_text(), names(tmp_path)) == ("old", ["target"])


@pytest.mark.system
def test_the_next_save_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    target = folder(tmp_path / "target", "old")
    assert forks.run("-c", DIE, target, "while a folder is filled").returncode == -9
    (left,) = [name for name in names(target) if name != "part"]
    with staging(target / "save") as living, publishing_all(target) as work:
        (work / "new").write_text("new")
        assert living.is_dir() and not (target / left).exists()
    assert names(target) == ["new", "part"]


def test_where_the_system_names_no_start_only_a_lock_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on macOS and Windows: a second save must not take the first one's stage away."""
    monkeypatch.setattr(files, "_began", lambda pid: "")
    with publishing_all(tmp_path) as first:
        (first / "a.txt").write_text("first", encoding="utf-8")
        with publishing_all(tmp_path) as second:
            (second / "b.txt").write_text("second", encoding="utf-8")
        assert not files.abandoned(first) and files.abandoned(first, locked=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "b.txt"]

"""Unpacking against real hostile archives."""

from __future__ import annotations

import gzip
import os
import tarfile
from pathlib import Path

import pytest
from archives import (
    GOOD,
    OTHER,
    PATH,
    TOY,
    VOCABULARY,
    WEIGHTS,
    assert_model,
    model_files,
    pack,
    regular,
    special,
    tar,
    visible,
)
from server import Server, body

from roberta_hub.checkpoint.fetch import archive as unpacking
from roberta_hub.checkpoint.fetch.archive import extract_archive
from roberta_hub.checkpoint.fetch.download import fetch_model
from roberta_hub.errors import CheckpointError
from roberta_hub.folder import Folder
from roberta_hub.formats.tokenizers import read_dictionaries

# ---- archives on this machine ----


def test_a_local_archive_is_unpacked_once_and_never_touched(tmp_path: Path, cache: Path):
    archive = tmp_path / "mine.tar.gz"
    archive.write_bytes(GOOD)
    archive.chmod(0o444)
    before = archive.stat()
    folder = extract_archive(str(archive))
    assert folder.parent == cache
    assert_model(folder)
    written = (folder / "model.pt").stat().st_mtime_ns
    assert extract_archive(archive) == folder
    assert (folder / "model.pt").stat().st_mtime_ns == written
    after = archive.stat()
    assert (before.st_mtime_ns, before.st_ino) == (after.st_mtime_ns, after.st_ino)
    assert archive.read_bytes() == GOOD
    archive.chmod(0o644)
    archive.write_bytes(OTHER)
    assert_model(extract_archive(archive), WEIGHTS[::-1])


@pytest.mark.parametrize("top", ["", "./", "toy/", "./toy/", "a name/"])
@pytest.mark.parametrize("kind", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_layouts_that_are_understood(tmp_path: Path, top: str, kind: int):
    extra = [regular(f"{top}README", b"x"), regular(f"{top}a/b/dict.txt", b"not this one")]
    content = tar(*extra, *model_files(top), kind=kind)
    (tmp_path / "a.tar.gz").write_bytes(gzip.compress(content))
    assert_model(extract_archive(tmp_path / "a.tar.gz"))


LABELS = b"neg 2\npos 1\n"


@pytest.mark.parametrize("top", ["", "toy/"])
@pytest.mark.parametrize("shared", ["dict.txt", "input0/dict.txt"])
def test_a_classifiers_dictionaries_come_along(tmp_path: Path, top: str, shared: str):
    members = [
        regular(f"{top}{shared}", VOCABULARY),
        regular(f"{top}label/dict.txt", LABELS),
        regular(f"{top}model.pt", WEIGHTS),
    ]
    (tmp_path / "a.tar.gz").write_bytes(pack(*members))
    folder = extract_archive(tmp_path / "a.tar.gz")
    assert (folder / shared).read_bytes() == VOCABULARY
    assert (folder / "label" / "dict.txt").read_bytes() == LABELS
    assert read_dictionaries(Folder(folder)) == (VOCABULARY, LABELS)
    (folder / "label" / "dict.txt").unlink()
    assert extract_archive(tmp_path / "a.tar.gz") == folder  # incomplete, so unpacked again
    assert read_dictionaries(Folder(folder)) == (VOCABULARY, LABELS)


def test_the_checkpoint_may_have_another_name(tmp_path: Path, cache: Path):
    archive = tmp_path / "a.tar.gz"
    archive.write_bytes(pack(*model_files(), regular("toy/best.pt", WEIGHTS[::-1])))
    best = extract_archive(archive, f"best.pt{os.pathsep}other.pt")
    assert (best / "best.pt").read_bytes() == WEIGHTS[::-1]
    assert extract_archive(archive, "best.pt") == best
    assert_model(extract_archive(archive))
    assert len(visible(cache)) == 2
    for absent in ("last.pt", "README"):
        with pytest.raises(CheckpointError, match=f"it has no {absent}"):
            extract_archive(archive, absent)


@pytest.mark.parametrize(
    "name", ["", "..", "a/model.pt", "/model.pt", "../model.pt", "dict.txt", "manifest.json"]
)
def test_a_checkpoint_name_is_a_plain_file_name(tmp_path: Path, cache: Path, name: str):
    archive = tmp_path / "a.tar.gz"
    archive.write_bytes(GOOD)
    with pytest.raises(CheckpointError, match="unpack the archive"):
        extract_archive(archive, name)
    assert visible(cache) == set()


def test_a_local_archive_that_cannot_be_read(tmp_path: Path):
    for path in (tmp_path / "nothing.tar.gz", tmp_path):
        with pytest.raises(CheckpointError, match=f"cannot read the archive {path}"):
            extract_archive(path)
    page = tmp_path / "page.tar.gz"
    page.write_bytes(b"<html>")
    with pytest.raises(CheckpointError, match="looks like a web page"):
        extract_archive(page)


def symlink_chain() -> list[tuple[tarfile.TarInfo, bytes]]:
    """A chain in the manner of CVE-2025-4517: realpath gives up beyond PATH_MAX.

    The check passes.
    """
    deep, members = "d" * 247, []
    path = ""
    for step in "abcdefghijklmnop":
        members.append(special(f"{path}{deep}", tarfile.DIRTYPE))
        members.append(special(f"{path}{step}", tarfile.SYMTYPE, deep))
        path += f"{deep}/"
    link = "/".join("abcdefghijklmnop") + "/" + "l" * 254
    members.append(special(link, tarfile.SYMTYPE, "../" * 16))
    members.append(special("escape", tarfile.SYMTYPE, f"{link}/../../../escaped"))
    members.append(special("file", tarfile.LNKTYPE, "escape/file"))
    return [*members, regular("file", b"gotcha")]


def negative_size() -> bytes:
    """In the manner of CVE-2025-8194: an offset that leads back."""
    member = tarfile.TarInfo("toy/x")
    member.size = -1024
    return member.tobuf(tarfile.GNU_FORMAT)


def chained_headers() -> bytes:
    """Extended headers upon extended headers, each of which costs tarfile a level of recursion."""
    member = tarfile.TarInfo("x")
    member.type = tarfile.GNUTYPE_LONGNAME
    member.size = 1
    return (member.tobuf(tarfile.GNU_FORMAT) + b"y".ljust(512, b"\0")) * 1000


def sparse() -> list[tuple[tarfile.TarInfo, bytes]]:
    member, content = regular("toy/big", b"1\n0\n1\n".ljust(512, b"\0") + b"z")
    member.pax_headers = {
        "GNU.sparse.major": "1",
        "GNU.sparse.minor": "0",
        "GNU.sparse.name": "toy/big",
        "GNU.sparse.realsize": "99",
    }
    return [(member, content)]


HOSTILE = {
    "symlink": ([special("toy/x", tarfile.SYMTYPE, "/etc/passwd")], "link"),
    "symlink as model": ([special("toy/model.pt", tarfile.SYMTYPE, "/etc/passwd")], "link"),
    "hardlink": ([special("toy/x", tarfile.LNKTYPE, "toy/dict.txt")], "link"),
    "character device": ([special("toy/x", tarfile.CHRTYPE)], "device"),
    "block device": ([special("toy/x", tarfile.BLKTYPE)], "device"),
    "fifo": ([special("toy/model.pt", tarfile.FIFOTYPE)], "special"),
    "unknown type": ([special("toy/x", b"Z")], "special"),
    "sparse": (sparse(), "special"),
    "parent": ([regular("../model.pt", b"x")], "outside"),
    "parent inside": ([regular("toy/../../x", b"x")], "outside"),
    "parent folder": ([special("..", tarfile.DIRTYPE)], "outside"),
    "absolute": ([regular("/tmp/x", b"x")], "outside"),
    "second model": ([regular("toy/model.pt", b"x")], "second model.pt"),
    "second model, spelled otherwise": ([regular("./toy//model.pt", b"x")], "second model.pt"),
    "second dict elsewhere": ([regular("other/dict.txt", b"x")], "second dict.txt"),
    "CVE-2025-4517": (symlink_chain(), "link"),
}


def refuse(tmp_path: Path, cache: Path, content: bytes, reason: str) -> None:
    archive = tmp_path / "hostile.tar.gz"
    archive.write_bytes(content)
    with pytest.raises(CheckpointError, match=f"(?s)hostile.tar.gz is refused.*{reason}"):
        extract_archive(archive)
    assert visible(cache) == set()
    assert {path.name for path in tmp_path.iterdir()} <= {"hostile.tar.gz", "torch"}


@pytest.mark.parametrize("first", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_members_refuse_the_archive(tmp_path: Path, cache: Path, name: str, first: bool):
    members, reason = HOSTILE[name]
    both = [*members, *model_files()] if first else [*model_files(), *members]
    refuse(tmp_path, cache, pack(*both), reason)


def test_a_hostile_download_is_refused_alike(server: Server, cache: Path):
    server.plan[PATH] = [body(pack(*model_files(), *symlink_chain()))]
    with pytest.raises(CheckpointError, match="is refused"):
        fetch_model(TOY)
    assert visible(cache) == set()


def test_a_negative_size_does_not_lead_back(tmp_path: Path, cache: Path):
    content = tar(*model_files())
    refuse(tmp_path, cache, gzip.compress(negative_size() + content), "")
    end = content.index(bytes(1024), content.index(WEIGHTS))
    refuse(tmp_path, cache, gzip.compress(content[:end] + negative_size() + content[end:]), "")


def test_chained_headers_do_not_overflow_the_stack(tmp_path: Path, cache: Path):
    refuse(tmp_path, cache, gzip.compress(chained_headers() + tar(*model_files())), "recursion")


@pytest.mark.parametrize("name", ["model.pt", "dict.txt"])
def test_a_missing_file_is_named(tmp_path: Path, cache: Path, name: str):
    members = [pair for pair in model_files() if not pair[0].name.endswith(name)]
    refuse(tmp_path, cache, pack(*members, special(f"toy/{name}", tarfile.DIRTYPE)), f"no {name}")


def test_an_empty_archive(tmp_path: Path, cache: Path):
    refuse(tmp_path, cache, gzip.compress(b""), "")
    refuse(tmp_path, cache, pack(), "no model.pt")


def test_bombs(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch):
    plain = tar(*model_files())
    header = regular("x", b"")[0]
    header.pax_headers = {"comment": "a" * (2 << 20)}
    refuse(tmp_path, cache, pack((header, b""), *model_files()), "belong to no file")
    refuse(tmp_path, cache, gzip.compress(plain + bytes(2 << 20)), "belong to no file")
    refuse(tmp_path, cache, gzip.compress(plain) + gzip.compress(bytes(2 << 20)), "no file")
    crowd = [regular(f"toy/{index}", b"") for index in range(1000)]
    refuse(tmp_path, cache, pack(*crowd, *model_files()), "more than 1,000 members")
    monkeypatch.setattr(unpacking, "MAX_ARCHIVE_BYTES", 1 << 20)
    big = regular("toy/ignored", bytes(1 << 20))
    refuse(tmp_path, cache, pack(*model_files(), big), "unpacks to more than 1,048,576 bytes")
    half = [regular(f"toy/{name}", bytes(600_000)) for name in ("a", "b")]
    refuse(tmp_path, cache, pack(*half, *model_files()), "unpacks to more than")


def test_a_size_that_only_the_header_claims(tmp_path: Path, cache: Path):
    member = tarfile.TarInfo("toy/model.pt")
    member.size = 1 << 30
    content = tar(model_files()[0])[:-10240] + member.tobuf() + b"little"
    refuse(tmp_path, cache, gzip.compress(content), "")


@pytest.mark.parametrize("kept", [2, 10, len(GOOD) // 2, len(GOOD) - 8, len(GOOD) - 1])
def test_truncated_archives_are_refused(tmp_path: Path, cache: Path, kept: int):
    refuse(tmp_path, cache, GOOD[:kept], "")


def test_trailing_garbage_is_refused(tmp_path: Path, cache: Path):
    refuse(tmp_path, cache, GOOD + b"garbage", "")


@pytest.mark.system
def test_no_bit_flip_changes_what_is_unpacked(tmp_path: Path):
    archive = tmp_path / "flipped.tar.gz"
    refused = 0
    for place in range(2, len(GOOD)):
        content = bytearray(GOOD)
        content[place] ^= 1 << place % 8
        archive.write_bytes(content)
        try:
            folder = extract_archive(archive)
        except CheckpointError:
            refused += 1
        else:
            assert_model(folder)
    # The rest is the date in the gzip header, and other ways to say "zeros, as before".
    assert refused > 0.9 * len(GOOD)

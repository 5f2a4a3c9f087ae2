"""A scan of pickles runs nothing, finds what hides in them, and ends soon.

It says what load_pickle then does.
"""

from __future__ import annotations

import io
import os
import pickle
import resource
import struct
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from archives import pack, regular, special
from checkpoints import fairseq_file, legacy_pickle, with_pickle

from roberta_hub import RobertaHubError
from roberta_hub.checkpoint.untrusted import scan
from roberta_hub.checkpoint.untrusted.opcodes import Survey
from roberta_hub.checkpoint.untrusted.scan import survey, survey_archive
from roberta_hub.checkpoint.untrusted.unpickle import CLASS_NAMES, is_mapped, load_pickle

SAMPLE = Path(__file__).resolve().parents[1] / "data/fairseq/model.pt"


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def short(value: str) -> bytes:
    return b"\x8c" + bytes([len(value)]) + value.encode()


TOUCH = "touch harm"
RUN = text(TOUCH) + b"\x85R."
HOSTILE: dict[str, bytes] = {
    "global": b"\x80\x02cposix\nsystem\n" + RUN,
    "protocol 0": b"cos\nsystem\n(S'touch harm'\ntR.",
    "python 2's name": b"\x80\x02c__builtin__\neval\n" + RUN,
    "inst": b"(S'touch harm'\niposix\nsystem\n.",
    "obj": b"(cposix\nsystem\n" + text(TOUCH) + b"o.",
    "newobj": b"\x80\x02cposix\nsystem\n" + text(TOUCH) + b"\x85\x81.",
    "stack global": b"\x80\x04" + short("posix") + short("system") + b"\x93" + RUN,
    # the strings are memoised in the wrong order, popped, and fetched again
    "memo": b"\x80\x04"
    + short("system")
    + b"\x94"
    + short("posix")
    + b"\x9400h\x01h\x00\x93"
    + RUN,
    "memo overwritten": b"\x80\x04" + short("collections") + b"q\x05" + short("posix") + b"q\x0500"
    b"h\x05" + short("system") + b"\x93" + RUN,
    "dup and marks": b"\x80\x04" + short("posix") + b"2(" + short("x") + b"10"
    b"" + short("posix") + short("system") + b"\x93" + RUN,
    "harmless name by stack": b"\x80\x04"
    + short("collections")
    + short("OrderedDict")
    + b"\x93)R.",
    "computed name": b"\x80\x04)" + short("system") + b"\x93" + RUN,
    "extension": b"\x80\x02\x82\x07)R.",
    "pickle in a pickle": b"\x80\x03c_pickle\nloads\nC"
    + bytes([len(RUN) + 18])
    + b"\x80\x02cposix\nsystem\n"
    + RUN
    + b"\x85R.",
    "attribute by dots": b"\x80\x04" + short("torch") + short("hub.load") + b"\x93" + RUN,
    "unused": b"\x80\x02cposix\nsystem\n0}.",
    "after the end of a list": b"\x80\x02](K\x01ecsubprocess\nPopen\n](" + text("sh") + b"e\x85R.",
}
BENIGN: dict[str, bytes] = {
    "plain": pickle.dumps({"model": {}, "args": None, "text": "cposix\nsystem\n"}, 2),
    "namespace": b"\x80\x02cargparse\nNamespace\n)\x81}X\x01\x00\x00\x00aK\x01sb.",
    "ordered": b"\x80\x02ccollections\nOrderedDict\n)R.",
    "meter": b"\x80\x02cfairseq.meters\nAverageMeter\n)\x81}b.",
    "bytes": pickle.dumps(b"\x80\x02cposix\nsystem\n.", 2),  # only a string, never loaded
}
MAKERS: dict[str, Callable[[Path, bytes], Path]] = {"zip": with_pickle, "legacy": legacy_pickle}


def look(path: Path) -> Survey:
    with open(path, "rb") as file:
        kind = "zip" if is_mapped(path) else "legacy"
        return survey(file, path.stat().st_size, kind, CLASS_NAMES)


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, bytes], Path]:
    monkeypatch.chdir(tmp_path)  # where `touch harm` would leave its mark
    return lambda kind, opcodes: MAKERS[kind](fairseq_file(tmp_path / kind), opcodes)


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("attack", HOSTILE)
def test_every_way_to_ask_for_code_is_seen(make, kind: str, attack: str):
    path = make(kind, HOSTILE[attack])
    found = look(path)
    assert found.refusals and found.damage is None
    if attack not in ("harmless name by stack", "extension", "computed name"):
        refused = [asked.name for asked in found.asked.values() if asked.verdict == "refused"]
        expected = ("posix.system", "os.system", "builtins.eval", "_pickle.loads", "torch.hub.load")
        assert refused and refused[0] in (*expected, "subprocess.Popen")
    with pytest.raises(RobertaHubError, match=r"refused.*nothing in it was run"):
        load_pickle(path)
    assert not Path("harm").exists()


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("name", BENIGN)
def test_what_is_harmless_is_accepted_and_loads(make, kind: str, name: str):
    path = make(kind, BENIGN[name])
    found = look(path)
    assert (found.refusals, found.damage) == ([], None)
    load_pickle(path)


@pytest.mark.parametrize("attack", ["global", "protocol 0", "inst", "obj", "stack global", "memo"])
def test_arguments_are_shown_and_the_attacks_are_real(make, attack: str):
    found = look(make("zip", HOSTILE[attack]))
    (asked,) = (asked for asked in found.asked.values() if asked.verdict == "refused")
    assert asked.calls == ["('touch harm')"]
    pickle.loads(HOSTILE[attack])
    assert Path("harm").exists()


def test_arguments_in_a_list_are_shown(make):
    found = look(make("zip", HOSTILE["after the end of a list"]))
    assert found.asked["model/data.pkl", "subprocess.Popen"].calls == ["(['sh'])"]


def test_the_sample(tmp_path: Path):
    found = look(SAMPLE)
    verdicts = {asked.name: asked.verdict for asked in found.asked.values()}
    assert verdicts["torch._utils._rebuild_tensor_v2"] == "tensor"
    assert verdicts["argparse.Namespace"] == "inert"
    assert not found.refusals


@pytest.mark.parametrize("protocol", [3, 4, 5])
def test_other_protocols_as_torch_takes_them(tmp_path: Path, protocol: int):
    path = tmp_path / "model.pt"
    torch.save({"model": {"a": torch.ones(2)}, "raw": b"x"}, path, pickle_protocol=protocol)
    found = look(path)
    assert found.refusals == [found.refusals[-1]] and "pickle_protocol" in found.refusals[0]
    with pytest.raises(RobertaHubError, match="pickle_protocol"):
        load_pickle(path)


def bomb(length: int) -> bytes:
    return b"\x80\x02" + b"X\x03\x00\x00\x00abc" * length


BOMBS: dict[str, Callable[[], bytes]] = {
    "values": lambda: b"\x80\x02" + b"N" * 30_000_000,
    "marks": lambda: b"\x80\x02" + b"(" * 30_000_000,
    "strings": lambda: bomb(3_000_000),
    "lists in lists": lambda: b"\x80\x02" + b"]" * 200_000 + b"a" * 199_999 + b".",
    "tuples in tuples": lambda: b"\x80\x02)" + b"\x85" * 400_000 + b".",
    "a long string": lambda: b"\x80\x02X\xff\xff\xff\xff" + b"a" * 1000,
    "a very long string": lambda: b"\x80\x04\x8d" + b"\xff" * 7 + b"\x7f" + b"a" * 1000,
    "a long number": lambda: b"L" + b"9" * 5_000_000 + b"L\n.",
    "many names": lambda: b"".join(b"cm\nn%d\n0" % i for i in range(100_000)) + b"N.",
    "a long line": lambda: b"c" + b"m" * 50_000_000,
}


@pytest.mark.system
@pytest.mark.parametrize(
    ("kind", "name"),
    [*(("legacy", name) for name in BOMBS), ("zip", "marks"), ("zip", "many names")],
)
def test_bombs_end_soon_in_little_memory(kind: str, name: str):
    content = BOMBS[name]()
    file, before = io.BytesIO(content), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if kind == "zip":
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("model/data.pkl", content)
    start, size = time.process_time(), file.seek(0, os.SEEK_END)
    file.seek(0)
    found = survey(file, size, kind, ())
    assert found.refusals or found.damage or name == "lists in lists"
    assert time.process_time() - start < 10  # of this process, however busy the machine is
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1_000_000  # KiB


def test_a_zip_file_with_an_endless_directory_is_not_read():
    # 0x50000000 bytes of directory, said the end of the file
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 9, 9, 0x50000000, 0, 0)
    file = io.BytesIO(b"PK\3\4" + b"\0" * 100 + end)
    found = survey(file, len(file.getvalue()), "zip", ())
    assert found.refusals or found.damage


# ---- archives ----


def archive(folder: Path, *members) -> Path:
    path = folder / "toy.tar.gz"
    path.write_bytes(pack(*members))
    return path


def test_the_pickle_in_an_archive_is_seen_without_unpacking(tmp_path: Path, make):
    words = regular("toy/dict.txt", b"the 10\n")
    for kind in MAKERS:
        evil = make(kind, HOSTILE["global"]).read_bytes()
        before = sorted(tmp_path.rglob("*"))
        members, found = survey_archive(
            archive(tmp_path, words, regular("toy/model.pt", evil)), CLASS_NAMES
        )
        assert members == {"toy/dict.txt": 7, "toy/model.pt": len(evil)}
        assert "posix.system" in found.refusals[0]
        assert {*tmp_path.rglob("*")} - {*before, tmp_path / "toy.tar.gz"} == set()
    good = regular("toy/model.pt", SAMPLE.read_bytes())
    members, found = survey_archive(archive(tmp_path, words, good), CLASS_NAMES)
    assert (found.refusals, found.damage) == ([], None)
    assert ("model/data.pkl", "argparse.Namespace") in found.asked


def test_only_the_ends_of_a_large_file_are_kept(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(scan, "MAX_PICKLE_BYTES", 100_000)
    monkeypatch.setattr(scan, "MAX_READ_BYTES", 100_000)
    members = regular("model.pt", SAMPLE.read_bytes()), regular("dict.txt", b"a 1\n")
    _, found = survey_archive(archive(tmp_path, *members), CLASS_NAMES)
    assert (found.refusals, found.damage) == ([], None)
    assert found.opcodes == look(SAMPLE).opcodes


@pytest.mark.parametrize(
    ("member", "why"),
    [
        (special("toy/x", b"2", "/etc/passwd"), "link"),
        (regular("../x", b""), "outside"),
        (regular("toy/dict.txt", b"again"), "second"),
    ],
)
def test_what_unpacking_would_refuse(tmp_path: Path, member, why: str):
    words = regular("toy/dict.txt", b"the 10\n")
    members, found = survey_archive(archive(tmp_path, words, member), CLASS_NAMES)
    assert why in found.refusals[0]
    assert "toy/dict.txt" in members

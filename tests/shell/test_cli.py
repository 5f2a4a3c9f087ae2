"""The command, run as people run it.

Real processes work on real files and a cache made by the real download.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import forks
import pytest
import torch
from checkpoint.archives import pack, regular
from checkpoint.checkpoints import fairseq_file, legacy_pickle, small, with_pickle
from checkpoint.server import Server, body
from scripts import TOOLS, load_script

from roberta_hub import __version__, available_models, load_model
from roberta_hub.checkpoint.fetch import download, http
from roberta_hub.checkpoint.fetch.cache import cache_root
from roberta_hub.checkpoint.fetch.catalogue import DOWNLOADED_MODELS, files_of
from roberta_hub.checkpoint.fetch.digests import known_digests
from roberta_hub.checkpoint.fetch.records import (
    MODELS,
    Origin,
    Record,
    Remote,
    archive,
    repository,
)
from roberta_hub.files import stage_tag
from roberta_hub.shell.main import main
from roberta_hub.terminal import without_secrets

pytestmark = pytest.mark.system

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "tests/data/fairseq/model.pt"
EVIL = b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x0atouch harm\x85R."


def run(*arguments: object, **environment: str) -> tuple[int, str, str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    done = forks.run("-m", "roberta_hub", *arguments, env=env, timeout=60)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in (download.OFFLINE_ENV, http.MIRROR_ENV, download.ENDPOINT_ENV):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setattr(torch.hub, "_hub_dir", None)
    monkeypatch.chdir(tmp_path)
    return cache_root()


@pytest.fixture
def base(monkeypatch: pytest.MonkeyPatch) -> Path:
    """roberta.base in the cache, fetched by the real code; the archive is the small sample."""
    members = regular("roberta.base/dict.txt", b"a 1\n"), regular("m/model.pt", SAMPLE.read_bytes())
    with Server() as server:
        server.plan["/roberta.base.tar.gz"] = [body(pack(*members))]
        monkeypatch.setenv(http.MIRROR_ENV, server.url)
        return download.fetch_model(MODELS[0], progress=False)


def files(folder: Path) -> dict[str, int]:
    """Files to scan, and the status that each deserves."""
    from safetensors.torch import save_file

    evil = with_pickle(fairseq_file(folder / "a"), EVIL)
    old = legacy_pickle(fairseq_file(folder / "b"), EVIL)
    archive = folder / "evil.tar.gz"
    archive.write_bytes(
        pack(regular("m/dict.txt", b"a 1\n"), regular("m/model.pt", old.read_bytes()))
    )
    save_file({"w": torch.ones(2, 3)}, folder / "w.safetensors", {"by": "\x1b[31mme"})
    (folder / "page.pt").write_bytes(b"<!DOCTYPE html><title>log in</title>")
    (folder / "lfs.pt").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    (folder / "cut.safetensors").write_bytes((folder / "w.safetensors").read_bytes()[:-4])
    (folder / "words.pt").write_text("hello")
    (folder / "cut.pt").write_bytes(SAMPLE.read_bytes()[:5000])
    (folder / "empty.pt").touch()
    good = {str(SAMPLE): 0, str(fairseq_file(folder / "c", legacy=True)): 0}
    bad = ("page.pt", "lfs.pt", "cut.safetensors", "words.pt", "cut.pt", "empty.pt", "none.pt")
    small().save(folder / "ours", format="roberta_hub")
    good[str(folder / "ours/model.safetensors")] = 0
    refused = {str(evil): 1, str(old): 1, str(archive): 1}
    none = {str(folder / name): 2 for name in bad} | {str(folder): 2}
    return {**good, **refused, **none, str(folder / "w.safetensors"): 0}


def test_scan_says_of_each_file_what_loading_does(tmp_path: Path):
    expected = files(tmp_path)
    archive = str(tmp_path / "evil.tar.gz")
    status, out, _ = run("scan", "--json", *expected)
    reports = {report["path"]: report for report in json.loads(out)}
    found = {path: report["status"] for path, report in reports.items()}
    assert found == expected
    assert status == 1
    assert not Path("harm").exists()
    evil = reports[str(tmp_path / "a/model.pt")]
    assert evil["names"][0]["name"] == "posix.system"
    assert evil["names"][0]["calls"] == ["('touch harm')"]
    assert reports[archive]["members"]["m/dict.txt"] == 4
    assert reports[str(tmp_path / "w.safetensors")]["tensors"] == {"w": [2, 3]}
    assert len(reports[str(SAMPLE)]["sha256"]) == 64
    for path, wanted in expected.items():
        if path not in (str(tmp_path), str(tmp_path / "w.safetensors")):  # no config.json there
            if wanted == 0:
                load_model(path)
                continue
            with pytest.raises((OSError, ValueError)) as error:
                load_model(path)
            assert ("refused, " in str(error.value)) == (wanted == 1), path


def test_scan_for_people(tmp_path: Path):
    expected = files(tmp_path)
    status, out, _ = run("scan", *expected)
    assert status == 1
    for words in (
        "REFUSED          posix.system (1 x in model/data.pkl)",
        "called with ('touch harm')",
        "inert stand-in   argparse.Namespace",
        "tensor plumbing  torch._utils._rebuild_tensor_v2",
        "tensors  1 (1 of float32), 24 bytes",
        r"metadata by = \x1b[31mme",
        "a web page",
        "git lfs pull",
        "does not exist",
        "is a directory",
    ):
        assert words in out
    assert "\x1b" not in out


@pytest.mark.parametrize("status", [0, 2])
def test_exit_status_of_scan(tmp_path: Path, status: int, capsys: pytest.CaptureFixture[str]):
    paths = [path for path, found in files(tmp_path).items() if found in (0, status)]
    assert main(["scan", *paths]) == status


def test_a_fine_installation(base: Path, cache: Path):
    load_model(SAMPLE)  # leaves a twin
    (cache.parent / "roberta.large.tar.gz").touch()
    status, out, _ = run("doctor", "--verify", HTTPS_PROXY="http://me:pa/ss?w@proxy:3128")
    assert status == 0, out
    assert f"roberta_hub {__version__} from {ROOT / 'roberta_hub'} (a checkout)" in out
    assert f"torch {torch.__version__}" in out
    assert "roberta.base: complete, verified, 1.75 MB, archive sha256 " in out
    assert "twins: safetensors copies of 1 pickles, " in out
    assert "roberta.large: also as an archive in torch.hub's cache: " in out
    assert "HTTPS_PROXY = http://***@proxy:3128" in out
    assert "pa/ss" not in out and "me:" not in out
    assert "right ids" in out and "No problems" in out


def test_each_problem_comes_with_its_remedy(base: Path, cache: Path):
    model = base / "model.pt"
    model.write_bytes(model.read_bytes()[:-1] + b"!")
    (cache / ".incomplete-roberta.large~abc").mkdir()
    (cache / "half").mkdir()
    (cache / "digests.json").write_text("{")
    mirror = "http://user:secret@mirror.example/x?token=secret"
    status, out, _ = run("doctor", "--verify", ROBERTA_HUB_MIRROR=mirror)
    assert status == 1
    assert "model.pt changed since it was downloaded; delete that folder" in out
    assert "left by a killed process; load that model" in out
    assert "half: its manifest cannot be used" in out
    assert "digests.json is damaged" in out and "restore it or delete it" in out
    assert "is no https URL" in out
    assert "5 problems" in out
    assert "secret" not in out


def test_a_process_at_work_is_no_leftover(cache: Path, capsys: pytest.CaptureFixture[str]):
    from filelock import FileLock

    (cache / ".incomplete-toy~abc").mkdir(parents=True)
    (cache / f".incomplete-other~{stage_tag()}").mkdir()  # this process lives, lock or no lock
    (cache / "notes.txt").touch()
    with FileLock(cache / ".toy.lock"):
        assert run("doctor")[0] == 0
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "other: another process is at work" in out
    assert "toy~abc was left by a killed process" in out


def test_old_torch_is_a_problem(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(torch, "__version__", "2.9.1+cpu")
    assert main(["doctor"]) == 1
    assert "CVE-2026-24747" in capsys.readouterr().out


def test_pin_gives_rows_that_the_catalogue_takes(base: Path, capsys: pytest.CaptureFixture[str]):
    digest = json.loads((base / "manifest.json").read_text())["archive_sha256"]
    pin = load_script(TOOLS / "pin.py").pin
    assert pin() == 0
    out = capsys.readouterr().out
    names = {"Record": Record, "archive": archive, "repository": repository}
    names |= {"Origin": Origin, "Remote": Remote}  # of relatives, whose origins are written out
    (row,) = eval(f"({out})", names)
    (file,) = files_of(row, "fairseq")
    assert file.sha256 == digest
    assert file.url == files_of(MODELS[0], "fairseq")[0].url
    assert replace(row, origins=MODELS[0].origins) == MODELS[0]  # all that is no pin
    assert "not from the publisher" in out  # it came from a mirror
    for name in [record.name for record in DOWNLOADED_MODELS[1:]]:
        assert f"# {name}: no digest on record" in out
    assert file.size == known_digests()[file.url].size
    assert row.origins[1:] == MODELS[0].origins[1:]
    archives = [file for record in DOWNLOADED_MODELS for file in files_of(record, "fairseq")]
    table = {file.url: {"size": 7, "sha256": "0" * 64} for file in archives}
    for remote in files_of(MODELS[1], "huggingface"):
        table[remote.url] = {"size": 9, "sha256": "1" * 64}
    (base.parent / "digests.json").write_text(json.dumps(table))
    assert pin() == 1
    shown = capsys.readouterr().out
    assert "# roberta.base: NOT PINNED" in shown
    rows = eval(f"({shown})", names)
    labels = {"mnli": ("contradiction", "neutral", "entailment")}
    relatives, rows = rows[3:], rows[:3]
    assert [dict(row.labels) for row in rows] == [{}, labels, {}]
    assert rows[2].task == "wsc"
    sizes = [(files_of(row, "fairseq")[0].size, len(row.origins) == 1) for row in rows]
    assert sizes == [(7, False), (7, False), (7, True)]
    second = files_of(rows[0], "huggingface")
    assert [(file.size, file.sha256) for file in second] == [(9, "1" * 64)] * 2
    assert rows[1].origins[1:] == MODELS[2].origins[1:]  # nothing on record, nothing invented
    known = {record.name: record for record in DOWNLOADED_MODELS}
    for row in relatives:
        (file,) = files_of(row, "fairseq")
        assert (file.size, file.sha256) == (7, "0" * 64)
        origin = replace(row.origins[0], files=known[row.name].origins[0].files)
        assert replace(row, origins=(origin, *row.origins[1:])) == known[row.name]


def test_models(base: Path, cache: Path, capsys: pytest.CaptureFixture[str]):
    (cache.parent / "roberta.large.tar.gz").touch()
    assert main(["models"]) == 0
    out = capsys.readouterr().out
    rows = [line.split() for line in out.splitlines()[1:]]
    assert [row[0] for row in rows] == available_models()
    assert [row[-1] for row in rows[:5]] == ["yes", "cache", "no", "no", "package"]
    assert {row[-1] for row in rows[5:]} == {"no"}
    assert "CC-BY-NC 4.0" in out  # SpanBERT's
    assert "in torch.hub's cache" in out
    assert "124,696,665" in out


def test_help_version_and_wrong_usage(capsys: pytest.CaptureFixture[str]):
    for arguments, status, words in (
        (["--help"], 0, "examples:"),
        (["--version"], 0, __version__),
        (["scan"], 2, "FILE"),
        ([], 2, "usage"),
        (["paint"], 2, "scan"),
    ):
        with pytest.raises(SystemExit) as end:
            main(arguments)
        captured = capsys.readouterr()
        assert end.value.code == status
        assert words in captured.out + captured.err


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://proxy:80", "http://proxy:80"),
        ("http://a:b@proxy", "http://***@proxy"),
        ("a:b@proxy:80", "***@proxy:80"),
        ("http://a:b@c@proxy", "http://***@proxy"),
        ("https://host/x?token=1", "https://host/x?***"),
        ("HTTP://a@h\n\x1b", r"HTTP://***@h\n\x1b"),
    ],
)
def test_no_credentials_in_urls(url: str, shown: str):
    assert without_secrets(url) == shown
